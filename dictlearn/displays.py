"""Display objects of dictionaries, as scikit-learn's: made by `from_estimator`, drawn by `plot`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.baselines import LearningCurve
from dictlearn.evaluation import mean_objective
from dictlearn.images.plotting import plot_atoms
from dictlearn.two_phase.learner import TwoPhaseLearner
from dictlearn.two_phase.plotting import learning_line
from snn.base import checks
from snn.base.html import counted
from snn.drawing import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator


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
        ax = new_axes(ax)
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
        ax.set(xlabel="feature", ylabel="atom", title=counted(len(dictionary), "atom"))
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
        n_samples, values = learner.recorded(quantity)
        return cls(n_samples=n_samples, values=values, quantity=quantity).plot(ax=ax, **line_kwargs)

    @classmethod
    def from_curve(
        cls,
        curve: LearningCurve,
        signals: ArrayLike,
        *,
        penalty: float | ArrayLike,
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> Self:
        """Draw the mean objective of a baseline's dictionaries on held-out signals, with exact codes.

        Parameters
        ----------
        curve : LearningCurve
            Of `learn_by_gradient_descent` or `learn_with_scikit_learn`.
        signals : array_like, shape (n_signals, n_features)
            Held out.
        penalty : float or array_like, shape (n_atoms,)
            As of `mean_objective`.
        ax : Axes, optional
            Where to draw; by default new ones.
        **line_kwargs
            Of `Axes.plot`; by default its label is the curve's method.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind, shape or value.
        """
        checks.instance_of("curve", curve, LearningCurve)
        values = [mean_objective(atoms, signals, penalty=penalty).objective for atoms in curve.dictionaries]
        display = cls(n_samples=curve.n_samples, values=np.array(values))
        return display.plot(ax=ax, **{"label": curve.method, **line_kwargs})

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> Self:
        """Draw the line.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default new ones.
        **line_kwargs
            Of `Axes.plot`.
        """
        ax = new_axes(ax)
        self.line_ = learning_line(self.n_samples, self.values, quantity=self.quantity, ax=ax, **line_kwargs)
        self.ax_, self.figure_ = ax, ax.figure
        return self
