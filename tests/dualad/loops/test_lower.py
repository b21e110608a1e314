"""The lowering: every row has an entry, and loops read and write where NumPy does."""

import numpy as np
import pytest
from comparing import close
from in_groups import for_each
from interpreted import interpreted, traced
from program_examples import EXAMPLES

import checkpoint
from dualad import jit, sparsity
from dualad.graph.program import Program, map_values
from dualad.jit.arguments import Call
from dualad.jit.compiled import BACKENDS
from dualad.loops.forms import LOWERINGS, AffineIndex, Buffer, Map, runs_of
from dualad.loops.fuse import Part, plan
from dualad.loops.inline import compose, guard, preimage, start, widened
from dualad.loops.lower import lower, lowering_of, rule_of
from dualad.loops.maps import scalar_of
from dualad.rules.indexing import getitem, scatter, updated
from dualad.rules.kinds import ROWS, Abstract
from dualad.rules.stable import sech_squared


def test_every_row_has_a_loop_form_or_a_reason():
    entered = [row for row in ROWS.values() if row.trusted and not row.metadata and row.kind not in ("refused", "composite")]
    assert not [row.name for row in entered if lowering_of(row.fn) is None]
    assert not [row.name for row in entered if row.called and (rule_of(row.fn) is not None or row.scalar is not None)]
    assert {row.lower for row in ROWS.values() if row.lower is not None} == LOWERINGS.keys()


def evaluated(make, *inputs):
    """Return a program's outputs as the emitted source and as NumPy have them; `make` enters operations and returns the outputs."""
    p = Program()
    values = [p.input(x) for x in inputs]

    def enter(fn, *args, **kwargs):
        with np.errstate(all="ignore"):
            return p.append(fn, args, kwargs, p_example(p, fn, args, kwargs, inputs))

    p.outputs = list(make(enter, *values))
    return p, interpreted(p)(*inputs), p.run(*inputs)


def p_example(p, fn, args, kwargs, inputs):
    """Return the result of one more operation."""
    outputs, p.outputs = p.outputs, []
    values = [arg for arg in args if hasattr(arg, "number")]
    p.outputs = values
    found = dict(zip(values, p.run(*inputs), strict=True))
    p.outputs = outputs
    call = ROWS[fn].call if fn in ROWS else fn
    return call(*map_values(found.__getitem__, tuple(args)), **kwargs)


def random_slice(rng, n):
    if rng.random() < 0.3:
        return int(rng.integers(-n, n))
    start, stop = sorted(rng.integers(0, n + 1, 2).tolist())
    stop = min(n, stop + 1)
    start = min(start, stop - 1)
    step = int(rng.choice([1, 1, 1, 2, -1, -2]))
    return slice(start, stop, step) if step > 0 else slice(stop - 1, start - 1 if start else None, step)


def random_index(rng, shape):
    """Return a basic index that leaves at least one element and one axis."""
    while True:
        index = tuple(random_slice(rng, n) for n in shape)
        if any(isinstance(part, slice) for part in index):
            break
    if rng.random() < 0.2:
        index = (*index, None)
    return (*index[:1], ...) if rng.random() < 0.2 and isinstance(index[0], slice) else index


def random_operation(rng, enter, x):
    """Enter one operation that moves elements of x."""
    kind = rng.integers(0, 11)
    axis = int(rng.integers(0, x.ndim))
    if kind in (4, 5):
        index = random_index(rng, x.shape)
        part = enter(getitem, x, index)
        if kind == 4:
            return enter(updated, x, enter(np.multiply, part, 2.0), index)
        return enter(scatter, part, index, Abstract(np.zeros(x.shape)))
    return {
        0: lambda: enter(getitem, x, random_index(rng, x.shape)),
        1: lambda: enter(np.roll, x, int(rng.integers(-3, 4)), axis=axis),
        2: lambda: enter(np.flip, x, axis),
        3: lambda: enter(np.transpose, x),
        6: lambda: enter(np.concatenate, x, enter(np.negative, x), axis=axis),
        7: lambda: enter(np.add, x, enter(getitem, x, (slice(None, None, -1),))),
        8: lambda: enter(np.reshape, x, (-1, 1, x.shape[-1])),
        9: lambda: enter(getitem, x, (rng.integers(-x.shape[0], x.shape[0], 5).tolist(),)),
        10: lambda: enter(np.sum, x, axis=axis, keepdims=True),
    }[int(kind)]()


@pytest.mark.parametrize("size", [4, 30])
@for_each("seed", range(100), size=25)
def test_random_index_maps(seed, size):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, rng.integers(2, size, rng.integers(1, 3)).tolist())

    def make(enter, x):
        outputs = [x]
        for _ in range(6):
            y = random_operation(rng, enter, outputs[-1])
            if y.size > 4000 or not y.ndim:
                break
            outputs.append(y)
        return outputs[-2:]

    p, got, expected = evaluated(make, x)
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-14, err_msg=str(p))


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name):
    f, inputs = EXAMPLES[name]
    expected = f(*inputs)
    close(interpreted(traced(f, *inputs))(*inputs), expected if isinstance(expected, tuple) else [expected], rtol=1e-14)


def test_stencils_are_one_nest_without_stored_values():
    for name in ("diffusion", "adjoint_of_slices"):
        f, (_, number) = EXAMPLES[name]
        made = plan(traced(f, np.zeros(1000), number))
        (part,) = made.steps
        assert isinstance(part, Part) and [nest.kind for nest in part.nests] == ["loops"]
        assert made.stored == set(made.outputs)


def test_a_dear_value_read_at_several_places_is_stored():
    def stored(fn):
        p = Program()
        x = p.input(np.zeros(1000))
        y = p.append(fn, (x,), {}, np.zeros(1000))
        parts = [p.append(getitem, (y, part), {}, np.zeros(998)) for part in (slice(2, None), slice(1, -1), slice(None, -2))]
        p.outputs = [p.append(np.add, (p.append(np.add, parts[:2], {}, np.zeros(998)), parts[2]), {}, np.zeros(998))]
        return len(plan(p).stored) - 1

    assert stored(np.exp) == 1 and stored(np.negative) == 0


@pytest.mark.parametrize(("n", "together"), [(20, True), (300, False)])
def test_a_function_stands_in_the_loops_of_the_one_that_it_shares_its_steps_with(n, together):
    """Of tanh(x), stored for the product, and its derivative, needed behind the product only; large arrays are not sooner read again."""
    f = jit(checkpoint.grad(lambda x, w: np.sum((np.tanh(x @ w) @ w.T) ** 2)))
    made = plan(f.entry(Call(f, (np.ones((n, n)), np.ones((n, n))), {})).compiled.program)
    nests = [
        [root.form.scalar for root in nest.roots if isinstance(root.form, Map)]
        for step in made.steps
        if isinstance(step, Part)
        for nest in step.nests
    ]
    assert [scalar_of(sech_squared) in scalars for scalars in nests if scalar_of(np.tanh) in scalars] == [together]


def test_accumulated_slices_do_not_double():
    """``y[1:-1] += ...`` many times over is one nest, whose conditions grow with the number of assignments only."""
    p = Program()
    x = p.input(np.zeros(400))
    y = x
    for k in range(1, 9):
        part = p.append(getitem, (y, slice(k, -k)), {}, np.zeros(400 - 2 * k))
        y = p.append(updated, (y, p.append(np.add, (part, 1.0), {}, np.zeros(400 - 2 * k)), slice(k, -k)), {}, np.zeros(400))
    p.outputs = [y]
    call = interpreted(p)
    assert len(call.native.source) < 12000
    np.testing.assert_array_equal(call(np.zeros(400))[0], p.run(np.zeros(400))[0])


def test_calls_stand_between_parts():
    p = Program()
    a, b = p.input(np.eye(7)), p.input(np.zeros(7))
    x = p.append(np.linalg.solve, (p.append(np.multiply, (a, 2.0), {}, np.eye(7)), b), {}, np.zeros(7))
    p.outputs = [p.append(np.add, (x, b), {}, np.zeros(7))]
    made = plan(p)
    assert [type(step).__name__ for step in made.steps] == ["Part", "Node", "Part"]
    np.testing.assert_allclose(interpreted(p)(np.eye(7), np.arange(7.0))[0], 1.5 * np.arange(7.0))


# --- positions ----------------------------------------------------------------------------------------------------------------------


@for_each("seed", range(50), size=50)
def test_maps_compose_as_lists_do(seed):
    rng = np.random.default_rng(seed)
    inner = np.roll(np.arange(12), rng.integers(0, 12))[:: rng.choice([1, -1, 2])]
    outer = np.roll(np.arange(len(inner)), rng.integers(0, 5))[rng.integers(0, 3) :]
    composed = compose(AffineIndex(0, runs_of(inner)), AffineIndex(0, runs_of(outer)))
    found = [stride * i + offset for low, high, stride, offset in composed.pieces for i in range(low, high)]
    assert found == inner[outer].tolist()
    low, high = sorted(rng.integers(0, 13, 2).tolist())
    inside = [i for i, position in enumerate(inner) if low <= position < high]
    said = guard(AffineIndex(0, runs_of(inner)), low, high)
    expected = [] if said is False else range(len(inner)) if said is True else [i for a, b in said[1] for i in range(a, b)]
    assert inside == list(expected)


def test_preimages_and_widened_maps():
    assert preimage((0, 10, 2, 1), 3, 8) == (1, 4)
    assert preimage((0, 10, -1, 9), 0, 3) == (7, 10)
    assert widened(AffineIndex(0, ((2, 3, 1, -1),)), (0, 10), 20) == AffineIndex(0, ((1, 10, 1, -1),))
    assert start([(0, 3)]) == (AffineIndex(0, ((0, 3, 1, 0),)),)


def test_lowering_keeps_equal_constants_as_numbers():
    p = Program()
    c = p.constant(np.full(5, 2.0))
    d = p.constant(np.array([0.0, -0.0]))
    kinds = [type(node.form).__name__ for node in map(lower(p).__getitem__, (c, d))]
    assert kinds == ["Fill", "Buffer"]


OF_NUMBERS = {
    "repeat": lambda x: np.repeat(x, 2, axis=0),
    "take": lambda x: np.take(x, [0, 0], axis=0),
    "sum": lambda x: np.sum(x, axis=0),
    "max": lambda x: np.max(x, axis=-1),
    "cumsum": lambda x: np.cumsum(x, axis=0),
    "outer with a number": lambda x: np.outer(np.ones(2), np.ones_like(x) * 0.5) * x,
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_numbers_may_have_axis_0(name):
    fn, mean = OF_NUMBERS[name], np.mean(np.arange(3.0))
    np.testing.assert_array_equal(jit(lambda x: fn(np.mean(x)))(np.arange(3.0)), fn(mean))


def test_lists_of_numbers_are_joined():
    f = lambda x: (np.concatenate([[0.0], x, [1, 2]]), np.stack([x, [1.0, 2.0, 3.0]]), np.stack([x[0], 2.0]))
    close(jit(f)(np.arange(3.0)), f(np.arange(3.0)), rtol=0.0)


def test_a_flag_of_python_among_masks():
    f = lambda x: np.where(True & (x > 0.0) | np.logical_xor(False, x < -1.0) & True, x, True * x + (x > 2.0) * False)
    x = np.linspace(-3.0, 3.0, 7)
    for backend in BACKENDS:
        np.testing.assert_array_equal(jit(f, backend=backend)(x), f(x))


VIEWS = {
    "transpose": (np.transpose, lambda rng, n: (rng.permutation(n).tolist(),)),
    "swapaxes": (np.swapaxes, lambda rng, n: rng.integers(-n, n, 2).tolist()),
    "moveaxis": (np.moveaxis, lambda rng, n: (rng.permutation(n)[:2].tolist(), rng.permutation(n)[:2].tolist())),
    "flip": (np.flip, lambda rng, n: (tuple(rng.permutation(n)[: rng.integers(1, n + 1)].tolist()),)),
    "diagonal": (np.diagonal, lambda rng, n: (int(rng.integers(-1, 2)), *rng.permutation(n)[:2].tolist())),
}


@pytest.mark.parametrize("name", VIEWS)
@for_each("seed", range(20), size=20)
def test_a_view_is_lowered_by_what_its_strides_say(name, seed):
    rng = np.random.default_rng(seed)
    fn, arguments = VIEWS[name]
    x = rng.uniform(-1, 1, rng.integers(1, 5, rng.integers(2, 5)))
    given = arguments(rng, x.ndim)
    if not fn(x, *given).size:
        return
    assert ROWS[fn].lower is None
    p, got, expected = evaluated(lambda enter, x: [enter(np.negative, enter(fn, x, *given))], x)
    np.testing.assert_array_equal(got[0], expected[0], err_msg=str(p))
    assert not [call for call in lower(p).values() if type(call.form) is Buffer and call.form.operands]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("fn", [np.modf, np.fix, np.isposinf, np.isneginf, np.nan_to_num])
@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")
def test_parts_and_infinities_are_numpys_bits(fn, dtype):
    pytest.importorskip("llvmlite")
    x = np.array([1.5, -2.5, -2.0, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -0.3], dtype)
    compiled = jit(fn)
    for got, expected in zip(np.atleast_2d(compiled(x)), np.atleast_2d(fn(x)), strict=True):
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))
        assert got.dtype == expected.dtype
    assert "called" not in compiled.explain(x)


def test_infinities_are_masks():
    pytest.importorskip("llvmlite")
    x = np.array([1.5, np.inf, -np.inf, -2.0])
    f = lambda x: np.where(~np.isposinf(x) & (np.isneginf(x) | (x > 0.0)), 3.0 * x, 0.0)
    compiled = jit(f)
    np.testing.assert_array_equal(compiled(x), f(x))
    assert "called" not in compiled.explain(x)
    np.testing.assert_array_equal(sparsity(f, x).toarray(), np.eye(4, dtype=bool))


ARMS = {
    "of a few additions": (lambda x: x * 0.98, lambda x: x + 0.25, True),
    "one of which does nothing": (lambda x: -1.0 / x, lambda x: x, True),
    "of many additions": (lambda x: np.sin(x) * 2.0, lambda x: x, False),
    "that move elements": (lambda x: x[::-1] * 2.0, lambda x: x, False),
    "of float32": (lambda x: x * np.float32(0.98), lambda x: x + np.float32(0.5), True),
}


@pytest.mark.parametrize("name", ARMS)
def test_elements_of_programs_that_take_little_are_selected_in_the_loops_around_a_branch(name):
    pytest.importorskip("llvmlite")
    then, otherwise, both = ARMS[name]

    def f(x):
        y = x + 0.5 * np.roll(x, 1)
        return then(y) if x[1] > 0.5 else otherwise(y)

    compiled = jit(f)
    derivative = jit(checkpoint.grad(lambda x: np.sum(f(x) ** 2)))
    for first in (0.0, np.inf, np.nan, 0.5, -0.0):
        for second in (0.25, 0.75):
            x = np.array([first, second, *np.linspace(-1, 1, 61)], np.float32 if "float32" in name else float)
            with np.errstate(all="ignore"):
                assert compiled(x).tobytes() == f(x).tobytes()
                np.testing.assert_allclose(derivative(x), checkpoint.grad(lambda x: np.sum(f(x) ** 2))(x), rtol=1e-6)
    assert ("    if " not in compiled.source(x)) == both
