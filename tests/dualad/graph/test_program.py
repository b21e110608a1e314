import numpy as np
import pytest
from comparing import close
from interpreted import recorded
from program_examples import EXAMPLES

from dualad.graph.passes import optimised
from dualad.graph.program import Kind, Program, key_of, kind_of
from dualad.graph.to_numpy import compile_python

WAYS = {"run": lambda p: p.run, "optimised": lambda p: optimised(p).run, "source": lambda p: compile_python(p).call}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_compute_what_numpy_does(name, way):
    f, inputs = EXAMPLES[name]
    expected = f(*inputs)
    close(WAYS[way](recorded(f, *inputs))(*inputs), expected if isinstance(expected, tuple) else [expected], rtol=0.0)


def test_a_program_prints_its_operations_types_and_lines():
    p = Program()
    x, c = p.input(np.zeros((2, 3), np.float32)), p.input(2.0)
    p.outputs = [p.append(np.multiply, (x, c), {}, np.zeros((2, 3), np.float32), line=("/home/me/model.py", 12)), None]
    assert str(p).splitlines() == [
        "program(x0: float32[2,3], x1: weak float64)",
        f"  {'x2 = numpy.multiply(x0, x1)':<60}  # float32[2,3]   model.py:12",
        "  return x2, None",
    ]


def test_keys_tell_arguments_apart_bit_by_bit():
    zeros = [0.0, -0.0, 0, False, np.float64(0.0), np.float32(0.0), 0j, complex(0.0, -0.0)]
    different = [*zeros, None, ..., (0,), [0], slice(0), "0", {"a": 0}]
    assert len({key_of(argument) for argument in different}) == len(different)
    assert key_of(float("nan")) == key_of(float("nan"))
    assert key_of({"a": 1, "b": slice(2)}) == key_of({"b": slice(2), "a": 1})


def test_kinds():
    assert [kind_of(x).kind for x in (np.zeros(()), np.float64(1.0), 1.0, 2, True)] == ["array", "scalar", "python", "python", "python"]
    grid = np.zeros((2, 3), np.float32)
    assert kind_of(grid) == Kind((2, 3), np.dtype(np.float32), "array", "C") and kind_of(1) == Kind((), np.dtype(int), "python")
    assert [kind_of(x).layout for x in (grid.T, grid[:, ::2], grid[:1, ::3])] == ["F", "A", "C"]
    assert kind_of(grid[:, ::2], strides=True).layout == (12, 8) and kind_of(grid.T, strides=True).layout == "F"
    assert kind_of(Program().value(grid.T)) == kind_of(grid.T)
