"""What stands for NumPy, SciPy and `math`, and for what they hold, in adapted code: all that has no derivative there stands for itself."""

from __future__ import annotations

import math
import sys
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from ..rules import python_math
from .conversions import ROWS_OF_SCIPY
from .doors import DOORS, NUMBERS

__all__ = ["ARRAY_API", "BUILTINS", "Instead", "look_up", "stand_in"]

#: Python's own names that adapted code finds among its globals
BUILTINS = {kind.__name__: kind for kind in NUMBERS if kind.of in (float, complex)}


class StandIn(ModuleType):
    """A module whose functions keep derivatives; what is no function of ours is the module's own."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__, module.__doc__)
        vars(self)["__adapted__"] = module

    def __getattr__(self, name: str) -> Any:
        original = getattr(vars(self)["__adapted__"], name)  # which may import a module
        look_up()
        found = stand_in(original)
        vars(self)[name] = found
        return found

    def __dir__(self) -> list[str]:
        return dir(vars(self)["__adapted__"])

    def __reduce__(self) -> Any:
        return import_module, (vars(self)["__adapted__"].__name__,)


class ArrayAPI(StandIn):
    """NumPy's functions as the namespace of the array API standard that traced values belong to.

    Its name is not NumPy's: what has that name is given to code that makes plain arrays.
    """

    def __init__(self) -> None:
        super().__init__(np)
        self.__name__ = "dualad.array_api"

    @property
    def special(self) -> Any:
        """The extension that SciPy asks for."""
        return stand_in(import_module("scipy.special"))


class Instead:
    """A distribution of SciPy: its functions that have rows are ours, all else is SciPy's."""

    def __init__(self, ours: Any, scipys: Any) -> None:
        self.ours, self.scipys = ours, scipys

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ours if hasattr(self.ours, name) else self.scipys, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.scipys(*args, **kwargs)


@cache
def stand_in_of(module: ModuleType) -> StandIn:
    return StandIn(module)


def ours_of(package: str) -> dict[str, Any]:
    """Return what stands for functions and types of a module, by their names."""
    if package == "math":
        return python_math.FUNCTIONS
    if package == "numpy":
        return {door.__name__: door for door in DOORS} | {kind.__name__: kind for kind in NUMBERS if issubclass(kind.of, np.generic)}
    return import_module(f"dualad.{package}").FUNCTIONS


ARRAY_API = ArrayAPI()

#: what stands for functions and types, behind these, by their identity
INSTEAD: dict[int, tuple[Any, Any]] = {}


def look_up() -> None:
    """Enter the stand-ins of modules that were imported since."""
    for package in ("math", "numpy", *ROWS_OF_SCIPY):
        if package in sys.modules and package not in ENTERED:
            ENTERED.add(package)
            for name, ours in ours_of(package).items():
                if (theirs := getattr(sys.modules[package], name, None)) is not None:
                    INSTEAD[id(theirs)] = theirs, ours if callable(ours) else Instead(ours, theirs)


ENTERED: set[str] = set()


def stand_in(value: Any) -> Any:
    """Return what stands for a value in adapted code: the value itself unless it belongs to NumPy, SciPy or `math`."""
    if isinstance(value, ModuleType):
        root = value.__name__.partition(".")[0]
        return stand_in_of(value) if type(value) is not StandIn and (value is math or root in ("numpy", "scipy")) else value
    if isinstance(ufunc := getattr(value, "__wrapped__", None), np.ufunc):  # scipy.special's own, where SCIPY_ARRAY_API is set
        return ufunc
    if type(value) is partial:
        fn = stand_in(value.func)
        return value if fn is value.func else partial(fn, *value.args, **value.keywords)
    found = INSTEAD.get(id(value))
    return value if found is None else found[1]
