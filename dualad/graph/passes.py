"""Passes over programs: each gives a program that computes the same, bit for bit, with less.

A pass goes through the operations once. Its rule is asked what to do with each: None keeps it, an `Operation` takes its place, a tuple
(a value or a literal for each output) makes it superfluous. Only `relaxed` rules change last bits, and `restored` the sign of zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..rules.indexing import getitem, is_basic, is_whole, scatter, updated
from ..rules.kinds import row_says
from ..rules.shapes import blank, zeros_of_shape
from ..support.costs import LOOP_TURNS, SMALL_ARRAY_BYTES
from .nested import Branch
from .program import Operation, Program, Value, common, dead, key_of, rewritten, values_in


def optimised(program: Program, exact=True, adjoint=False) -> Program:
    """Return the program after all passes; with `exact`, it computes the same bits.

    An `adjoint` is pulled no further, and its zeros may have any sign.
    """
    passes = [simpler, common, forwarded, fold, simpler, common, dead]
    if not exact:
        passes = [simpler, relaxed, common, forwarded, restored, fold, common, dead]
    for one in passes:
        program = one(program)
    program.adjoint = adjoint
    if any(type(operation.fn) is Branch for operation in program.operations):
        program = dead(with_arms(program, partial(optimised, exact=exact, adjoint=adjoint)))
        program.adjoint = adjoint
    return program


# --- the passes ---------------------------------------------------------------------------------------------------------------


def fold(program: Program) -> Program:
    """Evaluate what depends on constants alone, unless the result is much larger than they are."""

    def rule(operation, new):
        reads = operation.reads
        if not all(value in new.constants for value in reads):
            return None
        allowed = SMALL_ARRAY_BYTES + sum(new.constants[value].nbytes for value in reads)
        if sum(value.size * value.dtype.itemsize for value in operation.outputs) > allowed:
            return None
        held = dict(new.constants)
        try:
            with np.errstate(all="ignore"):
                operation.evaluate(held)
        except Exception:  # it raises when the program runs
            return None
        return tuple(settled(held[value], value, new) for value in operation.outputs)

    return rewritten(program, rule)


def settled(result, value, program):
    """Return a result of folding as it stands in a program: a number as a literal, an array as a constant."""
    if not issubclass(type(result), np.ndarray):
        return result
    result = result.copy("K")
    result.flags.writeable = False
    program.constants[value] = result
    return value


def simpler(program: Program) -> Program:
    """Leave out what changes nothing: copies, reshapes and casts to what is there, factors of 1; name squares and zeros as such."""

    def rule(operation, new):
        fn, args, out = operation.fn, operation.args, operation.outputs[0]
        x = args[0] if args else None
        neutral, operator = row_says(fn, "neutral"), row_says(fn, "operator")
        if neutral and not (neutral == "real" and out.dtype.kind == "c") and type(x) is Value and not operation.kwargs and alike(x, out):
            return (x,)
        if fn is getitem and is_whole(args[1]) and type(x) is Value and x.kind == "array" and alike(x, out):
            return (x,)
        if operator == "pow" and len(args) == 2 and out.kind == "array" and type(args[1]) in (int, float) and out.dtype.kind in "fc":
            if args[1] == 2:
                return operation.by(np.square, x, **operation.kwargs)
            if args[1] == 0.5:
                return operation.by(np.sqrt, x, **operation.kwargs)
        if operator == "mul" and len(args) == 2 and not operation.kwargs:
            for a, b in (args, args[::-1]):
                if type(a) in (int, float) and a == 1 and type(b) is Value and alike(b, out):
                    return (b,)
        if fn in (blank, zeros_of_shape) and out.layout != "A":
            order = {"order": "F"} if out.layout == "F" else {}
            return operation.by(np.zeros, out.shape, out.dtype, **order)
        return None

    return rewritten(program, rule)


def alike(x, out):
    """Return whether a result has the shape, dtype, kind and layout of an argument, so that it may be it."""
    same = x.shape == out.shape and x.dtype == out.dtype and x.kind == out.kind and x.layout == out.layout
    return same and out.layout != "A"


def forwarded(program: Program) -> Program:
    """Read what was assigned or joined where it came from: ``updated(x, v, i)[i]`` is v, a stack of an array's rows a slice of it.

    What is assigned again at once was not assigned before. Measured: edges that are joined to a grid of 256 x 256, 91 us to 66.
    """
    assigned: dict[Value, tuple] = {}
    joined: dict[Value, tuple] = {}
    rows: dict[Value, tuple] = {}

    def rule(operation, new):
        fn, args = operation.fn, operation.args
        if fn is updated and args[3:] in ((), ((),)) and fixed(args[2]):
            again = args[0] in assigned and key_of(assigned[args[0]][2]) == key_of(args[2])
            base = assigned[args[0]][0] if again else args[0]
            assigned[operation.outputs[0]] = base, args[1], args[2]
            return operation.by(updated, base, *args[1:]) if again else None
        if fn is getitem and type(args[0]) is Value and type(args[1]) is int:
            rows[operation.outputs[0]] = args[0], args[1] % args[0].shape[0]
        joins = row_says(fn, "joins")
        if joins == "axis" and operation.kwargs.get("axis", 0) == 0 and all(type(arg) is Value for arg in args):
            joined[operation.outputs[0]] = args
        if fn is getitem and args[0] in joined and type(args[1]) is slice:
            return of_part(operation, joined[args[0]])
        if joins == "rows" and operation.kwargs.get("axis", 0) == 0:
            return restacked(operation, rows, new)
        if fn is getitem and args[0] in assigned and key_of(assigned[args[0]][2]) == key_of(args[1]):
            v, out = assigned[args[0]][1], operation.outputs[0]
            if type(v) is not Value:
                zero = type(v) in (int, float) and key_of(float(v)) == key_of(0.0) and out.kind == "array" and out.layout == "C"
                return operation.by(np.zeros, out.shape, out.dtype) if zero else None
            return (v,) if (v.shape, v.dtype, v.kind) == (out.shape, out.dtype, out.kind) else None
        return None

    return rewritten(program, rule)


def of_part(operation, parts):
    """Return a slice of joined arrays as one of a part of them, None where it shows more than one."""
    out, index = operation.outputs[0], operation.args[1]
    low, high, step = index.indices(operation.args[0].shape[0])
    start = 0
    for part in parts:
        stop = start + part.shape[0]
        if start <= low < high <= stop and step == 1 and part.dtype == out.dtype:
            if part.shape == out.shape and alike(part, out):
                return (part,)
            return operation.by(getitem, part, slice(low - start, high - start))
        start = stop
    return None


def restacked(operation, rows, new):
    """Return a stack of rows of arrays as joined slices where some follow one another; numbers where many do."""
    out = operation.outputs[0]
    parts: list[list] = []  # single values, or [array, first, step, count]
    for arg in operation.args:
        row = rows.get(arg) if type(arg) is Value else None
        last = parts[-1] if parts and len(parts[-1]) == 4 else None
        if row is not None and row[0].dtype == out.dtype:
            if last is not None and row[0] is last[0] and last[3] == 1 and abs(row[1] - last[1]) == 1:
                last[2:] = [row[1] - last[1], 2]
                continue
            if last is not None and row[0] is last[0] and row[1] == last[1] + last[2] * last[3]:
                last[3] += 1
                continue
            parts.append([*row, 1, 1])
        else:
            parts.append([arg])
    if len(parts) == len(operation.args) or (out.ndim == 1 and LOOP_TURNS * len(parts) > len(operation.args)):
        return None
    pieces = []
    for part in parts:
        like = Value(0, (part[-1] if len(part) == 4 else 1, *out.shape[1:]), out.dtype)
        if len(part) == 4:
            source, first, step, count = part
            stop = first + step * count
            pieces.append(new.append(getitem, (source, slice(first, stop if stop >= 0 else None, step)), {}, like, operation.line))
        else:
            pieces.append(new.append(np.stack, tuple(part), {"axis": 0}, like, operation.line))
    if len(pieces) == 1:
        return (pieces[0],)
    return operation.by(np.concatenate, *pieces, axis=0)


def relaxed(program: Program) -> Program:
    """Rewrite what is cheaper otherwise and may differ in the last bit: ``x**3`` as products, ``(1 / x) * t`` as ``t / x``."""
    inverse: dict[Value, Value] = {}

    def rule(operation, new):
        fn, args, out = operation.fn, operation.args, operation.outputs[0]
        if out.dtype.kind not in "fc" or operation.kwargs or len(args) != 2:
            return None
        operator = row_says(fn, "operator")
        if operator == "pow" and args[1] == 3 and type(args[1]) in (int, float) and type(args[0]) is Value and args[0].dtype == out.dtype:
            square = new.append(np.multiply, (args[0], args[0]), {}, out, operation.line)
            return operation.by(np.multiply, square, args[0])
        if (
            operator == "truediv"
            and type(args[0]) in (int, float)
            and args[0] == 1
            and type(args[1]) is Value
            and args[1].dtype == out.dtype
        ):
            inverse[out] = args[1]
        if operator == "mul":
            for a, b in (args, args[::-1]):
                if type(a) is Value and a in inverse:
                    return operation.by(np.divide, b, inverse[a])
        return None

    return rewritten(program, rule)


def restored(program: Program) -> Program:
    """Put back in one operation what is cleared and then added to: the adjoint of ``x[i] += v`` keeps the cotangent of x as it is.

    It is written as ``updated(g, 0, i) + scatter(g[i], i)``, whose two conditions on indices would cut every loop nest that reads it.
    """
    shown: dict[Value, tuple] = {}  # what is a part of an array: the array, and which part
    cleared: dict[Value, tuple] = {}
    spread: dict[Value, tuple] = {}

    def rule(operation, new):
        fn, args, out = operation.fn, operation.args, operation.outputs[0]
        whole = (row_says(fn, "moves") and row_says(fn, "elementwise")) or (fn is getitem and is_whole(args[1]))
        if whole and args[0] in shown and (args[0].shape, args[0].dtype) == (out.shape, out.dtype):
            shown[out] = shown[args[0]]
        elif fn is getitem and fixed(args[1]):
            shown[out] = args[0], key_of(args[1])
        elif fn is updated and args[3:] in ((), ((),)) and type(args[1]) in (int, float) and args[1] == 0 and fixed(args[2]):
            cleared[out] = args[0], key_of(args[2])
        elif fn is scatter and fixed(args[1]):
            spread[out] = args[0], args[1]
        elif row_says(fn, "operator") == "add" and len(args) == 2 and not operation.kwargs:
            for a, b in (args, args[::-1]):
                if type(a) is type(b) is Value and a in cleared and b in spread and cleared[a][1] == key_of(spread[b][1]):
                    base, (v, index) = cleared[a][0], spread[b]
                    if not alike(base, out) or v.dtype != out.dtype:
                        continue
                    if shown.get(v) == (base, cleared[a][1]):
                        return (base,)
                    return operation.by(updated, base, v, index, ())
        return None

    return rewritten(program, rule)


def with_arms(program: Program, optimise: Callable[[Program], Program]) -> Program:
    """Return the program with the arms of its branches optimised, for known arguments and outputs that are read; where the test is known,
    with one of them alone."""
    new, read, put = program.begun(), program.read, dict[Value, Any]()
    for old in program.operations:
        operation = old.renamed(put)
        if type(old.fn) is not Branch:
            new.operations.append(operation)
            continue
        (test, *given), shown = operation.args, [out in read for out in old.outputs]
        outer = [dict(zip(body.inputs, given, strict=True)) for body in old.fn.bodies.values()]
        for k, (out, a, b) in enumerate(zip(old.outputs, old.fn.then.outputs, old.fn.otherwise.outputs, strict=True)):
            if type(a) is type(b) is Value and a in outer[0] and outer[0][a] is outer[1].get(b):  # what both hand on
                put[out], shown[k] = outer[0][a], False
            elif shown[k] and not out.size:  # which no loop makes
                put[out], shown[k] = new.constant(np.zeros(out.shape, out.dtype)), False
        kept = [out for out, some in zip(old.outputs, shown, strict=True) if some]
        if type(test) is not Value:
            arm, inputs = specialised(old.fn.then if test else old.fn.otherwise, given, new.constants, shown)
            put.update(zip(kept, alone(new, arm, inputs), strict=True))
            continue
        made = [specialised(body, given, new.constants, shown) for body in old.fn.bodies.values()]
        arms, given = [optimise(arm) for arm, _ in made], list(dict.fromkeys(x for _, inputs in made for x in inputs))
        for arm, (_, inputs) in zip(arms, made, strict=True):
            arm.inputs = [inputs[x] if x in inputs else arm.value(x) for x in given]
        new.operations.append(Operation(Branch(*arms), (test, *given), {}, tuple(kept), True, old.line))
    return new.finished(program.outputs, put)


def specialised(body: Program, given, constants, shown) -> tuple[Program, dict]:
    """Return a program with these outputs for arguments of which some are literals or constants; and by the others its inputs."""
    arm, swap, inputs = body.begun(), dict[Value, object](), dict[Value, Value]()
    for value, x in zip(body.inputs, given, strict=True):
        if type(x) is not Value:
            swap[value] = x
        elif x in constants:
            arm.constants[value] = constants[x]
        elif inputs.setdefault(x, value) is not value:
            swap[value] = inputs[x]
    arm.inputs, arm.adjoint = list(inputs.values()), body.adjoint
    arm.operations = [operation.renamed(swap) for operation in body.operations]
    return arm.finished((out for out, some in zip(body.outputs, shown, strict=True) if some), swap), inputs


def alone(new: Program, arm: Program, inputs: dict) -> list:
    """Enter an arm into the program around its branch, and return its outputs."""
    put = {value: x for x, value in inputs.items()}
    for value, array in arm.constants.items():
        put[value] = new.constant(array)
        put[value].kind = value.kind
    for operation in arm.operations:
        outputs = tuple(map(new.value, operation.outputs))
        new.operations.append(operation.renamed(put, outputs))
        put.update(zip(operation.outputs, outputs, strict=True))
    return [put.get(out, out) if type(out) is Value else out for out in arm.outputs]


def fixed(index):
    """Return whether an index is basic, and known beforehand."""
    return not list(values_in(index)) and is_basic(index)
