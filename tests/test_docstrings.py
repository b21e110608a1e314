"""Every example in a docstring runs, and what is public has its sections.

Modules are imported as users import them: pytest's own doctest collection would put the module `checkpoint.chain` in the place of
the function `checkpoint.chain`.
"""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re

import pytest
from loaded import public_functions, statements

import checkpoint
import dualad
import dualad.testing.derivatives

MODULES = [
    info.name
    for package in (dualad, checkpoint)
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if not info.name.endswith("__main__")
]


@pytest.mark.slow
@pytest.mark.parametrize(("package", "least"), [("dualad", 140), ("checkpoint", 120)])
def test_examples_run(package, least):
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for name in [package, *(name for name in MODULES if name.startswith(f"{package}."))]:
        for test in doctest.DocTestFinder().find(importlib.import_module(name), name):
            if test.examples:  # of others, too, it would look up each file that a traceback has ever shown
                runner.run(test)
    assert runner.failures == 0 and runner.tries > least


NEVER_RAISE = {"primal", "stop_gradient", "keep_heap"}
FUNCTIONS = public_functions()
CLASSES = {name: getattr(checkpoint, name) for name in checkpoint.__all__ if inspect.isclass(getattr(checkpoint, name))} | {
    "Dual": dualad.Dual
}


def test_public_functions_have_parameters_returns_raises_examples():
    for name, function in FUNCTIONS.items():
        sections = re.findall(r"^([A-Z][a-z]+)\n-{3,}$", inspect.getdoc(function), re.MULTILINE)
        parameters = inspect.signature(function).parameters
        wanted = {"Examples"}
        wanted |= {"Parameters"} if parameters else set()
        wanted |= {"Raises"} if function.__name__ not in NEVER_RAISE else set()
        if "Yields" not in sections and inspect.signature(function).return_annotation not in ("None", None):
            wanted |= {"Returns"}
        assert not wanted - set(sections), name
        assert len(sections) == len(set(sections)), name


def test_every_parameter_is_described():
    for name, function in FUNCTIONS.items():
        text = inspect.getdoc(function).partition("\nParameters\n")[2]
        text = re.split(r"\n\n[A-Z][a-z]+\n-{3,}\n", text)[0]
        said = {word.strip("* ") for line in text.splitlines() if not line.startswith(" ") for word in line.partition(" : ")[0].split(",")}
        assert not set(inspect.signature(function).parameters) - said, name


def test_public_classes_say_what_they_are_made_of_or_show_it():
    for name, cls in CLASSES.items():
        text = inspect.getdoc(cls)
        assert re.search(r"^(Parameters|Attributes|Examples)\n-{3,}$", text, re.MULTILINE) or inspect.isabstract(cls), name


def test_what_is_not_public_is_described_in_three_lines():
    long = []
    for name in MODULES:
        source = inspect.getsource(importlib.import_module(name))
        for node in statements(source):
            text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None
            if text and not re.search("^---|^>>> ", text, re.MULTILINE) and len(re.findall(r"^.", text, re.MULTILINE)) > 3:
                long.append((name, node.name))
    assert not long
