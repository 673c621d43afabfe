"""The number of examples for a property: few at every change, many more in the long tier."""

import os

from hypothesis import settings

# Factor of the number of examples: four in `make thorough`, a thousand in a long search for new faults.
MORE = int(os.environ.get("SPARSESPIKE_EXAMPLES", "1"))


def examples(count: int) -> settings:
    """Return the settings of a property that has `count` examples times the factor of the tier."""
    return settings(max_examples=count * MORE)
