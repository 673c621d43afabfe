"""Dictionary learning by spikes as a scikit-learn transformer."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dictlearn.images.preprocessing import join_channels, split_channels
from dictlearn.two_phase.fit import continue_learning, new_learner, on_finer_steps
from dictlearn.two_phase.learner import TwoPhaseLearner
from dictlearn.two_phase.phases import RunawayFeedbackError, thread_count
from dictlearn.two_phase.samples import Samples, samples_of
from dictlearn.two_phase.settings import LearningSettings
from dictlearn.two_phase.two_phase_network import TwoPhaseNetwork
from snn._interrupts import one_thread
from snn.base import checks
from solvers import LassoProblem
from solvers.estimator import Coder, checked_codes, checked_input, coding_problem, known_entries, take_fitted
from solvers.problem.penalty import penalty_of
from solvers.studies.held_out import held_out_score

# Names of the fields of `LearningSettings` that no parameter of the estimator sets.
OPTIONS = {field.name for field in fields(LearningSettings)}
OPTIONS -= {"penalty", "batch_size", "positive_atoms", "positive_code", "positive_signals"}
# scikit-learn's names for arguments of `new_learner`.
ESTIMATOR_NAMES = {"n_atoms": "n_components", "penalty": "alpha", "start": "dict_init"}


@dataclass(eq=False, repr=False)
class SpikingDictionaryLearning(Coder):
    """Learn a dictionary with the two-phase spiking network, and code signals in it.

    `fit` minimises, over dictionaries D of unit-norm atoms and codes a, the mean over the signals s of ``1/2
    ||s - a D||^2 + alpha ||a||_1``, by `learn_dictionary`.  `transform` solves exactly for the codes in the
    learned dictionary.  Signals, atoms and codes may have either sign, as in scikit-learn's
    `DictionaryLearning`.  `X` has a signal in each row, shape (n_signals, n_features).

    Parameters
    ----------
    n_components : int, optional
        Number of atoms.  The default is the number of features, or twice this number for split signals.
    alpha : float or array_like of shape (n_components,), default 0.1
        The penalty, positive, in units of the signals: one number for all atoms, or one number for each atom.
        The default suits many signals with norms near 1, such as normalised patches.  (With scikit-learn's
        default, 1, the code of a unit-norm signal is zero in any dictionary.)
    max_iter : int, default 10
        Number of passes of `fit` through the signals.
    batch_size : int or "auto", default "auto"
        Number of samples between two changes of the weights; see `LearningSettings`.
    split_channels : bool, default False
        If True, signals are split into a positive and a negative channel (`dictlearn.split_channels`), and
        the network learns non-negative atoms and codes of both channels, as in the paper.
    settings : mapping of str to object, optional
        Further options of `LearningSettings` by name, such as ``{"kappa": 0.2, "rule": PaperSteps()}``.
    transform_alpha : float or array_like of shape (n_components,), optional
        The penalty of the codes of `transform`; by default `alpha`.
    positive_code : bool, default False
        Whether codes must not be negative, during learning and in `transform`.  Split signals are always
        learned with non-negative codes.  If `positive_code` is True, `transform` codes the split signals.
        Otherwise `transform` codes the original signals in ``components_``.
    positive_dict : bool, default False
        Whether atoms must not be negative.  Pass False for split signals.  If atoms, codes and the signals of
        the first call are not negative, the network is smaller, and later signals must not be negative.
    dict_init : array_like, shape (n_components, n_features), or TwoPhaseNetwork, optional
        Atoms to start from, which are split like the signals and scaled to unit norm, or a network.  The
        default is a `random_dictionary`.
    tol : float, default 1e-6
        Largest duality gap of the codes, as a share of 1/2 ||signal||^2.
    checkpoint, checkpoint_every, callback, progress
        See `continue_learning`; only `fit` uses these parameters.
    missing_values : float, optional
        The value that marks missing entries of the signals, for example `np.nan`.  Only known entries count
        in the objectives of learning and coding.  By default no entry is missing, and NaN is an error.
    random_state : int or RandomState, optional
        Seed or generator of the random start and of the random order of samples.
    n_jobs : int, optional
        Number of workers; results do not depend on this number.

    Attributes
    ----------
    components_ : ndarray, shape (n_components, n_features)
        The dictionary: ``codes @ components_`` approximates the signals.  Atoms have unit norm.  With split
        channels, atoms have unit norm over both channels, and a component is the positive channel minus the
        negative channel, with a norm of at most 1.  A vanished atom is zero.  float32 signals give float32
        atoms.
    dead_atoms_ : ndarray of int
        Indices of atoms that were silent for the last max(1000, 10 n_components) samples.
    learner_ : TwoPhaseLearner
        The learner, with `network`, `history` and a `dictionary` that has both channels of split atoms.
    n_features_in_ : int
        Number of features of the signals.
    n_iter_ : int
        Number of passes of `fit` through the signals, including a last pass that ended early.

    Notes
    -----
    float32 signals give float32 codes and ``components_``.  Results are computed in float64 and then rounded.
    The network, and the result of `encode` with its certificates, stay in float64.

    Examples
    --------
    >>> import numpy as np
    >>> signals = np.repeat(np.eye(3), 50, axis=0)
    >>> learning = SpikingDictionaryLearning(3, positive_code=True, random_state=0).fit(signals)
    >>> bool((learning.components_.max(axis=1) > 0.99).all())
    True
    """

    n_components: int | None = None
    _: KW_ONLY
    alpha: float | ArrayLike = 0.1
    max_iter: int = 10
    batch_size: int | Literal["auto"] = "auto"
    split_channels: bool = False
    settings: Mapping[str, Any] | None = None
    transform_alpha: float | ArrayLike | None = None
    positive_code: bool = False
    positive_dict: bool = False
    dict_init: ArrayLike | TwoPhaseNetwork | None = None
    tol: float = 1e-6
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int = 10_000
    callback: Callable[[TwoPhaseLearner], bool | None] | None = None
    progress: bool = False
    missing_values: float | None = None
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None

    # -- learning --------------------------------------------------------------------------------

    @one_thread
    def fit(self, X: ArrayLike, y: None = None) -> SpikingDictionaryLearning:
        """Learn anew from `max_iter` passes through signals; each pass has a new random order.

        Raises
        ------
        RunawayFeedbackError
            If the network runs away.  The attributes then describe the learner after the last whole batch.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If some atoms are dead at the end, all atoms are silent, or alpha exceeds every correlation.
        IllPosedWarning
            If one percent of the signals have more than half of the energy, or if the mean of the signals has
            more than 85 % of the energy.
        """
        new = copy.copy(self)
        try:
            new._fit(X)
        finally:
            # Keep the result of all whole batches, also after Ctrl-C.
            if vars(new).get("learner_") is not vars(self).get("learner_"):
                take_fitted(self, new)
        return self

    @one_thread
    def partial_fit(self, X: ArrayLike, y: None = None) -> SpikingDictionaryLearning:
        """Learn from signals once, in their order and in batches of `batch_size`; one signal is enough.

        The first call, unless it follows `fit`, sets the number of atoms, the start and the scale.  The scale
        follows from the root mean square norm of the signals in the first call, which must not all be zero.
        Later calls use the same scale.  Other parameters may change between calls.  Only `fit` uses
        `max_iter`, `checkpoint`, `callback` and `progress`, and only `fit` warns; see ``dead_atoms_``.
        """
        is_first, new = not hasattr(self, "learner_"), copy.copy(self)
        n_threads = thread_count(self.n_jobs)
        array = checked_input(new, X, reset=is_first)
        signals, mask = self._channels(array, is_split=self._checked_split())
        is_positive = signals.min() >= 0.0 if is_first else self.learner_.settings.positive_signals
        settings = self._settings(positive_signals=bool(is_positive))
        if is_first:
            samples = samples_of(signals, mask, settings)
            new._n_features_learned, new._dtype = new.n_features_in_, array.dtype
            new.learner_ = new._first_learner(samples, settings, self._seed())
        learner = new.learner_
        for name, changed in (
            ("split_channels", learner.n_inputs != signals.shape[1]),
            ("positive_dict and positive_code", learner.settings.signs != settings.signs),
            ("n_components", self.n_components not in (None, learner.n_atoms)),
        ):
            if changed:
                raise ValueError(f"{name} must not change after the first call: call fit to start anew")
        if settings.signs.positive_signals and signals.min() < 0.0:
            raise ValueError(
                "X must not be negative, as it was not in the first call (positive_dict=True and "
                f"positive_code=True); got {signals.min()}: call fit to start anew"
            )
        with checks.called(**ESTIMATOR_NAMES):
            settings.penalties(learner.n_atoms)
        self._check_coding(learner.n_atoms)
        scale = learner.scale * (settings.amplitude / learner.settings.amplitude)

        def learn(state: TwoPhaseLearner) -> float:
            state.settings, state.scale = settings, scale
            known = None if mask is None else mask[batch]
            rows = signals[batch]
            rows = rows.toarray() if sparse.issparse(rows) else rows
            return state.learn(rows, mask=known, n_threads=n_threads)

        for first in range(0, array.shape[0], settings.batch_size):
            batch = slice(first, first + settings.batch_size)
            on_finer_steps(learner, learn)
            if first == 0:  # later batches change the learner in place
                take_fitted(self, new)
        return self

    def _fit(self, X: ArrayLike) -> None:
        array = checked_input(self, X, reset=True)
        signals, mask = self._channels(array, is_split=self._checked_split())
        settings = self._settings(positive_signals=bool(signals.min() >= 0.0))
        max_iter = checks.positive_integer("max_iter", self.max_iter)
        samples = samples_of(signals, mask, settings)
        samples.warn_if_ill_scaled("X")
        # Without a seed of the user, learning continues with the seed of the checkpoint.
        is_any = self.random_state is None and self.checkpoint is not None
        seed = None if is_any else self._seed()
        learner = self._first_learner(samples, settings, seed)
        self._check_coding(learner.n_atoms)
        try:
            continue_learning(
                learner,
                samples,
                n_samples=max_iter * samples.n_signals,
                rng=seed,
                n_jobs=self.n_jobs,
                progress=self.progress,
                callback=self.callback,
                checkpoint=self.checkpoint,
                checkpoint_every=self.checkpoint_every,
            )
        except BaseException as error:
            if learner.n_samples > 0 or isinstance(error, RunawayFeedbackError):
                self._keep(learner, array)
            raise
        self._keep(learner, array)
        atoms, sizes = learner.dictionary.T, np.positive if settings.positive_code else np.abs
        largest = np.max([sizes(block @ atoms).max(axis=0) for block, _ in samples.blocks()], axis=0)
        penalties = settings.penalties(learner.n_atoms)
        if (largest <= penalties).all():
            atom = int(np.argmax(largest / penalties))
            checks.warn_caller(
                f"all codes are zero: alpha is {penalties[atom]:g}, but the largest correlation of a signal "
                f"with an atom is {largest[atom]:.3g}: reduce alpha",
                ConvergenceWarning,
            )

    # -- coding ----------------------------------------------------------------------------------

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """Return the signals of codes, ``codes @ components_``, in float32 if the codes are float32.

        Parameters
        ----------
        X : array_like, shape (n_signals, n_components)
        """
        check_is_fitted(self, "learner_")
        components = self._components
        codes = checked_codes(X, len(components))
        return (codes @ components).astype(codes.dtype, copy=False)

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Return how well codes of four fifths of the features predict the other fifth (1 is perfect).

        The score is the predicted share of the energy (`solvers.held_out_score`), with both channels of a
        feature in one fold.  Unlike objectives, scores can be compared between values of `alpha` and
        `n_components`, as `GridSearchCV` needs.  Codes are optimal to rounding, so `tol` does not matter.
        """
        problem = self._problem(self._input(X))
        fold_of = np.random.default_rng(0).permutation(self._n_features_learned) % 5
        n_channels = problem.n_features // self._n_features_learned
        return held_out_score(problem, fold_of=np.tile(fold_of, n_channels), tol=self.tol, n_jobs=self.n_jobs)

    # -- what was learned ------------------------------------------------------------------------

    @property
    def components_(self) -> np.ndarray:
        """The dictionary, shape (n_components, n_features)."""
        return self._components.astype(self._dtype, copy=False)

    @property
    def _components(self) -> np.ndarray:
        dictionary = self.learner_.dictionary
        return join_channels(dictionary) if self._is_split else dictionary

    @property
    def dead_atoms_(self) -> np.ndarray:
        """Indices of atoms that were silent for many samples."""
        return self.learner_.dead_atoms

    @property
    def _is_split(self) -> bool:
        # The parameter `split_channels` may have changed since the fit, or belong to a failed fit.
        return self.learner_.n_inputs != self._n_features_learned

    @property
    def _n_features_out(self) -> int:
        return self.learner_.n_atoms

    # -- from scikit-learn's names to the learner's ----------------------------------------------

    def _checked_split(self) -> bool:
        """Check that `positive_dict` is False for split signals; return whether signals are split."""
        is_split = checks.flag("split_channels", self.split_channels)
        if checks.flag("positive_dict", self.positive_dict) and is_split:
            raise ValueError(
                "positive_dict must be False with split_channels=True; got True: atoms of split signals are "
                "differences of channels"
            )
        return is_split

    def _settings(self, *, positive_signals: bool) -> LearningSettings:
        """Return the settings of learning; `positive_signals` says whether no signal is negative."""
        is_split, positive_code = self._checked_split(), checks.flag("positive_code", self.positive_code)
        options = checks.instance_of("settings", {} if self.settings is None else self.settings, Mapping)
        if not OPTIONS.issuperset(options):
            raise ValueError(f"settings must have options among {sorted(OPTIONS)}; got {list(options)}")
        alpha: Any = self.alpha
        batch_size: Any = self.batch_size
        with checks.called(**ESTIMATOR_NAMES):
            return LearningSettings(
                penalty=alpha,
                batch_size=batch_size,
                positive_atoms=is_split or self.positive_dict,
                positive_code=is_split or positive_code,
                positive_signals=positive_signals or not positive_code or not self.positive_dict,
                **options,
            )

    def _known(self, array: Any) -> tuple[Any, np.ndarray | None]:
        """Return signals in float64, zero where they are missing, and a mask of their known entries."""
        mask = known_entries(array, self.missing_values)
        signals = array.astype(np.float64, copy=False)
        return (signals, None) if mask is None else (np.where(mask, signals, 0.0), mask)

    def _channels(self, array: Any, *, is_split: bool) -> tuple[Any, np.ndarray | None]:
        """Return signals, split into channels if `is_split`, and a mask of their known entries."""
        signals, mask = self._known(array)
        if is_split and sparse.issparse(signals):
            return sparse.hstack([signals.maximum(0.0), (-signals).maximum(0.0)], format="csr"), None
        if is_split:
            return split_channels(signals), None if mask is None else np.tile(mask, 2)
        return signals, mask

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _first_learner(
        self, samples: Samples, settings: LearningSettings, seed: int | None
    ) -> TwoPhaseLearner:
        start, n_atoms = self.dict_init, self.n_components
        if start is None and n_atoms is None:
            n_atoms = samples.n_inputs
        if start is not None and not isinstance(start, TwoPhaseNetwork):
            start = checks.real_array(
                "dict_init", start, shape=(None, self.n_features_in_), meaning="(n_components, n_features)"
            )
            start = split_channels(start) if self.split_channels else start
        with checks.called(signals="X", positive_atoms="positive_dict", **ESTIMATOR_NAMES):
            return new_learner(samples, n_atoms, settings=settings, start=start, rng=seed)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "learner_" and "_n_features_learned" not in vars(self):
            raise AttributeError(
                "learner_ is the result of fit and cannot be set: to start from a loaded learner pass "
                "dict_init=learner.network, to go on with it call continue_learning(learner, X)"
            )
        super().__setattr__(name, value)

    def _keep(self, learner: TwoPhaseLearner, array: np.ndarray) -> None:
        """Set the fitted attributes from the learner after a fit to `array`, which may have ended early."""
        self.n_iter_ = math.ceil(learner.n_samples / array.shape[0])
        self._n_features_learned, self._dtype = array.shape[1], array.dtype
        self.learner_: TwoPhaseLearner = learner  # set last, because `fit` looks for a new learner

    # -- the problem of coding -------------------------------------------------------------------

    def _input(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self, "learner_")
        return super()._input(X)

    def _check_coding(self, n_atoms: int) -> None:
        """Raise the TypeError or ValueError that coding with this number of atoms would raise."""
        checks.flag("positive_code", self.positive_code)
        checks.positive_number("tol", self.tol)
        checks.worker_count("n_jobs", self.n_jobs)
        name = self._coding_penalty
        penalty_of(getattr(self, name), np.ones(n_atoms), name=name)

    @property
    def _coding_penalty(self) -> str:  # type: ignore[override]
        return "alpha" if self.transform_alpha is None else "transform_alpha"

    def _problem(self, array: np.ndarray) -> LassoProblem:
        """Return the problem of coding signals in the learned dictionary."""
        if checks.flag("positive_code", self.positive_code):
            signals, mask = self._channels(array, is_split=self._is_split)
            dictionary = self.learner_.dictionary
        else:
            (signals, mask), dictionary = self._known(array), self._components
        penalty, positive = self._coding_penalty, self.positive_code
        return coding_problem(self, dictionary, signals, mask, penalty=penalty, positive=positive)
