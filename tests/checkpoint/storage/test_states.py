"""Copies, the canonical layout, sizes."""

from collections import namedtuple

import numpy as np
import pytest

from checkpoint.storage.states import canonical, copy_state, has_arrays, nbytes

Binary = namedtuple("Binary", "u v")

LAYOUTS = {
    "fortran": lambda: np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "transposed": lambda: np.arange(12.0).reshape(3, 4).T,
    "strided": lambda: np.arange(24.0)[::2],
    "reversed": lambda: np.arange(12.0)[::-1],
    "broadcast": lambda: np.broadcast_to(1.0, (3, 4)),
    "unaligned": lambda: np.frombuffer(bytearray(8 * 4 + 1), dtype=np.uint8)[1:].view(float),
    "read-only": lambda: np.lib.stride_tricks.as_strided(np.arange(4.0), writeable=False),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: (x, 1.0), lambda x: {"a": [x, None]}])
def test_canonical_layout(layout, wrap):
    x = LAYOUTS[layout]()
    assert not x.flags.carray
    for make in (canonical, copy_state):
        state = make(wrap(x))
        leaf = state["a"][0] if isinstance(state, dict) else state[0] if isinstance(state, tuple) else state
        assert type(leaf) is np.ndarray and leaf.flags.carray
        assert leaf.dtype == x.dtype and np.array_equal(leaf, x)


def test_canonical_leaves_alone_what_is_canonical():
    for state in (np.zeros((3, 4)), (np.zeros(3), 1.0), [np.zeros(3), np.zeros((2, 2))], 4.0, None, "text"):
        assert canonical(state) is state
    large, turned = np.zeros(3), np.zeros((3, 2)).T
    assert canonical({"a": large, "b": turned})["a"] is large


def test_copies_are_independent():
    x, inner = np.zeros(3), [1.0]
    state = {"x": x, "list": inner, "pair": Binary(x, "label"), "none": None, "int": 3, "flag": True}
    copied = copy_state(state)
    x[0] = 5.0
    inner.append(2.0)
    assert copied["x"][0] == 0 and copied["pair"].u[0] == 0 and copied["list"] == [1.0]
    assert type(copied["pair"]) is Binary and copied["pair"].v == "label"
    assert copied["none"] is None and copied["int"] == 3 and copied["flag"] is True
    assert list(copied) == list(state)
    mask, zero = np.ma.masked_array([1.0, 2.0], [False, True]), np.array(2.0)
    copied = copy_state((mask, zero))
    mask[0] = zero[()] = 9.0
    assert type(copied[0]) is type(mask) and copied[0].mask.tolist() == [False, True] and copied[0][0] == 1.0
    assert type(copied[1]) is np.ndarray and copied[1].shape == () and copied[1] == 2.0
    for leaf in (1.5, 3, True, None, "s", 2j, np.float32(1.5), np.float64(2), np.int8(3)):
        assert copy_state(leaf) is leaf is copy_state((leaf,))[0]


class Foreign:
    """An array that takes part in NumPy's protocols."""

    def __init__(self, ndim, asked):
        self.ndim, self.asked = ndim, asked

    def __array_function__(self, function, types, arguments, keywords):
        self.asked.append(function)
        return self.ndim if function is np.ndim else "copied"


def test_arrays_of_others_are_copied_by_numpys_protocol():
    asked = []
    assert copy_state((Foreign(2, asked), Foreign(0, asked)))[0] == "copied"
    assert np.copy in asked
    scalar = Foreign(0, [])
    assert copy_state((scalar,))[0] is scalar


def test_sizes():
    assert has_arrays(np.zeros(3)) and has_arrays([{"a": (1.0, np.zeros(()))}])
    assert not has_arrays((1.0, np.float64(2), "s", None))
    assert nbytes(np.zeros((3, 4), np.float32)) == 48
    assert nbytes((1.0, 2, True, 3j, None, "text", np.zeros(2), np.float32(1))) == 8 + 8 + 8 + 16 + 16 + 4
    assert nbytes(None) == 0
