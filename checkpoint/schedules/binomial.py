"""The numbers of binomial checkpointing, in plain integers of any size.

With S saved states and r repetitions of any step, a chain of exactly beta(S, r) = C(S + r, S) steps can be reversed
(Griewank 1992, OMS 1:35; Griewank & Walther 2000, ACM TOMS 26:19, "Algorithm 799: revolve"). Everything else follows.
"""

from bisect import bisect_left
from functools import lru_cache
from math import comb

from ..support.checks import whole_number

SLOTS_HINT = "give the number of states that may be saved at the same time, x_0 included"


def beta(slots: int, repeats: int) -> int:
    """Longest chain that `slots` saved states reverse with no step advanced more than `repeats` times.

    Parameters
    ----------
    slots : S, saved states, x_0 included.
    repeats : r.

    Returns
    -------
    int
        C(S + r, S).

    Examples
    --------
    >>> [beta(3, r) for r in range(1, 6)]
    [4, 10, 20, 35, 56]
    """
    return comb(slots + repeats, slots)


def repetitions(steps: int, slots: int) -> int:
    """Return the smallest r with beta(slots, r) >= steps, by bisection."""
    top = 1
    while comb(slots + top, slots) < steps:
        top *= 2
    return bisect_left(range(top), steps, key=lambda r: comb(slots + r, slots))


def advances(steps: int, slots: int) -> int:
    """Fewest plain advances that reverse a chain of `steps` steps with `slots` saved states.

    t(N, S) = r N - C(S + r, r - 1) with C(S + r - 1, S) < N <= C(S + r, S): Griewank & Walther 2000, proposition 1.
    The first sweep to x_{N-1} is counted; the one evaluation inside each pull, and the step to x_N, are not.

    Parameters
    ----------
    steps : N >= 0.
    slots : S >= 1, saved states, x_0 included, the working state not.

    Returns
    -------
    int

    Raises
    ------
    ValueError, TypeError
        If an argument is too small or not an integer.

    Examples
    --------
    >>> advances(10, 3), advances(50, 7), advances(10**6, 20)
    (15, 105, 6815960)
    """
    steps = whole_number(steps, where="advances", argument="steps", least=0, hint="give the length of the chain")
    slots = whole_number(slots, where="advances", argument="slots", least=1, hint=SLOTS_HINT)
    if steps < 2:
        return 0
    r = repetitions(steps, slots)
    return r * steps - comb(slots + r, r - 1)


def split(steps: int, slots: int, base: int = 0) -> int:
    """Return how far to advance from the saved state x_base before the next save, 1 <= m < steps; steps - 1: save nothing more.
    The closed form of Algorithm 799 (Griewank & Walther 2000): fewest advances, and few saves; `base` does not matter at equal costs."""
    return 1 if slots > 1 and steps <= slots + 1 else position(steps, slots)  # r = 1: there is room for every state


@lru_cache(maxsize=256)
def position(steps: int, slots: int) -> int:
    if slots == 1:
        return steps - 1
    r = repetitions(steps, slots)
    b = beta(slots, r)
    b1 = b * r // (slots + r)
    b2 = b1 * slots // (slots + r - 1)
    b3 = 1 if slots == 2 else b2 * (slots - 1) // (slots + r - 2)
    b4 = b2 * (r - 1) // slots
    b5 = 0 if slots < 3 else 1 if slots == 3 else b3 * (slots - 2) // r
    if steps <= b1 + b3:
        return b4
    if steps >= b - b5:
        return b1
    return steps - b2 - b3
