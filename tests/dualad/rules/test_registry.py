"""The registry is complete: every function that NumPy lets us see is in exactly one kind, and most are differentiable."""

import subprocess
import sys

import numpy as np
import pytest

from dualad import jvp
from dualad.rules import ROWS, names
from dualad.rules.kinds import Composite, Constant, Differentiable, Refused
from dualad.rules.names import ABSENT
from dualad.rules.shapes import by_numpy
from dualad.verbs.coverage import functions, namespace, treatment

#: functions in the table that not every version of NumPy since 2.0 has
ADDED = {
    "2.1.0": "numpy.cumulative_prod numpy.cumulative_sum numpy.unstack numpy._core.umath._center numpy._core.umath._ljust "
    "numpy._core.umath._rjust numpy._core.umath._zfill numpy._core.umath._partition numpy._core.umath._partition_index "
    "numpy._core.umath._rpartition numpy._core.umath._rpartition_index",
    "2.2.0": "numpy.matvec numpy.vecmat",
    "2.3.0": "numpy._core.umath._slice",
}
REMOVED = {"2.4.0": "numpy.in1d numpy.trapz"}

#: beside the methods of arrays, what the rooms need as they are imported, and NumPy without it would not be NumPy
NEEDED = {"numpy.linalg.svd"} | {
    f"numpy.{name}" for name in ("arange", "array", "asarray", "concatenate", "ones", "stack", "zeros", "zeros_like")
}

FUNCTIONS = functions()
NUMPY = {name: fn for name, fn in FUNCTIONS.items() if namespace(fn) != "scipy.special"}


def count(space, *treatments):
    return sum(namespace(fn) == space and treatment(fn) in treatments for fn in NUMPY.values())


def test_every_function_has_exactly_one_row():
    for name, fn in NUMPY.items():
        treatment(fn)  # enters the rows of packages imported late
        assert sum(isinstance(ROWS.get(fn), kind) for kind in (Differentiable, Composite, Constant, Refused)) == 1, name


def test_names_are_in_one_kind():
    rows = {}
    for row in ROWS.values():
        rows.setdefault(row.name, set()).add(type(row))
    assert not {name: kinds for name, kinds in rows.items() if len(kinds) > 1 and name in NUMPY}


def test_floors():
    assert count("numpy ufuncs", "ruled", "constant", "refused") >= 85 and count("numpy ufuncs", "ruled") >= 55
    assert sum(count(space, "ruled") for space in ("numpy", "numpy.linalg", "numpy.fft", "numpy.lib")) >= 215
    assert count("numpy.linalg", "ruled") >= 29 and count("numpy.fft", "ruled") >= 15


def test_special_floor():
    pytest.importorskip("scipy.special")
    assert sum(treatment(fn) == "ruled" for fn in FUNCTIONS.values() if namespace(fn) == "scipy.special") >= 120


def test_every_row_has_its_function():
    """Lines of the table without a function, in this version of NumPy: those it does not have yet, or no longer."""
    version = np.lib.NumpyVersion(np.__version__)
    absent = {name for since, names in ADDED.items() if version < since for name in names.split()}
    absent |= {name for since, names in REMOVED.items() if version >= since for name in names.split()}
    assert absent == ABSENT


WITHOUT = """
import sys
import numpy as np, numpy.fft, numpy.lib.scimath
for name in sys.argv[1:]:
    module, _, name = name.rpartition(".")
    delattr(sys.modules[module], name)
import dualad, checkpoint
from dualad.rules.names import ABSENT
print(len(ABSENT), dualad.derivative(lambda x: x * np.sin(x))(0.0), checkpoint.grad(np.sum)(np.ones(2)).tolist())
"""


def test_functions_that_vanish_do_not_break_the_import():
    """Every array function with a line in the table is taken away at once, but for the very core."""
    names = [row.name for fn, row in ROWS.items() if row.name.startswith("numpy.") and not isinstance(fn, np.ufunc)]
    modules = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft, "numpy.lib.scimath": np.lib.scimath}
    there = [name for name in names if hasattr(modules.get(name.rpartition(".")[0]), name.rpartition(".")[2])]
    gone = [name for name in there if name not in NEEDED and not hasattr(np.ndarray, name.rpartition(".")[2])]
    assert len(gone) > 200
    run = subprocess.run([sys.executable, "-c", WITHOUT, *gone], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split()[1:] == ["0.0", "[1.0,", "1.0]"] and int(run.stdout.split()[0]) >= len(gone)


def test_a_function_that_is_not_there_says_so():
    with pytest.raises(AttributeError, match=rf"^numpy\.linalg {np.__version__} has no eigenfaces"):
        names.np.linalg.eigenfaces(np.ones(3))


def test_a_function_whose_python_code_numpy_drops_says_so():
    with pytest.raises(
        NotImplementedError, match=rf"^numpy\.dot has no derivative with NumPy {np.__version__}, which has no Python code of it"
    ):
        by_numpy(np.dot)(np.ones(2), np.ones(2))


def test_a_function_that_numpy_adds_is_an_error_that_names_it():
    def brand_new(x):
        return x

    overrides = np._core.overrides
    added = overrides.array_function_dispatch(lambda x: (x,), module="numpy")(brand_new)
    try:
        with pytest.raises(TypeError, match=r"^numpy\.brand_new has no derivative rule in dualad\. Write it with functions that"):
            jvp(added, (np.ones(3),), (np.ones(3),))
        assert functions()["numpy.brand_new"] is added and treatment(added) == "unknown", "so one test above would fail"
    finally:
        overrides.ARRAY_FUNCTIONS.discard(added)


def test_refusals_have_reasons():
    for row in ROWS.values():
        if isinstance(row, Refused):
            assert len(row.refusal.partition(": ")[2]) > 15, row.name


def test_structured_arrays_are_refused():
    from numpy.lib import recfunctions

    with pytest.raises(TypeError, match=r"structured_to_unstructured has no derivative: it is defined on structured arrays"):
        jvp(recfunctions.structured_to_unstructured, (np.ones(3),), (np.ones(3),))
