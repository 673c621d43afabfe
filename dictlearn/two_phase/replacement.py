"""Replacement of redundant atoms: one of two atoms that are too similar is replaced on trial."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from dictlearn.two_phase.observed import Batch, Observed
from dictlearn.two_phase.synapses import Synapses
from snn.base.archive import Entry
from snn.base.value import assign, replaced

# Least number of atoms from which the spread of their cosines by chance can be estimated.
LEAST_ATOMS = 15
# The spread of cosines is their quantile 1 - TAIL minus their median, which is NORMAL_TAIL standard
# deviations for a normal distribution.  A few similar pairs do not change the spread, but the many similar
# pairs in photographs do.
TAIL, NORMAL_TAIL = 0.025, 1.96
# A search may begin one trial for every ATOMS_PER_TRIAL atoms, and at least one.
ATOMS_PER_TRIAL = 50
# Number of times that a new pattern moves towards the residuals of other samples, so that a single outlier
# does not become an atom.
ROUNDS = 3
# Search for similar atoms every SEARCH_EVERY samples.  The first NO_SEARCHES searches are left out, because
# there are too few data.
SEARCH_EVERY, NO_SEARCHES = 640, 4
# Length of a trial in samples: TRIAL_PER_ATOM times the number of atoms (in a large dictionary each atom is
# used rarely), at least LEAST_TRIAL.  The mean squared code of a neuron adapts within a quarter of a trial.
LEAST_TRIAL, TRIAL_PER_ATOM = 3200, 16
# Least worth of a new atom, as a share of the old atom's worth: in the second half of a trial, and at its
# end.  Averages of activity are noisy.  In photographs, new atoms reach 0.2 to 0.5 of the old atoms' worth.
LEAST_IN_TRIAL, LEAST_AT_END = 0.3, 0.6
# Number of samples after a lost trial in which the atom gets no new trial.
REST = 6400


class Trial(NamedTuple):
    """The state that a neuron had before it got a new atom on trial."""

    atom: int
    began: int  # number of samples when the trial began
    worth: float
    n_fired: int
    feedforward: np.ndarray
    feedback: np.ndarray
    memory: Mapping[str, np.ndarray]  # the neuron's rows in the arrays of the rule

    def undo(self, synapses: Synapses, memory: Mapping[str, np.ndarray]) -> None:
        """Restore the neuron's old weights and memory."""
        synapses.replace(self.atom, self.feedforward, self.feedback)
        for name in self.memory.keys() & memory.keys():
            memory[name][self.atom] = self.memory[name]


# Entries of a learner's file: statistics of all atoms, columns of running trials, and the prefix of the
# rule's arrays.
OF_ALL = {
    "activity": Entry("f", ("atoms",), 0.0),
    "rests_until": Entry("iu", ("atoms",), 0),
    "credit": Entry("f", (), 0.0),
    "n_won": Entry("iu", (), 0),
    "n_lost": Entry("iu", (), 0),
}
TRIALS = {
    "old_atom": Entry("iu", ("trials",), 0, optional=True),
    "old_began": Entry("iu", ("trials",), 0, optional=True),
    "old_worth": Entry("f", ("trials",), 0.0, optional=True),
    "old_n_fired": Entry("iu", ("trials",), 0, optional=True),
    "old_feedforward": Entry("f", ("trials", "inputs"), optional=True),
    "old_feedback": Entry("f", ("trials", "inputs"), optional=True),
}
OLD = "old_rule."


class Replacement:
    """The running trials of new atoms, and the statistics of all atoms that decide about trials."""

    # The worth of an atom for a sample is about ``1/2 a^2 (1 - c^2)``, because the most similar atom, with
    # the cosine c, would code the share c^2 instead.  A trial has a cost, so the more trials are lost, the
    # fewer trials begin.

    def __init__(self, n_atoms: int) -> None:
        self.running: tuple[Trial, ...] = ()  # trials that have not ended
        # For each atom, the mean of a^2 over about a quarter of a trial, in units of the signals' mean
        # energy.
        self.activity = np.zeros(n_atoms)
        self.rests_until = np.zeros(n_atoms, dtype=np.int64)  # number of samples before which no trial begins
        self.credit = 0.0  # number of trials that may begin
        self.n_won, self.n_lost = 0, 0

    def __copy__(self) -> Self:
        return replaced(self, activity=self.activity.copy(), rests_until=self.rests_until.copy())

    @property
    def length(self) -> int:
        """Length of a trial, in samples."""
        return max(LEAST_TRIAL, TRIAL_PER_ATOM * len(self.activity))

    def observe(self, codes: np.ndarray, energy: float) -> None:
        """Update the activity of all neurons with the codes of a batch."""
        mean = np.einsum("ij,ij->j", codes, codes) / (len(codes) * energy)
        self.activity += -math.expm1(-4.0 * len(codes) / self.length) * (mean - self.activity)

    def worth(self, atom: int, synapses: Synapses) -> float:
        """Return the worth of an atom for a sample, in units of the signals' mean energy."""
        lateral, thresholds = synapses.lateral_rows[atom], synapses.thresholds
        cosines = np.delete(lateral / np.sqrt(thresholds[atom] * thresholds), atom)
        nearest = (cosines if synapses.signs.positive_code else np.abs(cosines)).max(initial=0.0)
        return float(0.5 * self.activity[atom] * (1.0 - min(nearest, 1.0) ** 2))

    def lost(self, n_samples: int, synapses: Synapses) -> list[Trial]:
        """End all decided trials; return the lost trials, whose new atom is worth less than the old atom."""
        lost, running = [], []
        for trial in self.running:
            age = n_samples - trial.began
            share = LEAST_AT_END if age >= self.length else LEAST_IN_TRIAL
            if age >= self.length // 2 and self.worth(trial.atom, synapses) <= share * trial.worth:
                lost.append(trial)
                self.rests_until[trial.atom] = n_samples + REST
            elif age < self.length:
                running.append(trial)
        self.n_lost += len(lost)
        self.n_won += len(self.running) - len(running) - len(lost)
        self.running = tuple(running)
        return lost

    def candidates(self, n_samples: int, n_fired: np.ndarray, synapses: Synapses) -> list[int]:
        """Return the atoms to replace on trial; the outcomes of earlier trials limit their number."""
        most = max(len(n_fired) // ATOMS_PER_TRIAL, 1)
        self.credit += (most * self.n_won + 1) / (self.n_won + self.n_lost + 1)
        self.credit = min(self.credit, float(most))
        free = self.rests_until <= n_samples
        free[[trial.atom for trial in self.running]] = False
        if self.credit < 1.0:
            return []
        positive_code, n_most = synapses.signs.positive_code, int(self.credit)
        return similar_atoms(synapses.lateral_rows, n_fired, free, positive_code=positive_code)[:n_most]

    def begin(
        self, atom: int, n_samples: int, n_fired: int, synapses: Synapses, rows: Mapping[str, np.ndarray]
    ) -> None:
        """Begin the trial of a neuron's new atom; `rows` are the arrays of the rule with a row per atom."""
        weights = synapses.feedforward[atom].copy(), synapses.feedback_rows[atom].copy()
        memory = {name: array[atom].copy() for name, array in rows.items()}
        trial = Trial(atom, n_samples, self.worth(atom, synapses), n_fired, *weights, memory)
        self.running = (*self.running, trial)
        self.credit -= 1.0

    def entries(self) -> dict[str, np.ndarray]:
        """Return the arrays that the file of a learner has for replacement."""
        arrays = {name: np.asarray(getattr(self, name)) for name in OF_ALL}
        if self.running:
            *columns, memories = zip(*self.running, strict=True)
            arrays.update(zip(TRIALS, map(np.array, columns), strict=True))
            names = set(memories[0]).intersection(*memories)  # the rule may have changed between two trials
            arrays.update({OLD + name: np.array([each[name] for each in memories]) for name in sorted(names)})
        return arrays

    @classmethod
    def of_entries(cls, entries: Mapping[str, np.ndarray]) -> Self:
        """Return the `Replacement` with arrays that `entries` returned."""
        arrays = {name: entries[name] for name in OF_ALL}
        new = cls(len(entries["activity"]))
        assign(new, **{name: array.copy() if array.ndim else array.item() for name, array in arrays.items()})
        columns = [entries[name] for name in TRIALS if name in entries]
        memory = {name.removeprefix(OLD): rows for name, rows in entries.items() if name.startswith(OLD)}
        for k, (atom, began, worth, n_fired, forward, back) in enumerate(zip(*columns, strict=True)):
            if atom >= len(new.activity):
                raise ValueError(f"trial of atom {atom}, but there are {len(new.activity)} atoms")
            rows = {name: array[k] for name, array in memory.items()}
            new.running += (Trial(int(atom), int(began), float(worth), int(n_fired), forward, back, rows),)
        return new


def usual_range(values: np.ndarray) -> tuple[float, float]:
    """Return the expected range of as many normal values with the median and upper spread of `values`."""
    # A neuron cannot compute the spread from its own observations.  All other numbers that decide about
    # replacement are local.
    median, tail = np.quantile(values, (0.5, 1.0 - TAIL))
    beyond = (tail - median) / NORMAL_TAIL * np.sqrt(2.0 * np.log(len(values)))
    return median - beyond, median + beyond


def similar_atoms(
    lateral: np.ndarray, n_fired: np.ndarray, free: np.ndarray, *, positive_code: bool
) -> list[int]:
    """Return the less used atom of each pair of free atoms that are too similar, the most similar first."""
    # The cosine of two atoms is their lateral weight divided by the root of the product of their thresholds.
    # If codes have either sign, the cosine -c counts as c.
    redundant: list[int] = []
    if len(lateral) < LEAST_ATOMS:
        return redundant
    free = free.copy()
    first, second = np.triu_indices(len(lateral), 1)
    thresholds = np.diagonal(lateral)
    cosines = lateral[first, second] / np.sqrt(thresholds[first] * thresholds[second])
    cosines = cosines if positive_code else np.concatenate([cosines, -cosines])
    similar = np.flatnonzero(cosines > usual_range(cosines)[1])
    for pair in similar[np.argsort(-cosines[similar])] % len(first):
        atom, other = int(first[pair]), int(second[pair])
        if free[atom] and free[other]:
            redundant.append(atom if n_fired[atom] < n_fired[other] else other)
            free[redundant[-1]] = False
    return redundant


def patterns(missing: np.ndarray, *, positive_code: bool, least: float) -> np.ndarray:
    """Return patterns of unit norm that several residuals share, beginning with the largest residual."""
    units = missing[np.argsort(-np.linalg.norm(missing, axis=1), kind="stable")]
    for _ in range(ROUNDS):
        shares = units @ missing.T
        units = np.maximum((np.maximum(shares, 0.0) if positive_code else shares) @ missing, least)
        units = units[units.any(axis=1)]
        units /= np.linalg.norm(units, axis=1, keepdims=True)
    return units


def replace_atoms(learner: Any, batch: Batch, observed: Observed) -> None:
    """Replace dead atoms, begin and end trials of similar atoms, and restart stalled atoms."""
    # The `learner` is the new `TwoPhaseLearner` after a batch.
    rule, now, trials, n = learner.settings.rule, learner.n_samples, learner.replacement, batch.n_signals
    trials.observe(observed.codes[:n], batch.energy)
    n_won = trials.n_won
    for trial in trials.lost(now, learner.synapses):
        trial.undo(learner.synapses, learner.memory)
        learner.last_fired[trial.atom], learner.n_fired[trial.atom] = now, trial.n_fired
    learner.n_replaced += trials.n_won - n_won
    if not learner.settings.replacement:  # without replacement, only running trials go on
        return
    tried: list[int] = []
    fixed = learner.frozen | learner.lesioned
    if now // SEARCH_EVERY > max((now - n) // SEARCH_EVERY, NO_SEARCHES):
        stalled = rule.stalled(learner.n_fired, learner.memory)
        for atom in stalled[~fixed[stalled]]:
            rule.forget(atom, learner.synapses, learner.memory)
            learner.n_fired[atom] = 0
        similar = trials.candidates(now, learner.n_fired, learner.synapses)
        tried = [atom for atom in similar if not fixed[atom]]
    dead = learner.dead_atoms
    if not tried and not len(dead):
        return
    dead = dead[~fixed[dead]]
    on_trial = {*tried, *(trial.atom for trial in trials.running)}
    atoms = [*tried, *(atom for atom in dead if atom not in on_trial)]
    signs, missing = learner.settings.signs, -observed.reconstruction_gradient[:n]
    units = patterns(missing, positive_code=signs.positive_code, least=signs.least_weight)
    for atom, pattern in zip(atoms, units, strict=False):
        if atom in on_trial:
            rows = rule._of_atoms(learner.memory)
            trials.begin(atom, now, int(learner.n_fired[atom]), learner.synapses, rows)
        else:
            learner.n_replaced += 1
        learner.synapses.replace(atom, pattern, pattern)
        rule.forget(atom, learner.synapses, learner.memory)
        learner.last_fired[atom], learner.n_fired[atom], trials.activity[atom] = now, 0, 0.0
