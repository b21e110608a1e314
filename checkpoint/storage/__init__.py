"""Storages: where saved states live."""

from .disk import Disk
from .memory import Memory
from .storage import DamagedState, Session, Storage
from .tiered import Tiers

__all__ = ["DamagedState", "Disk", "Memory", "Session", "Storage", "Tiers"]
