"""checkpoint(f): evaluated again in the reverse sweep, not recorded."""

from dataclasses import dataclass

import numpy as np
import pytest
from comparing import close
from programs import Program

import dualad
from checkpoint import Stats, chain, checkpoint, grad, hvp, linearize, value_and_grad, vjp
from checkpoint.reverse.recording import Recording


def block(x, c=1.0):
    return {"a": np.sin(np.cos(x)) * c, "b": np.tanh(x)}


def plain(x, c):
    inner = block(block(x, c)["a"], c=c)
    return np.sum(inner["a"] * inner["b"])


def recomputed(x, c):
    f = checkpoint(block)
    inner = f(f(x, c)["a"], c=c)
    return np.sum(inner["a"] * inner["b"])


X = np.linspace(0.2, 1.4, 4)


def test_same_gradient_with_fewer_entries():
    close(grad(recomputed, argnums=(0, 1))(X, 2.0), grad(plain, argnums=(0, 1))(X, 2.0), rtol=1e-13)
    entries = [len(Recording(f, (X, 2.0), "test", False, False).tape.entries) for f in (recomputed, plain)]
    assert entries == [10, 12]  # 2 inputs, 2 x (the call and its two results), product and sum; against every operation


def test_evaluated_once_more_in_the_reverse_sweep():
    calls = []

    @checkpoint
    def f(x):
        calls.append(type(x))
        return x * x

    assert grad(lambda x: f(x) + f(2.0 * x))(3.0) == pytest.approx(6.0 + 24.0)
    assert len(calls) == 4
    assert f(3.0) == 9.0 and dualad.derivative(f)(3.0) == 6.0


def test_nests_and_takes_second_order():
    nested = checkpoint(lambda x: np.sum(checkpoint(lambda y: np.exp(np.sin(y)))(x) ** 2))
    reference = lambda x: np.sum(np.exp(np.sin(x)) ** 2)
    np.testing.assert_allclose(grad(nested)(X), grad(reference)(X), rtol=1e-13)
    np.testing.assert_allclose(hvp(nested, X, X), hvp(reference, X, X), rtol=1e-12)
    _, push = linearize(lambda x: recomputed(x, 2.0), X)
    assert push(X) == pytest.approx(dualad.jvp(lambda x: plain(x, 2.0), (X,), (X,))[1])


def test_closures_raise():
    with pytest.raises(TypeError, match="closes over"):
        grad(lambda y: checkpoint(lambda x: x * y)(2.0 * y))(1.0)


def writes(x, c):
    x[1:] += c * x[:-1]
    c *= 2.0
    return np.sum(np.sin(x) * c)


@pytest.mark.parametrize("plain", ["x", "c", None])
def test_a_function_that_writes_into_its_arguments(plain):
    """As without `checkpoint`: the program sees what was written, the caller's arrays stay as they are."""

    def program(f):
        def loss(x, c):
            x, c = (np.array([0.5, 1.0, -0.3]) if plain == "x" else x), (np.array(0.7) if plain == "c" else c)
            x, c = x * 1.0, c * np.ones(()) if plain is None else c
            total = f(x, c)
            return total + np.sum(x**2) * np.sum(c)

        return loss

    x, c = np.array([0.2, 0.4, 0.6]), np.array(1.5)
    argnums = {"x": 1, "c": 0, None: (0, 1)}[plain]
    if plain == "x":  # a traced value cannot be written into a plain array, with or without checkpoint
        for f in (writes, checkpoint(writes)):
            with pytest.raises((TypeError, ValueError), match=r"plain array|read-only|setting an array"):
                grad(lambda c: f(np.ones(3), c))(c)
        return
    ours, theirs = (grad(program(f), argnums=argnums)(x, c) for f in (checkpoint(writes), writes))
    close(ours, theirs, rtol=1e-13)
    np.testing.assert_allclose(
        hvp(lambda x: program(checkpoint(writes))(x, c), x, x), hvp(lambda x: program(writes)(x, c), x, x), rtol=1e-12
    )
    assert x.tolist() == [0.2, 0.4, 0.6] and c == 1.5


def test_a_function_that_gives_something_else_when_evaluated_again_raises():
    rng, scale = np.random.default_rng(0), [2.0]
    with pytest.raises(RuntimeError, match="evaluated again with the same arguments, it returned another result"):
        grad(lambda x: checkpoint(lambda x: x * rng.random())(x))(1.0)
    _, pullback = vjp(lambda x: checkpoint(lambda x: x * scale[0])(x), X)
    assert pullback(X)[0] is not None
    scale[0] = 3.0
    with pytest.raises(RuntimeError, match="returned another result"):
        pullback(X)


def test_objects_that_hide_traced_values_are_refused():
    class Params:
        def __init__(self, rate):
            self.rate = rate

    with pytest.raises(TypeError, match=r"checkpoint: argument\[0\]\[1\] is of type Params, .*what it holds \(rate\)"):
        grad(lambda x: checkpoint(lambda x, p: x * p.rate)(x, Params(x)))(1.0)


def double_in_place(x):
    x *= 2.0
    return x


@pytest.mark.parametrize("f", [lambda x: x, lambda x: (x, x), lambda x: (lambda y: (y, y))(2.0 * x), double_in_place])
def test_what_is_one_array_in_the_function_is_one_outside(f):
    def loss(x, f):
        z = x * 1.0
        r = f(z)
        r, *others = r if isinstance(r, tuple) else (r,)
        r *= 3.0
        return np.sum(r * r) + np.sum(z) + sum(np.sum(np.sin(other)) for other in others)

    assert loss(X, checkpoint(f)) == loss(X, f)
    np.testing.assert_allclose(grad(loss)(X, checkpoint(f)), grad(loss)(X, f), rtol=1e-13)


def test_arrays_that_would_not_share_memory_outside_are_refused():
    def both(a, b):
        a *= 2.0
        return a + b

    def aliased(x):
        z = x * 1.0
        return np.sum(checkpoint(both)(z, z))

    with pytest.raises(ValueError, match="writes into an argument that shares memory with another"):
        grad(aliased)(X)
    for f in (lambda x: x[1:], lambda x: (lambda y: (y[1:], y[:-1]))(2.0 * x)):
        with pytest.raises(ValueError, match="returns a view of its argument, or two views of one array"):
            grad(lambda x, f=f: np.sum(checkpoint(f)(x * 1.0)[0]))(X)


@dataclass
class Unregistered:
    square: object


@pytest.mark.parametrize(("wrap", "at"), [(lambda y: Unregistered(y), ""), (lambda y: (y, {"b": Unregistered([y])}), r"\[1\]\['b'\]")])
def test_a_result_that_hides_traced_values_is_refused(wrap, at):
    with pytest.raises(TypeError, match=rf"checkpoint: the result{at} is of type Unregistered, .*holds \(square\).*register_dataclass"):
        grad(lambda x: np.sum(hidden(checkpoint(lambda x: wrap(x * x))(x))))(X)


def hidden(result):
    result = result[1]["b"] if isinstance(result, tuple) else result
    return result.square if isinstance(result.square, np.ndarray) else result.square[0]


@pytest.mark.parametrize("keep", [lambda kept, y: kept.append(y), lambda kept, y: kept.append(Unregistered({"deep": y}))])
def test_a_value_that_leaves_elsewhere_than_in_the_result_raises_when_it_is_used(keep):
    def loss(x):
        kept = []
        checkpoint(lambda x: keep(kept, x * x) or 2.0 * x)(x)
        return np.sum(kept[0] if not isinstance(kept[0], Unregistered) else kept[0].square["deep"])

    for verb in (grad, lambda f: lambda x: hvp(f, x, x)):
        with pytest.raises(RuntimeError, match=r"checkpoint: a value that the function computed is used outside of it, .*Return it"):
            verb(loss)(X)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_chain_inside_is_run_as_a_plain_loop_first(compiled):
    """It saves no state before the function is evaluated again, and makes 20 steps more than the chain alone."""
    kinds, stats = [], []

    def step(k, s, r):
        kinds.append(type(s))
        return s * np.sin(r)

    def inner(x):
        stats.append(Stats())
        return chain(dualad.jit(step) if compiled else step, x, 0.9 * x, steps=20, stats=stats[-1])

    alone = grad(lambda x: np.sum(np.sin(inner(x))))(X)
    steps = len(kinds)
    kinds.clear(), stats.clear()
    np.testing.assert_array_equal(grad(lambda x: np.sum(np.sin(checkpoint(inner)(x))))(X), alone)
    assert len(stats) == 2 and stats[0].saves == 0 and stats[1].saves > 0
    if not compiled:
        assert len(kinds) == steps + 20 and kinds[:20] == [np.ndarray] * 20


LAYOUTS = {
    "fortran": lambda x: np.asfortranarray(np.outer(x, x)),
    "reversed": lambda x: np.sin(x)[::-1].copy(),
    "scalar": lambda x: np.exp(x[0]) * x[1],
    "0-d": lambda x: np.array(x[0]) * 1.0,
    "float32": lambda x: x.astype(np.float32) ** 3,
    "complex": lambda x: np.fft.fft(x),
    "empty": lambda x: (x[:0] * 2.0, x + 1.0)[1],
}


@pytest.mark.parametrize("f", LAYOUTS.values(), ids=LAYOUTS)
def test_the_value_is_that_of_the_function_bit_for_bit(f):
    loss = lambda x, f: np.sum(np.abs(f(x)) ** 2)
    assert value_and_grad(loss)(X, checkpoint(f))[0] == loss(X, f)
    np.testing.assert_array_equal(grad(loss)(X, checkpoint(f)), grad(loss)(X, f))


@pytest.mark.parametrize("block", range(3))
def test_random_programs_of_views_and_writes(block):
    """In any memory layout the value and the gradient have the bits that they have without `checkpoint`."""
    compared = 0
    for program in map(Program, range(22_900 + 30 * block, 22_930 + 30 * block)):

        def f(x, program=program):
            made = program.run(x.copy("K"))
            return sum(np.sum(np.sin(v) * (1 + k)) for k, v in enumerate(made) if v.dtype.kind == "f")

        if program.raises or program.layout == "zero strides":
            continue
        with np.errstate(all="ignore"):
            expected = value_and_grad(f)(program.argument())
            found = value_and_grad(lambda x: checkpoint(f)(x) * 1.0)(program.argument())
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=str(program))
        compared += 1
    assert compared > 20


def test_views_of_constants_see_what_is_written():
    """Small views of a large array, which the tape holds apart from it."""

    def f(x):
        y = x * 1.0
        v = y[1:3]
        y[0], y[1] = 7.0, 5.0
        v *= 2.0
        return np.sum(y[:4] * x[:4]) + np.sum(v)

    x = np.linspace(0.0, 1.0, 600)
    assert value_and_grad(checkpoint(f))(x)[0] == f(x)
    np.testing.assert_array_equal(grad(checkpoint(f))(x), grad(f)(x))
