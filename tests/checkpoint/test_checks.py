"""whole_number: what is a count, and what is a slip."""

import numpy as np
import pytest

from checkpoint.checks import whole_number

WORDS = {"where": "f", "argument": "n", "least": 1, "hint": "do this"}


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_integers_of_any_kind_become_int(value):
    number = whole_number(value, **WORDS)
    assert number == 3 and type(number) is int


@pytest.mark.parametrize("value", [True, np.True_, 3.0, np.float64(3), "3", None, [3]])
def test_anything_else_is_refused(value):
    with pytest.raises(TypeError, match=r"f: n must be an integer, got .*; do this"):
        whole_number(value, **WORDS)


def test_too_small():
    with pytest.raises(ValueError, match="f: n must be at least 1, got 0; do this"):
        whole_number(0, **WORDS)
