"""What is traced has NumPy's value, dtype, shape and memory layout after every line, and the derivative of an outside oracle."""

import itertools

import numpy as np
import pytest
from in_groups import for_each
from programs import LAYOUTS, Program, differences, layout

from dualad.rules.memory import copied, empty_as

pytestmark = pytest.mark.slow

PROGRAMS, BLOCK = 210, 30

FIXED = [
    ("a small view of a large array", (20, 20), ["v1 = x[:, 0].ravel()", "v1 *= 3.0"]),
    ("every second of rows with gaps", (2, 3), ["v1 = x[:, ::2].reshape(-1)", "v1 *= 3.0", "v2 = x[::-1, ::-2].reshape(-1)", "v2 *= 2.0"]),
    ("a view of a reshaped one", (2, 3), ["v1 = np.reshape(x.T, (-1,), order='A')", "v1[...] += v1"]),
    (
        "an array of no axes, written twice",
        (4,),
        ["v1 = np.copy(np.mean(x))", "v2 = np.atleast_2d(v1)", "v2[np.array([[0], [0]])] += x[0]"],
    ),
    ("what is in gaps stays", (20, 20), ["v1 = x[:, 0].ravel()", "v1[:] = 0.0", "v2 = np.sum(x * x)"]),
    (
        "a block of a large array",
        (20, 20),
        ["v1 = x[::2, 3:5]", "v2 = v1.reshape(-1)", "v2[1:] = 0.5", "v3 = v1[::-1].ravel()", "v3 *= 2.0"],
    ),
    ("one element of flat", (2, 2), ["v1 = x * 1.0", "v1.flat[1] = 0", "v2 = v1 * v1"]),
    ("a slice of flat", (2, 3), ["v1 = x * c", "v1.flat[1::2] *= np.mean(x)", "v2 = v1.flat[::-1]", "v2[0] = 5.0"]),
    ("flat set", (2, 3), ["v1 = x * c", "v1.flat = x[0] * 2.0", "v2 = np.stack([e for e in v1.flat if e > 0])", "x.flat = c.T"]),
    ("a function of flat", (2, 3), ["v1 = np.sum(x.flat) * 1.0", "v2 = np.sin(x.flat)", "v3 = np.stack([x.flat, c.flat])"]),
    ("a mask of no axes", (3,), ["v1 = np.where(np.asarray(x[1] > 0), x[0] * 2, 0.0)", "v1[np.asarray(False)] = 0.0"]),
    ("a mask of no axes that holds", (3,), ["v1 = np.where(np.asarray(x[1] > 0), x[0] * 2, 0.0)", "v1[np.asarray(True)] = x[2]"]),
    ("an array of no axes, with one", (3,), ["v1 = x.ravel()[..., 1]", "v1[None] = x[:1] * 2.0", "v1 += x[0]"]),
    ("copies", (3, 4), ["v1 = x.T.copy()", "v2 = v1.ravel()", "v2 *= 2.0", "v3 = x.copy('F')", "v3.ravel('F')[3:] = 1.0"]),
    ("flattened", (3, 4), ["v1 = x.flatten('F')", "v2 = x.T.flatten('A')", "v3 = np.ravel(x.T, 'K')", "v3 *= 2.0"]),
    ("orders", (3, 4), ["v1 = (x * 1.0).reshape((6, 2), order='F')", "v1 *= 2.0", "v2 = x.T.reshape(-1, order='A')", "v2[:5] = 0.5"]),
    ("taken", (3, 4), ["v1 = np.take(x, [2, 0], axis=1)", "v1.ravel()[1] = 7.0", "v2 = np.take(x, 1, axis=0)", "v2 *= 3.0"]),
    ("sorted", (3, 4), ["v1 = np.sort(x.T, axis=0)", "v1.ravel()[1] = 7.0", "v2 = np.partition(x, (0, 1), axis=None)[:2]"]),
    ("chosen", (3, 4), ["v1 = np.where(x > 0.3, x, c)", "v1.ravel()[1] = 7.0", "v2 = np.select([x > 0.3], [x])", "v2.ravel()[2] = 0.5"]),
    (
        "a constant in order F",
        (3, 4),
        ["v1 = c * x", "v1.ravel()[1] = 7.0", "v2 = c * x.T.copy().T", "v2.ravel()[1] = 7.0", "v3 = c - c * v2"],
    ),
    ("broadcast", (4,), ["v1 = 0.5 * np.broadcast_to(x[:, None], (4, 3))", "v1.ravel()[1] = 2.0", "v1[0] = x[:3]"]),
    (
        "like",
        (3, 4),
        ["v1 = np.zeros_like(x, order='F')", "v1 += x", "v1.ravel('F')[:2] = 0.5", "v2 = np.full_like(x.T, 2.0, order='C') * x.T"],
    ),
    ("cast", (3, 4), ["v1 = x.astype(x.dtype, order='F')", "v1.ravel('F')[1] = 2.0", "v2 = np.ravel(v1 * 1.0, 'F')", "v2[0] = 3.0"]),
    ("changed in place", (3, 4), ["v1 = x.T * 1.0", "v1 += c.T.copy()", "v2 = v1.ravel()", "v2 *= 2.0"]),
    ("windows", (7,), ["v1 = np.lib.stride_tricks.sliding_window_view(x, 3)", "x[2] = 5.0", "v2 = np.ravel(v1)", "v2 *= 2.0"]),
    (
        "moved",
        (3, 4),
        ["v1 = np.delete(x.T, 1, axis=0)", "v1.ravel()[0] = 1.0", "v2 = np.insert(x, 1, x[0] * 2.0, axis=0)", "v2.ravel()[1] = 3.0"],
    ),
    ("padded", (3, 4), ["v1 = np.pad(x.T, 1, mode='edge')", "v1.ravel()[2] = 1.0", "v2 = np.pad(np.reshape(x.mean(), ()), 1)"]),
    ("overlaps", (30,), ["x[1:] += x[:-1]", "x[:-1] = x[1:]", "x[...] = x[::-1]", "v1 = x[::-1]", "x *= v1"]),
    ("products", (3, 4), ["v1 = np.dot(x, x.T)", "x *= 2.0", "v2 = np.dot(x, x.T)", "v3 = np.dot(x[None], np.stack([c.T, c.T]))"]),
    ("a product with itself", (20, 27), ["v1 = x.swapaxes(0, -1) * 1.0", "x -= 0.746", "v2 = np.dot(x, x.T) * 0.05"]),
    ("a product after a change in place", (11, 12), ["x *= 1.3", "x *= x", "v2 = np.dot(x, x.T) * 0.05"]),
    ("a view of no axes", (3, 4), ["v1 = np.copy(np.mean(x))", "v2 = v1[...]", "v1[...] += np.mean(v2)", "v3 = np.ravel(v2)"]),
    (
        "numbers",
        (3,),
        ["v1 = np.reshape(np.mean(x), ())", "v2 = x[0].copy()", "v3 = np.cumsum(x[1], axis=0)", "v4 = np.take(x[0], [0, 0])"],
    ),
]


@pytest.mark.parametrize("form", LAYOUTS)
@for_each("what, shape, lines", FIXED, lambda program: program[0])
def test_programs_that_were_wrong(what, shape, lines, form):
    if form == "zero strides" and any(line.startswith("x") for line in lines):
        return  # read-only
    program = Program(0, shape, form, lines)
    assert not (found := differences(program, np.random.default_rng(0), deep=True)), f"{program}\n{found}"


@pytest.mark.parametrize("block", range(0, PROGRAMS, BLOCK))
def test_random_programs(block):
    for seed in range(block, block + BLOCK):
        program = Program(seed)
        found = differences(program, np.random.default_rng(seed), deep=seed % 5 == 0)
        assert not found or found == ["no oracle"], f"{program}\n{found}"


def test_programs_that_numpy_refuses_are_refused():
    programs = [program for program in map(Program, range(PROGRAMS, 4 * PROGRAMS)) if program.raises]
    assert len(programs) > 5
    for program in programs:
        assert not (found := differences(program, np.random.default_rng(0))), f"{program}\n{found}"


def test_an_output_of_fewer_axes_is_refused():
    program = Program(0, (4,), "C", ["v1 = x.reshape((1, 4))", "np.multiply(v1, x, out=x)"])
    with pytest.raises(ValueError, match="non-broadcastable output"):
        program.run(program.argument())
    assert not (found := differences(program, np.random.default_rng(0))), found


@pytest.mark.parametrize("line", ["v2[::-1] = v2", "v2 *= 2.0", "v2[0] = 1.0", "i = np.s_[1:]; v2[i] = v2[i]"])
@pytest.mark.parametrize("made", ["x @ x", "x[:1] * 1.0"])
def test_what_was_broadcast_is_read_only(made, line):
    program = Program(0, (3,), "C", [f"v1 = {made}", "v2 = np.broadcast_to(v1, (2,))", line])
    with pytest.raises(ValueError, match="read-only"):
        program.run(program.argument())
    assert not (found := differences(program, np.random.default_rng(0))), found


def test_a_wrong_value_is_found(monkeypatch):
    monkeypatch.setattr("dualad.core.traced.np.ravel", lambda x, order="C": np.reshape(np.copy(x, "C"), -1))
    program = Program(0, (3, 4), "C", ["v1 = x.flatten('F')"])
    assert differences(program, np.random.default_rng(0))


@pytest.mark.parametrize("form", LAYOUTS)
def test_copies_keep_what_numpy_can_tell_of_a_layout(form):
    for shape in [(), (1,), (5,), (4, 1), (3, 4), (2, 3, 4), (0, 3)]:
        a = LAYOUTS[form](np.arange(float(np.prod(shape))).reshape(shape)) if shape else np.array(1.0)
        for index in [(...,), (slice(None, None, 2),), (..., slice(1, None)), (None, ..., slice(None, None, -1))]:
            b = a[index] if shape else a
            copy = copied(b)
            assert layout(copy) == layout(b) and copy.flags.aligned == b.flags.aligned and not np.shares_memory(copy, b)
            np.testing.assert_array_equal(copy, b)
            for steps in itertools.product((1, 2, 3, -1, -2), repeat=b.ndim):
                part = tuple(slice(None, None, step) for step in steps)
                assert np.shares_memory(copy[part].reshape(-1), copy) == np.shares_memory(b[part].reshape(-1), b)
            assert copy.base is None or copy.base.nbytes <= 2 ** (1 + b.ndim) * (b.nbytes + 8)
            many = empty_as(b, 3)
            assert many.shape == (3, *b.shape) and (form == "zero strides" or layout(many[0]) == layout(b))
