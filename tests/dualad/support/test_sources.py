"""Texts of functions that are compiled by Python: equal ones once, each in a namespace of its own."""

import numpy as np

from dualad import jit
from dualad.support.sources import code_of, define


def test_equal_texts_are_compiled_once():
    spaces = [{"a": number} for number in range(3)]
    before = code_of.cache_info().misses
    for space in spaces:
        define(["def f(x):", "x = x + a", "return x"], space)
    assert [space["f"](10) for space in spaces] == [10, 11, 12]
    assert code_of.cache_info().misses == before + 1
    assert len({id(space["f"].__code__) for space in spaces}) == 3, "Python notes where one finds its globals in its code"


def test_functions_of_like_arguments_share_their_guards():
    for k in range(3):
        before = code_of.cache_info().misses
        f = jit(lambda x, k=k: x * (k + 1.0), backend="numpy")
        for _ in range(2):
            np.testing.assert_array_equal(f(np.ones(3)), np.full(3, k + 1.0))
    assert code_of.cache_info().misses == before
