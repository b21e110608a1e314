"""Hundreds of scalar arguments or results of a program, packed into arrays: calls with thousands of arguments are slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

import numpy as np

from ..graph.program import Program, Value
from ..support.costs import ONE_BY_ONE
from .forms import Buffer, Fill, Index, Made, Node, buffer, copied
from .moves import stack

#: how the numbers of an array become results, by what these are to Python
UNPACKED: dict[str, Callable[[np.ndarray], list[Any]]] = {
    "python": np.ndarray.tolist,
    "scalar": list,
    "array": lambda x: [*map(np.asarray, x)],
}


def pack_inputs(program: Program, inside: bool) -> tuple[list[Node], dict[Node, Callable]]:
    """Return the node of each input, and what is given in its order: nodes, with the functions that take each out of the inputs."""
    packs = {} if inside else many((k, value.dtype) for k, value in enumerate(program.inputs) if not value.shape)
    packed = {k for places in packs.values() for k in places}
    nodes = list(map(buffer, program.inputs))
    given: dict[Node, Callable] = {node: itemgetter(k) for k, node in enumerate(nodes) if k not in packed}
    for dtype, places in packs.items():
        source = Node(Buffer(None), (len(places),), dtype)
        given[source] = lambda inputs, take=itemgetter(*places), dtype=dtype: np.array(take(inputs), dtype)
        for at, k in enumerate(places):
            nodes[k].form = Index(source, (at,))
    return nodes, given


def pack_outputs(program: Program, outputs: list) -> dict[int, tuple[Node, int]]:
    """Return for each output that is an element of an array that array and the place there; `outputs` are the nodes, None of literals."""
    packed: dict[int, tuple[Node, int]] = {}
    numbers = ((k, (out.dtype, out.kind)) for k, out in enumerate(program.outputs) if isinstance(out, Value) and not out.shape)
    for (dtype, _), places in many(numbers).items():
        pack = stack(Node(None, (len(places),), dtype), *(outputs[k] for k in places))
        pack = copied(pack, dtype) if isinstance(pack.form, Buffer | Fill | Made) else pack
        packed.update((k, (pack, at)) for at, k in enumerate(places))
    return packed


def many(pairs: Iterable[tuple[int, Any]]) -> dict[Any, list[int]]:
    """Return the places of each kind of which there are many."""
    groups: dict[Any, list[int]] = {}
    for place, kind in pairs:
        groups.setdefault(kind, []).append(place)
    return {kind: places for kind, places in groups.items() if len(places) > ONE_BY_ONE}
