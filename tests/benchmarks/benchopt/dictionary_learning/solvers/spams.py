"""The online algorithm of Mairal and others, in SPAMS."""

import numpy as np
from benchopt import BaseSolver
from spams import trainDL

# min over codes of 1/2 ||x - D a||^2 + lambda1 ||a||_1
PENALISED = 2


class Solver(BaseSolver):
    """J. Mairal, F. Bach, J. Ponce and G. Sapiro, "Online dictionary learning for sparse coding", ICML 2009,
    in the package of its authors; codes by LARS.
    """

    name = "SPAMS"
    parameters = {"batch_size": [256]}  # noqa: RUF012
    requirements = ["pip::spams-bin"]  # noqa: RUF012

    def set_objective(self, signals, start, penalty, samples_per_iteration):
        self.columns, self.start = np.asfortranarray(signals.T), np.asfortranarray(start.T)
        self.penalty, self.samples_per_iteration = penalty, samples_per_iteration

    def run(self, n_iter):
        self.dictionary = self.start
        if n_iter:
            self.dictionary = trainDL(
                self.columns,
                D=self.start.copy(order="F"),
                mode=PENALISED,
                lambda1=self.penalty,
                posAlpha=True,
                posD=True,
                batchsize=self.batch_size,
                iter=n_iter * self.samples_per_iteration // self.batch_size,
                numThreads=1,
                verbose=False,
            )

    def get_result(self):
        return {"dictionary": np.ascontiguousarray(self.dictionary.T)}
