"""Dictionaries: atoms to start from, and signals cut from images."""

from dictlearn.atoms import overcomplete_dct, plot_atoms
from dictlearn.patches import extract_patches, reconstruct_from_patches, remove_mean

__all__ = [
    "extract_patches",
    "overcomplete_dct",
    "plot_atoms",
    "reconstruct_from_patches",
    "remove_mean",
]
