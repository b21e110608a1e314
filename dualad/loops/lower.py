"""The lowering of each function with a row: its loop form, or why compiled code calls it instead.

Elementwise functions are expressions (`maps`); here stand those that move elements, and those that reduce. A rule gets the operation's
arguments with `Node`s for values and returns a node; it raises `NoLoopForm` where this call of it has no loop form.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache

from ..graph.nested import Branch, Scan
from ..graph.program import Program, Value, map_values
from ..graph.trace import Trace
from ..ir.values import choose
from ..rules.indexing import cast, discretize, getitem, stated
from ..rules.kinds import ROWS, row_says
from ..rules.names import np
from ..rules.scalars import IMAGINARY, REAL_PART, Scalar, kernel
from ..rules.shapes import select
from ..rules.ufuncs import softmax_share
from ..support.costs import UNROLLED_ELEMENTS
from . import elimination, moves, orders, sums
from .forms import (
    LOWERINGS,
    Buffer,
    Call,
    Choose,
    Fill,
    Made,
    Map,
    Node,
    NoLoopForm,
    Repeat,
    broadcast,
    buffer,
    converted,
    copied,
    fill,
    in_memory,
    mapped,
    operands,
    parts_of,
    reachable,
)
from .inner_loops import by_inner_loop, example, same
from .maps import scalar_of
from .python_calls import by_python

ROOMS = (elimination, moves, orders, sums)  # whose rules enter the table


def lower(
    program: Program, inner_loops: bool = False, inside: bool = False, given: Iterable[Node] | None = None, inlined: bool = False
) -> dict[Value, Node]:
    """Return the node of every value of a program, whose inputs may be `given`; with `inner_loops`, compiled code calls those of ufuncs.

    Other functions without loops are called by Python between the loops, or by compiled code if the program is `inside` a loop. In a
    program that is `inlined` in another one such functions are refused.
    """
    nodes = dict(zip(program.inputs, map(buffer, program.inputs) if given is None else given, strict=True))
    for value, array in program.constants.items():
        first = array.ravel()[:1]
        same = array.size and array.dtype.kind in "fiub" and array.tobytes() == first.tobytes() * array.size
        nodes[value] = Node(Fill(first[0]) if same else Buffer(value, array), value.shape, value.dtype, value.weak)
    for operation in program.operations:
        try:
            results = WHOLE.get(type(operation.fn), lowered)(operation, nodes)
        except NoLoopForm as reason:
            results = called(operation, nodes, str(reason), inner_loops, inside, inlined)
        for out, node in zip(operation.outputs, results, strict=True):
            nodes[out] = node
            if node.line is None and not isinstance(node.form, Fill):
                node.line = operation.line
    return nodes


def called(operation, nodes, reason, inner_loops, inside, inlined):
    """Return the nodes of the results of an operation that has no loops: of its code, of the loop of a ufunc, else of a call."""
    if inner_loops:
        try:
            made = by_code(operation, nodes) if row_says(operation.fn, "inlined") else by_inner_loop(operation, nodes)
            return tuple(map(exactly, made, operation.outputs))
        except NoLoopForm as other:
            underneath = row_says(operation.fn, "inner") or row_says(operation.fn, "inlined")
            reason = f"{reason}; {other}" if underneath else reason
    if inlined:
        raise NoLoopForm(reason)
    if inside:
        with suppress(NoLoopForm):
            return tuple(map(exactly, by_python(operation, nodes, reason), operation.outputs))
    made = (Node(Call(operation, tuple(nodes[value] for value in operation.reads), reason), (), float),)
    return tuple(Node(Buffer(out, None, None, made), out.shape, out.dtype, out.weak) for out in operation.outputs)


def by_code(operation, nodes):
    """Return the nodes of the results of a function of our own, made of what its code calls."""
    fn, said = operation.fn, ROWS[operation.fn].inlined
    if said is not True and not gives_the_same(operation, said):
        raise NoLoopForm(f"{said.__name__} gives other values")
    with Trace() as tracing:
        tracing.line = operation.line
        symbols = {value: tracing.input(example(value)) for value in operation.reads}
        args, kwargs = (map_values(symbols.__getitem__, part) for part in (operation.args, operation.kwargs))
        try:
            result = (fn.plain if said is True else said)(*args, **kwargs)
        except TypeError as error:  # of the trace, or for an argument that is no array
            raise NoLoopForm(str(error)) from None
        program = tracing.finish(list(result) if operation.several else [result])
    if tracing.tests:
        raise NoLoopForm("its way depends on values")
    made = lower(program, True, given=[nodes[value] for value in operation.reads], inlined=True)
    return [made[out] for out in program.outputs]


def gives_the_same(operation, said):
    """Return whether another function gives the bits of that of an operation, for examples of the arguments."""
    args, kwargs = (map_values(example, part) for part in (operation.args, operation.kwargs))
    with np.errstate(all="ignore"):
        try:
            pair = operation.call(*args, **kwargs), said(*args, **kwargs)
        except LookupError:  # a ufunc that NumPy has no more
            return False
    return all(map(same, *(pair if operation.several else zip(pair))))


def repeated(operation, nodes):
    """Return the nodes of the results of a loop."""
    loop = operation.fn
    shapes = [value.shape for value in loop.body.inputs[1:]]
    shapes[loop.carried : loop.carried + loop.rows] = [(loop.count, *shape) for shape in shapes[loop.carried : loop.carried + loop.rows]]
    operands = operands_of(operation.args, loop.body.inputs[1:], shapes, nodes)
    return results_of(operation, Repeat(operation, operands, "its turns call functions"))


def chosen(operation, nodes):
    """Return the nodes of the results of a branch."""
    test, *values = operation.args
    inputs = operation.fn.then.inputs
    given = operands_of(values, inputs, [value.shape for value in inputs], nodes)
    condition = nodes[test] if isinstance(test, Value) else fill(test)
    with suppress(NoLoopForm):
        return selected(operation, condition, given)
    return results_of(operation, Choose(operation, (condition, *given), "its programs call functions"))


def selected(operation, condition, given):
    """Return the nodes of the results of a branch of which both programs are computed, element by element, as that takes so little."""
    programs = operation.fn.bodies.values()
    if sum(len(program.operations) for program in programs) > UNROLLED_ELEMENTS // 4 or not any(out.shape for out in operation.outputs):
        raise NoLoopForm("it would take longer")
    arms = []
    for program in programs:
        nodes = lower(program, given=given, inlined=True)
        arms.append([nodes[out] if type(out) is Value else fill(out) for out in program.outputs])
    made = [node for node in reachable([*arms[0], *arms[1]], lambda node: () if node in given else operands(node)) if node not in given]
    if any(type(node.form) not in (Map, Fill) or node.dtype.kind not in "fb" for node in made):
        raise NoLoopForm("it is not elementwise")
    if sum(node.form.scalar.cost for node in made if type(node.form) is Map) > UNROLLED_ELEMENTS // 4:
        raise NoLoopForm("it would take longer")
    return tuple(exactly(mapped(select, condition, *pair, out=out.dtype), out) for *pair, out in zip(*arms, operation.outputs, strict=True))


def operands_of(args, inputs, shapes, nodes):
    """Return the nodes of arguments of which programs are computed, as these have them for inputs."""
    operands = [
        converted(nodes[arg] if isinstance(arg, Value) else fill(arg), value.dtype) for arg, value in zip(args, inputs, strict=True)
    ]
    if [node.shape for node in operands] != shapes:
        raise NoLoopForm("an argument has another shape")
    return tuple(operands)


def results_of(operation, form):
    """Return the nodes of the results of programs that are computed as a whole."""
    in_memory(operation)
    whole = (Node(form, (), float),)
    return tuple(Node(Made(whole), out.shape, out.dtype, out.weak) for out in operation.outputs)


WHOLE = {Scan: repeated, Branch: chosen}


def lowered(operation, nodes):
    """Return the nodes of the results of an operation."""
    fn, outs = operation.fn, operation.outputs
    rule = rule_of(fn)
    if operation.several and rule is None:
        raise NoLoopForm(reason_of(fn) or "it has several results")
    in_memory(operation)
    given = outs if operation.several else outs[0]
    args, kwargs = (map_values(nodes.__getitem__, part) for part in (operation.args, operation.kwargs))
    if rule is not None:
        try:
            bound = signature_of(rule).bind(given, *args, **kwargs)
        except TypeError:
            raise NoLoopForm("it has keywords that the loops have not") from None
        for name in NUMBERS & bound.arguments.keys():
            bound.arguments[name] = plain(bound.arguments[name])
        if "ops" in bound.arguments:  # an index may be computed
            bound.arguments["ops"] = [(fn, *args) if fn is getitem else (fn, *map(plain, args)) for fn, *args in bound.arguments["ops"]]
        made = rule(*bound.args, **bound.kwargs)
    elif (scalar := scalar_of(fn)) is not None and not kwargs:
        made = elementwise(fn, given, args)
    else:
        raise NoLoopForm("it has keywords" if scalar is not None else reason_of(fn) or "it has no loop form")
    return tuple(map(exactly, made if operation.several else [made], outs))


#: arguments of rules that say axes, lengths and places, in numbers that are known
NUMBERS = {
    "axes", "axis", "count", "ddof", "decimals", "k", "options", "pad_width", "reps", "rest", "shape", "size", "window_shape",
}  # fmt: skip


@cache
def signature_of(rule: Callable) -> inspect.Signature:
    return inspect.signature(rule)


def plain(part):
    """Return an argument with numbers for nodes; one that is computed has no loop form."""
    if isinstance(part, tuple | list):
        return type(part)(map(plain, part))
    if isinstance(part, dict):
        return {key: plain(value) for key, value in part.items()}
    return moves.known(part)[()] if isinstance(part, Node) else part


def rule_of(fn):
    """Return the rule that lowers a function: the one that its row names, or that follows from what the row says; None without one."""
    row = ROWS.get(fn)
    if row is None:
        return None
    if row.lower is not None:
        return LOWERINGS[row.lower]
    if row.trusted and row.moves and row.alone and row.called is None:
        return moves.copy if row.elementwise else moves.viewed(fn) if row.view else None
    return None


def exactly(node, out):
    """Return a node of the shape and dtype of a value."""
    if node.shape != out.shape:
        node = broadcast(node, out.shape)
    if node.dtype != out.dtype and not (out.dtype.kind == "b" and node.dtype.kind == "f"):
        node = converted(node, out.dtype)
    if node.weak != out.weak:
        node = copied(node, node.dtype, out.weak)
    return node


def elementwise(fn, out, args):
    if fn in (cast, discretize) or (fn is stated and isinstance(args[0], Node)):  # nothing is computed of what is not read
        return converted(args[0], out.dtype)
    if not all(issubclass(type(arg), Node | int | float | complex | np.number | np.bool_) for arg in args):
        raise NoLoopForm("an argument is no array or number")
    if fn is softmax_share and len(args) == 2:
        args = (*args, 1.0)
    if len(args) != scalar_of(fn).count:
        raise NoLoopForm(f"of {len(args)} arguments")
    return mapped(fn, *args, out=out.dtype)


def power(out, x, y):
    if out.dtype.kind == "f" and not isinstance(y, Node):
        x, y = x if x.dtype == out.dtype else converted(x, out.dtype), float(y)
        if y in POWERS:
            return POWERS[y](x)
    return elementwise(np.power, out, (x, y))


def hypot(out, x, y):
    z = whole_of(x, y)
    return elementwise(np.hypot, out, (x, y)) if z is None else mapped(np.absolute, z)


def exp(out, z):
    """Return the exponential, that of complex numbers made of functions of real ones."""
    if out.dtype.kind != "c":
        return elementwise(np.exp, out, (z,))
    z = converted(z if isinstance(z, Node) else fill(z), np.dtype(complex))

    x, y = parts_of(z)
    operands = x, y, mapped(np.exp, Node(Map(BELOW_OVERFLOW, (x,), (x.dtype,)), x.shape, float)), mapped(np.cos, y), mapped(np.sin, y)
    return converted(Node(Map(TURN, operands, (x.dtype,) * 5), z.shape, complex), out.dtype)


BELOW_OVERFLOW = Scalar(lambda x: x - choose(x > 700.0, 100.0, 0.0), 3)
TURN = kernel("complex_turn", 5, 6, dtype="complex128")


def whole_of(x, y):
    """Return the complex node of which two are the real and the imaginary part, None where there is none."""
    if not all(isinstance(part, Node) and isinstance(part.form, Map) for part in (x, y)) or x.form.operands != y.form.operands:
        return None
    return x.form.operands[0] if (x.form.scalar, y.form.scalar) == (REAL_PART, IMAGINARY) else None


POWERS = {
    1.0: lambda x: x,
    2.0: lambda x: mapped(np.square, x),
    0.5: lambda x: mapped(np.sqrt, x),
    -1.0: lambda x: mapped(np.reciprocal, x),
}
LOWERINGS.update(power=power, hypot=hypot, exp=exp)


# --- what is called -----------------------------------------------------------------------------------------------------------------

LIBRARIES = {
    "numpy.fft.": "it is a Fourier transform",
    "numpy.linalg.": elimination.CALLED,
    "scipy.": "SciPy evaluates it",
    "dualad.rules.special": "SciPy evaluates it",
}


def reason_of(fn):
    """Return why the loops call a function that they have no form of, None where its row does not say."""
    row = ROWS.get(fn)
    if row is None or row.called is not None:
        return row and row.called
    if row.metadata:
        return "its result is no array of numbers"
    if row.data_shaped:
        return "the shape of its result depends on the values"
    if type(row.axes) is tuple:
        return elimination.CALLED
    return next((reason for package, reason in LIBRARIES.items() if row.name.startswith(package)), None)


def lowering_of(fn):
    """Return what a function with a row is to the loops: ``loops``, or the reason why it is called."""
    in_loops = rule_of(fn) is not None or scalar_of(fn) is not None or row_says(fn, "inlined")
    return "loops" if in_loops else reason_of(fn)
