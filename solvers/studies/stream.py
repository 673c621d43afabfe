"""Sparse coding of one frame after another, as of a video or of sensors."""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn._interrupts import one_thread
from snn.base import checks
from snn.base.describe import Described, number
from snn.base.value import assign
from solvers._kernels.certificate import RowEntries
from solvers.problem.convolutional_dictionary import ConvolutionalDictionary
from solvers.problem.lasso import LassoModel, LassoProblem
from solvers.problem.penalty import ElasticNet
from solvers.problem.signals import checked_weights
from solvers.problem_network import LassoNetwork, RefinedCodes, SpikingCodingResult
from solvers.results.codes import START, BestCodes, compressed_rows

# Number of previous frames whose codes are mixed: measured by `python -m tests.benchmarks stream`.
MEMORY = 3
# The fit of the mixture ignores directions whose eigenvalue is below this share of the largest eigenvalue,
# because they are rounding.
LEAST_SHARE = 1e-12


class SparseCodingStream(Described):
    """A coder of one frame after another, whose spiking network starts each frame from previous codes.

    A frame is a signal, or several signals such as the patches of an image.  Let c, c' and c'' be the codes
    of the last three frames.  The network starts from one of the following codes, the one with the smallest
    duality gap on the new frame::

        0        c        x c + y c' + z c''

    The numbers x, y and z minimise the objective of the new frame while all signs stay the same.  An entry is
    set to zero if its sign would differ from its sign in c.  So the start follows changes of amplitude and
    motion.  The network refines the start as `solve_spiking` does.  Similar frames need few spikes.

    Every code comes with its duality gap.  Even if a deadline stops the network, the gap is not larger than
    the gap of the zero code, or the gap of the previous code on the new frame.

    Parameters
    ----------
    dictionary : array_like, shape (n_atoms, n_features), or ConvolutionalDictionary
        Atoms.
    penalty : float, array_like of shape (n_atoms,), or ElasticNet
        lambda, positive.  ``stream.penalty = ...`` changes the penalty between frames.
    positive, gram
        See `LassoModel`.
    mask : array_like of bool, shape (n_features,), optional
        True for the known features of all frames that come without a mask.

    Attributes
    ----------
    n_frames : int
        Number of frames coded since the stream was made or reset.
    frame : ndarray, shape (n_signals, n_features), or None
        The signals of the last frame; unknown features are zero.

    Examples
    --------
    >>> import numpy as np
    >>> stream = SparseCodingStream(np.eye(2), 0.5)
    >>> stream.code(np.array([2.0, 0.1])).codes.round(2)
    array([[1.5, 0. ]])
    >>> result = stream.code(np.array([2.0, 0.1]))
    >>> int(result.n_steps[0]), bool(result.is_carried[0])
    (0, True)
    """

    n_frames: int
    frame: np.ndarray | None

    def __init__(
        self,
        dictionary: ArrayLike | ConvolutionalDictionary,
        penalty: float | ArrayLike | ElasticNet,
        *,
        positive: bool | ArrayLike = False,
        gram: ArrayLike | None = None,
        mask: ArrayLike | None = None,
    ) -> None:
        silent = self._set(LassoModel(dictionary, penalty, positive=positive, gram=gram, mask=mask))
        self.reset()
        # Coding a first signal compiles or loads the kernels, so that the first frame is not late.
        squared_norms = silent.seen_atoms.squared_norms
        loudest = np.argmax(squared_norms)
        if squared_norms[loudest] > 0.0:
            atom = np.zeros((1, silent.n_atoms))
            atom[0, loudest] = 8.0 * silent.l1_weights[loudest] / squared_norms[loudest]
            self.code(silent.atoms.reconstruct(atom)[0], max_spikes=1)
            self.reset()

    def _set(self, model: LassoModel) -> LassoProblem:
        """Set the model of the stream; return its problem with one signal of zeros."""
        if model.penalty.has_zeros:
            first = int(np.argmin(model.penalty.l1))
            raise ValueError(f"penalty must be positive for a stream; got 0 for atom {first}")
        silent = model.with_signals(np.zeros((1, model.n_features)))
        self._prepared: LassoModel
        # `_network` serves frames with the stream's mask.  `_masked` has the last other mask and its network.
        self._network: LassoNetwork
        self._masked: tuple[np.ndarray, LassoNetwork] | None
        assign(self, _prepared=model, _network=LassoNetwork(silent), _masked=None)
        return silent

    @property
    def penalty(self) -> ElasticNet:
        """The current penalty; a penalty that is assigned holds from the next frame on."""
        return self._prepared.penalty

    @penalty.setter
    @one_thread
    def penalty(self, value: float | ArrayLike | ElasticNet) -> None:
        self._set(self._prepared.with_penalty(value))

    def _facts(self) -> dict[str, str]:
        return {"frames so far": number(self.n_frames), **self._prepared._facts()}

    @one_thread
    def reset(self) -> None:
        """Forget all frames."""
        self._codes: list[sparse.csr_array]
        assign(self, n_frames=0, frame=None, _codes=[])

    @one_thread
    def code(
        self,
        frame: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        tol: float = 1e-3,
        max_spikes: int | None = None,
        max_seconds: float | None = None,
        max_duration: float = 10_000.0,
    ) -> SpikingCodingResult:
        """Return the codes of the next frame, with their certificates.

        If Ctrl-C interrupts the call, `n_frames` says whether the stream has taken the frame.  If the stream
        has taken the frame, the codes are lost, but a second call with the same frame starts from these
        codes.

        Parameters
        ----------
        frame : array_like, shape (n_features,) or (n_signals, n_features)
            The signals of the frame, as many as those of the previous frame.
        mask : array_like of bool, shape (n_features,), optional
            True for the known features of this frame, the same for all signals; by default the mask of the
            stream.  Unknown features may be NaN.
        tol : float, default 1e-3
            A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``.
        max_spikes : int, optional
            Deadline as the largest number of spikes of each signal.  Only spikes of the same instant may
            exceed this number.
        max_seconds : float, optional
            Deadline in seconds for the frame.  Every frame has at least one read-out, and the time is checked
            after each read-out.  So the result may be late by the time of one read-out and its certificate.
        max_duration : float, default 10000
            Simulated time, in synaptic time constants, after which the network is stopped.

        Returns
        -------
        SpikingCodingResult
            At a deadline, the result has the best codes so far.  No warning is given for codes that miss
            `tol`, but `reached` is False.  The `info` has `start_duality_gap`, the gap on this frame of the
            code from which the network started; `is_carried`, which is True if that code came from previous
            frames and False if it was zero; and `seconds_late`, the seconds from the deadline `max_seconds`
            to the result, 0 if the deadline was met.
        """
        begin = time.perf_counter()
        mask = checked_weights(mask, None, n_features=self._prepared.n_features)
        signals_now = self._checked_frame(frame, mask)
        problem = self._prepared.with_signals(signals_now, mask=mask)
        tol = checks.positive_number("tol", tol)
        most = np.inf if max_spikes is None else checks.positive_integer("max_spikes", max_spikes)
        seconds = np.inf if max_seconds is None else checks.positive_number("max_seconds", max_seconds)
        max_duration = checks.positive_number("max_duration", max_duration)

        network = self._network_of(problem)
        best, is_carried = self._start(problem, tol, begin + seconds)
        start_gap = best.gaps.copy()
        start = best.values.toarray()
        refined = RefinedCodes(problem, network, tol=tol, max_duration=max_duration, start=start)
        codes = best.keep(refined.search(best, max_spikes=most, deadline=begin + seconds))
        coded = [codes.values, *self._codes][:MEMORY]
        frame_now = checks.read_only(signals_now.copy())
        late = max(time.perf_counter() - begin - seconds, 0.0)
        codes.info |= {"start_duality_gap": start_gap, "is_carried": is_carried, "seconds_late": late}
        result = SpikingCodingResult(problem, codes, "stream", tol, "spikes")
        assign(self, _codes=coded, n_frames=self.n_frames + 1, frame=frame_now)
        return result

    def _network_of(self, problem: LassoProblem) -> LassoNetwork:
        """Return the network for a frame's mask, which is kept for following frames with the same mask."""
        mask = problem.feature_weights
        if mask is None or mask is self._prepared.feature_weights:
            return self._network
        if self._masked is None or not np.array_equal(self._masked[0], mask):
            self._masked = mask, LassoNetwork(problem)
        return self._masked[1]

    def _checked_frame(self, frame: ArrayLike, mask: np.ndarray | None) -> np.ndarray:
        """Return the frame as an array with one signal per row, and zeros for unknown features."""
        mask = self._prepared.feature_weights if mask is None else mask
        n_features = self._prepared.n_features
        array = checks.real_array("frame", frame, shape=None, finite=False)
        if array.ndim not in (1, 2) or array.shape[-1] != n_features:
            raise ValueError(
                f"frame must have shape ({n_features},) or (n_signals, {n_features}); got shape {array.shape}"
            )
        if mask is not None:
            array = np.where(mask, array, 0.0)
        hint = ": for features that are missing, pass mask=" if mask is None else " where mask is True"
        checks.require_finite("frame", array, hint=hint)
        rows = np.atleast_2d(array)
        if self.frame is not None and len(rows) != len(self.frame):
            raise ValueError(
                f"frame must have as many signals as the previous frame, {len(self.frame)}; got {len(rows)}: "
                "call reset() to begin anew"
            )
        return rows

    def _start(self, problem: LassoProblem, tol: float, deadline: float) -> tuple[BestCodes, np.ndarray]:
        """Return the best certified starts, and for each signal whether its start is a previous code."""
        best = BestCodes(problem, tol)
        signals = best.active
        best.fall_back()
        zero_gap = best.gaps.copy()
        best.work[START][signals] += 0
        if self._codes and self._codes[0].nnz:
            best.put(signals, self._codes[0])
            if time.perf_counter() < deadline:
                best.work[START][signals] += _work_of_mixture(problem, self._codes)
                best.put(signals, predicted(problem, self._codes))
        return best, best.gaps < zero_gap


def predicted(problem: LassoProblem, codes: Sequence[sparse.csr_array]) -> sparse.csr_array:
    """Return the mixture of previous codes that minimises the objective of a frame at constant signs."""
    last, n_signals = codes[0], len(codes[0].indptr) - 1
    row = np.arange(n_signals).repeat(np.diff(last.indptr))
    values = np.stack([last.data, *(other.toarray()[row, last.indices] for other in codes[1:])])
    parts = (compressed_rows(last.shape, RowEntries(last.indptr, last.indices, part)) for part in values)
    fits = np.stack([problem.atoms.reconstruct(part) for part in parts], axis=1)
    weighted = fits if problem.feature_weights is None else fits * problem.feature_weights
    # As a function of the shares x, the objective is 1/2 x.A x - x.B plus a constant.
    along = np.einsum("ij,ikj->ik", problem.dense_signals(), weighted)
    square = np.einsum("ijk,ilk->ijl", weighted, fits)
    signs, curvatures = np.sign(last.data), problem.curvatures[last.indices]
    costs = problem.l1_weights[last.indices] * signs
    for j, part in enumerate(values):
        along[:, j] -= np.bincount(row, costs * part, n_signals)
        for k, other in enumerate(values):
            square[:, j, k] += np.bincount(row, curvatures * part * other, n_signals)
    shares = np.einsum("ijk,ik->ij", np.linalg.pinv(square, rcond=LEAST_SHARE, hermitian=True), along)
    mixed = np.einsum("ij,ji->i", shares[row], values)
    kept = mixed * signs > 0.0
    starts = np.append(0, np.cumsum(np.bincount(row[kept], minlength=n_signals))).astype(last.indptr.dtype)
    return compressed_rows(last.shape, RowEntries(starts, last.indices[kept], mixed[kept]))


def _work_of_mixture(problem: LassoProblem, codes: Sequence[sparse.csr_array]) -> np.ndarray:
    """Return the number of multiply-adds of `predicted`, for reconstructions and their inner products."""
    n_entries = np.sum([np.diff(code.indptr) for code in codes], axis=0, dtype=np.int64)
    n_products = len(codes) * (1 + len(codes))
    return np.asarray(n_entries * problem.atoms.features_of_atom + n_products * problem.n_features)
