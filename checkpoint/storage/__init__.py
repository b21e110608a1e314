"""Storages: where saved states live."""

from .memory import Memory
from .storage import Session, Storage

__all__ = ["Memory", "Session", "Storage"]
