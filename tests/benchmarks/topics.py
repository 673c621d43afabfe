"""Topics of sparse documents: ``python -m tests.benchmarks.topics``, each learner in a process of its own.

20,000 documents of 80 words of 5,000, mixed of 50 topics, with unit norms; one pass in batches of 32, atoms
and codes not negative.  scikit-learn's learner takes dense signals only.
"""

import resource
import subprocess
import sys
import time

import numpy as np
from scipy import sparse
from sklearn.decomposition import MiniBatchDictionaryLearning

from dictlearn import SpikingDictionaryLearning, match_atoms, mean_objective

N_DOCUMENTS, N_WORDS, N_TOPICS = 20_000, 5_000, 50
ALPHA = 0.1
LEARNERS = ("SpikingDictionaryLearning", "MiniBatchDictionaryLearning")


def documents() -> tuple[sparse.csr_array, np.ndarray]:
    """Return documents, one a row, and topics."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(N_WORDS, 0.02), size=N_TOPICS)
    mixtures = rng.dirichlet(np.full(N_TOPICS, 0.05), size=N_DOCUMENTS)
    counts = sparse.vstack([sparse.csr_array(rng.multinomial(80, mixture @ topics)) for mixture in mixtures])
    norms = np.sqrt(counts.multiply(counts).sum(axis=1))
    return sparse.csr_array(sparse.diags_array(1.0 / norms) @ counts), topics


def measure(learner: str) -> str:
    """Return a table row with the measurements of a learner."""
    signals, topics = documents()
    common = {"alpha": ALPHA, "max_iter": 1, "positive_code": True, "positive_dict": True, "random_state": 0}
    if learner == LEARNERS[0]:
        estimator = SpikingDictionaryLearning(N_TOPICS, **common)
        estimator.partial_fit(signals[:64])  # compiles the kernels
    else:
        estimator = MiniBatchDictionaryLearning(N_TOPICS, batch_size=32, fit_algorithm="cd", **common)
        signals = signals.toarray()
    begin = time.perf_counter()
    atoms = np.asarray(estimator.fit(signals).components_)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    n_found = np.count_nonzero(match_atoms(atoms, topics).best_cosine >= 0.9)
    some = signals[:500] if learner == LEARNERS[1] else signals[:500].toarray()
    objective = mean_objective(atoms, some, penalty=ALPHA).objective
    return f"{learner:28} {seconds:5.0f} s  {peak:.1f} GB  {n_found} of {N_TOPICS} topics  {objective:.4f}"


def main() -> int:
    """Print a row for each learner."""
    if sys.argv[1:]:
        print(measure(sys.argv[1]))
        return 0
    for learner in LEARNERS:
        subprocess.run([sys.executable, "-m", "tests.benchmarks.topics", learner], check=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
