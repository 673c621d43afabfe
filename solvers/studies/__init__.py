"""Several solvers, penalties or signals in turn: compare, design_space, path, reweighted, stream."""
