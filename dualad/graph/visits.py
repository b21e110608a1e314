"""Visits: which instruction of the user's code asks for a truth value, and what the variables of its function hold there.

By them the turns of a loop are known (see `turns`): the same instruction of the same frame is met again only where a loop goes round.
"""

from __future__ import annotations

import dis
from functools import cache
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..core.levels import View, version_of
from ..support.costs import SMALL_ARRAY_BYTES, WATCHED_ELEMENTS
from .program import Value, key_of
from .symbol import Symbol

__all__ = ["Visit", "visit"]

#: instructions that ask once each time they are met; what a call asks (``max``, ``any``) may be several tests of one
ASKING = ("POP_JUMP", "JUMP_IF", "TO_BOOL", "UNARY_NOT")
ATOMS = {int, float, complex, bool, str, bytes, type(None)}


class Visit(NamedTuple):
    """A place in a function's code, the number of its call in the trace, and its variables: the traced ones by name (and by index in
    tuples, lists and dicts), and what tells the others apart. `counted` tells apart where ``for`` loops around it are."""

    place: tuple
    call: int
    traced: dict[tuple, Value]
    plain: dict[tuple, Any]
    counted: dict[int, Any]
    offset: int

    def leaves(self, truth: bool) -> set[int]:
        """Return the ``for`` loops around it that an answer leaves, whatever other answers are."""
        instructions, around = {i.offset: i for i in dis.get_instructions(self.place[0])}, read(self.place[0])[2]
        order = sorted(instructions)
        after = dict(pairwise(order))
        at = self.offset
        if instructions[at].opname == "TO_BOOL":
            at = after[at]
        if "JUMP" not in instructions[at].opname:
            return set()
        at = instructions[at].argval if ("IF_TRUE" in instructions[at].opname) == truth else after[at]
        while "JUMP" not in (name := instructions[at].opname) or "FORWARD" in name:
            if "IF" in name or "FOR_ITER" in name:
                break
            if "RETURN" in name or "RAISE" in name:
                return {low for low, *_ in around}
            at = instructions[at].argval if "JUMP" in name else after[at]
        else:
            at = instructions[at].argval if "BACKWARD" in name and "IF" not in name else at
        return {low for low, high, _ in around if not low <= at < high}


def visit(frame, trace) -> Visit | None:
    """Return the visit of the user's frame that asks for a truth value, None where it may ask for several at once."""
    names, asking, around = read(frame.f_code)
    if frame.f_lasti not in asking or frame.f_locals is frame.f_globals:
        return None
    call = next((k for k, known in enumerate(trace.frames) if known is frame), len(trace.frames))
    if call == len(trace.frames):
        trace.frames.append(frame)
    found, held = Visit((frame.f_code, asking[frame.f_lasti]), call, {}, {}, {}, frame.f_lasti), frame.f_locals
    for name, x in held.items():
        if name in names:
            note(x, (name,), found, trace)
    for low, high, name in around:
        if low < frame.f_lasti < high:
            x = held.get(name)
            found.counted[low] = key_of(x) if type(x) in ATOMS else id(x)
            trace.seen.append(x)
    return found


@cache
def read(code: CodeType):
    """Return the names that code reads, the places in the source of instructions that ask for a truth value, and the ``for`` loops."""
    names, asking, around = set[str](), {}, []
    instructions = list(dis.get_instructions(code))
    for k, instruction in enumerate(instructions):
        if "LOAD" in instruction.opname:
            names.update(instruction.argval if type(instruction.argval) is tuple else [instruction.argval])
        if instruction.opname.startswith(ASKING):
            asking[instruction.offset] = instruction.positions
        if instruction.opname == "FOR_ITER":
            stored = next(other.argval for other in instructions[k:] if other.opname.startswith(("STORE", "POP")))
            around.append((instruction.offset, instruction.argval, stored[0] if type(stored) is tuple else stored))
    return names, asking, around


def note(x, name, found, trace):
    """Enter what a variable holds."""
    kind = type(x)
    if kind is Symbol and x.level is trace:
        if type(x.alias) is not View or x.alias.version == version_of(x.alias.base):
            found.traced[name] = x.primal
    elif kind in ATOMS:
        found.plain[name] = x if kind is int else key_of(x)
    else:
        trace.seen.append(x)  # so that its id stays its own; an iterator is another one each time
        found.plain[name] = len(trace.seen) if hasattr(x, "__next__") else id(x)
        if kind is np.ndarray and x.nbytes <= SMALL_ARRAY_BYTES and x.dtype != object:
            found.plain[name] = id(x), x.tobytes()
        elif kind in (tuple, list, dict) or (hasattr(x, "__dict__") and not isinstance(x, type | ModuleType | FunctionType)):
            parts = dict(enumerate(x)) if kind in (tuple, list) else x if kind is dict else vars(x)
            found.plain[name] = kind, len(parts)
            for key, part in parts.items() if len(parts) <= WATCHED_ELEMENTS and len(name) < 4 else ():
                note(part, (*name, key), found, trace)
