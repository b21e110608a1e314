"""Schedules: which states are saved, which are computed again. Each yields actions; none of them runs anything."""

from .binomial import advances, beta
from .ctz import CTZ
from .foreign import from_checkpoint_schedules
from .mixed import Mixed
from .online import Online
from .parse import parse
from .periodic import Periodic, StoreAll
from .revolve import Revolve
from .schedule import Schedule
from .tiered import Tiered

__all__ = [
    "CTZ", "Mixed", "Online", "Periodic", "Revolve", "Schedule", "StoreAll", "Tiered", "advances", "beta", "from_checkpoint_schedules",
    "parse",
]  # fmt: skip
