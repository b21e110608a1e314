"""Functions of many numbers: machine code takes and gives them in arrays."""

import numpy as np
import pytest
from comparing import close, leaves

pytest.importorskip("llvmlite")

from checkpoint import value_and_grad
from dualad import jit
from dualad.codegen.native import Native
from dualad.graph.trace import Trace
from dualad.support.costs import ONE_BY_ONE

NUMBERS = np.random.default_rng(0).standard_normal(ONE_BY_ONE + 20).tolist()
KINDS = {
    "numbers of Python": list,
    "of NumPy": lambda xs: [*map(np.float64, xs)],
    "of both": lambda xs: [x if k % 2 else np.float64(x) for k, x in enumerate(xs)],
    "in single precision": lambda xs: [*map(np.float32, xs)],
    "arrays without axes": lambda xs: [*map(np.array, xs)],
    "complex": lambda xs: [x + 1j for x in xs],
    "integers": lambda xs: [round(100 * x) for x in xs],
    "of two dtypes": lambda xs: [x if k % 2 else k for k, x in enumerate(xs)],
}


def times(factor, xs):
    return [x * factor for x in xs]


FUNCTIONS = {
    "backwards": lambda xs: xs[::-1],
    "in turn": lambda xs: [x * (k % 3) + xs[0] for k, x in enumerate(xs)],
    "some": lambda xs: (xs[3], np.array(xs[::2]), [x * 2 for x in xs[1:]]),
    "an array": lambda xs: np.array(xs) * 2,
    "a call between": lambda xs: times(np.linalg.eigvals(np.array(xs[:9]).reshape(3, 3)).real[0], xs),
}


@pytest.mark.parametrize(
    ("name", "kind"), [*(("in turn", kind) for kind in KINDS), *((name, kind) for name in FUNCTIONS for kind in ("of both", "complex"))]
)
def test_values_and_types_are_the_plain_ones(name, kind):
    f, xs = FUNCTIONS[name], KINDS[kind](NUMBERS)
    fast = jit(f)
    for given in (xs, xs[::-1]):
        got = fast(given)
        assert all(isinstance(x, np.ndarray | float | int | complex | np.number) for x in leaves(got))
        close(got, f(given), rtol=1e-6 if kind == "in single precision" else 1e-14)


def energy(numbers, flags, z):
    total = 0.0
    for x, flag in zip(numbers, flags, strict=True):
        total = total + x * x * flag
    return np.real(z * total)


def test_gradients_by_numbers_of_a_list():
    args = NUMBERS, [k % 7 for k in range(len(NUMBERS))], 2.0 - 1.0j
    f = value_and_grad(energy, argnums=(0, 2))
    assert jit(f)(*args) == f(*args)


def test_no_function_takes_or_gives_each_number():
    with Trace() as tracing:
        xs = [tracing.input(x) for x in NUMBERS]
        program = tracing.finish([*(x * 2.0 for x in xs), *reversed(xs)])
    native = Native(program)
    assert list(native.call(*NUMBERS)) == [*(2.0 * x for x in NUMBERS), *reversed(NUMBERS)]
    assert max(len(function.parameters) for function in native.emitted.module.parts) <= 4


def test_an_integer_that_is_too_large_is_computed_by_python():
    f = jit(lambda xs: [x * 2 + 1 for x in xs])
    large = [2**62] * len(NUMBERS)
    assert f(list(range(len(NUMBERS)))) == [2 * k + 1 for k in range(len(NUMBERS))] and f(large) == [2**63 + 1] * len(NUMBERS)
