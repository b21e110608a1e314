"""Schedules: which states are saved, which are computed again. Each yields actions; none of them runs anything."""

from .binomial import advances, beta
from .ctz import CTZ
from .parse import parse
from .revolve import Revolve
from .schedule import Schedule
from .store_all import StoreAll

__all__ = ["CTZ", "Revolve", "Schedule", "StoreAll", "advances", "beta", "parse"]
