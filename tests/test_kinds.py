"""What a value is to our own code: its type, never its `__class__`, since a traced value says there what its value is."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for package in ("dualad", "checkpoint") for path in (ROOT / package).rglob("*.py"))

#: classes that `isinstance` answers for traced values as for their values
OF_NUMBERS = {
    "ndarray", "float", "complex", "int", "generic", "number", "inexact", "integer", "floating", "complexfloating", "float64", "bool_",
    "bool", "Number", "NUMBERS", "PLAIN", "LEAF_TYPES",
}  # fmt: skip
OF_OURS = {"to_llvm.py"}  # has a class Number of its own, of machine code


def asks_by_class(call):
    """Return whether a call is ``isinstance`` or ``np.isscalar`` for numbers or arrays."""
    if not isinstance(call, ast.Call):
        return False
    name = getattr(call.func, "id", getattr(call.func, "attr", None))
    if name != "isinstance":
        return name == "isscalar"
    return any(getattr(node, "id", getattr(node, "attr", None)) in OF_NUMBERS for node in ast.walk(call.args[1]))


@pytest.mark.slow
def test_kinds_of_numbers_are_asked_of_the_type():
    for path in FILES:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        found = [f"{path}:{node.lineno}: {ast.unparse(node)}" for node in nodes if asks_by_class(node)]
        found += [f"{path}:{node.lineno}: .__class__" for node in nodes if isinstance(node, ast.Attribute) and node.attr == "__class__"]
        # assignments to a module, and to an entry of a chain; what adapted code is answered
        allowed = {"lazy_imports.py": 1, "compiled.py": 1, "doors.py": 1}.get(path.name, 0)
        assert len(found) <= allowed or path.name in OF_OURS, found
