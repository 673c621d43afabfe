"""scikit-learn's callbacks, from 1.9 on: the passes of a fit are its tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator

from dictlearn.two_phase.learner import RECORD_EVERY, TwoPhaseLearner

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before 1.9 there is no `set_callbacks`

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing: this scikit-learn has no callbacks."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "FitTasks", "with_callbacks"]


class FitTasks:
    """What is called while a fit goes on: the hooks of scikit-learn's callbacks, and a plain function.

    The fit is a task, and each of its passes through the signals is a task in it.

    Parameters
    ----------
    estimator : SpikingDictionaryLearning
        What is fitted.
    data : dict
        The arguments of `fit`, `X` and `y`.
    n_signals, n_passes : int
        Of a pass, and in all.
    attributes : callable
        Returns the attributes that a fit which ends with a given learner has.
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        data: dict[str, Any],
        *,
        n_signals: int,
        n_passes: int,
        attributes: Callable[[TwoPhaseLearner], dict[str, Any]],
    ) -> None:
        self._fit: Any = None
        self._pass: Any = None
        self._n_signals, self._n_ended = n_signals, 0
        self._data, self._attributes, self._n_passes = {"estimator": estimator, **data}, attributes, n_passes
        self._function, self._batch_size = estimator.callback, estimator.batch_size
        if getattr(estimator, "_skl_callbacks", None) or hasattr(estimator, "_parent_callback_ctx"):
            self._fit = estimator._init_callback_context(max_subtasks=n_passes)
            self._fit.call_on_fit_task_begin(**self._data)
            self._begin_pass()

    @property
    def callback(self) -> Callable[[TwoPhaseLearner], bool | None] | None:
        """What `continue_learning` is to call."""
        return self._function if self._fit is None else self._after_batch

    @property
    def callback_every(self) -> int:
        """How often, in samples."""
        return RECORD_EVERY if self._fit is None else 1

    def end(self, learner: TwoPhaseLearner) -> None:
        """End the fit."""
        if self._fit is not None:
            if self._pass is not None:
                self._end_pass(learner)
            self._fit.call_on_fit_task_end(**self._data, reconstruction_attributes=self._of(learner))

    def _after_batch(self, learner: TwoPhaseLearner) -> bool:
        n = learner.n_samples
        stop = False
        # More than one where learning continues from a checkpoint.
        while self._n_ended < n // self._n_signals:
            stop = self._end_pass(learner) or stop
            if self._n_ended < self._n_passes and not stop:
                self._begin_pass()
        if self._function is not None:
            # Batches end with the pass.
            n_before = n - 1 - (n - 1) % self._n_signals % self._batch_size
            if n == self._n_passes * self._n_signals or n // RECORD_EVERY > n_before // RECORD_EVERY:
                stop = bool(self._function(learner)) or stop
        return stop

    def _begin_pass(self) -> None:
        self._pass = self._fit.subcontext(task_name="pass")
        self._pass.call_on_fit_task_begin(**self._data)

    def _end_pass(self, learner: TwoPhaseLearner) -> bool:
        ended, self._pass = self._pass, None
        self._n_ended += 1
        return ended.call_on_fit_task_end(**self._data, reconstruction_attributes=self._of(learner))

    def _of(self, learner: TwoPhaseLearner) -> Callable[[], dict[str, Any]]:
        """Return a function that returns the attributes of an estimator with a copy of the learner."""

        def attributes() -> dict[str, Any]:
            copied = object.__new__(TwoPhaseLearner)
            copied.copy_from(learner)
            return self._attributes(copied)

        return attributes
