"""Kernels learned from all of some images: passes, progress, checkpoints."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dictlearn.archives import Entry, digest, read, require_path, require_same_task
from dictlearn.images.crops import batches_of_crops
from dictlearn.images.kernel_learner import KernelLearner

# Patches that a random start chooses from, for each kernel.
CANDIDATES = 20
# Between two kernels of a random start.
LARGEST_COSINE = 0.999


def random_kernels(
    details: list[np.ndarray], n_kernels: int, kernel_size: tuple[int, int], rng: np.random.Generator
) -> np.ndarray:
    """Return patches of images, chosen with probabilities in proportion to their energies, of norm one.

    None is another's multiple.  If there are not enough such patches, the rest is noise.

    Parameters
    ----------
    details : list of ndarray, shape (height, width) or (height, width, n_channels)
        Images without their background.
    n_kernels : int
        How many.
    kernel_size : (int, int)
        (height, width), in pixels.
    rng : Generator
        What chooses.

    Returns
    -------
    ndarray, shape (n_kernels, height, width[, n_channels])

    Raises
    ------
    ValueError
        If all patches are zero, or kernels of one pixel too many.
    """
    areas = np.array([detail.shape[0] * detail.shape[1] for detail in details], dtype=float)
    n_candidates = CANDIDATES * n_kernels
    height, width = kernel_size
    patches = np.empty((n_candidates, height, width, *details[0].shape[2:]))
    for k, n in enumerate(rng.choice(len(details), n_candidates, p=areas / areas.sum())):
        top = rng.integers(details[n].shape[0] - height + 1)
        left = rng.integers(details[n].shape[1] - width + 1)
        patches[k] = details[n][top : top + height, left : left + width]
    rows = patches.reshape(n_candidates, -1)
    # Divided first, by a power of two, because squares may leave the range of floats.
    rows = np.ldexp(rows, -int(np.frexp(np.abs(rows).max())[1]))
    energies = np.square(rows / (np.abs(rows).max() or 1.0)).sum(axis=1)
    n_usable = np.count_nonzero(energies)
    if n_usable == 0:
        raise ValueError("images must not be constant, beside their background: there is nothing to learn")
    order = rng.choice(n_candidates, n_usable, replace=False, p=energies / energies.sum())
    noise = rng.standard_normal((n_kernels, rows.shape[1]))
    candidates = np.concatenate([rows[order], noise])
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    kernels = np.zeros((n_kernels, rows.shape[1]))
    found = 0
    for candidate in candidates:
        if found < n_kernels and np.abs(kernels[:found] @ candidate).max(initial=0.0) < LARGEST_COSINE:
            kernels[found] = candidate
            found += 1
    if found < n_kernels:
        raise ValueError(
            f"kernels of {height} x {width} pixels and these channels differ in no more than {found} ways; "
            f"got {n_kernels} of them"
        )
    return kernels.reshape(n_kernels, *patches.shape[1:])


def learn_kernels(
    learner: KernelLearner,
    details: list[np.ndarray],
    *,
    n_passes: int,
    crop_size: tuple[int, int],
    batch_size: int,
    seed: int,
    n_jobs: int | None = None,
    progress: bool = False,
    callback: Callable[[KernelLearner], bool | None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 50,
    is_continued: bool = True,
) -> None:
    """Let a learner learn from passes through images, cut into crops (`batches_of_crops`).

    Whatever ends it early, Ctrl-C or an error of the callback: the learner is as after the last whole batch.
    Called again with the same arguments, it continues there, and ends with the same bits as if it had never
    stopped.

    Parameters
    ----------
    learner : KernelLearner
        What learns, in place.
    details : list of ndarray, shape (height, width) or (height, width, n_channels)
        Images without their background.
    n_passes : int
        When to end, passes before included.
    crop_size : (int, int)
        (rows, columns) of crops, in pixels.
    batch_size : int
        Crops in a batch.
    seed : int
        Of the crops and their order.
    n_jobs : int, optional
        Workers that code the crops of a batch.
    progress : bool, default False
        Show a bar, with the objective of the last batch as a share of its energy.
    callback : callable, optional
        Called with the learner after each batch; learning stops if it returns True.
    checkpoint : path-like, optional
        Where the learner is saved, and where it continues from if the file exists.
    checkpoint_every : int, default 50
        In batches; it is saved at the end too.
    is_continued : bool, default True
        Whether batches that the learner learned from before count as the first ones of these passes.

    Raises
    ------
    TypeError, ValueError
        If the checkpoint is of something else, or cannot be written, or there were more batches before than
        these passes have.
    """
    arguments = (details, crop_size, learner.kernel_size, learner.settings.stride)
    passes = [
        batch
        for number in range(n_passes)
        for batch in batches_of_crops(*arguments, batch_size=batch_size, seed=seed, number=number)
    ]
    identity = ""
    if checkpoint is not None:
        require_path(checkpoint)
        identity = _identity(learner, details, crop_size, batch_size, seed)
        if Path(checkpoint).exists():
            saved, identity = _resumed(checkpoint, identity)
            _require_no_more(f"checkpoint {os.fspath(checkpoint)!r}", saved, len(passes))
            learner.copy_from(saved)
    if is_continued:
        _require_no_more("learner", learner, len(passes))
    if checkpoint is not None:
        # A path that cannot be written is said now, and not after the first batches.
        learner.save(checkpoint, identity=identity)
    first = learner.n_batches if is_continued else 0
    with tqdm(total=len(passes), initial=first, disable=not progress, unit="batch") as bar:
        for done, batch in enumerate(passes[first:], start=first + 1):
            learner.learn(batch.of(details), n_jobs=n_jobs)
            bar.update()
            history = learner.history
            share = history["objective"][-1] / max(history["energy"][-1], np.finfo(float).tiny)
            bar.set_postfix_str(f"objective {share:.3f}", refresh=False)
            stopped = callback is not None and bool(callback(learner))
            is_last = stopped or done == len(passes)
            if checkpoint is not None and (is_last or done % checkpoint_every == 0):
                learner.save(checkpoint, identity=identity)
            if stopped:
                return


def _identity(
    learner: KernelLearner,
    details: list[np.ndarray],
    crop_size: tuple[int, int],
    batch_size: int,
    seed: int,
) -> str:
    """Return what a checkpoint must agree with, as JSON; None where any value is accepted."""
    return json.dumps(
        {
            "images": digest(details),
            "sizes of images": [detail.shape for detail in details],
            "settings": asdict(learner.settings),
            "kernels' shape": learner.kernels.shape,
            "crop_size": crop_size,
            "batch_size": batch_size,
            "seed": seed,
            "start": digest([learner.kernels]) if learner.n_batches == 0 else None,
        }
    )


def _resumed(checkpoint: str | os.PathLike[str], identity: str) -> tuple[KernelLearner, str]:
    """Return the learner of a checkpoint and its identity, if it is one of the same task."""
    kind = "checkpoint of kernels"
    before = str(read(checkpoint, {"identity": Entry("U", ())}, kind=kind)["identity"])
    require_same_task(checkpoint, before, identity, kind=kind)
    return KernelLearner.load(checkpoint), before


def _require_no_more(name: str, learner: KernelLearner, n_batches: int) -> None:
    """Raise ValueError if a learner is beyond the end of the passes."""
    if learner.n_batches > n_batches:
        raise ValueError(
            f"{name} has learned from {learner.n_batches} batches already; the passes asked for have "
            f"{n_batches}: ask for more passes, or start anew"
        )
