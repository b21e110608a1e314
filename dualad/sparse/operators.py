"""Jacobians as linear operators of SciPy: products only, without entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dispatch import dtype_of
from ..forward.seeding import flatten_output
from .transposed import Transposed
from .vectors import Flattened, flat, sizes


def make_operator(leaves, outs, holomorphic, matvec, rmatvec):
    """Return a ``scipy.sparse.linalg.LinearOperator`` of functions of flat vectors, of inputs and outputs like these.

    SciPy's `rmatvec` is the product with the conjugate transpose, ours with the transpose.
    """
    try:
        from scipy.sparse.linalg import LinearOperator
    except ImportError:
        raise ImportError("linear_operator needs SciPy, which is not installed: pip install 'dualad[scipy]'") from None
    dtypes = list(map(dtype_of, (*leaves, *outs)))
    if any(dtype.kind == "c" for dtype in dtypes):
        if not holomorphic or any(dtype.kind != "c" for dtype in dtypes):
            raise TypeError(
                "jacobian.linear_operator: f is complex: give holomorphic=True if it is complex-differentiable, with complex arguments and "
                "results; else differentiate its real and imaginary parts"
            )
        transposed = rmatvec
        rmatvec = lambda w: np.conj(transposed(np.conj(w)))
    return LinearOperator((sum(sizes(outs)), sum(sizes(leaves))), matvec=matvec, rmatvec=rmatvec, dtype=np.result_type(*dtypes))


def forward_operator(f, argnums, args, kwargs, holomorphic=False, nan_safe=False):
    """Return the Jacobian at a point: products by forward mode, with the transpose by the transposed program."""
    where = "jacobian.linear_operator"
    given = Flattened(f, args, kwargs, argnums, where)
    outs, _ = flatten_output(f(*args, **kwargs), where)
    instead = "Use checkpoint.jacobian(f).linear_operator, which records f as it runs"
    pulls: list[Any] = []

    def matvec(v):
        return flat(given.along(v, nan_safe)[1])

    def rmatvec(w):
        if not pulls:
            pulls.append(Transposed(f, argnums, where, instead).pullback(args, kwargs))
        return pulls[0](w.ravel())

    return make_operator(given.leaves, outs, holomorphic, matvec, rmatvec)
