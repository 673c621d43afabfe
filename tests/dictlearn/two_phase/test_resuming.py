"""Nothing learned is lost by copies, files, checkpoints, threads, parts, callbacks, Ctrl-C or full disks."""

# ruff: noqa: E501 - a case a line reads better

import copy
import json
import os
import pickle
import signal
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dictlearn import (
    Batch,
    LearningSettings,
    PaperSteps,
    Rule,
    SpikingDictionaryLearning,
    TwoPhaseLearner,
    UsageSteps,
    continue_learning,
    learn_dictionary,
    mean_objective,
    new_learner,
)
from dictlearn.two_phase.rule import KINDS
from snn import Exact
from snn.base.archive import Entry, save_archive
from tests.dictlearn.two_phase.learners import TIMES, assert_same
from tests.dictlearn.two_phase.test_learning import USAGE, WAYS, data_of, settings_of
from tests.processes import interrupted
from tests.tiers import examples


class StopHereError(Exception):
    pass


def stop_at(patch, n_batches):
    """Make learning fail before `n_batches` batches are done."""
    plain, calls = TwoPhaseLearner.learn_batch, []

    def failing(self, *arguments, **options):
        calls.append(1)
        if len(calls) > n_batches:
            raise StopHereError
        return plain(self, *arguments, **options)

    patch.setattr(TwoPhaseLearner, "learn_batch", failing)


@pytest.fixture(scope="module")
def signals():
    return data_of("usage")[1]


def learn(signals, n_samples=600, settings=USAGE, n_atoms=8, rng=3, **options):
    return learn_dictionary(signals, n_atoms, settings=settings, n_samples=n_samples, rng=rng, **options)


def begun(signals, settings=USAGE, rng=3, **options):
    return new_learner(signals, 8, settings=settings, rng=rng, **options)


def continued(learner, signals, n_samples=600, rng=3, **options):
    continue_learning(learner, signals, n_samples=n_samples, rng=rng, **options)
    return learner


@pytest.mark.property
@examples(10)
@given(
    way=st.sampled_from(list(WAYS)),
    masked=st.booleans(),
    replaced=st.booleans(),
    n_batches=st.integers(0, 17),
    n_jobs=st.sampled_from([1, 3]),
    how=st.sampled_from(["checkpoint", "learner", "file", "pickle", "copy"]),
)
def test_a_run_that_stopped_anywhere_goes_on_bit_for_bit(
    tmp_path_factory, way, masked, replaced, n_batches, n_jobs, how
):
    settings, signals = settings_of(way), data_of(way)[1][:90]
    mask = np.random.default_rng(7).uniform(size=signals.shape) < 0.7 if masked else None
    options = {"mask": mask, "n_samples": 200}
    kept = {"settings": replace(settings, replacement=replaced)}
    expected, learner = begun(signals, mask=mask, **kept), begun(signals, mask=mask, **kept)
    for each in (expected, learner):
        each.last_fired[:2] = 0 if how in ("file", "checkpoint") else -990  # these two atoms will be replaced
    fresh = copy.deepcopy(learner)
    continued(expected, signals, **options)
    path = tmp_path_factory.mktemp("learner") / "learner.npz"
    saved = {"checkpoint": path, "checkpoint_every": 32} if how == "checkpoint" else {}
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, n_batches)
        try:
            continued(learner, signals, n_jobs=n_jobs, **options, **saved)
        except StopHereError:
            assert learner.n_samples < 200
    if how == "checkpoint":
        if path.exists():
            assert 0 <= learner.n_samples - TwoPhaseLearner.load(path).n_samples < 32
        learner = fresh
    elif how == "file":
        learner.save(path)
        learner = TwoPhaseLearner.load(path)
    elif how != "learner":
        before = learner
        make = {"copy": copy.deepcopy, "pickle": lambda one: pickle.loads(pickle.dumps(one))}[how]
        learner = make(before)
        if n_batches:  # learning by the original must not change its copy
            before.learn(signals[:16])
    continued(learner, signals, **options, **saved)
    assert_same(learner, expected)
    assert learner.rounding_seed == expected.rounding_seed
    assert learner.settings == expected.settings
    # Learning goes on for a thousand samples, to compare state that no reported number shows yet.
    for each in (learner, expected):
        each.learn(np.resize(signals, (1000, 12)))
    assert_same(learner, expected)


def test_every_epoch_shows_every_signal_once_in_an_order_of_its_seed(signals, monkeypatch):
    """The last epoch is cut short, and learning also continues from the middle of an epoch."""
    shown, plain = [], Batch.run
    monkeypatch.setattr(
        Batch,
        "run",
        lambda self, synapses, batch, *rest, **named: (
            shown.append(batch),
            plain(self, synapses, batch, *rest, **named),
        )[1],
    )
    stop = {"callback": lambda learner: learner.n_samples >= 66, "callback_every": 1}
    learner = learn(signals[:50], 120, **stop)
    assert learner.n_samples == 66
    continued(learner, signals[:50], 120)
    assert [len(batch) for batch in shown] == [16, 16, 16, 2, 16, 16, 16, 2, 16, 4]
    seed = int(np.random.default_rng(3).integers(2**62))
    orders = [np.random.default_rng([seed, epoch]).permutation(50) for epoch in range(3)]
    np.testing.assert_array_equal(np.vstack(shown), signals[:50][np.concatenate(orders)[:120]])


def test_callback_sees_the_learner_and_may_stop_it(signals, tmp_path):
    seen, options = [], {"checkpoint": tmp_path / "learner.npz"}
    learn(signals, 2500, callback=lambda learner: seen.append(learner.n_samples))
    assert seen == [1012, 2008, 2500]
    stopped = learn(signals, 1100, callback=lambda learner: True, **options)
    assert stopped.n_samples == 1012
    assert_same(TwoPhaseLearner.load(tmp_path / "learner.npz"), stopped)
    resumed = learn(signals, 1100, **options)
    assert_same(resumed, learn(signals, 1100))
    assert_same(learn(signals, 1100, **options), resumed)  # the second call has nothing left to do
    for again in (lambda: learn(signals, 1000, **options), lambda: continued(resumed, signals, 1000)):
        with pytest.raises(ValueError, match="1,100 samples already"):
            again()


def test_checkpoints_are_written_as_often_as_asked(signals, tmp_path):
    path, seen = tmp_path / "learner.npz", []

    def look(learner):
        seen.append((learner.n_samples, TwoPhaseLearner.load(path).n_samples if path.exists() else 0))

    learn(signals, 112, checkpoint=path, checkpoint_every=40, callback=look, callback_every=1)
    assert seen == [(16, 0), (32, 0), (48, 0), (64, 48), (80, 48), (96, 80), (112, 80)]
    assert TwoPhaseLearner.load(path).n_samples == 112


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an interval timer")
def test_ctrl_c_leaves_whole_batches(signals):
    """After an interrupt at any time, the weights are those after a whole batch."""
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    learner = begun(signals)
    learner.learn(signals[:1])  # compiles the kernels
    expected = copy.deepcopy(learner)
    try:
        # The timer repeats, because Python ignores errors that are raised during garbage collection.
        signal.setitimer(signal.ITIMER_REAL, 0.0319, 5.0)
        with pytest.raises(KeyboardInterrupt):
            continued(learner, signals, 1_000_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler)
    if learner.n_samples > expected.n_samples:
        continued(expected, signals, learner.n_samples)
    assert_same(learner, expected)


PROGRAM = """
import sys
import numpy as np
from dictlearn import SpikingDictionaryLearning
from snn import Exact

X = np.random.default_rng(0).standard_normal((64, 64))
learning = SpikingDictionaryLearning(settings={"time": Exact()}, n_jobs=int(sys.argv[1]), random_state=0).partial_fit(X)
try:
    ready()
    learning.partial_fit(3e3 * X)
except KeyboardInterrupt:
    print("interrupted", learning.learner_.n_samples)
"""


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="needs SIGINT")
def test_a_shallow_copy_learns_for_itself():
    """Batches change weights in place."""
    signals = data_of("usage")[1]
    learner = begun(signals)
    weights, other = learner.synapses.values.copy(), copy.copy(learner)
    for _ in range(2):
        other.learn(signals[:16])
    np.testing.assert_array_equal(learner.synapses.values, weights)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_stops_a_long_batch_soon(n_jobs):
    """If threads ended only after their last spike, the test would take more than a minute."""
    printed, seconds = interrupted(PROGRAM, n_jobs, after=1.0)
    assert printed == "interrupted 64\n"
    assert seconds < 8.0


def test_huge_amplitudes_are_refused_and_leave_what_was_learned():
    signals = np.random.default_rng(0).standard_normal((32, 5))
    learning = SpikingDictionaryLearning(8, n_jobs=2, random_state=0).partial_fit(signals)
    before = copy.deepcopy(learning.learner_)
    signals[0] /= 1e300  # signal 0 stays small, so that signal 1 is the first that runs away
    with pytest.raises(ValueError, match="signal 1 of this batch"):
        learning.partial_fit(1e300 * signals)
    assert_same(learning.learner_, before)
    learner = TwoPhaseLearner(before.network, before.settings, scale=1.0)
    batch = learner.batch(9)
    with pytest.raises(ValueError, match="signal 5 of this batch"):
        batch.run(learner.synapses, np.outer(np.arange(9) > 4, np.full(5, 1e8))[4:8], start=4, stop=8)


def test_settings_survive_as_text():
    steps = [UsageSteps(gain=3.0, lateral_gain=0.5), PaperSteps(decay=0.1, reweighting=False)]
    several = [*(settings_of(way) for way in WAYS), *(replace(USAGE, rule=each) for each in steps)]
    several += [replace(USAGE, time=time) for time in (*TIMES.values(), Exact(screening=False))]
    for settings in several:
        assert LearningSettings.from_text(settings.as_text()) == settings


@dataclass(frozen=True, kw_only=True)
class Momentum(Rule):
    """A rule of a user, which remembers the last change and sets H to F B."""

    remembers: ClassVar = {"last": Entry("f", ("atoms", "inputs"))}
    step: float = 0.1

    def change(self, batch, observed, synapses, memory):
        n, settings = batch.n_signals, batch.settings
        gradient = observed.codes[:n].T @ observed.reconstruction_gradient[:n] / settings.kappa
        memory["last"] = 0.5 * memory["last"] - self.step / n / batch.energy * gradient
        rows = np.maximum(synapses.feedback_rows + memory["last"], 0.0)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        synapses.feedback_rows[:], synapses.feedforward[:], synapses.lateral[:] = rows, rows, rows @ rows.T


def test_a_rule_of_one_s_own_learns_and_goes_on_from_a_file(signals, tmp_path):
    class OwnSteps(UsageSteps):
        pass

    for rule in (OwnSteps(gain=3.0), Momentum(step=2.0)):
        settings, path = replace(USAGE, rule=rule), tmp_path / f"{type(rule).__name__}.npz"
        learner = learn(signals, 600, settings)
        learner.save(path)
        loaded = TwoPhaseLearner.load(path)
        assert loaded.settings == settings
        assert_same(continued(loaded, signals, 1200), learn(signals, 1200, settings))
        start = mean_objective(begun(signals).dictionary, signals, penalty=0.05).objective
        assert mean_objective(loaded.dictionary, signals, penalty=0.05).objective < 0.85 * start
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(KINDS, f"{__name__}.Momentum")
        with pytest.raises(ValueError, match="Momentum: define or import this class"):
            TwoPhaseLearner.load(path)


class Wrong(Rule):
    def change(self, batch, observed, synapses, memory):
        synapses.feedback_rows[-1, -1] = np.nan if batch.n_samples < 64 else -1.0


def test_a_rule_that_makes_impossible_weights_is_named_and_changes_nothing(signals):
    for n_samples in (0, 64):
        learner = learn(signals, 64, USAGE) if n_samples else begun(signals)
        learner.settings = replace(USAGE, rule=Wrong())
        before = copy.deepcopy(learner)
        with pytest.raises(ValueError, match=f"Wrong did not after {n_samples} samples"):
            continue_learning(learner, signals, rng=0)
        assert_same(learner, before)


OTHER = {
    "settings": [{"settings": replace(USAGE, **change)} for change in ({"penalty": 0.06}, {"penalty": [0.05] * 8}, WAYS["paper"], WAYS["few bits"])],
    "number of atoms": [{"n_atoms": 9}],
    "seed": [{"rng": 4}],
    "start": [{"start": np.eye(8, 12) + 0.1, "rng": None}],
    "data": [{"unit": 2.0}, {"mask": np.ones(12, dtype=bool)}],
}  # fmt: skip


@pytest.mark.parametrize("what", OTHER)
def test_a_checkpoint_of_something_else_is_refused(signals, tmp_path, what):
    path = tmp_path / "learner.npz"
    learn(signals, 64, checkpoint=path)
    before = path.read_bytes()
    for changes in OTHER[what]:
        options = {name: value for name, value in changes.items() if name != "unit"}
        with pytest.raises(ValueError, match=f"learner.npz' must be .* made with other {what}"):
            learn(signals * changes.get("unit", 1.0), 128, checkpoint=path, **options)
    assert path.read_bytes() == before


def test_a_checkpoint_has_its_own_seed_and_does_not_depend_on_what_is_unknown(signals, tmp_path):
    path, mask = tmp_path / "learner.npz", np.random.default_rng(5).uniform(size=signals.shape) < 0.6
    first = learn(np.where(mask, signals, np.nan), 64, rng=None, checkpoint=path, mask=mask)
    second = learn(np.where(mask, signals, 7.0), 128, rng=None, checkpoint=path, mask=mask)
    assert (first.n_samples, second.n_samples) == (64, 128)
    with pytest.raises(ValueError, match="was made with other seed"):
        learn(signals, 300, rng=0, checkpoint=path, mask=mask)


@pytest.mark.parametrize("way", ["paper", "few bits"])
def test_a_checkpoint_whose_settings_are_named_in_another_order_is_resumed(signals, tmp_path, way):
    path, options = tmp_path / "learner.npz", {"settings": settings_of(way)}
    as_text = LearningSettings.as_text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            LearningSettings,
            "as_text",
            lambda self: json.dumps(dict(reversed(json.loads(as_text(self)).items()))),
        )
        learn(signals, 64, checkpoint=path, **options)
    assert_same(learn(signals, 128, checkpoint=path, **options), learn(signals, 128, **options))


DEEP = "[" * 100_000 + "]" * 100_000
# Wrong values of the entries of a file; if the error names another entry, its name comes first.
WRONG = {
    "settings": ["5", DEEP, '{"penalty": 0.1, "rule": 5}', '{"penalty": 0.1, "rule": {"kind": []}}', 5.0],
    "n_samples": [np.inf, -1, [64]],
    "n_spikes": [-1, 0.5],
    "n_fired": [np.full(8, 65)],
    "last_fired": [np.full(8, 65), np.arange(7)],
    "last_compared": [np.full(8, 65), np.full(8, -1)],
    "rule.usage": [np.full(8, np.nan), np.full(8, -1.0), 1.0],
    "rule.movement": [np.full(8, -1.0)],
    "rule.average": [np.ones((12, 8))],
    "history": [np.zeros((2, 9)), np.full((1, 10), np.inf)],
    "sums": [np.zeros(5), np.full(6, -1.0)],
    "scale": [np.nan, "1", -1.0],
    "rounding_seed": [-2],
    "feedforward": [np.full((8, 12), np.nan), np.full((8, 12), -1.0)],
    "feedback": [np.ones((12, 9))],
    "lateral": [np.zeros((8, 8)), -np.eye(8)],
    "identity": ["[]", "{", DEEP, 1, "{}", '{"seed": [1]}'],
}


@pytest.mark.parametrize("entry", WRONG)
def test_a_checkpoint_that_no_learner_wrote_is_refused_and_kept(signals, tmp_path, entry):
    path = tmp_path / "learner.npz"
    learner = learn(signals, 64, checkpoint=path)
    whole = path.read_bytes()
    with np.load(path) as archive:
        entries = dict(archive)

    def require_refused(name):
        damaged = path.read_bytes()
        with pytest.raises(ValueError, match=rf"saved (checkpoint of a )?TwoPhaseLearner; got '.*{name}"):
            learn(signals, 128, checkpoint=path)
        assert path.read_bytes() == damaged

    for value in WRONG[entry]:
        save_archive(path, {**entries, entry: value})
        require_refused("" if isinstance(value, str) else entry)
    if entry == "identity":
        for damaged in (whole[:-700], whole[:500] + bytes(500) + whole[1000:], b""):
            path.write_bytes(damaged)
            require_refused("")
        learner.save(path)  # the file of a learner, but not one of `learn_dictionary`
        require_refused("identity")


def test_a_folder_that_cannot_be_written_is_named_before_learning(signals, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    learner = begun(signals)
    with pytest.raises(ValueError, match=r"checkpoint .* can be written"):
        continued(learner, signals, 32, checkpoint=tmp_path / "learner.npz")
    assert learner.n_samples == 0
