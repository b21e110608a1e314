"""Visits: which instruction of the user's code asks for a truth value, and what the variables of its function hold there.

By them the turns of a loop are known (see `turns`): the same instruction of the same frame is met again only where a loop goes round.
"""

from __future__ import annotations

import dis
import inspect
from bisect import bisect_left
from contextlib import suppress
from functools import cache
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..core.levels import View, version_of
from ..core.traced import Traced
from ..support.costs import ONE_BY_ONE, WATCHED_LENGTH
from .program import Value, key_of
from .symbol import Symbol

#: instructions that ask once each time they are met; what a call asks (``max``, ``any``) may be several tests of one
ASKING = ("POP_JUMP", "JUMP_IF", "TO_BOOL", "UNARY_NOT")
ATOMS = {int, float, complex, bool, str, bytes, type(None)}
CONTAINERS = {tuple, list, dict}
OURS = "dualad", "checkpoint"  # whose objects change when they are used
#: functions that others run between their turns
GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Visit(NamedTuple):
    """A place in a function's code, the number of its call in the trace, and its variables: the traced ones by name (and by index in
    tuples, lists and dicts), and what tells the others apart. `counted` tells apart where ``for`` loops around it are."""

    place: tuple
    call: int
    traced: dict[tuple, Value]
    plain: dict[tuple, Any]
    counted: dict[int, Any]
    offset: int

    @property
    def differentiated(self) -> bool:
        """Whether a variable is of a verb that is called in the trace."""
        return any(type(x) is tuple and x[:1] == (Traced,) for x in self.plain.values())

    def leaves(self, truth: bool) -> set[int]:
        """Return the ``for`` loops around it that an answer leaves, whatever other answers are."""
        instructions, around = {i.offset: i for i in dis.get_instructions(self.place[0])}, read(self.place[0])[2]
        order = sorted(instructions)
        after = dict(pairwise(order))
        at = self.offset
        if instructions[at].opname in ("TO_BOOL", "COMPARE_OP"):
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
        return {low for low, high, *_ in around if not low <= at < high}


def visit(frame, trace) -> Visit | None:
    """Return the visit of the user's frame that asks for a truth value, None where it may ask for several at once."""
    names, asking, around = read(frame.f_code)
    if frame.f_lasti not in asking or frame.f_locals is frame.f_globals or frame.f_code.co_flags & GENERATORS:
        return None
    call = next((k for k, known in enumerate(trace.frames) if known is frame), len(trace.frames))
    if call == len(trace.frames):
        trace.frames.append(frame)
    met: dict[int, tuple] = {}
    found, held = Visit((frame.f_code, asking[frame.f_lasti]), call, {}, {}, {}, frame.f_lasti), frame.f_locals
    for name, x in held.items():
        if name in names:
            note(x, (name,), found, trace, met)
    for low, high, name, within in around:
        if low < frame.f_lasti < high:
            x = held.get(name)
            if frame.f_lasti not in within:  # met again only after another step
                found.counted[low] = object()
            elif type(x) in ATOMS - {int}:  # which may be the same in other steps
                return None
            else:
                found.counted[low] = x if type(x) is int else id(x)
                trace.seen.append(x)
    return found


@cache
def read(code: CodeType):
    """Return the names that code reads, the places in the source of instructions that ask for a truth value, and the ``for`` loops."""
    names, asking, around = set[str](), {}, []
    instructions = [i for i in dis.get_instructions(code) if i.opname not in ("EXTENDED_ARG", "CACHE")]
    offsets = [i.offset for i in instructions]
    turning = [(offsets[bisect_left(offsets, i.argval)], i.offset) for i in instructions if "JUMP_BACKWARD" in i.opname]
    for k, instruction in enumerate(instructions):
        if "LOAD" in instruction.opname:
            names.update(instruction.argval if type(instruction.argval) is tuple else [instruction.argval])
        if instruction.opname.startswith(ASKING) or (instruction.opname == "COMPARE_OP" and instruction.argrepr.startswith("bool")):
            asking[instruction.offset] = instruction.positions
        if instruction.opname == "FOR_ITER":
            stored = next(other.argval for other in instructions[k:] if other.opname.startswith(("STORE", "POP")))
            low, high = instruction.offset, instruction.argval
            name = stored[0] if type(stored) is tuple else stored
            inner = [(to, at) for to, at in turning if low < to and at < high]
            places = {i.positions for i in instructions if any(to <= i.offset <= at for to, at in inner)}
            around.append((low, high, name, {i.offset for i in instructions if i.positions in places}))
    return names, asking, around


def note(x, name, found, trace, met):
    """Enter what a variable holds, and what can be reached from there that a turn may change; what hides its state is never the same.

    `met` are the names of what the visit has found.
    """
    kind = type(x)
    if kind is Symbol and x.level is trace:
        if type(x.alias) is not View or x.alias.version == version_of(x.alias.base):
            found.traced[name] = x.primal
    elif kind in ATOMS or issubclass(kind, np.generic):
        found.plain[name] = x if kind is int else key_of(x)
    elif id(x) in met:
        found.plain[name] = met[id(x)]
    elif isinstance(x, Traced):
        trace.seen.append(x)
        found.plain[name] = Traced, id(x)
    else:
        trace.seen.append(x)  # so that its id stays its own
        met[id(x)], found.plain[name], parts = name, (id(x),), parts_of(x)
        if kind in CONTAINERS:
            found.plain[name] = kind, len(x)
        if kind is np.ndarray and x.dtype != object:
            found.plain[name] = id(x), hash(x.tobytes())
        elif parts is None or len(parts) + len(found.plain) > WATCHED_LENGTH or len(name) > ONE_BY_ONE:
            found.plain[name] = object()
        else:
            for key, part in parts.items():
                note(part, (*name, key), found, trace, met)


def parts_of(x) -> dict | None:
    """Return all that tells the state of an object, None where that is not known."""
    kind = type(x)
    if kind is dict:
        return x
    if kind in (tuple, list):
        return dict(enumerate(x))
    if kind is np.ndarray:
        return dict(enumerate(x.ravel().tolist())) if x.dtype == object else None
    if kind is FunctionType:
        cells = {}
        for k, cell in enumerate(x.__closure__ or ()):
            with suppress(ValueError):  # not yet bound
                cells[k] = cell.cell_contents
        return cells | {"defaults": x.__defaults__, "keywords": x.__kwdefaults__} | vars(x)
    if issubclass(kind, type):
        return {k: part for k, part in vars(x).items() if not k.startswith("__")} if "<locals>" in x.__qualname__ else {}
    if kind is ModuleType:
        return {}
    if str(kind.__module__).partition(".")[0] in OURS:
        return {"f": getattr(x, "f", None)}
    if hasattr(x, "__next__") or type(getattr(kind, "__getstate__", None)) is FunctionType:
        return None
    try:  # what copies of it would be made of
        made = object.__reduce_ex__(x, 2)
    except Exception:
        return None
    if isinstance(made, str):
        return {"wrapped": getattr(x, "__wrapped__", None)}
    return {k: list(part) if hasattr(part, "__next__") else part for k, part in enumerate(made[1:])}
