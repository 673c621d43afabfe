"""Several solvers, penalties or signals in turn: compare, path, stream, sweep."""
