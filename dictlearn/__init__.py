"""Dictionary learning by the two-phase network, its evaluation and baselines, and signals from images."""

from typing import TYPE_CHECKING

# Other distributions install packages of these names, too.
import solvers

if getattr(solvers, "__distribution__", None) != "sparsespike":
    raise ImportError(
        f"dictlearn needs the package solvers of sparsespike; got another one of that name, "
        f"{solvers.__file__}: install sparsespike into an environment without it"
    )

from dictlearn.baselines import LearningCurve, learn_by_gradient_descent, learn_with_scikit_learn
from dictlearn.displays import AtomsDisplay, LearningDisplay
from dictlearn.evaluation import AtomMatch, DictionaryScore, match_atoms, mean_objective
from dictlearn.images.channels import join_channels, split_channels
from dictlearn.images.dct import overcomplete_dct
from dictlearn.images.denoising import DenoisingResult, denoise
from dictlearn.images.patches import extract_patches, random_patches, reconstruct_from_patches
from dictlearn.images.plotting import plot_atoms
from dictlearn.images.preprocessing import normalise, remove_mean, whiten
from dictlearn.precompile import warm_up
from dictlearn.two_phase import rules
from dictlearn.two_phase.gradient_check import GradientCheck, check_gradients
from dictlearn.two_phase.learner import TwoPhaseLearner
from dictlearn.two_phase.learning import continue_learning, learn_dictionary, new_learner
from dictlearn.two_phase.network import TwoPhaseNetwork
from dictlearn.two_phase.phases import Phase, RunawayFeedbackError
from dictlearn.two_phase.plotting import plot_gradient_check
from dictlearn.two_phase.settings import LearningSettings
from dictlearn.two_phase.start import random_dictionary, random_network
from dictlearn.two_phase.steps import PaperSteps, UsageSteps

if TYPE_CHECKING:
    from dictlearn.estimator import SpikingDictionaryLearning

__all__ = [
    "AtomMatch",
    "AtomsDisplay",
    "DenoisingResult",
    "DictionaryScore",
    "GradientCheck",
    "LearningCurve",
    "LearningDisplay",
    "LearningSettings",
    "PaperSteps",
    "Phase",
    "RunawayFeedbackError",
    "SpikingDictionaryLearning",
    "TwoPhaseLearner",
    "TwoPhaseNetwork",
    "UsageSteps",
    "check_gradients",
    "continue_learning",
    "denoise",
    "extract_patches",
    "join_channels",
    "learn_by_gradient_descent",
    "learn_dictionary",
    "learn_with_scikit_learn",
    "match_atoms",
    "mean_objective",
    "new_learner",
    "normalise",
    "overcomplete_dct",
    "plot_atoms",
    "plot_gradient_check",
    "random_dictionary",
    "random_network",
    "random_patches",
    "reconstruct_from_patches",
    "remove_mean",
    "rules",
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
