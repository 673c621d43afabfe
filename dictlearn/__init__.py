"""Dictionaries: the two-phase network and its learning rules, atoms, and signals cut from images."""

from dictlearn.atoms import overcomplete_dct, plot_atoms
from dictlearn.network import Phase, TwoPhaseNetwork
from dictlearn.patches import extract_patches, reconstruct_from_patches, remove_mean

__all__ = [
    "Phase",
    "TwoPhaseNetwork",
    "extract_patches",
    "overcomplete_dct",
    "plot_atoms",
    "reconstruct_from_patches",
    "remove_mean",
]
