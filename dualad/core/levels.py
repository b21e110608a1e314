"""Levels of derivative calls, and the aliasing of traced arrays.

A traced array is a mutable handle. Its `alias` says what may happen to its buffers:

* None: they may be shared with other handles, so they are never written;
* `Owner`: written before. They are copied at the first write, and from then on nobody else holds them;
* `View`: a view of another handle, read and written through it.
"""

from __future__ import annotations

import itertools
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.callers import explain
from ..support.forks import lock_of

new = object.__new__
LIVE: set = set()  # the levels that are being computed, in any thread; one that an interrupt leaves behind only makes later calls slower
FILLED: set = set()  # those in which an array of plain numbers became traced
#: what was changed in modules and functions that are adapted now, and how often they are, by the identity of their names
ADAPTED: dict[int, Any] = {}
#: ``(f, leaves) -> f``, of traces in any thread: what verbs differentiate at these leaves instead of a function
INSTEAD: list = []


class Level:
    """One derivative call, carrying so many `directions` on a leading axis (None: one tangent, without it). Ids only grow: nesting is
    right under threads and after exceptions. With `nan_safe`, a zero tangent times any partial is zero. `weak`: its inputs are Python
    numbers, whose dtype yields to that of arrays (NEP 50), which is told by this alone: any value of shape () is kept as a Python float."""

    __slots__ = ("alive", "context", "directions", "id", "lock", "nan_safe", "objects", "plain", "refusal", "weak")
    id: float  # infinite above all others
    abstract = False  # its values are symbols, which stand for what is known only later
    watched = False  # `explain_nan` looks at every result
    ids = itertools.count(1)
    outlived = (
        "a traced value is used after the derivative call that made it has returned: it was kept in a global, a closure or an "
        "attribute. Return it from the differentiated function, or keep dualad.primal(x)"
    )

    def __init__(self, directions=None, nan_safe=False, weak=False):
        self.id = next(self.ids)
        self.directions = directions
        self.nan_safe = nan_safe
        self.weak = weak
        self.alive = True
        self.lock = None
        self.plain = not nan_safe  # the scalar fast path reads this one flag
        self.refusal = None  # the last error of a conversion, which compiled code may put another one in place of
        self.objects = None  # where traced numbers of this level were first put into an object array
        self.context = copy_context()  # 60 ns

    def __enter__(self):
        LIVE.add(self)
        return self

    def __exit__(self, kind, error, traceback):
        LIVE.discard(self)
        if FILLED:
            FILLED.intersection_update(LIVE)
        self.alive = self.plain = False
        if isinstance(error, Exception):
            refusal, self.refusal = self.refusal, None
            explain(error, refusal, self.objects)
        elif error is not None:
            errors_as_in(self.context)

    @property
    def writing(self):
        """The lock for writes, of one thread at a time because the first one copies; made when it is needed."""
        return lock_of(self)

    def check(self):
        """Raise if the derivative call that made this level is over."""
        if not self.alive:
            raise RuntimeError(self.outlived)


def replacement_of(f, leaves):
    """Return the function that a verb differentiates at these leaves: f itself, unless it has a replacement."""
    for instead in tuple(INSTEAD):
        f = instead(f, leaves)
    return f


def errors_as_in(context):
    """Have NumPy handle floating-point errors as in a copied context: an interrupt inside of NumPy's own ``errstate.__enter__`` or
    ``__exit__`` leaves the error state of the block behind."""
    np.seterr(**context.run(np.geterr))


class Handle:
    """The four fields of every traced value; what `payload` is (a tangent, a node) is its interpreter's.

    None of them has a name under which other packages look for a plain number (``value``, ``data``, ``magnitude``).
    """

    __slots__ = ("alias", "level", "payload", "primal")
    alias: Any
    level: Any
    payload: Any
    primal: Any
    if TYPE_CHECKING:  # the rest is each interpreter's

        def __getattr__(self, name: str) -> Any: ...

    def _shows(self, other):
        """Return whether this is a view of the memory of another handle."""
        return type(self.alias) is View and self.alias.base is root(other)


class Owner:
    """The buffers of this handle were written: `version` counts replacements, `exclusive` that nobody shares them."""

    __slots__ = ("exclusive", "version")
    base = type("written", (), {"alias": True})  # so that `alias.base.alias is None` means "never written", as for a View

    def __init__(self, version, exclusive):
        self.version, self.exclusive = version, exclusive


class View:
    """A handle that is a view: `base` after `ops`, each an (fn, arguments, keywords), as of the base's `version`."""

    __slots__ = ("base", "ops", "version")

    def __init__(self, base, ops, version):
        self.base, self.ops, self.version = base, ops, version


def shared_view(handle, alias, fn, args, kwargs={}):  # noqa: B006  (never written)
    """Return the alias of ``fn(handle, *args)``, where `alias` is that of `handle`."""
    view = new(View)
    if type(alias) is View:
        view.base, view.ops, view.version = alias.base, (*alias.ops, (fn, args, kwargs)), alias.version
    else:
        view.base, view.ops, view.version = handle, ((fn, args, kwargs),), 0 if alias is None else alias.version
    return view


def root(handle):
    """Return the handle whose memory this one shows: of a view its base."""
    return handle.alias.base if type(handle.alias) is View else handle


def version_of(handle):
    return 0 if handle.alias is None else handle.alias.version
