"""Results of steps: compared with those of recomputed steps; stacked row by row; and checked for leaves that share memory, which change
together in a plain loop but not in the copies that a sweep saves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias
from weakref import ref

import numpy as np
import optree

from dualad.core.dispatch import dtype_of, primal
from dualad.core.levels import Handle, Owner, root
from dualad.core.traced import Traced
from dualad.forward.seeding import FLOAT, pack_leaf
from dualad.support.equality import nearly_same, same_bits

from ..reverse.tape import owner_of
from ..support.costs import SNAPSHOT_ELEMENTS
from .spec import described

Groups: TypeAlias = tuple[tuple[int, ...], ...]

# --- given again ------------------------------------------------------------------------------------------------------------


class Snapshot:
    """What is compared of x_index with what its step gives when it is evaluated again, up to rounding: 1024 elements of large arrays,
    others at each step (less than 1 % of a step and no memory); all of the final state, where it is still alive. With `exact` all
    elements are held, and compared bit for bit."""

    __slots__ = ("alive", "exact", "index", "known")

    def __init__(self, index: int, leaves: Sequence[Any], exact: bool = False, final: bool = False) -> None:
        self.index, self.exact = index, exact
        self.known: list[Any] = []
        known = self.known
        for leaf in leaves:  # no comprehension: this is done at every step
            known.append(leaf if type(leaf) is float else self.held(leaf))
        self.alive = [ref(leaf) if type(leaf) is np.ndarray else None for leaf in leaves] if final and not exact else None

    def held(self, leaf: Any) -> Any:
        leaf = leaf if type(leaf) is np.ndarray else primal(leaf)
        if not issubclass(type(leaf), np.ndarray):
            return leaf
        if self.exact or leaf.dtype.kind not in "fc":
            return leaf.copy()
        return elements(leaf, self.index)

    def compare(self, index: int, leaves: Sequence[Any], path: Callable[[int], str] | None) -> None:
        """Raise where a leaf of x_index, evaluated again, is another one; `path` returns its name, and is None where none is compared."""
        i = None if path is None else self.differing(index, leaves)
        if i is not None:
            raise RuntimeError(
                f"chain: step {index - 1} is not reproducible: running it again from the same state gave another x_{index} (in {path(i)}), "  # type: ignore[misc]
                f"so the gradient would be wrong. Likely causes: random numbers, counters or clocks (make what the step needs from k); a "
                f"global, an attribute or an array that it closes over has changed since the first sweep (pass it as a parameter); it "
                f"writes into an array that it also keeps elsewhere. check=True names the first step that differs"
            )

    def differing(self, index: int, leaves: Sequence[Any]) -> int | None:
        """Return the number of the first leaf that differs from x_index, None where none does or this is another state."""
        if self.index != index:
            return None
        alive = self.alive
        for i, (known, leaf) in enumerate(zip(self.known, leaves, strict=True)):
            given = leaf.primal if isinstance(leaf, Handle) else leaf
            if type(given) is float and given == known:
                continue
            if type(given) is not np.ndarray or (given is not leaf and leaf.alias is not None):
                given = primal(leaf)  # brought up to date
            if isinstance(given, Handle):  # of a function that jit traces, whose two traces are compared
                continue
            if self.exact:
                same = same_bits(known, given)
            elif alive is not None and (held := alive[i]) is not None and (whole := held()) is not None:
                same = nearly_same(whole, given)
            else:
                same = nearly_same(known, elements(given, index) if np.shape(known) != np.shape(given) else given)
            if not same:
                return i
        return None


def elements(array: np.ndarray, index: int) -> np.ndarray:
    """Return those elements of an array that are compared at a step: copies, unless it is small."""
    if array.size <= SNAPSHOT_ELEMENTS:
        return array
    every = -(-array.size // SNAPSHOT_ELEMENTS)
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    return flat[index % every :: every].copy()


# --- stacked ----------------------------------------------------------------------------------------------------------------


class Stacked:
    """Rows of pytrees, stacked on a leading axis; plain rows are written into arrays of the full length at once."""

    def __init__(self, count: int | None) -> None:
        self.count, self.length = count, 0
        self.structure: optree.PyTreeSpec | None = None
        self.columns: list[Any] | None = None

    def add(self, k: int, tree: Any) -> None:
        leaves, structure = optree.tree_flatten(tree)
        self.structure = structure if self.structure is None else self.structure
        if structure != self.structure:
            raise TypeError(
                f"chain: step {k} returned outs of structure {structure}, the first step of {self.structure}: they must be equal"
            )
        self.put(k, [pack_leaf(leaf) for leaf in leaves])

    def put(self, k: int, leaves: list[Any]) -> None:
        """Take the leaves of the row of step k. The dtype of a column is what NumPy promotes its rows to."""
        if self.columns is None:
            self.columns = [
                [] if self.count is None or isinstance(leaf, Traced) else np.empty((self.count, *np.shape(leaf)), self.dtype(k, i, leaf))
                for i, leaf in enumerate(leaves)
            ]
        for i, leaf in enumerate(leaves):
            column = self.columns[i]
            shape = np.shape(column[0]) if k else np.shape(leaf)
            if np.shape(leaf) != shape:
                raise TypeError(
                    f"chain: out {i} of step {k} has shape {np.shape(leaf)}, that of the first step {shape}: they must be equal"
                )
            dtype = self.dtype(k, i, leaf)
            if isinstance(leaf, Traced) and type(column) is not list:
                self.columns[i] = column = list(column[:k])
            if type(column) is list:
                column.append(np.copy(leaf)[()])
                continue
            if dtype is not column.dtype and (common := np.result_type(column.dtype, dtype)) != column.dtype:
                self.columns[i] = column = column.astype(common)
            column[k] = leaf
        self.length = k + 1

    def dtype(self, k: int, i: int, leaf: Any) -> np.dtype:
        """Return the dtype of an out; one that is no number or array of numbers raises."""
        if type(leaf) is float:
            return FLOAT
        dtype = dtype_of(leaf) if issubclass(type(leaf), int | complex | np.ndarray | np.generic | Traced) else None
        if dtype is None or dtype.kind not in "biufc":
            raise TypeError(
                f"chain: step {k} put out {described(leaf)} as leaf {i}: outs are stacked on a leading axis, so they must be numbers or "
                f"arrays of numbers, of one shape at every step"
            )
        return dtype

    def arrays(self) -> list[Any]:
        return [np.stack(column) if type(column) is list else column for column in self.columns or ()]

    def tree(self, leaves: list[Any]) -> Any:
        if self.structure is None:
            raise unknown_outs()
        return optree.tree_unflatten(self.structure, leaves)


def unknown_outs() -> ValueError:
    return ValueError("chain: outputs=True of a chain that made no step: what a step would put out is not known")


class Rows:
    """The cotangent of an array that is used row by row."""

    def __init__(self, like: Any) -> None:
        self.like = like
        self.buffer: np.ndarray | None = None
        self.rows: dict[int, Traced] = {}

    def put(self, k: int, share: Any) -> None:
        """Write the share of row k, None where it is zero."""
        if share is None:
            return
        if isinstance(share, Traced):
            self.rows[k] = share
            return
        if self.buffer is None:
            self.buffer = np.zeros(np.shape(self.like), self.like.dtype)
        self.buffer[k] = share

    def array(self) -> Any:
        """Return the whole cotangent, None where it is zero."""
        if not self.rows:
            return self.buffer
        zero = np.zeros_like(next(iter(self.rows.values())))
        plain = [zero if self.buffer is None else zero + self.buffer[k] for k in range(np.shape(self.like)[0])]
        return np.stack([self.rows.get(k, plain[k]) for k in range(len(plain))])


# --- sharing memory ---------------------------------------------------------------------------------------------------------


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
        """Return the leaves of the state before step k, those that share memory as read-only views, or traced copies (`was_written`)."""
        for i in (i for group in self.before(k) for i in group):
            if issubclass(type(leaves[i]), np.ndarray):
                leaves[i] = leaves[i].view()
                leaves[i].flags.writeable = False
            else:
                leaves[i] = np.copy(leaves[i])
        return leaves

    def check(self, k: int, handed: Sequence[Any]) -> None:
        """Raise where step k wrote into a traced leaf that shares memory."""
        for group in self.before(k):
            if any(was_written(handed[i]) for i in group):
                raise self.written(k, [group])

    def written(self, k: int, groups: Iterable[tuple[int, ...]]) -> ValueError:
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


def overlapping(a: Any, b: Any) -> bool:
    """Return whether two leaves of one owner have an element in common; where that is hard to tell, they count as if."""
    if isinstance(a, Traced):
        return True
    try:
        return np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def was_written(leaf: Any) -> bool:
    """Return whether a traced array, which cannot be read-only, was written into."""
    return isinstance(leaf, Traced) and type(leaf.alias) is Owner
