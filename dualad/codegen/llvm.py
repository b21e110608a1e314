"""LLVM code of one function, line by line: variables, numbers of six types, arrays in memory.

Arrays are pointers that overlap with no other argument's; their shapes are known, elements stand at offsets that are never negative, and no
bound is checked. Numbers are promoted as in NumPy. Complex ones are pairs; products of them are rounded as in NumPy's loops, twice a part.
"""

from __future__ import annotations

import ast
import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["COMPLEX", "PARTS", "RANK", "Array", "Number", "Untranslatable", "Writer", "number_type"]

#: the types of numbers, and of the elements of arrays, by dtype
COMPLEX = {"double": "{ double, double }", "float": "{ float, float }"}
PARTS = {pair: part for part, pair in COMPLEX.items()}
NUMBERS = {
    "float64": "double", "float32": "float", "int64": "i64", "bool": "i1", "complex128": COMPLEX["double"], "complex64": COMPLEX["float"],
}  # fmt: skip
ELEMENTS = NUMBERS | {"bool": "i8"}
RANK = {kind: rank for rank, kind in enumerate(("i1", "i64", "float", "double", *reversed(COMPLEX.values())))}


class Untranslatable(Exception):
    """Something has no translation here."""


@dataclass(frozen=True)
class Array:
    """An array in memory: the type of its elements and its shape, with the pointer to it in a translated function."""

    element: str
    shape: tuple[int, ...]
    pointer: str = ""

    @classmethod
    def of(cls, dtype, shape):
        if dtype.name not in ELEMENTS:
            raise Untranslatable(f"arrays of {dtype}")
        return cls(ELEMENTS[dtype.name], tuple(shape))

    @property
    def kind(self):
        return Array(self.element, self.shape)


@dataclass(frozen=True)
class Number:
    """A number in a translated function: its type and its operand."""

    type: str
    text: str


def number_type(dtype):
    if dtype.name not in NUMBERS:
        raise Untranslatable(f"numbers of {dtype}")
    return NUMBERS[dtype.name]


FLOATING = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
INTEGRAL = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.LShift: "shl", ast.RShift: "ashr"}
LOGICAL = {ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}
COMPARED = {
    ast.Eq: ("oeq", "eq"), ast.NotEq: ("une", "ne"), ast.Lt: ("olt", "slt"), ast.LtE: ("ole", "sle"), ast.Gt: ("ogt", "sgt"),
    ast.GtE: ("oge", "sge"),
}  # fmt: skip


class Writer:
    """The lines of a function, and the variables in it."""

    def __init__(self, module):
        self.module = module
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.variables: dict[str, Any] = {}
        self.count = 0
        self.loops = False
        self.alone = False  # in a loop over what groups of lanes leave

    # --- lines ------------------------------------------------------------------------------------------------------------------

    def say(self, line):
        self.lines.append(f"  {line}")

    def new(self):
        self.count += 1
        return f"%v{self.count}"

    def let(self, line):
        """Enter an instruction with a result."""
        name = self.new()
        self.lines.append(f"  {name} = {line}")
        return name

    @property
    def ended(self):
        return bool(self.lines) and self.lines[-1].startswith(("  ret ", "  br "))

    def labels(self, *names):
        self.count += 1
        return [f"{name}{self.count}" for name in names]

    def start(self, label):
        if not self.ended:
            self.say(f"br label %{label}")
        self.lines.append(f"{label}:")

    # --- variables --------------------------------------------------------------------------------------------------------------

    def assign(self, name, value):
        """Set a variable, which is of one type."""
        kind = value.kind if isinstance(value, Array) else value.type
        known = self.variables.get(name)
        if known is None:
            slot = f"%{name}.slot{len(self.slots)}"
            self.slots.append(f"  {slot} = alloca {'ptr' if isinstance(value, Array) else kind}")
            known = self.variables[name] = (kind, slot)
        if isinstance(value, Array):
            if known[0] != kind:
                raise Untranslatable(f"{name} changes its shape")
            self.say(f"store ptr {value.pointer}, ptr {known[1]}")
        else:
            if isinstance(known[0], Array):
                raise Untranslatable(f"{name} is an array and a number")
            value = self.cast(value, known[0])
            self.say(f"store {value.type} {value.text}, ptr {known[1]}")

    def variable(self, name):
        kind, slot = self.variables[name]
        if isinstance(kind, Array):
            return Array(kind.element, kind.shape, self.let(f"load ptr, ptr {slot}"))
        return Number(kind, self.let(f"load {kind}, ptr {slot}"))

    # --- loops ---------------------------------------------------------------------------------------------------------------------

    def loop(self, name, low, high, step, body, width=0):
        """Run `body` of the index from low to high; LLVM is told how many turns become one of vectors, if `width` is not 0."""
        self.loops = True
        head, inside, done = self.labels("head", "body", "done")
        slot = f"%{name}.{head}"
        self.slots.append(f"  {slot} = alloca i64")
        self.say(f"store i64 {low.text}, ptr {slot}")
        self.start(head)
        at = self.let(f"load i64, ptr {slot}")
        goes = self.let(f"icmp {'slt' if step > 0 else 'sgt'} i64 {at}, {high.text}")
        self.say(f"br i1 {goes}, label %{inside}, label %{done}")
        self.start(inside)
        body(Number("i64", at))
        if not self.ended:
            self.say(f"store i64 {self.let(f'add nsw i64 {at}, {step}')}, ptr {slot}")
            self.say(f"br label %{head}{self.module.wide(width) if width else ''}")
        self.start(done)

    def lanes(self, name, low, high, count, body):
        """Run `body` of the index and its last bits: for `count` of them, a power of two, side by side, then for those that are left."""
        mask = count - 1
        if low.text.isdigit() and high.text.isdigit():
            ends = int(low.text), int(high.text)
            first = min(ends[0] + mask & ~mask, ends[1])
            first, last = (Number("i64", str(n)) for n in (first, max(ends[1] & ~mask, first)))
        else:
            up = Number("i64", self.let(f"and i64 {self.let(f'add nsw i64 {low.text}, {mask}')}, {~mask}"))
            first = self.choose(self.compare(ast.Lt(), up, high), up, high)
            down = Number("i64", self.let(f"and i64 {high.text}, {~mask}"))
            last = self.choose(self.compare(ast.Gt(), down, first), down, first)

        def alone(at):
            body(at, Number("i64", self.let(f"and i64 {at.text}, {mask}")))

        def together(start):
            def one(lane):
                body(Number("i64", self.let(f"add nsw i64 {start.text}, {lane.text}")), lane)

            self.loop(name, Number("i64", "0"), Number("i64", str(count)), 1, one, count)

        for start, stop, step, what in ((low, first, 1, alone), (first, last, count, together), (last, high, 1, alone)):
            if start != stop:
                self.alone = step == 1
                self.loop(name, start, stop, step, what, int(step == 1))
        self.alone = False

    def each(self, array, value):
        """Store `value` of an offset at each offset of an array."""
        count = math.prod(array.shape)

        def body(at):
            self.put(self.moved(array, at, ()), value(at))

        self.loop("each", Number("i64", "0"), Number("i64", str(count)), 1, body)

    # --- numbers ---------------------------------------------------------------------------------------------------------------------

    def constant(self, value):
        kind = type(value)
        if kind is bool:
            return Number("i1", str(value).lower())
        if kind is int and -(2**63) <= value < 2**63:
            return Number("i64", str(value))
        if kind is float:
            return Number("double", f"0x{struct.pack('>d', value).hex()}")
        if kind is np.ndarray:
            return self.module.table(value)
        raise Untranslatable(f"a constant {kind.__name__}")

    def arithmetic(self, op, x, y):
        """Return a number that two numbers give."""
        if isinstance(x, Array) or isinstance(y, Array):
            raise Untranslatable("arithmetic of arrays")
        kind = type(op)
        common = max(x.type, y.type, key=RANK.__getitem__)
        if common in PARTS:
            return self.complex_arithmetic(kind, x, y, common)
        if kind in LOGICAL and common in ("i1", "i64"):
            x, y = self.cast(x, common), self.cast(y, common)
            return Number(common, self.let(f"{LOGICAL[kind]} {common} {x.text}, {y.text}"))
        if kind is ast.Div and common in ("i1", "i64"):
            common = "double"
        if common == "float" and "i64" in (x.type, y.type):
            common = "double"
        if common == "i1":
            common = "i64"
        x, y = self.cast(x, common), self.cast(y, common)
        if common != "i64" and kind in FLOATING:
            return Number(common, self.let(f"{FLOATING[kind]} {common} {x.text}, {y.text}"))
        if common == "i64" and kind in INTEGRAL:
            return Number(common, self.let(f"{INTEGRAL[kind]} i64 {x.text}, {y.text}"))
        if common == "double" and kind is ast.Pow:
            return self.intrinsic("llvm.pow", x, y)
        raise Untranslatable(f"{kind.__name__} of {common}")

    def complex_arithmetic(self, kind, x, y, common):
        """Return a complex number that two numbers give."""
        if {x.type, y.type} & {"double", "i64"}:
            common = COMPLEX["double"]
        (a, b), (c, d) = self.parts(self.cast(x, common)), self.parts(self.cast(y, common))
        if kind is ast.Mult:
            product = self.arithmetic(ast.Mult(), b, d)
            real = self.fused(a, c, self.negative(product))
            return self.pair(real, self.fused(a, d, self.arithmetic(ast.Mult(), b, c)))
        if kind in (ast.Add, ast.Sub):
            return self.pair(self.arithmetic(kind(), a, c), self.arithmetic(kind(), b, d))
        raise Untranslatable(f"{kind.__name__} of {common}")

    def negative(self, x):
        """Return the negative of a float."""
        return Number(x.type, self.let(f"fneg {x.type} {x.text}"))

    def fused(self, x, y, z):
        """Return x * y + z of floats of one type, rounded once if the processor has an instruction for it."""
        if not self.module.fuses:
            return self.arithmetic(ast.Add(), self.arithmetic(ast.Mult(), x, y), z)
        name = self.module.declare(f"llvm.fma.f{64 if x.type == 'double' else 32}", x.type, *[x.type] * 3)
        return Number(x.type, self.let(f"call {x.type} {name}({', '.join(f'{part.type} {part.text}' for part in (x, y, z))})"))

    def parts(self, x):
        """Return the real and the imaginary part of a complex number."""
        return [Number(PARTS[x.type], self.let(f"extractvalue {x.type} {x.text}, {k}")) for k in (0, 1)]

    def pair(self, real, imaginary):
        """Return the complex number of two parts."""
        part = "float" if real.type == imaginary.type == "float" else "double"
        kind = COMPLEX[part]
        text = self.let(f"insertvalue {kind} undef, {part} {self.cast(real, part).text}, 0")
        return Number(kind, self.let(f"insertvalue {kind} {text}, {part} {self.cast(imaginary, part).text}, 1"))

    def compare(self, op, x, y):
        """Return whether two numbers are as an operator says."""
        common = max(x.type, y.type, key=RANK.__getitem__)
        if common in PARTS:
            if type(op) not in (ast.Eq, ast.NotEq):
                raise Untranslatable("an order of complex numbers")
            pairs = zip(self.parts(self.cast(x, common)), self.parts(self.cast(y, common)), strict=True)
            real, imaginary = (self.compare(op, a, b) for a, b in pairs)
            return self.arithmetic(ast.BitAnd() if type(op) is ast.Eq else ast.BitOr(), real, imaginary)
        common = "i64" if common == "i1" else common
        x, y = self.cast(x, common), self.cast(y, common)
        floating, integral = COMPARED[type(op)]
        how = f"icmp {integral}" if common == "i64" else f"fcmp {floating}"
        return Number("i1", self.let(f"{how} {common} {x.text}, {y.text}"))

    def choose(self, condition, x, y):
        common = max(x.type, y.type, key=RANK.__getitem__)
        x, y = self.cast(x, common), self.cast(y, common)
        condition = self.truth(condition)
        if common in PARTS:
            pairs = zip(self.parts(x), self.parts(y), strict=True)
            return self.pair(*(self.choose(condition, a, b) for a, b in pairs))
        return Number(common, self.let(f"select i1 {condition.text}, {common} {x.text}, {common} {y.text}"))

    def truth(self, x):
        if x.type == "i1":
            return x
        if x.type in PARTS:
            return self.compare(ast.NotEq(), x, Number("i64", "0"))
        zero = "0" if x.type == "i64" else "0.0"
        return Number("i1", self.let(f"{'icmp ne' if x.type == 'i64' else 'fcmp une'} {x.type} {x.text}, {zero}"))

    def cast(self, x, kind):
        """Return a number as one of another type."""
        if isinstance(x, Array | list):
            raise Untranslatable("an array stands for a number")
        if x.type == kind:
            return x
        if kind == "i1":
            return self.truth(x)
        if kind in PARTS:
            parts = self.parts(x) if x.type in PARTS else [x, Number("i64", "0")]
            return self.pair(*(self.cast(part, PARTS[kind]) for part in parts))
        if x.type in PARTS:
            raise Untranslatable("a complex number stands for a real one")
        if x.type == "i1":
            how = "zext" if kind == "i64" else "uitofp"
        elif x.type == "i64":
            how = "sitofp"
        else:
            how = "fptosi" if kind == "i64" else "fpext" if kind == "double" else "fptrunc"
        return Number(kind, self.let(f"{how} {x.type} {x.text} to {kind}"))

    def intrinsic(self, name, *args):
        args = [self.cast(arg, "double") for arg in args]
        name = self.module.declare(f"{name}.f64", "double", *["double"] * len(args))
        return Number("double", self.let(f"call double {name}({', '.join(f'double {arg.text}' for arg in args)})"))

    def absolute(self, x):
        if x.type == "i64":
            negative = self.let(f"icmp slt i64 {x.text}, 0")
            return self.choose(Number("i1", negative), Number("i64", self.let(f"sub i64 0, {x.text}")), x)
        if x.type != "float":
            return self.intrinsic("llvm.fabs", x)
        name = self.module.declare("llvm.fabs.f32", "float", "float")
        return Number("float", self.let(f"call float {name}(float {x.text})"))

    # --- arrays ---------------------------------------------------------------------------------------------------------------------

    def load(self, place):
        """Return the number at a pointer; a part of an array as such."""
        if place.shape:
            return place
        text = self.let(f"load {place.element}, ptr {place.pointer}")
        if place.element == "i8":
            return Number("i1", self.let(f"icmp ne i8 {text}, 0"))
        return Number(place.element, text)

    def put(self, place, value):
        """Store a number at a pointer."""
        value = self.cast(value, "i1" if place.element == "i8" else place.element)
        text = self.let(f"zext i1 {value.text} to i8") if place.element == "i8" else value.text
        self.say(f"store {place.element} {text}, ptr {place.pointer}")

    def element(self, array, at):
        return self.load(self.moved(array, at, ()))

    def part(self, array, positions):
        """Return the part of an array at positions along its first axes."""
        offset = None
        for axis, position in enumerate(positions):
            stride = math.prod(array.shape[axis + 1 :])
            step = position.text if stride == 1 else self.let(f"mul nsw i64 {position.text}, {stride}")
            offset = step if offset is None else self.let(f"add nsw i64 {offset}, {step}")
        rest = array.shape[len(positions) :]
        return Array(array.element, rest, array.pointer) if offset is None else self.moved(array, Number("i64", offset), rest)

    def moved(self, array, at, shape):
        pointer = self.let(f"getelementptr inbounds {array.element}, ptr {array.pointer}, i64 {at.text}")
        return Array(array.element, shape, pointer)

    def room(self, count, dtype):
        """Return a new array of numbers."""
        array = Array.of(np.dtype(dtype), (count,))
        self.count += 1
        self.slots.append(f"  %room{self.count} = alloca [{count} x {array.element}], align 64")
        return Array(array.element, array.shape, f"%room{self.count}")

    def by_halves(self, op, array):
        """Return what combines all numbers of an array: all but the last, a power of two, by halves until one is left, then both."""
        part = PARTS.get(array.element, array.element)
        size, count = 1 + (array.element in PARTS), array.shape[0] - 1
        x = self.let(f"load <{count * size} x {part}>, ptr {array.pointer}, align 8")
        while count > 1:
            kind, count = f"<{count * size} x {part}>", count // 2
            low, high = (", ".join(f"i32 {k}" for k in range(first, first + count * size)) for first in (0, count * size))
            low, high = (self.let(f"shufflevector {kind} {x}, {kind} undef, <{count * size} x i32> <{half}>") for half in (low, high))
            x = self.let(f"{FLOATING[type(op)]} <{count * size} x {part}> {low}, {high}")
        numbers = [Number(part, self.let(f"extractelement <{size} x {part}> {x}, i32 {k}")) for k in range(size)]
        last = self.element(array, Number("i64", str(array.shape[0] - 1)))
        return self.arithmetic(op, numbers[0] if size == 1 else self.pair(*numbers), last)

    def inside(self, k, n):
        """Return an index counted from the end if it is negative; one out of bounds is noted in the status, and is 0."""
        k, n = self.cast(k, "i64"), self.cast(n, "i64")
        counted = self.let(f"add i64 {k.text}, {n.text}")
        place = self.let(f"select i1 {self.let(f'icmp slt i64 {k.text}, 0')}, i64 {counted}, i64 {k.text}")
        bad = self.let(f"icmp uge i64 {place}, {n.text}")
        self.note(bad, 1)
        return Number("i64", self.let(f"select i1 {bad}, i64 0, i64 {place}"))

    def exact(self, name, x, y):
        """Return the result of an instruction on two integers; one beyond 64 bits is noted in the status."""
        x, y = self.cast(x, "i64"), self.cast(y, "i64")
        function = self.module.declare(f"llvm.{name}.with.overflow.i64", "{ i64, i1 }", "i64", "i64")
        pair = self.let(f"call {{ i64, i1 }} {function}(i64 {x.text}, i64 {y.text})")
        self.note(self.let(f"extractvalue {{ i64, i1 }} {pair}, 1"), 2)
        return Number("i64", self.let(f"extractvalue {{ i64, i1 }} {pair}, 0"))

    def divided(self, x, y):
        """Return Python's remainder and quotient of two integers; a division by zero is noted in the status."""
        x, y = self.cast(x, "i64"), self.cast(y, "i64")
        zero, one = self.let(f"icmp eq i64 {y.text}, 0"), self.let(f"icmp eq i64 {y.text}, -1")
        self.note(zero, 2)
        divisor = self.let(f"select i1 {self.let(f'or i1 {zero}, {one}')}, i64 1, i64 {y.text}")
        rest = self.let(f"srem i64 {x.text}, {divisor}")
        turned = self.let(f"icmp slt i64 {self.let(f'xor i64 {rest}, {divisor}')}, 0")
        wrong = self.let(f"and i1 {turned}, {self.let(f'icmp ne i64 {rest}, 0')}")
        rest = self.let(f"select i1 {wrong}, i64 {self.let(f'add i64 {rest}, {divisor}')}, i64 {rest}")
        whole = self.let(f"sdiv i64 {self.let(f'sub i64 {x.text}, {rest}')}, {divisor}")
        negative = self.exact("ssub", Number("i64", "0"), x)
        return Number("i64", rest), self.choose(Number("i1", one), negative, Number("i64", whole))

    def note(self, condition, code):
        """Write a code into the status if a condition holds."""
        bad, done = self.labels("bad", "good")
        self.say(f"br i1 {condition}, label %{bad}, label %{done}")
        self.start(bad)
        self.say(f"store i64 {code}, ptr %status")
        self.say(f"br label %{done}")
        self.start(done)
