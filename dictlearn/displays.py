"""Display objects of dictionaries, as scikit-learn's: made by `from_estimator`, drawn by `plot`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dictlearn.images.plotting import plot_atoms
from dictlearn.two_phase.history import NAMES
from dictlearn.two_phase.learner import TwoPhaseLearner
from snn import checks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator

LABELS = {
    "objective": "mean objective",
    "nonzeros": "non-zero entries of a code",
    "spikes": "spikes a sample",
    "disturbance": "disturbance by the feedback",
    "consistency": "consistency of H and F B",
    "symmetry": "symmetry of F and B",
    "least_norm": "least norm of an atom",
    "median_norm": "median norm of an atom",
    "largest_norm": "largest norm of an atom",
}


class AtomsDisplay:
    """Atoms: as patches if they are kernels or a size is given, and else as the rows of one picture.

    Parameters
    ----------
    dictionary : ndarray, shape (n_atoms, n_features) or (n_kernels, height, width[, n_channels])
        One atom a row, or kernels of one or three channels.
    patch_size : int or (int, int), optional
        Side of a square patch, or (height, width); kernels have their own.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    image_ : AxesImage

    See Also
    --------
    plot_atoms : The patches, as a function.
    """

    def __init__(self, *, dictionary: np.ndarray, patch_size: int | tuple[int, int] | None = None) -> None:
        self.dictionary = dictionary
        self.patch_size = patch_size

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        patch_size: int | tuple[int, int] | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the dictionary of an estimator.

        Parameters
        ----------
        estimator : estimator
            One with ``components_`` after a fit, ours or scikit-learn's, or a coder with a `dictionary`.
        patch_size : int or (int, int), optional
            Side of a square patch, or (height, width); kernels have their own.
        ax : Axes, optional
            Where to draw; by default new ones.
        **kwargs
            Of `plot`.
        """
        from sklearn.utils.validation import check_is_fitted  # scikit-learn takes a second to import

        if hasattr(estimator, "dictionary"):
            dictionary = estimator.dictionary
        else:
            check_is_fitted(estimator)
            dictionary = estimator.components_
        return cls(dictionary=dictionary, patch_size=patch_size).plot(ax=ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, columns: int | None = None) -> Self:
        """Draw the atoms.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default new ones.
        columns : int, optional
            Patches side by side.

        Raises
        ------
        TypeError, ValueError
            If the dictionary or an argument is of the wrong kind, shape or value.
        """
        dictionary, patch_size = self._patches()
        if ax is None:
            import matplotlib.pyplot as plt  # here: it costs a third of a second, and most callers never draw

            _, ax = plt.subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        if patch_size is not None:
            plot_atoms(dictionary, patch_size, ax=ax, columns=columns)
            self.image_ = ax.images[-1]
            return self
        if columns is not None:
            raise ValueError(f"columns must be None without a patch_size; got {columns}")
        largest = float(np.abs(dictionary).max())
        self.image_ = ax.imshow(
            dictionary, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest"
        )
        self.figure_.colorbar(self.image_, ax=ax)
        ax.set(xlabel="feature", ylabel="atom")
        return self

    def _patches(self) -> tuple[np.ndarray, int | tuple[int, int] | None]:
        """Return atoms as rows, and the size of their patches, if they have one."""
        if np.ndim(self.dictionary) not in (3, 4):
            rows = checks.real_array(
                "dictionary",
                self.dictionary,
                shape=(None, None),
                meaning="(n_atoms, n_features) or (n_kernels, height, width[, n_channels])",
            )
            return rows, self.patch_size
        kernels = checks.real_array("dictionary", self.dictionary, shape=(None,) * np.ndim(self.dictionary))
        if kernels.shape[3:] not in ((), (1,), (3,)):
            raise ValueError(f"dictionary must have kernels of 1 or 3 channels; got shape {kernels.shape}")
        if self.patch_size is not None:
            raise ValueError(
                f"patch_size must be None for kernels, which are {kernels.shape[1]} x {kernels.shape[2]}; "
                f"got {self.patch_size}"
            )
        return kernels.reshape(len(kernels), -1), (kernels.shape[1], kernels.shape[2])


class LearningDisplay:
    """How learning went: a figure of the learner's history against the samples.

    Parameters
    ----------
    n_samples : ndarray of int, shape (n_entries,)
        Samples learned from.
    values : ndarray, shape (n_entries,)
        Means over the thousand samples before, or the figure of the weights then.
    quantity : str, default "objective"
        What the values are, a key of `TwoPhaseLearner.history`.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    line_ : Line2D
    """

    def __init__(self, *, n_samples: np.ndarray, values: np.ndarray, quantity: str = "objective") -> None:
        self.n_samples = n_samples
        self.values = values
        self.quantity = quantity

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        quantity: str = "objective",
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> Self:
        """Draw how a fitted `SpikingDictionaryLearning` has learned.

        Parameters
        ----------
        estimator : SpikingDictionaryLearning
            After `fit` or `partial_fit`.
        quantity : str, default "objective"
            A key of `TwoPhaseLearner.history`.
        ax : Axes, optional
            Where to draw; by default new ones.
        **line_kwargs
            Of `Axes.plot`.
        """
        from sklearn.utils.validation import check_is_fitted  # scikit-learn takes a second to import

        check_is_fitted(estimator, "learner_")
        return cls.from_learner(estimator.learner_, quantity=quantity, ax=ax, **line_kwargs)

    @classmethod
    def from_learner(
        cls,
        learner: TwoPhaseLearner,
        *,
        quantity: str = "objective",
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> Self:
        """Draw how a learner has learned.

        Parameters
        ----------
        learner : TwoPhaseLearner
            What learned.
        quantity, ax
            As of `from_estimator`.
        **line_kwargs
            Of `Axes.plot`.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind or value, or there are fewer than 1,000 samples.
        """
        checks.instance_of("learner", learner, TwoPhaseLearner)
        quantity = checks.one_of("quantity", quantity, NAMES[1:])
        history = learner.history
        if not len(history["n_samples"]):
            raise ValueError(
                f"the history has an entry for every 1,000 samples, there were {learner.n_samples}: learn "
                "from more (max_iter)"
            )
        display = cls(n_samples=history["n_samples"], values=history[quantity], quantity=quantity)
        return display.plot(ax=ax, **line_kwargs)

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> Self:
        """Draw the line.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default new ones.
        **line_kwargs
            Of `Axes.plot`.
        """
        if ax is None:
            import matplotlib.pyplot as plt  # here: it costs a third of a second, and most callers never draw

            _, ax = plt.subplots(layout="constrained")
        style = {"marker": "o" if len(self.values) < 30 else None, "markersize": 3.0, **line_kwargs}
        (self.line_,) = ax.plot(self.n_samples, self.values, **style)
        self.ax_, self.figure_ = ax, ax.figure
        ax.set(xlabel="samples", ylabel=LABELS[self.quantity])
        ax.locator_params(axis="x", nbins=6)
        ax.grid(alpha=0.3)
        if "label" in line_kwargs:
            ax.legend(fontsize="small")
        return self
