"""An llvmlite that is broken or played by another module: what is compiled is run by NumPy, and at most one warning says why."""

import os

import pytest
from other_processes import ROOT, output_of

pytestmark = pytest.mark.slow

PROGRAM = """
import warnings
BEFORE
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import numpy as np
    import checkpoint, dualad
    x = np.array([0.5, 2.0])
    step = dualad.jit(lambda k, s: 0.5 * s + 0.1 * s**2)
    slope, s = 1.0, x
    for k in range(5):
        slope, s = slope * (0.5 + 0.2 * s), 0.5 * s + 0.1 * s**2
    assert np.array_equal(dualad.jit(lambda x: x * 2.0)(x), x * 2.0)
    gradient = checkpoint.grad(lambda x: np.sum(checkpoint.chain(step, x, steps=5)))
    np.testing.assert_allclose(gradient(x), slope, rtol=1e-14)
    np.testing.assert_allclose(dualad.jit(gradient)(x), slope, rtol=1e-14)
for warning in caught:
    print(warning.category.__name__, warning.message)
try:
    dualad.jit(lambda x: x, backend="llvm")
except ValueError as error:
    print(error)
"""


def told(before="", **environment):
    return output_of(PROGRAM.replace("BEFORE", before), **environment).splitlines()


@pytest.mark.parametrize("error", ["OSError('libLLVM.so: cannot open')", "ImportError('another NumPy')", "SystemError('a bad version')"])
def test_an_llvmlite_that_raises_while_it_is_imported(tmp_path, error):
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "__init__.py").write_text(f"raise {error}")
    (line,) = told(PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert line.startswith("UserWarning jit: llvm cannot be imported, NumPy runs what is compiled: ") and error in line


def test_a_module_that_stands_for_llvmlite():
    (line,) = told("import sys, types; sys.modules['llvmlite'] = types.ModuleType('llvmlite')")
    assert line.endswith("(llvmlite is not installed: pip install 'dualad[jit]')")
