"""Learning on a Dask cluster: batches run on its workers, the weights change where learning was called.

`learning` is what users call; `data` is where samples are, and in which order they come; `parts` is what a
worker does.  Tasks are sent by `solvers.workers.cluster`.
"""

from dictlearn.distributed.learning import continue_learning_on, learn_dictionary_on

__all__ = ["continue_learning_on", "learn_dictionary_on"]
