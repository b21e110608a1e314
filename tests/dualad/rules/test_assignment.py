"""Assignment is one row: written in place by every interpreter, it gives what the row gives; no other file transposes it."""

import ast
from pathlib import Path

import numpy as np
import pytest
from samples import SAMPLES

from checkpoint import vjp
from dualad import jvp
from dualad.forward.seeding import flatten_output
from dualad.rules.indexing import locate, updated

ROOT = Path(__file__).parents[3]
#: what computes an assignment's derivative, and what besides rules/ may use it: to write in the buffers that an interpreter owns
#: (overwritten, accumulated), to know whether an adjoint can be added into (last_write_mask), to print and optimise the operation,
#: and to lay the tangent of a part in its place in a join (scatter)
USERS = {
    "scatter": {"dualad/graph/to_numpy.py", "dualad/graph/passes.py", "checkpoint/reverse/tape.py"},
    "overwritten": {"dualad/forward/dual.py", "checkpoint/reverse/entries.py", "checkpoint/reverse/tape.py", "dualad/graph/to_numpy.py",
                    "dualad/sparse/calls.py", "dualad/sparse/values.py"},
    "overwritten_directions": {"dualad/forward/dual.py"},
    "accumulated": {"checkpoint/reverse/entries.py"},
    "last_write_mask": {"checkpoint/reverse/entries.py"},
    "last_of": set(),
    "updated_transpose": set(),
}  # fmt: skip


def imports_from_indexing(path):
    text = path.read_text()
    for node in ast.walk(ast.parse(text)) if "rules.indexing" in text else ():
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("rules.indexing"):
            yield from (alias.name for alias in node.names)


def test_no_other_file_has_the_derivative_of_an_assignment():
    found = {name: set() for name in USERS}
    for package in ("dualad", "checkpoint"):
        for path in (ROOT / package).rglob("*.py"):
            for name in set(imports_from_indexing(path)) & USERS.keys():
                found[name].add(path.relative_to(ROOT).as_posix())
    assert found == USERS


def in_place(x, v, index, ops=()):
    y = np.copy(x)
    locate(ops, y)[index] = v
    return y


CASES = [(sample, k) for k, sample in enumerate(SAMPLES[updated])]


@pytest.mark.parametrize("sample", [sample for sample, _ in CASES], ids=[str(k) for _, k in CASES])
def test_writing_in_place_gives_what_the_row_gives(sample):
    leaves = sample.leaves()
    random = np.random.default_rng(5)
    draw = lambda x: (random.standard_normal(np.shape(x)) + (1j * random.standard_normal(np.shape(x)) if np.iscomplexobj(x) else 0.0))[()]
    v = tuple(map(draw, leaves))
    row = lambda *xs: updated(*sample.fill(xs))
    written = lambda *xs: in_place(*sample.fill(xs))
    for one, other in zip(jvp(row, tuple(leaves), v), jvp(written, tuple(leaves), v), strict=True):
        np.testing.assert_array_equal(one, other)
    value, pull = vjp(row, *leaves)
    g = draw(value)
    for one, other in zip(flatten_output(pull(g), "test")[0], flatten_output(vjp(written, *leaves)[1](g), "test")[0], strict=True):
        np.testing.assert_array_equal(one, other)
