"""States of compiled chains: used again when nobody refers to them, and never before."""

import numpy as np

from checkpoint.loops.compiled import BufferPool
from checkpoint.support.costs import SMALL_STATE_BYTES

LIKE = (np.zeros(SMALL_STATE_BYTES), np.array(1.0))


def test_a_state_is_used_again_when_nobody_refers_to_it():
    pool = BufferPool(LIKE, SMALL_STATE_BYTES)
    first = pool.take()
    second = pool.take()
    assert all(a is not b for a, b in zip(first, second, strict=True))
    kept = first[0][3:5]  # a view refers to its array
    del first
    third = pool.take()
    assert not any(np.shares_memory(kept, leaf) for leaf in third) and len(pool.made) == 3
    del kept
    address = third[0].ctypes.data
    del third
    assert len({pool.take()[0].ctypes.data for _ in range(9)} | {address}) <= 3 and len(pool.made) == 3


def test_the_state_that_was_free_last_is_taken_first():
    """It is still in the cache, where one that was free for long is not."""
    pool = BufferPool(LIKE, SMALL_STATE_BYTES)
    working, saved = pool.take(), [pool.take() for _ in range(3)]
    addresses = {leaf.ctypes.data for state in [working] for leaf in state}
    del saved
    for _ in range(6):  # a step makes a state of another one, which is free then
        working = pool.take()
        addresses.update(leaf.ctypes.data for leaf in working)
    assert len(addresses) == 3 * len(LIKE) and len(pool.made) == 4
