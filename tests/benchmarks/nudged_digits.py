"""Codes as features of digits: ``python -m tests.benchmarks.nudged_digits``.

The data of scikit-learn's example of a restricted Boltzmann machine (RBM): 1,797 digits of 8 x 8 pixels, and
the same moved by a pixel in four directions; a fifth of all is for the test. As in the example, a digit for
the test may be a moved copy of a digit to learn from. A logistic regression gets pixels, the features of the
RBM, or codes. The regression keeps its default tolerance, because with that of the example, 1, it ends at
once.
"""

import time
from collections.abc import Callable

import numpy as np
from scipy import ndimage
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import BernoulliRBM
from sklearn.preprocessing import minmax_scale

from dictlearn import SpikingDictionaryLearning
from tests.benchmarks.timing import machine, table

N_FEATURES = 100
MOVES = ((0, 0), (-1, 0), (0, -1), (0, 1), (1, 0))


def digits() -> list[np.ndarray]:
    """Return the digits for learning and for the test, then their labels, drawn as in the example."""
    images, labels = load_digits(return_X_y=True)
    pictures = images.reshape(-1, 8, 8)
    moved = [ndimage.shift(pictures, (0, *move), order=0, cval=0.0).reshape(-1, 64) for move in MOVES]
    pixels = minmax_scale(np.concatenate(moved))
    return train_test_split(pixels, np.tile(labels, len(MOVES)), test_size=0.2, random_state=0)


def coder(alpha: float, *, positive: bool) -> SpikingDictionaryLearning:
    """Return an estimator of atoms, positive or of either sign, whose codes are not negative."""
    return SpikingDictionaryLearning(
        N_FEATURES, alpha=alpha, positive_dict=positive, positive_code=True, max_iter=10, random_state=0
    )


FEATURES: dict[str, Callable[[], object] | None] = {
    "64 pixels": None,
    "100 features of an RBM": lambda: BernoulliRBM(N_FEATURES, learning_rate=0.06, n_iter=10, random_state=0),
    **{
        f"100 codes, alpha {alpha}, {'positive atoms' if positive else 'atoms of either sign'}": (
            lambda alpha=alpha, positive=positive: coder(alpha, positive=positive)
        )
        for alpha in (0.1, 0.2, 0.4)
        for positive in (True, False)
    },
}


def main() -> int:
    """Print the accuracy of the classifier for each kind of features."""
    to_learn, to_test, labels, test_labels = digits()
    rows = []
    for name, make in FEATURES.items():
        begin, learned, tested = time.perf_counter(), to_learn, to_test
        if make is not None:
            estimator = make().fit(to_learn)
            learned, tested = estimator.transform(to_learn), estimator.transform(to_test)
        seconds = time.perf_counter() - begin
        classifier = LogisticRegression(C=100.0, max_iter=3000).fit(learned, labels)
        accuracy = classifier.score(tested, test_labels)
        n_used = np.count_nonzero(learned) / len(learned)
        rows.append([name, f"{accuracy:.3f}", f"{n_used:.1f}", f"{seconds:.1f} s"])
        print(*rows[-1], flush=True)
    print(machine(), table(["features", "accuracy", "not zero", "to learn and code"], rows), sep="\n\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
