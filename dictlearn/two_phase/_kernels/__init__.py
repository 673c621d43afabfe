"""Compiled code of the two-phase network."""
