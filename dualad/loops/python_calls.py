"""Operations without loops, in the turns of loops: compiled code calls Python with buffers, as it calls the inner loop of a ufunc."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import count
from threading import get_ident

import numpy as np

from ..graph.program import Operation, Value, key_of, map_values
from ..rules.calling import public_name
from ..support.ufunc_loops import INVALID, enter, flag_functions
from .forms import Made, Node, NoLoopForm, converted, in_memory
from .inner_loops import CallOfLoop, Layout

#: the names under which compiled code knows them; what is entered keeps the operation, so that its function's id stays its own
NAMES: dict[tuple, str] = {}
numbers = count()
#: by thread, the error that a call raised in the compiled function that runs; until it ends, Python is called no more
failed: dict[int, BaseException] = {}


def by_python(operation: Operation, nodes: dict[Value, Node], reason: str) -> list[Node]:
    """Return the nodes of the results of an operation that is called in Python, for a reason; raise `NoLoopForm` where it cannot be."""
    values = in_memory(operation)
    types = f"{''.join(value.dtype.char for value in operation.reads)}->{''.join(out.dtype.char for out in operation.outputs)}"
    try:
        name = named(operation, types)
    except (LookupError, TypeError):  # its arguments have no key
        raise NoLoopForm(reason) from None
    layout = Layout((1,), (0,) * len(values), 1, (False,) * len(values))
    operands = tuple(converted(nodes[value], value.dtype) for value in operation.reads)
    results = tuple((out.shape, out.dtype) for out in operation.outputs)
    call = Node(CallOfLoop(operation, operands, reason, name, types, layout, True, False, results), (), float)
    return [Node(Made((call,), k), *kind) for k, kind in enumerate(results)]


def named(operation, types):
    """Return the name under which compiled code calls an operation; the same operation has the same one."""
    places = {value: i for i, value in enumerate(operation.reads)}
    shapes = [(value.shape, value.dtype.str, value.kind) for value in (*operation.reads, *operation.outputs)]
    key = id(operation.fn), operation.several, key_of(operation.args, places), key_of(operation.kwargs, places), *shapes
    if key not in NAMES:
        name = f"python_{public_name(operation.fn)}_{next(numbers)}"
        enter(name, types, called(operation))
        NAMES[key] = name
    return NAMES[key]


def called(operation: Operation) -> Callable[..., None]:
    """Return an operation as a function of the pointers of its arguments and results; an error raises the flag of an invalid operation."""
    clear, _ = flag_functions()
    raised = ctypes.CDLL(None).feraiseexcept
    function = evaluated(operation)
    taken, results = list(map(reader, operation.reads)), list(map(reader, operation.outputs))
    pointers = ctypes.c_void_p * (len(taken) + len(results))
    kinds = [(value.kind == "array", value.kind == "python") for value in operation.reads]

    def evaluate(arrays, lengths, strides, data):
        if get_ident() in failed:
            raised(INVALID)
            return
        try:
            at = pointers.from_address(arrays)
            given = [
                take(place).copy() if array else take(place)[()].item() if python else take(place)[()]
                for take, place, (array, python) in zip(taken, at, kinds, strict=False)
            ]
            with np.errstate(all="ignore"):
                made = function(*given)
            for take, place, x in zip(results, at[len(taken) :], made, strict=True):
                result = take(place)
                if np.shape(x) != result.shape:
                    raise ValueError(f"{public_name(operation.fn)} returned shape {np.shape(x)}, but {result.shape} when it was traced")
                result[...] = x
            clear(INVALID)
        except BaseException as error:
            failed[get_ident()] = error
            raised(INVALID)

    return evaluate


def evaluated(operation: Operation) -> Callable[..., tuple]:
    """Return an operation as a function of the values that it reads, which returns its results."""
    places = {value: i for i, value in enumerate(operation.reads)}

    def function(*given):
        args, kwargs = (map_values(lambda value: given[places[value]], part) for part in (operation.args, operation.kwargs))
        made = operation.call(*args, **kwargs)
        return made if operation.several else (made,)

    return function


def reader(value):
    """Return the function of a pointer that gives the array of a value there."""
    memory, dtype, shape = ctypes.c_char * (value.size * value.dtype.itemsize), value.dtype, value.shape
    return lambda pointer: np.ndarray(shape, dtype, memory.from_address(pointer))


def guarded(function: Callable) -> Callable:
    """Return a compiled function that calls Python, whose interrupts go through: after an error, steps are made again in Python."""

    def run(*args):
        failed.pop(get_ident(), None)
        try:
            return function(*args)
        except Exception:  # also of what came after it: an index that was not computed is out of bounds
            error = failed.pop(get_ident(), None)
            if error is None or isinstance(error, Exception):
                raise
            raise error from None

    return run
