"""Kernels learned from images, or from signals of one dimension, as a scikit-learn transformer."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from dictlearn.images.frame import CodedImage, Frame, PreparedImage, background_of, frame_of, prepared_plane
from dictlearn.images.kernels import Crops, KernelLearner, KernelSettings, learn_kernels, random_kernels
from dictlearn.resumable import Course
from snn._interrupts import one_thread
from snn.base import checks
from snn.base.value import assign
from solvers import LassoProblem, Method, solve
from solvers.estimator import Versioned
from solvers.methods.method import named_method
from solvers.problem.convolutional_dictionary import require_room, valid_shape

# Default side of crops in pixels, and least side as a multiple of a kernel's side, so that kernels have
# neighbours.
IMAGE_CROP = 64, 4
SIGNAL_CROP = 512, 8


@dataclass(eq=False, repr=False)
class ConvolutionalDictionaryLearning(Versioned, TransformerMixin, BaseEstimator):
    """Learn kernels of a convolutional dictionary by spiking codes, and code images or signals in them.

    `fit` minimises the following sum over crops x of the images without their background, over kernels of
    norm one and codes::

        sum_x 1/2 ||x - sum_p sum_k a_(p, k) kernel_k placed at p||^2 + alpha ||a||_1

    The spiking network (`solve_spiking`) codes a batch of crops to a certified `tol`.  Then one kernel after
    the other is optimised for the codes of all batches so far.  The learner keeps only sums over the codes.
    Spikes compute the codes, but the optimisation of kernels uses no spikes.

    `X` is a list of images of any sizes, or an array of images of one size.  Images are grey, (height,
    width), or colour, (height, width, 3).  Values are floats or integers (uint8 or uint16, which are scaled
    so that white is 1).  An array of three dimensions has grey images.  If the last axis of an array has a
    length of 4 or less, the array is refused, because it may be one colour image.  One-dimensional signals,
    such as an ECG or a sound, are a list of arrays (length,), an array (n_signals, length) or one signal,
    (length,).  Pass one image as [image].

    Parameters
    ----------
    n_components : int, default 32
        Number of kernels.
    kernel_size : int or (int, int), default 8
        Side of square kernels, or (height, width), in pixels; for signals, the length of kernels.
    alpha : float, default 0.1
        The penalty of all coefficients, positive, in units of the images.
    stride : int, default 1
        Distance between neighbouring positions of kernels, in pixels.
    positive : bool, default False
        Whether codes must not be negative.
    max_iter : int, default 1
        Number of passes of `fit` through the images.  The random crops of a pass have about as many pixels as
        the images.
    crop_size : int or (int, int), optional
        Side of the crops, or (rows, columns), in pixels; for signals, the length of crops.  Smaller images
        give smaller crops.  The default is 64 pixels or four kernel sides, whichever is more.  For signals,
        the default is 512 samples or eight kernel lengths, whichever is more.
    batch_size : int, default 4
        Number of crops between two changes of the kernels.
    background : {"smooth", "mean", "none"} or float, default "smooth"
        The part of an image that is not coded (`prepare_image`); `inverse_transform` adds this part again.
    margin : int, default 0
        Number of pixels by which `transform` pads images at each side; see `prepare_image`.
    tol : float, default 0.1
        Largest duality gap of the codes that kernels are learned from, as a share of 1/2 ||crop||^2.
    replace_dead : bool, default False
        Whether patches with large residuals replace dead kernels, which no code of the last 32 crops uses.
    method : str or Method, default "active_set"
        The method of `transform`: a name in `solvers.METHODS`, such as "spiking", or a method with your own
        options.
    transform_tol : float, default 1e-6
        Largest duality gap of the codes of `transform`, as a share of 1/2 ||image||^2.
    dict_init : array_like, shape of `components_`, optional
        Kernels to start from; by default patches of the images.
    checkpoint, checkpoint_every, callback, progress
        See `continue_learning`.  Here `checkpoint_every` counts batches, and `fit` calls `callback` after
        every batch.
    random_state : int or RandomState, optional
        Seed or generator of the random start and of the random crops.  With a `checkpoint`, pass an integer.
    n_jobs : int, optional
        Number of workers that code crops; results do not depend on this number.
    n_channels : int, optional
        Length of the last axis of images and signals, if this axis does not hold colours; see `as_pixels`.

    Attributes
    ----------
    components_ : ndarray, shape (n_components, height, width[, n_channels])
        The kernels, of norm one; for signals, shape (n_components, length[, n_channels]).
    learner_ : KernelLearner
        The learner, with `history`, `n_batches` and `dead_kernels`.

    Notes
    -----
    `alpha`, `positive`, `background`, `margin`, `method` and `transform_tol` control the coding of images,
    and may change after `fit`.  scikit-learn's common checks pass tables of numbers and do not apply.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.random.default_rng(0).random((2, 20, 24))
    >>> learning = ConvolutionalDictionaryLearning(4, kernel_size=5, stride=5, random_state=0)
    >>> learning.fit(images).components_.shape
    (4, 5, 5)
    >>> learning.inverse_transform(learning.transform(images), images).shape
    (2, 20, 24)
    """

    n_components: int = 32
    _: KW_ONLY
    kernel_size: int | tuple[int, int] = 8
    alpha: float = 0.1
    stride: int = 1
    positive: bool = False
    max_iter: int = 1
    crop_size: int | tuple[int, int] | None = None
    batch_size: int = 4
    background: str | float = "smooth"
    margin: int = 0
    tol: float = 0.1
    replace_dead: bool = False
    method: str | Method = "active_set"
    transform_tol: float = 1e-6
    dict_init: ArrayLike | None = None
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int = 50
    callback: Callable[[KernelLearner], bool | None] | None = None
    progress: bool = False
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    n_channels: int | None = None

    # -- learning --------------------------------------------------------------------------------

    @one_thread
    def fit(self, X: list[np.ndarray] | ArrayLike, y: None = None) -> ConvolutionalDictionaryLearning:
        """Learn kernels anew from `max_iter` passes through images.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If all codes are zero, or some kernels are dead.
        """
        n_passes = checks.positive_integer("max_iter", self.max_iter)
        course = Course(
            progress=self.progress,
            callback=self.callback,
            checkpoint=self.checkpoint,
            checkpoint_every=self.checkpoint_every,
        )
        settings = self._settings()
        frame, details = self._details(X)
        learner, seed = self._first_learner(frame, details, settings)
        crops = self._crops(frame, details, seed)
        try:
            learn_kernels(learner, crops, n_passes=n_passes, n_jobs=self.n_jobs, course=course)
        finally:
            # Keep the result of all whole batches, also after Ctrl-C.
            if learner.n_batches > 0:
                self._keep(learner, frame, seed, n_passes)
        _warn_of_dead(learner)
        return self

    @one_thread
    def partial_fit(self, X: list[np.ndarray] | ArrayLike, y: None = None) -> ConvolutionalDictionaryLearning:
        """Learn from one pass through images; one image is enough.

        The first call, unless it follows `fit`, sets the number of kernels and their start.  Only `fit` uses
        `max_iter`, `checkpoint`, `callback` and `progress`, and only `fit` warns.  After an error or Ctrl-C,
        the estimator is as it was before the call.
        """
        settings = self._settings()
        frame, details = self._details(X)
        if not hasattr(self, "learner_"):
            learner, seed = self._first_learner(frame, details, settings)
            n_passes = 0
        else:
            learner, seed, n_passes = copy.copy(self.learner_), self._seed, self._n_passes
            self._require_same(learner, frame, settings)
            learner.settings = settings
        # Take the first pass of another seed, so that crops differ from earlier crops.
        crops = self._crops(frame, details, seed + n_passes)
        for batch in crops.batches(0):
            learner.learn(crops.cut(batch), n_jobs=self.n_jobs)
        self._keep(learner, frame, seed, n_passes + 1)
        return self

    # -- coding ----------------------------------------------------------------------------------

    def transform(self, X: list[np.ndarray] | ArrayLike) -> list[sparse.csr_array] | sparse.csr_array:
        """Return the codes of images, with coefficients ordered by (row, column, kernel).

        Returns
        -------
        list of scipy.sparse.csr_array, shape (1, n_atoms) each, or csr_array, shape (n_images, n_atoms)
            A list if X is a list, one array if X is an array.
        """
        codes = [coded.result.sparse_codes for coded in self.encode(X)]
        return sparse.vstack(codes, format="csr") if isinstance(X, np.ndarray) else codes

    def encode(self, X: list[np.ndarray] | ArrayLike) -> list[CodedImage]:
        """Return images with their codes and certificates."""
        coded = []
        for prepared, problem in self._problems(X):
            result = solve(problem, named_method(self.method), tol=self.transform_tol, n_jobs=self.n_jobs)
            coded.append(CodedImage(prepared=prepared, problem=problem, result=result))
        return coded

    def inverse_transform(
        self, X: list[sparse.csr_array] | sparse.csr_array | ArrayLike, images: list[np.ndarray] | ArrayLike
    ) -> list[np.ndarray] | np.ndarray:
        """Return the images reconstructed from codes and backgrounds.

        Parameters
        ----------
        X : list of array_like, shape (1, n_atoms) each, or array_like, shape (n_images, n_atoms)
            Codes, dense or sparse, as `transform` returns them.
        images : list of images or signals, or array_like
            The images that were transformed, from which sizes and backgrounds are taken.

        Returns
        -------
        list of ndarray, or ndarray, shape (n_images, height, width[, 3]) or (n_signals, length)
            The restored images: a list if X is a list, else an array.
        """
        is_list = isinstance(X, (list, tuple))
        codes: Any = X
        if not is_list:
            shape = None, None
            rows = sparse.csr_array(X) if sparse.issparse(X) else checks.real_array("X", X, shape=shape)
            codes = [rows[[k]] for k in range(rows.shape[0])]
        problems = list(self._problems(images))
        if len(problems) != len(codes):
            raise ValueError(f"images must be as many as codes, {len(codes)}; got {len(problems)}")
        restored = []
        for k, (code, (prepared, problem)) in enumerate(zip(codes, problems, strict=True)):
            name = f"X[{k}]"
            if not sparse.issparse(code):
                code = checks.real_array(name, np.atleast_2d(code), shape=(1, None), meaning="(1, n_atoms)")
            row = sparse.csr_array(code.reshape(1, -1), copy=True)
            row.sum_duplicates()
            checks.require_finite(name, row.data)
            with checks.called(codes=name):
                restored.append(prepared.restore(problem.reconstruct(row)))
        if is_list:
            return restored
        if len({image.shape for image in restored}) > 1:
            raise ValueError("images must have one shape if their codes are one array: pass a list of codes")
        return np.stack(restored)

    def score(self, X: list[np.ndarray] | ArrayLike, y: None = None) -> float:
        """Return -objective / energy (1/2 ||x||^2) of the images, from -1 to 0; larger is better.

        Scores of kernels can be compared at one `alpha` and one `background`.  The score cannot choose
        `alpha`, because a smaller `alpha` gives a smaller objective for any images.
        """
        coded = self.encode(X)
        energy = sum(float(image.problem.energies[0]) for image in coded)
        return -sum(float(image.result.objective[0]) for image in coded) / (energy or 1.0)

    # -- what was learned ------------------------------------------------------------------------

    @property
    def components_(self) -> np.ndarray:
        """The kernels, of norm one."""
        return self._frame.without_row(self.learner_.kernels, axis=1)

    # -- from scikit-learn's names to the learner's ----------------------------------------------

    def _settings(self) -> KernelSettings:
        """Check all parameters that do not depend on the images; return the settings of learning."""
        checks.worker_count("n_jobs", self.n_jobs)
        checks.positive_integer("batch_size", self.batch_size)
        checks.positive_number("transform_tol", self.transform_tol)
        checks.non_negative_integer("margin", self.margin)
        named_method(self.method)
        names = ("stride", "positive", "tol", "replace_dead")
        with checks.called(penalty="alpha"):
            return KernelSettings(penalty=self.alpha, **{name: getattr(self, name) for name in names})

    def _crops(self, frame: Frame, details: list[np.ndarray], seed: int) -> Crops:
        """Check the crop size; return the division of images into crops."""
        kernel_size = frame.size("kernel_size", self.kernel_size)
        if self.crop_size is None:
            pixels, kernels = SIGNAL_CROP if frame.is_signal else IMAGE_CROP
            height, width = (max(pixels, kernels * side) for side in kernel_size)
            crop_size = 1 if frame.is_signal else height, width
        else:
            crop_size = frame.size("crop_size", self.crop_size)
            require_room(crop_size, kernel_size, name="crop_size")
        crop_size = valid_shape(crop_size, kernel_size, self.stride, pad=False)
        if crop_size == kernel_size and any(detail.shape[:2] != kernel_size for detail in details):
            checks.warn_caller(
                f"crop_size {self.crop_size} has one position of a kernel, so that kernels are learned as if "
                "they had no neighbours: pass several times kernel_size, or None",
                UserWarning,
            )
        return Crops(details, crop_size, kernel_size, self.stride, self.batch_size, seed)

    def _details(self, X: list[np.ndarray] | ArrayLike) -> tuple[Frame, list[np.ndarray]]:
        """Return the frame of images, and the images without their backgrounds."""
        frame, planes = frame_of(X, self.n_channels)
        kernel_size = frame.size("kernel_size", self.kernel_size)
        # If an image is too small for a kernel, X may be a single image taken for several, or channels may be
        # taken for columns.
        hint = ": for one image pass [image], for channels that are no colours n_channels"
        for k, plane in enumerate(planes):
            require_room(plane.shape[:2], kernel_size, name=f"images[{k}]", hint=hint)
        return frame, [plane - background_of(plane, self.background, kernel_size) for plane in planes]

    def _problems(self, X: list[np.ndarray] | ArrayLike) -> Iterator[tuple[PreparedImage, LassoProblem]]:
        """Yield (prepared image, coding problem) for each image, with the learned kernels."""
        check_is_fitted(self, "learner_")
        alpha = checks.positive_number("alpha", self.alpha)
        frame, planes = frame_of(X, self._frame.n_channels)
        if frame != self._frame:
            raise ValueError(
                f"images must have the form of those that kernels were learned from ({self._frame}); got "
                f"{frame}: for one image pass [image]"
            )
        size, stride = self.learner_.kernel_size, self.learner_.settings.stride
        # Images of one shape share a dictionary and everything computed from it.
        problems: dict[tuple[int, ...], LassoProblem] = {}
        for plane in planes:
            prepared = prepared_plane(plane, frame, size, stride, self.margin, self.background)
            shape = prepared.detail.shape
            if shape not in problems:
                dictionary = prepared.dictionary(self.components_)
                problems[shape] = LassoProblem(dictionary, prepared.signal, alpha, positive=self.positive)
            yield prepared, problems[shape].with_signals(prepared.signal)

    def _first_learner(
        self, frame: Frame, details: list[np.ndarray], settings: KernelSettings
    ) -> tuple[KernelLearner, int]:
        """Return a new learner, and the seed of the crops."""
        kernel_size = frame.size("kernel_size", self.kernel_size)
        n_components = checks.positive_integer("n_components", self.n_components)
        if self.checkpoint is not None and self.random_state is None:
            raise ValueError(
                "random_state must be an integer with a checkpoint; got None: a later call needs it"
            )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if self.dict_init is None:
            kernels = random_kernels(details, n_components, kernel_size, np.random.default_rng(seed))
        else:
            kernels = frame.kernels("dict_init", self.dict_init, n_components, kernel_size)
        with checks.called(kernels="dict_init"):
            return KernelLearner(kernels, settings), seed

    def _require_same(self, learner: KernelLearner, frame: Frame, settings: KernelSettings) -> None:
        """Raise ValueError if the learner's kernels do not match parameters and images."""
        shape = (self.n_components, *frame.size("kernel_size", self.kernel_size), *frame.channels)
        if learner.kernels.shape != shape or frame != self._frame:
            raise ValueError(
                f"kernels must keep the shape {learner.kernels.shape} after the first call; got parameters "
                f"and images for {shape}: call fit to start anew"
            )
        if learner.settings.stride != settings.stride:
            raise ValueError(
                f"stride must not change after the first call, from {learner.settings.stride}; got "
                f"{settings.stride}: call fit to start anew"
            )

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "learner_" and "_frame" not in vars(self):
            raise AttributeError(
                "learner_ is the result of fit and cannot be set: to start from a loaded learner pass its "
                "kernels, dict_init=estimator.components_ of the estimator that learned them"
            )
        super().__setattr__(name, value)

    def _keep(self, learner: KernelLearner, frame: Frame, seed: int, n_passes: int) -> None:
        self.learner_: KernelLearner
        assign(self, learner_=learner, _frame=frame, _seed=seed, _n_passes=n_passes)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.target_tags.required = False
        return tags


def _warn_of_dead(learner: KernelLearner) -> None:
    """Warn if all codes are zero, or some kernels are dead."""
    n_dead = len(learner.dead_kernels)
    n_nonzeros = learner.history["n_nonzeros"]
    if not n_nonzeros.any():
        message = (
            f"all codes are zero: alpha is {learner.settings.penalty:g}, more than every correlation of an "
            "image with a kernel: reduce alpha"
        )
    elif n_dead:
        message = (
            f"{n_dead} of {len(learner.kernels)} kernels are dead: no code of the last 32 crops has them; "
            "replace_dead=True replaces them"
        )
    else:
        return
    checks.warn_caller(message, ConvergenceWarning)
