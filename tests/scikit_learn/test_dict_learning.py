"""scikit-learn's own tests of dictionary learning, as installed, on our classes.

`conftest.py` marks the cases that do not apply; see `not_applicable.py`.
"""

import pytest

from tests.scikit_learn.installed import installed_tests

pytestmark = [
    pytest.mark.thorough,
    # On ten signals many atoms stay silent, and scikit-learn's tests do not ask for more.
    pytest.mark.filterwarnings("default"),
]

globals().update(
    installed_tests(
        "sklearn.decomposition.tests.test_dict_learning",
        replaced=("sklearn.decomposition", "sklearn.decomposition._dict_learning"),
        by="tests.scikit_learn.adapters",
    )
)
