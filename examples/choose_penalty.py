"""Choose the penalty of a sparse code by a search, and look at what was learned, with scikit-learn's tools.

Atoms are learned by spikes from half of scikit-learn's digits.  The other half, with noise, is coded in
them, and `GridSearchCV` chooses `alpha` by the score of the coder: how well codes of some pixels predict the
others.  The digits without their noise say which penalty was best.  The penalised objective, which is no
score to search by, is in the table beside them.

    python -m examples.choose_penalty [--output DIR] [--atoms NUMBER] [--passes NUMBER] [--noise NUMBER]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from dictlearn import SpikingDictionaryLearning
from dictlearn.pictures import plot_atoms
from examples._common import BLUE, ORANGE, figure, parser, save, table
from solvers import SpikingSparseCoder, path

ALPHAS = np.geomspace(0.003, 0.6, 16)
SHOWN = 3  # the digit whose code is drawn


def noisy_digits(noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return digits of unit norm to learn from, others, and these with noise."""
    digits = load_digits().data
    digits = digits / np.linalg.norm(digits, axis=1, keepdims=True)
    clean = digits[1::2]
    return digits[::2], clean, clean + noise * np.random.default_rng(0).standard_normal(clean.shape)


def measured(coder: SpikingSparseCoder, clean: np.ndarray, noisy: np.ndarray) -> np.ndarray:
    """Return for each alpha the share of the clean energy that is missed, the mean objective, and the mean
    number of entries of a code, shape (3, n_alphas)."""
    figures = []
    for alpha in ALPHAS:
        encoded = coder.set_params(alpha=alpha).encode(noisy)
        missed = np.square(coder.inverse_transform(encoded.codes) - clean).sum()
        error = missed / np.square(clean).sum()
        figures.append((error, encoded.objective.mean(), encoded.support_size.mean()))
    return np.transpose(figures)


def draw(
    learning: SpikingDictionaryLearning,
    search: GridSearchCV,
    noisy: np.ndarray,
    errors: np.ndarray,
) -> Figure:
    picture = figure(11.0, 8.5)
    (atoms, curve), (codes, scores) = picture.subplots(2, 2)
    plot_atoms(learning.components_, 8, ax=atoms)
    atoms.set_title("Atoms learned from digits")
    learning.learner_.plot(ax=curve)
    curve.set_title("While they were learned")
    best = search.best_estimator_
    path(best.problem(noisy[[SHOWN]])).plot(penalty=best.alpha, ax=codes)
    codes.set_title("The code of one digit")
    found = search.cv_results_["mean_test_score"]
    scores.plot(ALPHAS, found, color=BLUE, marker="o", label="score: energy of hidden pixels predicted")
    scores.plot(ALPHAS, errors, color=ORANGE, marker="s", label="energy missed of the digits without noise")
    scores.axvline(search.best_params_["alpha"], color=BLUE, linestyle=":", label="best score")
    scores.axvline(ALPHAS[np.argmin(errors)], color=ORANGE, linestyle=(2.0, (1.0, 3.0)), label="least error")
    scores.set(xscale="log", xlabel="alpha", ylabel="share of energy", title="Which alpha to choose")
    scores.invert_xaxis()
    scores.legend(fontsize="small")
    return picture


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example."""
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--atoms", type=int, default=100, help="number of atoms")
    options.add_argument("--passes", type=int, default=20, help="passes through the digits while learning")
    options.add_argument("--noise", type=float, default=0.15, help="of a pixel; digits have unit norm")
    chosen = options.parse_args(arguments)
    if chosen.atoms < 1 or chosen.passes < 2 or not chosen.noise > 0.0:
        options.error("--atoms and --noise must be positive, --passes at least 2")

    training, clean, noisy = noisy_digits(chosen.noise)
    learning = SpikingDictionaryLearning(
        chosen.atoms,
        max_iter=chosen.passes,
        positive_dict=True,
        positive_code=True,
        replace_dead=True,
        random_state=0,
    ).fit(training)
    coder = SpikingSparseCoder(learning.components_, alpha=0.1, positive=True)
    search = GridSearchCV(coder, {"alpha": ALPHAS}, cv=3).fit(noisy)
    errors, objectives, sizes = measured(coder, clean, noisy)
    best = {
        "the score of the coder": search.best_params_["alpha"],
        "the digits without noise": ALPHAS[np.argmin(errors)],
        "the objective": ALPHAS[np.argmin(objectives)],
    }
    rows = []
    for name, alpha in best.items():
        k = np.searchsorted(ALPHAS, alpha)
        rows.append([name, f"{alpha:.3f}", f"{100.0 * errors[k]:.1f} %", f"{sizes[k]:.1f}"])
    print(table(["alpha chosen by", "alpha", "energy missed", "entries of a code"], rows))
    save(draw(learning, search, noisy, errors), chosen.output, "choose_penalty.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
