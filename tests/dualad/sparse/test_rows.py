"""Every row of the table: its pattern covers the nonzeros of the dense Jacobian, and is exact where it must be."""

import numpy as np
import pytest
import samples_more  # noqa: F401  (enters its samples)
from cases import all_cases
from in_groups import for_each
from samples import SAMPLES

from dualad import jacobian, sparsity
from dualad.rules.calling import public_name
from dualad.rules.kinds import ROWS

pytest.importorskip("scipy.sparse")
MOST = 60  # columns of the samples that are tried
rows = for_each("fn", SAMPLES, public_name, size=5)


def cases_of(fn):
    """Yield each sample of a function with at most so many numbers, one that has a derivative, and the nonzeros of its Jacobian."""
    for case in all_cases(fn):
        if any(case.inexact) and 0 < sum(map(np.size, case.leaves)) <= MOST:
            slopes = np.abs(dense(case))
            yield case, ~(slopes <= np.finfo(float).eps * np.max(slopes, initial=0.0))  # which is rounding


def dense(case):
    """Return the dense Jacobian by all leaves, one matrix."""
    complex_ = any(map(np.iscomplexobj, case.leaves))
    with np.errstate(all="ignore"):
        blocks = jacobian(lambda leaves: case(leaves), holomorphic=complex_)(case.leaves)
    rows = [
        [
            np.reshape(block, (np.size(block) // max(np.size(x), 1), np.size(x)))
            for block, x in zip(row, case.leaves, strict=True)
            if np.size(x)
        ]
        for row in blocks
    ]
    return np.concatenate([np.concatenate(row, axis=1) for row in rows])


@rows
def test_no_entry_is_missing(fn):
    for case, nonzero in cases_of(fn):
        for local in (True,) if ROWS[fn].value_dependent else (False, True):
            pattern = sparsity(lambda leaves: case(leaves), list(case.leaves), local=local).toarray()
            assert pattern.shape == nonzero.shape
            assert not (nonzero & ~pattern).any(), f"{case.sample}, local={local}"


EXACT = {
    "elementwise": [np.sin, np.exp, np.multiply, np.divide, np.hypot, np.arctan2, np.sqrt],
    "moves": [np.roll, np.flip, np.transpose, np.moveaxis, np.swapaxes, np.diagonal, np.concatenate, np.stack, np.tile, np.repeat, np.tril],
    "reductions": [np.sum, np.cumsum, np.trace],
}  # fmt: skip


@for_each("fn", [fn for fns in EXACT.values() for fn in fns], public_name)
def test_elementwise_moves_and_reductions_are_exact(fn):
    """The samples' values are generic, so that an entry that can be different from zero is."""
    for case, nonzero in cases_of(fn):
        if case.precise and not case.sample.casts and not any(map(np.iscomplexobj, case.leaves)):
            pattern = sparsity(lambda leaves: case(leaves), list(case.leaves)).toarray()
            assert np.array_equal(pattern, nonzero), case.sample


def test_stacks_of_matrices_depend_on_their_own():
    """Also where one of them is for all."""
    a, b = np.eye(7) * 300.0 + np.arange(147.0).reshape(3, 7, 7), np.arange(1.0, 15.0).reshape(7, 2)
    for f, x, entries in (
        (np.linalg.inv, a, 147 * 49),
        (np.linalg.inv, a[0], 49 * 49),
        (np.linalg.eigvalsh, a, 21 * 28),  # of one triangle
        (lambda x: np.linalg.solve(x, x + 1.0), a, 147 * 49),
        (lambda x: np.linalg.solve(x, b), a, 42 * 49),
    ):
        found, dense = sparsity(f, x).toarray(), jacobian(f)(x).reshape(-1, x.size)
        assert found.sum() == entries and not np.any(dense[~found])


def test_matrices_by_columns_and_triangles():
    """As exact as what is known of the function: columns of a right-hand side, triangles of a factor, the sign of a determinant."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 3)) + 4.0 * np.eye(3), rng.normal(size=(4, 1, 3, 2))
    positive = a @ np.swapaxes(a, 1, 2)
    for f, x, entries in (
        (lambda b: np.linalg.solve(a[0], b), b[0, 0], 18),
        (lambda b: np.linalg.solve(a[0], b), b[0, 0, :, 0], 9),
        (lambda b: np.linalg.solve(a, b), b[0, 0], 36),
        (lambda b: np.linalg.solve(a, b), b, 144),
        (lambda a: np.linalg.solve(a, b), a, 432),
        (np.linalg.cholesky, positive, 72),
        (lambda a: np.linalg.cholesky(a, upper=True), positive[0], 36),
        (lambda a: np.linalg.slogdet(a)[0], a, 0),
        (lambda a: np.linalg.slogdet(a)[1], a, 18),
        (lambda a: np.real(np.linalg.slogdet(a + 1j)[0]), a, 18),  # a complex sign turns
    ):
        found, dense = sparsity(f, x).toarray(), np.reshape(jacobian(f)(x), (-1, x.size))
        assert found.sum() == entries and not np.any(dense[~found])
