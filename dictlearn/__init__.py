"""Dictionaries: the two-phase network, how it learns, and signals cut from images."""

from typing import TYPE_CHECKING

from dictlearn.atoms import overcomplete_dct
from dictlearn.audit import GradientAudit, audit_gradients
from dictlearn.baselines import LearningCurve, learn_by_gradient_descent, learn_with_scikit_learn
from dictlearn.channels import join_channels, split_channels
from dictlearn.denoising import DenoisingResult, denoise
from dictlearn.judge import AtomMatch, DictionaryScore, match_atoms, mean_objective
from dictlearn.learner import TwoPhaseLearner
from dictlearn.learning import learn_dictionary
from dictlearn.network import TwoPhaseNetwork
from dictlearn.patches import (
    extract_patches,
    random_patches,
    reconstruct_from_patches,
)
from dictlearn.plotting import plot_atoms, plot_audit
from dictlearn.preprocessing import normalise, remove_mean, whiten
from dictlearn.settings import LearningSettings
from dictlearn.start import random_dictionary, random_network
from dictlearn.start_up import warm_up
from dictlearn.steps import PaperSteps, UsageSteps
from dictlearn.synapses import Phase, RunawayFeedbackError

if TYPE_CHECKING:
    from dictlearn.estimator import SpikingDictionaryLearning

__all__ = [
    "AtomMatch",
    "DenoisingResult",
    "DictionaryScore",
    "GradientAudit",
    "LearningCurve",
    "LearningSettings",
    "PaperSteps",
    "Phase",
    "RunawayFeedbackError",
    "SpikingDictionaryLearning",
    "TwoPhaseLearner",
    "TwoPhaseNetwork",
    "UsageSteps",
    "audit_gradients",
    "denoise",
    "extract_patches",
    "join_channels",
    "learn_by_gradient_descent",
    "learn_dictionary",
    "learn_with_scikit_learn",
    "match_atoms",
    "mean_objective",
    "normalise",
    "overcomplete_dct",
    "plot_atoms",
    "plot_audit",
    "random_dictionary",
    "random_network",
    "random_patches",
    "reconstruct_from_patches",
    "remove_mean",
    "split_channels",
    "warm_up",
    "whiten",
]


def __getattr__(name: str) -> object:
    # An estimator needs scikit-learn, which takes longer to import than all else together.
    if name != "SpikingDictionaryLearning":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dictlearn.estimator import SpikingDictionaryLearning

    globals()[name] = SpikingDictionaryLearning
    return SpikingDictionaryLearning


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
