"""Parts of an index: what its Ellipsis stands for, and the axes that it leaves out."""

import numpy as np
import pytest

from dualad.rules.indexing import expand_index, is_whole

x = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "index",
    [
        1, slice(1, None), None, ..., (), (..., 1), (1, ...), (0, ..., 2), (0, 1, ..., 2), (None, ..., None, 1), (None, 1),
        np.array([0, 1, 1]), (..., np.array([0, 3])), (np.array([1, 0]), ..., np.array([2, 3])), (..., x[0, 0] > 1.0),
    ],
    ids=repr,
)  # fmt: skip
def test_the_parts_of_an_index_show_what_it_shows(index):
    parts = expand_index(index, x.ndim)
    assert sum(part is not None for part in parts) == x.ndim and not any(part is Ellipsis for part in parts)
    np.testing.assert_array_equal(x[tuple(parts)], x[index], strict=True)


@pytest.mark.parametrize("index", [..., (), (...,)], ids=repr)
def test_indices_that_show_all(index):
    assert is_whole(index) and x[index].shape == x.shape


@pytest.mark.parametrize(
    "index", [0, np.int64(0), None, slice(None), np.arange(2), (np.arange(2),), (..., 0), (..., np.arange(2))], ids=repr
)
def test_indices_that_may_show_less(index):
    assert not is_whole(index)
