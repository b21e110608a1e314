"""States of compiled chains are used again; that none is used too early, and that they are, shows in bits and budgets (`test_budget`)."""

import sys

import numpy as np

from checkpoint.loops.compiled import BufferPool
from checkpoint.support.costs import REUSED_BYTES

LIKE = (np.zeros(REUSED_BYTES), np.array(1.0))


def test_memory_stays_in_use_as_long_as_a_view_of_it():
    pool = BufferPool(LIKE, REUSED_BYTES)
    part = pool.take()[0][::2][1:]
    part[...] = 1.0
    pool.take()[0][...] = 2.0
    pool.reclaim()
    assert part[0] == 1.0 and len(pool.free[0]) == 1
    del part
    pool.reclaim()
    assert len(pool.free[0]) == 2


def test_no_function_of_python_is_called_where_a_state_ends():
    """An interrupt that came in it would be lost."""
    pool, called = BufferPool(LIKE, REUSED_BYTES), []
    state = pool.take()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: called.append(event))
    del state
    sys.setprofile(before)
    assert "call" not in called and len(pool.ended) == len(LIKE)
