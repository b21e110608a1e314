"""The collector looks seldom while much is made, and as often as before after it."""

import gc

import numpy as np
import pytest

from dualad import jit
from dualad.support.collector import collecting_seldom
from dualad.support.costs import PROGRAM_OPERATIONS


@pytest.fixture(params=[(700, 10, 10), (10**6, 5, 5), (0, 10, 10)])
def thresholds(request):
    before = gc.get_threshold()
    gc.set_threshold(*request.param)
    yield request.param
    gc.set_threshold(*before)


def test_the_collector_looks_seldom_until_the_last_block_ends(thresholds):
    seldom = (max(thresholds[0], PROGRAM_OPERATIONS) * bool(thresholds[0]), *thresholds[1:])
    with collecting_seldom:
        assert gc.get_threshold() == seldom
        with pytest.raises(KeyError), collecting_seldom:
            raise KeyError
        assert gc.get_threshold() == seldom
    assert gc.get_threshold() == thresholds


def test_a_function_is_traced_so(thresholds):
    seen = []
    assert jit(lambda x: (seen.append(gc.get_threshold()), np.sin(x))[1])(0.0) == 0.0
    assert seen[0][0] == max(thresholds[0], PROGRAM_OPERATIONS) * bool(thresholds[0]) and gc.get_threshold() == thresholds
