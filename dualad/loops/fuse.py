"""Fusion: which values are stored, and which loop nests compute them.

A value gets a buffer (it is a *root*) if it is an output, feeds what cannot be computed element by element, or would be computed
several times and is dear (`worth_storing`). All else is an expression that is pulled into the loops that read it. Roots over one index
space that do not read each other at other indices share a loop nest; small ones are unrolled: code without loops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from ..graph.program import Program, Value
from ..rules.names import np
from ..support.costs import CACHE_ELEMENTS, LANES, LONG_FUNCTION, UNROLLED_ELEMENTS
from .forms import (
    AffineIndex,
    Buffer,
    Call,
    Cumulative,
    Fill,
    GatherIndex,
    Index,
    Made,
    Map,
    Node,
    Piecewise,
    Position,
    Reduce,
    Scatter,
    operands,
    reachable,
    view,
)
from .inline import broadcast_at, guard, positions, start
from .lower import lower
from .packing import pack_inputs, pack_outputs


def worth_storing(times: float, cost: float, outside: bool = False) -> bool:
    """Return whether a value computed `times` times, each at `cost` additions, is better stored.

    What is computed `outside` of innermost loops, one number at a time, takes twice as long at least.
    """
    return cost > LONG_FUNCTION // 2 or max(times - 1, 2 * outside) * cost > UNROLLED_ELEMENTS // 2


@dataclass(eq=False)
class Nest:
    """Roots that share the loops over one index space; of `kind` ``loops``, ``unrolled``, ``scan`` or ``scatter``.

    Where it is cut into blocks (see `threads`), these are of so many `rows`.
    """

    kind: str
    shape: tuple[int, ...]
    roots: list[Node] = field(default_factory=list)
    rows: int = 0


@dataclass(eq=False)
class Part:
    """Nests that run one after the other in one compiled function."""

    nests: list[Nest]


@dataclass(eq=False)
class Plan:
    """What is computed in which order: `steps` are parts, and nodes that are calls or loops; whether large nests are cut into `blocks`.

    `local` nodes are stored without a buffer, as only their own nest reads them, at its own index. `adding` nodes are added to what their
    buffers hold; `made` are the results of steps that are no parts. With `fuses`, products are not rounded before they are added.
    """

    program: Program
    nodes: dict[Value, Node]
    given: dict[Node, Callable]  # with the functions that take each out of the inputs
    results: list[Node | None]  # None for literals
    packed: dict[int, tuple[Node, int]]  # the outputs that are elements of an array: it, and the place there
    outputs: list[Node]
    stored: set[Node]
    steps: list
    local: set[Node] = field(default_factory=set)
    made: list[Node] = field(default_factory=list)
    adding: set[Node] = field(default_factory=set)
    blocks: bool = False
    fuses: bool = False


def plan(program: Program, inside: bool = False) -> Plan:
    """Return how a program is computed. One that is not `inside` of a loop gives the transposes of outputs in the order of F, and packs."""
    inputs, given = pack_inputs(program, inside)
    nodes = lower(program, inner_loops=True, inside=inside, given=inputs)
    results = [nodes[out] if isinstance(out, Value) else None for out in program.outputs]
    packed: dict[int, tuple[Node, int]] = {}
    if not inside:
        packed = pack_outputs(program, results)
        turned: dict[Node, Node] = {}  # whose transposes are contiguous
        for k, (out, node) in enumerate(zip(program.outputs, results, strict=True)):
            if k in packed:
                results[k] = packed[k][0]
            elif node is not None and out.layout == "F" and out.ndim > 1 and out.kind == "array" and node.dtype == out.dtype:
                results[k] = turned[node] = turned.get(node) or view(np.transpose, node)
    outputs = [node for node in results if node is not None]
    order = reachable(outputs)
    stored = roots_of(order, outputs)
    steps = steps_of(order, stored)
    made = [node for node in dict.fromkeys((*nodes.values(), *order)) if isinstance(node.form, Made)]
    kept = stored | set(made)
    return Plan(program, nodes, given, results, packed, outputs, kept, steps, local_roots(steps, stored, outputs), made)


def memory_of(node):
    """Return the node whose buffer a node is seen in."""
    while isinstance(node.form, Buffer) and node.form.view_of is not None:
        node = node.form.view_of
    return node


def is_available(node):
    """Return whether a node has its values without being computed in a loop: numbers, inputs, constants, results of calls."""
    return isinstance(node.form, Fill | Buffer | Call | Made)


# --- roots -------------------------------------------------------------------------------------------------------------------------


def terms(node):
    """Return how many terms an element of a reduction has."""
    return node.form.source.size // max(node.size, 1)


def is_unrolled(node, cost):
    """Return whether a root is written out element by element; as an array that numbers are gathered in is, however long it is."""
    if isinstance(node.form, Piecewise) and len(node.form.regions) == node.size and all(x.source.size == 1 for x in node.form.regions):
        return True
    if isinstance(node.form, Scatter) or node.size > UNROLLED_ELEMENTS:
        return False
    if isinstance(node.form, Reduce) and terms(node) > UNROLLED_ELEMENTS:
        return False
    alone = not node.shape and not isinstance(node.form, Reduce)  # a number, whose code is there once anyway
    return alone or node.size * cost[node] <= LONG_FUNCTION // 2


def roots_of(order, outputs):
    """Return the nodes that are stored."""
    forced = {node for node in outputs if not is_available(node)}
    for node in order:
        form = node.form
        if isinstance(form, Scatter | Cumulative) or (isinstance(form, Reduce) and terms(node) > UNROLLED_ELEMENTS // 4):
            forced.add(node)
        if isinstance(form, Call) or (isinstance(form, Buffer) and form.view_of is not None):
            forced.update(operand for operand in form.operands if not is_available(operand))
        if isinstance(form, Index) and any(isinstance(entry, GatherIndex) for entry in form.maps) and not is_available(form.source):
            forced.add(form.source)
    stored = forced
    for _ in range(3):
        cost = costs(order, stored)
        chosen = chosen_roots(order, forced, cost)
        if chosen == stored:
            break
        stored = chosen
    return stored | companions(order, stored)


def companions(order, stored):
    """Return the functions, read in whole, that share most of their work with a stored one of the same argument: they join its loops."""
    shared = {(node.form.scalar.family, node.form.operands[0]) for node in stored if isinstance(node.form, Map) and node.form.scalar.family}
    whole = {operand for node in order for operand in operands(node) if not (isinstance(node.form, Index) and node.size < operand.size)}
    return {
        node
        for node in whole
        if isinstance(node.form, Map) and node.size <= CACHE_ELEMENTS and (node.form.scalar.family, node.form.operands[0]) in shared
    }


def costs(order, stored):
    """Return about how many additions an element of each node takes, with all that is inlined into it."""
    cost: dict[Node, float] = {}

    def read(node):
        return 0.0 if isinstance(node.form, Fill) else 1.0 if node in stored or is_available(node) else cost[node]

    for node in order:
        form = node.form
        if isinstance(form, Map):
            cost[node] = form.scalar.cost * (4 if node.dtype.kind == "c" else 1) + sum(read(operand) for operand in form.operands)
        elif isinstance(form, Index):
            cost[node] = read(form.source) + sum(read(entry.array) + 1 for entry in form.maps if isinstance(entry, GatherIndex))
        elif isinstance(form, Piecewise):
            cost[node] = max(read(operand) for operand in form.operands)
        elif isinstance(form, Reduce):
            cost[node] = terms(node) * (1 + read(form.source))
        elif isinstance(form, Cumulative):
            cost[node] = 1 + read(form.source)
        else:
            cost[node] = float(not isinstance(form, Position))
        cost[node] = min(cost[node], 1e9)
    return cost


def additions(outputs):
    """Return about how many additions nodes take, with each value computed once; those of loops are not counted."""
    total = 0.0
    for node in reachable(outputs):
        if isinstance(node.form, Map):
            total += node.size * node.form.scalar.cost
        elif isinstance(node.form, Reduce | Cumulative | Scatter):
            total += node.form.source.size
    return total


def chosen_roots(order, forced, cost):
    """Return the roots, the forced ones and those worth storing, looking at where each node is read from the end backwards."""
    stored: set[Node] = set()
    reads: dict[Node, dict] = {node: {} for node in order}  # where each is read, at which index, and whether by the whole nest
    phase = phases(order)
    for node in reversed(order):
        form = node.form
        if is_available(node):
            if isinstance(form, Call):
                for operand in form.operands:
                    reads[operand]["call", start([(0, n) for n in operand.shape])] = True
            elif isinstance(form, Buffer):
                for operand in form.operands:
                    if operand in reads:
                        reads[operand]["view", start([(0, n) for n in operand.shape])] = True
            continue
        if node in forced or worth_storing(times(node, reads[node]), cost[node], stands_outside(node, reads[node])):
            stored.add(node)
            space = form.source.shape if isinstance(form, Reduce | Scatter) else node.shape
            where = "unrolled" if is_unrolled(node, cost) else (space[:-1] if in_slabs(node) else space, phase[node])
            own = start([(0, n) for n in space])
            reads[node] = {(where, start([(0, n) for n in node.shape])): True}
            if isinstance(form, Reduce):
                reads[form.source][where, own] = True
                continue
            if isinstance(form, Scatter):
                reads[form.base][(node.shape, phase[node]), start([(0, n) for n in node.shape])] = True
                reads[form.source][where, own] = True
                for entry in form.maps:
                    if isinstance(entry, GatherIndex):
                        reads[entry.array][where, through(entry.at, own)] = True
                continue
        for (where, at), whole in itertools.islice(reads[node].items(), 64):
            for operand, index in pulled(form, at):
                found = whole and (not isinstance(form, Piecewise) or operand is form.base)
                reads[operand][where, index] = found or reads[operand].get((where, index), False)
    return stored


def times(node, reads):
    """Return how often an element is computed where it is read: by a map that only a part of the elements is read by, that part of once."""
    moves = isinstance(node.form, Index | Piecewise)  # which computes nothing
    volumes: dict = {}
    computed = 0
    for read, whole in reads.items():
        elements = math.prod(sum(piece[1] - piece[0] for piece in p.pieces) for p in read[1] if isinstance(p, AffineIndex))
        key = overlap(read)
        volumes[key] = volumes.get(key, 0) + elements
        computed += elements * (turns_around(*read) if whole and not moves else 1)
    return computed / max(volumes.values(), default=1)


def turns_around(where, at):
    """Return how often the loops over the other axes come back to an element: those around the innermost one of its own."""
    if type(where) is str:
        return 1
    own = {p.axis for p in at if isinstance(p, AffineIndex) and p.axis < len(where[0])}
    return math.prod(n for axis, n in enumerate(where[0][: max(own, default=0)]) if axis not in own)


def stands_outside(node, reads):
    """Return whether a large elementwise value is read in loops over more axes only, where the innermost index is not its own."""

    def inside(where, at):
        return type(where) is str or any(isinstance(p, AffineIndex) and p.axis >= len(where[0]) - 1 for p in at)

    return isinstance(node.form, Map) and node.size >= UNROLLED_ELEMENTS and not any(inside(*read) for read in reads)


def in_slabs(node):
    """Return whether a value is another one at each position of its short last axis, which is no loop then."""
    if not isinstance(node.form, Piecewise) or node.ndim < 2 or not 2 <= node.shape[-1] <= UNROLLED_ELEMENTS:
        return False
    return len(node.form.regions) == node.shape[-1] and all(region.box[-1][1] - region.box[-1][0] == 1 for region in node.form.regions)


def overlap(read):
    """Return a key of a read, the same for reads of different elements by number, and for reads by one map in different places."""
    where, at = read
    return where, tuple("one" if issubclass(type(p), int) else (p.axis, *sorted({piece[2:] for piece in p.pieces})) for p in at)


def phases(order):
    """Return how many whole passes come before each node."""
    phase: dict[Node, int] = {}
    for node in order:
        phase[node] = max(
            (phase[operand] + isinstance(operand.form, Reduce | Cumulative | Scatter | Call) for operand in operands(node)),
            default=0,
        )
    return phase


def through(maps, at):
    """Return the positions that maps say; those of `GatherIndex` are all alike."""
    return positions(maps, at, lambda *_: 0)


def pulled(form, at):
    """Yield the operands of a form with the indices that they are read at, for an element at the index `at`."""
    if isinstance(form, Map):
        yield from ((operand, broadcast_at(operand, at)) for operand in form.operands)
    elif isinstance(form, Index):
        yield form.source, through(form.maps, at)
        for entry in form.maps:
            if isinstance(entry, GatherIndex):
                yield entry.array, through(entry.at, at)
    elif isinstance(form, Piecewise):
        yield form.base, at
        for region in form.regions:
            if not any(guard(position, low, high) is False for position, (low, high) in zip(at, region.box, strict=True)):
                yield region.source, through(region.maps, at)
    elif isinstance(form, Reduce):
        inner = iter(at)
        yield (
            form.source,
            tuple(AffineIndex(100 + k, ((0, n, 1, 0),)) if k in form.axes else next(inner) for k, n in enumerate(form.source.shape)),
        )
    elif isinstance(form, Cumulative):
        yield form.source, at


# --- nests -------------------------------------------------------------------------------------------------------------------------


def steps_of(order, stored):
    """Return the parts and calls in order: a part holds the nests between two rounds of calls."""
    level: dict[Node, int] = {}
    cost = costs(order, stored)
    nests: dict[int, list[Nest]] = {}
    calls: dict[int, list[Node]] = {}
    home: dict[Node, tuple[int, int]] = {}
    for node in order:
        level[node] = max((level[operand] for operand in operands(node)), default=0)
        if isinstance(node.form, Call):
            level[node] += 1
            calls.setdefault(level[node], []).append(node)
        if node in stored:
            place(node, level[node], nests.setdefault(level[node], []), home, stored, cost)
    steps: list = []
    for k in range(max(level.values(), default=0) + 1):
        steps += calls.get(k, [])
        if nests.get(k):
            steps.append(Part(nests[k]))
    return steps


def place(root, level, nests, home, stored, cost):
    """Put a root into the first nest of its index space that it may join, or into a new one."""
    kind = (
        "unrolled" if is_unrolled(root, cost)
        else "scan" if isinstance(root.form, Cumulative)
        else "scatter" if isinstance(root.form, Scatter)
        else "loops"
    )  # fmt: skip
    shape = () if kind == "unrolled" else root.form.source.shape if isinstance(root.form, Reduce) else root.shape
    first = 0
    for other, same, plain in stored_reads(root, stored):
        if home.get(other, (-1, 0))[0] == level:
            at = home[other][1]
            allowed = plain if kind == "unrolled" else kind == "loops" and same and not isinstance(other.form, Reduce)
            joins = allowed and nests[at].kind == kind
            first = max(first, at if joins else at + 1)
    for at in range(first, len(nests)):
        nest = nests[at]
        if nest.kind == kind == "unrolled":
            break
        together = len(nest.roots) < 3 * LANES and not any(map(is_product, (root, *nest.roots)))
        if nest.kind == kind == "loops" and nest.shape == shape and together:
            break
    else:
        at = len(nests)
        nests.append(Nest(kind, shape))
    nests[at].roots.append(root)
    home[root] = level, at


def local_roots(steps, stored, outputs):
    """Return the elementwise roots that nothing reads but roots of their own loops, at their own index."""
    home = homes(steps)
    read = {operand for step in steps if not isinstance(step, Part) for operand in step.form.operands}
    read = {memory_of(node) for node in (*outputs, *read)}
    for root, nest in home.items():
        read.update(other for other, same, _ in stored_reads(root, stored) if not same or home.get(other) is not nest)
    return {
        root for root, nest in home.items() if nest.kind == "loops" and isinstance(root.form, Map | Index | Piecewise) and root not in read
    }


def homes(steps):
    """Return the nest of each root."""
    return {root: nest for step in steps if isinstance(step, Part) for nest in step.nests for root in nest.roots}


def adds(plan, node):
    """Return whether an output may be added to what its buffer holds: its loops store each element once, and nothing reads it."""
    home = homes(plan.steps)
    nest = home.get(node)
    if nest is None or nest.kind != "loops" or not isinstance(node.form, Map | Index | Piecewise) or plan.outputs.count(node) > 1:
        return False
    if any(other is node for root in home for other, *_ in stored_reads(root, plan.stored)):
        return False
    called = {memory_of(operand) for step in plan.steps if not isinstance(step, Part) for operand in step.form.operands}
    angles = (isinstance(inner.form, Map) and inner.form.scalar.of_angle for inner in inlined(nest, plan.stored))  # are emitted twice
    return node not in called and not any(angles)


def inlined(nest, stored):
    """Return the nodes that the loops of a nest compute."""
    return reachable(nest.roots, lambda node: [x for x in operands(node) if x not in stored and not is_available(x)])


def is_product(root):
    """Return whether a root is a sum of products, which has loops of its own: it needs all registers."""
    return isinstance(root.form, Reduce) and root.form.fused


def stored_reads(root, stored):
    """Yield the stored nodes that a root reads, whether at its own index only, and whether at positions known beforehand."""
    form = root.form
    stack = [(operand, same_index(form, root, operand), direct(form, operand)) for operand in form.operands]
    if isinstance(form, Reduce):
        stack = [(form.source, True, True)]
    seen = set()
    while stack:
        node, same, plain = stack.pop()
        if (node, same, plain) in seen:
            continue
        seen.add((node, same, plain))
        if node in stored:
            yield node, same, plain
        elif isinstance(node.form, Buffer) and node.form.view_of is not None:
            stack.append((node.form.view_of, False, plain))
        elif not is_available(node):
            stack += [(x, same and same_index(node.form, node, x), plain and direct(node.form, x)) for x in operands(node)]


def direct(form, operand):
    """Return whether a form reads an operand at positions that are known beforehand."""
    return not (isinstance(form, Index) and operand is form.source and any(isinstance(entry, GatherIndex) for entry in form.maps))


def same_index(form, node, operand):
    """Return whether a form reads an operand at its own index."""
    return operand.shape == node.shape and (isinstance(form, Map) or (isinstance(form, Piecewise) and operand is form.base))
