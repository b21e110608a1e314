"""Random numbers and clocks, which a trace would freeze: two traces are compared, generators and calls of clocks are watched."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
import warnings
from threading import get_ident
from types import BuiltinFunctionType, CodeType, MethodType, ModuleType

import numpy as np

from ..graph.paths import Path, described, first_unlike
from ..graph.program import Value, key_of
from ..graph.trace import TraceError, where_in
from ..rules.calling import public_name
from ..support.callers import BETWEEN, owner
from ..support.forks import held_across_forks

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


#: functions whose results two traces in the same second, or on the same day, need not tell apart
READ = {
    getattr(time, name): f"time.{name}"
    for stem in ("time", "monotonic", "perf_counter", "process_time", "thread_time", "localtime", "gmtime", "ctime", "asctime", "strftime")
    for name in (stem, f"{stem}_ns")
    if hasattr(time, name)
}  # fmt: skip
DATES = ("now", "today", "utcnow")


def clock_of(function):
    """Return the name of a clock, None where a built-in function is none."""
    if function in READ:
        return READ[function]
    dates, held = sys.modules.get("datetime"), getattr(function, "__self__", None)
    if dates is not None and isinstance(held, type) and issubclass(held, dates.date) and function.__name__ in DATES:
        return f"datetime.{held.__name__}.{function.__name__}"
    return None


#: what is no part of a result
EFFECTS = {
    print: "it prints",
    input: "it asks for input",
    warnings.warn: "it warns",
    os.write: "it writes to a file",
    os.system: "it runs a command",
    logging.Logger.handle.__code__: "it logs",
}
WRITING = ("write", "writelines", "send", "sendall", "tofile", "truncate")
#: names of the built-in functions of which something may be told: all calls while a function is traced are asked for theirs
NAMES = {*DATES, *WRITING, *(called.__name__ for called in (*READ, *EFFECTS, os.urandom) if type(called) is BuiltinFunctionType)}


def effect_of(called, code):
    """Return what a call of a built-in function, or of a function with this code, does besides returning a result; None for nothing."""
    if type(called) is CodeType:
        return EFFECTS.get(called)
    if type(called) is BuiltinFunctionType and called in EFFECTS:
        return None if called is warnings.warn and owner(code.co_filename) else EFFECTS[called]
    if getattr(called, "__name__", None) in WRITING and not isinstance(called.__self__, ModuleType | type):
        return f"it calls {type(called.__self__).__name__}.{called.__name__}"
    return None


class Output:
    """What stands for a standard output while functions are traced, in threads of their own. It is kept: prints may be using it."""

    def __init__(self, out):
        self.out, self.kept = out, dict[int, list[list[str]]]()

    def write(self, text):
        traces = self.kept.get(get_ident())
        if not traces or sys._getframe(1).f_globals.get("__name__") in ("pdb", "cmd"):
            return self.out.write(text)
        traces[-1].append(text)
        return len(text)

    def __getattr__(self, name):
        return getattr(self.out, name)


EFFECTS[Output.write.__code__] = "it writes to the standard output"


class Unheard:
    """Standard output while a function is traced: what it prints in this thread is kept, and written in the end unless it was `heard`."""

    changing = held_across_forks()
    last = Output(sys.stdout)

    def __enter__(self):
        self.kept, self.heard = list[str](), False
        with self.changing:
            if sys.stdout is None:  # print does nothing then
                self.output = None
                return self
            if sys.stdout is not self.last and sys.stdout is not self.last.out:
                Unheard.last = Output(sys.stdout)
            self.output = sys.stdout = self.last
            self.output.kept.setdefault(get_ident(), []).append(self.kept)
        return self

    def __exit__(self, *exception):
        if self.output is None:
            return
        with self.changing:
            traces = self.output.kept[get_ident()]
            traces.pop()
            if not traces:
                del self.output.kept[get_ident()]
            if not self.output.kept and sys.stdout is self.output:
                sys.stdout = self.output.out
        if self.kept and not self.heard:
            self.output.write("".join(self.kept))


class Clocks:
    """Whether the user's code reads a clock or the system's random numbers while a function is traced; what libraries read does not count.

    `elsewhere`: an installed package read one; `effect`: what the function does besides. Types that are called are not seen, nor is
    anything while a profiler runs: a function that names ``datetime64`` and ``"now"`` is taken to read a clock.
    """

    of_users = True  # what calls nothing of theirs need not be told, see `support.callers.unwatched`

    def __init__(self):
        self.found, self.elsewhere, self.effect = None, False, None
        self.collectors = {getattr(callback, "__code__", None) for callback in gc.callbacks}  # they come at any moment
        #: codes of which all is told, by their ids: a code's own hash takes longer than a call
        self.asked = {id(code): code for code in self.collectors}

    def __enter__(self):
        self.watching = sys.getprofile() is None
        if self.watching:
            sys.setprofile(self)
        return self

    def __exit__(self, *exception):
        if self.watching:
            sys.setprofile(None)

    def __call__(self, frame, event, function):
        if event == "c_call":
            if getattr(function, "__name__", None) in NAMES:
                self.ask(function, frame)
        elif event == "call" and id(frame.f_code) not in self.asked:
            self.asked[id(frame.f_code)] = frame.f_code
            self.ask(frame.f_code, frame)

    def ask(self, called, frame):
        """Note what is to be told of a call of a built-in function by a frame, or of the frame's own code."""
        code = frame.f_code
        if self.found is not None or code in self.collectors:
            return
        if self.effect is None:
            self.effect = effect_of(called, code)
        if called is code:
            names_clock = "datetime64" in code.co_names and not {*DATES}.isdisjoint(code.co_consts)
            clock = "numpy.datetime64" if names_clock else None
        elif called is os.urandom:
            self.found = None, "draws random numbers (os.urandom)"
            return
        else:
            clock = clock_of(called)
        if clock is not None and not (package := owner(code.co_filename)):
            self.found = (code.co_filename, frame.f_lineno), f"reads a clock ({clock})"
        elif clock is not None and package not in BETWEEN:
            self.elsewhere = True

    def wait(self):
        """Wait until clocks that count seconds show another one."""
        time.sleep(1.001 - time.time() % 1.0)

    def check(self, name):
        """Raise if a clock was read."""
        if self.found is not None:
            line, what = self.found
            raise TraceError(f"jit: {where_in(line)}{name} {what}, {WAY_OUT}")


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
