"""Online learning of kernels: a spiking network codes crops of images, and kernels adapt to the codes."""

import copy
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from dictlearn.atoms import require_positive_norms, scaled_by_power_of_two, unit_norm
from dictlearn.images.statistics import KernelStatistics, improve_kernels
from dictlearn.resumable import FILE_VERSION, Course, History, Resumable, digest, in_file, learn_batches
from snn._interrupts import one_thread
from snn.base import checks
from snn.base.archive import Entry
from snn.base.value import Value, assign, checked
from solvers import LassoProblem, SpikingCodingResult, solve_spiking
from solvers.problem.convolutional_dictionary import ConvolutionalAtoms, valid_shape
from solvers.problem.messages import ZeroCodesWarning
from solvers.workers.blas import one_blas_thread

# Number of images without a coefficient of a kernel after which the kernel is dead.
DEAD_AFTER = 32
# Columns of the history: the number of images so far, and means over the images of a batch.
HISTORY = ("n_samples", "objective", "energy", "gap", "n_nonzeros", "n_spikes")
# Limits of the largest value of images, within which sums of its squares stay in the range of floats.
SMALLEST_VALUE, LARGEST_VALUE = 1e-120, 1e120
# Largest norm of a kernel in a file: one plus a margin for rounding.
LARGEST_KERNEL_NORM = 1.0 + 1e-9
# Number of sweeps over the kernels after a batch, and exponent of forgetting (docs/images.md, section 2).
N_SWEEPS, FORGETTING = 2, 3.0
# Number of candidate patches for each kernel of a random start.
CANDIDATES = 20
# Largest magnitude of the cosine of two kernels of a random start.
LARGEST_COSINE = 0.999
# Type of a batch: the shape of its crops, and the image, top row and left column of each crop.
Batch = tuple[tuple[int, int], list[tuple[int, int, int]]]


@dataclass(frozen=True, kw_only=True)
class KernelSettings(Value):
    """Settings of the learning of kernels; see `ConvolutionalDictionaryLearning`."""

    penalty: float = checked(checks.positive_number)
    stride: int = checked(checks.positive_integer, default=1)
    positive: bool = checked(checks.flag, default=False)
    tol: float = checked(checks.positive_number, default=0.1)
    replace_dead: bool = checked(checks.flag, default=False)


@dataclass(init=False, eq=False, repr=False, kw_only=True)
class KernelLearner(Resumable):
    """Kernels, and sums over coded images from which kernels are learned."""

    # The sums have n_kernels^2 numbers for each lag at which kernels overlap, for any number of images.
    # Before batch t all sums are multiplied by ``(1 - 1 / t) ** 3``.  Between batches, `settings` may be
    # replaced by settings with the same stride.

    _shown: ClassVar = ("kernels", "n_samples", "n_batches", "n_replaced", "dead_kernels")

    settings: KernelSettings
    # For each kernel, the value of `n_samples` when a code last used the kernel.
    last_used: np.ndarray = in_file("iu", ("kernels",), 0)
    n_samples: int = in_file("iu", (), 0, default=0)
    n_batches: int = in_file("iu", (), 0, default=0)
    n_replaced: int = in_file("iu", (), 0, default=0)
    _kernels: np.ndarray
    _shape: tuple[int, ...]
    _statistics: KernelStatistics
    _history: History

    def __init__(self, kernels: ArrayLike, settings: KernelSettings) -> None:
        meaning = "(n_kernels, height, width[, n_channels])"
        array = checks.real_array("kernels", kernels, shape=(None,) * np.ndim(kernels), meaning=meaning)
        n_kernels, height, width = array.shape[:3]
        rows = array.reshape(n_kernels, -1)
        require_positive_norms("kernels", rows)
        unit = unit_norm(rows).reshape(n_kernels, height * width, -1)
        assign(
            self,
            settings=settings,
            last_used=np.zeros(n_kernels, dtype=np.int64),
            _kernels=unit,
            _shape=array.shape,
            _statistics=KernelStatistics(n_kernels, (height, width), unit.shape[2], settings.stride),
            _history=History(HISTORY),
        )

    @property
    def kernels(self) -> np.ndarray:
        """A copy of the kernels, scaled to norm one, with the shape of the kernels at the start."""
        kernels = self._kernels.reshape(len(self._kernels), -1)
        return (kernels / np.linalg.norm(kernels, axis=1, keepdims=True)).reshape(self._shape)

    @property
    def kernel_size(self) -> tuple[int, int]:
        """Height and width of a kernel, in pixels."""
        return self._shape[1], self._shape[2]

    @property
    def dead_kernels(self) -> np.ndarray:
        """Indices of the kernels that no code of the last 32 images uses."""
        return np.flatnonzero(self.n_samples - self.last_used >= DEAD_AFTER)

    @property
    def history(self) -> dict[str, np.ndarray]:
        """The history of learning, by batch: each batch is coded with the kernels from before the batch."""
        # Columns of the history: number of images so far, and means of the objective, of 1/2 ||x||^2, of the
        # relative gap, of nonzeros and of spikes.
        return self._history.columns()

    @one_thread
    def learn(self, images: np.ndarray, *, n_jobs: int | None = None) -> SpikingCodingResult:
        """Code images, (n_images, rows, columns[, n_channels]), improve the kernels, return the codes."""
        new = copy.deepcopy(self)  # a copy is changed, so that Ctrl-C leaves `self` unchanged
        # The rounding of BLAS depends on the number of its threads.
        with one_blas_thread():
            result = new._learn(images, n_jobs)
        assign(self, **vars(new))
        return result

    def _learn(self, images: np.ndarray, n_jobs: int | None) -> SpikingCodingResult:
        settings = self.settings
        largest = float(np.abs(images).max())
        if largest and not SMALLEST_VALUE <= largest <= LARGEST_VALUE:
            raise ValueError(
                f"images must have a largest value between {SMALLEST_VALUE:g} and {LARGEST_VALUE:g}, so that "
                f"sums of its squares are in the range of floats; got {largest:g}: change their unit"
            )
        dictionary = ConvolutionalAtoms(self.kernels, images.shape[1:3], settings.stride)
        signals = images.reshape(len(images), -1)
        problem = LassoProblem(dictionary, signals, settings.penalty, positive=settings.positive)
        with checks.without_warnings(ZeroCodesWarning):  # a single crop may have no detail
            result = solve_spiking(problem, tol=settings.tol, n_jobs=n_jobs)
        codes = result.sparse_codes
        self.n_batches += 1
        self._statistics.forget((1.0 - 1.0 / self.n_batches) ** FORGETTING)
        self._statistics.add(dictionary, signals, codes)
        self._kernels = dictionary.kernels.reshape(self._kernels.shape).copy()
        improve_kernels(self._statistics, self._kernels, N_SWEEPS)
        self.n_samples += len(images)
        self.last_used[np.unique(codes.indices % len(self._kernels))] = self.n_samples
        if settings.replace_dead:
            self._replace(problem, dictionary, result)
        self._history.add(
            self.n_samples,
            result.objective.mean(),
            problem.energies.mean(),
            result.relative_gap.mean(),
            result.support_size.mean(),
            result.n_steps.mean(),
        )
        return result

    # -- saving ---------------------------------------------------------------------------------

    _counter = "n_batches"
    _others: ClassVar = {
        "kernels": Entry("f", None),
        "settings": Entry("U", ()),
        "lags": Entry("f", ("kernels", "row lags", "column lags", "kernels")),
        "correlations": Entry("f", ("kernels", "rows", "columns")),
        "history": Entry("f", ("batches", len(HISTORY))),
    }

    def _entries(self) -> dict[str, Any]:
        return {
            "version": FILE_VERSION,
            **super()._entries(),
            "kernels": self._kernels.reshape(self._shape),
            "settings": json.dumps(asdict(self.settings)),
            "lags": self._statistics.lags,
            "correlations": self._statistics.correlations,
            "history": self._history.rows,
        }

    @classmethod
    def _of_entries(cls, entries: Mapping[str, np.ndarray]) -> Self:
        values, arrays = cls._conforming(entries, cls._others)
        kernels, history = arrays["kernels"], arrays["history"]
        learner = cls(kernels, KernelSettings(**json.loads(str(arrays["settings"]))))
        # Keep the saved kernels, because another scaling to norm one would change their last bits.
        saved = kernels.reshape(learner._kernels.shape)
        assign(learner, **values, _kernels=saved, _history=History(HISTORY, history))
        statistics = learner._statistics
        for name, target in (("lags", statistics.lags), ("correlations", statistics.correlations)):
            if arrays[name].shape != target.shape:
                raise ValueError(f"{name} has the wrong shape, {arrays[name].shape}")
            target[:] = arrays[name]
        if not (
            np.linalg.norm(saved, axis=(1, 2)).max() <= LARGEST_KERNEL_NORM
            and learner.last_used.max() <= learner.n_samples
            and statistics.usage.min() >= 0.0
            and len(history) == learner.n_batches
            and history[-1:, 0].sum() == learner.n_samples
            and (np.diff(history[:, 0], prepend=0.0) > 0.0).all()
        ):
            raise ValueError("its numbers contradict each other")
        return learner

    # -- within a batch -------------------------------------------------------------------------

    def _replace(
        self, problem: LassoProblem, dictionary: ConvolutionalAtoms, result: SpikingCodingResult
    ) -> None:
        """Replace dead kernels by the patches with the largest residual energy, which do not overlap."""
        dead = self.dead_kernels
        if not len(dead):
            return
        residual = problem.signals - problem.reconstruct(result.sparse_codes)
        height, width = dictionary.kernel_planes.shape[1:]
        planes = residual.reshape(-1, *dictionary.plane_shape)
        windows = sliding_window_view(planes, (1, height, width))[:, :, :, 0]
        windows = windows[:, :: dictionary.plane_strides[0], :: dictionary.plane_strides[1]]
        energies = np.einsum("nijuv,nijuv->nij", windows, windows)
        rows, columns = (side // dictionary.stride for side in self._statistics.kernel_size)
        for kernel in dead:
            n, row, column = map(int, np.unravel_index(np.argmax(energies), energies.shape))
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


def random_kernels(
    details: list[np.ndarray], n_kernels: int, kernel_size: tuple[int, int], rng: np.random.Generator
) -> np.ndarray:
    """Return patches with norm one and different directions, and noise if patches are too few."""
    # The probability that a patch is drawn is proportional to its energy.
    areas = np.array([detail.shape[0] * detail.shape[1] for detail in details], dtype=float)
    n_candidates = CANDIDATES * n_kernels
    height, width = kernel_size
    patches = np.empty((n_candidates, height, width, *details[0].shape[2:]))
    for k, n in enumerate(rng.choice(len(details), n_candidates, p=areas / areas.sum())):
        top = rng.integers(details[n].shape[0] - height + 1)
        left = rng.integers(details[n].shape[1] - width + 1)
        patches[k] = details[n][top : top + height, left : left + width]
    rows = patches.reshape(n_candidates, -1)
    rows, _ = scaled_by_power_of_two(rows, axis=None)
    energies = np.square(rows / (np.abs(rows).max() or 1.0)).sum(axis=1)
    n_usable = np.count_nonzero(energies)
    if n_usable == 0:
        raise ValueError("images must not be constant without background; got zeros: nothing to learn")
    order = rng.choice(n_candidates, n_usable, replace=False, p=energies / energies.sum())
    noise = rng.standard_normal((n_kernels, rows.shape[1]))
    candidates = np.concatenate([rows[order], noise])
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    kernels = np.zeros((n_kernels, rows.shape[1]))
    n_chosen = 0
    for candidate in candidates:
        if n_chosen < n_kernels and np.abs(kernels[:n_chosen] @ candidate).max(initial=0.0) < LARGEST_COSINE:
            kernels[n_chosen] = candidate
            n_chosen += 1
    if n_chosen < n_kernels:
        raise ValueError(
            f"kernels of {height} x {width} pixels and these channels have at most {n_chosen} different "
            f"directions; got {n_kernels} kernels: ask for fewer or larger ones"
        )
    return kernels.reshape(n_kernels, *patches.shape[1:])


class Crops(NamedTuple):
    """Images, and their division into batches of crops for each pass."""

    images: list[np.ndarray]
    size: tuple[int, int]
    kernel_size: tuple[int, int]
    stride: int
    batch_size: int
    seed: int

    def batches(self, number: int) -> list[Batch]:
        """Return the batches of crops of a pass, in random order."""
        # The area of an image determines the number of its crops, so all passes have equally many batches.
        # All places of a crop are equally likely.
        rng = np.random.default_rng([self.seed, number])
        corners: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for n, image in enumerate(self.images):
            shape = self.shape_of(image.shape)
            count = max(1, round(image.shape[0] * image.shape[1] / (shape[0] * shape[1])))
            tops = rng.integers(image.shape[0] - shape[0] + 1, size=count)
            lefts = rng.integers(image.shape[1] - shape[1] + 1, size=count)
            corners.setdefault(shape, []).extend((n, *corner) for corner in zip(tops, lefts, strict=True))
        batches = []
        for shape, places in corners.items():
            order = rng.permutation(len(places))
            for first in range(0, len(order), self.batch_size):
                batches.append((shape, [places[k] for k in order[first : first + self.batch_size]]))
        return [batches[k] for k in rng.permutation(len(batches))]

    def cut(self, batch: Batch) -> np.ndarray:
        """Return the crops of a batch, shape (n_crops, rows, columns[, channels])."""
        (rows, columns), places = batch
        return np.stack([self.images[n][top : top + rows, left : left + columns] for n, top, left in places])

    def shape_of(self, image_shape: tuple[int, ...]) -> tuple[int, int]:
        """Return (rows, columns) of the crops of an image: the largest size that a grid of kernels covers."""
        largest = (min(image_shape[0], self.size[0]), min(image_shape[1], self.size[1]))
        return valid_shape(largest, self.kernel_size, self.stride, pad=False)


def learn_kernels(
    learner: KernelLearner, crops: Crops, *, n_passes: int, n_jobs: int | None = None, course: Course
) -> None:
    """Learn from passes through images, from the state of the learner or of its checkpoint."""
    passes = [batch for number in range(n_passes) for batch in crops.batches(number)]

    def learn(batch: Batch) -> float:
        learner.learn(crops.cut(batch), n_jobs=n_jobs)
        history = learner.history
        return history["objective"][-1] / max(history["energy"][-1], np.finfo(float).tiny)

    def identity() -> dict[str, Any]:
        return {
            "images": digest(crops.images),
            "sizes of images": [image.shape for image in crops.images],
            "settings": asdict(learner.settings),
            "kernels' shape": learner.kernels.shape,
            "crop_size": crops.size,
            "batch_size": crops.batch_size,
            "start": digest([learner.kernels]) if learner.n_batches == 0 else None,
        }

    learn_batches(
        learner,
        learn,
        lambda _: passes[learner.n_batches :],
        end=len(passes),
        seed=crops.seed,
        course=course,
        identity=identity,
    )
