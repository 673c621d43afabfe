"""Images with their codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

from dictlearn.images.prepared import PreparedImage
from snn.base.drawn import Drawn
from snn.base.html import size
from solvers import ConvolutionalDictionary, LassoProblem, SparseCodingResult


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CodedImage(Drawn):
    """An image, its code and its certificate.

    Attributes
    ----------
    prepared : PreparedImage
        The image as a signal, and its background.
    problem : LassoProblem
        What was solved.
    result : SparseCodingResult
        The code, its objective and duality gap, as the solver returned them.
    """

    prepared: PreparedImage
    problem: LassoProblem
    result: SparseCodingResult

    def _facts(self) -> dict[str, str]:
        return {"image": size(self.prepared.background.shape), **self.result._facts()}

    @property
    def image(self) -> np.ndarray:
        """The image that the code and the background make, in the shape of the image."""
        return self.prepared.restore(self.problem.reconstruct(self.result.sparse_codes))

    @property
    def maps(self) -> np.ndarray:
        """The code as maps of coefficients, shape (grid rows, grid columns, n_kernels)."""
        dictionary = cast(ConvolutionalDictionary, self.problem.dictionary)
        return self.result.codes.reshape(*dictionary.grid_shape, -1)


def code_images(
    images: list[PreparedImage],
    kernels: np.ndarray,
    penalty: float,
    *,
    positive: bool,
    solver: Callable[..., SparseCodingResult],
    tol: float,
) -> list[CodedImage]:
    """Return images with their codes; those of one shape share a dictionary and what is computed from it."""
    known: dict[tuple[int, int], LassoProblem] = {}
    coded = []
    for prepared in images:
        shape = prepared.prepared_shape
        if shape in known:
            problem = known[shape].with_signals(prepared.signal)
        else:
            problem = LassoProblem(prepared.dictionary(kernels), prepared.signal, penalty, positive=positive)
            known[shape] = problem
        coded.append(CodedImage(prepared=prepared, problem=problem, result=solver(problem, tol=tol)))
    return coded
