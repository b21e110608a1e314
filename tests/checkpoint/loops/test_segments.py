"""States of compiled chains are used again; that none is used too early, and that they are, shows in bits and budgets (`test_budget`)."""

import sys
from weakref import ref

import numpy as np

from checkpoint.loops.compiled import BufferPool
from checkpoint.support.costs import SMALL_STATE_BYTES

LIKE = (np.zeros(SMALL_STATE_BYTES), np.array(1.0))


def test_the_state_that_was_free_last_is_taken_first():
    """It is still in the cache, where one that was free for long is not."""
    pool = BufferPool(LIKE, SMALL_STATE_BYTES)
    working, saved = pool.take(), [pool.take() for _ in range(3)]
    addresses = {leaf.ctypes.data for state in [working] for leaf in state}
    del saved
    for _ in range(6):  # a step makes a state of another one, which is free then
        working = pool.take()
        addresses.update(leaf.ctypes.data for leaf in working)
    pool.reclaim()
    assert len(addresses) == 2 * len(LIKE) and all(len(free) == 3 for free in pool.free)


def test_memory_stays_in_use_as_long_as_a_view_of_it():
    pool = BufferPool(LIKE, SMALL_STATE_BYTES)
    part = pool.take()[0][::2][1:]
    part[...] = 1.0
    pool.take()[0][...] = 2.0
    pool.reclaim()
    assert part[0] == 1.0 and len(pool.free[0]) == 1
    del part
    pool.reclaim()
    assert len(pool.free[0]) == 2


def test_free_memory_goes_with_the_pool_while_a_state_is_in_use():
    pool = BufferPool(LIKE, SMALL_STATE_BYTES)
    state, lost = pool.take(), ref(pool)
    del pool
    assert lost() is None and state[0].shape == LIKE[0].shape


def test_no_function_of_python_is_called_where_a_state_ends():
    """An interrupt that came in it would be lost."""
    pool, called = BufferPool(LIKE, SMALL_STATE_BYTES), []
    state = pool.take()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: called.append(event))
    del state
    sys.setprofile(before)
    assert "call" not in called and len(pool.ended) == len(LIKE)
