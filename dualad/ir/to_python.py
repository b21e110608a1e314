"""The loop IR as Python source: what `jit` shows, and the oracle of tests, for it runs."""

from __future__ import annotations

import math
import os

from . import nodes as ir

ATOM, ANY = 15, 0  # how tightly Python binds
POWER, UNARY, AND, CHOICE = 13, 12, 8, 1
#: operators by name: how Python writes them, how tightly they bind, and what they need
OPERATORS = {
    "equal": ("{} == {}", 5, (6, 6)), "not_equal": ("{} != {}", 5, (6, 6)), "less": ("{} < {}", 5, (6, 6)),
    "less_equal": ("{} <= {}", 5, (6, 6)), "greater": ("{} > {}", 5, (6, 6)), "greater_equal": ("{} >= {}", 5, (6, 6)),
    "or": ("{} | {}", 6, (6, 7)), "xor": ("{} ^ {}", 7, (7, 8)), "and": ("{} & {}", AND, (8, 9)),
    "left_shift": ("{} << {}", 9, (9, 10)), "right_shift": ("{} >> {}", 9, (9, 10)), "add": ("{} + {}", 10, (10, 11)),
    "subtract": ("{} - {}", 10, (10, 11)), "multiply": ("{} * {}", 11, (11, 12)), "divide": ("{} / {}", 11, (11, 12)),
    "floor_divide": ("{} // {}", 11, (11, 12)), "remainder": ("{} % {}", 11, (11, 12)), "power": ("{} ** {}", POWER, (ATOM, UNARY)),
    "negative": ("-{}", UNARY, (POWER,)), "invert": ("~{}", UNARY, (POWER,)), "not": ("not {}", 4, (4,)),
    "absolute": ("abs({})", ATOM, (ANY,)), "complex": ("complex({}, {})", ATOM, (ANY, ANY)),
    "select": ("choose({}, {}, {})", ATOM, (ANY, ANY, ANY)), "branch": ("{1} if {0} else {2}", CHOICE, (2, 2, CHOICE)),
    "real": ("{}.real", ATOM, (ATOM,)), "imag": ("{}.imag", ATOM, (ATOM,)),
}  # fmt: skip
PLAIN = ("float64", "int64", "bool", "complex128")


# --- expressions ------------------------------------------------------------------------------------------------------------------


def expression(node, needed: int = ANY) -> str:
    """Return an expression's source, in parentheses where what it stands in binds more tightly."""
    text, binds = PRINTED[type(node)](node)
    return text if binds >= needed else f"({text})"


def listed(nodes):
    return ", ".join([expression(node) for node in nodes])


def shown(shape):
    return str(shape[0]) if len(shape) == 1 else str(shape)


def constant(node):
    value, dtype = node.value, node.dtype
    if dtype == "bool":
        return str(bool(value)), ATOM
    if dtype.startswith("complex"):
        text = f"complex({floating(value.real)}, {floating(value.imag)})"
    else:
        text = floating(float(value)) if dtype.startswith("float") else str(int(value))
    if dtype not in PLAIN:
        return f"np.{dtype}({text})", ATOM
    return text, UNARY if text.startswith("-") else ATOM


def floating(value):
    return "math.nan" if value != value else f"{'-' * (value < 0)}math.inf" if math.isinf(value) else repr(value)


def operator(node):
    template, binds, needed = OPERATORS[node.name]
    return template.format(*map(expression, node.args, needed)), binds


def row(node):
    index = list(map(expression, node.index))
    if node.low is not None:
        index.append(f"{node.low}:{node.high}")
    return f"{expression(node.array, ATOM)}[{', '.join(index)}]", ATOM


def lane(node):
    text = f"{node.index.name} & {node.count - 1}"
    return (text, AND) if node.below is None else (f"{text} if {node.index.name} < {node.below} else {node.count}", CHOICE)


PRINTED = {
    ir.Const: constant,
    ir.Var: lambda node: (node.name, ATOM),
    ir.Op: operator,
    ir.Cast: lambda node: (f"np.{node.dtype}({expression(node.arg)})", ATOM),
    ir.Call: lambda node: (f"{node.function}({listed(node.args)})", ATOM),
    ir.Load: lambda node: (element(node), ATOM),
    ir.Row: row,
    ir.Reshape: lambda node: (f"{expression(node.array, ATOM)}.reshape({shown(node.type.shape)})", ATOM),
    ir.Lane: lane,
}


def element(node):
    return f"{expression(node.array, ATOM)}[{listed(node.index) or '()'}]"


# --- statements -------------------------------------------------------------------------------------------------------------------


def lines_of(statements, indent: str = "") -> list[str]:
    """Return the lines of statements."""
    lines: list[str] = []
    for statement in statements:
        made = WRITTEN[type(statement)](statement, indent + "    ")
        lines += [f"{indent}{made}"] if type(made) is str else [f"{indent}{made[0]}", *made[1:]]
    return lines or [f"{indent}pass"]


def assign(node, inner):
    comment = f"  # {os.path.basename(node.line[0])}:{node.line[1]}" if node.line is not None else ""
    return f"{listed(node.targets)} = {listed(node.values)}{comment}"


def room(node, inner):
    return f"{node.target.name} = np.empty({shown(node.target.type.shape)}, np.{node.target.dtype})"


def loop(node, inner):
    bounds = [node.low, node.high]
    if node.step != 1:
        bounds.append(ir.Const(node.step, "int64"))
    elif type(node.low) is ir.Const and node.low.value == 0:
        bounds = bounds[1:]
    return [f"for {node.index.name} in range({listed(bounds)}):", *lines_of(node.body, inner)]


def rows(node, inner):
    low, high = expression(node.low), expression(node.high)
    part = ":" if (low, high) == ("0", str(node.table.type.shape[0])) else f"{low}:{high}"
    return [f"for {node.row.name} in {node.table.name}[{part}]:", *lines_of(node.body, inner)]


def branch(node, inner):
    otherwise = [f"{inner[4:]}else:", *lines_of(node.otherwise, inner)] if node.otherwise else []
    return [f"if {expression(node.condition)}:", *lines_of(node.then, inner), *otherwise]


def do(node, inner):
    if node.blocks is None:
        return expression(node.call)
    return f"run({node.call.function}, {node.blocks}, ({listed(node.call.args)},))"


def call_loop(node, inner):
    options = ", raises=True" if node.raises else ""
    if node.part:
        options += f", part=({listed(node.part)})"
    return f"call_loop({node.ufunc!r}, {node.types!r}, {node.dimensions}, {node.steps}, {listed(node.arrays)}{options})"


WRITTEN = {
    ir.Assign: assign,
    ir.Store: lambda node, inner: f"{element(node)} {'+=' if node.adds else '='} {expression(node.value)}",
    ir.Fill: lambda node, inner: f"{expression(node.array, ATOM)}[...] {'+=' if node.adds else '='} {expression(node.value)}",
    ir.Room: room,
    ir.For: loop,
    ir.ForRows: rows,
    ir.If: branch,
    ir.Do: do,
    ir.CallLoop: call_loop,
}


# --- modules ----------------------------------------------------------------------------------------------------------------------


def module_text(module) -> str:
    """Return the source of a module."""
    text = ""
    for part in module.parts:
        if type(part) is ir.Table:
            text += f"{part.name} = np.array({list(map(list, part.rows))})\n"
            continue
        definition = f"def {part.name}({', '.join([parameter.name for parameter in part.parameters])}):"
        text += "\n".join([definition, *lines_of(part.body, "    "), "", "", ""])
    return text.rstrip("\n") + "\n"
