"""What users' type checkers see: a typed program without an error, and results that are no Any."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_overloads

import numpy as np
import pytest
import typed_program
from in_groups import for_each
from loaded import ROOT, public_functions

import checkpoint
import dualad
import dualad.testing.derivatives

pytestmark = pytest.mark.slow

PROGRAM = ROOT / "tests" / "typed_program.py"
#: as for an installed package: nothing is said about it; packages that it may use are not read
MYPY = """\
[mypy]
strict = True
[mypy-dualad.*,checkpoint.*]
ignore_errors = True
check_untyped_defs = False
[mypy-jax.*,matplotlib.*,numba.*,scipy.*,torch.*,tqdm.*]
follow_imports = skip
"""


@for_each("function", public_functions().values(), lambda function: function.__qualname__, size=100)
def test_every_public_function_is_annotated(function):
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    assert not [p.name for p in signature.parameters.values() if p.annotation is inspect.Parameter.empty]


OVERLOADED = {
    dualad: "jvp derivative value_and_derivative gradient value_and_gradient jacobian value_and_jacobian hessian jacobian_columns",
    checkpoint: "grad value_and_grad jacobian chain",
}


@pytest.mark.parametrize("function", [getattr(package, name) for package, names in OVERLOADED.items() for name in names.split()])
def test_overloads_have_the_parameters_of_the_function(function):
    taken = set(inspect.signature(function).parameters)
    for overload in get_overloads(function):
        given = set()
        for name, parameter in inspect.signature(overload).parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                options = re.fullmatch(r"Unpack\[(\w+)\]", parameter.annotation)[1]
                given |= getattr(inspect.getmodule(function), options).__optional_keys__
            else:
                given.add(name)
        assert given == taken


@pytest.mark.parametrize("name", ["hessian", "jacobian_rows", "jacobian_columns"])
def test_verbs_with_the_types_of_others_have_their_parameters(name):
    verb, other = getattr(checkpoint, name), getattr(dualad, name.replace("rows", "columns"))
    assert list(inspect.signature(verb).parameters.values()) == list(inspect.signature(other).parameters.values())
    assert get_overloads(other) and not get_overloads(verb)


def test_packages_say_that_they_are_typed():
    for package in (dualad, checkpoint):
        assert (Path(package.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("part", ["forward", "reverse", "chains", "tools"])
def test_the_typed_program_runs(part):
    getattr(typed_program, part)(np.array([0.5, 1.0, 2.0]))


@pytest.mark.long  # both packages and NumPy's stubs are read anew
def test_mypy_strict(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    settings = tmp_path / "mypy.ini"
    settings.write_text(MYPY)
    command = [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", tmp_path / "cache", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(ROOT)})
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright():
    pyright = shutil.which("basedpyright") or shutil.which("pyright")
    if pyright is None:
        pytest.skip("neither pyright nor basedpyright is installed")
    done = subprocess.run([pyright, "--level", "error", "--pythonpath", sys.executable, PROGRAM], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
