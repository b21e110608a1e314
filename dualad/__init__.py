"""dualad: derivatives of plain NumPy code, forward mode with dual numbers.

Write NumPy as always; the verbs differentiate it: `jvp`, `derivative`, `gradient`, `jacobian`, `hessian`. Reverse mode and long
loops live in the sister package `checkpoint`.
"""

from typing import TYPE_CHECKING

from . import operators as _operators  # noqa: F401  (compiles the fast paths)
from . import rules
from .derivative import derivative, jvp, value_and_derivative
from .dispatch import array, primal, stop_gradient
from .dual import Dual
from .lazy import lazily as _lazily
from .rules.kinds import primitive

if TYPE_CHECKING:
    from .columns import jacobian_columns
    from .explain_nan import explain_nan
    from .gradient import gradient, value_and_gradient
    from .heap import keep_heap
    from .hessian import hessian
    from .implicit import implicit
    from .jacobian import jacobian, value_and_jacobian
    from .program.cache import clear_cache
    from .program.jit import jit
    from .program.verify import StaleWarning
    from .sparse.coloring import coloring
    from .sparse.pattern import sparsity

_lazily(
    __name__,
    {
        "columns": "jacobian_columns",
        "explain_nan": "explain_nan",
        "gradient": "gradient value_and_gradient",
        "heap": "keep_heap",
        "hessian": "hessian",
        "implicit": "implicit",
        "jacobian": "jacobian value_and_jacobian",
        "program.cache": "clear_cache",
        "program.jit": "jit",
        "program.verify": "StaleWarning",
        "sparse.coloring": "coloring",
        "sparse.pattern": "sparsity",
    },
    {
        "checkpoint": "Action Advance CTZ Disk Drop Explanation Fit Load MemberError Memory Mixed Online Periodic Plan Record Result "
        "Reverse Revolve Save Schedule Stats Storage StoreAll Sweep Tiered Tiers Tradeoff chain checkpoint compare draw explain "
        "from_checkpoint_schedules grad hvp jacobian_rows linearize map_gradients plan plot_schedule profile sweep value_and_grad vjp",
        "dualad.testing": "check_derivatives differences",
        "dualad.rules": "ROWS bilinear composite constant elementwise explicit joined linear real_linear refused",
    },
)

__version__ = "0.1.0"

__all__ = [
    "Dual",
    "StaleWarning",
    "array",
    "clear_cache",
    "coloring",
    "derivative",
    "explain_nan",
    "gradient",
    "hessian",
    "implicit",
    "jacobian",
    "jacobian_columns",
    "jit",
    "jvp",
    "keep_heap",
    "primal",
    "primitive",
    "rules",
    "sparsity",
    "stop_gradient",
    "value_and_derivative",
    "value_and_gradient",
    "value_and_jacobian",
]
