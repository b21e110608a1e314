"""coloring: colourings are valid for random patterns, few for bands, arrows and stencils, and values."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualad import coloring
from dualad.sparse.coloring import MODES
from dualad.sparse.greedy import ORDERS

sparse = pytest.importorskip("scipy.sparse")
patterns = st.integers(0, 9).flatmap(
    lambda n: st.integers(0, 9).flatmap(
        lambda m: st.lists(st.lists(st.booleans(), min_size=m, max_size=m), min_size=n, max_size=n).map(
            lambda rows: np.array(rows, bool).reshape(n, m)
        )
    )
)
orders = st.sampled_from([None, *ORDERS])


def compressed(colors, matrix):
    """Return the entries of a matrix as a colouring finds them in the products alone."""
    products = []
    if colors.columns is not None:
        products.append((matrix @ colors.seeds.T).T.ravel())
    if colors.rows is not None:
        products.append((colors.cotangents @ matrix).ravel())
    return colors.matrix(np.concatenate(products)[colors.found_at])


def assert_recovers(pattern, mode, order):
    values = np.where(pattern, np.arange(1.0, pattern.size + 1).reshape(pattern.shape), 0.0)
    values = values + values.T if mode == "symmetric" else values
    colors = coloring(pattern, mode, order)
    np.testing.assert_array_equal(compressed(colors, values).toarray(), values)
    assert colors.lower_bound <= max(colors.colors, 1) and colors.colors <= max(1, sum(pattern.shape))
    return colors


@given(patterns, orders, st.sampled_from(["forward", "reverse", "both", "auto"]))
def test_every_entry_is_recovered(pattern, order, mode):
    colors = assert_recovers(pattern, mode, order)
    if colors.mode == "forward":  # distance 2
        for row in pattern:
            own = colors.columns[row]
            assert len(set(own.tolist())) == len(own)


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_a_full_row_and_a_full_column(n, diagonal):
    pattern = np.eye(n, dtype=bool) & diagonal
    pattern[0, :] = pattern[:, 0] = True
    colors = assert_recovers(pattern, "both", None)
    assert colors.colors == colors.lower_bound == (1 if n == 1 else 3 if diagonal and n > 2 else 2)


@given(st.integers(1, 9), st.integers(0, 2**32 - 1), orders, st.floats(0.0, 1.0))
def test_star_colorings(n, seed, order, density):
    pattern = np.random.default_rng(seed).random((n, n)) < density
    pattern = pattern | pattern.T
    colors = assert_recovers(pattern, "symmetric", order).columns
    near = [np.flatnonzero(row & (np.arange(n) != i)).tolist() for i, row in enumerate(pattern)]
    for b in range(n):
        for c in near[b]:
            assert colors[b] != colors[c]
            for a in near[b]:
                for d in near[c]:
                    assert a in (c, d) or d == b or len({colors[a], colors[b], colors[c], colors[d]}) > 2


@pytest.mark.parametrize("bands", [1, 2, 3, 4, 7])
def test_bands_get_as_many_colours(bands):
    n = 50
    difference = np.subtract.outer(np.arange(n), np.arange(n))
    colors = coloring((difference >= -(bands // 2)) & (difference < bands - bands // 2))
    assert colors.colors == colors.lower_bound == bands


def test_arrows_and_stencils():
    arrow = np.eye(40)
    arrow[0] = arrow[:, 0] = 1.0
    assert [coloring(arrow, mode).colors for mode in MODES] == [40, 40, 3, 2, 3]
    wide = np.ones((2, 30))
    assert coloring(wide, "auto").mode == "reverse" and coloring(wide, "auto").colors == 2
    assert coloring(wide.T, "auto").mode == "forward"
    dense = np.zeros((30, 30))
    dense[:, 3] = dense[:, 7] = 1.0
    dense[range(30), range(30)] = 1.0
    dense[5] = 1.0
    assert coloring(dense, "auto").colors == 4
    line = np.abs(np.subtract.outer(np.arange(9), np.arange(9))) < 2
    five = np.kron(line, np.eye(9)) + np.kron(np.eye(9), line)
    assert coloring(five, order="smallest_last").colors == 5
    assert coloring(five, "symmetric").colors <= 6


def test_a_coloring_is_a_value():
    pattern = sparse.csc_array(np.random.default_rng(0).random((20, 30)) < 0.1)
    for mode in ("forward", "reverse", "both"):
        a, b = coloring(pattern, mode), coloring(pattern.tocoo(), mode)
        assert a == b and hash(a) == hash(b) and a is not b and a == pickle.loads(pickle.dumps(a))
        assert a != coloring(pattern.T, mode) and a != "text"
        assert (a.pattern != pattern.astype(bool)).nnz == 0 and f"{a.parts()[0][0]} colour" in repr(a)
        with pytest.raises(AttributeError):
            a.mode = "reverse"
        with pytest.raises(ValueError, match="read-only"):
            a.indices[0] = 1
    assert str(coloring(np.eye(3))) == "Coloring(3 x 3, 3 entries, forward: 1 colour of columns, at least 1)"


def test_stored_zeros_count_and_the_matrix_given_is_not_changed():
    pattern = sparse.csr_array((np.zeros(3), [2, 0, 0], [0, 2, 3]), shape=(2, 3))
    colors = coloring(pattern)
    assert len(colors.indices) == 3 and pattern.indices.tolist() == [2, 0, 0] and not pattern.data.any()


def test_matrices_share_nothing():
    colors = coloring(np.eye(3))
    a, b = colors.matrix(np.ones(3)), colors.matrix(np.zeros(3))
    b.eliminate_zeros()
    a.indices[:] = 0
    assert colors.matrix(np.ones(3)).toarray().tolist() == np.eye(3).tolist()


def test_wrong_calls():
    with pytest.raises(ValueError, match="coloring: mode is 'columns': give one of 'forward'"):
        coloring(np.eye(2), "columns")
    with pytest.raises(ValueError, match="coloring: order is 'best'"):
        coloring(np.eye(2), order="best")
    for wrong in (np.ones(3), "text", None, [[1, 2], [3]]):
        with pytest.raises(TypeError, match="coloring: the pattern is"):
            coloring(wrong)
    for wrong in (np.ones((2, 3)), np.triu(np.ones((3, 3)))):
        with pytest.raises(ValueError, match="not symmetric"):
            coloring(wrong, "symmetric")


@pytest.mark.slow
def test_plot():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    arrow = np.eye(8)
    arrow[0] = arrow[:, 0] = 1.0
    for pattern, mode in (
        (arrow, "both"),
        (arrow, "symmetric"),
        (np.eye(600), "forward"),
        (np.ones((30, 3)), "reverse"),
        (np.ones((1, 1)), "forward"),
    ):
        ax = coloring(pattern, mode).plot()
        (dots,) = ax.collections
        assert len(dots.get_offsets()) == np.count_nonzero(pattern)
        assert len(np.unique(dots.get_facecolors(), axis=0)) == coloring(pattern, mode).colors
        pyplot.close(ax.figure)
    assert "1 entry" in ax.get_title() and "1 entry," in repr(coloring(np.ones((1, 1))))
    for shape in ((0, 3), (3, 0), (3, 3)):
        assert "0 entries" in coloring(np.zeros(shape)).plot().get_title()
    ax = pyplot.subplots()[1]
    assert coloring(np.eye(3)).plot(ax) is ax
    pyplot.close("all")
