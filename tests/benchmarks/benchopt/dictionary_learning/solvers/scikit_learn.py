"""The online algorithm of Mairal and others, in scikit-learn."""

import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.exceptions import ConvergenceWarning


class Solver(BaseSolver):
    """J. Mairal, F. Bach, J. Ponce and G. Sapiro, "Online dictionary learning for sparse coding", ICML 2009,
    in scikit-learn; codes by coordinate descent.
    """

    name = "scikit-learn"
    parameters = {"batch_size": [256]}  # noqa: RUF012
    requirements = ["scikit-learn"]  # noqa: RUF012

    def set_objective(self, signals, start, penalty, samples_per_iteration):
        self.signals, self.start, self.penalty = signals, start, penalty
        self.samples_per_iteration = samples_per_iteration

    def run(self, n_iter):
        learner = MiniBatchDictionaryLearning(
            n_components=len(self.start),
            alpha=self.penalty,
            batch_size=self.batch_size,
            fit_algorithm="cd",
            positive_code=True,
            positive_dict=True,
            dict_init=self.start,
            random_state=0,
            n_jobs=1,
        )
        order = np.random.default_rng(0)
        left = np.empty(0, dtype=int)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for _ in range(n_iter * self.samples_per_iteration // self.batch_size):
                if len(left) < self.batch_size:
                    left = np.concatenate([left, order.permutation(len(self.signals))])
                learner.partial_fit(self.signals[left[: self.batch_size]])
                left = left[self.batch_size :]
        self.dictionary = learner.components_ if n_iter else self.start

    def get_result(self):
        return {"dictionary": self.dictionary}
