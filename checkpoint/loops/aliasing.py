"""Leaves of a state that share memory: a plain loop sees them change together, the saved states of a sweep are copies and do not.

So a step that writes into such a leaf raises. That shows in the first sweep, which makes every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from dualad.core.levels import root
from dualad.core.traced import Traced

from ..reverse.tape import owner_of
from .entry import was_written

__all__ = ["Aliases", "memory_of", "sharing"]

Groups: TypeAlias = tuple[tuple[int, ...], ...]


class Aliases:
    """Which leaves of the state before the next step share memory, in groups of positions; one alone shares it with a parameter.
    `path` returns the name of a leaf. One leaf alone has nothing to share memory with, unless a parameter has some."""

    def __init__(self, path: Callable[[int], str], leaves: Sequence[Any], others: Sequence[Any]) -> None:
        self.path, self.index = path, 0
        self.watching = len(leaves) > 1
        for other in others:
            self.watching = self.watching or (type(other) is not float and memory_of(other) is not None)
        self.groups: Groups = ()

    def before(self, k: int) -> Groups:
        """Return the groups of the state before step k."""
        return self.groups if self.watching and self.index == k else ()

    def guard(self, k: int, leaves: list[Any]) -> list[Any]:
        """Return the leaves of the state before step k, those that share memory such that no write into them goes unnoticed."""
        shared = {i for group in self.before(k) for i in group}
        return [guarded(leaf) if i in shared else leaf for i, leaf in enumerate(leaves)]

    def check(self, k: int, handed: Sequence[Any]) -> None:
        """Raise where step k wrote into a traced leaf that shares memory."""
        for group in self.before(k):
            if any(was_written(handed[i]) for i in group):
                raise self.written(k, [group])

    def written(self, k: int, groups: Iterable[tuple[int, ...]]) -> ValueError:
        """Return the error for a step that wrote into one of these groups."""
        names = "; ".join(" and ".join(map(self.path, group)) + (" and a parameter" if len(group) == 1 else "") for group in groups)
        return ValueError(
            f"chain: step {k} wrote into an array that stands in several places since step {k - 1} returned it so ({names} share their "
            f"memory). Saved states are copies, in which leaves do not share memory: return a copy (x.copy()) in one place, or do "
            f"not write in place"
        )

    def note(self, k: int, leaves: list[Any], others: Sequence[Any], handed: Sequence[Any]) -> None:
        """Note which leaves of the state after step k share memory, with one another or with `others`."""
        if self.watching:
            self.index, self.groups = k + 1, sharing(leaves, others, self.before(k), handed)


def memory_of(leaf: Any) -> Any:
    """Return what the memory of a leaf belongs to; None of what cannot be written into."""
    if issubclass(type(leaf), np.ndarray):
        return owner_of(leaf)
    if isinstance(leaf, Traced) and issubclass(type(leaf.primal), np.ndarray | Traced):
        return root(leaf)
    return None


def sharing(leaves: Sequence[Any], others: Iterable[Any] = (), groups: Groups = (), handed: Sequence[Any] = ()) -> Groups:
    """Return the groups of positions of leaves that share memory with one another, or with `others`.
    `groups` are those of the leaves `handed` to the step that gave `leaves`: copies may hold apart what is one array in a plain loop."""
    elsewhere = {id(memory_of(other)) for other in others}
    one = {id(memory_of(handed[i])): group for group in groups for i in group}
    elsewhere |= {owner for owner, group in one.items() if len(group) == 1}
    owners: dict[Any, list[int]] = {}
    for i, leaf in enumerate(leaves):
        memory = memory_of(leaf)
        if memory is not None:
            owners.setdefault(one.get(id(memory), id(memory)), []).append(i)
    found: list[tuple[int, ...]] = []
    for owner, group in owners.items():
        if owner in elsewhere or (type(owner) is tuple and len(owner) == 1):
            found += [(i,) for i in group]
        elif len(group) > 1:
            together = [i for i in group if type(owner) is tuple or any(i != j and overlapping(leaves[i], leaves[j]) for j in group)]
            found += [tuple(together)] if together else []
    return tuple(found)


def guarded(leaf: Any) -> Any:
    """Return a leaf as one that cannot be written into unnoticed: a read-only view, or a traced copy whose writes `was_written` sees."""
    if not issubclass(type(leaf), np.ndarray):
        return np.copy(leaf)
    view = leaf.view()
    view.flags.writeable = False
    return view


def overlapping(a: Any, b: Any) -> bool:
    """Return whether two leaves of one owner have an element in common; where that is hard to tell, they count as if."""
    if isinstance(a, Traced):
        return True
    try:
        return np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
