"""What a trace would freeze, random numbers and other changing values, and what it would do too often: print, log, write to files."""

from __future__ import annotations

import builtins
import io
import logging
import os
import sys
import warnings
from functools import wraps
from threading import get_ident
from types import BuiltinFunctionType, MethodType
from typing import Any, ClassVar

import numpy as np

from ..graph.paths import Path, described, first_unlike
from ..graph.program import Value, key_of
from ..graph.trace import TraceError, where_in
from ..rules.calling import public_name
from ..support.callers import owner
from ..support.forks import held_across_forks, in_child

WAY_OUT = "which would be frozen into the program. Draw or read such values outside, and pass them as arguments"


def generators_of(value, names) -> dict:
    """Return the generators of random numbers behind a value, of which the attributes `names` are read: by name."""
    held = getattr(value, "__self__", None) if isinstance(value, BuiltinFunctionType | MethodType) else value
    python, numpy = sys.modules.get("random"), sys.modules.get("numpy.random")
    if python is not None and (held is python or isinstance(held, python.Random)):
        return {"random": python._inst if held is python else held}  # type: ignore[attr-defined]
    if numpy is not None and (held is numpy or (held is np and "random" in names)):
        return {"numpy.random": numpy.mtrand._rand}  # type: ignore[attr-defined]
    if numpy is not None and isinstance(held, numpy.Generator | numpy.RandomState):
        return {f"numpy.random.{type(held).__name__}": held}
    return {}


def state_of(generator):
    """Return the state of a generator as text."""
    if hasattr(generator, "getstate"):
        return repr(generator.getstate())
    state = generator.bit_generator.state if hasattr(generator, "bit_generator") else generator.get_state(legacy=False)
    return repr([part.tobytes() if issubclass(type(part), np.ndarray) else part for part in flat(state)])


def flat(state):
    return [leaf for part in state.values() for leaf in flat(part)] if isinstance(state, dict) else [state]


class Drawn:
    """Whether random numbers are drawn from generators while a function is traced."""

    def __init__(self, generators):
        self.before = [(name, generator, state_of(generator)) for name, generator in generators]

    def check(self, name):
        """Raise if numbers were drawn since."""
        for source, generator, state in self.before:
            if state_of(generator) != state:
                raise TraceError(f"jit: {name} draws random numbers ({source}), {WAY_OUT}")


def opens_to_write(file=None, mode="r", *rest, **options):
    return "it writes to a file" if type(mode) is str and not {*mode}.isdisjoint("wax+") else None


def warns(*given, **named):
    """Return whether a warning is the user's own; those of packages, and ours, are not told."""
    return None if owner(sys._getframe(3).f_code.co_filename) else "it warns"


#: what is no part of a result, by the place where it is looked up: its name, or what returns that for a call's arguments
EFFECTS: dict[tuple[Any, str], Any] = {
    (builtins, "print"): "it prints",
    (builtins, "input"): "it asks for input",
    (builtins, "open"): opens_to_write,
    (io, "open"): opens_to_write,
    (os, "write"): "it writes to a file",
    (os, "system"): "it runs a command",
    (warnings, "showwarning"): warns,
    (logging.Logger, "handle"): "it logs",
}


def caller():
    """Return the frame of the code that called what stands for something else."""
    frame: Any = sys._getframe(2)
    while frame.f_globals is globals():  # print writes to the output
        frame = frame.f_back
    return frame


def is_debugger(frame):
    return frame.f_globals.get("__name__") in ("pdb", "cmd")


class Output:
    """What stands for a standard output while functions are traced: what is written in their threads is kept."""

    def __init__(self, out):
        self.out = out

    def write(self, text):
        traces = Heard.traces.get(get_ident())
        if not traces or is_debugger(caller()):
            return self.out.write(text)
        Heard.note("it writes to the standard output")
        traces[-1].kept.append(text)
        return len(text)

    def writelines(self, texts):
        self.write("".join(texts))

    def __getattr__(self, name):
        return getattr(self.out, name)


class Errors(Output):
    """The same for the standard error, to which Python writes, too: nothing is kept."""

    def write(self, text):
        if not owner(caller().f_code.co_filename):
            Heard.note("it writes to the standard error")
        return self.out.write(text)


class Heard:
    """What a function does besides returning a result while it is traced, in this thread: the first `effect`. What it prints is kept, and
    written in the end unless the trace is `silent`. Places that others change meanwhile stay as these left them."""

    changing = held_across_forks()
    traces: ClassVar[dict[int, list[Heard]]] = {}  # by thread
    instead: ClassVar[dict[tuple[Any, str], tuple]] = {}  # what was at a place, and what stands for it

    def __init__(self):
        self.kept, self.silent, self.effect = list[str](), False, None

    def __enter__(self):
        with self.changing:
            if not self.traces:
                for place, what in EFFECTS.items():
                    self.put(place, lambda held, what=what: noting(held, what))
                for name, stand_in in (("stdout", Output), ("stderr", Errors)):
                    if getattr(sys, name) is not None:  # print does nothing then
                        self.put((sys, name), stand_in)
            self.traces.setdefault(get_ident(), []).append(self)
        return self

    def put(self, place, stand_in):
        """Let something stand for what is at a place: the same as before, which others may hold, and at other places."""
        held = getattr(*place)
        pair = next((pair for pair in self.instead.values() if held is pair[0] or held is pair[1]), None)
        self.instead[place] = pair or (held, stand_in(held))
        setattr(place[0], place[1], self.instead[place][1])

    @classmethod
    def put_back(cls):
        """Leave places as they were, once nothing is traced."""
        if not cls.traces:
            for place, (held, stand_in) in cls.instead.items():
                if getattr(*place) is stand_in:
                    setattr(place[0], place[1], held)

    def __exit__(self, *exception):
        with self.changing:
            traces = self.traces[get_ident()]
            traces.remove(self)
            if not traces:
                del self.traces[get_ident()]
            self.put_back()
        if self.kept and not self.silent:
            self.instead[sys, "stdout"][1].write("".join(self.kept))

    @classmethod
    def note(cls, effect):
        """Note what a call does for all traces of this thread."""
        for trace in cls.traces.get(get_ident(), ()):
            trace.effect = trace.effect or effect


@in_child
def forget_other_threads():
    """Forget what threads traced that a child does not have."""
    for thread in Heard.traces.keys() - {get_ident()}:
        del Heard.traces[thread]
    Heard.put_back()


def noting(function, what):
    """Return a function that notes its calls."""

    @wraps(function)
    def call(*args, **kwargs):
        if get_ident() in Heard.traces and not is_debugger(caller()):
            Heard.note(what(*args, **kwargs) if callable(what) else what)
        return function(*args, **kwargs)

    return call


def compare(one: Path, other: Path, same_structure, name):
    """Raise where two traces of a function differ: something impure would be frozen."""
    first, second = one.program, other.program
    line = found = None
    if (unlike := first_unlike(first, second)) is not None:
        a, b = unlike
        line, found = a.line, f"{public_name(a.fn)} gets an array whose elements differ"
        if a.fn != b.fn:
            found = f"{public_name(a.fn)} and then {public_name(b.fn)}"
        elif described(a, first)[:3] != described(b, second)[:3]:
            pairs = zip((*a.args, *a.kwargs.values()), (*b.args, *b.kwargs.values()), strict=False)
            differing = [f"{u!r} and then {v!r}" for u, v in pairs if key_of(u) != key_of(v) and not isinstance(u, Value)]
            found = f"{public_name(a.fn)} gets {differing[0]}" if differing else f"{a!r} and then {b!r}"
    elif len(first.operations) != len(second.operations):
        longer = max(first.operations, second.operations, key=len)[min(len(first.operations), len(second.operations))]
        line, found = longer.line, f"{len(first.operations)} operations and then {len(second.operations)}"
    elif not same_structure or key_of(first.outputs) != key_of(second.outputs):
        found = f"it returns {first.outputs!r} and then {second.outputs!r}"
    elif one.truths != other.truths:
        found = "they branch otherwise"
    elif [key_of(a) for a in first.constants.values()] != [key_of(a) for a in second.constants.values()]:
        found = "it returns an array whose elements differ"
    if found:
        raise TraceError(
            f"jit: {where_in(line)}two traces of {name} with the same arguments differ ({found}): random numbers, a clock or another "
            f"changing value, {WAY_OUT}"
        )
