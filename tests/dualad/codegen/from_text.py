"""The loop IR of functions written as Python text: what tests compile, and what printed modules are read back with."""

from __future__ import annotations

import ast
import math

import numpy as np

from dualad.codegen import native
from dualad.codegen.kernels import LARGEST_ANGLE
from dualad.ir import nodes as ir
from dualad.ir.values import common, op
from dualad.ir.verify import verify

BINARY = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Pow: "power", ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "left_shift", ast.RShift: "right_shift",
    ast.Eq: "equal", ast.NotEq: "not_equal", ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal",
}  # fmt: skip
COMMON = {"multiply_add", "maximum", "minimum", "fmax", "fmin", "clip", "regular", "sum_of", "product_of", "np.conj"}
BOOLS = {"is_finite", "is_infinite", "np.signbit", "large_angle"}
COMPLEX = {"complex_quotient", "complex_reciprocal", "complex_turn"}
NAMES = {"math.inf": math.inf, "math.nan": math.nan, "math.pi": math.pi, "LARGEST_ANGLE": LARGEST_ANGLE}


def from_text(text: str, name: str, kinds: list) -> ir.Module:
    """Return the module of a function of an emitted text for parameters of these types."""
    module = Text(text)
    module.function(name, tuple(kinds))
    return ir.Module(tuple(module.parts.values()))


def module_of(text, name, kinds):
    """Return the module of a function of a text, for parameters of these kinds: ``(shape, dtype)``, or the dtype of a number."""
    return from_text(text, name, [ir.ArrayType(kind[1], kind[0]) if isinstance(kind, tuple) else kind for kind in kinds])


def compiled(text, name, kinds):
    """Return a function of a text as machine code."""
    module = module_of(text, name, kinds)
    verify(module)
    return native.compiled(module, name)


def python_of(text):
    """Return what a text defines when Python runs it."""
    space = {"np": np, "math": math}
    exec(text, space)
    return space


class Text:
    def __init__(self, text):
        body = ast.parse(text).body
        self.definitions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
        self.parts = {}
        for node in body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "np.array":
                rows = tuple(map(tuple, ast.literal_eval(node.value.args[0])))
                self.parts[node.targets[0].id] = ir.Table(node.targets[0].id, rows)
        self.results = {}

    def function(self, name, kinds):
        if name not in self.results:
            definition = self.definitions[name]
            parameters = tuple(ir.Var(arg.arg, kind) for arg, kind in zip(definition.args.args, kinds, strict=True))
            one = Body(self, parameters)
            body = one.block(definition.body)
            self.results[name] = one.result
            self.parts[name] = ir.Function(name, parameters, body)
        return self.results[name]


class Body:
    def __init__(self, text, parameters):
        self.text, self.variables, self.result = text, {var.name: var for var in parameters}, None

    def block(self, statements):
        made = []
        for node in statements:
            new = getattr(self, f"do_{type(node).__name__}")(node)
            made += new if isinstance(new, list) else [new]
        return tuple(made)

    def do_Pass(self, node):
        return []

    def do_Expr(self, node):
        return ir.Do(self.value(node.value))

    def var(self, name, value):
        if name not in self.variables:
            self.variables[name] = ir.Var(name, getattr(value, "type", None) or value.dtype)
        return self.variables[name]

    def do_Assign(self, node):
        (target,) = node.targets
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "np.empty":
            count, dtype = node.value.args
            kind = ir.ArrayType(dtype.attr, (ast.literal_eval(count),))
            self.variables[target.id] = ir.Var(target.id, kind)
            return ir.Room(self.variables[target.id])
        if not isinstance(target, ast.Tuple):
            return self.stored(target, self.value(node.value))
        if not isinstance(node.value, ast.Tuple):
            call = self.value(node.value)
            dtypes = (call.dtype,) if isinstance(call.dtype, str) else call.dtype
            targets = [self.var(t.id, ir.Const(0, dtype)) for t, dtype in zip(target.elts, dtypes, strict=True)]
            return ir.Assign(tuple(targets), (call,))
        values = tuple(map(self.value, node.value.elts))
        if all(isinstance(t, ast.Name) for t in target.elts):
            return ir.Assign(tuple(self.var(t.id, v) for t, v in zip(target.elts, values, strict=True)), values)
        first = [ir.Var(f"held{k}.{node.lineno}", getattr(v, "type", v.dtype)) for k, v in enumerate(values)]
        return [ir.Assign(tuple(first), values), *(self.stored(t, v) for t, v in zip(target.elts, first, strict=True))]

    def do_AugAssign(self, node):
        if isinstance(node.target, ast.Name) and not isinstance(self.variables[node.target.id].type, ir.ArrayType):
            old = self.variables[node.target.id]
            return ir.Assign((old,), (op(BINARY[type(node.op)], old, self.value(node.value)),))
        return self.stored(node.target, self.value(node.value), True)

    def stored(self, target, value, adds=False):
        if isinstance(target, ast.Name) and not adds:
            return ir.Assign((self.var(target.id, value),), (value,))
        array, index = (target, None) if isinstance(target, ast.Name) else (target.value, target.slice)
        array = self.value(array)
        place = array if index is None else self.indexed(array, index)
        if isinstance(place, ir.Load):
            return ir.Store(place.array, place.index, value, adds)
        return ir.Fill(place, value, adds)

    def do_For(self, node):
        name = node.target.id
        if isinstance(node.iter, ast.Subscript):
            table, piece = self.value(node.iter.value), node.iter.slice
            low = ir.number(0) if piece.lower is None else self.value(piece.lower)
            high = ir.number(table.type.shape[0]) if piece.upper is None else self.value(piece.upper)
            self.variables[name] = ir.Var(name, ir.ArrayType("int64", table.type.shape[1:]))
            return ir.ForRows(self.variables[name], table, low, high, self.block(node.body))
        args = list(map(self.value, node.iter.args[:2]))
        low, high = args if len(args) == 2 else (ir.number(0), args[0])
        step = ast.literal_eval(node.iter.args[2]) if len(node.iter.args) == 3 else 1
        index = self.variables.setdefault(name, ir.Var(name, "int64"))
        lanes = [part for part in ast.walk(node) if isinstance(part, ast.Subscript) and lane_of(part.slice, name)]
        return ir.For(index, low, high, self.block(node.body), step, lane_of(lanes[0].slice, name)[0] if lanes else 0)

    def do_If(self, node):
        return ir.If(self.value(node.test), self.block(node.body), self.block(node.orelse))

    def do_Return(self, node):
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [] if node.value is None else [node.value]
        made = tuple(map(self.value, values))
        self.result = tuple(value.dtype for value in made) if len(made) != 1 else made[0].dtype
        return ir.Return(made)

    # --- expressions

    def value(self, node):
        return getattr(self, f"of_{type(node).__name__}")(node)

    def of_Constant(self, node):
        return ir.number(node.value)

    def of_Name(self, node):
        if node.id in self.variables:
            return self.variables[node.id]
        if node.id in self.text.parts:
            rows = self.text.parts[node.id].rows
            return ir.Var(node.id, ir.ArrayType("int64", (len(rows), len(rows[0]))))
        return ir.number(NAMES[node.id])

    def of_Attribute(self, node):
        name = ast.unparse(node)
        if name in NAMES:
            return ir.number(NAMES[name])
        return op(node.attr, self.value(node.value))

    def of_UnaryOp(self, node):
        value = self.value(node.operand)
        if isinstance(value, ir.Const) and isinstance(node.op, ast.USub):
            return ir.Const(-value.value, value.dtype)
        return op({ast.Not: "not", ast.USub: "negative", ast.Invert: "invert"}[type(node.op)], value)

    def of_BinOp(self, node):
        return op(BINARY[type(node.op)], self.value(node.left), self.value(node.right))

    def of_Compare(self, node):
        values = [self.value(part) for part in (node.left, *node.comparators)]
        result, *more = (op(BINARY[type(o)], x, y) for o, x, y in zip(node.ops, values, values[1:], strict=False))
        for other in more:
            result = op("and", result, other)
        return result

    def of_IfExp(self, node):
        return op("select", *map(self.value, (node.test, node.body, node.orelse)))

    def of_Subscript(self, node):
        return self.indexed(self.value(node.value), node.slice)

    def indexed(self, array, index):
        parts = list(index.elts) if isinstance(index, ast.Tuple) else [index]
        if len(parts) == 1 and isinstance(parts[0], ast.Constant) and parts[0].value is ...:
            return array
        shape, dtype = array.type.shape, array.type.dtype
        if parts and isinstance(parts[-1], ast.Slice):
            low, high = (ast.literal_eval(bound) for bound in (parts[-1].lower, parts[-1].upper))
            return ir.Row(array, tuple(map(self.value, parts[:-1])), low, high, ir.ArrayType(dtype, (high - low,)))
        place = tuple(self.position(part) for part in parts)
        if len(place) < len(shape):
            return ir.Row(array, place, None, None, ir.ArrayType(dtype, shape[len(place) :]))
        return ir.Load(array, place)

    def position(self, node):
        names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
        lane = lane_of(node, names[0]) if names else None
        return self.value(node) if lane is None else ir.Lane(self.variables[names[0]], *lane)

    def of_Call(self, node):
        name = ast.unparse(node.func)
        if name.endswith(".reshape"):
            array, shape = self.value(node.func.value), ast.literal_eval(node.args[0])
            return ir.Reshape(array, ir.ArrayType(array.type.dtype, shape if isinstance(shape, tuple) else (shape,)))
        args = tuple(map(self.value, node.args))
        if name == "choose":
            return op("select", *args)
        if name == "abs":
            return op("absolute", *args)
        if name == "complex":
            if all(isinstance(arg, ir.Const) for arg in args):
                return ir.Const(complex(*(arg.value for arg in args)), "complex128")
            return op("complex", *args)
        dtype = name.removeprefix("np.")
        if dtype in ("float", "int"):
            return ir.Cast(args[0], {"float": "float64", "int": "int64"}[dtype])
        if hasattr(np, dtype) and isinstance(getattr(np, dtype), type):
            if isinstance(args[0], ir.Const):
                return ir.Const(args[0].value, dtype)
            return ir.Cast(args[0], dtype)
        if name in self.text.definitions:
            dtypes = self.text.function(name, tuple(getattr(arg, "type", arg.dtype) for arg in args))
            return ir.Call(name, args, dtypes)
        kind = "float64"
        if name in COMMON:
            kind = common(*(arg.dtype for arg in args[: 1 if name == "regular" else None]))
        elif name.startswith("exact_") or name == "at_least_inside":
            kind = "int64"
        elif name in BOOLS:
            kind = "bool"
        elif name in COMPLEX:
            kind = "complex128"
        elif name in ("np.nextafter", "np.spacing") and args[0].dtype == "float32":
            kind = "float32"
        return ir.Call(name, args, kind)


def lane_of(node, name):
    """Return count and bound of a lane of an index."""
    part = node.body if isinstance(node, ast.IfExp) else node
    if not (isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitAnd) and isinstance(part.left, ast.Name) and part.left.id == name):
        return None
    if not isinstance(part.right, ast.Constant):
        return None
    return part.right.value + 1, node.test.comparators[0].value if part is not node else None
