"""Dictionary learning from a set of signals, epoch after epoch: the start and the course of learning."""

import copy
import os
from collections.abc import Callable, Iterable
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.atoms import checked_atoms, unit_norm
from dictlearn.resumable import Course, batches_in_order, digest, learn_batches, seed_of_order
from dictlearn.two_phase.history import RECORD_EVERY
from dictlearn.two_phase.layers import Signs
from dictlearn.two_phase.learner import TwoPhaseLearner
from dictlearn.two_phase.observed import Batch, Observed
from dictlearn.two_phase.phases import RunawayFeedbackError, thread_count
from dictlearn.two_phase.replacement import LEAST_ATOMS
from dictlearn.two_phase.samples import LARGEST_SHARE_OF_MEAN, Samples, samples_of
from dictlearn.two_phase.settings import LearningSettings
from dictlearn.two_phase.synapses import LEAST_THRESHOLD
from dictlearn.two_phase.two_phase_network import TwoPhaseNetwork
from snn._interrupts import one_thread
from snn.base import checks
from snn.base.value import assign, replaced
from solvers.problem.messages import IllPosedWarning

# Number of signals that test whether a random start makes neurons fire; with more atoms, as many signals as
# atoms.
SIGNALS_TO_START = 1000
# Largest mean share of the atoms (or features, if fewer) in a code; with a larger share, atoms learn noise.
DENSE = 0.75


class CourseOptions(TypedDict, total=False):
    """Options of `continue_learning`."""

    n_samples: int | None
    n_jobs: int | None
    progress: bool
    callback: Callable[[TwoPhaseLearner], bool | None] | None
    callback_every: int
    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: int


def learn_dictionary(
    signals: ArrayLike | Samples,
    n_atoms: int | None = None,
    *,
    mask: ArrayLike | None = None,
    penalty: float | ArrayLike | None = None,
    settings: LearningSettings | None = None,
    start: ArrayLike | TwoPhaseNetwork | None = None,
    rng: int | np.random.Generator | None = None,
    **course: Unpack[CourseOptions],
) -> TwoPhaseLearner:
    """Learn a dictionary with the two-phase spiking network.

    The network minimises, over dictionaries D of unit-norm atoms and codes a, the mean over the signals x of
    ``1/2 ||x - a D||^2 + penalty ||a||_1``.  With a mask m, the first term is ``1/2 ||m (x - a D)||^2``.
    With `PaperSteps`, atoms have no unit norm, and the objective has the term ``lambda2 / 2 ||D||^2``.
    Signals, atoms and codes are not negative, unless the settings allow negative numbers.  Every weight
    changes only by what its own neuron observes.

    This function calls `new_learner` and then `continue_learning`.  Call both functions yourself to keep what
    was learned when an error or Ctrl-C ends learning early.

    Parameters
    ----------
    signals, n_atoms, mask, penalty, settings, start
        See `new_learner`.
    rng : int or Generator, optional
        Seed or generator of the random start and of the random order of samples.
    **course
        n_samples, n_jobs, progress, callback, callback_every, checkpoint, checkpoint_every: see
        `continue_learning`.

    Returns
    -------
    TwoPhaseLearner
        The learner; its `dictionary` has atoms of unit norm, and its `network` is the network that learned.

    Raises
    ------
    RunawayFeedbackError
        If the network runs away even on a clock of 1/128, or from event to event.

    Warns
    -----
    RuntimeWarning
        If the network runs away on a clock.  Learning then continues with steps of half the length.
    IllPosedWarning
        If one percent of the signals (at least one, of ten or more) has more than half of the energy, or if
        the mean of 200 signals or more has more than 85 % of the energy.
    sklearn.exceptions.ConvergenceWarning
        If some atoms are dead at the end, or all atoms are silent.

    References
    ----------
    Lin and Tang (2018), arXiv:1805.08952.
    """
    settings = checked_settings(settings, penalty)
    samples = samples_of(signals, mask, settings)
    samples.warn_if_ill_scaled("signals")
    # Pass a copy of the generator, so that `continue_learning` draws the same seed from the original.
    learner = new_learner(samples, n_atoms, settings=settings, start=start, rng=copy.deepcopy(rng))
    continue_learning(learner, samples, rng=rng, **course)
    return learner


def continue_learning(
    learner: TwoPhaseLearner,
    signals: ArrayLike | Samples,
    *,
    mask: ArrayLike | None = None,
    n_samples: int | None = None,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    callback: Callable[[TwoPhaseLearner], bool | None] | None = None,
    callback_every: int = RECORD_EVERY,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10_000,
) -> None:
    """Let a learner learn from signals until it has learned from `n_samples` samples.

    If learning ends early (a runaway, Ctrl-C, a full disk, an error of the callback), the learner keeps the
    weights after the last whole batch.  A second call with the same signals and `rng` continues from this
    batch and ends with the same bits as if learning had never stopped.

    Parameters
    ----------
    learner : TwoPhaseLearner
        The learner, which changes in place.
    signals, mask
        See `new_learner`.  Signals are drawn in a new random order each epoch.
    n_samples : int, optional
        Total number of samples at the end, earlier samples included; by default ten times the number of
        signals.
    rng : int or Generator, optional
        Source of the order of the samples.
    n_jobs : int, optional
        Largest number of threads that share a batch in memory; the result does not depend on the number.
    progress : bool, default False
        Whether to show a progress bar, with the objective that the network observes.
    callback : callable, optional
        Function that is called with the learner every `callback_every` samples and at the end; if it returns
        True, learning ends.
    callback_every : int, default 1000
        Number of samples between two calls of `callback`.
    checkpoint : path-like, optional
        File to which the learner is saved every `checkpoint_every` samples and at the end.  If the file
        exists, learning continues from the saved state, and ends with the same bits as if learning had never
        stopped.  If `n_samples` is larger than in the first call, the bits are the same only if the first
        call ended at the end of an epoch or of a full batch.
    checkpoint_every : int, default 10_000
        Number of samples between two checkpoints.

    Raises
    ------
    RunawayFeedbackError
        If the network runs away.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If some atoms are dead at the end, or all atoms are silent.
    IllPosedWarning
        If the code of a signal uses most of the atoms.
    """
    checks.instance_of("learner", learner, TwoPhaseLearner)
    samples = samples_of(signals, mask, learner.settings, learner.n_inputs)
    course = Course(
        progress=progress,
        callback=callback,
        callback_every=callback_every,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
    )
    n_threads = thread_count(n_jobs)
    end = 10 * samples.n_signals if n_samples is None else checks.positive_integer("n_samples", n_samples)

    def learn(rows: np.ndarray) -> float:
        def run(batch: Batch) -> Observed:
            return samples.run(batch, learner.synapses, rows, n_threads)

        return on_finer_steps(learner, lambda state: state.learn_batch(len(rows), run))

    def in_order(seed: int) -> Iterable[np.ndarray]:
        size, first = learner.settings.batch_size, learner.n_samples
        return batches_in_order(samples.n_signals, end, batch_size=size, seed=seed, first=first)

    def identity() -> dict[str, Any]:
        synapses = learner.synapses
        weights = (synapses.feedforward, synapses.feedback, synapses.lateral)
        return {
            "data": samples.digest(),
            "settings": learner.settings.as_text(),
            "number of atoms": learner.n_atoms,
            "start": digest(weights) if learner.n_samples == 0 and not learner._any_start else None,
        }

    learn_batches(
        learner,
        learn,
        in_order,
        end=end,
        seed=seed_of_order(rng),
        any_seed=rng is None,
        course=course,
        identity=identity,
    )
    _warn_of_atoms(learner, samples)


def _warn_of_atoms(learner: TwoPhaseLearner, samples: Samples) -> None:
    """Warn if atoms are dead, if all atoms are silent, or if signals use too many atoms."""
    n_atoms, n_dead = learner.n_atoms, len(learner.dead_atoms)
    silent = learner.n_fired == 0  # the neuron has not fired since its atom was replaced
    silent[learner.dead_atoms] = True
    if n_dead or silent.all():
        from sklearn.exceptions import ConvergenceWarning  # imported here, because its import takes long

        message = f"{n_dead} of {n_atoms} atoms are dead: silent for the last 1,000 samples or more; "
        message += "replacement=True replaces them"
        if silent.all():
            signals = next(samples.blocks())[0]
            drives = _drives(signals, learner.dictionary, learner.settings)
            atom = drives.max(axis=0).argmax()
            penalty = learner.settings.penalties(n_atoms)[atom]
            message = (
                f"all {n_atoms} atoms are silent: the largest correlation of a signal with an atom is "
                f"{drives[:, atom].max() + penalty:.3g}, and the penalty is {penalty:.3g}: start from "
                "signals, or try a smaller penalty or, with PaperSteps, a smaller step"
            )
        checks.warn_caller(message, ConvergenceWarning)
    n_used = learner._history.last("nonzeros")
    if n_used is not None and n_atoms >= LEAST_ATOMS and n_used > DENSE * min(n_atoms, learner.n_inputs):
        usual = 0.1 * learner.settings.amplitude / learner.scale
        checks.warn_caller(
            f"a signal uses {n_used:.0f} of {n_atoms} atoms, so that atoms learn noise: the penalty is too "
            f"small; take about a tenth of the signals' norm, {usual:.3g}",
            IllPosedWarning,
        )


@one_thread
def on_finer_steps(learner: TwoPhaseLearner, learn: Callable[[TwoPhaseLearner], float]) -> float:
    """Return what `learn` returns; halve the step of the clock each time the network runs away."""
    # If signals have an offset, all atoms are similar, and every spike inhibits all neurons.  In a long step,
    # too many neurons then fire before the inhibition arrives.
    before, new = learner.n_halvings, replaced(learner)
    while True:
        try:
            objective = learn(new)
            break
        except RunawayFeedbackError:
            if not new.can_halve:
                raise
            new.n_halvings += 1
    assign(learner, **vars(new))
    if learner.n_halvings > before:
        checks.warn_caller(
            f"the network ran away on a clock before it had learned from {learner.n_samples:,} samples; it "
            f"goes on with steps of {learner._settings_now().time.time_step:g}: subtract the mean of signals "
            "with an offset, or set time to a Clock with shorter steps",
            RuntimeWarning,
        )
    return objective


def new_learner(
    signals: ArrayLike | Samples,
    n_atoms: int | None = None,
    *,
    mask: ArrayLike | None = None,
    penalty: float | ArrayLike | None = None,
    settings: LearningSettings | None = None,
    start: ArrayLike | TwoPhaseNetwork | None = None,
    rng: int | np.random.Generator | None = None,
) -> TwoPhaseLearner:
    """Return a new learner for signals, which has not learned from any sample.

    Parameters
    ----------
    signals : array_like, shape (n_signals, n_inputs), or ClusterSamples
        The signals, which must not be negative unless the settings allow negative signals.  The root mean
        square norm of the signals sets the learner's scale.  If the mean of the signals has most of the
        energy, the steps of a clock are halved.  For signals in a file, see `dictlearn.distributed`.
    mask : array_like of bool, shape (n_signals, n_inputs) or (n_inputs,), optional
        True where a signal is known, by default everywhere.  Unknown values are ignored and may be NaN.
    n_atoms : int, optional
        Number of atoms, needed unless `start` is given.
    penalty : float or array_like, shape (n_atoms,), optional
        The penalty lambda1, positive: one number for all atoms, or one number for each atom.  A penalty is
        needed if `settings` is None.
    settings : LearningSettings, optional
        Settings of the network and of learning; by default `LearningSettings` with `penalty`.
    start : array_like, shape (n_atoms, n_inputs), or TwoPhaseNetwork, optional
        A dictionary, which is scaled to unit norms, or a network with the same signs as the settings.  The
        default is a `random_dictionary`.  If these random atoms make no neuron fire for most signals, which
        happens in many dimensions, each atom of the start is the normalised sum of a random atom and a
        signal.
    rng : int or Generator, optional
        Source of the random start.
    """
    settings = checked_settings(settings, penalty)
    samples = samples_of(signals, mask, settings)
    # With a copy of the generator, the random start does not depend on whether weights are rounded.
    rounding_rng = copy.deepcopy(rng)
    if n_atoms is not None:
        n_atoms = checks.positive_integer("n_atoms", n_atoms)
    any_start = start is None and rng is None
    if start is None:
        if n_atoms is None:
            raise TypeError("n_atoms or a start must be given; got neither")
        start = _starting_dictionary(samples, n_atoms, settings, seed_of_order(rng))
    network = starting_network(start, samples.n_inputs, settings.signs)
    if n_atoms not in (None, network.n_atoms):
        raise ValueError(f"start must have n_atoms={n_atoms} atoms; got {network.n_atoms}")
    learner = TwoPhaseLearner(
        network, settings, scale=samples.scale(settings.amplitude), rounding_seed=seed_of_order(rounding_rng)
    )
    learner._any_start = any_start
    if settings.inputs == "graded" and learner.can_halve and samples.share_of_mean > LARGEST_SHARE_OF_MEAN:
        learner.n_halvings = 1
    return learner


def _starting_dictionary(samples: Samples, n_atoms: int, settings: LearningSettings, seed: int) -> np.ndarray:
    """Return random atoms; if no atom would fire for most signals, add a signal to each atom."""
    rng = np.random.default_rng(seed)
    start = random_dictionary(n_atoms, samples.n_inputs, positive=settings.positive_atoms, rng=rng)
    signals = next(samples.blocks())[0]
    signals = signals[signals.any(axis=1)]
    if not len(signals):
        return start
    sample = signals[rng.permutation(len(signals))[: max(n_atoms, SIGNALS_TO_START)]]
    # A neuron fires if its current raises the initial potential to the threshold within a phase.
    least = (1.0 - settings.initial_potential) / settings.duration / samples.scale(settings.amplitude)
    if np.mean(_drives(sample, start, settings).max(axis=1) > least) > 0.5:
        return start
    least_weight = settings.signs.least_weight  # signals may be negative even if atoms may not be
    return unit_norm(start + unit_norm(np.maximum(np.resize(sample, start.shape), least_weight)))


def _drives(signals: np.ndarray, atoms: np.ndarray, settings: LearningSettings) -> np.ndarray:
    """Return the correlations of signals and atoms minus the penalty, shape (n_signals, n_atoms)."""
    products = signals @ atoms.T
    return (products if settings.positive_code else np.abs(products)) - settings.penalties(len(atoms))


def random_dictionary(
    n_atoms: int, n_inputs: int, *, positive: bool = True, rng: int | np.random.Generator | None = None
) -> np.ndarray:
    """Return unit-norm atoms of independent entries, shape (n_atoms, n_inputs).

    Parameters
    ----------
    n_atoms, n_inputs : int
        Shape of the dictionary; both numbers are positive.
    positive : bool, default True
        If True, entries are magnitudes, ``|N(0, 1)|``.  If False, entries are ``N(0, 1)``.
    rng : int or Generator, optional
        Source of the random entries.
    """
    n_atoms = checks.positive_integer("n_atoms", n_atoms)
    n_inputs = checks.positive_integer("n_inputs", n_inputs)
    atoms = np.random.default_rng(rng).standard_normal((n_atoms, n_inputs))
    return unit_norm(np.abs(atoms) if checks.flag("positive", positive) else atoms)


def checked_settings(settings: LearningSettings | None, penalty: Any) -> LearningSettings:
    """Return the settings of the caller, or default settings with the penalty of the caller."""
    if settings is None:
        if penalty is None:
            raise TypeError("penalty or settings must be given; got neither")
        return LearningSettings(penalty=penalty)
    if penalty is not None:
        raise TypeError("penalty must not be given twice; got an argument and settings: leave one out")
    checks.instance_of("settings", settings, LearningSettings)
    return settings


def starting_network(start: ArrayLike | TwoPhaseNetwork, n_inputs: int, signs: Signs) -> TwoPhaseNetwork:
    """Return the network that learning starts from: `start`, or the network of its normalised atoms."""
    if isinstance(start, TwoPhaseNetwork):
        network = start
        if network.signs != signs:
            raise ValueError(f"start must have the settings' {signs}; got {network.signs}")
        least = np.diagonal(network.lateral).min()
        if least < LEAST_THRESHOLD:
            raise ValueError(f"start must have thresholds of at least {LEAST_THRESHOLD}; got {least}")
    else:
        atoms = checked_atoms("start", start, positive=signs.positive_atoms)
        network = TwoPhaseNetwork.consistent(unit_norm(atoms), **signs._asdict())
    if network.n_inputs != n_inputs:
        raise ValueError(f"start must have {n_inputs} features, those of the signals; got {network.n_inputs}")
    return network
