"""Long functions of the loop IR cut into pieces, between statements outside of loops: compilers take more than in proportion to length.

Numbers that live across pieces go through arrays of the caller's; rows and other views are made again in each piece that reads them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeGuard

from .nodes import ArrayType, Assign, Call, Do, Function, Load, Module, Room, Statement, Store, Table, Var, number
from .values import arithmetic_dtype
from .walk import names, walked


def cut(module: Module, longest: int) -> Module:
    """Return a module in which functions of more expressions and statements than `longest` call pieces of about a quarter of that."""
    parts: list[Function | Table] = []
    for part in module.parts:
        parts += pieces(part, longest) if isinstance(part, Function) else [part]
    return Module(tuple(parts))


class Piece:
    """Statements of a function, the variables that they mention, and which of these they set; one is walked once."""

    def __init__(self, *statements: Statement) -> None:
        self.statements = [*statements]
        self.length = 0
        self.mentions: dict[str, Var] = {}
        self.sets: Counter[str] = Counter()
        for node in walked(statements):
            self.length += 1
            if isinstance(node, Var):
                self.mentions[node.name] = node
            elif isinstance(node, Assign | Room):
                self.sets.update(target.name for target in targets(node))

    def add(self, other: Piece, place: int) -> None:
        """Add the statements of another one at a place."""
        self.statements[place:place] = other.statements
        self.length += other.length
        self.mentions.update(other.mentions)
        self.sets.update(other.sets)


def pieces(function: Function, longest: int) -> list[Function]:
    """Return the pieces of a function and the one that calls them; the function alone where it is short, or cannot be cut."""
    single = list(map(Piece, function.body))
    if sum(one.length for one in single) <= longest:
        return [function]
    parts = [Piece()]
    for one in single:
        if parts[-1].length > longest // 4:
            parts.append(Piece())
        parts[-1].add(one, len(parts[-1].statements))
    if len(parts) == 1 or not is_steady(function, parts):
        return [function]

    views = [view for part in parts for view in part.statements if is_view(view)]
    made_at = {view.targets[0].name: k for k, view in enumerate(views)}
    for part in parts:
        while missing := [made_at[name] for name in part.mentions if name in made_at and name not in part.sets]:
            part.add(Piece(views[max(missing)]), 0)
    first = {name: k for k, part in reversed([*enumerate(parts)]) for name in part.sets}  # that sets a variable
    last = {name: k for k, part in enumerate(parts) for name in part.mentions}  # that mentions it
    rooms = [one for part in parts for one in part.statements if isinstance(one, Room) and first[one.target.name] < last[one.target.name]]
    across = {
        name: var
        for part in parts
        for name, var in part.mentions.items()
        if name in first and not is_array(var) and first[name] < last[name]
    }
    homes: dict[str, Load] = {}
    for dtype in dict.fromkeys(arithmetic_dtype(var.dtype) for var in across.values()):
        alike = [name for name, var in across.items() if arithmetic_dtype(var.dtype) == dtype]
        home = Var(f"live_{dtype}", ArrayType(dtype, (len(alike),)))
        rooms.append(Room(home))
        homes.update((name, Load(home, (number(k),))) for k, name in enumerate(alike))

    made: list[Function] = []
    for k, part in enumerate(parts):
        read = [Assign((across[name],), (homes[name],)) for name in part.mentions if name in homes and first[name] < k]
        stored = [Store(homes[name].array, homes[name].index, across[name]) for name in part.sets if name in homes and k < last[name]]
        body = (*read, *(statement for statement in part.statements if statement not in rooms), *stored)
        mentions = names(body)
        given = tuple(var for var in (*function.parameters, *(room.target for room in rooms)) if var.name in mentions)
        made.append(Function(f"{function.name}_{k}", given, body))
    calls = [Do(Call(one.name, one.parameters, None)) for one in made]
    return [*made, Function(function.name, function.parameters, (*rooms, *calls), inlined=function.inlined)]


def is_steady(function: Function, parts: list[Piece]) -> bool:
    """Return whether no parameter changes, and no array that several pieces mention: it is set once, at positions that are set once."""
    sets: Counter[str] = Counter()
    for part in parts:
        sets.update(part.sets)
    fixed: set[str] = set()
    for statement in function.body:
        if isinstance(statement, Room) or (is_view(statement) and all(sets[name] <= 1 for name in names(statement))):
            fixed.update(target.name for target in targets(statement))
    several = Counter(name for part in parts for name, var in part.mentions.items() if name in sets and is_array(var))
    own = all(count == 1 or name in fixed for name, count in several.items())
    return own and not any(parameter.name in sets for parameter in function.parameters)


def is_view(statement: Any) -> TypeGuard[Assign]:
    """Return whether a statement sets a variable to a part of an array, or to it in another shape."""
    return isinstance(statement, Assign) and len(statement.targets) == 1 and is_array(statement.targets[0])


def is_array(var: Var) -> bool:
    return isinstance(var.type, ArrayType)


def targets(node: Assign | Room) -> tuple[Var, ...]:
    return node.targets if isinstance(node, Assign) else (node.target,)
