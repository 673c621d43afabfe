"""Gram matrices (dense, on demand, convolutional) and active-set methods that use them."""
