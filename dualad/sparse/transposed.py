"""Reverse mode of a function that can be traced: its program transposed, for products with the transpose, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import optree

from ..core.dispatch import dtype_of
from ..core.traced import example_of
from ..forward.seeding import chosen_positions, flatten_input, shape_of, take_aux
from ..graph.program import Value
from ..graph.trace import TraceError, where_in
from ..jit.arguments import Call
from ..jit.compiled import inexact
from ..jit.jit import Jit, jit
from .pattern import one_for
from .vectors import flat


class Transposed:
    """The program of a function, and its pullbacks."""

    def __init__(self, f, argnums, where, instead, has_aux=False):
        self.jitted = f if isinstance(f, Jit) else jit(f, backend="numpy")
        self.argnums, self.where, self.instead, self.has_aux = argnums, where, instead, has_aux

    def prepared(self, args, kwargs):
        """Return the entry for a call, its leaves, which of them are differentiated, and the structure of what is."""
        positions, single = chosen_positions(args, self.argnums, self.where)
        leaves, structure = flatten_input(tuple(args[i] for i in positions), self.where)
        args = list(args)
        for i, part in zip(positions, optree.tree_unflatten(structure, leaves), strict=True):
            args[i] = part
        call = Call(self.jitted, tuple(args), kwargs)
        try:
            entry = self.jitted.entry(call)
        except TraceError as error:
            raise TypeError(f"{self.where}: {str(error).removeprefix('jit: ')}. {self.instead}") from error
        if entry.tests:
            raise TypeError(f"{self.where}: {where_in(entry.tests[0].line)}f branches on a value. {self.instead}")
        named: Any = {key: optree.tree_map(lambda leaf: key in positions, part) for key, part in call.moving.items()}
        marks = optree.tree_leaves(named)
        wanted = tuple(mark for mark, slot in zip(marks, call.slots, strict=True) if slot is Value)
        return entry, call.leaves, wanted, structure, single

    def gradient(self, *args, **kwargs):
        """Return the gradient of a function with one number as result, and aux where there is one."""
        entry, leaves, wanted, structure, single = self.prepared(args, kwargs)
        result, _ = take_aux(optree.tree_unflatten(entry.structure, entry.compiled.program.outputs), self.has_aux, self.where)
        one = one_for(optree.tree_leaves(result), self.where)
        cotangents = [one, *[None] * (len(entry.compiled.program.outputs) - 1)]
        tree = optree.tree_unflatten(structure, zeros_for(entry.compiled.pulled(leaves, wanted, cotangents, None), leaves, wanted))
        gradient = tree[0] if single else tuple(tree)
        return (gradient, self.jitted(*args, **kwargs)[1]) if self.has_aux else gradient

    def pullback(self, args, kwargs):
        """Return the function that maps flat cotangents to flat cotangents of the arguments."""
        entry, leaves, wanted, *_ = self.prepared(args, kwargs)
        compiled = entry.compiled
        outs = compiled.program.outputs

        def pull(g):
            cotangents, start = [], 0
            for out in outs:
                size = out.size if isinstance(out, Value) else 1
                part = np.reshape(g[start : start + size], shape_of(out))
                start += size
                cotangents.append(part.astype(out.dtype)[()] if isinstance(out, Value) and inexact(out) else None)
            pulled = zeros_for(compiled.pulled(leaves, wanted, cotangents, None), leaves, wanted)
            return flat(pulled)

        return pull


def zeros_for(pulled, leaves, wanted):
    """Return cotangents with zeros for those of inputs that nothing depends on."""
    plain = [example_of(leaf) for leaf, asked in zip(leaves, wanted, strict=True) if asked]
    return [np.zeros(shape_of(x), dtype_of(x))[()] if g is None else g for g, x in zip(pulled, plain, strict=True)]
