"""Updates beside gradients: how well the updates of the two-phase network follow the gradients.

The two-phase network changes its weights by outer products of what its neurons observed of their own two
phases (`rules`).  In the limit of long phases these are the gradients of the learning problem.  This module
measures how far that holds for short phases: it runs a network, asks the rules for their updates, and
computes the true gradients from the code that the network tends to.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.two_phase import rules
from dictlearn.two_phase.network import Task, TwoPhaseNetwork, checked_phases
from dictlearn.two_phase.phases import Phase
from snn.base import checks
from snn.base.drawn import Drawn
from snn.base.html import number, value_range
from solvers import METHODS, LassoProblem, solve
from solvers.problem.messages import zeros_expected

LAYERS = ("feedforward", "feedback", "lateral")
DURATIONS = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
QUARTILES = (0.25, 0.5, 0.75)

# From here on a network counts as consistent and symmetric: then its code is that of a LASSO.
CONSISTENT = 1.0 - 1e-9
# Of the duality gap; the active-set method ends well below it.
TOL = 1e-9
# Of each phase of the run that any other network's code is read from, at least: and so many times the
# longest duration that is checked.
SETTLING = 2000.0
SETTLING_RATIO = 4.0


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GradientCheck(Drawn):
    """How well the updates of a two-phase network follow the gradients.

    The arrays' axes are the read-outs, the layers (`LAYERS`: F, B and H), the durations, and the signals.
    Entries are NaN where there is no gradient: for the lateral layer of a consistent network.

    Attributes
    ----------
    readouts : tuple of str
        As `rules.READOUTS`.
    durations : ndarray, shape (n_durations,)
        T of each phase, in synaptic time constants.
    cosine : ndarray, shape (n_readouts, 3, n_durations, n_signals)
        Of the update of one signal and the gradient at the code in the limit; 0 for no update.
    error : ndarray, of the same shape
        Norm of the difference of the two, as a share of the norm of the gradient.
    same_code_error : ndarray, of the same shape
        Likewise of g_D (F and B) and g_H (H) alone, and the gradients at the average filtered spikes of
        the same phase: the error that remains at the right code.  With "current" that is rounding.
    mean_cosine, mean_error : ndarray, shape (n_readouts, 3, n_durations)
        Of the updates of all signals together, as of a batch that large, and their gradient: the error
        that does not average out.
    codes : ndarray, shape (n_signals, n_atoms)
        The codes in the limit.
    signals : ndarray of int, shape (n_signals,)
        Which signals these are: those whose code is zero have no gradient, and are left out.
    """

    readouts: tuple[str, ...]
    durations: np.ndarray
    cosine: np.ndarray
    error: np.ndarray
    same_code_error: np.ndarray
    mean_cosine: np.ndarray
    mean_error: np.ndarray
    codes: np.ndarray
    signals: np.ndarray

    def __post_init__(self) -> None:
        checks.freeze_arrays(self)

    def _facts(self) -> dict[str, str]:
        longest = f"{self.durations[-1]:g}"
        errors = {
            f"median error of {name}, T = {longest}": ", ".join(
                f"{number(self.quartiles('error', readout, layer)[1, -1].item())} ({readout})"
                for readout in self.readouts
            )
            for layer, name in (("feedback", "F and B"), ("lateral", "H"))
        }
        return {
            "signals": number(len(self.signals)),
            "durations of a phase": f"{number(len(self.durations))}, {value_range(self.durations)}",
            **errors,
        }

    def mean(self, measure: str, readout: str, layer: str) -> np.ndarray:
        """Return the mean over the signals of a measure, shape (n_durations,).

        Parameters
        ----------
        measure : {"cosine", "error", "same_code_error"}
        readout : str
            One of `rules.READOUTS`.
        layer : str
            One of `LAYERS`.
        """
        values = self._chosen(measure, readout, layer)
        seen = ~np.isnan(values)
        total = np.where(seen, values, 0.0).sum(axis=-1)
        return np.divide(total, seen.sum(axis=-1), out=np.full(len(total), np.nan), where=seen.any(axis=-1))

    def quartiles(self, measure: str, readout: str, layer: str) -> np.ndarray:
        """Return the quartiles over the signals of a measure, shape (3, n_durations).

        Parameters
        ----------
        measure, readout, layer
            As for `mean`.
        """
        values = self._chosen(measure, readout, layer)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN slice", RuntimeWarning)
            return np.nanquantile(values, QUARTILES, axis=-1)

    def _chosen(self, measure: str, readout: str, layer: str) -> np.ndarray:
        measure = checks.one_of("measure", measure, ("cosine", "error", "same_code_error"))
        readout = checks.one_of("readout", readout, self.readouts)
        layer = checks.one_of("layer", layer, LAYERS)
        return getattr(self, measure)[self.readouts.index(readout), LAYERS.index(layer)]


def check_gradients(
    network: TwoPhaseNetwork,
    signals: ArrayLike,
    *,
    penalty: float | ArrayLike,
    kappa: float = 0.7,
    durations: Sequence[float] = DURATIONS,
    initial_potential: float = 0.5,
    reweighting: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> GradientCheck:
    """Compare the updates of a two-phase network with the gradients that they approximate.

    The updates are those of `rules`, both read-outs from the same runs: ``a_kappa g_D / kappa`` for F and
    B, ``g_H a_kappa / kappa`` for H, without decay or projection.  The gradients, at the code a that the
    phase with feedback tends to::

        F: a (B a - x)^T      B: (B a - x) a^T      H: (H - F B) a a^T

    with zeros in B a - x where x is unknown: the gradients of ``1/2 ||m (x - B a)||^2``, m the mask.

    Parameters
    ----------
    network : TwoPhaseNetwork
        Any; see Notes.
    signals : array_like, shape (n_signals, n_inputs)
        Not negative, unless the network is for others; in the network's units, `TwoPhaseLearner.scale` times
        those of the data.
    penalty : float or array_like, shape (n_atoms,)
        lambda1, positive, in the same units; of all atoms or of each.
    kappa : float, default 0.7
        Strength of the feedback in the second phase, in (0, 1).
    durations : sequence of float
        T of each phase, in synaptic time constants; increasing.
    initial_potential : float, default 0.5
        Where potentials start, as a share of the thresholds, in [0, 1).
    reweighting : array_like, shape (n_atoms,), optional
        s, the weights of the penalty; by default 1.
    mask : array_like of bool, shape (n_signals, n_inputs) or (n_inputs,), optional
        True where a signal is known, by default everywhere.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.

    Returns
    -------
    GradientCheck

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value, or every code is zero.
    RunawayFeedbackError
        If the network runs away.

    Notes
    -----
    The code of a network that is consistent and symmetric (to 1e-9) is the optimum for the atoms B^T and the
    penalty lambda1 s, which the active-set method solves exactly.  Any other network has a code of its own,
    which a mismatch of H moves by as much as the feedback is strong (Theorem 2 of the reference).  The code
    of its gradients is then read, as average filtered spikes, from the phase with feedback of a run with
    phases of 2000 time constants, or four times the longest of `durations` if that is more.

    That is not what a run with feedback from the start would tend to: a neuron that the first phase silences
    enters the second with a potential as far below the threshold as the first was long, and may need all of
    the second to climb.

    References
    ----------
    Lin and Tang (2018), arXiv:1805.08952, equations 9 to 12.
    """
    checks.instance_of("network", network, TwoPhaseNetwork)
    lengths = checks.real_array("durations", durations, shape=(None,), meaning="one after the other")
    if lengths[0] <= 0.0 or (np.diff(lengths) <= 0.0).any():
        raise ValueError(f"durations must be positive and increase; got {lengths.tolist()}")
    task = Task.checked(network, signals, penalty, reweighting, mask)
    settling = max(SETTLING, SETTLING_RATIO * float(lengths[-1]))
    kappa, settling, initial_potential, *_ = checked_phases(kappa, settling, initial_potential)

    options: dict[str, Any] = {
        "penalty": task.penalty,
        "kappa": kappa,
        "reweighting": task.reweighting,
        "initial_potential": initial_potential,
        "n_jobs": n_jobs,
    }
    codes = limiting_codes(network, task.signals, duration=settling, mask=task.mask, **options)
    chosen = np.flatnonzero(codes.any(axis=1))
    if not len(chosen):
        raise ValueError(
            f"penalty must be small enough for a code that is not zero; got {task.penalty.min()}"
        )
    codes, signals = codes[chosen], task.signals[chosen]
    mask = None if task.mask is None else task.mask[chosen]
    known = np.ones(signals.shape, dtype=bool) if mask is None else mask
    mismatch = _mismatch(network)
    rows = [slice(k, k + 1) for k in range(len(chosen))]
    gradients = _gradients(network, mismatch, codes, signals, known)

    alone = np.empty((2, len(rules.READOUTS), len(LAYERS), len(lengths), len(chosen)))
    together = np.empty(alone.shape[:-1])
    same_code = np.empty(alone.shape[1:])
    for t, duration in enumerate(lengths):
        phases = network.run(signals, duration=float(duration), mask=mask, **options)
        for r, readout in enumerate(rules.READOUTS):
            seen = _Seen.of(network, phases, kappa, readout, mask)
            traces = phases[1].coding_trace
            same_code[r, :, t] = _same_code_errors(network, mismatch, signals, known, seen, traces)
            together[:, r, :, t] = _compared(seen.updates(slice(None)), gradients)
            for k, row in enumerate(rows):
                # Computed again each time: for all signals at once they would need much memory.
                gradient = _gradients(network, mismatch, codes[row], signals[row], known[row])
                alone[:, r, :, t, k] = _compared(seen.updates(row), gradient)
    return GradientCheck(
        readouts=rules.READOUTS,
        durations=lengths,
        cosine=alone[0],
        error=alone[1],
        same_code_error=same_code,
        mean_cosine=together[0],
        mean_error=together[1],
        codes=codes,
        signals=chosen,
    )


def limiting_codes(
    network: TwoPhaseNetwork,
    signals: np.ndarray,
    *,
    penalty: float | np.ndarray,
    kappa: float = 0.7,
    duration: float = SETTLING,
    initial_potential: float = 0.5,
    reweighting: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Return the codes that the second of two long phases tends to, shape (n_signals, n_atoms).

    Exactly, if the network is consistent and symmetric; otherwise read from a run: `check_gradients`, Notes.
    """
    checks.instance_of("network", network, TwoPhaseNetwork)
    task = Task.checked(network, signals, penalty, reweighting, mask)
    if min(network.consistency, network.symmetry) >= CONSISTENT and task.reweighting.min() > 0.0:
        return _exact_codes(network, task, n_jobs)
    _, second = network.run(
        task.signals,
        penalty=task.penalty,
        kappa=kappa,
        duration=duration,
        reweighting=task.reweighting,
        mask=task.mask,
        initial_potential=initial_potential,
        n_jobs=n_jobs,
    )
    return np.where(second.coding_rate != 0.0, second.coding_trace, 0.0)


def _exact_codes(network: TwoPhaseNetwork, task: Task, n_jobs: int | None) -> np.ndarray:
    """Return the optima for the atoms B^T."""
    penalty = task.penalty * task.reweighting
    positive = network.positive_code
    problem = LassoProblem(network.feedback.T, task.signals, penalty, positive=positive, mask=task.mask)
    with zeros_expected():  # that is an error here
        return solve(problem, METHODS["active_set_from_spikes"], tol=TOL, n_jobs=n_jobs).codes


@dataclass(frozen=True, eq=False, kw_only=True)
class _Seen:
    """What the rules are given, one row for each signal."""

    codes: np.ndarray
    g_d: np.ndarray
    g_h: np.ndarray
    kappa: float

    @classmethod
    def of(
        cls,
        network: TwoPhaseNetwork,
        phases: tuple[Phase, Phase],
        kappa: float,
        readout: str,
        mask: np.ndarray | None,
    ) -> _Seen:
        seen: dict[str, Any] = {"readout": readout, "mask": mask}
        return cls(
            codes=rules.code(phases[1], readout=readout, positive=network.positive_code),
            g_d=rules.reconstruction_gradient(*phases, **seen),
            g_h=rules.lateral_gradient(network.feedforward, network.lateral, *phases, kappa=kappa, **seen),
            kappa=kappa,
        )

    def updates(self, row: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what the rules would subtract from F, B and H at a step of one."""
        codes, g_d = self.codes[row], self.g_d[row]
        n_atoms, n_inputs = codes.shape[1], g_d.shape[1]
        change: dict[str, Any] = {"kappa": self.kappa, "step": -1.0, "least": -np.inf}
        # The transposes of rows, as the rules take them.
        feedforward = np.zeros((n_inputs, n_atoms)).T
        feedback, lateral = np.zeros((n_atoms, n_inputs)).T, np.zeros((n_atoms, n_atoms)).T
        rules.update_feedforward(feedforward, codes, g_d, **change)
        rules.update_feedback(feedback, codes, g_d, **change)
        rules.update_lateral(lateral, codes, self.g_h[row], **change)
        return feedforward, feedback, lateral


def _mismatch(network: TwoPhaseNetwork) -> np.ndarray:
    """Return H - F B, zero where it is rounding."""
    mismatch = network.lateral - network.feedforward @ network.feedback
    return np.zeros_like(mismatch) if network.consistency >= CONSISTENT else mismatch


def _gradients(
    network: TwoPhaseNetwork,
    mismatch: np.ndarray,
    codes: np.ndarray,
    signals: np.ndarray,
    known: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the gradients of F, B and H, of all signals together."""
    residual = known * (codes @ network.feedback.T - signals)
    return codes.T @ residual, residual.T @ codes, (codes @ mismatch.T).T @ codes


def _compared(updates: Sequence[np.ndarray], gradients: Sequence[np.ndarray]) -> np.ndarray:
    """Return the cosine and the relative error of each layer, shape (2, n_layers)."""
    figures = np.full((2, len(updates)), np.nan)
    for layer, (update, gradient) in enumerate(zip(updates, gradients, strict=True)):
        size, length = np.linalg.norm(gradient), np.linalg.norm(update)
        if size > 0.0:
            figures[0, layer] = np.vdot(update, gradient) / (length * size) if length > 0.0 else 0.0
            figures[1, layer] = np.linalg.norm(update - gradient) / size
    return figures


def _same_code_errors(
    network: TwoPhaseNetwork,
    mismatch: np.ndarray,
    signals: np.ndarray,
    known: np.ndarray,
    seen: _Seen,
    codes: np.ndarray,
) -> np.ndarray:
    """Return the relative errors of g_D (twice) and g_H at the codes of the phase, shape (3, n_signals)."""
    errors = []
    for g, gradient in (
        (seen.g_d, known * (codes @ network.feedback.T - signals)),
        (seen.g_h, codes @ mismatch.T),
    ):
        sizes = np.linalg.norm(gradient, axis=1)
        difference = np.linalg.norm(g / seen.kappa - gradient, axis=1)
        errors.append(np.divide(difference, sizes, out=np.full(len(sizes), np.nan), where=sizes > 0.0))
    return np.array([errors[0], *errors])
