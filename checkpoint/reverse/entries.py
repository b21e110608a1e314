"""The entries of a tape: each says how one node depends on earlier ones.

``pull(k, g, adjoints)`` adds the shares of the cotangent g of node k to the adjoints of its `parents`; ``push(pushed)`` returns
the tangent of the node from those of its parents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy import ndarray

from dualad.core.traced import Traced
from dualad.forward.directions import Directions
from dualad.forward.dual import is_zero
from dualad.forward.operators import BASIC
from dualad.rules.cotangents import FLOAT, is_complex, like_primal, shape_of, unbroadcast
from dualad.rules.indexing import accumulated, is_traced, last_write_mask, locate, overwritten, reads_once, updated
from dualad.rules.kinds import ROWS, Elementwise
from dualad.rules.partials import ONE

# --- the adjoints of one sweep ----------------------------------------------------------------------------------------------------

ZERO = 0.0  # this very object stands for an adjoint that nothing was added to

NUMBER = (float, np.generic)


class Adjoints:
    """The adjoints of one sweep, by place on the tape; `owned` are the places whose buffer has no other reference.
    `entries` begins with those that the tape references; a share that reaches another one adds it, always before the sweep gets there."""

    __slots__ = ("entries", "nan_safe", "owned", "values")

    def __init__(self, entries: list[Any], values: list[Any], nan_safe: bool = False) -> None:
        self.entries, self.values, self.nan_safe = entries, values, nan_safe
        self.owned: set[int] = set()

    def place(self, node: Any) -> int:
        """Return the place of a node on the tape, where its entry is known from now on."""
        if type(node) is int:
            return node
        self.entries[node.place] = node
        return node.place

    def add(self, node: Any, share: Any, fresh: bool) -> int:
        """Add a share to the adjoint of a node and return its place; `fresh` tells that the share's buffer has no other reference."""
        if type(node) is int:
            k = node
        else:  # known from now on
            k = node.place
            self.entries[k] = node
        values, owned = self.values, self.owned
        now = values[k]
        if now is ZERO:
            values[k] = share
            if fresh and type(share) is np.ndarray:
                owned.add(k)
        elif k in owned and type(now) is np.ndarray is type(share) and share.shape == now.shape and share.dtype == now.dtype:
            np.add(now, share, now)
        else:
            values[k] = total = now + share
            owned.discard(k)
            if type(total) is np.ndarray:
                owned.add(k)
        return k

    def buffer(self, k: int, like: Any) -> Any:
        """Return the adjoint at a place as an array that may be written; None where it cannot be (`Directions`)."""
        now = self.values[k]
        if now is ZERO:
            now = np.zeros(like.shape, like.dtype)
        elif isinstance(now, Directions):
            return None
        elif k not in self.owned or issubclass(type(now), NUMBER):
            now = np.array(now) if issubclass(type(now), (*NUMBER, np.ndarray)) else np.copy(now)
        self.values[k] = now
        self.owned.add(k)
        return now


# --- what values hold -----------------------------------------------------------------------------------------------------------


class Entry:
    """An entry is referenced by the values that it made and by the entries that came from it; `place` is its index on the tape."""

    __slots__ = ("place",)
    place: int
    ours: Any = False  # whether it runs no code of the user's
    parents: Any = property(lambda self: (self.parent,))  # the nodes that it came from; of those that came from one node, `parent`


Node: TypeAlias = int | Entry  # a place on the tape, or an entry


def place_of(node: Any) -> int:
    return node if type(node) is int else node.place


class RowEntry(Entry):
    """One evaluation of a row: what its derivatives need, and the positions of its active arguments, whose nodes are the parents."""

    __slots__ = ()
    row: Any
    args: Sequence[Any]
    kwargs: dict[str, Any] = {}  # noqa: RUF012  (never written)
    ans: Any = None
    active: Any = (0,)

    def push(self, pushed: list[Any]) -> Any:
        tangents: list[Any] = [None] * len(self.args)
        for i, parent in zip(self.active, self.parents, strict=True):
            t = pushed[place_of(parent)]
            tangents[i] = np.float64(t) if type(t) is float else t  # it does not yield to the precision of a constant
        return None if all(t is None for t in tangents) else self.row.jvp(self.ans, self.args, self.kwargs, tangents)


class Evaluation(RowEntry):
    __slots__ = ("active", "ans", "args", "kwargs", "parents", "row", "shapes")
    shapes: list[Any]  # of the results, where there are several

    def __init__(
        self, row: Any, active: Sequence[int], parents: Sequence[Node], args: Sequence[Any], kwargs: dict[str, Any], ans: Any
    ) -> None:
        self.row, self.active, self.parents, self.args, self.kwargs, self.ans = row, active, parents, args, kwargs, ans

    def pull(self, k: int, g: Any, adjoints: Adjoints) -> None:
        row, args = self.row, self.args
        if adjoints.nan_safe and is_zero(g):
            return
        if type(g) is list:
            g = [
                np.zeros(shape.shape, shape.dtype) if part is None and shape is not None else part
                for part, shape in zip(g + [None] * (len(self.shapes) - len(g)), self.shapes, strict=True)
            ]
        strong = (adjoints.nan_safe,) if isinstance(row, Elementwise) else ()
        for i, parent in zip(self.active, self.parents, strict=True):
            share = row.vjp(i, g, self.ans, args, self.kwargs, *strong)
            if share is not None:
                if not row.trusted and np.shape(share) != np.shape(args[i]):
                    raise ValueError(
                        f"the rule of {row.name} gave a cotangent of shape {np.shape(share)}, its argument {i} has shape "
                        f"{np.shape(args[i])}: they must be equal"
                    )
                fresh = type(share) is np.ndarray and share is not g and share.base is None and row.trusted and share is not self.ans
                if fresh:
                    for arg in args:
                        if share is arg:
                            fresh = False
                adjoints.add(parent, share, fresh)

    def push(self, pushed: list[Any]) -> Any:
        t = super().push(pushed)
        if t is None or not isinstance(self.row, Elementwise):
            return t
        shape = np.broadcast_shapes(*map(shape_of, self.args))
        return t if shape_of(t) == shape else np.broadcast_to(t, shape)


class Pointwise(Evaluation):
    """An evaluation of an elementwise row of ours, of numbers and arrays that broadcast, without keywords.
    The last share may overwrite a cotangent without another reference; see `Unary`."""

    __slots__ = ()

    def pull(self, k: int, g: Any, adjoints: Adjoints) -> None:
        row, args, ans, active = self.row, self.args, self.ans, self.active
        mine, last = k in adjoints.owned, active[-1]
        for i, parent in zip(active, self.parents, strict=True):
            own = mine and i == last
            share, fresh = (g, own) if row.partials[i] is ONE else (row.multiply(i, g, ans, args, mine=own and type(g) is ndarray), True)
            mine = mine and share is not g
            if type(share) is ndarray and share.dtype is FLOAT and (type(args[i]) is float or not args[i].shape):
                adjoints.add(parent, float(np.add.reduce(share, None)), False)
                continue
            whole, share = share, unbroadcast(share, args[i])
            adjoints.add(parent, share, fresh if share is whole else type(share) is ndarray and share.base is None)


class Number(Entry):
    """Arithmetic of numbers of which one came from arrays, with the partials."""

    __slots__ = ("parents", "partials")

    def __init__(self, parents: Sequence[Node], partials: Sequence[Any]) -> None:
        self.parents, self.partials = parents, partials

    def pull(self, k: int, g: Any, adjoints: Adjoints) -> None:
        for parent, p in zip(self.parents, self.partials, strict=True):
            adjoints.add(parent, p * g, False)

    def push(self, pushed: list[Any]) -> Any:
        shares = [p * t for parent, p in zip(self.parents, self.partials, strict=True) if (t := pushed[place_of(parent)]) is not None]
        return sum(shares) if shares else None


class Unary(RowEntry):
    """An elementwise row with one array argument of the result's shape and dtype: nothing to un-broadcast, no keywords.
    A cotangent without another reference is overwritten by the share computed from it."""

    __slots__ = ("ans", "args", "i", "parent", "row")
    i: int
    parent: Node
    active = property(lambda self: (self.i,))

    def pull(self, k: int, g: Any, adjoints: Adjoints) -> None:
        share, fresh = times_partial(self.row, self.i, g, self.ans, self.args, k in adjoints.owned)
        adjoints.add(self.parent, share, fresh)


class Binary(RowEntry):
    """An elementwise row of two array arguments of the result's shape and dtype; see `Unary`."""

    __slots__ = ("ans", "args", "parents", "row")
    active = (0, 1)

    def pull(self, k: int, g: Any, adjoints: Adjoints) -> None:
        row, args, ans, parents = self.row, self.args, self.ans, self.parents
        first, last = row.order
        share, fresh = times_partial(row, first, g, ans, args, False)
        adjoints.add(parents[first], share, fresh)
        share, fresh = times_partial(row, last, g, ans, args, share is not g and k in adjoints.owned)
        adjoints.add(parents[last], share, fresh)


def times_partial(row: Elementwise, i: int, g: Any, ans: Any, args: Any, mine: bool) -> tuple[Any, bool]:
    """Return partial i times `g`, and whether it is a buffer without another reference; `mine` tells that `g` is one to write into."""
    if row.partials[i] is ONE:
        return g, mine
    return row.times(row.partials[i], g, ans, args, mine=mine and type(g) is ndarray), True


class Linear(RowEntry):
    """A function linear in its first argument, the only one that is active."""

    __slots__ = ("args", "kwargs", "parent", "row")

    def __init__(self, row: Any, parent: Node, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.row, self.parent, self.args, self.kwargs = row, parent, args, kwargs

    def pull(self, k: int, g: Any, adjoints: Adjoints) -> None:
        row, like = self.row, self.args[0]
        if adjoints.nan_safe and is_zero(g):
            return
        share = row.transposes[0](g, *self.args, **self.kwargs)
        if type(share) is not ndarray or share.dtype is not like.dtype:
            share = like_primal(share, like)
        adjoints.add(self.parent, share, type(share) is ndarray and share is not g and share.base is None and row.trusted)


class Index(Linear):
    """Indexing: its cotangent is added into the adjoint's own buffer, so that a loop over n elements stays O(n)."""

    __slots__ = ()

    def pull(self, k: int, g: Any, adjoints: Adjoints) -> None:
        (like, index), node = self.args, self.parent
        at = adjoints.place(node)
        now = adjoints.values[at]
        kind, target = type(index), like if now is ZERO else now
        if (  # in the pull of a loop over elements 64 % less than the general way, in one of slices 4 %
            (kind is int or kind is slice or (kind is tuple and BASIC.issuperset(map(type, index))))
            and (type(now) is ndarray or now is ZERO)
            and target.shape
            and (issubclass(type(g), float) or (type(g) is ndarray and g.dtype is target.dtype))
        ):
            whole: Any = now if at in adjoints.owned else adjoints.buffer(at, like)
            whole[index] += g
            return
        if now is not ZERO and self.adds_into(now, g):
            accumulated(adjoints.buffer(at, like), g, index)
            return
        adjoints.add(node, self.row.vjp(0, g, None, self.args, {}), True)
        if isinstance(adjoints.values[at], Traced):
            adjoints.owned.add(at)

    def adds_into(self, now: Any, g: Any) -> bool:
        """Return whether a cotangent can be added into what an adjoint is now."""
        like, index = self.args
        if not like.shape or isinstance(g, Directions) or isinstance(now, Directions):  # one of no axes may be a number
            return False
        if type(g) is not float and is_complex(g) and like.dtype.kind != "c":
            return False
        if isinstance(now, Traced):
            return reads_once(index) or last_write_mask(like.shape, index) is None
        return not isinstance(g, Traced) and (reads_once(index) or not is_traced(index))


class Part(Entry):
    """One of the results of a function that returns several: its parent is the entry of all of them."""

    __slots__ = ("index", "parent")

    def __init__(self, parent: Entry, index: Any) -> None:
        self.parent, self.index = parent, index

    def pull(self, k: int, g: Any, adjoints: Adjoints) -> None:
        """Put `g` into its place among the cotangents of the results."""
        at = adjoints.place(self.parent)
        parts = adjoints.values[at]
        if parts is ZERO:
            adjoints.values[at] = parts = [None] * (self.index + 1)
        parts.extend([None] * (self.index + 1 - len(parts)))
        parts[self.index] = g

    def push(self, pushed: list[Any]) -> Any:
        whole = pushed[place_of(self.parent)]
        return None if whole is None else whole[self.index]


class Assign(RowEntry):
    """A write into an array, as `updated` with `args`; nodes of the array before the write and of what is written, None for constants.
    What is not written of the cotangent stays in its buffer, so that a loop of writes stays O(n)."""

    __slots__ = ("args", "base", "v")
    row: Any = ROWS[updated]

    def __init__(self, base: Node | None, v: Node | None, args: tuple[Any, ...]) -> None:
        self.base, self.v, self.args = base, v, args

    active = property(lambda self: [i for i, node in enumerate((self.base, self.v)) if node is not None])
    parents = property(lambda self: [node for node in (self.base, self.v) if node is not None])

    def pull(self, k: int, g: Any, adjoints: Adjoints) -> None:
        """Add the cotangents of v and of the array before the write, the latter in the buffer of `g`, to their adjoints."""
        like, _, index, ops = self.args
        if not like.shape and not isinstance(g, Traced):
            g = np.asarray(g)
        if self.v is not None:
            share = self.row.vjp(1, g, None, self.args, {})
            if issubclass(type(share), np.ndarray | Traced):
                share = np.copy(share)[()]  # of shape (), too: it may show the buffer that is cleared below
            adjoints.add(self.v, share, True)
        if self.base is None:
            return
        if not like.shape:  # an array of no axes is written whole or not at all
            if not locate(ops, np.zeros(()))[index].size:
                adjoints.add(self.base, g, False)
            return
        if isinstance(g, Directions) or (type(index) is not int and is_traced(index)):
            adjoints.add(self.base, self.row.vjp(0, g, None, self.args, {}), False)
            return
        rest = self.row.transpose(0, adjoints.buffer(k, like), *self.args, into=overwritten)
        adjoints.owned.discard(k)
        adjoints.add(self.base, rest, True)
        if adjoints.values[at := place_of(self.base)] is rest:
            adjoints.owned.add(at)
