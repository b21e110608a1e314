"""The registry is complete: every function that NumPy lets us see is in exactly one kind, and most are differentiable."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from dualad import coverage, jvp
from dualad.coverage import functions, namespace, table, treatment
from dualad.rules import ROWS
from dualad.rules.kinds import Composite, Constant, Differentiable, Refused

FUNCTIONS = functions()
NUMPY = {name: fn for name, fn in FUNCTIONS.items() if namespace(fn) != "scipy.special"}


def count(space, *treatments):
    return sum(namespace(fn) == space and treatment(fn) in treatments for fn in NUMPY.values())


@pytest.mark.parametrize("name", NUMPY)
def test_every_function_has_exactly_one_row(name):
    treatment(NUMPY[name])  # enters the rows of packages imported late
    assert sum(isinstance(ROWS.get(NUMPY[name]), kind) for kind in (Differentiable, Composite, Constant, Refused)) == 1


def test_names_are_in_one_kind():
    rows = {}
    for row in ROWS.values():
        rows.setdefault(row.name, set()).add(type(row))
    assert not {name: kinds for name, kinds in rows.items() if len(kinds) > 1 and name in NUMPY}


def test_floors():
    new = 2 * hasattr(np, "matvec")
    assert (
        count("numpy ufuncs", "ruled", "constant", "refused")
        == count("numpy ufuncs", "ruled", "constant", "refused", "unknown")
        == 88 + new
    )
    assert count("numpy ufuncs", "ruled") == 56 + new
    assert sum(count(space, "ruled") for space in ("numpy", "numpy.linalg", "numpy.fft", "numpy.lib")) >= 215
    assert count("numpy.linalg", "ruled", "constant", "refused") == 31 and count("numpy.linalg", "ruled") == 30
    assert count("numpy.fft", "ruled") == 16
    assert not [name for name, fn in NUMPY.items() if treatment(fn) == "unknown"]


def test_special_floor():
    pytest.importorskip("scipy.special")
    assert sum(treatment(fn) == "ruled" for fn in FUNCTIONS.values() if namespace(fn) == "scipy.special") >= 120


def test_refusals_have_reasons():
    for row in ROWS.values():
        if isinstance(row, Refused):
            assert len(row.reason) > 15, row.name


def test_structured_arrays_are_refused():
    from numpy.lib import recfunctions

    with pytest.raises(TypeError, match=r"structured_to_unstructured has no derivative: it is defined on structured arrays"):
        jvp(recfunctions.structured_to_unstructured, (np.ones(3),), (np.ones(3),))


def test_array_api_names():
    x = np.arange(6.0).reshape(2, 3) + 1.0
    for fn in (
        lambda x: np.permute_dims(x, (1, 0)),
        np.matrix_transpose,
        lambda x: np.concat([x, x]),
        lambda x: np.pow(x, 2.0),
        np.acosh,
        np.linalg.vector_norm,
        np.linalg.svdvals,
        *([lambda x: np.cumulative_sum(x, axis=1), lambda x: np.unstack(x)[0]] if hasattr(np, "unstack") else []),
    ):
        assert np.array_equal(jvp(fn, (x,), (x,))[0], fn(x))


def test_the_table_is_printed():
    printed = subprocess.run([sys.executable, "-m", "dualad", "coverage"], capture_output=True, text=True, check=True, timeout=120).stdout
    assert printed.strip() == table().strip()
    assert printed.splitlines()[0].split() == ["namespace", "ruled", "constant", "refused", "unknown", "total"]
    rows = {line[:25].strip(): [int(n) for n in line[25:].split()] for line in printed.splitlines()[1:]}
    assert all(sum(numbers[:-1]) == numbers[-1] for numbers in rows.values())
    assert rows["total"][-1] == len(FUNCTIONS)


def test_a_wrong_command_is_answered():
    wrong = subprocess.run([sys.executable, "-m", "dualad", "cover"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode != 0 and "usage: python -m dualad coverage" in wrong.stderr
    assert coverage.__all__
