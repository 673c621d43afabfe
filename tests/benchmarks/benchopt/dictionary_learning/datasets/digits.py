"""The handwritten digits that come with scikit-learn."""

from benchopt import BaseDataset
from sklearn.datasets import load_digits


class Dataset(BaseDataset):
    """1,797 digits of 8 x 8 pixels, values from 0 to 1; one in five is held out."""

    name = "Digits"
    requirements = ["scikit-learn"]  # noqa: RUF012

    def get_data(self):
        digits = load_digits().data / 16.0
        held_out = digits[::5]
        return {"signals": digits[[i for i in range(len(digits)) if i % 5]], "held_out": held_out}
