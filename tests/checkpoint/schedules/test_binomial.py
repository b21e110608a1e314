"""The closed forms against the literature and against dynamic programming."""

from functools import lru_cache

import pytest

from checkpoint.schedules.binomial import advances, beta, repetitions, split


def test_beta():
    golden = [[2, 3, 4, 5, 6], [3, 6, 10, 15, 21], [4, 10, 20, 35, 56], [5, 15, 35, 70, 126], [6, 21, 56, 126, 252]]
    assert [[beta(s, r) for r in range(1, 6)] for s in range(1, 6)] == golden


@pytest.mark.parametrize(
    ("steps", "slots", "count"),
    [
        *[(0, 1, 0), (1, 1, 0), (1000, 1, 499500), (10, 3, 15), (14, 3, 27), (50, 7, 105), (1000, 10, 3636), (10**6, 20, 6815960)],
        *[(16, 4, 27), (16, 5, 25), (100, 7, 255), (100, 8, 245), (1000, 11, 3545), (10**4, 14, 46124)],
        *[(10**4, 15, 45155), (10**5, 17, 566351), (10**5, 18, 557496), (10**6, 21, 6623260)],
    ],
)
def test_advances(steps, slots, count):
    assert advances(steps, slots) == count


def test_integers_have_no_limit():
    assert advances(10**30, 60) > 10**31
    assert repetitions(10**18, 2) == pytest.approx(2**0.5 * 1e9, rel=1e-6)


@lru_cache(None)
def best(steps, slots):
    """Fewest advances by dynamic programming: advance k, save, reverse the rest, then the k before."""
    if steps < 2:
        return 0
    if slots == 1:
        return steps * (steps - 1) // 2
    return min(k + best(steps - k, slots - 1) + best(k, slots) for k in range(1, steps))


def test_advances_and_splits_are_optimal():
    for slots in range(1, 9):
        for steps in range(2, 80):
            assert advances(steps, slots) == best(steps, slots)
            k = split(steps, slots)
            assert 1 <= k < steps
            if slots > 1:
                assert k + best(steps - k, slots - 1) + best(k, slots) == best(steps, slots)


def test_splits_are_optimal_for_larger_chains():
    for slots in (2, 3, 4, 7, 12, 30):
        for steps in range(2, 3000, 7):
            k = split(steps, slots)
            rest = advances(steps - k, slots - 1) + advances(k, slots)
            assert k + rest == advances(steps, slots)


@pytest.mark.parametrize(("steps", "slots", "error"), [(10, 0, ValueError), (-1, 3, ValueError), (1.5, 3, TypeError)])
def test_errors_name_the_argument(steps, slots, error):
    with pytest.raises(error, match=r"advances: (slots|steps) must be"):
        advances(steps, slots)
