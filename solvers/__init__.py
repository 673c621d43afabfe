"""Sparse coding: LASSO problems, several solvers, and certificates that do not depend on the solvers."""

from importlib import import_module
from typing import TYPE_CHECKING

# Other distributions install packages of these names, too.
import snn

if getattr(snn, "__distribution__", None) != "sparsespike":
    raise ImportError(
        f"solvers needs the package snn of sparsespike; got another one of that name, "
        f"{snn.__file__}: install sparsespike into an environment without it"
    )

from solvers.certificate.optimality import duality_gap, kkt_violation, objective, penalty_max
from solvers.derivatives import CodeDerivatives, CodeGradients
from solvers.exchange import problem_to_nir
from solvers.methods.active_set import solve_active_set
from solvers.methods.fista import solve_fista
from solvers.methods.method import METHODS, Method, solve
from solvers.methods.on_core import core_network, solve_on_core
from solvers.methods.spiking import solve_digital, solve_spiking
from solvers.precompile import warm_up
from solvers.problem.convolutional_dictionary import ConvolutionalDictionary
from solvers.problem.lasso import LassoModel, LassoProblem
from solvers.problem.memory import memory_limit
from solvers.problem.messages import IllPosedWarning, ZeroCodesWarning
from solvers.problem.penalty import ElasticNet
from solvers.problem_network import SpikingCodingResult, lasso_network
from solvers.results.codes import Status
from solvers.results.result import OperationLedger, SparseCodingResult, certify
from solvers.studies.compare import Comparison, compare
from solvers.studies.design_space import DesignSpace, design_space
from solvers.studies.held_out import held_out_score
from solvers.studies.path import PathResult, path
from solvers.studies.reweighted import ReweightedResult, reweighted
from solvers.studies.stream import SparseCodingStream

if TYPE_CHECKING:
    from solvers.estimator import SpikingSparseCoder
    from solvers.programs.program import ProgramResult, QuadraticProgram, solve_qp
    from solvers.regressor import LassoRegressor, LassoRegressorCV

__distribution__ = "sparsespike"
__version__ = snn.__version__

__all__ = [
    "METHODS",
    "CodeDerivatives",
    "CodeGradients",
    "Comparison",
    "ConvolutionalDictionary",
    "DesignSpace",
    "ElasticNet",
    "IllPosedWarning",
    "LassoModel",
    "LassoProblem",
    "LassoRegressor",
    "LassoRegressorCV",
    "Method",
    "OperationLedger",
    "PathResult",
    "ProgramResult",
    "QuadraticProgram",
    "ReweightedResult",
    "SparseCodingResult",
    "SparseCodingStream",
    "SpikingCodingResult",
    "SpikingSparseCoder",
    "Status",
    "ZeroCodesWarning",
    "certify",
    "compare",
    "core_network",
    "design_space",
    "duality_gap",
    "held_out_score",
    "kkt_violation",
    "lasso_network",
    "memory_limit",
    "objective",
    "path",
    "penalty_max",
    "problem_to_nir",
    "reweighted",
    "solve",
    "solve_active_set",
    "solve_digital",
    "solve_fista",
    "solve_on_core",
    "solve_qp",
    "solve_spiking",
    "warm_up",
]


# These modules are imported at the first use of a name.  The import of scikit-learn takes longer than all
# other imports, and the import of linprog is slow, too.
_LATER = {
    "SpikingSparseCoder": "solvers.estimator",
    **dict.fromkeys(("LassoRegressor", "LassoRegressorCV"), "solvers.regressor"),
    **dict.fromkeys(("ProgramResult", "QuadraticProgram", "solve_qp"), "solvers.programs.program"),
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(_LATER[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
