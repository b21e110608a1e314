"""explain: the evaluation trace of a function as textbooks print it, forward and then in reverse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from dualad.core.dispatch import primal
from dualad.forward.seeding import check_function, check_scalar, flatten_input
from dualad.support.callers import trimmed

from ..support.tables import html, markdown, text
from .entries import ZERO, Adjoints
from .tape import Tape, Var

# --- public -----------------------------------------------------------------------------------------------------------------


@trimmed
def explain(f: Callable[..., Any], *args: Any, seed: int = 0) -> Explanation:
    """Record `f` and return its evaluation trace: every node with its value, its tangent and its adjoint.

    Parameters
    ----------
    f : function that returns one number.
    args : the point; pytrees of numbers and arrays.
    seed : which input (leaf of the arguments, counted from 0) the tangents are with respect to; an array is seeded with ones.

    Returns
    -------
    Explanation, to print, or ``to_markdown()``, ``to_dot()`` (for Graphviz).

    Raises
    ------
    TypeError
        Where f does not return one number.
    ValueError
        Where `seed` names no input.

    Notes
    -----
    Inputs are v_{1-n} ... v_0, then every operation gets the next number (Griewank & Walther 2008, table 1.2). The numbers are a
    topological order: a node depends on earlier ones only.

    Examples
    --------
    >>> import numpy as np
    >>> from checkpoint import explain
    >>> print(explain(lambda x1, x2: np.log(x1) + x1 * x2 - np.sin(x2), 2.0, 5.0))
    node  operation              value  tangent  adjoint
    v-1   input 1                    2        1      5.5
    v0    input 2                    5        0  1.71634
    v1    log(v-1)            0.693147      0.5        1
    v2    multiply(v-1, v0)         10        5        1
    v3    add(v1, v2)          10.6931      5.5        1
    v4    sin(v0)            -0.958924        0       -1
    v5    subtract(v3, v4)     11.6521      5.5        1
    tangents by input 1; adjoints of v5
    """
    check_function(f, "explain")
    leaves, structure = flatten_input(args, "explain")
    if not issubclass(type(seed), int | np.integer) or type(seed) is bool or not 0 <= seed < len(leaves):
        raise ValueError(f"explain: seed is {seed!r}: give the number of an input, 0 to {len(leaves) - 1}")
    with Trace() as tape:
        inputs = tape.inputs(leaves)
        for var in inputs:
            tape.values[var.node] = var.primal
        out = f(*optree.tree_unflatten(structure, inputs))
        check_scalar(out, "explain")
        ours = type(out) is Var and out.level is tape
        output = out._refresh().node if ours else None
    return Explanation(trace_lines(tape, len(leaves), output, seed), None if output is None else output - len(leaves) + 1, int(seed))


@dataclass(frozen=True)
class Line:
    """One node of an evaluation trace."""

    number: int
    operation: str
    parents: tuple[int, ...]
    value: Any
    tangent: Any
    adjoint: Any
    needed: bool


@dataclass(frozen=True)
class Explanation:
    """An evaluation trace; see `explain`.

    Attributes
    ----------
    lines : list of Line, in topological order.
    output : number of the node that is the result; None where the result does not depend on the inputs.
    seed : the input that the tangents are with respect to.
    """

    lines: list[Line]
    output: int | None
    seed: int

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Return the table's cells."""
        operations = [line.operation + ("" if line.needed else "  (not needed)") for line in self.lines]
        numbers = [(as_text(line.value), as_text(line.tangent), as_text(line.adjoint)) for line in self.lines]
        return [(f"v{line.number}", said, *row) for line, said, row in zip(self.lines, operations, numbers, strict=True)]

    def note(self) -> str:
        """Return the input and the result that the columns refer to."""
        adjoints = f"adjoints of v{self.output}" if self.output is not None else "the result does not depend on the inputs"
        return f"tangents by input {self.seed + 1}; {adjoints}"

    def __str__(self) -> str:
        return f"{text([HEADER, *self.rows()], left=2)}\n{self.note()}"

    def to_markdown(self) -> str:
        """Return the trace as a Markdown table."""
        return f"{markdown([HEADER, *self.rows()], left=2)}\n\n{self.note()}"

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        return html([HEADER, *self.rows()], self.note(), left=2)

    def to_dot(self) -> str:
        """Return the graph in Graphviz's language; what the result does not need is dashed."""
        out = ["digraph trace {", "  rankdir=BT;"]
        for line in self.lines:
            style = "" if line.needed else ", style=dashed"
            out.append(f'  "v{line.number}" [label="v{line.number} = {line.operation}\\n{as_text(line.value)}"{style}];')
            out += [f'  "v{parent}" -> "v{line.number}";' for parent in line.parents]
        return "\n".join([*out, "}"])


# --- parts ------------------------------------------------------------------------------------------------------------------

HEADER = ("node", "operation", "value", "tangent", "adjoint")


class Trace(Tape):
    """A tape that keeps every value and on which no operation takes a short path."""

    __slots__ = ("names", "values")
    watched = True

    def __init__(self) -> None:
        super().__init__()
        self.plain = False
        self.values: dict[int, Any] = {}
        self.names: dict[int, tuple[str, list[Any]]] = {}

    def record(self, entry: Any) -> Any:
        """Keep every entry on the tape, also those that nothing needs."""
        return self.keep(super().record(entry))

    def watch(self, row: Any, args: Any, result: Any) -> None:
        """Keep the value and the spelling of an operation."""
        if result.node is not None:
            self.values[result.node] = result.primal
            self.names[result.node] = (
                row.name.rpartition(".")[2],
                [arg.node if isinstance(arg, Var) and arg.level is self and arg.node is not None else as_text(primal(arg)) for arg in args],
            )


def trace_lines(tape: Trace, inputs: int, output: int | None, seed: int) -> list[Line]:
    nodes = tape.entries
    ones = np.ones_like(tape.values[seed])[()]
    tangents = tape.push([(seed, ones)], range(len(nodes)))
    adjoints, found, needed = Adjoints(nodes.copy(), [ZERO] * len(nodes)), {}, set()
    if output is not None:
        adjoints.add(output, 1.0, False)
        needed.add(output)
    for k in range(len(nodes) - 1, -1, -1):
        g = adjoints.values[k]
        if k in needed:
            needed.update(parents_of(nodes[k]))
        if g is ZERO:
            continue
        found[k] = np.copy(g)[()] if issubclass(type(g), np.ndarray) else g
        if nodes[k] is not None:
            with np.errstate(all="ignore"):
                nodes[k].pull(k, g, adjoints)
            adjoints.values[k] = ZERO
    shift = 1 - inputs
    lines = []
    for k, entry in enumerate(nodes):
        if entry is None:
            operation = f"input {k + 1}"
        else:
            name, args = tape.names.get(k, (getattr(entry, "title", type(entry).__name__.lower()), parents_of(entry)))
            operation = f"{name}({', '.join(f'v{arg + shift}' if issubclass(type(arg), int) else arg for arg in args if arg != '')})"
        parents, tangent = tuple(parent + shift for parent in parents_of(entry)), 0.0 if tangents[k] is None else tangents[k]
        adjoint, needs = found.get(k, 0.0), k in needed
        lines.append(Line(k + shift, operation, parents, tape.values.get(k), ones if k == seed else tangent, adjoint, needs))
    return lines


def parents_of(entry: Any) -> tuple[Any, ...]:
    return () if entry is None else tuple(entry.parents)


def as_text(x: Any) -> str:
    if x is None:
        return ""
    if isinstance(x, list | tuple):
        return "[" + ", ".join(map(as_text, x)) + "]"
    if isinstance(x, slice):
        return ":".join("" if part is None else str(part) for part in (x.start, x.stop, x.step)[: 3 if x.step is not None else 2])
    x = primal(x)
    if issubclass(type(x), int | float | np.number):
        return f"{x:.6g}"
    if issubclass(type(x), np.ndarray):
        return np.array2string(x, precision=4, separator=", ").replace("\n", "") if x.size <= 4 else f"array{x.shape}"
    return str(x)
