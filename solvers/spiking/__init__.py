"""The LASSO's spiking network, its stages and read-outs."""
