"""checkpoint: reverse mode for programs that are long chains of steps, in O(log N) memory.

`grad`, `vjp` and their kin differentiate plain NumPy code in reverse mode; `chain` is the loop they go through without keeping
every state; `sweep.reverse` does the same for anybody's step and adjoint; schedules say what is saved, `compare` and `draw` show
what it costs.
"""

from typing import TYPE_CHECKING

from dualad import __all__ as _forward
from dualad import __version__ as __version__
from dualad.lazy import lazily as _lazily

from . import operators as _operators  # noqa: F401  (compiles the fast paths)

if TYPE_CHECKING:
    from . import sweep
    from .actions import Action, Advance, Drop, Load, Record, Reverse, Save
    from .chain import chain
    from .draw import draw
    from .ensemble import MemberError, map_gradients
    from .explain import Explanation, explain
    from .fit import Fit
    from .grad import grad, hvp, jacobian, linearize, value_and_grad, vjp
    from .hessian import hessian
    from .plan import Plan, plan
    from .plot import plot_schedule
    from .profile import profile
    from .recompute import checkpoint
    from .schedules import CTZ, Mixed, Online, Periodic, Revolve, Schedule, StoreAll, Tiered, from_checkpoint_schedules
    from .stats import Stats
    from .storage import Disk, Memory, Storage, Tiers
    from .streams import jacobian_columns, jacobian_rows
    from .sweep import Result, Sweep
    from .tradeoff import Tradeoff, compare

_lazily(
    __name__,
    {
        "actions": "Action Advance Drop Load Record Reverse Save",
        "chain": "chain",
        "draw": "draw",
        "ensemble": "MemberError map_gradients",
        "explain": "Explanation explain",
        "fit": "Fit",
        "grad": "grad hvp jacobian linearize value_and_grad vjp",
        "hessian": "hessian",
        "plan": "Plan plan",
        "plot": "plot_schedule",
        "profile": "profile",
        "recompute": "checkpoint",
        "schedules": "CTZ Mixed Online Periodic Revolve Schedule StoreAll Tiered from_checkpoint_schedules",
        "stats": "Stats",
        "storage": "Disk Memory Storage Tiers",
        "streams": "jacobian_columns jacobian_rows",
        "sweep": "sweep Result Sweep",
        "tradeoff": "Tradeoff compare",
    },
    {"dualad": " ".join(_forward), "dualad.testing": "check_derivatives differences"},
)

__all__ = [
    "CTZ",
    "Action",
    "Advance",
    "Disk",
    "Drop",
    "Explanation",
    "Fit",
    "Load",
    "MemberError",
    "Memory",
    "Mixed",
    "Online",
    "Periodic",
    "Plan",
    "Record",
    "Result",
    "Reverse",
    "Revolve",
    "Save",
    "Schedule",
    "Stats",
    "Storage",
    "StoreAll",
    "Sweep",
    "Tiered",
    "Tiers",
    "Tradeoff",
    "chain",
    "checkpoint",
    "compare",
    "draw",
    "explain",
    "from_checkpoint_schedules",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jacobian_columns",
    "jacobian_rows",
    "linearize",
    "map_gradients",
    "plan",
    "plot_schedule",
    "profile",
    "sweep",
    "value_and_grad",
    "vjp",
]
