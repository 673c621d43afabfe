"""sparsespike in benchopt's benchmark of the LASSO: a file for the folder `solvers` of benchmark_lasso.

The documentation shows how to run this file: docs/performance.md, section 8.
"""

import warnings

import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from solvers import LassoProblem, solve_active_set, solve_spiking

METHODS = {"spikes": solve_spiking, "active_set": solve_active_set}


class Solver(BaseSolver):
    """P. T. P. Tang, T.-H. Lin and M. Davies, "Sparse Coding by Spiking Neural Networks: Convergence Theory
    and Computational Results", arXiv:1705.05475, 2017.

    `spikes`: a network of integrate-and-fire neurons, read through a smooth window and refined, and nothing
    else.  `active_set`: a classical active-set method, without spikes.
    """

    name = "sparsespike"
    sampling_strategy = "tolerance"
    # Its progress is relative and its bound is not: objectives of 1e4 would end at gaps of 1e-4.
    stopping_criterion = SufficientProgressCriterion(eps=1e-15, patience=4, strategy="tolerance")
    parameters = {"method": ["spikes", "active_set"]}  # noqa: RUF012 - benchopt reads a plain dict
    requirements = ["pip::sparsespike"]  # noqa: RUF012

    def skip(self, X, y, lmbd, fit_intercept):
        if sparse.issparse(X):
            return True, "sparsespike takes dense dictionaries"
        return False, None

    def set_objective(self, X, y, lmbd, fit_intercept):
        self.fit_intercept = fit_intercept
        # The best intercept is the mean of y - X beta. Columns and target without means need no intercept.
        self.means, self.mean = (X.mean(axis=0), y.mean()) if fit_intercept else (0.0, 0.0)
        self.atoms = np.ascontiguousarray((X - self.means).T)
        self.target = (y - self.mean)[np.newaxis]
        self.penalty = lmbd
        self.n_features = X.shape[1]

    def warm_up(self):
        # Kernels are compiled at their first call.
        self.run_once(1e-4)

    def run(self, tolerance):
        # Each run computes everything that depends on the dictionary again.
        problem = LassoProblem(self.atoms, self.target, self.penalty)
        with warnings.catch_warnings():
            # Near the limits of doubles the wanted gap may not be certified, and then the best code is
            # returned.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.codes = METHODS[self.method](problem, tol=tolerance).codes[0]

    def get_result(self):
        if not self.fit_intercept:
            return {"beta": self.codes}
        return {"beta": np.append(self.codes, self.mean - self.means @ self.codes)}
