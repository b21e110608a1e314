"""Program: a flat list of operations over numbered values; what is traced, optimised, lowered and emitted.

This is the whole interface between the trace, the passes and the backends::

    program(x0: float64[258], x1: weak float64)
      x2 = numpy.sin(x0)                             # float64[258]   model.py:12
      x3 = dualad.rules.indexing.getitem(x2, (slice(1, -1),))
      x4 = numpy.multiply(x3, x1)
      return x4

**Value.** A numbered value with a shape and a dtype, and a kind that says what it is to Python: an ``array`` (an ndarray, also
of no axes), a ``scalar`` (a NumPy scalar, which is immutable) or ``python`` (an int, float, complex or bool, whose dtype yields
to that of others: "weak"). `layout` is that of NumPy's result at the first call: contiguous in the order of ``C`` or ``F``, or
``A``, any other. A value is known by identity; its `number` is for reading. It is made once and never written: assignments are
operations.

**Operation.** ``outputs = fn(*args, **kwargs)``, evaluated by NumPy's semantics. `fn` is a key of the table of rules (`ROWS`; the
positional arguments are then in the row's canonical form, ``concatenate(a, b, axis=0)``, ``einsum(a, b, subscripts="ij,jk")``, and
`call` evaluates them), or one of the few functions below without a row. An operator on Python numbers alone is the ufunc, with
a result of kind ``python``. Arguments that are defaults of NumPy's functions are left out. Traced are differentiable and constant
rows, and functions of bits; bodies of composite rows have been run. In `args` and `kwargs`

* every array, traced or constant, is a `Value`, also inside tuples and lists (``getitem(x, (slice(None), i))`` with an integer
  array ``i`` or a traced integer);
* all else is a literal: numbers, slices, None, Ellipsis, dtypes, texts, `Abstract`, functions, and tuples, lists, dicts of them.

`outputs` holds one value, or several where `several` says that fn returned a tuple or list. `line` is the line of the user's code,
``(file, number)`` or None.

**Assignment** is the row ``updated(x, v, index, ops)``: a copy of ``x`` in which ``view[index]`` is ``v``, with ``view`` what the
view functions `ops` (each ``(fn, args, kwargs)``) make of ``x``, one after the other; mostly `ops` is ``()``.

**Program.** `inputs` are values, `constants` maps values to read-only arrays, `operations` are in order of evaluation, `outputs` are
values or literals. `last_uses` says which values die with which operation, `run` evaluates it on anything: plain arrays, or traced
ones of any interpreter (so a program run on Vars is recorded, and its transpose is the rows' VJPs run backwards).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from ..core.dispatch import highest
from ..rules.calling import public_name
from ..rules.cotangents import Shaped
from ..rules.kinds import ROWS, Abstract, Constant, Differentiable
from ..rules.sparse import is_sparse

# --- values and operations --------------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """What programs and guards know of a value without its numbers: `kind` is what it is to Python, see `role_of`.

    `layout` is contiguous in the order of ``C`` or ``F``, or any other, ``A``; of arguments the strides stand in place of that.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    kind: str
    layout: Any = "C"


class Value(Shaped):
    """A numbered value: its shape, its dtype, and what it is to Python (see the module)."""

    __slots__ = ("dtype", "kind", "layout", "number", "shape")

    def __init__(self, number: int, shape: tuple[int, ...], dtype: np.dtype, kind: str = "array", layout: str = "C"):
        self.number, self.shape, self.dtype, self.kind, self.layout = number, shape, dtype, kind, layout

    @property
    def weak(self) -> bool:
        return self.kind == "python"

    @property
    def type(self) -> str:
        """The value's type as it is printed: ``float64[3,4]``, ``weak float64``."""
        return ("weak " if self.weak else "") + str(self.dtype) + (f"[{','.join(map(str, self.shape))}]" if self.kind == "array" else "")

    def __repr__(self):
        return f"x{self.number}"


class Operation:
    """One evaluation: ``outputs = fn(*args, **kwargs)``."""

    __slots__ = ("args", "fn", "found", "kwargs", "line", "outputs", "several", "shaped")

    def __init__(self, fn, args, kwargs, outputs, several=False, line=None):
        self.fn, self.args, self.kwargs, self.outputs, self.several, self.line = fn, args, kwargs, outputs, several, line
        self.found = self.shaped = None  # what is asked for often

    @property
    def call(self) -> Callable:
        """What evaluates the arguments: `fn`, except where the row is canonical."""
        row = ROWS.get(self.fn)
        if row is None:
            return self.fn
        return (row.of_numbers if self.outputs[0].kind == "python" else None) or row.call

    @property
    def reads(self) -> list[Value]:
        """The values that are read, each once, in order."""
        if self.found is None:
            found: list[Value] = []
            collect(self.args, found)
            collect(self.kwargs, found)
            self.found = found if len(found) < 2 else list(dict.fromkeys(found))
        return self.found

    def evaluate(self, held: dict[Value, Any]) -> None:
        """Evaluate where the values that are read are held, and add the results."""
        args, kwargs = (map_values(held.__getitem__, part) for part in (self.args, self.kwargs))
        row = ROWS.get(self.fn)
        top = highest((*args, *kwargs.values()), deep=True) if isinstance(row, Differentiable | Constant) else None
        if top is None or row is None or self.call is not row.call:
            results = self.call(*args, **kwargs)
        else:  # by the row itself, with the arguments as they were recorded
            results = (top._interpret if isinstance(row, Differentiable) else top._constant)(row, args, kwargs)
        held.update(zip(self.outputs, results if self.several else (results,), strict=True))

    def renamed(self, put: dict, outputs=None) -> Operation:
        """Return the operation with what is put in the place of values, and with other outputs, if they are given."""
        args, kwargs = (map_values(lambda value: put.get(value, value), part) for part in (self.args, self.kwargs))
        return Operation(self.fn, args, kwargs, outputs or self.outputs, self.several, self.line)

    def by(self, fn, *args, **kwargs) -> Operation:
        """Return an operation that makes the same outputs otherwise."""
        return Operation(fn, args, kwargs, self.outputs, line=self.line)

    def __repr__(self):
        shown = [show(arg) for arg in self.args] + [f"{name}={show(value)}" for name, value in self.kwargs.items()]
        return f"{', '.join(map(repr, self.outputs))} = {public_name(self.fn)}({', '.join(shown)})"


class Program:
    """A flat list of operations; see the module."""

    __slots__ = ("adjoint", "constants", "count", "inputs", "operations", "outputs")

    def __init__(self):
        self.adjoint = False  # it gives cotangents, whose zeros have any sign
        self.inputs: list[Value] = []
        self.constants: dict[Value, np.ndarray] = {}
        self.operations: list[Operation] = []
        self.outputs: list[Any] = []
        self.count = 0

    # --- making one ---------------------------------------------------------------------------------------------------------

    def value(self, like) -> Value:
        """Return a new value of the shape, dtype and kind of an array, a number or another value."""
        self.count += 1
        return Value(self.count - 1, *kind_of(like))

    def input(self, like) -> Value:
        """Return a new input."""
        self.inputs.append(self.value(like))
        return self.inputs[-1]

    def constant(self, array: np.ndarray) -> Value:
        """Return a new constant: a copy of an array."""
        value = self.value(array)
        held = array.copy("K")
        held.flags.writeable = False
        self.constants[value] = held
        return value

    def append(self, fn, args, kwargs, result, line=None):
        """Enter ``fn(*args, **kwargs)``, whose result has the shape, dtype and kind of `result`; return its value or values."""
        several = isinstance(result, tuple | list)
        outputs = tuple(map(self.value, result if several else (result,)))
        self.operations.append(Operation(fn, args, kwargs, outputs, several, line))
        return outputs if several else outputs[0]

    def begun(self) -> Program:
        """Return a program with the inputs and constants of this one, and without operations."""
        return self.replace(constants=dict(self.constants), operations=[], outputs=[], adjoint=False)

    def finished(self, outputs, put: dict) -> Program:
        """Give it the outputs of another program, with what is put in the place of values, and return it."""
        self.outputs = [put.get(out, out) if type(out) is Value else out for out in outputs]
        return self

    def replace(self, **parts) -> Program:
        """Return a program like this one but for these parts; the others are shared."""
        new = copy(self)
        for name, part in parts.items():
            setattr(new, name, part)
        return new

    def closed(self, constants: dict) -> Program:
        """Give it those of some constants that it reads, and as inputs the other values that it does not make; return it."""
        made = {value for operation in self.operations for value in operation.outputs}
        self.constants = {value: constants[value] for value in self.read if value in constants}
        self.inputs = [value for value in self.read if value not in made and value not in constants]
        return self

    # --- reading one --------------------------------------------------------------------------------------------------------

    @property
    def read(self) -> dict[Value, None]:
        """The values that operations read, and the outputs, each once, in order."""
        return dict.fromkeys([*(value for operation in self.operations for value in operation.reads), *values_in(self.outputs)])

    def last_uses(self) -> list[list[Value]]:
        """Return for each operation the values that nothing reads after it: they die with it. Outputs, inputs and constants never do."""
        alive = {*values_in(self.outputs), *self.inputs, *self.constants}
        last: list[list[Value]] = []
        for operation in reversed(self.operations):
            dead = [value for value in dict.fromkeys((*operation.reads, *operation.outputs)) if value not in alive]
            alive.update(dead)
            last.append(dead)
        return last[::-1]

    def run(self, *inputs, each=None) -> list[Any]:
        """Evaluate on plain or traced values; `each` is called with each operation before it is evaluated."""
        held: dict[Value, Any] = dict(zip(self.inputs, inputs, strict=True))
        held.update(self.constants)
        for operation, dead in zip(self.operations, self.last_uses(), strict=True):
            if each is not None:
                each(operation)
            operation.evaluate(held)
            for value in dead:
                del held[value]
        return [held[out] if isinstance(out, Value) else out for out in self.outputs]

    def key(self) -> tuple:
        """Return what tells programs apart: equal keys are equal programs, whatever the numbers of their values."""
        numbers = {value: k for k, value in enumerate(self.inputs)}
        lines: list = [(v.type, v.kind, v.layout) for v in self.inputs]
        for value, array in self.constants.items():
            numbers[value] = len(numbers)
            lines.append(key_of(array))

        def renumbered(argument):
            return key_of(argument, numbers)

        for operation in self.operations:
            lines.append((operation.fn, renumbered(operation.args), renumbered(operation.kwargs)))
            for value in operation.outputs:
                numbers[value] = len(numbers)
                lines.append((value.type, value.kind, value.layout))
        return (*lines, *map(renumbered, self.outputs))

    def __str__(self):
        lines = [f"program({', '.join(f'{value!r}: {value.type}' for value in self.inputs)})"]
        for value, array in self.constants.items():
            lines.append(f"  {value!r} = {show_array(array)}")
        for operation in self.operations:
            types = ", ".join(value.type for value in operation.outputs)
            where = "" if operation.line is None else f"   {operation.line[0].rsplit('/', 1)[-1]}:{operation.line[1]}"
            lines.append(f"  {operation!r:<60}  # {types}{where}")
            for name, body in getattr(operation.fn, "bodies", {}).items():
                lines += [f"    {line}" for line in (f"{name}:", *str(body).splitlines())]
        return "\n".join([*lines, f"  return {', '.join(map(show, self.outputs))}"])


def dead(program: Program) -> Program:
    """Leave out operations and constants whose results nothing reads."""
    needed, kept = set(values_in(program.outputs)), []
    for operation in reversed(program.operations):
        if any(value in needed for value in operation.outputs):
            needed.update(operation.reads)
            kept.append(operation)
    constants = {value: array for value, array in program.constants.items() if value in needed}
    return program.replace(constants=constants, operations=kept[::-1], adjoint=False)


def rewritten(program: Program, rule) -> Program:
    """Return the program with what `rule` says of each operation (see `passes`)."""
    new, put = program.begun(), dict[Value, Any]()
    for old in program.operations:
        operation = old.renamed(put) if put and any(value in put for value in old.reads) else old
        said = rule(operation, new)
        if type(said) is tuple:
            put.update(zip(old.outputs, said, strict=True))
        else:
            new.operations.append(operation if said is None else said)
    return new.finished(program.outputs, put)


def common(program: Program) -> Program:
    """Evaluate equal operations once, and hold equal constants once."""
    held: dict[object, Value] = {}
    equal = {value: held.setdefault((key_of(array), value.kind, array.strides), value) for value, array in program.constants.items()}
    known: dict[object, tuple] = {}

    def rule(operation, new):
        if any(equal.get(value, value) is not value for value in operation.reads):
            operation = operation.renamed(equal)
        same = operation.fn, key_of(operation.args), key_of(operation.kwargs), tuple(value.kind for value in operation.outputs)
        if same in known:
            return known[same]
        known[same] = operation.outputs
        return operation

    return rewritten(program, rule)


def same(program: Program, a: Value, b: Value) -> bool:
    """Return whether two values of a program are made by the same operations of the same values."""
    if a is b:
        return True
    one, other = common(dead(program.replace(outputs=[a, b]))).outputs
    return one is other


# --- arguments ----------------------------------------------------------------------------------------------------------------


def role_of(x) -> str:
    """Return what a plain value is to Python: an ``array``, a ``scalar`` of NumPy, or a number of ``python``."""
    return "array" if issubclass(type(x), np.ndarray) else "scalar" if issubclass(type(x), np.generic) else "python"


def plain_kind(x) -> Kind | None:
    """Return the kind of a float, or of an array as it lies in most programs; None of anything else."""
    kind = type(x)
    if kind is float or kind is np.float64:
        return PYTHON if kind is float else SCALAR
    if kind is np.ndarray and x.flags.c_contiguous and x.dtype.isbuiltin and x.dtype.kind in "biufc":
        return Kind(x.shape, x.dtype, "array")
    return None


PYTHON, SCALAR = (Kind((), np.dtype(float), role) for role in ("python", "scalar"))


def kind_of(x, strides=False) -> Kind:
    """Return the kind of a number, array or value; with `strides`, those stand in place of the layout ``A``."""
    if type(x) is Value:
        return Kind(x.shape, x.dtype, x.kind, x.layout)
    if (kind := plain_kind(x)) is not None:
        return kind
    role, like = role_of(x), Abstract(x)
    if role != "array" or x.flags.c_contiguous:
        return Kind(like.shape, like.dtype, role)
    return Kind(like.shape, like.dtype, role, "F" if x.flags.f_contiguous else x.strides if strides else "A")


def values_in(argument) -> list[Value]:
    """Return the values in an argument: itself, or those in a tuple, list, dict or slice."""
    found: list[Value] = []
    collect(argument, found)
    return found


def collect(argument, found):
    """Add the values in an argument to a list."""
    kind = type(argument)
    if kind is Value:
        found.append(argument)
    elif kind is tuple or kind is list:
        for part in argument:
            if type(part) is Value:
                found.append(part)
            elif type(part) in NESTED:
                collect(part, found)
    elif kind is dict:
        collect(list(argument.values()), found)
    elif kind is slice:
        collect((argument.start, argument.stop, argument.step), found)


NESTED = {tuple, list, dict, slice}


def map_values(function, argument):
    """Return an argument with `function` of each value in its place."""
    kind = type(argument)
    if kind is Value:
        return function(argument)
    if kind is tuple or kind is list:
        return kind([map_values(function, part) for part in argument])
    if kind is dict:
        return {key: map_values(function, part) for key, part in argument.items()}
    if kind is slice:
        return slice(*(map_values(function, part) for part in (argument.start, argument.stop, argument.step)))
    return argument


def key_of(argument, numbers=None):
    """Return a hashable key of an argument: equal keys are equal arguments, bit for bit (-0.0 differs from 0.0, a NaN equals itself).

    Values are told apart by `numbers`, or by their own.
    """
    kind = type(argument)
    if kind is Value:
        return Value, argument.number if numbers is None else numbers[argument]
    if kind is tuple or kind is list:
        return kind, *[key_of(part, numbers) for part in argument]
    if kind is dict:
        return dict, *((name, key_of(argument[name], numbers)) for name in sorted(argument))
    if kind is slice:
        return slice, *(key_of(part, numbers) for part in (argument.start, argument.stop, argument.step))
    if kind is float:
        return float, struct.pack("d", argument)
    if kind is complex:
        return complex, struct.pack("dd", argument.real, argument.imag)
    if issubclass(type(argument), np.generic | np.ndarray):
        return kind, argument.dtype.str, argument.shape, argument.tobytes()
    if kind is Abstract:
        return Abstract, argument.shape, argument.dtype.str
    if isinstance(argument, np.dtype):
        return np.dtype, argument.str
    if kind in (int, bool, str, bytes, type(None), type(...)):
        return kind, argument
    if is_sparse(argument):
        entries = argument.tocoo()
        return kind, argument.shape, *map(key_of, (entries.row, entries.col, entries.data))
    return kind, id(argument)


def show(argument) -> str:
    """Return an argument as it is printed."""
    kind = type(argument)
    if kind in (tuple, list):
        inner = ", ".join(map(show, argument)) + ("," if kind is tuple and len(argument) == 1 else "")
        return f"({inner})" if kind is tuple else f"[{inner}]"
    if kind is slice:
        parts = ["" if part is None else show(part) for part in (argument.start, argument.stop, argument.step)]
        return ":".join(parts if argument.step is not None else parts[:2])
    if kind is Abstract:
        return f"{argument.dtype}[{','.join(map(str, argument.shape))}]"
    if isinstance(argument, np.dtype):
        return str(argument)
    return public_name(argument) if callable(argument) and not isinstance(argument, type) else repr(argument)


def show_array(array) -> str:
    """Return a constant as it is printed: short ones whole."""
    shown = np.array2string(array, separator=", ", threshold=8, edgeitems=2).replace("\n", "")
    return f"{array.dtype}[{','.join(map(str, array.shape))}] {shown}"
