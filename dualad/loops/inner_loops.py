"""The lowering of functions with a ufunc underneath: a call of its inner loop, on buffers.

Whether the loop computes what the function does is asked of both, with examples of the arguments, when a program is lowered: bit for bit.
Where it does not, or there is no such loop, the function is called.
"""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np

from ..graph.program import Operation, Value, map_values
from ..rules.inner import InnerLoop
from ..rules.kinds import ROWS
from ..support.ufunc_loops import address_of, call_loop, flag_functions, ufunc_named
from .forms import Call, Made, Node, NoLoopForm, broadcast, converted, in_memory, operand_type
from .moves import as_node


@dataclass(frozen=True, eq=False, slots=True)
class CallOfLoop(Call):
    """A call of an inner loop for each of some turns over equal parts of the arrays; its results are `Made`, of these shapes and dtypes."""

    ufunc: str
    types: str
    layout: Layout
    raises: bool
    overwrites: bool
    results: tuple[tuple[tuple[int, ...], np.dtype], ...]


@dataclass(frozen=True)
class Layout:
    """How a loop finds the elements: its lengths, its strides in bytes, and in how many equal parts the arrays `parted` are given to it."""

    dimensions: tuple[int, ...]
    steps: tuple[int, ...]
    turns: int = 1
    parted: tuple[bool, ...] = ()


def by_inner_loop(operation: Operation, nodes: dict[Value, Node]) -> list[Node]:
    """Return the nodes of the results of an operation; where no inner loop computes it, raise `NoLoopForm`."""
    args, kwargs = (map_values(nodes.__getitem__, part) for part in (operation.args, operation.kwargs))
    asked = called_ufunc(operation.fn, args, kwargs)
    in_memory(operation)
    try:
        step = laid_out(operation, asked)
        check(operation, step, asked.result)
    except LookupError as reason:
        raise NoLoopForm(str(reason)) from None
    call = Node(step, (), float)
    made = [Node(Made((call,), k), shape, dtype) for k, (shape, dtype) in enumerate(step.results)]
    return made if asked.result is None else [made[asked.result]]


def called_ufunc(fn, args, kwargs) -> InnerLoop:
    """Return what the row of a function says of the ufunc underneath it."""
    row = ROWS.get(fn)
    if row is None or not row.trusted:
        raise NoLoopForm("it has no inner loop")
    try:
        if row.inner is not None:
            return row.inner(*args, **kwargs)
        if type(fn) is np.ufunc and (row.elementwise or row.kind == "refused") and not kwargs:
            return InnerLoop(name_of(fn), args)
    except TypeError:
        pass
    except LookupError as reason:
        raise NoLoopForm(str(reason)) from None
    raise NoLoopForm("it has no inner loop")


@cache
def name_of(ufunc):
    """Return the name that an elementwise ufunc is found by."""
    for module in ("numpy", "scipy.special", "scipy.special._ufuncs"):
        try:
            if ufunc_named(f"{module}.{ufunc.__name__}") is ufunc:
                return f"{module}.{ufunc.__name__}"
        except LookupError:
            pass
    raise NoLoopForm("it has no inner loop")


# --- where the loop finds the elements ------------------------------------------------------------------------------------------------


def laid_out(operation, asked):
    """Return the step that calls a loop."""
    ufunc = ufunc_named(asked.ufunc)
    operands = list(map(as_node, asked.operands))
    types = asked.types or types_of(ufunc, operands)
    letters = types.replace("->", "")
    if asked.types is None and types not in ufunc.types:  # another letter of the same type
        types = next((t for t in ufunc.types if [*map(np.dtype, t.replace("->", ""))] == [*map(np.dtype, letters)]), types)
    address_of(asked.ufunc, types)
    dtypes = [np.dtype(letter) for letter in letters]
    cores = cores_of(ufunc)
    shapes = [out.shape for out in operation.outputs[asked.overwrites :]]
    if asked.result is not None:  # of an elementwise function
        shapes = [operation.outputs[0].shape] * ufunc.nout
    axis = asked.axis % len(shapes[0]) if cores[0] and asked.axis != -1 else len(shapes[0]) - len(cores[ufunc.nin])
    rest = len(shapes[0]) - len(cores[ufunc.nin]) - axis  # axes behind it
    around = shapes[0][:axis] + shapes[0][len(shapes[0]) - rest :]
    placed = [fitted(node, dtype, core, around, rest) for node, dtype, core in zip(operands, dtypes, cores, strict=False)]
    layout = layout_of([*(node.shape for node in placed), *shapes], dtypes, cores, axis, rest)
    raises = ROWS[operation.fn].raises
    if raises:
        flag_functions()
    results = list(zip(shapes, dtypes[ufunc.nin :], strict=True))
    if asked.overwrites:
        results.insert(0, (placed[0].shape, dtypes[0]))
    return CallOfLoop(operation, tuple(placed), "", asked.ufunc, types, layout, raises, asked.overwrites, tuple(results))


def types_of(ufunc, operands):
    """Return the types in which NumPy computes an elementwise ufunc."""
    given = [operand_type(node) for node in operands]
    if all(isinstance(one, type) for one in given):  # numbers of Python alone
        given = [np.dtype(one) for one in given]
    try:
        dtypes = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout))
    except TypeError as reason:
        raise LookupError(str(reason)) from None
    letters = "".join(dtype.char for dtype in dtypes)
    return f"{letters[: ufunc.nin]}->{letters[ufunc.nin :]}"


def cores_of(ufunc):
    """Return the names of the axes that each argument has in one call of a loop."""
    if ufunc.signature is None:
        return [()] * ufunc.nargs
    return [tuple(re.findall(r"\w+", core)) for core in re.findall(r"\(([^)]*)\)", ufunc.signature)]


def fitted(node, dtype, core, around, rest):
    """Return an operand of a loop's dtype, in the shape of the results or one number for all of them."""
    if node.size == 1 and not core:
        return converted(node, dtype)
    behind = node.ndim - rest - len(core)
    shape = (*around[: len(around) - rest], *node.shape[behind : behind + len(core)], *around[len(around) - rest :])
    return broadcast(converted(node, dtype), shape)


def layout_of(shapes, dtypes, cores, axis, rest):
    """Return how a loop finds the elements of arrays with its own axes from `axis` on, and with `rest` more axes behind them."""
    lengths: dict[str, int] = {}
    outer, inner, parted = [], [], []
    for shape, dtype, core in zip(shapes, dtypes, cores, strict=True):
        own = shape[axis : axis + len(core)]
        lengths.update(zip(core, own, strict=True))
        several = bool(shape) and (bool(core) or math.prod(shape) > 1)
        inside = math.prod(shape[axis + len(core) :]) if core else 1
        outer.append(dtype.itemsize * (math.prod(own) if inside == 1 else 1) if several else 0)
        inner += [dtype.itemsize * inside * math.prod(own[k + 1 :]) for k in range(len(core))]
        parted.append(several)
    before, behind = math.prod(shapes[-1][:axis]), math.prod(shapes[-1][len(shapes[-1]) - rest :]) if rest else 1
    turns = before if before > 1 and behind > 1 else 1
    return Layout((before * behind // turns, *lengths.values()), (*outer, *inner), turns, tuple(parted))


# --- whether it computes what the function does ---------------------------------------------------------------------------------------

#: by what was asked, the reason why a loop is not called, nothing where it may be
CHECKED: dict[tuple, str] = {}


def check(operation, step, result):
    """Raise LookupError where a loop does not give the bits of the function."""
    args, kwargs = (map_values(lambda value: value.type, part) for part in (operation.args, operation.kwargs))
    key = ROWS[operation.fn].name, step.ufunc, step.types, step.layout, result, repr(args), repr(kwargs)
    if key not in CHECKED:
        CHECKED[key] = "" if agrees(operation, step, result) else f"the loop {step.types} of {step.ufunc} gives other values"
    if CHECKED[key]:
        raise LookupError(CHECKED[key])


def agrees(operation, step, result):
    """Return whether a loop gives the bits of the function, for examples of its arguments."""
    args, kwargs = (map_values(example, part) for part in (operation.args, operation.kwargs))
    letters = step.types.replace("->", "")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = operation.call(*args, **kwargs)
        except np.linalg.LinAlgError:
            return False
        asked = called_ufunc(operation.fn, args, kwargs).operands
        given = [
            np.array(np.broadcast_to(np.asarray(x).astype(letter), node.shape), order="C")
            for x, letter, node in zip(asked, letters, step.operands, strict=False)
        ]
        found = [np.empty(shape, dtype) for shape, dtype in step.results[step.overwrites :]]
        run(step, [*given, *found])
        found = [*given[: step.overwrites], *found]
    pairs = zip(expected if operation.several else [expected], found if result is None else [found[result]], strict=True)
    return all(same(*pair) for pair in pairs)


def run(step, arrays):
    """Call the loop of a step."""
    turns, parted = step.layout.turns, step.layout.parted
    for turn in range(turns):
        parts = [x.reshape(turns, -1)[turn] if turns > 1 and apart else x for x, apart in zip(arrays, parted, strict=True)]
        call_loop(step.ufunc, step.types, step.layout.dimensions, step.layout.steps, *parts, raises=step.raises)


def same(expected, found):
    expected, found = np.asarray(expected), np.asarray(found)
    return expected.shape == found.shape and expected.tobytes() == found.astype(expected.dtype).tobytes()


def example(value):
    """Return an argument like a value; matrices are Hermitian and positive definite."""
    count = np.arange(value.size).reshape(value.shape)
    x = count % 3 + 1 if value.dtype.kind in "iub" else 0.5 + 0.45 * np.sin(1.7 * count + 1.0)
    if value.dtype.kind == "c":
        x = x + 0.3j * np.cos(2.3 * count)
    if value.ndim > 1 and value.shape[-1] == value.shape[-2]:
        x = x + np.swapaxes(x.conj(), -1, -2) + 6 * value.shape[-1] * np.eye(value.shape[-1])
    x = x.astype(value.dtype)
    return x if value.kind == "array" else x.item() if value.kind == "python" else x[()]
