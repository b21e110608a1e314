"""Scripts of the project as modules, from their files: nothing of theirs has to be installed. The statements of a source."""

import ast
import importlib.util
from inspect import isfunction
from pathlib import Path

import pytest

import checkpoint
import dualad
import dualad.testing.derivatives

ROOT = Path(__file__).parents[1]


def load(script):
    """Return the module that a script is, as ``load("examples/bratu.py")``; it is not entered among the imported ones."""
    spec = importlib.util.spec_from_file_location(Path(script).stem, ROOT / script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def example(name, *packages):
    """Return an example as a module of its own; the test is skipped where a package that it is about is not installed."""
    for package in packages:
        pytest.importorskip(package)
    return load(f"examples/{name}.py")


def public_functions():
    """Return the public functions of both packages by their names."""
    packages = dualad, checkpoint, dualad.rules, dualad.testing, checkpoint.sweep
    named = {f"{package.__name__}.{name}": getattr(package, name) for package in packages for name in package.__all__}
    return {name: thing for name, thing in named.items() if isfunction(thing)}


def statements(source):
    """Yield all statements of a source, also those within others, without looking through their expressions."""
    left = [ast.parse(source)]
    while left:
        node = left.pop()
        yield node
        left += [part for name in ("body", "orelse", "finalbody", "handlers", "cases") for part in getattr(node, name, ())]
