"""Number of examples for a property: a few for every change, many more in the long tier."""

import os

from hypothesis import settings

# `make thorough` sets four; a search for what nobody has seen yet, a thousand.
MORE = int(os.environ.get("SPARSESPIKE_EXAMPLES", "1"))


def examples(count: int) -> settings:
    """Return the settings of a property that is tried with `count` examples, times what the tier asks for."""
    return settings(max_examples=count * MORE)
