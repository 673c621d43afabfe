"""Tasks of dictionary learning, and SPAMS and scikit-learn as learners: the same start, samples and order."""

import re
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib import cbook

from dictlearn import extract_patches, join_channels, normalise, remove_mean
from examples._baselines import learn_with_scikit_learn
from examples._common import photograph
from examples.learn import task as data_of_paper
from tests.benchmarks.unseen_combinations import generate

__all__ = ["PENALTY", "TASKS", "Task", "by_peer", "photograph", "task"]
PENALTY = 0.1
TASKS = (
    "split patches, 256 x 128",
    "signed patches, 256 x 64",
    "signed numbers, 64 x 64",
    "signed numbers, 64 x 64, signed codes",
    "signed numbers, 64 x 64, offset of 4 deviations",
    "signed numbers, 64 x 64, offset of 20 deviations",
    "planted, 100 x 47",
    "windows of an ECG, 128 x 64",
    "windows of an EEG, 128 x 64",
)


class Task(NamedTuple):
    """Signals for learning and signals for evaluation."""

    signals: np.ndarray
    held_out: np.ndarray
    n_atoms: int
    positive_atoms: bool = False
    positive_code: bool = True


def task(name: str, n_samples: int) -> Task:
    """Return the data of one of `TASKS`."""
    if name == "planted, 100 x 47":
        data = generate(100, 0)
        return Task(data.seen.signals, data.unseen.signals, 100)
    if name.startswith("signed numbers"):
        rng = np.random.default_rng(0)
        atoms = rng.standard_normal((64, 64))
        codes = rng.standard_normal((n_samples + 500, 64)) * (rng.random((n_samples + 500, 64)) < 0.06)
        signals = codes @ atoms / np.sqrt(64.0)
        signals += float((re.findall(r"(\d+) deviations", name) or [0])[0]) * signals.std()
        positive_code = "signed codes" not in name
        return Task(signals[:n_samples], signals[n_samples:], 64, positive_code=positive_code)
    if name.startswith("windows"):
        import pywt

        if "ECG" in name:
            seen, others = np.split(pywt.data.ecg()[np.newaxis], [683], axis=1)  # the last of three beats
        else:
            with cbook.get_sample_data("eeg.dat") as file:
                channels = np.frombuffer(file.read(), dtype=float).reshape(800, 4).T
            seen, others = np.split(channels, [600], axis=1)
        windows = (np.vstack([extract_patches(channel, 64) for channel in part]) for part in (seen, others))
        return Task(*(normalise(remove_mean(part)[0])[0] for part in windows), 128)
    patches = data_of_paper("photographs", n_signals=n_samples, n_held_out=500)
    if name == "split patches, 256 x 128":
        return Task(patches.signals, patches.held_out, 256, positive_atoms=True)
    return Task(join_channels(patches.signals), join_channels(patches.held_out), 256)


def by_peer(
    name: str, data: Task, start: np.ndarray, n_samples: int, batch_size: int, seed: int = 0
) -> np.ndarray:
    """Return what "SPAMS" or "scikit-learn" learns from the samples that the network learns from."""
    learn = learn_with_scikit_learn
    if name == "SPAMS":
        from tests.reference.spams_dictionary import learn_with_spams

        learn = partial(learn_with_spams, positive_code=data.positive_code)
    return learn(
        data.signals,
        start=start,
        penalty=PENALTY,
        n_samples=n_samples,
        batch_size=batch_size,
        rng=seed,
        positive_atoms=data.positive_atoms,
    ).dictionary
