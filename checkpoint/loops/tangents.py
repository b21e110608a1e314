"""Leaves that are Duals, taken apart into leaves that are not: their values, and then their tangents; and put together again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dualad.core.dispatch import dtype_of
from dualad.core.levels import Level
from dualad.core.traced import Traced
from dualad.forward.dual import Dual, make_dual

from .spec import parts_in

__all__ = ["NotCompiled", "TangentSplit", "has_tangent", "join_tangents", "levels_without_tapes", "split_tangents", "stand_in"]


class NotCompiled(Exception):
    """A chain cannot run in compiled segments; says why."""


class TangentSplit(NamedTuple):
    """A level of forward mode that was taken off leaves: how many there were, which have tangents, and whether they are rows."""

    level: Any  # None where it is not known yet
    length: int
    positions: list[int]
    rows: bool

    @classmethod
    def of(cls, level: Level, leaves: Sequence[Any], positions: list[int] | None = None, rows: bool = False) -> TangentSplit:
        """Return the split of leaves at a level, with tangents at these positions or where there are some."""
        if positions is None:
            positions = [i for i, leaf in enumerate(leaves) if has_tangent(leaf, level)]
        return cls(level, len(leaves), positions, rows)


def levels_without_tapes(leaves: Iterable[Traced]) -> list[Any]:
    """Return the levels of forward mode of leaves, the highest first; of another kind they raise."""
    levels = set()
    for leaf in leaves:
        for part in parts_in(leaf):
            if type(part) is not Dual:
                raise NotCompiled("it is traced or recorded by another derivative inside of a tangent")
            levels.add(part.level)
    return sorted(levels, key=lambda level: -level.id)


def has_tangent(leaf: Any, level: Level) -> bool:
    return type(leaf) is Dual and leaf.level is level and leaf._refresh().tangent is not None


def split_tangents(leaves: Sequence[Any], split: TangentSplit) -> list[Any]:
    """Return the values of leaves at a level, and then the tangents of some of them."""
    level, _, positions, rows = split
    parts = [leaf._refresh().primal if type(leaf) is Dual and leaf.level is level else leaf for leaf in leaves]
    tangents = []
    for i in positions:
        t = leaves[i].tangent if type(leaves[i]) is Dual and leaves[i].level is level else None
        if t is None:
            lanes = () if level.directions is None else (level.directions,)
            t = np.zeros((*lanes, *np.shape(parts[i])), dtype_of(parts[i]))[()]
        if dtype_of(t) != dtype_of(parts[i]):
            if dtype_of(t).kind == "c":
                raise NotCompiled("a real leaf has a complex tangent")
            t = np.asarray(t, dtype_of(parts[i])) if not isinstance(t, Traced) else t.astype(dtype_of(parts[i]))
        if rows and level.directions is not None:
            t = np.moveaxis(t, 0, 1)
        tangents.append(t)
    return [*parts, *tangents]


def join_tangents(parts: Iterable[Any], splits: Sequence[TangentSplit]) -> list[Any]:
    """Return leaves as Duals again."""
    parts = list(parts)
    for level, count, positions, rows in reversed(splits):
        tangents = parts[count:]
        del parts[count:]
        for i, t in zip(positions, tangents, strict=True):
            if rows and level.directions is not None:
                t = np.moveaxis(t, 1, 0)
            parts[i] = make_dual(number(parts[i]), number(t), level)
    return parts


def number(value: Any) -> Any:
    return value.item() if issubclass(type(value), np.generic) else value


def stand_in(leaf: Any) -> Any:
    """Return a plain value of the kind of a leaf."""
    level: Any = None
    while isinstance(leaf, Traced):
        level, leaf = leaf.level, leaf._refresh().primal
    return np.float64(leaf) if type(leaf) is float and level is not None and not level.weak else leaf
