"""Kernels learned from all of some images, pass after pass."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from dictlearn.atoms import scaled_by_power_of_two
from dictlearn.images.crops import Batch, batches_of_crops
from dictlearn.images.kernel_learner import KernelLearner
from dictlearn.resumable import Course, digest, learn_batches

# Patches that a random start chooses from, for each kernel.
CANDIDATES = 20
# Between two kernels of a random start.
LARGEST_COSINE = 0.999
NOTHING_BESIDE = Course()


def random_kernels(
    details: list[np.ndarray], n_kernels: int, kernel_size: tuple[int, int], rng: np.random.Generator
) -> np.ndarray:
    """Return patches of images, chosen with probabilities in proportion to their energies, of norm one.

    None is another's multiple.  If there are not enough such patches, the rest is noise.

    Shapes: details (height, width).
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
    rows, _ = scaled_by_power_of_two(rows, axis=None)
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


def passes_of_crops(
    learner: KernelLearner,
    details: list[np.ndarray],
    *,
    n_passes: int,
    crop_size: tuple[int, int],
    batch_size: int,
    seed: int,
) -> list[Batch]:
    """Return the batches of passes through images, one pass after the other."""
    arguments = (details, crop_size, learner.kernel_size, learner.settings.stride)
    return [
        batch
        for number in range(n_passes)
        for batch in batches_of_crops(*arguments, batch_size=batch_size, seed=seed, number=number)
    ]


def learn_kernels(
    learner: KernelLearner,
    details: list[np.ndarray],
    *,
    n_passes: int,
    crop_size: tuple[int, int],
    batch_size: int,
    seed: int,
    n_jobs: int | None = None,
    course: Course = NOTHING_BESIDE,
) -> None:
    """Let a learner learn from passes through images, cut into crops (`batches_of_crops`).

    Whatever ends it early, Ctrl-C or an error of the callback: the learner is as after the last whole batch.
    Called again with the same arguments, it continues there, and ends with the same bits as if it had never
    stopped.

    Shapes: details (height, width).
    """
    passes = passes_of_crops(
        learner, details, n_passes=n_passes, crop_size=crop_size, batch_size=batch_size, seed=seed
    )

    def learn(batch: Batch) -> float:
        learner.learn(batch.of(details), n_jobs=n_jobs)
        history = learner.history
        return history["objective"][-1] / max(history["energy"][-1], np.finfo(float).tiny)

    def identity() -> dict[str, Any]:
        return {
            "images": digest(details),
            "sizes of images": [detail.shape for detail in details],
            "settings": asdict(learner.settings),
            "kernels' shape": learner.kernels.shape,
            "crop_size": crop_size,
            "batch_size": batch_size,
            "seed": seed,
            "start": digest([learner.kernels]) if learner.n_batches == 0 else None,
        }

    learn_batches(
        learner,
        learn,
        lambda _: passes[learner.n_batches :],
        end=len(passes),
        seed=seed,
        course=course,
        identity=identity,
    )
