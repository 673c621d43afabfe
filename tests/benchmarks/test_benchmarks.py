"""The benchmarks run at a small size, so that they cannot rot; and what is wrong is never timed."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from solvers import LassoProblem
from tests.benchmarks import convergence, peers, quoted, report, spikes_alone
from tests.benchmarks.__main__ import sections
from tests.benchmarks.contest import best_of, contest, contest_table, faster
from tests.benchmarks.peers import Peer
from tests.benchmarks.problems import planted_problems, random_dictionary
from tests.benchmarks.simulator import require_same_spikes
from tests.benchmarks.threads import require_same_bits
from tests.benchmarks.timing import WrongAnswerError, relative_gaps, verify
from tests.processes import run_python

ROOT = Path(__file__).parents[2]
ALL_PEERS = (
    peers.SPIKES,
    peers.PREPARED_SPIKES,
    *peers.ACTIVE_SETS,
    peers.PREPARED_ACTIVE_SET,
    peers.FISTA,
    peers.LEAN_FISTA,
    peers.DENSE_FISTA,
    *peers.CLASSICAL,
    peers.SKLEARN_WITHOUT_GRAM,
    *peers.SKLEARN_BATCH,
)
# Sections that may have a page of their own, and are tested where they are written.
ELSEWHERE = {"convolution"}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmarks")
    names = [name for name in sections() if name not in ELSEWHERE]
    run_python("-m", "tests.benchmarks", *names, "--quick", "--output", folder)
    return folder


@pytest.mark.parametrize("name", [name for name in sections() if name not in ELSEWHERE])
def test_section_writes_its_figures(output, name):
    section = sections()[name]
    data = json.loads((output / f"{name}.json").read_text(), parse_constant=_refuse)
    assert data["quick"]
    page = (output / report.PAGE).read_text()
    part = page.split(f"\n## {section.TITLE}\n")[1].split("\n## ")[0]
    assert re.search(r"^\|.*\d.*\|$", part, flags=re.MULTILINE), "no table with numbers"
    assert "nan" not in part
    for picture in re.findall(r"\]\((.*\.png)\)", part):
        assert (output / picture).stat().st_size > 1000
    for target in section.targets(data):
        assert target.met is not None or "Brian2" in target.target or "SPAMS" in target.target
        assert target.work in page


def test_page_is_made_anew_from_the_figures_alone(output):
    before = (output / report.PAGE).read_text()
    (output / report.PAGE).unlink()
    run_python("-m", "tests.benchmarks", "--render", "--output", output)
    assert (output / report.PAGE).read_text() == before


def test_documentation_quotes_the_figures_that_stand_beside_it():
    measured = quoted.measured_figures()
    assert {name for needed, _ in quoted.BLOCKS.values() for name in needed} <= set(measured)
    found = []
    for name in quoted.QUOTING:
        text = (ROOT / name).read_text()
        assert quoted.filled(text, measured) == text, f"{name}: python -m tests.benchmarks --render"
        found += quoted.BLOCK.findall(text)
    assert {name for _, name, _ in found} == set(quoted.BLOCKS)


def test_figures_of_small_sizes_are_not_quoted(output):
    small = {file.stem: json.loads(file.read_text()) for file in output.glob("*.json")}
    text = (ROOT / "README.md").read_text()
    assert quoted.filled(text, small) == text


def test_unknown_section_is_refused():
    done = run_python("-m", "tests.benchmarks", "nonsense", returns=2)
    assert "sections must be of spikes" in done.stderr


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("peer", ALL_PEERS, ids=lambda peer: peer.name)
def test_peer_reaches_the_gap(peer, positive):
    if not peer.installed:
        pytest.skip(f"{peer.package} is not installed")
    rng = np.random.default_rng(3)
    dictionary = random_dictionary(20, 40)
    # Two signals, none of unit norm: every scale that a peer has of its own is passed through.
    signals = 3.0 * rng.standard_normal((2, 20))
    problem = LassoProblem(dictionary, signals, 1.5, positive=positive, gram=dictionary @ dictionary.T)
    with peers.quiet():
        if not peer.takes_batches:
            problem = problem.subset([1])
        call, own_tol = peers.calibrated(peer, problem, 1e-6)
        assert call is not None, own_tol
        codes = call()
    assert verify(problem, codes, 1e-6, peer.name) <= 1e-6
    # Not that of zeros, nor of anything else that is easy.
    assert relative_gaps(problem, np.zeros((problem.n_signals, 40))).min() > 0.1


@pytest.fixture
def problem():
    return planted_problems(random_dictionary(16, 32), support=2, n_signals=1)[0]


LIAR = Peer(name="liar", ask=lambda problem: lambda tol: np.zeros((problem.n_signals, problem.n_atoms)))


def test_wrong_answer_of_a_required_peer_raises(problem):
    with pytest.raises(WrongAnswerError, match="liar must reach a relative gap of 1e-06; got"):
        contest([problem], [peers.ACTIVE_SET, LIAR], 1e-6, quick=True, required=(LIAR,))


def test_wrong_answer_is_not_timed_and_wins_nothing(problem):
    outcome = contest([problem], [peers.ACTIVE_SET, peers.LEAN_FISTA, LIAR], 1e-6, quick=True)
    assert np.isnan(outcome["peers"]["liar"]["seconds"]).all()
    assert re.search(r"^\| liar .* not reached", contest_table(outcome, peers.ACTIVE_SET.name), re.MULTILINE)
    rivals = ["liar", peers.LEAN_FISTA.name]
    assert best_of(outcome, rivals) == peers.LEAN_FISTA.name
    assert math.isnan(faster(outcome, peers.ACTIVE_SET.name, ["liar"]))
    assert faster(outcome, peers.ACTIVE_SET.name, rivals) > 0.0


def test_answer_that_changes_after_calibration_raises(problem):
    def ask(question):
        right = peers.ACTIVE_SET.ask(question)
        answers = iter([right(1e-6), np.zeros((1, question.n_atoms))])
        return lambda tol: next(answers)

    with pytest.raises(WrongAnswerError, match="fickle"):
        contest([problem], [Peer(name="fickle", ask=ask)], 1e-6, quick=True)


def test_gap_that_is_not_a_number_raises(problem):
    nothing = np.full((1, problem.n_atoms), 1e200)
    with np.errstate(all="ignore"), pytest.raises(WrongAnswerError):
        verify(problem, nothing, 1e-2, "somebody")


def test_peer_that_is_not_installed_is_left_out_and_named(problem):
    absent = Peer(name="absent", ask=LIAR.ask, package="no-such-distribution")
    outcome = contest([problem], [peers.ACTIVE_SET, absent], 1e-6, quick=True)
    assert "absent" not in outcome["peers"]
    assert "Not installed, and so not here: no-such-distribution" in contest_table(
        outcome, peers.ACTIVE_SET.name
    )


def test_verification_of_spikes_and_bits_fails_on_wrong_ones():
    with pytest.raises(WrongAnswerError, match="got 3 and 2 spikes, 1 neurons differ"):
        require_same_spikes(np.array([1, 2]), np.array([1, 1]))
    with pytest.raises(WrongAnswerError, match="the same bits"):
        require_same_bits(np.array([1.0]), np.array([np.nextafter(1.0, 2.0)]), "a batch")


def test_spikes_are_counted_where_the_gap_is_certified(problem):
    (needed,) = spikes_alone.n_spikes([problem], 1e-4, {})
    assert needed > 0
    # A gap that rates do not reach: no number, and no median of it.
    (missing,) = spikes_alone.n_spikes([problem], 1e-13, {"readout": "rate", "max_duration": 50.0})
    assert math.isnan(missing)
    assert math.isnan(spikes_alone.median([missing, missing, 3.0]))
    assert spikes_alone.median([None, 2.0, 3.0]) == 3.0
    assert spikes_alone.count(missing) == "-"


def test_control_of_refinement_spends_the_same_products_on_fista(problem):
    found = spikes_alone.control([problem], 1e-5)
    (products,), (gap,), (needs,) = found["products"], found["fista"], found["fista_needs"]
    assert products % 2 == 0
    # A stage at least, with a look.
    assert products >= 4
    assert gap == pytest.approx(spikes_alone.fista_gap(problem, products), rel=1e-12)
    # More iterations than those it needs lead below the gap; a few less do not.
    assert spikes_alone.fista_gap(problem, needs) <= 1.001e-5
    assert spikes_alone.fista_gap(problem, needs - 10) > 1e-5


def test_slopes_are_those_of_powers():
    times = [8.0 * 2.0**k for k in range(8)]
    powers = dict(zip(convergence.READ_OUTS, (1, 1, 2), strict=True))
    signals = [
        {"time": times, "n_spikes": times, "slowest": 0.1 * k}
        | {name: [k * t**-power for t in times] for name, power in powers.items()}
        for k in (1.0, 2.0, 3.0)
    ]
    exponents = [convergence.slope(signals, name) for name in convergence.READ_OUTS]
    assert exponents == pytest.approx([-1.0, -1.0, -2.0])
    # 2 / t^2 is below 1e-3 from t = 44.7 on; spikes are one a time constant here.
    assert convergence.spikes_to(signals, convergence.ONE_WINDOW, 1e-3) == 64.0
    assert math.isnan(convergence.spikes_to(signals, "rate", 1e-6))


def test_targets_are_judged_honestly():
    assert report.at_least("work", 2.0, 2.0, "").met is True
    assert report.at_least("work", 2.0, 1.99, "").met is False
    assert report.at_least("work", 2.0, None, "").met is None
    assert report.at_most("work", 0.5, 0.51, "", " s").met is False
    assert report.at_most("work", 0.5, math.nan, "", " s").measured == "not measured"


def test_dictionary_learning_benchmark_runs(tmp_path):
    report = tmp_path / "report.md"
    options = ("--samples", "64", "--ablated", "1008", "--held-out", "10", "--quick")
    run_python("-m", "tests.benchmarks.dictionary_learning", *options, "--output", report)
    text = report.read_text()
    for name in ("two threads", "step 1/32", "as it comes", "the paper's settings"):
        assert name in text


def _refuse(constant):
    raise AssertionError(f"JSON has no {constant}")
