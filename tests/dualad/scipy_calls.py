"""What every row of SciPy's functions is asked: SciPy's bits, and the derivatives of differences, in both modes, to order 2."""

import numpy as np

from checkpoint import jacobian, vjp
from dualad import value_and_jacobian
from dualad.testing import check_derivatives

__all__ = ["check_call"]


def leaves(x):
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, tuple | list) else [np.asarray(x)]


def check_call(ours, scipys, args, kwargs, plain=(), order=2):
    """Check a call with derivatives by all arguments that are arrays of floats, but those at the positions `plain`; return how many.

    Of order 2, the Jacobians of both modes are compared, too.
    """
    wanted = leaves(scipys(*args, **kwargs))
    moving = [i for i, x in enumerate(args) if isinstance(x, float | np.ndarray) and i not in plain and np.asarray(x).dtype.kind in "fc"]

    def call(*moved):
        given = list(args)
        for i, x in zip(moving, moved, strict=True):
            given[i] = x
        made = ours(*given, **kwargs)
        return tuple(made) if isinstance(made, list) else made

    at = [args[i] for i in moving]
    for made in (ours(*args, **kwargs), vjp(call, *at)[0]):
        for own, theirs in zip(leaves(made), wanted, strict=True):
            assert own.dtype == theirs.dtype
            assert own.tobytes() == theirs.tobytes(), "the value is SciPy's to the last bit"
    check_derivatives(call, *at, vjp=vjp, order=order)
    if order == 2 and len(wanted) == 1 and wanted[0].dtype.kind == "f" and at[0].dtype.kind == "f":
        of_first = lambda x: call(x, *at[1:])
        np.testing.assert_allclose(value_and_jacobian(of_first)(at[0])[1], jacobian(of_first)(at[0]), rtol=1e-6, atol=1e-9)
    return len(moving)
