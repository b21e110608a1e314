"""What a function reads besides its arguments: is it the same in both sweeps?"""

import os
import sysconfig
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from zlib import crc32

import numpy as np

from .storage.states import raw

__all__ = ["Closure", "hashed"]

LONGEST = 100  # of containers whose elements are looked at
ROW = 1024  # words that are added up
ATOMS = (float, int, bool, complex, str, bytes, type(None))
HERE = Path(__file__).parents[1]
LIBRARIES = tuple(map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")))
LIBRARIES += ("<frozen", *(f"{HERE / name}{os.sep}" for name in ("checkpoint", "dualad")))  # functions in them are not followed


class Closure:
    """The data that functions close over, as it is now, to be compared with what it is later.

    Looked at are arrays, numbers and texts: in variables of enclosing functions and global ones that the code names, in default
    values, in bound and partial arguments, in attributes that the code names, and in lists, tuples and dicts of at most 100
    elements. Functions that the code calls are followed, those of installed packages excepted. What is in modules, in
    files and in objects without a ``__dict__`` (random generators) is not seen.

    Parameters
    ----------
    functions : sequence
        They may be any other objects too, whose attributes are compared.

    Examples
    --------
    >>> rate = [2.0]
    >>> closure = Closure([lambda k, x: rate[0] * x])
    >>> closure.settle()
    >>> closure.check("now")
    >>> rate[0] = 3.0
    >>> closure.check("now")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    RuntimeError: now rate[0] is another than in the first sweep, ...
    """

    def __init__(self, functions: Sequence[Any]) -> None:
        self._functions = functions
        self._found = self._look()

    def settle(self) -> None:
        """Leave out what has changed since: the functions change it themselves, as counters and logs, and cannot depend on it."""
        if self._found:
            now = self._look()
            self._found = {place: held for place, held in self._found.items() if now.get(place) == held}

    def check(self, when: str) -> None:
        """Compare.

        Parameters
        ----------
        when : str
            Begins the error.

        Raises
        ------
        RuntimeError
            Naming what has changed.
        """
        if self._found:
            now = self._look()
            for place, held in self._found.items():
                if now.get(place) != held:
                    raise RuntimeError(
                        f"{when} {place} is another than in the first sweep, so the gradient would be wrong. Pass it as a parameter, "
                        "which is copied, or change it only when the gradient is done"
                    )

    def _look(self) -> dict[str, Any]:
        look = _Look()
        for function in self._functions:
            look.at(getattr(function, "__name__", type(function).__name__), function, None)
        return look.found


class _Look:
    """One look at everything: data by the name of the place."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.seen: set[tuple[int, int]] = set()

    def at(self, place: str, value: Any, names: Sequence[str] | None) -> None:
        """Look at a value; of an object's attributes, only those with these names count (None: all)."""
        kind = type(value)
        while place in self.found:  # of the same name, in another function
            place += "'"
        if kind in ATOMS or issubclass(kind, np.generic):
            self.found[place] = kind, value
            return
        if kind is FunctionType:
            self.function(value)
        elif issubclass(kind, np.ndarray):
            self.found[place] = hashed(value)
        elif kind in (list, tuple, dict):
            if len(value) <= LONGEST and self.new(value, ()):
                for key, element in list(value.items() if kind is dict else enumerate(value)):
                    self.at(f"{place}[{key!r}]", element, names)
        elif kind is MethodType:
            self.function(value.__func__)
            self.at("self", value.__self__, mentioned(value.__func__.__code__) if hasattr(value.__func__, "__code__") else ())
        elif kind is partial:
            for number, part in enumerate((value.func, value.args, value.keywords)):
                self.at(("func", "args", "keywords")[number], part, names)
        elif not issubclass(kind, type | ModuleType):
            self.attributes(place, value, names)

    def function(self, function: FunctionType) -> None:
        """Look at what a function closes over."""
        code = getattr(function, "__code__", None)
        if code is None or code.co_filename.startswith(LIBRARIES) or not self.new(function, ()):
            return
        names, space = mentioned(code), function.__globals__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                self.at(name, cell.cell_contents, names)
            except ValueError:  # not yet bound
                continue
        for name in names:
            if name in space:
                self.at(name, space[name], names)
        for name, value in (function.__kwdefaults__ or {}).items():
            self.at(name, value, names)
        defaults = function.__defaults__ or ()
        for name, value in zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=True):
            self.at(name, value, names)

    def attributes(self, place: str, value: Any, names: Sequence[str] | None) -> None:
        """Look at attributes of an object, and at those that its methods name."""
        try:
            held = object.__getattribute__(value, "__dict__")  # of the object itself, where it stands for another one
        except (AttributeError, TypeError):
            return
        if not self.new(value, names):
            return
        for name in list(held) if names is None else names:
            if name in held:
                self.at(f"{place}.{name}", held[name], names)
        for name in ("__call__", *(names or ())):
            method = getattr(type(value), name, None)
            if type(method) is FunctionType and not method.__code__.co_filename.startswith(LIBRARIES):
                self.function(method)
                self.attributes(place, value, mentioned(method.__code__))

    def new(self, value: Any, names: Sequence[str] | None) -> bool:
        """Return whether this is the first look at it for these names."""
        key = id(value), hash(names)
        if key in self.seen:
            return False
        self.seen.add(key)
        return True


@lru_cache(maxsize=512)
def mentioned(code: CodeType) -> tuple[str, ...]:
    """Names of globals and attributes in a function's code, and in the functions that it defines."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in mentioned(constant)]
    return tuple(dict.fromkeys((*code.co_names, *inner)))


def hashed(array: np.ndarray) -> Any:
    """Return what tells the contents of an array from others, at the speed of adding up its words along rows and columns.

    Parameters
    ----------
    array : ndarray
        One of Python objects, or in a file (memmap), is not read.

    Returns
    -------
    tuple

    Examples
    --------
    >>> x = np.arange(5000.0)
    >>> hashed(x) == hashed(x.copy()), hashed(x) == hashed(x[::-1])
    (True, False)
    """
    base = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return ()
        base = base.base  # type: ignore[assignment]
    if array.dtype.hasobject:
        return ()
    data = np.frombuffer(raw(array), np.uint8)
    whole = data.size // (8 * ROW) * 8 * ROW
    words = data[:whole].view(np.uint64).reshape(-1, ROW)
    check = crc32(data[whole:])
    for axis in (0, 1):
        check = crc32(np.add.reduce(words, axis=axis), check)
    return array.shape, array.dtype, check
