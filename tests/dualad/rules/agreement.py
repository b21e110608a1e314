"""One check for whole functions: both modes, both orders and all K against each other and against differences; one for dask arrays."""

import numpy as np
import optree
from comparing import leaves

from checkpoint import jacobian as reverse_jacobian
from checkpoint import vjp
from dualad import jacobian, jvp
from dualad.rules.calling import public_name
from dualad.testing import check_derivatives


def check(f, *args):
    """Derivatives of both modes and orders against differences of the same function on plain arrays; all K agree."""
    check_derivatives(f, *args, vjp=vjp)
    if any(isinstance(x, np.ndarray) for x in args):
        argnums = tuple(range(len(args)))
        expected = leaves(jacobian(f, argnums, chunk=1)(*args))
        for chunk in {n for x in args for n in np.shape(x)} - {0, 1}:
            for a, b in zip(leaves(jacobian(f, argnums, chunk=chunk)(*args)), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)
        for a, b in zip(leaves(reverse_jacobian(f, argnums)(*args)), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def is_lazy_and_right(case, reverse=False):
    """Return whether a call of dask arrays is computed lazily, with the derivatives of arrays; False where it is refused by name."""
    import dask
    import dask.array as da

    def run(made):
        if not reverse:
            return jvp(case.whole, tuple(map(made, case.leaves)), tuple(map(made, case.v)))
        return vjp(case.whole, *map(made, case.leaves))[1](optree.tree_map(lambda x: np.ones_like(x)[()], case.value))

    with dask.config.set(scheduler="synchronous"), np.errstate(all="ignore"):
        try:
            got = run(lambda x: da.from_array(x, chunks=2) if isinstance(x, np.ndarray) and x.ndim else x)
        except TypeError as error:
            assert "dask array" in str(error) and any(name in str(error) for name in ("numpy.", "dualad.", public_name(case.fn))), error
            return False
        for a, b in zip(map(np.asarray, optree.tree_leaves(got)), optree.tree_leaves(run(lambda x: x)), strict=True):
            case.assert_close([a], [b], exact=1e-10)
            assert a.dtype == np.asarray(b).dtype
    return True
