"""Translation of emitted functions to LLVM: what numba does in seconds, because it must infer what is known here.

Emitted source is a small language: numbers of six types and arrays of known shapes, loops over ranges, assignments, and calls of the
functions in `kernels` and `scalars`. What is not in the language raises `Untranslatable`, and numba compiles it. Nothing is left to LLVM
that would change a bit: partial sums ``s[j & 7]`` of a loop over j are the elements of a vector, however wide those of the processor are.
"""

from __future__ import annotations

import ast
import inspect
import math
from functools import cache

import numpy as np

from .kernels import FUSES, POLYNOMIALS, bits, choose, fma, from_bits, halves
from .llvm import COMPLEX, PARTS, RANK, Array, Number, Untranslatable, Writer
from .scalars import OVERFLOWS, at_least_inside, exact_quotient, exact_remainder, multiply_add, product_of, regular, sum_of

__all__ = ["Function", "translated"]


def translated(text: str, space: dict, name: str, kinds: list, fuses: bool = FUSES) -> tuple[Function, str]:
    """Return the function `name` of an emitted module for arguments of these kinds (`Array`, or a type's name), and the LLVM code of all.

    It takes a pointer to a number besides, before them, which is set to 1 where a computed index is out of bounds. `fuses` says whether
    the processor has an instruction that multiplies and adds.
    """
    module = Module(text, space, fuses)
    function = module.function(module.definitions[name], space, tuple(kinds))
    return function, "\n".join([*module.declared.values(), *module.tables.values(), *module.texts, *module.hints])


@cache
def definitions_of(file):
    """Return the functions of a source file."""
    with open(file) as source:
        return {node.name: node for node in ast.parse(source.read()).body if isinstance(node, ast.FunctionDef)}


class Module:
    """The functions that are translated together."""

    def __init__(self, text, space, fuses):
        self.space, self.fuses = space, fuses
        self.definitions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
        self.made: dict = {}
        self.texts: list[str] = []
        self.declared: dict[str, str] = {}
        self.tables: dict[int, str] = {}
        self.hints: list[str] = []

    def function(self, definition, space, kinds):
        """Return a function for arguments of these kinds."""
        key = definition.name, id(space), kinds
        if key not in self.made:
            self.made[key] = Function(self, definition, space, kinds)
        return self.made[key]

    def called(self, fn, kinds):
        """Return the function that a compiled one of numba is here."""
        plain = fn.py_func
        name = plain.__name__
        if plain.__globals__ is self.space:
            return self.function(self.definitions[name], self.space, kinds)
        definition = definitions_of(inspect.getsourcefile(plain)).get(name)
        if definition is None:
            raise Untranslatable(f"{name} is made by another function")
        return self.function(definition, plain.__globals__, kinds)

    def wide(self, width):
        """Return what is written at the end of a loop of which so many turns are to become one of vectors."""
        if not self.hints:
            self.hints += ['!0 = !{!"llvm.loop.unroll.disable"}', '!1 = !{!"llvm.loop.interleave.count", i32 1}']
        k = len(self.hints)
        self.hints += [f"!{k} = distinct !{{!{k}, !{k + 1}, !0, !1}}", f'!{k + 1} = !{{!"llvm.loop.vectorize.width", i32 {width}}}']
        return f", !llvm.loop !{k}"

    def declare(self, name, result, *kinds):
        self.declared.setdefault(name, f"declare {result} @{name}({', '.join(kinds)}) nounwind")
        return f"@{name}"

    def table(self, array):
        """Return a constant array of integers."""
        if array.dtype != np.int64:
            raise Untranslatable(f"a table of {array.dtype}")
        elements = ", ".join(f"i64 {n}" for n in array.ravel().tolist())
        self.tables[id(array)] = f"@table{id(array)} = internal constant [{array.size} x i64] [{elements}]"
        return Array("i64", array.shape, f"@table{id(array)}")


UNARY = {
    math.sqrt: "llvm.sqrt", np.sqrt: "llvm.sqrt", np.floor: "llvm.floor", np.ceil: "llvm.ceil", np.trunc: "llvm.trunc",
    np.rint: "llvm.rint",
}  # fmt: skip
LIBRARY = {
    math.sin: "sin", math.cos: "cos", math.tan: "tan", math.hypot: "hypot", np.hypot: "hypot", np.fmod: "fmod", np.arcsin: "asin",
    np.arccos: "acos", np.arctan2: "atan2", np.arcsinh: "asinh", np.arccosh: "acosh", np.arctanh: "atanh", np.exp2: "exp2",
    np.log2: "log2", np.log10: "log10",
}  # fmt: skip
CASTS = {
    float: "double", np.float64: "double", np.float32: "float", int: "i64", np.int64: "i64", np.complex128: COMPLEX["double"],
    np.complex64: COMPLEX["float"],
}  # fmt: skip


class Function(Writer):
    """One translated function: `name`, and the type `result` of what it returns."""

    def __init__(self, module, definition, space, kinds):
        super().__init__(module)
        self.space = space
        self.name = f"f{len(module.made)}_{definition.name}"
        self.result = "void"
        self.returns: list = []
        self.lane: dict[str, Number] = {}  # the last bits of the indices of loops that go in groups
        given = ["ptr %status"]
        for argument, kind in zip(definition.args.args, kinds, strict=True):
            name = argument.arg
            if isinstance(kind, Array):
                given.append(f"ptr noalias nocapture %{name}")
                self.assign(name, Array(kind.element, kind.shape, f"%{name}"))
            else:
                given.append(f"{kind} %{name}")
                self.assign(name, Number(kind, f"%{name}"))
        self.block(definition.body)
        if not self.ended:
            self.say("ret void")
        kept = "noinline" if self.loops else "" if module.space is space else "alwaysinline"
        header = f"define internal {self.result} @{self.name}({', '.join(given)}) nounwind {kept} {{"
        module.texts.append("\n".join([header, *self.slots, *self.lines, "}"]))

    # --- statements -------------------------------------------------------------------------------------------------------------

    def block(self, statements):
        for statement in statements:
            rule = getattr(self, f"do_{type(statement).__name__}", None)
            if rule is None:
                raise Untranslatable(f"{type(statement).__name__} in {self.name}")
            rule(statement)

    def do_Expr(self, node):
        if isinstance(node.value, ast.Call):
            self.value(node.value)
        elif not isinstance(node.value, ast.Constant):
            raise Untranslatable("an expression alone")

    def do_Pass(self, node):
        pass

    def do_Assign(self, node):
        (target,) = node.targets
        value = self.value(node.value)
        if isinstance(target, ast.Tuple):
            for part, one in zip(target.elts, value, strict=True):
                self.store(part, one)
        else:
            self.store(target, value)

    def do_AugAssign(self, node):
        old = self.value(ast.copy_location(load_of(node.target), node.target))
        new = self.value(node.value)
        if isinstance(old, Array):
            if not isinstance(node.op, ast.Add) or not isinstance(new, Array) or old.kind != new.kind:
                raise Untranslatable("an array is changed")
            self.each(old, lambda at: self.arithmetic(node.op, self.element(old, at), self.element(new, at)))
            return
        self.store(node.target, self.arithmetic(node.op, old, new))

    def store(self, target, value):
        if isinstance(target, ast.Name):
            self.assign(target.id, value)
            return
        if not isinstance(target, ast.Subscript):
            raise Untranslatable("a target")
        array = self.value(target.value)
        place = self.indexed(array, target.slice)
        if isinstance(place, Array) and place.shape:
            if isinstance(value, Array):
                if value.kind != place.kind:
                    raise Untranslatable("an assignment with broadcasting")
                self.each(place, lambda at: self.element(value, at))
            else:
                self.each(place, lambda at: value)
            return
        self.put(place, value)

    def do_For(self, node):
        bounds = node.iter
        if isinstance(bounds, ast.Call) and isinstance(bounds.func, ast.Name) and bounds.func.id == "range":
            args = [self.cast(self.value(arg), "i64") for arg in bounds.args[:2]]
            low, high = args if len(args) == 2 else (Number("i64", "0"), args[0])
            step = ast.literal_eval(bounds.args[2]) if len(bounds.args) == 3 else 1

            index = node.target.id

            def body(at, lane=None):
                if lane is not None:
                    self.lane[index] = lane
                self.assign(index, at)
                self.block(node.body)

            count, limit = lanes_of(node)
            if count and step == 1 and limit in (None, low.text == "0" and high.text.isdigit() and int(high.text) // count * count):
                self.lanes(index, low, high, count, body)
                del self.lane[index]
            else:
                self.loop(index, low, high, step, body)
            return
        if not (isinstance(bounds, ast.Subscript) and isinstance(bounds.slice, ast.Slice)):
            raise Untranslatable("a loop")
        table = self.value(bounds.value)
        low = Number("i64", "0") if bounds.slice.lower is None else self.value(bounds.slice.lower)
        high = Number("i64", str(table.shape[0])) if bounds.slice.upper is None else self.value(bounds.slice.upper)

        self.variables.pop(node.target.id, None)  # rows of a loop before it may be of another length

        def rows(at):
            self.assign(node.target.id, self.part(table, [at]))
            self.block(node.body)

        self.loop(node.target.id, low, high, 1, rows)

    def do_If(self, node):
        then, other, done = self.labels("then", "else", "done")
        self.say(f"br i1 {self.truth(self.value(node.test)).text}, label %{then}, label %{other}")
        for label, body in ((then, node.body), (other, node.orelse)):
            self.start(label)
            self.block(body)
            if not self.ended:
                self.say(f"br label %{done}")
        self.lines.append(f"{done}:")

    def do_Return(self, node):
        if node.value is None:
            self.say("ret void")
            return
        value = self.value(node.value)
        if isinstance(value, Array):
            raise Untranslatable("an array is returned")
        values = value if isinstance(value, list) else [value]
        types = [v.type for v in values]
        if isinstance(value, list):
            self.result, self.returns = f"{{ {', '.join(types)} }}", types
            text = "undef"
            for k, v in enumerate(values):
                text = self.let(f"insertvalue {self.result} {text}, {v.type} {v.text}, {k}")
        else:
            self.result, text = types[0], values[0].text
        self.say(f"ret {self.result} {text}")

    # --- expressions ------------------------------------------------------------------------------------------------------------

    def value(self, node):
        """Return the value of an expression: a `Number`, an `Array`, a list of them."""
        rule = getattr(self, f"of_{type(node).__name__}", None)
        if rule is None:
            raise Untranslatable(f"{type(node).__name__} in {self.name}")
        return rule(node)

    def of_Constant(self, node):
        return self.constant(node.value)

    def of_Name(self, node):
        if node.id in self.variables:
            return self.variable(node.id)
        return self.constant(self.space[node.id])

    def of_Attribute(self, node):
        if node.attr in ("real", "imag") and self.object(node.value) is None:
            value = self.value(node.value)
            if isinstance(value, Number) and value.type in PARTS:
                return self.parts(value)[node.attr == "imag"]
            raise Untranslatable("a part of what is not complex")
        return self.constant(self.object(node))

    def object(self, node):
        """Return what a name that is no variable stands for."""
        if isinstance(node, ast.Name) and node.id not in self.variables:
            builtins = {"abs": abs, "float": float, "int": int, "bool": bool, "complex": complex}
            return self.space[node.id] if node.id in self.space else builtins.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in self.variables:
            return getattr(self.object(node.value), node.attr)
        return None

    def of_Tuple(self, node):
        values = []
        for part in node.elts:
            if isinstance(part, ast.Starred):
                values += self.value(part.value)
            else:
                values.append(self.value(part))
        return values

    def of_UnaryOp(self, node):
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return Number("i1", self.let(f"xor i1 {self.truth(value).text}, true"))
        if isinstance(node.op, ast.USub):
            if isinstance(node.operand, ast.Constant):
                return self.constant(-node.operand.value)
            if value.type in ("double", "float"):
                return self.negative(value)
            if value.type in PARTS:
                return self.pair(*map(self.negative, self.parts(value)))
            return Number("i64", self.let(f"sub i64 0, {self.cast(value, 'i64').text}"))
        if isinstance(node.op, ast.Invert) and value.type == "i64":
            return Number("i64", self.let(f"xor i64 {value.text}, -1"))
        raise Untranslatable("an operator")

    def of_BinOp(self, node):
        if (bits := lane_of(node)) and bits.left.id in self.lane:
            return self.lane[bits.left.id]
        return self.arithmetic(node.op, self.value(node.left), self.value(node.right))

    def of_Compare(self, node):
        values = [self.value(part) for part in (node.left, *node.comparators)]
        result, *more = (self.compare(op, x, y) for op, x, y in zip(node.ops, values, values[1:], strict=False))
        for other in more:
            result = self.arithmetic(ast.BitAnd(), result, other)
        return result

    def of_BoolOp(self, node):
        op = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
        result, *more = (self.truth(self.value(part)) for part in node.values)
        for other in more:
            result = self.arithmetic(op, result, other)
        return result

    def of_IfExp(self, node):
        if (bits := lane_of(node)) and bits.left.id in self.lane:  # those left over come in a loop of their own
            return self.value(node.orelse if self.alone else bits)
        if not any(isinstance(part, ast.Call) for part in ast.walk(node)):
            return self.choose(self.value(node.test), self.value(node.body), self.value(node.orelse))
        then, other, done = self.labels("then", "else", "done")
        name = f"chosen.{then}"
        self.say(f"br i1 {self.truth(self.value(node.test)).text}, label %{then}, label %{other}")
        for label, part in ((then, node.body), (other, node.orelse)):
            self.start(label)
            self.assign(name, self.value(part))
            self.say(f"br label %{done}")
        self.lines.append(f"{done}:")
        return self.variable(name)

    # --- arrays -----------------------------------------------------------------------------------------------------------------

    def of_Subscript(self, node):
        return self.load(self.indexed(self.value(node.value), node.slice))

    def indexed(self, array, index):
        """Return the part of an array that an index shows."""
        if not isinstance(array, Array):
            raise Untranslatable("an index of a number")
        parts: list = list(index.elts) if isinstance(index, ast.Tuple) else [index]
        if len(parts) == 1 and isinstance(parts[0], ast.Constant) and parts[0].value is ...:
            return array
        last = parts[-1] if parts and isinstance(parts[-1], ast.Slice) else None
        positions = [self.cast(self.value(part), "i64") for part in (parts if last is None else parts[:-1])]
        if last is None:
            return self.part(array, positions)
        if len(parts) != len(array.shape) or last.step is not None:
            raise Untranslatable("a slice")
        low, high = (ast.literal_eval(bound) for bound in (last.lower, last.upper))
        part = self.part(array, [*positions, Number("i64", str(low))])
        return Array(array.element, (high - low,), part.pointer)

    # --- calls ------------------------------------------------------------------------------------------------------------------

    def of_Call(self, node):
        if node.keywords:
            raise Untranslatable("keywords")
        if isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            array = self.value(node.func.value)
            shape = ast.literal_eval(node.args[0])
            return Array(array.element, shape if isinstance(shape, tuple) else (shape,), array.pointer)
        fn = self.object(node.func)
        if fn is np.empty:
            return self.room(ast.literal_eval(node.args[0]), self.object(node.args[1]))
        args = self.of_Tuple(ast.Tuple(node.args))
        if fn is choose:
            return self.choose(*args)
        if fn is fma:
            return self.intrinsic("llvm.fma", *args)
        if fn is multiply_add:
            return self.fused(*(self.cast(arg, max((a.type for a in args), key=RANK.__getitem__)) for arg in args))
        if fn in (sum_of, product_of):
            return self.by_halves(ast.Add() if fn is sum_of else ast.Mult(), *args)
        if fn is bits:
            return Number("i64", self.let(f"bitcast double {self.cast(args[0], 'double').text} to i64"))
        if fn is from_bits:
            return Number("double", self.let(f"bitcast i64 {self.cast(args[0], 'i64').text} to double"))
        if fn is at_least_inside:
            return self.inside(*args)
        if fn in (exact_remainder, exact_quotient):
            return self.divided(*args)[fn is exact_quotient]
        if fn is regular:
            self.note(self.let(f"xor i1 {self.cast(args[1], 'i1').text}, true"), 2)
            return args[0]
        if fn in OVERFLOWS:
            return self.exact(OVERFLOWS[fn], *args)
        if fn is abs:
            return self.absolute(args[0])
        if fn is complex:
            return self.pair(*args)
        if fn is np.conj:
            real, imaginary = self.parts(args[0])
            return self.pair(real, self.negative(imaginary))
        if fn is math.copysign:
            return self.intrinsic("llvm.copysign", *args)
        if isinstance(fn, type) and fn in CASTS:
            return self.cast(args[0], CASTS[fn])
        if fn in POLYNOMIALS:
            return self.polynomial(POLYNOMIALS[fn], args[0])
        if isinstance(fn, np.ufunc) or not hasattr(fn, "py_func"):
            if fn in UNARY:
                return self.intrinsic(UNARY[fn], *args)
            if fn in LIBRARY:
                name = self.module.declare(LIBRARY[fn], "double", *["double"] * len(args))
                given = ", ".join(f"double {self.cast(arg, 'double').text}" for arg in args)
                return Number("double", self.let(f"call double {name}({given})"))
            raise Untranslatable(f"{getattr(fn, '__name__', fn)}")
        kinds = tuple(arg.kind if isinstance(arg, Array) else arg.type for arg in args)
        function = self.module.called(fn, kinds)
        given = ["ptr %status", *(f"ptr {arg.pointer}" if isinstance(arg, Array) else f"{arg.type} {arg.text}" for arg in args)]
        call = f"call {function.result} @{function.name}({', '.join(given)})"
        if function.result == "void":
            self.say(call)
            return []
        text = self.let(call)
        if function.returns:
            return [Number(kind, self.let(f"extractvalue {function.result} {text}, {k}")) for k, kind in enumerate(function.returns)]
        return Number(function.result, text)

    def polynomial(self, coefficients, x):
        """Return a polynomial."""

        def product(a, b):
            return self.arithmetic(ast.Mult(), a, b)

        return halves(coefficients, self.cast(x, "double"), self.constant, product, lambda *args: self.intrinsic("llvm.fma", *args))


def lanes_of(loop):
    """Return how many partial sums there are where a loop adds to one that the last bits of its index choose, else 0; up to which index."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Subscript) and (bits := lane_of(node.slice)) and bits.left.id == loop.target.id:
            return bits.right.value + 1, node.slice.test.comparators[0].value if bits is not node.slice else None
    return 0, None


def lane_of(index):
    """Return the last bits of a loop's index, ``j & 7``, that an index is or, of those left over, is not."""
    part = index.body if isinstance(index, ast.IfExp) else index
    is_bits = isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitAnd) and isinstance(part.left, ast.Name)
    return part if is_bits and isinstance(part.right, ast.Constant) else None


def load_of(target):
    """Return a target as the expression that reads it."""
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    return ast.Subscript(target.value, target.slice, ast.Load())
