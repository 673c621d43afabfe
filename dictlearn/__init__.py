"""Dictionary learning by the two-phase network, its evaluation, and signals from images."""

from importlib import import_module
from typing import TYPE_CHECKING

# Other distributions also install packages that are called solvers.
import solvers

if getattr(solvers, "__distribution__", None) != "sparsespike":
    raise ImportError(
        f"dictlearn needs the package solvers of sparsespike; got another one of that name, "
        f"{solvers.__file__}: install sparsespike into an environment without it"
    )

from dictlearn.evaluation import AtomMatch, DictionaryScore, match_atoms, mean_objective
from dictlearn.images.denoise import DenoisingResult, denoise
from dictlearn.images.frame import CodedImage, PreparedImage, as_pixels, prepare_image
from dictlearn.images.patches import (
    extract_patches,
    overcomplete_dct,
    random_patches,
    reconstruct_from_patches,
)
from dictlearn.images.preprocessing import join_channels, normalise, remove_mean, split_channels, whiten
from dictlearn.precompile import warm_up
from dictlearn.sizes import SizeComparison, compare_sizes
from dictlearn.two_phase import rules
from dictlearn.two_phase.fit import continue_learning, learn_dictionary, new_learner, random_dictionary
from dictlearn.two_phase.learner import TwoPhaseLearner
from dictlearn.two_phase.observed import Batch, Observed
from dictlearn.two_phase.phases import Phase, RunawayFeedbackError
from dictlearn.two_phase.rules import PaperSteps, Rule, UsageSteps
from dictlearn.two_phase.settings import LearningSettings
from dictlearn.two_phase.synapses import Synapses
from dictlearn.two_phase.two_phase_network import TwoPhaseNetwork

if TYPE_CHECKING:
    from dictlearn.estimator import SpikingDictionaryLearning
    from dictlearn.images.estimator import ConvolutionalDictionaryLearning

__distribution__ = "sparsespike"
__version__ = solvers.__version__

__all__ = [
    "AtomMatch",
    "Batch",
    "CodedImage",
    "ConvolutionalDictionaryLearning",
    "DenoisingResult",
    "DictionaryScore",
    "LearningSettings",
    "Observed",
    "PaperSteps",
    "Phase",
    "PreparedImage",
    "Rule",
    "RunawayFeedbackError",
    "SizeComparison",
    "SpikingDictionaryLearning",
    "Synapses",
    "TwoPhaseLearner",
    "TwoPhaseNetwork",
    "UsageSteps",
    "as_pixels",
    "compare_sizes",
    "continue_learning",
    "denoise",
    "extract_patches",
    "join_channels",
    "learn_dictionary",
    "match_atoms",
    "mean_objective",
    "new_learner",
    "normalise",
    "overcomplete_dct",
    "prepare_image",
    "random_dictionary",
    "random_patches",
    "reconstruct_from_patches",
    "remove_mean",
    "rules",
    "split_channels",
    "warm_up",
    "whiten",
]


# Estimators need scikit-learn, whose import takes longer than all other imports together.
_ESTIMATORS = {
    "ConvolutionalDictionaryLearning": "dictlearn.images.estimator",
    "SpikingDictionaryLearning": "dictlearn.estimator",
}


def __getattr__(name: str) -> object:
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_ESTIMATORS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
