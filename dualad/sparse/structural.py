"""Dense Jacobians of functions that are being compiled: as many directions as the pattern has colours, and its zeros as zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import optree

from ..core.traced import example_of
from ..forward.seeding import chosen_positions, flatten_input, shape_of, without_aux
from ..graph.symbol import Symbol
from ..support.costs import UNROLLED_ELEMENTS
from .coloring import coloring
from .compressed import push_colors
from .pattern import find_pattern
from .vectors import sizes

PLAIN = (np.ndarray, float)


def from_structure(f, args, kwargs, argnums, where, *, holomorphic=False, nan_safe=False, has_aux=False):
    """Return value, dense Jacobian, and aux if there is one, of a function at traced arguments; None where all directions are as cheap."""
    if type(argnums) is int and 0 <= argnums < len(args) and type(args[argnums]) in PLAIN:  # eager calls ask for little
        return None
    positions, single = chosen_positions(args, argnums, where)
    primals: Any = tuple(args[i] for i in positions)
    leaves = optree.tree_leaves(primals)
    if sum(sizes(leaves)) <= UNROLLED_ELEMENTS or not all(type(leaf) is Symbol and leaf.dtype.kind in "fc" for leaf in leaves):
        return None
    given: Any = args, kwargs
    example_args, example_kwargs = optree.tree_map(example_of, given)
    try:
        pattern = find_pattern(without_aux(f, has_aux, where), example_args, example_kwargs, argnums)
    except (TypeError, ValueError, ImportError):  # the directions one by one need no pattern
        return None
    colors = coloring(pattern, "forward")
    if colors.forward_colors >= colors.shape[1]:
        return None
    options = {"holomorphic": holomorphic, "nan_safe": nan_safe, "has_aux": has_aux}
    evaluated, tangents, aux = push_colors(f, args, kwargs, positions, colors, colors.forward_colors, where, **options)
    entries = np.take(tangents, colors.found_at)
    dense = np.zeros_like(entries, shape=colors.shape)
    dense[colors.rows_of_entries, colors.indices] = entries
    values, out_structure = optree.tree_flatten(evaluated)
    leaves, structure = flatten_input(primals, where)
    rows, columns = (np.cumsum([0, *sizes(parts)]).tolist() for parts in (values, leaves))
    results = []
    for k, value in enumerate(values):
        whole = len(values) == len(leaves) == 1
        parts = [
            np.reshape(dense if whole else dense[rows[k] : rows[k + 1], columns[i] : columns[i + 1]], (*shape_of(value), *shape_of(leaf)))
            for i, leaf in enumerate(leaves)
        ]
        tree = optree.tree_unflatten(structure, parts)
        results.append(tree[0] if single else tree)
    return evaluated, optree.tree_unflatten(out_structure, results), *aux
