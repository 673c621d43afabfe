"""Number of examples for a property: few for every change, many more in the long tier."""

import os

from hypothesis import settings

# Factor of the number of examples: `make thorough` sets four; a long search for new faults sets a thousand.
MORE = int(os.environ.get("SPARSESPIKE_EXAMPLES", "1"))


def examples(count: int) -> settings:
    """Return the settings of a property with `count` examples times the factor of the tier."""
    return settings(max_examples=count * MORE)
