"""Dictionaries: atoms to start from, and signals cut from images."""
