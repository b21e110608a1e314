"""Results compared up to rounding: the mask of what differs and the answer for the whole are one rule."""

import numpy as np
import pytest

from dualad.support.equality import differing, nearly_same

NAN, INF = np.nan, np.inf

#: two arrays, and where they differ by more than rounding
PAIRS = {
    "the same": ([1.0, NAN, INF], [1.0, NAN, INF], []),
    "rounding": ([1.0, 1e-12, 2.0], [1.0 + 1e-9, 2e-12, 2.0], []),
    "compared with the largest": ([1.0, 1e9], [2.0, 1e9], []),
    "another one": ([1.0, 2.0, 3.0], [1.0, 2.1, 3.0], [1]),
    "infinite": ([1.0, INF, -INF], [1.0, INF, INF], [2]),
    "an infinity beside numbers": ([1.0, INF], [1.1, INF], [0]),
    "finite no more": ([1.0, 2.0], [INF, NAN], [0, 1]),
    "NaN no more": ([NAN, 2.0], [1.0, 2.0], [0]),
    "complex": ([1.0 + 1j, NAN + 1j], [1.0 + 2j, NAN + 2j], [0]),
    "integers": ([1, 2, 3], [1, 2, 4], [2]),
    "nothing": ([], [], []),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_mask_says_where(name):
    a, b, places = PAIRS[name]
    a, b = np.array(a), np.array(b)
    assert np.flatnonzero(differing(a, b)).tolist() == places
    assert nearly_same(a, b) is (not places)
    for x, y in zip(a, b, strict=True):
        assert nearly_same(x, y) != np.any(differing(x, y))
