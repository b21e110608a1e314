"""Every example in a docstring runs.

Modules are imported as users import them: pytest's own doctest collection would put the module `checkpoint.chain` in the place of
the function `checkpoint.chain`.
"""

import doctest
import importlib
import pkgutil

import pytest

import checkpoint
import dualad

MODULES = [
    info.name
    for package in (dualad, checkpoint)
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if not info.name.endswith("__main__")
]


@pytest.mark.parametrize("name", ["dualad", "checkpoint", *MODULES])
def test_examples_run(name):
    module = importlib.import_module(name)
    results = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0
