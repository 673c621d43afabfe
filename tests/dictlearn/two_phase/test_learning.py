"""Learning: objectives fall for every way of learning; limits are kept; some changes have no effect."""

import copy
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from dictlearn import (
    LearningSettings,
    PaperSteps,
    RunawayFeedbackError,
    SpikingDictionaryLearning,
    TwoPhaseLearner,
    TwoPhaseNetwork,
    UsageSteps,
    continue_learning,
    learn_dictionary,
    match_atoms,
    mean_objective,
    new_learner,
    normalise,
    random_dictionary,
    split_channels,
)
from dictlearn.signals import checked_signals
from dictlearn.two_phase import samples
from dictlearn.two_phase.replacement import similar_atoms
from snn import Clock, Exact, RealNeuron
from snn.digital import FixedPoint
from solvers import IllPosedWarning
from tests.dictlearn.two_phase.learners import SIGNS, assert_same, network_of, planted, state

PENALTY = 0.05
USAGE = LearningSettings(penalty=PENALTY, batch_size=16)
STOCHASTIC = FixedPoint(bits=8, sign="non-negative", rounding="stochastic")
PENALTIES = tuple(np.linspace(0.02, 0.2, 8).tolist())
# Ways of learning by name, as changes to the settings `USAGE`.
WAYS = {
    "usage": {},
    "events": {"time": Exact()},
    "long phases": {"duration": 10.0},
    "Euler": {"time": Clock(1 / 32, RealNeuron(integration="euler", reset="zero"))},
    "counts": {"readout": "rate", "kappa": 0.7},
    "large batches": {"batch_size": 64},
    "paper": {"rule": PaperSteps(step=0.05), "batch_size": 4},
    "penalties": {"penalty": PENALTIES},
    "spiking": {"inputs": "spiking"},
    "spiking events, signed": {"inputs": "spiking", "time": Exact(), **SIGNS["signed atoms and codes"]},
    "few bits": {"weight_format": STOCHASTIC},
    **{name: signs for name, signs in SIGNS.items() if signs},
    "signed counts": {"positive_atoms": False, "readout": "rate"},
    "signed few bits": {
        **SIGNS["signed atoms and codes"],
        "weight_format": FixedPoint(bits=9, rounding="stochastic"),
    },
}
each_way = pytest.mark.parametrize("way", WAYS)


def settings_of(way):
    chosen = dict.fromkeys(("kappa", "duration", "time", "inputs"), "auto")
    return replace(USAGE, **{**chosen, **WAYS[way]})


def signs_of(settings):
    return settings.signs._asdict()


def data_of(way, n_signals=300):
    changes = {name: value for name, value in WAYS[way].items() if name.startswith("positive")}
    return planted(8, 12, n_signals, changes)


def learn(signals, n_samples=600, settings=USAGE, n_atoms=8, rng=3, **options):
    if "start" in options:
        n_atoms = None
    return learn_dictionary(signals, n_atoms, settings=settings, n_samples=n_samples, rng=rng, **options)


def objective(dictionary, signals, settings, **options):
    penalty, code = settings.penalty, settings.positive_code
    return mean_objective(dictionary, signals, penalty=penalty, positive_code=code, **options).objective


def norms_of(learner):
    return np.linalg.norm(learner.network.feedback, axis=0)


@pytest.fixture(scope="module")
def data():
    return planted(8, 12, 300)


# -- what it finds -------------------------------------------------------------------------------


@pytest.mark.parametrize("masked", [False, pytest.param(True, marks=pytest.mark.thorough)])
@each_way
def test_every_way_of_learning_lowers_the_objective(way, masked):
    """Weights also stay symmetric and consistent, and atoms keep unit norms."""
    settings, (_, signals) = settings_of(way), data_of(way)
    mask = np.random.default_rng(5).uniform(size=signals.shape) < 0.7 if masked else None
    start = new_learner(signals, 8, settings=settings, rng=3)
    learner = learn(signals, 2000, settings, mask=mask)
    network = learner.network
    before, after = (objective(each.dictionary, signals, settings) for each in (start, learner))
    assert after < (0.85 if masked or "counts" in way else 0.8) * before
    np.testing.assert_allclose(np.linalg.norm(learner.dictionary, axis=1), 1.0, rtol=1e-12)
    if "bits" not in way:
        assert network.symmetry > 1.0 - 1e-11
        assert network.consistency > (0.6 if "counts" in way or way == "paper" else 0.95)
    if way != "paper":
        np.testing.assert_allclose(norms_of(learner), 1.0, atol=0.12)
    assert (network.feedback.min() < 0.0) is not settings.positive_atoms
    assert learner.history["objective"][-1] < learner.history["objective"][0]


@pytest.mark.thorough
@pytest.mark.parametrize("signs", ["positive", "signed atoms"])
def test_planted_dictionary_is_recovered_from_random_starts(signs):
    """One or two atoms may not be found. Two channels do not suit signed atoms, which add and cancel."""
    atoms, signals = planted(24, 32, 2000, SIGNS[signs])
    settings = replace(settings_of("usage" if signs == "positive" else signs), batch_size=32)
    learned = [learn(signals, 20_000, settings, 24, rng=rng) for rng in range(4)]
    cosines = [match_atoms(learner.dictionary, atoms).best_cosine.mean() for learner in learned]
    assert np.mean(cosines) > 0.95
    truth = objective(atoms, signals, settings)
    assert min(objective(learner.dictionary, signals, settings) for learner in learned) < 1.05 * truth
    for learner in learned:
        assert learner.network.consistency > 0.97
        np.testing.assert_array_equal(learner.history["n_samples"] // 1000, np.arange(1, 21))
    if signs != "positive":
        channels = learn(split_channels(signals), 20_000, USAGE, 24)
        assert objective(channels.dictionary, split_channels(signals), USAGE) > 1.2 * truth


# -- what must change nothing --------------------------------------------------------------------


def unit_of(settings, unit):
    return replace(settings, penalty=(unit * np.asarray(settings.penalty)).tolist())


@each_way
def test_what_is_the_same_changes_no_bit(way):
    """Threads, units, equal penalties, full masks and hidden values do not change what is learned."""
    settings, signals = settings_of(way), data_of(way)[1]
    mask = np.random.default_rng(5).uniform(size=signals.shape) < 0.6
    expected = learn(signals, 64, settings)
    hidden = np.ones((300, 12), dtype=bool)
    assert_same(learn(signals, 64, settings, n_jobs=3), expected)
    np.testing.assert_array_equal(learn(signals, 64, settings, mask=hidden).dictionary, expected.dictionary)
    for unit in (2.0**-60, 2.0**60):
        other = learn(unit * signals, 64, unit_of(settings, unit))
        np.testing.assert_array_equal(other.network.feedforward, expected.network.feedforward)
        np.testing.assert_array_equal(other.network.lateral, expected.network.lateral)
        assert (other.n_spikes, other.scale * unit) == (expected.n_spikes, expected.scale)
    alike = replace(settings, penalty=0.05)
    one, several = (learn(signals, 64, each) for each in (alike, replace(alike, penalty=[0.05] * 8)))
    np.testing.assert_array_equal(several.dictionary, one.dictionary)
    expected = learn(signals, 64, settings, mask=mask)
    for value, n_jobs in ((np.nan, 1), (1e308, 3)):
        filled = np.where(mask, signals, value)
        assert_same(learn(filled, 64, settings, mask=mask, n_jobs=n_jobs), expected)
    one = learn(signals, 64, settings, mask=np.tile(mask[0], (300, 1)))
    assert_same(learn(signals, 64, settings, mask=mask[0]), one)


def test_the_form_of_the_signals_changes_nothing(data):
    counts = np.round(256.0 * data[1])  # integers that every type represents exactly
    expected = learn(counts, 64)
    for values in (np.asfortranarray(counts, dtype=np.float32), counts.astype(np.int16), counts.tolist()):
        assert_same(learn(values, 64), expected)


def test_scale_start_and_seed(data):
    """The root mean square norm sets the scale, with a mask the norm of the known values per input."""
    signals = np.array([[3.0, 4.0], [0.0, 4.0], [1.0, 0.0]])
    mask = np.array([[True, True], [False, True], [True, False]])
    for unit in (1.0, 1e149, 1e-149):  # squares of these leave the range of floats
        plain = new_learner(unit * signals, 2, penalty=unit, rng=0)
        assert plain.scale * unit == pytest.approx(3.0 / np.sqrt(42.0 / 3.0), rel=1e-14)
        masked = new_learner(unit * signals, 2, mask=mask, penalty=unit, rng=0)
        assert masked.scale * unit == pytest.approx(3.0 / np.sqrt((9.0 + 1.0) / 2.0 + 16.0), rel=1e-14)
    seeded = [learn(data[1], 64, rng=rng) for rng in (3, np.random.default_rng(3), 4)]
    assert_same(seeded[0], seeded[1])
    assert not np.array_equal(seeded[0].dictionary, seeded[2].dictionary)
    for positive in (True, False):
        atoms = random_dictionary(50, 40, positive=positive, rng=1)
        entries = np.random.default_rng(1).standard_normal((50, 40))
        entries = np.abs(entries) if positive else entries
        np.testing.assert_allclose(
            atoms, entries / np.linalg.norm(entries, axis=1, keepdims=True), rtol=1e-14
        )
    # A dictionary as a start gets unit norms and a consistent network; a network as a start stays as it is.
    learner = new_learner(data[1], penalty=0.1, start=3.0 * data[0])
    np.testing.assert_allclose(learner.dictionary, data[0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(learner.network.lateral, data[0] @ data[0].T, rtol=0, atol=1e-14)
    given = network_of({}, 8, 12, 0.2)
    np.testing.assert_array_equal(
        new_learner(data[1], penalty=0.1, start=given).network.lateral, given.lateral
    )


@pytest.mark.parametrize(
    ("n_signals", "n_atoms", "n_samples"), [(1, 8, 3), (5, 8, 23), (40, 30, 100), (3, 1, 7), (100, 5, 1)]
)
def test_sizes_at_the_edge(data, n_signals, n_atoms, n_samples):
    """Cases are one signal, more atoms than signals, and batches that epochs cut short."""
    learner = learn(data[1][:n_signals], n_samples, n_atoms=n_atoms)
    assert learner.n_samples == n_samples
    np.testing.assert_allclose(np.linalg.norm(learner.dictionary, axis=1), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(learn(data[1][:, :1], 20, n_atoms=2).dictionary, [[1.0], [1.0]])
    # The default number of samples is ten times the number of signals.
    assert learn_dictionary(data[1][:3], 2, penalty=0.1, rng=0).n_samples == 30


def test_signals_are_checked_once(data, monkeypatch):
    calls = []

    def count(*arguments, **options):
        calls.append(arguments)
        return checked_signals(*arguments, **options)

    monkeypatch.setattr(samples, "checked_signals", count)
    learn(data[1], 50, n_atoms=8)
    assert len(calls) == 1
    SpikingDictionaryLearning(4, alpha=0.1, max_iter=1, random_state=0).fit(data[1])
    assert len(calls) == 2


# -- atoms that are silent, thresholds at their bound ---------------------------------------------


def with_unused_atoms(way):
    """Return a case with four inputs that are always zero, and two atoms that have only these."""
    _, signals = data_of(way)
    positive = settings_of(way).positive_atoms
    start = np.pad(random_dictionary(8, 12, positive=positive, rng=1), ((0, 2), (0, 4)))
    start[-2:, -4:] = 0.5
    return start, np.pad(signals, ((0, 0), (0, 4)))


@pytest.mark.parametrize("way", ["usage", "signed codes"])
def test_atoms_silent_for_a_thousand_samples_are_reported_and_replaced(way):
    start, signals = with_unused_atoms(way)
    settings = replace(settings_of(way), batch_size=100, rule=UsageSteps(patience=1e12))
    assert learn(signals, 900, settings, start=start).dead_atoms.size == 0
    with pytest.warns(ConvergenceWarning, match="2 of 10 atoms are dead"):
        left = learn(signals, 1000, replace(settings, replacement=False), start=start)
    replaced = learn(signals, 1000, settings, start=start)
    assert left.dead_atoms.tolist() == [8, 9]
    assert left.n_replaced == 0
    np.testing.assert_allclose(left.dictionary[8:], start[8:], atol=1e-12)
    assert replaced.dead_atoms.size == 0  # the silence of replaced atoms is counted from zero
    assert replaced.n_replaced == 2
    # An atom is dead after a thousand samples without a spike, or ten for each atom if that is more.
    many = TwoPhaseLearner(network_of({}, 120, 4), USAGE, scale=1.0)
    many.last_fired[:3] = [-1200, -1199, -1201]
    assert many.dead_atoms.tolist() == [0, 2]


@pytest.mark.parametrize("positive_code", [True, False])
def test_one_of_two_similar_atoms_is_given_away(positive_code):
    """The start has true atom 3 twice, the second time negated if codes have signs, and atom 7 is missing."""
    rng = np.random.default_rng(0)
    atoms = random_dictionary(40, 30, positive=False, rng=1)
    codes = np.where(rng.uniform(size=(3200, 40)) < 0.1, rng.uniform(0.5, 1.0, (3200, 40)), 0.0)
    signals = (codes if positive_code else codes * rng.choice([-1.0, 1.0], codes.shape)) @ atoms
    start = atoms.copy()
    start[7] = (start[3] if positive_code else -start[3]) + 0.02 * rng.standard_normal(30)
    settings = LearningSettings(
        penalty=0.1, positive_atoms=False, positive_code=positive_code, rule=UsageSteps(reach=0.1)
    )
    for is_on in (False, True):
        learner = learn(signals, 6400, replace(settings, replacement=is_on), start=start)
        nearest = np.abs(atoms @ learner.dictionary.T).max(axis=1)
        assert (learner.n_replaced, nearest[7] > 0.9) == (int(is_on), is_on)
        assert np.delete(nearest, 7).min() > 0.9


def test_atoms_are_similar_only_beyond_what_their_spread_allows():
    rng, n_fired = np.random.default_rng(0), np.arange(120)[::-1]
    atoms = random_dictionary(30, 40, positive=False, rng=2)

    def similar(rows, **options):
        usual = {"positive_code": True, "free": np.ones(len(rows), dtype=bool)}
        return similar_atoms(rows @ rows.T, n_fired[: len(rows)], **{**usual, **options})

    pair = atoms.copy()
    pair[4] = pair[21] + 0.05 * rng.standard_normal(40)
    assert similar(atoms) == []
    assert similar(pair) == similar(3.0 * pair) == [21]  # atom 21 fired for fewer signals
    pair[4] *= -1.0
    assert similar(pair) == []
    assert similar(pair, positive_code=False) == [21]
    assert similar(pair[[4, 21, *range(5, 17)]], positive_code=False) == []  # 14 atoms are too few to judge
    # If many atoms are alike, as those of photographs, a similar pair is no exception.
    groups = np.repeat(atoms[:10], 3, axis=0) + 0.05 * rng.standard_normal((30, 40))
    assert similar(groups) == []
    # Among many atoms, all similar pairs are found at once, the most similar first; no atom is replaced
    # twice.
    many = random_dictionary(120, 40, positive=False, rng=3)
    many[5], many[8], many[9] = many[50], many[70] + 0.01, many[70] - 0.01
    assert similar(many)[:2] == [50, 70]
    # A pair is passed over if one of its atoms is on trial, or has just been.
    assert 50 not in similar(many, free=np.arange(120) != 5)


def test_atoms_are_weak_only_beyond_what_their_spread_allows():
    rng = np.random.default_rng(0)
    n_fired, sizes = rng.integers(50, 90, 40), 0.3 * rng.standard_normal(40)

    def weak(sizes, n_fired=n_fired, share=0.2):
        usage = n_fired * np.exp(sizes)
        return UsageSteps().stalled(n_fired, {"usage": usage, "averaged": share * usage}).tolist()

    low = np.r_[sizes[:39], -2.0]
    assert weak(sizes) == []
    assert weak(low) == weak(low + 5.0) == [39]
    assert weak(-low) == []  # large codes never make an atom weak
    assert weak(low, share=0.3) == []  # the averages have not fallen: signals have not changed
    # Low averages of three of forty atoms are chance.
    assert weak(low, share=np.where(np.arange(40) < 37, 1.0, 0.2)) == []
    assert weak(low, share=np.where(np.arange(40) < 36, 1.0, 0.2)) == [39]
    assert weak(low, np.r_[n_fired[:39], 20]) == []  # the atom fired too rarely to be judged
    assert weak(low[-14:], n_fired[-14:]) == []  # 14 atoms are too few to judge
    # A few large code sizes, as with photographs, widen the range that counts as usual.
    assert weak(np.r_[low, 1.5, 2.0, 2.5], rng.integers(50, 90, 43)) == []


def test_a_rule_may_be_changed_and_the_weights_be_looked_at_at_any_time(data):
    """A new rule begins without memory, and reading the consistency does not disturb the next batch."""
    learner = learn(data[1], 32, replace(USAGE, rule=PaperSteps()))
    before = learner.dictionary
    learner.settings = USAGE
    np.testing.assert_array_equal(learner.dictionary, before)
    other = copy.copy(learner)

    def run(batch):
        assert learner.synapses.consistency == pytest.approx(learner.network.consistency, abs=1e-12)
        return batch.run(learner.synapses, data[1][:16])

    assert learner.learn_batch(16, run) == other.learn(data[1][:16])
    assert_same(learner, other)


def test_a_rule_may_leave_defaults_out():
    class Slow(UsageSteps):
        def defaults(self, readout, inputs, signs):
            return {"duration": 9.0}

    settings = LearningSettings(penalty=0.1, rule=Slow())
    assert (settings.duration, settings.amplitude, settings.kappa) == (9.0, 3.0, 0.1)


@pytest.mark.parametrize("is_on", [True, False])
def test_a_weak_atom_keeps_its_weights_and_begins_anew(is_on):
    rng = np.random.default_rng(1)
    atoms = random_dictionary(40, 30, positive=False, rng=1)
    signals = np.where(rng.uniform(size=(3200, 40)) < 0.1, rng.uniform(0.5, 1.0, (3200, 40)), 0.0) @ atoms
    settings = LearningSettings(penalty=0.1, positive_atoms=False, replacement=is_on)
    usual = learn(signals, 3168, settings, start=atoms)
    usual.memory["averaged"][8:12] = 0.01  # as if the signals had changed
    weak = copy.copy(usual)
    weak.memory["usage"][7] *= 0.5
    weak.memory["averaged"][7] = 0.01
    usual.learn(signals[3168:])
    weak.learn(signals[3168:])
    np.testing.assert_array_equal(usual.synapses.values, weak.synapses.values)
    others = np.delete(np.arange(40), 7)
    for name in ("usage", "movement", "average"):
        np.testing.assert_array_equal(weak.memory[name][others], usual.memory[name][others])
    assert usual.memory["movement"][7] > 0.0
    assert (weak.memory["usage"][7] == weak.memory["movement"][7] == weak.n_fired[7] == 0.0) == is_on
    if is_on:
        row = weak.synapses.feedback_rows[7]  # the atom is its new row, without an average of its old rows
        np.testing.assert_allclose(weak.dictionary[7], row / np.linalg.norm(row), rtol=1e-12)


@pytest.mark.filterwarnings("always")
def test_one_warning_where_all_atoms_die(data, recwarn):
    large = LearningSettings(penalty=0.05, rule=UsageSteps(patience=1e12))
    learner = learn(data[1], 900, large)
    assert not recwarn
    learner.settings = replace(large, penalty=50.0)
    continue_learning(learner, data[1], n_samples=2300, rng=3)
    (warning,) = recwarn
    assert "all 8 atoms are silent" in str(warning.message)
    assert warning.filename == __file__


def test_codes_of_most_atoms_cause_a_warning():
    """For bytes, the penalty of unit norms gives atoms of noise; a tenth of the norm is a good penalty."""
    signals = np.random.default_rng(0).integers(-128, 128, (200, 20)).astype(np.float64)
    settings = LearningSettings(penalty=0.1, positive_atoms=False, positive_code=False)
    with pytest.warns(IllPosedWarning, match="1[5-9] of 20 atoms.*a tenth of the signals' norm, 3[0-9]"):
        learn_dictionary(signals, 20, settings=settings, n_samples=1600, rng=0)


# On the clock of the paper, a neuron fires at most once per step and cannot run away.
@pytest.mark.parametrize("way", ["usage", "paper", "signed atoms and codes"])
def test_a_runaway_keeps_the_weights(way):
    settings, (atoms, signals) = replace(settings_of(way), duration=50.0, weight_format=None), data_of(way)
    network = TwoPhaseNetwork.consistent(atoms, **signs_of(settings))
    network = replace(network, lateral=0.06 * network.lateral)
    learner = TwoPhaseLearner(network, settings, scale=5.0)
    before = copy.deepcopy(learner)
    with pytest.raises(RunawayFeedbackError, match="weights are those before this batch"):
        continue_learning(learner, signals, n_samples=100, n_jobs=2)
    assert_same(learner, before)


def test_a_learner_keeps_the_signs_that_it_began_with():
    _, signals = data_of("usage")
    learner = new_learner(signals, 8, settings=USAGE, rng=3)
    learner.settings = replace(USAGE, positive_atoms=False)
    with pytest.raises(ValueError, match="settings must have the network's"):
        learner.learn(signals[:16])


def test_bits_of_a_batch_do_not_depend_on_threads_of_blas():
    signals = np.abs(np.random.default_rng(0).standard_normal((256, 400)))
    learners = [new_learner(signals, 300, penalty=1.0, rng=0) for _ in range(2)]
    for n_threads, learner in enumerate(learners, 1):
        with threadpool_limits(limits=n_threads, user_api="blas"):
            for batch in np.split(signals, 2):
                learner.learn(batch)
    assert_same(*learners)


def test_atoms_that_overlap_by_nature_are_not_replaced_for_ever():
    rng = np.random.default_rng(0)
    topics = normalise(np.where(rng.random((40, 300)) < 0.03, rng.random((40, 300)), 0.0) + np.eye(40, 300))[
        0
    ]
    picked = [rng.choice(40, 3, replace=False) for _ in range(3000)]
    signals = np.array([(rng.random(3) + 0.5) @ topics[atoms] for atoms in picked])
    learner = learn_dictionary(signals, 40, penalty=0.05, n_samples=60_000, rng=0)
    assert 0 < learner.n_replaced <= 40
    assert match_atoms(learner.dictionary, topics).best_cosine.mean() > 0.9


@pytest.mark.filterwarnings("ignore:signals has an offset")
@pytest.mark.filterwarnings("ignore:a signal uses")
def test_steps_are_halved_where_signals_have_an_offset(tmp_path):
    rng = np.random.default_rng(0)
    codes = rng.standard_normal((4000, 16)) * (rng.random((4000, 16)) < 0.2)
    signals = codes @ rng.standard_normal((16, 16)) + 16.0
    settings = LearningSettings(
        penalty=0.8, amplitude=5.0, duration=5.0, positive_atoms=False, positive_code=False, time=Clock(1 / 2)
    )
    checkpoint = {"checkpoint": tmp_path / "learner.npz", "checkpoint_every": 500}
    with pytest.warns(RuntimeWarning, match="ran away on a clock"):
        learner = learn_dictionary(signals, 32, settings=settings, n_samples=2000, rng=0, **checkpoint)
    assert learner.n_halvings > 1
    assert learner.settings == settings
    known = rng.random(signals.shape) < 0.5
    for x, mask, n_halvings in ((signals, None, 1), (signals - 16.0, None, 0), (signals, known, 1)):
        assert new_learner(x, 32, mask=mask, settings=settings).n_halvings == n_halvings
    assert new_learner(signals[:199], 32, settings=settings).n_halvings == 0
    continue_learning(learner, signals, n_samples=4000, rng=0, **checkpoint)
    assert learner.n_samples == 4000


def test_the_paper_s_steps_learn_in_batches_of_the_default_size():
    rng = np.random.default_rng(0)
    signals = np.abs(rng.standard_normal((400, 64)))
    learner = learn_dictionary(
        signals, 40, settings=LearningSettings(penalty=0.1, rule=PaperSteps()), n_samples=160, rng=0
    )
    assert not learner.dead_atoms.size


# -- weights of few bits -------------------------------------------------------------------------


def on_grid(weights, bits, exponent, sign="non-negative"):
    mantissas, least = np.ldexp(weights, -exponent), 0 if sign == "non-negative" else -(2 ** (bits - 1))
    largest = 2**bits - 1 if sign == "non-negative" else 2 ** (bits - 1) - 1
    return (mantissas == np.rint(mantissas)).all() and least <= mantissas.min() <= mantissas.max() <= largest


@pytest.mark.parametrize("rounding", ["nearest", "stochastic", "floor"])
@pytest.mark.parametrize(
    ("bits", "exponent", "sign", "between", "lateral"),
    [(4, None, "non-negative", -4, -3), (8, None, "non-negative", -8, -7), (6, -5, "non-negative", -5, -5),
     (9, None, "signed", -8, -7)],
)  # fmt: skip
@pytest.mark.parametrize("steps", [UsageSteps(), PaperSteps(step=0.05)], ids=["usage", "paper"])
def test_weights_are_on_the_grid_after_every_batch(
    data, steps, bits, exponent, sign, between, lateral, rounding
):
    """Weights are on the grid also at the start and after replacements; thresholds are at least 0.05."""
    weight_format = FixedPoint(bits=bits, exponent=exponent, sign=sign, rounding=rounding)
    signs = {} if sign == "non-negative" else SIGNS["signed atoms and codes"]
    settings = LearningSettings(penalty=0.05, batch_size=16, weight_format=weight_format, rule=steps, **signs)
    learner = new_learner(data[1], 8, settings=settings, rng=3)
    learner.last_fired[:2] = -5000
    for first in range(0, 96, 16):
        network = learner.network
        assert on_grid(network.feedforward, bits, between, sign)
        assert on_grid(network.feedback, bits, between, sign)
        assert on_grid(network.lateral, bits, lateral, sign)
        assert np.diagonal(network.lateral).min() >= 0.05
        learner.learn(data[1][first : first + 16])
    rounded = TwoPhaseNetwork.consistent(data[0], **signs).rounded(weight_format, rng=0)
    assert on_grid(rounded.feedback, bits, between, sign)
    assert on_grid(rounded.lateral, bits, lateral, sign)
    faint = TwoPhaseNetwork.consistent(0.3 * data[0], **signs).rounded(weight_format, rng=0)
    assert np.diagonal(faint.lateral).min() >= 0.05


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_one_batch_is_the_exact_update_rounded(data, rounding):
    """`nearest` rounds to the closest number of the grid, `stochastic` to one of the two neighbours."""
    weight_format = replace(STOCHASTIC, rounding=rounding)
    learner = new_learner(data[1], 8, settings=replace(USAGE, weight_format=weight_format), rng=3)
    exact = copy.deepcopy(learner)
    exact.settings = USAGE
    for some in (learner, exact):
        some.learn(data[1][:16])
    for name, step in (("feedforward", 2.0**-8), ("feedback", 2.0**-8), ("lateral", 2.0**-7)):
        ours, theirs = getattr(learner.network, name), getattr(exact.network, name)
        assert np.abs(ours - theirs).max() < step * (0.5 + 1e-9 if rounding == "nearest" else 1.0)
        if rounding == "nearest":
            expected = [
                float(round(Fraction(value) / Fraction(step)) * Fraction(step)) for value in theirs.flat
            ]
            np.testing.assert_array_equal(ours.ravel(), expected)
        assert np.abs(ours - theirs).max() > 0.1 * step
    fine = learn(data[1], settings=replace(USAGE, weight_format=FixedPoint(bits=45, sign="non-negative")))
    np.testing.assert_allclose(fine.network.lateral, learn(data[1]).network.lateral, rtol=0, atol=1e-9)


def test_stochastic_rounding_is_right_on_average_and_follows_its_seed():
    """The average is over 400 seeds, with a standard error of at most a fortieth of a step."""
    start = TwoPhaseNetwork.consistent(random_dictionary(8, 12, rng=0))
    settings = replace(USAGE, weight_format=replace(STOCHASTIC, bits=3))
    found = [
        TwoPhaseLearner(start, settings, scale=5.0, rounding_seed=seed).network.feedforward
        for seed in range(400)
    ]
    np.testing.assert_allclose(np.mean(found, axis=0), start.feedforward, atol=5 * 2.0**-3 / 40.0)
    again = TwoPhaseLearner(start, settings, scale=5.0, rounding_seed=7)
    np.testing.assert_array_equal(again.network.feedforward, found[7])


def test_weights_beyond_the_range_are_counted(data):
    network = TwoPhaseNetwork.consistent(1.9 * data[0])  # thresholds become 3.6, and some weights exceed 1
    nearest = replace(USAGE, weight_format=replace(STOCHASTIC, rounding="nearest"))
    learner = TwoPhaseLearner(network, nearest, scale=5.0)
    beyond = 2 * np.count_nonzero(network.feedforward > 255.5 / 256)
    assert learner.n_saturated == beyond + np.count_nonzero(network.lateral > 255.5 / 128)
    assert learner.network.lateral.max() == 255 / 128
    learner.learn(data[1][:16])
    assert learner.n_saturated > beyond
    assert state(learner)["settings"] == nearest.as_text()
