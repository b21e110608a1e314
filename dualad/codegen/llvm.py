"""LLVM code of one function, line by line: variables, numbers of seven types, arrays in memory.

Arrays are pointers that overlap with no other argument's; their shapes are known, elements stand at offsets that are never negative, and no
bound is checked. Numbers are promoted as in NumPy. Complex ones are pairs; products of them are rounded as in NumPy's loops, twice a part.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from ..ir.nodes import ArrayType
from ..ir.values import PART, arithmetic_dtype, common, promoted

#: the types of numbers, and of the elements of arrays, by dtype
NUMBERS = {
    "bool": "i1", "int64": "i64", "uint64": "i64", "float32": "float", "float64": "double", "complex64": "{ float, float }",
    "complex128": "{ double, double }",
}  # fmt: skip
ELEMENTS = NUMBERS | {"bool": "i8"} | {f"{sign}int{width}": f"i{width}" for sign in ("", "u") for width in (8, 16, 32)}
FLOATS = {"float32": "f32", "float64": "f64"}
INTEGERS = ("int64", "uint64")

FLOATING = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
INTEGRAL = {"add": "add", "subtract": "sub", "multiply": "mul", "left_shift": "shl", "right_shift": "ashr"}
COMPARED = {
    "equal": ("oeq", "eq"), "not_equal": ("une", "ne"), "less": ("olt", "lt"), "less_equal": ("ole", "le"), "greater": ("ogt", "gt"),
    "greater_equal": ("oge", "ge"),
}  # fmt: skip


@dataclass(frozen=True)
class Array:
    """An array in memory: what it is, and the pointer to it."""

    type: ArrayType
    pointer: str

    @property
    def shape(self):
        return self.type.shape

    @property
    def element(self):
        return ELEMENTS[self.type.dtype]


@dataclass(frozen=True)
class Number:
    """A number, or a vector of `width` numbers: its dtype, one of those of arithmetic, and its operand."""

    dtype: str
    text: str
    width: int = 0

    @property
    def type(self):
        return f"<{self.width} x {NUMBERS[self.dtype]}>" if self.width else NUMBERS[self.dtype]

    def __str__(self):
        return f"{self.type} {self.text}"


def integer(n: int) -> Number:
    return Number("int64", str(n))


def number_type(dtype: str) -> str:
    """Return the type of a number of any dtype."""
    return NUMBERS[arithmetic_dtype(dtype)]


class Writer:
    """The lines of a function, and the variables in it; that of a kernel of vectors has vectors of `width` for all numbers."""

    def __init__(self, module, width=0):
        self.module, self.width = module, width
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.variables: dict[tuple, str] = {}
        self.once: set[str] = set()  # variables that are set at one place, which is on the way to all that read them
        self.values: dict[str, Array | Number] = {}  # theirs
        self.count = 0
        self.loops = False
        self.shares = False  # nests with a team of threads
        self.alone = False  # in a loop over what groups of lanes leave
        self.opaque = False  # whether the innermost loop branches, or calls what has no vectors: LLVM would say that it is none of vectors

    # --- lines ------------------------------------------------------------------------------------------------------------------

    def say(self, line):
        self.lines.append(f"  {line}")

    def let(self, line):
        """Enter an instruction with a result."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {line}")
        return f"%v{self.count}"

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

    def text(self, header):
        """Return the code of the function."""
        return "\n".join([f"{header} {{", *self.slots, *self.lines, "}"])

    # --- variables --------------------------------------------------------------------------------------------------------------

    def assign(self, name, value):
        """Set the variable of a name and of the type of a value."""
        if name in self.once:
            self.values[name] = value
            return
        array = isinstance(value, Array)
        key, kind, text = (name, value.type), "ptr" if array else value.type, value.pointer if array else value.text
        if key not in self.variables:
            self.variables[key] = f"%{name}.slot{len(self.slots)}"
            self.slots.append(f"  {self.variables[key]} = alloca {kind}")
        self.say(f"store {kind} {text}, ptr {self.variables[key]}")

    def variable(self, name, kind):
        """Return a variable of an array's type, or of a dtype."""
        if name in self.once:
            return self.values[name]
        if isinstance(kind, ArrayType):
            return Array(kind, self.let(f"load ptr, ptr {self.variables[name, kind]}"))
        dtype = arithmetic_dtype(kind)
        return Number(dtype, self.let(f"load {NUMBERS[dtype]}, ptr {self.variables[name, NUMBERS[dtype]]}"))

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
        self.opaque = False
        body(Number("int64", at))
        if not self.ended:
            self.say(f"store i64 {self.let(f'add nsw i64 {at}, {step}')}, ptr {slot}")
            self.say(f"br label %{head}{self.module.wide(1 if self.opaque else width) if width else ''}")
        self.opaque = False
        self.start(done)

    def lanes(self, name, low, high, count, body, width):
        """Run `body` of the index and its last bits: for `count` of them, a power of two, side by side, then for those that are left."""
        mask = count - 1
        if low.text.isdigit() and high.text.isdigit():
            ends = int(low.text), int(high.text)
            first = min(ends[0] + mask & ~mask, ends[1])
            first, last = (integer(n) for n in (first, max(ends[1] & ~mask, first)))
        else:
            up = Number("int64", self.let(f"and i64 {self.let(f'add nsw i64 {low.text}, {mask}')}, {~mask}"))
            first = self.choose(self.compare("less", up, high), up, high)
            down = Number("int64", self.let(f"and i64 {high.text}, {~mask}"))
            last = self.choose(self.compare("greater", down, first), down, first)

        def alone(at):
            body(at, Number("int64", self.let(f"and i64 {at.text}, {mask}")))

        def together(start):
            def one(lane):
                body(Number("int64", self.let(f"add nsw i64 {start.text}, {lane.text}")), lane)

            self.loop(name, integer(0), integer(count), 1, one, width)

        for start, stop, step, what in ((low, first, 1, alone), (first, last, count, together), (last, high, 1, alone)):
            if start != stop:
                self.alone = step == 1
                self.loop(name, start, stop, step, what, int(step == 1))
        self.alone = False

    def each(self, array, value):
        """Store `value` of an offset at each offset of an array."""
        self.loop("each", integer(0), integer(math.prod(array.shape)), 1, lambda at: self.put(self.moved(array, at), value(at)))

    # --- numbers ---------------------------------------------------------------------------------------------------------------------

    def type_of(self, dtype):
        return Number(dtype, "", self.width).type

    def number(self, dtype, line):
        """Enter an instruction whose result is a number."""
        return Number(dtype, self.let(line), self.width)

    def constant(self, value, dtype):
        if dtype in PART:
            return self.pair(*(self.constant(part, PART[dtype]) for part in (value.real, value.imag)))
        if dtype == "float32":  # is written as the float64 that it is, too; beyond them all it is infinite
            beyond = abs(value) >= 3.4028235677973366e38  # not NaN
            value = math.copysign(math.inf, value) if beyond else struct.unpack("f", struct.pack("f", value))[0]
        if dtype in FLOATS:
            text = f"0x{struct.pack('>d', value).hex()}"
        else:
            text = str(bool(value)).lower() if dtype == "bool" else str(int(value))
        number = Number(arithmetic_dtype(dtype), text)
        return Number(number.dtype, f"splat ({number})", self.width) if self.width else number

    def operate(self, name, *args):
        """Return what an operator gives."""
        if name == "select":
            return self.choose(*args)
        if name in COMPARED:
            return self.compare(name, *args)
        if name == "not":
            return self.number("bool", f"xor {self.truth(*args)}, {self.constant(True, 'bool').text}")
        if name in ("real", "imag"):
            return self.parts(*args)[name == "imag"]
        if name == "complex":
            return self.pair(*args)
        dtype = promoted(name, tuple(arg.dtype for arg in args))
        if name == "absolute":
            return self.absolute(self.cast(args[0], dtype))
        args = tuple(self.cast(arg, dtype) for arg in args)
        if name == "negative":
            return self.negative(args[0])
        if name == "power":
            return self.cast(self.intrinsic("llvm.pow", *(self.cast(arg, "float64") for arg in args)), dtype)
        if dtype in PART:
            return self.complex_arithmetic(name, *args)
        x, *y = args
        if name == "invert":
            return self.number(dtype, f"xor {x}, {self.constant(-1, dtype).text}")
        if name in ("and", "or", "xor"):
            return self.number(dtype, f"{name} {x}, {y[0].text}")
        if dtype in FLOATS and name in FLOATING:
            return self.number(dtype, f"{FLOATING[name]} {x}, {y[0].text}")
        if dtype in INTEGERS and name in INTEGRAL:
            how = "lshr" if (name, dtype) == ("right_shift", "uint64") else INTEGRAL[name]
            return self.number(dtype, f"{how} {x}, {y[0].text}")
        if dtype in INTEGERS and name in ("floor_divide", "remainder"):
            return self.divided(x, *y)[name == "floor_divide"]
        raise NotImplementedError(f"{name} of {dtype}")

    def complex_arithmetic(self, name, x, y):
        """Return a complex number that two numbers of one type give."""
        (a, b), (c, d) = self.parts(x), self.parts(y)
        if name == "multiply":
            real = self.fused(a, c, self.negative(self.operate("multiply", b, d)))
            return self.pair(real, self.fused(a, d, self.operate("multiply", b, c)))
        if name in ("add", "subtract"):
            return self.pair(self.operate(name, a, c), self.operate(name, b, d))
        raise NotImplementedError(f"{name} of {x.dtype}")

    def negative(self, x):
        if x.dtype in PART:
            return self.pair(*map(self.negative, self.parts(x)))
        return self.number(x.dtype, f"fneg {x}" if x.dtype in FLOATS else f"sub {self.constant(0, x.dtype)}, {x.text}")

    def fused(self, x, y, z):
        """Return x * y + z of numbers of one type, rounded once if the processor has an instruction for it."""
        if not self.module.fuses or x.dtype not in FLOATS:
            return self.operate("add", self.operate("multiply", x, y), z)
        return self.intrinsic("llvm.fma", x, y, z)

    def parts(self, x):
        """Return the real and the imaginary part of a complex number."""
        return [Number(PART[x.dtype], self.let(f"extractvalue {x}, {k}")) for k in (0, 1)]

    def pair(self, real, imaginary):
        """Return the complex number of two parts."""
        dtype = promoted("complex", (real.dtype, imaginary.dtype))
        kind = NUMBERS[dtype]
        text = self.let(f"insertvalue {kind} undef, {self.cast(real, PART[dtype])}, 0")
        return Number(dtype, self.let(f"insertvalue {kind} {text}, {self.cast(imaginary, PART[dtype])}, 1"))

    def compare(self, name, x, y):
        """Return whether two numbers are as an operator says."""
        if {x.dtype, y.dtype} == set(INTEGERS):
            return self.compare_signs(name, x, y)
        dtype = common(x.dtype, y.dtype)
        if dtype in PART:
            if name not in ("equal", "not_equal"):
                raise NotImplementedError("an order of complex numbers")
            pairs = zip(self.parts(self.cast(x, dtype)), self.parts(self.cast(y, dtype)), strict=True)
            return self.operate("and" if name == "equal" else "or", *(self.compare(name, a, b) for a, b in pairs))
        dtype = "int64" if dtype == "bool" else dtype
        x, y = self.cast(x, dtype), self.cast(y, dtype)
        floating, integral = COMPARED[name]
        sign = "" if name in ("equal", "not_equal") else "u" if dtype == "uint64" else "s"
        return self.number("bool", f"{f'fcmp {floating}' if dtype in FLOATS else f'icmp {sign}{integral}'} {x}, {y.text}")

    def compare_signs(self, name, x, y):
        """Compare an int64 with an uint64: one below 0 is less."""
        signed, is_less = (x, ("less", "less_equal")) if x.dtype == "int64" else (y, ("greater", "greater_equal"))
        as_positive = self.compare(name, self.cast(x, "uint64"), self.cast(y, "uint64"))
        below = self.compare("less", signed, integer(0))
        return self.choose(below, self.constant(name in (*is_less, "not_equal"), "bool"), as_positive)

    def choose(self, condition, x, y):
        dtype = common(x.dtype, y.dtype)
        x, y, condition = self.cast(x, dtype), self.cast(y, dtype), self.truth(condition)
        if dtype in PART:
            pairs = zip(self.parts(x), self.parts(y), strict=True)
            return self.pair(*(self.choose(condition, a, b) for a, b in pairs))
        return self.number(dtype, f"select {condition}, {x}, {y}")

    def truth(self, x):
        return x if x.dtype == "bool" else self.compare("not_equal", x, self.constant(0, x.dtype))

    def cast(self, x, dtype):
        """Return a number as one of another dtype; of one that is not of arithmetic, the int64 that it is."""
        if x.dtype == dtype:
            return x
        if dtype == "bool":
            return self.truth(x)
        if dtype in PART:
            parts = self.parts(x) if x.dtype in PART else [x, self.constant(0, PART[dtype])]
            return self.pair(*(self.cast(part, PART[dtype]) for part in parts))
        if x.dtype in PART:
            raise NotImplementedError("a complex number stands for a real one")
        if dtype not in NUMBERS:
            part = self.let(f"trunc i64 {self.cast(x, 'int64').text} to {ELEMENTS[dtype]}")
            return Number("int64", self.let(f"{'zext' if dtype.startswith('u') else 'sext'} {ELEMENTS[dtype]} {part} to i64"))
        if dtype in INTEGERS and x.dtype in INTEGERS:
            return Number(dtype, x.text, x.width)
        if dtype == "uint64" and x.dtype in FLOATS:
            return self.unsigned(self.cast(x, "float64"))
        if x.dtype in FLOATS:
            how = "fptosi" if dtype == "int64" else "fpext" if dtype == "float64" else "fptrunc"
        elif dtype in INTEGERS:
            how = "zext"
        else:
            how = "sitofp" if x.dtype == "int64" else "uitofp"
        return self.number(dtype, f"{how} {x} to {self.type_of(dtype)}")

    def unsigned(self, x):
        """Return a float64 as an uint64, as processors without an instruction for it do: that of one below 0 wraps."""
        middle = self.constant(2.0**63, "float64")
        large = self.compare("greater_equal", x, middle)
        small = self.choose(large, self.operate("subtract", x, middle), x)
        sign = self.choose(large, integer(-(2**63)), integer(0))
        return Number("uint64", self.let(f"xor i64 {self.cast(small, 'int64').text}, {sign.text}"))

    def intrinsic(self, name, *args):
        """Return what an intrinsic function of floats of one type gives."""
        dtype = args[0].dtype
        return self.external(f"{name}.{f'v{self.width}' if self.width else ''}{FLOATS[dtype]}", *args)

    def external(self, name, *args):
        """Return what a function of floats of one type gives."""
        self.opaque = self.opaque or not name.startswith("llvm.")
        kind = args[0].type
        name = self.module.declare(name, kind, *[kind] * len(args))
        return self.number(args[0].dtype, f"call {kind} {name}({', '.join(map(str, args))})")

    def absolute(self, x):
        if x.dtype == "uint64":
            return x
        if x.dtype == "int64":
            return self.choose(self.compare("less", x, integer(0)), self.negative(x), x)
        return self.intrinsic("llvm.fabs", x)

    def bits(self, x):
        """Return the bits of a float as an integer; those of a float32 with its sign."""
        if x.dtype != "float32":
            return self.number("int64", f"bitcast {self.cast(x, 'float64')} to {self.type_of('int64')}")
        half = self.let(f"bitcast {x} to i32")
        return Number("int64", self.let(f"sext i32 {half} to i64"))

    def from_bits(self, n):
        return self.number("float64", f"bitcast {self.cast(n, 'int64')} to {self.type_of('float64')}")

    def from_bits32(self, n):
        half = self.let(f"trunc {self.cast(n, 'int64')} to i32")
        return Number("float32", self.let(f"bitcast i32 {half} to float"))

    # --- arrays ---------------------------------------------------------------------------------------------------------------------

    def load(self, place):
        """Return the number at a pointer."""
        dtype, text = place.type.dtype, self.let(f"load {place.element}, ptr {place.pointer}")
        if dtype == "bool":
            return Number("bool", self.let(f"icmp ne i8 {text}, 0"))
        if dtype not in NUMBERS:
            return Number("int64", self.let(f"{'zext' if dtype.startswith('u') else 'sext'} {place.element} {text} to i64"))
        return Number(dtype, text)

    def put(self, place, value):
        """Store a number at a pointer; an integer wraps."""
        dtype = place.type.dtype
        if dtype in NUMBERS:
            value = self.cast(value, dtype)
            text = self.let(f"zext {value} to i8") if dtype == "bool" else value.text
        else:
            text = self.let(f"trunc {self.cast(value, 'int64')} to {place.element}")
        self.say(f"store {place.element} {text}, ptr {place.pointer}")

    def element(self, array, at):
        return self.load(self.moved(array, at))

    def part(self, array, positions):
        """Return the part of an array at positions along its first axes."""
        offset = None
        for axis, position in enumerate(positions):
            stride = math.prod(array.shape[axis + 1 :])
            step = position.text if stride == 1 else self.let(f"mul nsw i64 {position.text}, {stride}")
            offset = step if offset is None else self.let(f"add nsw i64 {offset}, {step}")
        rest = array.shape[len(positions) :]
        if offset is None:
            return Array(ArrayType(array.type.dtype, rest), array.pointer)
        return self.moved(array, Number("int64", offset), rest)

    def moved(self, array, at, shape=()):
        pointer = self.let(f"getelementptr inbounds {array.element}, ptr {array.pointer}, i64 {at.text}")
        return Array(ArrayType(array.type.dtype, shape), pointer)

    def room(self, kind):
        """Return a new array of numbers."""
        self.count += 1
        self.slots.append(f"  %room{self.count} = alloca [{math.prod(kind.shape)} x {ELEMENTS[kind.dtype]}], align 64")
        return Array(kind, f"%room{self.count}")

    def by_halves(self, name, array):
        """Return what combines all numbers of an array: all but the last, a power of two, by halves until one is left, then both."""
        dtype = array.type.dtype
        part, size, count = PART.get(dtype, dtype), 1 + (dtype in PART), array.shape[0] - 1
        element = NUMBERS[part]
        x = self.let(f"load <{count * size} x {element}>, ptr {array.pointer}, align 8")
        while count > 1:
            kind, count = f"<{count * size} x {element}>", count // 2
            low, high = (", ".join(f"i32 {k}" for k in range(first, first + count * size)) for first in (0, count * size))
            low, high = (self.let(f"shufflevector {kind} {x}, {kind} undef, <{count * size} x i32> <{half}>") for half in (low, high))
            x = self.let(f"{FLOATING[name]} <{count * size} x {element}> {low}, {high}")
        numbers = [Number(part, self.let(f"extractelement <{size} x {element}> {x}, i32 {k}")) for k in range(size)]
        last = self.element(array, integer(array.shape[0] - 1))
        return self.operate(name, numbers[0] if size == 1 else self.pair(*numbers), last)

    # --- what is noted in the status -----------------------------------------------------------------------------------------------

    def inside(self, k, n):
        """Return an index counted from the end if it is negative; one out of bounds is noted in the status, and is 0."""
        k, n = self.cast(k, "int64"), self.cast(n, "int64")
        counted = self.let(f"add {k}, {n.text}")
        place = self.let(f"select i1 {self.let(f'icmp slt {k}, 0')}, i64 {counted}, {k}")
        bad = self.let(f"icmp uge i64 {place}, {n.text}")
        self.note(bad, 1)
        return Number("int64", self.let(f"select i1 {bad}, i64 0, i64 {place}"))

    def exact(self, name, x, y):
        """Return the result of an instruction on two integers; one beyond 64 bits is noted in the status."""
        x, y = self.cast(x, "int64"), self.cast(y, "int64")
        function = self.module.declare(f"llvm.{name}.with.overflow.i64", "{ i64, i1 }", "i64", "i64")
        pair = self.let(f"call {{ i64, i1 }} {function}({x}, {y})")
        self.note(self.let(f"extractvalue {{ i64, i1 }} {pair}, 1"), 2)
        return Number("int64", self.let(f"extractvalue {{ i64, i1 }} {pair}, 0"))

    def divided(self, x, y, notes=False):
        """Return the remainder and the quotient of two integers as in NumPy, where both are 0 if y is.

        With `notes`, as in Python: a division by zero, and a result beyond 64 bits, is noted in the status.
        """
        signed = x.dtype == "int64"
        zero = self.let(f"icmp eq {y}, 0")
        if notes:
            self.note(zero, 2)
        one = self.let(f"icmp eq {y}, -1") if signed else "false"
        divisor = self.let(f"select i1 {self.let(f'or i1 {zero}, {one}')}, i64 1, {y}")
        if signed:
            rest = self.let(f"srem {x}, {divisor}")
            turned = self.let(f"icmp slt i64 {self.let(f'xor i64 {rest}, {divisor}')}, 0")
            wrong = self.let(f"and i1 {turned}, {self.let(f'icmp ne i64 {rest}, 0')}")
            rest = self.let(f"select i1 {wrong}, i64 {self.let(f'add i64 {rest}, {divisor}')}, i64 {rest}")
            less = self.let(f"zext i1 {wrong} to i64")
            whole = Number("int64", self.let(f"sub i64 {self.let(f'sdiv {x}, {divisor}')}, {less}"))
            negative = self.exact("ssub", integer(0), self.choose(Number("bool", one), x, integer(0))) if notes else self.negative(x)
            whole = self.choose(Number("bool", one), negative, whole)
        else:
            rest, whole = self.let(f"urem {x}, {divisor}"), Number("uint64", self.let(f"udiv {x}, {divisor}"))
        numbers = [Number(x.dtype, rest), whole]
        return numbers if notes else [self.choose(Number("bool", zero), Number(x.dtype, "0"), number) for number in numbers]

    def note(self, condition, code):
        """Write a code into the status if a condition holds."""
        self.opaque = True
        bad, done = self.labels("bad", "good")
        self.say(f"br i1 {condition}, label %{bad}, label %{done}")
        self.start(bad)
        self.say(f"store i64 {code}, ptr %status")
        self.say(f"br label %{done}")
        self.start(done)
