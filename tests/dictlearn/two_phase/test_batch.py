"""One batch agrees with equations 8 to 12 and 26 to 28 in matrix form, for every way of learning."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dictlearn import LearningSettings, RunawayFeedbackError, TwoPhaseLearner, UsageSteps
from snn import Clock, Exact
from tests.dictlearn.two_phase.learners import (
    COUNTERS,
    SIGNS,
    network_of,
    observed_by_hand,
    planted,
    state,
    tasks,
)
from tests.tiers import examples

# Quotients of sums of some hundred numbers near one.
ROUNDING = {"rtol": 1e-8, "atol": 1e-9}


class ByHand:
    """The expected learner after each batch, computed from the learner before it."""

    def __init__(self, learner):
        self.learner, self.average, self.mean_cost, self.sums, self.rows = learner, None, 0.0, np.zeros(6), []
        self.drift = np.zeros(learner.network.feedforward.shape)

    def learn(self, signals, mask=None):
        """Return the expected attributes of the learner after the batch, and the objective."""
        learner, settings, steps = self.learner, self.learner.settings, self.learner.settings.rule
        network, kappa, n_before = learner.network, settings.kappa, learner.n_samples
        f, b, h = network.feedforward, network.feedback, network.lateral
        n_signals, n_atoms = len(signals), len(f)
        is_usage, is_current = isinstance(steps, UsageSteps), settings.readout == "current"
        penalty = learner.scale * np.broadcast_to(settings.penalty, n_atoms)
        thresholds = np.diagonal(h)
        if is_usage:
            silence = n_before - learner.last_fired
            weights = np.array([max(1.0 - n / (steps.patience * n_atoms), 0.0) for n in silence])
        else:
            weights = thresholds if steps.reweighting else np.ones(n_atoms)
        known = np.ones(signals.shape) if mask is None else mask.astype(float)
        signals = learner.scale * np.where(known, signals, 0.0)

        # Observe the neurons, for signals and for probes.
        run = {"kappa": kappa, "duration": settings.duration, "initial_potential": settings.initial_potential}
        names = ("n_spikes", "input_rate", "coding_rate", "input_current", "coding_current", "coding_trace")
        rows, probed = [], []
        for k in range(n_signals):
            # In exact time, the inputs of samples with masks fire.
            on_clock = isinstance(settings.time, Clock)
            if settings.inputs == "graded" and (known[k].all() or on_clock):
                alone = replace(learner.batch(1), probed=np.empty(0, dtype=int), probe_drive=np.empty(0))
                found = alone.run(learner.synapses, signals[[k]] / learner.scale, known[[k]] > 0.0)
                both = {
                    "n_spikes": found.n_spikes[0],
                    "coding_rate": found.fired[0],
                    "coding_trace": found.codes[0],
                }
                rows.append([{name: 0 * value for name, value in both.items()}, both])
                continue
            options = {} if known[k].all() else {"mask": mask[[k]]}
            phases = network.run(
                signals[[k]], penalty=penalty, reweighting=weights, time=settings.time, **options, **run
            )
            rows.append([{name: getattr(phase, name)[0] for name in names} for phase in phases])
        if is_usage:
            n_probes = math.floor(steps.probes * (n_before + n_signals)) - math.floor(steps.probes * n_before)
            probed = sorted(range(n_atoms), key=lambda atom: learner.last_compared[atom])[:n_probes]
        for atom in probed:
            drive = 3.0 / settings.duration / (1.0 - kappa) * thresholds[atom]
            options = {"weights": weights, "probe": (atom, drive), **run}
            rows.append(observed_by_hand(network, np.zeros(len(b)), penalty, **options))
        used = ("n_spikes", "coding_rate", "coding_trace") if is_current else names
        first, second = ({name: np.array([row[k][name] for row in rows]) for name in used} for k in (0, 1))
        everywhere = np.vstack([known, np.ones((len(probed), len(b)))])
        inputs = np.vstack([signals, np.zeros((len(probed), len(b)))])

        # Equations 9 and 10 are exact if gradients are read from currents.
        if is_current:
            a = second["coding_trace"]
            g_d = kappa * everywhere * (a @ b.T - inputs)
            g_h = kappa * a @ (h - f @ b).T
            a = np.maximum(a, 0.0) if settings.positive_code else a
        else:
            a = second["coding_rate"]
            g_d = everywhere * (second["input_rate"] - first["input_rate"])
            g_h = (1.0 - kappa) * (first["coding_rate"] - a) @ h.T
            g_h += (1.0 - kappa) * (first["coding_current"] - thresholds * first["coding_rate"])
            g_h -= second["coding_current"] - thresholds * a
            unknown = (1.0 - everywhere) * (second["input_rate"] - first["input_rate"])
            g_h += (1.0 - kappa) * unknown @ f.T
        g_d, codes = g_d[:n_signals], a[:n_signals]

        # Compute the steps and the decay of the weights.
        energy = settings.amplitude**2
        share = known.mean(axis=1, keepdims=True)
        used = (share * np.square(codes)).sum(axis=0) / energy
        usage, movement = (learner.memory.get(name, np.zeros(n_atoms)) for name in ("usage", "movement"))
        averaged, spread, held = (
            learner.memory.get(name, np.zeros(n_atoms)).copy() for name in ("averaged", "spread", "held")
        )
        sizes, least, follows = np.abs(codes), 0.0 if settings.positive_atoms else -np.inf, False
        errors = np.square(g_d / kappa).sum(axis=1)
        if is_usage:
            movement = movement + (errors[:, None] * codes**2).sum(axis=0) / energy**2
            rho = -g_d @ f.T / kappa
            if n_before == 0:
                held[:], averaged[:], spread[:] = 12.0, 1000.0, 1.0
            if (some := held > 0.0).any():
                gradient = codes.T @ g_d / (kappa * energy)
                self.drift = self.drift + gradient - (gradient * b.T).sum(axis=1, keepdims=True) * b.T
                falls = np.where((self.drift > 0.0) & (least >= b.T), 0.0, self.drift)
                usual = movement[some].sum()
                if np.square(falls[some]).sum() > (1.1 + 4.0 / np.sqrt(f.size)) * usual:
                    averaged[some], spread[some] = np.minimum(averaged, usage)[some], 0.0
                    held[:] = 0.0
            usage = usage + used
            together = (share * sizes * sizes.sum(axis=1, keepdims=True)).sum(axis=0) / energy
            if follows := is_current and not settings.positive_atoms:
                received = kappa * np.abs(a @ h.T).sum(axis=0)
                m = np.abs(g_h).sum(axis=0) / np.where(received > 0.0, received, 1.0)
                m = np.minimum(np.where(received > 0.0, m, 0.0), 1.0)
                bound = (1.0 - m) * used + steps.caution / steps.gain * m * together
                step = 1.0 / (np.sqrt(0.01 + movement) / steps.reach + bound) / energy
            else:
                initial = steps.initial_usage / (1.0 + n_before / steps.settling)
                step = steps.gain / (initial + usage + steps.caution * together) / energy
            step = 1.0 / (1.0 / step + held * energy)
            keep = np.clip(1.0 - step * (codes * rho).sum(axis=0), 0.0, 1.0)
        else:
            step = steps.step / (1.0 + n_before / steps.halving) / energy * np.ones(n_atoms)
            share = min(1.0, n_signals / min(1000.0, n_before + n_signals))
            self.mean_cost += share * ((sizes.mean(axis=0) * penalty).mean() - self.mean_cost)
            decay = self.mean_cost * thresholds.mean() if steps.decay is None else steps.decay * energy
            keep = max(1.0 - step[0] * decay, 0.0) ** n_signals * np.ones(n_atoms)

        # Update the weights by equations 11 and 12, and 26 to 28.
        change = (step * codes).T @ g_d / kappa
        new_f, new_b = keep[:, None] * f - change, (keep[:, None] * b.T - change).T
        new_f, new_b = np.maximum(new_f, least), np.maximum(new_b, least)
        if is_usage:
            mismatch = g_h / kappa
            if follows:
                h = keep * h + rho.T @ (step * codes)
                h = keep[:, None] * h + (step * codes).T @ (-g_d @ new_f.T / kappa)
                mismatch = keep * mismatch
            norms = np.linalg.norm(a, axis=1, keepdims=True)
            inverse = np.where(norms > 0.0, 1.0 / np.where(norms > 0.0, norms, 1.0), 0.0)
            units = inverse * a
            gain = (1.0 if is_current else 0.1) if steps.lateral_gain is None else steps.lateral_gain
            solved = np.linalg.solve(units @ units.T + 0.01 * np.eye(len(a)), inverse * mismatch)
            h = h - gain * solved.T @ units
        else:
            shrunk = max(1.0 - 2.0 * step[0] * decay, 0.0) ** n_signals
            h = shrunk * h - steps.lateral_ratio * step[0] * g_h.T @ a / kappa
        h = np.maximum(h, least)
        np.fill_diagonal(h, np.maximum(np.diagonal(h), 0.05))
        if follows:
            self.average = new_b.T if self.average is None else self.average
            self.average = np.where((averaged == 0.0)[:, None], new_b.T, self.average)
            distance = np.square(new_b.T - self.average).sum(axis=1)
            lets_go = (used > 0.0) & (spread > 0.0) & (distance > np.maximum(4.0 * spread, 1e-5))
            averaged = np.where(lets_go, 0.5, 1.0) * (averaged + used)
            share = np.minimum(steps.averaging * used / np.where(used > 0.0, averaged, 1.0), 1.0)
            self.average = self.average + share[:, None] * (new_b.T - self.average)
            rise = np.where((distance > spread) & (spread > 0.0), 0.03, 1.0)
            spread = spread + share * rise * (distance - spread)
        else:
            self.average = None

        # Counts.
        n_samples, n_fired = n_before + n_signals, learner.n_fired.copy()
        last_fired, last_compared = learner.last_fired.copy(), learner.last_compared.copy()
        n_fired += second["coding_rate"][:n_signals].astype(bool).sum(axis=0)
        last_fired[second["coding_rate"][:n_signals].any(axis=0)] = n_samples
        last_compared[second["coding_rate"].any(axis=0)] = n_samples
        last_compared[probed] = n_samples
        usage, movement, n_replaced = usage.copy(), movement.copy(), 0
        averaged, spread = averaged.copy(), spread.copy()
        if settings.replacement:
            dead = np.flatnonzero(n_samples - last_fired >= max(1000, 10 * n_atoms))
            for atom, pattern in zip(dead, self.missed(-g_d, least), strict=False):
                new_f[atom] = new_b[:, atom] = pattern
                h[:, atom], h[atom] = new_f @ new_b[:, atom], new_f[atom] @ new_b
                usage[atom] = movement[atom] = n_fired[atom] = 0
                averaged[atom] = spread[atom] = held[atom] = 0.0
                self.drift[atom] = 0.0
                last_fired[atom], n_replaced = n_samples, n_replaced + 1
        rows = new_b.T if self.average is None else np.where(usage[:, None] > 0.0, self.average, new_b.T)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        n_spikes = first["n_spikes"].sum() + second["n_spikes"].sum()
        objectives = 0.5 * errors + sizes @ (penalty * weights)
        self._record(n_samples, objectives, codes, n_spikes, np.sqrt(errors), signals, (new_f, new_b, h))
        return {
            "feedforward": new_f,
            "feedback": new_b,
            "lateral": h,
            "dictionary": rows / np.where(lengths > 0.0, lengths, 1.0),
            "usage": usage,
            "movement": movement,
            "averaged": averaged,
            "spread": spread,
            "held": held,
            "n_fired": n_fired,
            "last_fired": last_fired,
            "last_compared": last_compared,
            "n_samples": n_samples,
            "n_spikes": learner.n_spikes + n_spikes,
            "n_replaced": learner.n_replaced + n_replaced,
            "objective": objectives.mean() / learner.scale**2,
        }

    def missed(self, missing, least):
        """Return a pattern for each sample, largest residual first, each drawn towards other residuals."""
        found = []
        for worst in sorted(range(len(missing)), key=lambda k: -np.linalg.norm(missing[k])):
            pattern = missing[worst]
            for _ in range(3):
                shares = [other @ pattern for other in missing]
                if self.learner.settings.positive_code:
                    shares = [max(share, 0.0) for share in shares]
                pattern = np.maximum(
                    sum(share * other for share, other in zip(shares, missing, strict=True)), least
                )
                pattern = pattern / (np.linalg.norm(pattern) or 1.0)
            if pattern.any():
                found.append(pattern)
        return found

    def _record(self, n_samples, objectives, codes, n_spikes, errors, signals, weights):
        lengths = np.linalg.norm(signals, axis=1)
        some = lengths > 0.0
        self.sums += (
            len(signals), objectives.sum() / self.learner.scale**2, np.count_nonzero(codes), n_spikes,
            (errors[some] / lengths[some]).sum(), some.sum(),
        )  # fmt: skip
        if n_samples // 1000 > (n_samples - len(signals)) // 1000:
            (n, *totals, n_some), (f, b, h) = self.sums, weights
            consistency = 1.0 - np.linalg.norm(h - f @ b) / np.linalg.norm(h)
            symmetry = 1.0 - np.linalg.norm(f - b.T) / np.linalg.norm(b)
            norms = np.linalg.norm(b, axis=0)
            means = [*(total / n for total in totals[:3]), totals[3] / max(n_some, 1)]
            self.rows.append(
                [n_samples, *means, consistency, symmetry, norms.min(), np.median(norms), norms.max()]
            )
            self.sums = np.zeros(6)


def compare(learner, expected, objective):
    network = learner.network
    whole = ("n_fired", "last_fired", "last_compared", "n_samples", "n_spikes", "n_replaced")
    for name in ("feedforward", "feedback", "lateral"):
        np.testing.assert_allclose(getattr(network, name), expected[name], **ROUNDING, err_msg=name)
    for name, found in {"dictionary": learner.dictionary, **learner.memory}.items():
        if name in expected:
            np.testing.assert_allclose(found, expected[name], **ROUNDING, err_msg=name)
    for name in whole:
        np.testing.assert_array_equal(getattr(learner, name), expected[name], err_msg=name)
    assert objective == pytest.approx(expected["objective"], rel=1e-9, abs=1e-12)


@pytest.mark.property
@examples(40)
@given(task=tasks(), replaced=st.booleans())
def test_a_batch_changes_a_learner_as_the_equations_say(task, replaced):
    settings, network, scale, batches = task
    settings = replace(settings, replacement=replaced)
    learner = TwoPhaseLearner(network, settings, scale=scale)
    assert [getattr(learner, name) for name in COUNTERS] == [0] * len(COUNTERS)
    learner.last_compared[:] = np.arange(learner.n_atoms)[::-1] // 2
    if replaced:
        learner.last_fired[: learner.n_atoms // 2] = -2000
    by_hand = ByHand(learner)
    for signals, mask in batches:
        try:
            expected = by_hand.learn(signals, mask)
        except RunawayFeedbackError:
            before = state(learner)
            with pytest.raises(RunawayFeedbackError, match=f"after {learner.n_samples} samples"):
                learner.learn(signals, mask=mask)
            np.testing.assert_equal(state(learner), before)
            return
        compare(learner, expected, learner.learn(signals, mask=mask))


@pytest.mark.parametrize("signs", ["positive", "signed atoms and codes"])
def test_the_history_has_the_means_of_each_thousand_samples(signs):
    """The disturbance is a mean over nonzero signals; other means are over all signals."""
    signs = SIGNS[signs]
    rule = UsageSteps(lateral_gain=0.6)  # batches are so large that the projection solves a system of atoms
    settings = LearningSettings(
        penalty=0.05, duration=2.0, time=Exact(), kappa=0.3, inputs="spiking", rule=rule, **signs
    )
    learner = TwoPhaseLearner(network_of(signs, 5, 6, 0.02), settings, scale=4.0)
    by_hand = ByHand(learner)
    for number in range(7):
        signals = planted(8, 6, 300, signs, seed=number)[1]
        signals[:: 2 if number < 4 else 1] = 0.0
        expected = by_hand.learn(signals)
        compare(learner, expected, learner.learn(signals))
        history = learner.history
        found = np.array(list(history.values())).T
        np.testing.assert_allclose(found, np.reshape(by_hand.rows, (-1, 10)), **ROUNDING)
    assert history["n_samples"].tolist() == [1200, 2100]
    assert list(history)[1:5] == ["objective", "nonzeros", "spikes", "disturbance"]
    assert history["disturbance"][0] > 0.0 == history["disturbance"][1]
