"""Online learning of kernels: images are coded by spikes, kernels follow from what codes say of them."""

from __future__ import annotations

import copy
import json
import os
from dataclasses import asdict, dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from dictlearn.images.kernel_statistics import KernelStatistics
from dictlearn.images.kernel_updates import improve_kernels
from snn import checks
from snn.archive import load_archive, save_archive
from solvers import ConvolutionalDictionary, LassoProblem, SpikingCodingResult, solve_spiking

# A kernel is dead if the last so many images have no coefficient of it.
DEAD_AFTER = 32
HISTORY = ("n_samples", "objective", "energy", "gap", "n_nonzeros", "n_spikes")


@dataclass(frozen=True, kw_only=True)
class KernelSettings:
    """How kernels are learned.

    Attributes
    ----------
    penalty : float
        lambda, of every coefficient.
    stride : int
        Distance between neighbouring positions, in pixels.
    positive : bool
        Whether codes must not be negative.
    tol : float
        Largest certified duality gap of the codes, as a share of 1/2 ||image||^2.
    n_sweeps : int
        How often each kernel is minimised over after a batch.
    forgetting : float
        What came before batch t counts by ``(1 - 1 / t) ** forgetting``: 0 forgets nothing.
    replace_dead : bool
        Whether dead kernels are replaced by what images are missing most.
    """

    penalty: float
    stride: int = 1
    positive: bool = False
    tol: float = 0.1
    n_sweeps: int = 2
    forgetting: float = 3.0
    replace_dead: bool = False

    def __post_init__(self) -> None:
        for name, check in (
            ("penalty", checks.positive_number),
            ("stride", checks.positive_integer),
            ("positive", checks.flag),
            ("tol", checks.positive_number),
            ("n_sweeps", checks.positive_integer),
            ("forgetting", checks.non_negative_number),
            ("replace_dead", checks.flag),
        ):
            object.__setattr__(self, name, check(name, getattr(self, name)))


class KernelLearner:
    """Kernels, and what has been learned of them so far.

    Memory does not grow with the number of images: the statistics have n_kernels^2 numbers for each lag at
    which kernels overlap.

    Parameters
    ----------
    kernels : array_like, shape (n_kernels, height, width) or (n_kernels, height, width, n_channels)
        To start from, brought to norm one; none of them zero.
    settings : KernelSettings
        How to learn.

    Attributes
    ----------
    settings : KernelSettings
        How to learn; may be replaced between batches.
    n_samples, n_batches : int
        Images and batches learned from.
    n_replaced : int
        Kernels replaced because they were dead.
    last_used : ndarray of int, shape (n_kernels,)
        Of each kernel, how many images there were when a code last had it.
    """

    def __init__(self, kernels: np.ndarray, settings: KernelSettings) -> None:
        has_channels = np.ndim(kernels) == 4
        kernels = checks.real_array(
            "kernels",
            kernels,
            shape=(None, None, None, None) if has_channels else (None, None, None),
            meaning="(n_kernels, height, width[, n_channels])",
        )
        norms = np.linalg.norm(kernels.reshape(len(kernels), -1), axis=1)
        if not norms.all():
            raise ValueError(
                f"kernels must have positive norms; got zeros for kernel {int(np.argmin(norms))}"
            )
        self.settings = settings
        self._shape = kernels.shape
        self._kernels = (kernels.T / norms).T.reshape(len(kernels), kernels.shape[1] * kernels.shape[2], -1)
        self._statistics = KernelStatistics(
            len(kernels), kernels.shape[1:3], self._kernels.shape[2], settings.stride
        )
        self.n_samples = self.n_batches = self.n_replaced = 0
        self.last_used = np.zeros(len(kernels), dtype=np.int64)
        self._history: list[tuple[float, ...]] = []

    @property
    def kernels(self) -> np.ndarray:
        """The kernels, of norm one, in the shape of the start.  A copy."""
        kernels = self._kernels.reshape(len(self._kernels), -1)
        return (kernels / np.linalg.norm(kernels, axis=1, keepdims=True)).reshape(self._shape)

    @property
    def kernel_size(self) -> tuple[int, int]:
        """(height, width) of a kernel, in pixels."""
        return self._shape[1], self._shape[2]

    @property
    def dead_kernels(self) -> np.ndarray:
        """Kernels that the last 32 images had no use for."""
        return np.flatnonzero(self.n_samples - self.last_used >= DEAD_AFTER)

    @property
    def history(self) -> dict[str, np.ndarray]:
        """Of each batch: images so far; means of objective, 1/2 ||image||^2, gap as a share of it,
        coefficients and spikes of an image, with the kernels before the batch."""
        columns = np.array(self._history, dtype=float).reshape(-1, len(HISTORY)).T
        return dict(zip(HISTORY, columns, strict=True))

    def learn(self, images: np.ndarray, *, n_jobs: int | None = None) -> SpikingCodingResult:
        """Learn from a batch of images: code them by spikes, and improve the kernels.

        Parameters
        ----------
        images : ndarray, shape (n_images, rows, columns) or (n_images, rows, columns, n_channels)
            Of one shape, which the grid of kernels covers.
        n_jobs : int, optional
            Workers that code them.  No number depends on it.

        Returns
        -------
        SpikingCodingResult
            The codes, in the kernels before they were improved.
        """
        # All is done on a copy, which then takes its place: Ctrl-C leaves the learner as it was.
        new = copy.copy(self)
        new._statistics = self._statistics.copy()
        new.last_used = self.last_used.copy()
        new._history = list(self._history)
        # BLAS rounds differently with the number of its threads.
        with threadpool_limits(limits=1, user_api="blas"):
            result = new._learn(images, n_jobs)
        vars(self).update(vars(new))
        return result

    def _learn(self, images: np.ndarray, n_jobs: int | None) -> SpikingCodingResult:
        settings = self.settings
        dictionary = ConvolutionalDictionary(self.kernels, images.shape[1:3], settings.stride)
        signals = np.ascontiguousarray(images, dtype=np.float64).reshape(len(images), -1)
        problem = LassoProblem(dictionary, signals, settings.penalty, positive=settings.positive)
        result = solve_spiking(problem, tol=settings.tol, n_jobs=n_jobs)
        codes = result.sparse_codes
        self.n_batches += 1
        self._statistics.forget((1.0 - 1.0 / self.n_batches) ** settings.forgetting)
        penalty = settings.penalty * float(np.abs(codes.data).sum())
        self._statistics.add(dictionary, signals, codes, penalty)
        self._kernels = dictionary.kernels.reshape(self._kernels.shape).copy()
        improve_kernels(self._statistics, self._kernels, settings.n_sweeps)
        self.n_samples += len(images)
        self.last_used[np.unique(codes.indices % len(self._kernels))] = self.n_samples
        if settings.replace_dead:
            self._replace(problem, result)
        self._record(problem, result)
        return result

    # -- saving ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike, **extra: str | int) -> None:
        """Write everything to `path` (npz), whole or not at all.

        Parameters
        ----------
        path : path-like
            Where to.
        **extra
            Further entries, which `load` leaves alone.
        """
        statistics = self._statistics
        save_archive(
            path,
            {
                "kernels": self._kernels.reshape(self._shape),
                "settings": json.dumps(asdict(self.settings)),
                "lags": statistics.lags,
                "correlations": statistics.correlations,
                "sums": np.array([statistics.energy, statistics.penalty, statistics.weight]),
                "counters": np.array([self.n_samples, self.n_batches, self.n_replaced]),
                "last_used": self.last_used,
                "history": np.array(self._history).reshape(-1, len(HISTORY)),
                **extra,
            },
        )

    def copy_from(self, other: KernelLearner) -> None:
        """Replace everything by copies of what another learner has.

        Parameters
        ----------
        other : KernelLearner
            Of any size.
        """
        vars(self).update(copy.deepcopy(vars(other)))

    @classmethod
    def load(cls, path: str | os.PathLike) -> KernelLearner:
        """Read a learner that `save` wrote; it continues bit for bit as if it had never stopped.

        Parameters
        ----------
        path : path-like
            Where from.

        Raises
        ------
        FileNotFoundError, ValueError
            If there is no such file, or it is not one of a learner.
        """
        names = (
            "kernels", "settings", "lags", "correlations", "sums", "counters", "last_used", "history",
        )  # fmt: skip
        entries = load_archive(path, names, kind="KernelLearner")
        try:
            learner = cls(entries["kernels"], KernelSettings(**json.loads(str(entries["settings"]))))
            # Not those of norm one, which differ in their last bits.
            learner._kernels = entries["kernels"].reshape(learner._kernels.shape)
            statistics = learner._statistics
            for name, target in (
                ("lags", statistics.lags),
                ("correlations", statistics.correlations),
                ("last_used", learner.last_used),
            ):
                target[:] = checks.real_array(name, entries[name], shape=target.shape)
            statistics.energy, statistics.penalty, statistics.weight = map(float, entries["sums"])
            learner.n_samples, learner.n_batches, learner.n_replaced = map(int, entries["counters"])
            history = entries["history"].reshape(learner.n_batches, len(HISTORY))
            learner._history = [tuple(row) for row in history]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"path must name a saved KernelLearner; got {os.fspath(path)!r} ({error})"
            ) from None
        return learner

    # -- within a batch -------------------------------------------------------------------------

    def _replace(self, problem: LassoProblem, result: SpikingCodingResult) -> None:
        """Replace dead kernels by the patches that codes leave most of, apart from each other."""
        dead = self.dead_kernels
        if not len(dead):
            return
        dictionary = problem.dictionary
        left = problem.signals - problem.reconstruct(result.sparse_codes)
        height, width = dictionary.kernel_planes.shape[1:]
        planes = left.reshape(-1, *dictionary.plane_shape)
        windows = np.lib.stride_tricks.sliding_window_view(planes, (height, width), axis=(1, 2))
        windows = windows[:, :: dictionary.plane_strides[0], :: dictionary.plane_strides[1]]
        energies = np.einsum("nijuv,nijuv->nij", windows, windows)
        rows, columns = (side // dictionary.stride for side in self._statistics.kernel_size)
        for kernel in dead:
            n, row, column = np.unravel_index(np.argmax(energies), energies.shape)
            if energies[n, row, column] <= 0.0:
                return
            patch = windows[n, row, column].reshape(self._kernels.shape[1:])
            self._kernels[kernel] = patch / np.linalg.norm(patch)
            self._statistics.clear(kernel)
            self.last_used[kernel] = self.n_samples
            self.n_replaced += 1
            energies[
                n, max(row - rows, 0) : row + rows + 1, max(column - columns, 0) : column + columns + 1
            ] = 0

    def _record(self, problem: LassoProblem, result: SpikingCodingResult) -> None:
        energies = np.maximum(problem.energies, np.finfo(float).tiny)
        self._history.append(
            (
                self.n_samples,
                result.objective.mean(),
                problem.energies.mean(),
                (result.duality_gap / energies).mean(),
                result.support_size.mean(),
                result.n_steps.mean(),
            )
        )
