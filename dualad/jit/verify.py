"""Verification: what a compiled function returns is compared with what the plain one does, so that a stale program shows by its results.

What a function reads can change in more ways than can be watched. So causes are not guessed at: call 2 evaluates the plain function, too,
and so do calls 4, 8, 16, ..., put off until they fit into 1 % of the time since the first trace.
"""

from __future__ import annotations

import atexit
from contextlib import contextmanager
from itertools import repeat
from threading import active_count, get_ident
from time import perf_counter, sleep
from weakref import WeakSet

import numpy as np
import optree

from ..core.traced import example_of
from ..graph.handled import own
from ..graph.nested import Branch, Scan
from ..graph.program import Program
from ..support.costs import COMPARISON_SHARE, MEMORY_BYTES, OPERATION_SECONDS
from ..support.equality import nearly_same, same_bits
from ..support.forks import held_across_forks, in_child

EVALUATING: list[int] = []  # threads in which functions are evaluated that contain compiled ones: those are evaluated plainly, too


ALIVE: WeakSet[Checks] = WeakSet()
LOCK = held_across_forks()  # of these two


@atexit.register
def stop_all():
    """Compare nothing while the interpreter ends: modules are gone by and by, and threads that go on are stopped anywhere."""
    with LOCK:
        alive = list(ALIVE)
    for checks in alive:
        checks.stop("the interpreter ends")
    last = perf_counter() + 1.0
    while ALIVE and active_count() > 1 and perf_counter() < last:  # what is in C++ when the interpreter ends would abort the process
        sleep(0.05)
        if not EVALUATING:
            break


class StaleWarning(UserWarning):
    """A compiled function was stale: a value that it reads besides its arguments had changed. It was traced again."""


class Checks:
    """When the results of one program are compared, and why not where they are not.

    The countdown `left` is an iterator, which guards take one element of at each call: that costs less than a counter.
    """

    __slots__ = ("__weakref__", "always", "calls", "cost", "jitted", "lasted", "left", "needed", "passed", "reason", "spaces")

    def __init__(self, jitted, program, lasted, reason=None):
        self.jitted, self.lasted = jitted, lasted
        self.always, self.calls, self.cost, self.spaces = jitted.verify is True, 0, OPERATION_SECONDS * count_of(program), list[dict]()
        self.needed = peak_bytes(program)
        if reason is None and not self.always and self.needed > MEMORY_BYTES:
            reason = f"its arrays take {self.needed / 2**30:.1f} GiB at a time"
        self.reason = reason if jitted.verify is not False else "verify=False"
        self.wait(1)
        with LOCK:
            ALIVE.add(self)

    def wait(self, calls):
        """Let so many calls pass without a comparison."""
        self.passed = calls
        self.left = repeat(None) if self.reason is not None else repeat(None, 0 if self.always else calls)
        self.give(self.spaces)

    def give(self, spaces):
        """Give guards the countdown; none are left while functions are evaluated plainly, so that all calls go the long way."""
        for space in spaces:
            space["left"] = () if EVALUATING else self.left

    def stop(self, reason):
        """Compare no more."""
        self.reason = reason
        self.wait(0)

    def share(self, space):
        """Let a guard take part in the countdown."""
        self.spaces.append(space)
        self.give([space])

    def due(self) -> bool:
        """Count a call, and return whether it is to be compared."""
        for _ in self.left:
            return False
        if self.always:
            return True
        self.calls += self.passed + 1
        since = perf_counter() - self.jitted.began
        late = self.jitted.spent + self.cost - COMPARISON_SHARE * since
        if late > 0.0 and (self.calls > 2 or self.cost > self.lasted):
            self.wait(min(self.calls, int(late / COMPARISON_SHARE / since * self.calls) + 1))
            return False
        self.wait((1 << self.calls.bit_length()) - self.calls - 1)
        return True

    @contextmanager
    def measured(self):
        """Evaluate a plain function: it is counted, and its time is."""
        started = perf_counter()
        try:
            with evaluating():
                yield
        finally:
            self.cost = perf_counter() - started
            self.jitted.spent += self.cost
            self.jitted.verifications += 1


@contextmanager
def evaluating():
    """Evaluate functions that contain compiled ones, which are evaluated plainly, too, in this thread."""
    me = get_ident()
    change(EVALUATING.append, me)
    try:
        yield
    finally:
        change(EVALUATING.remove, me)


def change(how, thread):
    """Enter a thread that evaluates plainly, or take it out, and tell the guards of all programs."""
    with LOCK:
        before = bool(EVALUATING)
        how(thread)
        if bool(EVALUATING) is not before:
            for checks in ALIVE:
                checks.give(checks.spaces)


def alone():
    """Take out the threads that a child does not have."""
    me = get_ident()
    for thread in [thread for thread in EVALUATING if thread != me]:
        change(EVALUATING.remove, thread)


in_child(alone)


def count_of(program: Program) -> int:
    """Return how many operations a program has, those of loops for each turn, those of the longer arm of a branch."""
    return sum(
        max(map(count_of, op.fn.bodies.values())) * getattr(op.fn, "count", 1) if type(op.fn) in (Branch, Scan) else 1
        for op in program.operations
    )


def peak_bytes(program: Program) -> int:
    """Return how many bytes of results are alive at a time where a program is evaluated one operation after the other."""
    held = peak = 0
    for operation, dead in zip(program.operations, program.last_uses(), strict=True):
        held += sum(value.size * value.dtype.itemsize for value in operation.outputs)
        peak = max(peak, held)
        held -= sum(value.size * value.dtype.itemsize for value in dead)
    return peak


def plain_results(f, call, leaves):
    """Return the leaves of what a plain function gives in a call for copies of these leaves, with their structure."""
    args, kwargs = call.arguments(list(map(own, leaves)))
    with np.errstate(all="ignore"):
        out = f(*args, **kwargs)
    return optree.tree_flatten(out)


def difference(structure, outs, plain, other) -> str | None:
    """Return where results differ beyond rounding from those of the plain function, None where they do not."""
    if structure != other:
        return "the result"
    for i, (out, leaf) in enumerate(zip(outs, plain, strict=True)):
        out = example_of(out)
        if not (out is leaf or callable(leaf) or (out == leaf if isinstance(leaf, str | bytes) else nearly_same(out, leaf))):
            return path_of(structure, i)
    return None


def same_results(outs, others) -> bool:
    """Return whether two programs gave the same bits."""
    return len(outs) == len(others) and all(same_bits(example_of(a), example_of(b)) for a, b in zip(outs, others, strict=True))


def path_of(structure, i):
    """Return the name of a leaf of the result."""
    return "the result" + "".join(f"[{part!r}]" for part in optree.tree_paths(structure.unflatten(range(structure.num_leaves)))[i])


def shown(old, new):
    """Return two values as they are told apart: numbers, or the first elements that differ."""
    old, new = np.asarray(example_of(old)), np.asarray(example_of(new))
    if old.shape != new.shape:
        return f"has the shape {new.shape}", f"{old.shape}"
    if not old.ndim:
        return f"is {new}", f"{old}"
    unlike = np.flatnonzero(~((old == new) | ((old != old) & (new != new))))
    index = np.unravel_index(unlike[0] if len(unlike) else 0, old.shape)
    return f"is {new[index]} at {', '.join(map(str, index))}", f"{old[index]}"


def stale(name, structure, outs, new, other) -> StaleWarning:
    """Return the warning that names the first result that differs."""
    where, values = "the result", ("has another structure", "before")
    if structure == other:
        k = next((k for k, (a, b) in enumerate(zip(outs, new, strict=True)) if not nearly_same(example_of(a), example_of(b))), None)
        if k is None:
            k = next(k for k, (a, b) in enumerate(zip(outs, new, strict=True)) if not same_bits(example_of(a), example_of(b)))
        where, values = path_of(structure, k), shown(outs[k], new[k])
    return StaleWarning(
        f"jit: {name} was stale: {where} {values[0]}, the old program gave {values[1]}. Something that it reads besides its arguments has "
        f"changed in a way that is not watched; it was traced again. Results since the change may be wrong: pass such values as arguments, "
        f"call {name}.cache_clear() after a change, or compare every call (verify=True)"
    )
