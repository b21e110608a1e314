"""What emitted source computes beyond Python's operators, against instructions of the processor, and against whole numbers."""

import itertools

import numpy as np
import pytest

from dualad.codegen.arithmetic import multiply_add, product_of, sum_of

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308, -1e308, 1.0 + 2.0**-52, 1.0 - 2.0**-53, 2.0**-537, 3e-162]
SINGLE = [
    0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3e38, -3e38, 1.0 + 2.0**-23, 1.0 - 2.0**-24, 2.0**-75, -(2.0**-80), 2.0**60,
]  # fmt: skip


def test_products_are_not_rounded_before_they_are_added():
    x, y = 1.0 + 2.0**-30, 1.0 - 2.0**-30
    assert multiply_add(x, y, -1.0) == -(2.0**-60) and x * y - 1.0 == 0.0
    x, y = np.float32(1.0 + 2.0**-12), np.float32(1.0 - 2.0**-12)
    single = multiply_add(x, y, np.float32(-1.0))
    assert type(single) is np.float32 and single == -(2.0**-24)
    assert type(multiply_add(x, y, -1.0)) is np.float64
    # a sum of single precision halfway between two, but for a bit that double precision has not
    assert multiply_add(np.float32(1.0 + 2.0**-23), np.float32(1.0 + 2.0**-23), np.float32(2.0**-70)) == np.float32(
        1.0 + 2.0**-22 + 2.0**-46
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_number_is_that_of_the_processor(dtype):
    pytest.importorskip("llvmlite")
    from handmade import I, compiled, variables

    from dualad.codegen.machine import FUSES
    from dualad.ir.nodes import For, Load, Store, number
    from dualad.ir.values import Value, call

    if not FUSES:
        pytest.skip("this processor has no instruction that multiplies and adds")
    rng = np.random.default_rng(2)
    special = np.array(list(itertools.product(SPECIAL if dtype is np.float64 else SINGLE, repeat=3)), dtype)
    numbers = (rng.standard_normal((4000, 3)) * 2.0 ** rng.integers(-40, 40, (4000, 3))).astype(dtype)
    with np.errstate(all="ignore"):
        numbers[:2000, 2] = -numbers[:2000, 0] * numbers[:2000, 1]  # what is left is the rounding
        tiny = numbers * dtype(2.0 ** (-530 if dtype is np.float64 else -70))
    for x in (special, numbers, tiny):
        name = np.dtype(dtype).name
        y = np.empty(len(x), dtype)
        a, b = variables(x=(x.shape, name), y=(y.shape, name))
        result = call("multiply_add", *(Value(Load(a, (I, number(k)))) for k in range(3)), dtype=name)
        compiled((a, b), For(I, number(0), number(len(x)), (Store(b, (I,), result.node),)))(x, y)
        expected = np.array([multiply_add(*row) for row in x])
        assert expected.dtype == dtype
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(np.signbit(y[y == y]), np.signbit(expected[y == y]))


def test_partial_sums_are_added_by_halves():
    big = 2.0**53
    assert sum_of(np.array([big, 1.0, -big, 1.0, 0.0, 0.0, 0.0, 0.0, 3.0])) == 5.0
    assert sum_of(np.array([big, 1.0, 0.0, 0.0, 1.0, 0.0, -big, 0.0, 0.0])) == 1.0  # the first of them is lost in the largest
    assert product_of(np.array([2.0, 3.0, 5.0, 7.0, 11.0])) == 2310.0
