"""checkpoint: reverse mode for programs that are long chains of steps, in O(log N) memory.

`grad`, `vjp` and related verbs differentiate plain NumPy code in reverse mode; `chain` is a loop that they differentiate without
keeping every state; `sweep.reverse` does the same for any step and adjoint; schedules say which states are saved, `compare` and
`draw` show the cost.
"""

from typing import TYPE_CHECKING

from dualad import __all__ as _forward
from dualad import __version__ as __version__
from dualad.support.lazy_imports import lazily as _lazily

from .reverse import operators as _operators  # noqa: F401  (compiles the fast paths)

if TYPE_CHECKING:
    from . import sweep
    from .durable.fit import Fit
    from .loops.chain import chain
    from .loops.recompute import checkpoint
    from .ode.solve import odeint, solve_ivp
    from .report.compare import Tradeoff, compare
    from .report.draw import draw, plot_schedule
    from .report.profile import profile
    from .reverse.ensemble import MemberError, map_gradients
    from .reverse.recording import grad, value_and_grad
    from .reverse.streams import jacobian_columns, jacobian_rows
    from .reverse.trace import Explanation, explain
    from .reverse.verbs import hessian, hvp, jacobian, linearize, vjp
    from .schedules import CTZ, Mixed, Online, Periodic, Revolve, Schedule, StoreAll, Tiered, from_checkpoint_schedules
    from .schedules.actions import Action, Advance, Drop, Load, Record, Reverse, Save
    from .storage import Disk, Memory, Storage, Tiers
    from .sweep import Result, Sweep
    from .sweep.plan import Plan, plan
    from .sweep.stats import Stats

_lazily(
    __name__,
    {
        "schedules.actions": "Action Advance Drop Load Record Reverse Save",
        "loops.chain": "chain",
        "ode.solve": "odeint solve_ivp",
        "report.draw": "draw plot_schedule",
        "reverse.ensemble": "MemberError map_gradients",
        "reverse.trace": "Explanation explain",
        "durable.fit": "Fit",
        "reverse.recording": "grad value_and_grad",
        "reverse.verbs": "hessian hvp jacobian linearize vjp",
        "sweep.plan": "Plan plan",
        "report.profile": "profile",
        "loops.recompute": "checkpoint",
        "schedules": "CTZ Mixed Online Periodic Revolve Schedule StoreAll Tiered from_checkpoint_schedules",
        "sweep.stats": "Stats",
        "storage": "Disk Memory Storage Tiers",
        "reverse.streams": "jacobian_columns jacobian_rows",
        "sweep": "sweep Result Sweep",
        "report.compare": "Tradeoff compare",
    },
    {"dualad": " ".join(_forward), "dualad.testing": "check_derivatives differences"},
)

__all__ = [
    "CTZ", "Action", "Advance", "Disk", "Drop", "Explanation", "Fit", "Load", "MemberError", "Memory", "Mixed", "Online", "Periodic",
    "Plan", "Record", "Result", "Reverse", "Revolve", "Save", "Schedule", "Stats", "Storage", "StoreAll", "Sweep", "Tiered", "Tiers",
    "Tradeoff", "chain", "checkpoint", "compare", "draw", "explain", "from_checkpoint_schedules", "grad", "hessian", "hvp", "jacobian",
    "jacobian_columns", "jacobian_rows", "linearize", "map_gradients", "odeint", "plan", "plot_schedule", "profile", "solve_ivp", "sweep",
    "value_and_grad", "vjp",
]  # fmt: skip
