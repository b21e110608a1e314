"""What stands on a tape: each entry says how one node came from earlier ones.

``pull(k, g, adjoints)`` adds the shares of the cotangent g of node k to the adjoints of its parents; ``push(pushed)`` returns the
tangent of the node from those of its parents.
"""

from __future__ import annotations

import numpy as np

from dualad.batch import Batch, wrap
from dualad.dual import vanishes
from dualad.levels import View, locate
from dualad.rules.indexing import is_basic, scatter, winners
from dualad.rules.kinds import MINUS_ONE, ONE, Elementwise, unbroadcast
from dualad.traced import Traced, writable

from .adjoints import ZERO

__all__ = ["Assign", "Get", "Part", "Record", "Same"]


class Record:
    """One evaluation of a row: what its VJP needs, and the nodes of its active arguments."""

    __slots__ = ("active", "ans", "args", "kwargs", "parents", "row", "shapes")

    def __init__(self, row, active, parents, args, kwargs, ans):
        self.row, self.active, self.parents, self.args, self.kwargs, self.ans = row, active, parents, args, kwargs, ans

    def pull(self, k, g, adjoints):
        """Add each active argument's share of the cotangent `g` to its adjoint."""
        row, args = self.row, self.args
        if adjoints.nan_safe and vanishes(g):
            return
        if type(g) is list:
            g = [np.zeros(shape.shape, shape.dtype) if part is None else part
                 for part, shape in zip(g + [None] * (len(self.shapes) - len(g)), self.shapes, strict=True)]
        for i, parent in zip(self.active, self.parents, strict=True):
            if isinstance(row, Elementwise):
                share = row.vjp(i, g, self.ans, args, self.kwargs, adjoints.nan_safe)
            else:
                share = row.vjp(i, g, self.ans, args, self.kwargs)
            if share is not None:
                if not row.trusted and np.shape(share) != np.shape(args[i]):
                    raise ValueError(f"the rule of {row.name} gave a cotangent of shape {np.shape(share)}, its argument {i} has shape "
                                     f"{np.shape(args[i])}: they must be equal")
                fresh = type(share) is np.ndarray and share is not g and share.base is None and row.trusted and share is not self.ans
                if fresh:
                    for held in args:
                        if share is held:
                            fresh = False
                adjoints.add(parent, share, fresh)

    def push(self, pushed):
        """Return the tangent of the result."""
        tangents = [None] * len(self.args)
        for i, parent in zip(self.active, self.parents, strict=True):
            tangents[i] = pushed[parent]
        if all(t is None for t in tangents):
            return None
        return self.row.jvp(self.ans, self.args, self.kwargs, tangents)


class Same(Record):
    """An elementwise row of arrays of one shape and dtype (or with a number): nothing to un-broadcast, no keywords.

    A cotangent that nobody else holds is overwritten by the last share computed from it.
    """

    __slots__ = ()

    def pull(self, k, g, adjoints):
        """Add partial times `g` to the adjoint of each parent."""
        row, args, ans, last = self.row, self.args, self.ans, self.active[-1]
        plain = type(g) is np.ndarray and not adjoints.nan_safe
        mine = plain and k in adjoints.owned
        for i, parent in zip(self.active, self.parents, strict=True):
            partial = row.partials[i]
            mine_now = mine and i == last
            if partial is ONE:
                share, fresh = g, mine_now
                mine = False  # from here on another adjoint is this buffer
            elif partial is MINUS_ONE:
                share, fresh = np.negative(g, g if mine_now else None), True
            elif not plain or (row.singular and (row.singular is True or row.singular(*args))):
                share, fresh = row.multiply(i, g, ans, args, adjoints.nan_safe), True
            else:
                p = partial(ans, *args)
                if mine_now:
                    share = np.multiply(p, g, g)
                elif type(p) is np.ndarray and p.base is None and p is not ans and not any(p is arg for arg in args):
                    share = np.multiply(p, g, p)
                else:
                    share = p * g
                fresh = True
            adjoints.add(parent, share, fresh)


class Get(Record):
    """Indexing: its cotangent is added into the adjoint's own buffer, so that a loop over n elements stays O(n)."""

    __slots__ = ()

    def pull(self, k, g, adjoints):
        """Add `g` at the index."""
        (like, index), node = self.args, self.parents[0]
        if adjoints.values[node] is ZERO and type(g) in (np.ndarray, float) and is_basic(index):
            buffer = np.zeros(like.shape, like.dtype)
            buffer[index] = g
            adjoints.add(node, buffer, True)
            return
        buffer = adjoints.buffer(node, like) if not isinstance(g, Batch) else None
        if buffer is None or (isinstance(g, Traced) and not isinstance(buffer, Traced)) or (np.iscomplexobj(g) and like.dtype.kind != "c"):
            adjoints.add(node, self.row.vjp(0, g, None, self.args, self.kwargs), True)
            if isinstance(adjoints.values[node], Traced):
                adjoints.owned.add(node)
        elif is_basic(index) or (isinstance(buffer, Traced) and not has_repeats(index, like.shape)):
            buffer[index] += g
        elif isinstance(buffer, Traced):
            adjoints.values[node] = buffer + scatter(g, index, like)
        else:
            np.add.at(buffer, index, g)


def has_repeats(index, shape):
    return winners(shape, index) is not None


class Part:
    """One of the results of a function that returns several."""

    __slots__ = ("index", "whole")

    def __init__(self, whole, index):
        self.whole, self.index = whole, index

    def pull(self, k, g, adjoints):
        """Put `g` into its place among the cotangents of the results."""
        parts = adjoints.values[self.whole]
        if parts is ZERO:
            adjoints.values[self.whole] = parts = [None] * (self.index + 1)
        parts.extend([None] * (self.index + 1 - len(parts)))
        parts[self.index] = g

    def push(self, pushed):
        """Return the tangent of this result."""
        whole = pushed[self.whole]
        return None if whole is None else whole[self.index]


class Assign:
    """A write into an array: ``base[ops][index] = v``; nodes of the array before the write and of v, None for constants."""

    __slots__ = ("base", "index", "like", "ops", "v", "v_like")

    def __init__(self, base, v, ops, index, v_like, like):
        self.base, self.v, self.ops, self.index, self.v_like, self.like = base, v, ops, index, v_like, like

    def pull(self, k, g, adjoints):
        """Give the written part of `g` to v, and the rest, in the same buffer, to the array before the write."""
        if self.like.shape == ():  # of a 0-d array nothing is left
            if self.v is not None:
                adjoints.add(self.v, g, False)
            return
        if self.v is not None:
            share = locate(self.ops, g)[self.index]
            stays = winners(np.shape(locate(self.ops, np.empty(self.like.shape, bool))), self.index)
            if stays is not None:
                share = np.where(stays, share, 0.0)
            if sum(op[0] is np.imag for op in self.ops) % 2:  # Re(g * 1j dv) = -Im(g) dv
                share = -share
            if isinstance(share, np.ndarray | Traced):
                share = np.copy(share)[()]  # of shape (), too: it may show the buffer that is cleared below
            share = unbroadcast(share, self.v_like)
            adjoints.add(self.v, share, True)
        if self.base is None:
            return
        if isinstance(g, Batch):
            rest = np.stack([self.cleared(np.copy(direction)) for direction in g.value])
            adjoints.add(self.base, wrap(rest, g.level), False)
            return
        rest = self.cleared(adjoints.buffer(k, self.like))
        adjoints.owned.discard(k)
        adjoints.add(self.base, rest, True)
        if adjoints.values[self.base] is rest:
            adjoints.owned.add(self.base)

    def cleared(self, buffer):
        """Return the buffer with the written part set to 0, in place where the view ops give views of it."""
        part = locate(self.ops, buffer)
        if not self.ops or (np.may_share_memory(part, buffer) if type(part) is np.ndarray else type(part.alias) is View):
            part[self.index] = 0.0
            return buffer
        places = locate(self.ops, np.arange(self.like.size).reshape(self.like.shape))[self.index]  # reshape copied: another layout
        flat = np.copy(np.ravel(buffer))
        flat[places] = 0.0
        return np.reshape(flat, self.like.shape)

    def push(self, pushed):
        """Return the tangent of the array after the write."""
        before = None if self.base is None else pushed[self.base]
        written = None if self.v is None else pushed[self.v]
        if before is None and written is None:
            return None
        after = np.zeros(self.like.shape, self.like.dtype) if before is None else np.copy(before)
        after = writable(after, written)
        locate(self.ops, after)[self.index] = 0.0 if written is None else written
        return after
