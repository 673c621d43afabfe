"""Gram matrices: dense, on demand, convolutional, and active sets on them."""
