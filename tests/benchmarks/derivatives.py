"""Derivatives of codes, beside the time of the codes and of back-propagation through iterations."""

import numpy as np
from matplotlib.figure import Figure

from solvers import LassoProblem, SparseCodingResult, solve_active_set
from tests.benchmarks.report import Target, at_most
from tests.benchmarks.timing import Timing, WrongAnswerError, spread, table, timed

TITLE = "Derivatives of codes"
NEEDED = 1.0 / 3.0
LARGEST_ERROR = 1e-9
# Central differences of the eighth order, h f' = sum of c_k (f(k h) - f(-k h)).
STENCIL = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
STEP = 1e-5
CODES, BACKWARDS, FORWARDS = "codes", "vjp, all gradients", "jvp"


def designs(*, quick: bool) -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    """Return atoms, signals and a penalty of each design, as a share of the mean maximum."""
    sizes = ((24, 12, 20),) if quick else ((256, 64, 1000), (4096, 1024, 100))
    found = {}
    for n_atoms, n_features, n_signals in sizes:
        rng = np.random.default_rng(0)
        atoms, signals = (rng.standard_normal((n, n_features)) for n in (n_atoms, n_signals))
        atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
        for share in (0.3, 0.5):
            name = (
                f"{n_signals:,} codes, {n_atoms:,} atoms of {n_features:,}, penalty {share:g} of the maximum"
            )
            found[name] = (atoms, signals, share)
    return found


def run(*, quick: bool) -> dict:
    works = {}
    for name, (atoms, signals, share) in designs(quick=quick).items():
        penalty = share * float(np.abs(signals @ atoms.T).max(axis=1).mean())
        rng = np.random.default_rng(1)
        upstream, direction = (
            rng.standard_normal((len(signals), len(atoms))),
            rng.standard_normal(signals.shape),
        )

        def codes(signals=signals, atoms=atoms, penalty=penalty) -> SparseCodingResult:
            return solve_active_set(LassoProblem(atoms, signals, penalty))

        result = codes()

        def backwards(result=result, upstream=upstream) -> None:
            vars(result).pop("derivatives", None)
            gradients = result.vjp(upstream)
            _ = gradients.signals, gradients.dictionary, gradients.l1, gradients.l2

        def forwards(result=result, direction=direction) -> None:
            vars(result).pop("derivatives", None)
            result.jvp(signals=direction)

        wrong = error(result, atoms, signals, penalty, direction, upstream)
        if not wrong <= LARGEST_ERROR:
            raise WrongAnswerError(
                f"{name} must agree with differences to {LARGEST_ERROR:g}; got {wrong:.3g}"
            )
        timings = timed({CODES: codes, BACKWARDS: backwards, FORWARDS: forwards}, quick=quick, warm=True)
        works[name] = {
            "support": float(result.support_size.mean()),
            "error": wrong,
            "timings": {way: timing._asdict() for way, timing in timings.items()},
        }
    return {"works": works}


def error(
    result: SparseCodingResult,
    atoms: np.ndarray,
    signals: np.ndarray,
    penalty: float,
    direction: np.ndarray,
    upstream: np.ndarray,
) -> float:
    """Return the largest relative error of derivatives beside differences, for ten signals."""
    few = slice(0, 10)
    total = np.zeros((len(signals[few]), len(atoms)))
    is_smooth = np.ones(len(total), dtype=np.bool_)
    signs = np.sign(result.codes[few])
    # Codes are piecewise linear in signals, so that steps need not be small.
    step = STEP * np.abs(signals).max()
    for k, factor in enumerate(STENCIL, start=1):
        ends = [
            solve_active_set(
                LassoProblem(atoms, signals[few] + sign * k * step * direction[few], penalty)
            ).codes
            for sign in (1.0, -1.0)
        ]
        total += factor * (ends[0] - ends[1]) / step
        for end in ends:
            is_smooth &= (np.sign(end) == signs).all(axis=1)
    if not is_smooth.any():
        return np.nan
    found = result.jvp(signals=direction)[few]
    wrong = np.abs(found - total)[is_smooth].max(initial=0.0) / np.abs(found).max()
    # The other side of the Jacobian, of all signals.
    backwards = np.sum(result.vjp(upstream).signals * direction)
    other = abs(backwards - np.sum(upstream * result.jvp(signals=direction)))
    return float(max(wrong, other / np.abs(upstream).sum()))


def targets(data: dict) -> list[Target]:
    found = []
    for name, work in data["works"].items():
        median = {way: Timing(**timing).median for way, timing in work["timings"].items()}
        found.append(
            at_most(f"vjp, {name}", NEEDED, median[BACKWARDS] / median[CODES], "<= 0.333x the codes", "x")
        )
        found.append(
            at_most(f"vjp and jvp, {name}, beside differences", LARGEST_ERROR, work["error"], "<= 1e-09", "")
        )
    return found


def markdown(data: dict) -> str:
    rows = []
    for name, work in data["works"].items():
        timings = {way: Timing(**timing) for way, timing in work["timings"].items()}
        for way, timing in timings.items():
            beside = timing.median / timings[CODES].median
            rows.append(
                [name, f"{work['support']:.0f}" if name else "", way, spread(timing), f"{beside:.2g}x"]
            )
            name = ""
    return (
        "Random atoms and signals; codes by the active set, the problem and its Gram matrix made within the "
        "time.  A derivative checks the support of each code within its time.\n\n"
        + table(["", "support", "", "time", "of the codes'"], rows)
    )


def plot(data: dict) -> Figure | None:
    return None
