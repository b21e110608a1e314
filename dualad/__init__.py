"""dualad: derivatives of plain NumPy code, forward mode with dual numbers.

Write NumPy as always; the verbs differentiate it: `jvp`, `derivative`, `gradient`, `jacobian`, `hessian`. Reverse mode and long
loops live in the sister package `checkpoint`.
"""

from typing import TYPE_CHECKING

from . import rules
from .core.dispatch import array, primal, stop_gradient
from .forward import operators as _operators  # noqa: F401  (compiles the fast paths)
from .forward.dual import Dual
from .rules.kinds import primitive
from .support.lazy_imports import lazily as _lazily
from .verbs.derivative import derivative, elementwise_grad, jvp, value_and_derivative

if TYPE_CHECKING:
    from .adapt import adapt
    from .codegen.cache import clear_cache
    from .jit import jit
    from .jit.verify import StaleWarning
    from .sparse.coloring import coloring
    from .sparse.pattern import sparsity
    from .support.heap import keep_heap
    from .verbs.columns import jacobian_columns
    from .verbs.explain_nan import explain_nan
    from .verbs.flatten import flatten, register_dataclass
    from .verbs.gradient import gradient, value_and_gradient
    from .verbs.hessian import hessian
    from .verbs.implicit import implicit
    from .verbs.jacobian import jacobian, value_and_jacobian

_lazily(
    __name__,
    {
        "adapt": "adapt",
        "verbs.columns": "jacobian_columns",
        "verbs.explain_nan": "explain_nan",
        "verbs.flatten": "flatten register_dataclass",
        "verbs.gradient": "gradient value_and_gradient",
        "support.heap": "keep_heap",
        "verbs.hessian": "hessian",
        "verbs.implicit": "implicit",
        "verbs.jacobian": "jacobian value_and_jacobian",
        "codegen.cache": "clear_cache",
        "jit": "jit",
        "jit.verify": "StaleWarning",
        "sparse.coloring": "coloring",
        "sparse.pattern": "sparsity",
    },
    {
        "checkpoint": "Action Advance CTZ Disk Drop Explanation Fit Load MemberError Memory Mixed Online Periodic Plan Record Result "
        "Reverse Revolve Save Schedule Stats Storage StoreAll Sweep Tiered Tiers Tradeoff chain checkpoint compare draw explain "
        "from_checkpoint_schedules grad hvp jacobian_rows linearize map_gradients odeint plan plot_schedule profile solve_ivp sweep "
        "value_and_grad vjp",
        "dualad.testing": "check_derivatives differences",
        "dualad.rules": "ROWS bilinear composite constant elementwise explicit joined linear real_linear refused",
    },
)

__version__ = "0.1.0"

__all__ = [
    "Dual", "StaleWarning", "adapt", "array", "clear_cache", "coloring", "derivative", "elementwise_grad", "explain_nan", "flatten",
    "gradient", "hessian", "implicit", "jacobian", "jacobian_columns", "jit", "jvp", "keep_heap", "primal", "primitive",
    "register_dataclass", "rules", "sparsity", "stop_gradient", "value_and_derivative", "value_and_gradient", "value_and_jacobian",
]  # fmt: skip
