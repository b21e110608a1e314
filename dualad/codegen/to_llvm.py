"""Functions of the loop IR as LLVM code.

Nothing is left to LLVM that would change a bit: partial sums that a `Lane` chooses are the elements of a vector, however wide those of the
processor are. A kernel becomes a function of the IR for each kind of arguments that it is called with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from ..ir.cut import cut
from ..ir.nodes import ArrayType, Const, Function, Module, Return, Table, Var
from ..ir.values import PART, Value, arithmetic_dtype, common, unwrapped
from ..ir.walk import accumulates, set_by
from ..support.costs import LONG_FUNCTION
from ..support.ufunc_loops import INVALID, address_of, symbol_of
from . import kernels, scalars
from .arithmetic import OVERFLOWS
from .llvm import NUMBERS, Array, Number, Writer, integer

#: numbers in the vectors that loops are made of where processors have vectors of more than two, and where dear terms are summed
VECTORS = (4, 8, 16)


def translated(module: Module, name: str, fuses: bool, alone: Mapping[str, Translation] = MappingProxyType({})) -> tuple[Translation, str]:
    """Return a function of a module, and the LLVM code of all that it needs, but for functions that stand `alone`.

    It takes a pointer to a number before its parameters, which is set where something is wrong (see `entry`). `fuses` says whether the
    processor has an instruction that multiplies and adds.
    """
    unit = Unit(cut(Module(tuple(part for part in module.parts if part.name not in alone)), LONG_FUNCTION), fuses, alone)
    function = unit.called(name, [parameter.type for parameter in module.function(name).parameters])
    texts = [*unit.texts, *unit.functions()]
    unit.made.clear()  # which hold it: the cycles would be left to Python's collector
    unit.finished.clear()
    text = "\n".join([*unit.declared.values(), *unit.tables.values(), *texts, *unit.hints])
    return function, text


def is_long(text: str) -> bool:
    """Return whether LLVM code is optimised and emitted less."""
    return len(text) > 256 * LONG_FUNCTION


@cache
def kernel(name: str, dtypes: tuple[str, ...]) -> Function:
    """Return a function of `kernels` or `scalars`, by the name that it is called by, of numbers of these dtypes."""
    plain = name.removeprefix("np.")
    room = kernels if hasattr(kernels, plain) else scalars
    if plain not in room.__all__:
        raise NotImplementedError(f"{name} has no translation")
    parameters = tuple(Var(f"x{i}", dtype) for i, dtype in enumerate(dtypes))
    result = unwrapped(getattr(room, plain)(*map(Value, parameters)))
    return Function(name, parameters, (Return(result),), inlined=True)


class Unit:
    """The functions that are translated together."""

    def __init__(self, module: Module, fuses: bool, alone: Mapping[str, Translation]):
        self.fuses, self.alone = fuses, alone
        self.parts: dict[str, Any] = {part.name: part for part in module.parts}
        self.made: dict[tuple, Translation] = {}
        self.calls: Counter[tuple] = Counter()
        self.finished: list[Translation] = []
        self.texts: list[str] = []  # of other functions
        self.declared: dict[str, str] = {}
        self.tables: dict[str, str] = {}
        self.hints: list[str] = []
        self.loops: dict[tuple, str] = {}  # the functions that call inner loops of ufuncs
        self.symbols: dict[str, int] = {}  # what these refer to, and where it is
        for function in alone.values():
            self.symbols |= function.module.symbols

    def called(self, name, types):
        """Return the translation of a function, for arguments of these types."""
        if name in self.alone:
            function = self.alone[name]
            self.declare(function.name, "void", *function.kinds)
            return function
        key = name, *types
        if key not in self.made:
            own = name in self.parts
            self.made[key] = Translation(self, self.parts[name] if own else kernel(name, types), own)
        self.calls[key] += 1
        return self.made[key]

    def functions(self):
        """Return the code of all functions: a kernel whose copies would be long together is not copied to each call."""
        long = [function for key, function in self.made.items() if self.calls[key] * len(function.lines) > LONG_FUNCTION]
        shared = [function for function in long if not function.own and (function.is_straight or function.branches)]
        vectors = [function for function in shared if function.is_straight]
        made = [function.code(function in shared, function in vectors) for function in self.finished]
        for count in VECTORS:
            made += [Translation(self, function.function, False, count, function.name).code(True, False) for function in vectors]
        if vectors:  # LLVM must not change them before loops become vectors
            names = [f"ptr @{function.name}{end}" for function in vectors for end in ("", *(f".{n}" for n in VECTORS))]
            kept = f"[{len(names)} x ptr] [{', '.join(names)}]"
            made.append(f'@llvm.compiler.used = appending global {kept}, section "llvm.metadata"')
        return made

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

    def inner_loop(self, node):
        """Return the function that calls the inner loop of a ufunc: apart, so that no flag of other operations is tested."""
        key = node.ufunc, node.types, node.dimensions, node.steps, node.raises
        if key in self.loops:
            return self.loops[key]
        name, symbol, count = f"loop{len(self.loops)}", symbol_of(node.ufunc, node.types), len(node.arrays)
        address, data = address_of(node.ufunc, node.types)
        self.loops[key] = name
        self.symbols |= {symbol: address, **({f"{symbol}_data": data} if data else {})}
        self.declared[symbol] = f'declare void @"{symbol}"(ptr, ptr, ptr, ptr)'
        if data:
            self.declared[f"{symbol}_data"] = f'@"{symbol}_data" = external global i8'
        strides = f"@{name}.strides = internal constant [{len(node.steps)} x i64] [{', '.join(f'i64 {n}' for n in node.steps)}]"
        writer = Writer(self)
        arrays, lengths = (writer.room(ArrayType("int64", (n,))) for n in (count, len(node.dimensions)))
        for i, length in enumerate([writer.let("sub i64 %high, %low"), *node.dimensions[1:]]):
            writer.put(writer.moved(lengths, integer(i)), Number("int64", str(length)))
        for i, step in zip(range(count), node.steps, strict=False):
            begun = writer.let(f"getelementptr i8, ptr %a{i}, i64 {writer.let(f'mul i64 %low, {step}')}")
            writer.say(f"store ptr {begun}, ptr {writer.moved(arrays, integer(i)).pointer}")
        clear, test = (self.declare(flag, "i32", "i32") if node.raises else "" for flag in ("feclearexcept", "fetestexcept"))
        if node.raises:
            writer.let(f"call i32 {clear}(i32 {INVALID})")
        given = f'ptr {arrays.pointer}, ptr {lengths.pointer}, ptr @{name}.strides, ptr {f"""@"{symbol}_data" """ if data else "null"}'
        writer.say(f'call void @"{symbol}"({given})')
        if node.raises:
            writer.note(writer.let(f"icmp ne i32 {writer.let(f'call i32 {test}(i32 {INVALID})')}, 0"), 2)
        writer.say("ret void")
        pointers = ", ".join(f"ptr %a{i}" for i in range(count))
        header = f"define internal void @{name}(ptr %status, {pointers}, i64 %low, i64 %high) noinline nounwind"
        self.texts += [strides, writer.text(header)]
        return name

    def block(self, name, args):
        """Return the type of the arguments of a function in memory, and the function of them there that computes one of its blocks."""
        kinds = [arg.type if isinstance(arg, Array) else arg.dtype for arg in args]
        function = self.called(name, (*kinds, "int64"))
        types = ["ptr" if isinstance(arg, Array) else arg.type for arg in args]
        given = f"{{ {', '.join(types)} }}"
        writer, passed = Writer(self), ["ptr %status"]
        for k, kind in enumerate(types):
            slot = writer.let(f"getelementptr {given}, ptr %given, i32 0, i32 {k}")
            passed.append(f"{kind} {writer.let(f'load {kind}, ptr {slot}')}")
        writer.say(f"call void @{function.name}({', '.join(passed)}, i64 %block)")
        writer.say("ret void")
        self.texts.append(writer.text(f"define internal void @{function.name}.block(ptr %status, ptr %given, i64 %block) nounwind"))
        return given, f"{function.name}.block"

    def table(self, name):
        """Return a constant array of integers."""
        rows = self.parts[name].rows
        elements = ", ".join(f"i64 {n}" for row in rows for n in row)
        shape = len(rows), len(rows[0])
        self.tables[name] = f"@table_{name} = internal constant [{shape[0] * shape[1]} x i64] [{elements}]"
        return Array(ArrayType("int64", shape), f"@table_{name}")


INTRINSICS = {
    "math.sqrt": "llvm.sqrt", "np.floor": "llvm.floor", "np.ceil": "llvm.ceil", "np.trunc": "llvm.trunc", "np.rint": "llvm.rint",
    "math.copysign": "llvm.copysign", "fma": "llvm.fma",
}  # fmt: skip
LIBRARY = {
    "math.sin": "sin", "math.cos": "cos", "math.tan": "tan", "math.hypot": "hypot", "np.hypot": "hypot", "np.fmod": "fmod",
    "np.arcsin": "asin", "np.arccos": "acos", "np.arctan2": "atan2", "np.arcsinh": "asinh", "np.arccosh": "acosh", "np.arctanh": "atanh",
    "np.exp2": "exp2", "np.log2": "log2", "np.log10": "log10",
}  # fmt: skip


class Translation(Writer):
    """One translated function: `name`, and the type `result` of what it returns; or a kernel of vectors of that `of_numbers`."""

    def __init__(self, unit, function, own, width=0, of_numbers=""):
        super().__init__(unit, width)
        self.name = f"{of_numbers}.{width}" if width else f"f{len(unit.made)}_{function.name}"
        self.function, self.own = function, own
        self.result = "void"
        self.dtype = ""  # of what it returns
        self.lane: dict[str, Number] = {}  # the last bits of the indices of loops that go in groups
        self.known: dict[int, Any] = {}  # the values of expressions of the statement
        self.given, self.kinds = ["ptr %status"], ["ptr"]
        sets = Counter(parameter.name for parameter in function.parameters)
        sets.update(set_by(function.body))
        self.once = {name for name, count in sets.items() if count == 1}
        for parameter in function.parameters:
            array = isinstance(parameter.type, ArrayType)
            text = f"%{parameter.name}"
            value = Array(parameter.type, text) if array else Number(arithmetic_dtype(parameter.type), text, width)
            self.given.append(f"ptr noalias nocapture {text}" if array else str(value))
            self.kinds.append("ptr" if isinstance(value, Array) else value.type)
            self.assign(parameter.name, value)
        self.block(function.body)
        if not self.ended:
            self.say("ret void")
        if not width:
            unit.finished.append(self)

    def code(self, shared, of_vectors):
        """Return the code; that of a kernel that is `shared` is not copied to its calls; loops call those `of_vectors` that it has."""
        kept = "noinline" if shared or of_vectors or self.loops or not self.function.inlined else "" if self.own else "alwaysinline"
        if of_vectors:
            vectors = ",".join(f"_ZGV_LLVM_N{n}u{'v' * (len(self.given) - 1)}_{self.name}({self.name}.{n})" for n in VECTORS)
            kept += f' willreturn nosync memory(none) "vector-function-abi-variant"="{vectors}"'
        return self.text(f"define internal {self.result} @{self.name}({', '.join(self.given)}) nounwind {kept}")

    @property
    def branches(self):
        """Whether it branches or calls a function of the C library, so that no loop around it is one of vectors."""
        return any(line.startswith("  br ") or (" call " in line and "@llvm." not in line) for line in self.lines)

    @property
    def is_straight(self):
        """Whether it is a kernel of float64, of which there is a function of vectors."""
        return not self.own and not self.branches and {self.dtype, *(x.dtype for x in self.function.parameters)} == {"float64"}

    # --- statements -------------------------------------------------------------------------------------------------------------

    def block(self, statements):
        for statement in statements:
            self.known = {}
            getattr(self, f"do_{type(statement).__name__}")(statement)

    def do_Assign(self, node):
        values = [self.value(value) for value in node.values]
        for target, value in zip(node.targets, values, strict=True):
            self.set(target, value)

    def set(self, target, value):
        """Set a variable, which is of one type."""
        self.assign(target.name, value if isinstance(value, Array) else self.cast(value, arithmetic_dtype(target.type)))

    def do_Store(self, node):
        place = self.part(self.value(node.array), self.indices(node.index))
        value = self.value(node.value)
        self.put(place, self.operate("add", self.load(place), value) if node.adds else value)

    def do_Fill(self, node):
        array, value = self.value(node.array), self.value(node.value)

        def new(at):
            one = self.element(value, at) if isinstance(value, Array) else value
            return self.operate("add", self.element(array, at), one) if node.adds else one

        self.each(array, new)

    def do_Room(self, node):
        self.assign(node.target.name, self.room(node.target.type))

    def do_For(self, node):
        low, high = self.indices((node.low, node.high))
        name = node.index.name

        def body(at, lane=None):
            if lane is not None:
                self.lane[name] = lane
            self.assign(name, at)
            self.block(node.body)

        if node.lanes:
            self.lanes(name, low, high, node.lanes, body, 1 if any(map(accumulates, node.body)) else node.lanes)
            del self.lane[name]
        else:
            self.loop(name, low, high, node.step, body)

    def do_ForRows(self, node):
        table = self.value(node.table)

        def rows(at):
            self.assign(node.row.name, self.part(table, [at]))
            self.block(node.body)

        low, high = self.indices((node.low, node.high))
        self.loop(node.row.name, low, high, 1, rows)

    def do_If(self, node):
        then, other, done = self.labels("then", "else", "done")
        self.say(f"br {self.truth(self.value(node.condition))}, label %{then}, label %{other}")
        for label, body in ((then, node.then), (other, node.otherwise)):
            self.start(label)
            self.block(body)
            if not self.ended:
                self.say(f"br label %{done}")
        self.lines.append(f"{done}:")

    def do_Do(self, node):
        if node.blocks is None:
            self.value(node.call)
            return
        self.loops = self.shares = True
        args = [self.value(arg) for arg in node.call.args]
        given, function = self.module.block(node.call.function, args)
        place = f"%given.{len(self.slots)}"
        self.slots.append(f"  {place} = alloca {given}")
        for k, arg in enumerate(args):
            at = self.let(f"getelementptr {given}, ptr {place}, i32 0, i32 {k}")
            self.say(f"store {f'ptr {arg.pointer}' if isinstance(arg, Array) else arg}, ptr {at}")
        share = self.module.declare("dualad_share", "void", "ptr", "ptr", "ptr", "i64")
        self.say(f"call void {share}(ptr %status, ptr @{function}, ptr {place}, i64 {node.blocks})")

    def do_CallLoop(self, node):
        self.loops = True  # so that others may take the interpreter
        pointers = [f"ptr {self.value(array).pointer}" for array in node.arrays]
        bounds = self.indices(node.part) or [integer(0), integer(node.dimensions[0])]
        self.say(f"call void @{self.module.inner_loop(node)}({', '.join(map(str, ['ptr %status', *pointers, *bounds]))})")

    def do_Return(self, node):
        value = self.value(node.value)
        self.result, self.dtype = value.type, value.dtype
        self.say(f"ret {value}")

    # --- expressions ------------------------------------------------------------------------------------------------------------

    def value(self, node):
        """Return the value of an expression, which is computed once in a statement: a `Number` or an `Array`."""
        if id(node) not in self.known:
            self.known[id(node)] = getattr(self, f"of_{type(node).__name__}")(node)
        return self.known[id(node)]

    def indices(self, nodes):
        return [self.cast(self.value(node), "int64") for node in nodes]

    def of_Const(self, node):
        return self.constant(node.value, node.dtype)

    def of_Var(self, node):
        if isinstance(self.module.parts.get(node.name), Table):
            return self.module.table(node.name)
        return self.variable(node.name, node.type if isinstance(node.type, ArrayType) else node.dtype)

    def of_Op(self, node):
        if node.name == "branch":
            return self.branch(node.args, node.dtype)
        return self.operate(node.name, *map(self.value, node.args))

    def branch(self, args, dtype):
        """Return one of two expressions, which alone is computed."""
        condition, then, otherwise = args
        self.opaque = True
        then_label, other, done = self.labels("then", "else", "done")
        name, known = f"chosen.{then_label}", self.known
        self.say(f"br {self.truth(self.value(condition))}, label %{then_label}, label %{other}")
        for label, part in ((then_label, then), (other, otherwise)):
            self.start(label)
            self.known = dict(known)  # what is computed on one side is not there on the other
            self.assign(name, self.cast(self.value(part), dtype))
            self.say(f"br label %{done}")
        self.known = known
        self.lines.append(f"{done}:")
        return self.variable(name, dtype)

    def of_Cast(self, node):
        if isinstance(node.arg, Const) and node.arg.dtype not in PART:
            return self.constant(node.arg.value, node.dtype) if node.dtype in NUMBERS else self.cast(self.value(node.arg), node.dtype)
        return self.cast(self.value(node.arg), node.dtype)

    def of_Lane(self, node):
        name, count = node.index.name, node.count
        if name not in self.lane:
            at = self.value(node.index)
            bits = self.operate("and", at, integer(count - 1))
            return bits if node.below is None else self.choose(self.compare("less", at, integer(node.below)), bits, integer(count))
        return integer(count) if self.alone and node.below is not None else self.lane[name]  # those left over come in a loop of their own

    def of_Load(self, node):
        return self.load(self.part(self.value(node.array), self.indices(node.index)))

    def of_Row(self, node):
        positions = self.indices(node.index)
        if node.low is not None:
            positions.append(integer(node.low))
        return Array(node.type, self.part(self.value(node.array), positions).pointer)

    def of_Reshape(self, node):
        return Array(node.type, self.value(node.array).pointer)

    def of_Call(self, node):
        args, name = [self.value(arg) for arg in node.args], node.function
        result = self.computed(name, args)
        return self.cast(result, arithmetic_dtype(node.dtype)) if isinstance(result, Number) and isinstance(node.dtype, str) else result

    def computed(self, name, args):
        """Return what a function gives."""
        if name in INTRINSICS:
            return self.intrinsic(INTRINSICS[name], *(self.cast(arg, "float64") for arg in args))
        if name in LIBRARY:
            return self.external(LIBRARY[name], *(self.cast(arg, "float64") for arg in args))
        if name in OVERFLOWS:
            return self.exact(OVERFLOWS[name], *args)
        match name:
            case "multiply_add":
                dtype = common(*(arg.dtype for arg in args))
                return self.fused(*(self.cast(arg, dtype) for arg in args))
            case "sum_of" | "product_of":
                return self.by_halves("add" if name == "sum_of" else "multiply", *args)
            case "bits" | "from_bits" | "from_bits32":
                return getattr(self, name)(*args)
            case "at_least_inside":
                return self.inside(*args)
            case "exact_remainder" | "exact_quotient":
                x, y = (self.cast(arg, "int64") for arg in args)
                return self.divided(x, y, notes=True)[name == "exact_quotient"]
            case "thread":
                return Number("int64", self.let(f"load i64, ptr {self.let('getelementptr i64, ptr %status, i64 2')}"))
            case "regular":
                self.note(self.operate("not", args[1]).text, 2)
                return args[0]
            case "np.conj":
                real, imaginary = self.parts(args[0])
                return self.pair(real, self.negative(imaginary))
        function = self.module.called(name, tuple(arg.type if isinstance(arg, Array) else arg.dtype for arg in args))
        self.opaque = self.opaque or function.branches
        self.loops = self.loops or function.loops
        self.shares = self.shares or function.shares
        given = ["ptr %status", *(f"ptr {arg.pointer}" if isinstance(arg, Array) else str(arg) for arg in args)]
        call = f"call {function.result} @{function.name}({', '.join(given)})"
        if function.result == "void":
            self.say(call)
            return None
        return Number(function.dtype, self.let(call))
