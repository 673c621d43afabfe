"""Settings for every test: property tests are reproducible, and figures never open a window."""

import matplotlib
from hypothesis import settings

matplotlib.use("Agg")
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")
