"""Several solvers, penalties or signals in turn: compare, path, reweighted, stream."""
