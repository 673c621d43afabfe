"""The two-phase network of spiking neurons."""

from benchopt import BaseSolver

from dictlearn import LearningSettings, learn_dictionary


class Solver(BaseSolver):
    """T.-H. Lin and P. T. P. Tang, "Dictionary Learning by Dynamical Neural Networks", arXiv:1805.08952,
    2018.

    Codes and gradients are read from the spikes of one network with feedback; no solver runs beside it.
    """

    name = "sparsespike"
    parameters = {"batch_size": [32]}  # noqa: RUF012
    requirements = ["pip::sparsespike"]  # noqa: RUF012

    def set_objective(self, signals, start, penalty, samples_per_iteration):
        self.signals, self.start, self.samples_per_iteration = signals, start, samples_per_iteration
        self.settings = LearningSettings(penalty=penalty, batch_size=self.batch_size)

    def warm_up(self):
        # Kernels are compiled at their first call.
        self.run_once(1)

    def run(self, n_iter):
        self.dictionary = self.start
        if n_iter:
            self.dictionary = learn_dictionary(
                self.signals,
                start=self.start,
                settings=self.settings,
                n_samples=n_iter * self.samples_per_iteration,
                rng=0,
                n_jobs=1,
            ).dictionary

    def get_result(self):
        return {"dictionary": self.dictionary}
