"""Examples, each run as ``python -m examples.NAME``."""
