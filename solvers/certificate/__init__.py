"""Certificates: how far a code is from the optimum. They call no solver."""
