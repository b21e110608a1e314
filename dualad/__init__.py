"""dualad: derivatives of plain NumPy code, forward mode with dual numbers.

Write NumPy as always; the verbs differentiate it: `jvp`, `derivative`, `gradient`, `jacobian`, `hessian`. Reverse mode and long
loops live in the sister package `checkpoint`.
"""

from . import operators as _operators  # noqa: F401  (compiles the fast paths)
from . import rules
from .derivative import derivative, jvp, value_and_derivative
from .dispatch import array, primal
from .dual import Dual
from .gradient import gradient, value_and_gradient
from .hessian import hessian
from .jacobian import jacobian, jacobian_columns, value_and_jacobian

__all__ = ["Dual", "array", "derivative", "gradient", "hessian", "jacobian", "jacobian_columns", "jvp", "primal", "rules",
           "value_and_derivative", "value_and_gradient", "value_and_jacobian"]
