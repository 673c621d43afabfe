"""Derivatives of codes with respect to signals, dictionary, penalties and weights of features."""
