"""Display objects of the coder, as scikit-learn's: made by `from_estimator`, drawn by `plot`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.drawing import base_line, named_lines, new_axes, require_increasing
from solvers.studies.path import PathResult, path

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from solvers.estimator.coder import SpikingSparseCoder


class CodePathDisplay:
    """The code of one signal against the penalty: one line for each atom that is ever used.

    Parameters
    ----------
    penalties : ndarray, shape (n_penalties,)
        The largest first.
    codes : ndarray, shape (n_penalties, n_atoms)
        The code at each.
    chosen : float, optional
        A penalty to mark.
    name : str, default "penalty"
        What the penalties are.
    title : str, default ""
        Of the axes.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    lines_ : list of Line2D
        One for each atom that is used, those with the largest entries first.
    atoms_ : ndarray of int
        Their atoms.

    See Also
    --------
    path : Codes at many penalties, with their certificates.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import CodePathDisplay, SpikingSparseCoder
    >>> coder = SpikingSparseCoder(np.eye(3), alpha=0.5)
    >>> display = CodePathDisplay.from_estimator(coder, [[2.0, 0.1, -1.0]])
    >>> display.atoms_
    array([0, 2, 1])
    """

    def __init__(
        self,
        *,
        penalties: np.ndarray,
        codes: np.ndarray,
        chosen: float | None = None,
        name: str = "penalty",
        title: str = "",
    ) -> None:
        self.penalties = penalties
        self.codes = codes
        self.chosen = chosen
        self.name = name
        self.title = title

    @classmethod
    def from_estimator(
        cls,
        estimator: SpikingSparseCoder,
        X: ArrayLike,
        *,
        signal: int = 0,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Solve for one signal at many multiples of the coder's `alpha`, and draw the codes.

        Parameters
        ----------
        estimator : SpikingSparseCoder
            Its dictionary, signs and `alpha` are used.
        X : array_like, shape (n_signals, n_features)
            Signals.
        signal : int, default 0
            Which of them.
        ax : Axes, optional
            Where to draw; by default new ones.
        **kwargs
            Of `path`: `multiples`, `n_multiples`, `smallest`, `method`, `tol`.
        """
        problem = estimator.problem(X)
        signal = checks.index("signal", signal, problem.n_signals)
        result = path(problem.subset([signal]), **kwargs)
        alpha = estimator.alpha
        one = float(alpha) if isinstance(alpha, (int, float, np.number)) else None
        display = cls(
            penalties=result.multiples * (1.0 if one is None else one),
            codes=result.codes[:, 0],
            chosen=1.0 if one is None else one,
            name="multiple of alpha" if one is None else "alpha",
            title=f"code of signal {signal}",
        )
        return display.plot(ax=ax)

    @classmethod
    def from_path(cls, result: PathResult, *, signal: int = 0, ax: Axes | None = None) -> Self:
        """Draw the codes of one signal of a path.

        Parameters
        ----------
        result : PathResult
            From `path`.
        signal : int, default 0
            Which of its signals.
        ax : Axes, optional
            Where to draw; by default new ones.
        """
        checks.instance_of("result", result, PathResult)
        signal = checks.index("signal", signal, result.codes.shape[1])
        display = cls(
            penalties=result.multiples,
            codes=result.codes[:, signal],
            name="multiple of the penalty",
            title=f"code of signal {signal}",
        )
        return display.plot(ax=ax)

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> Self:
        """Draw the lines, the penalty on a logarithmic scale.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default new ones.
        **line_kwargs
            Of `Axes.plot`.
        """
        require_increasing("penalties, the smallest first,", self.penalties[::-1])
        ax = new_axes(ax)
        largest = np.abs(self.codes).max(axis=0)
        used = np.flatnonzero(largest > 0.0)
        self.atoms_ = used[np.argsort(-largest[used], kind="stable")]
        self.ax_, self.figure_ = ax, ax.figure
        self.lines_ = named_lines(
            ax,
            self.penalties,
            [self.codes[:, atom] for atom in self.atoms_],
            [f"atom {atom}" for atom in self.atoms_],
            others="other atoms",
            **line_kwargs,
        )
        if self.chosen is not None and self.penalties.min() <= self.chosen <= self.penalties.max():
            ax.axvline(self.chosen, color="0.4", linestyle=":", label=f"{self.name} = {self.chosen:.3g}")
        base_line(ax)
        ax.set(xscale="log", xlabel=self.name, ylabel="entry of the code", title=self.title)
        ax.invert_xaxis()
        if self.lines_:
            ax.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return self
