"""Stand-ins for NumPy, SciPy and `math`, and for their functions, in adapted code; functions without a stand-in stay as they are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial, wraps
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ..rules import python_math
from ..support.forks import cached_property
from .conversions import ROWS_OF_SCIPY
from .doors import DOORS, JOINED, NUMBERS, strided_view, taking_lists, ufunc_of_lists, vectorize


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


class DistributionStandIn:
    """A distribution of SciPy, also one with its parameters: its functions that have rows are ours, all else is SciPy's."""

    def __init__(self, ours: Any, scipys: Any, parameters: tuple[tuple, dict[str, Any]] | None = None) -> None:
        self.ours, self.distribution, self.parameters = ours, scipys, parameters

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not hasattr(self.ours, name):
            return getattr(self.scipys, name)
        fn, parameters = getattr(self.ours, name), self.parameters
        return fn if parameters is None else lambda x: fn(x, *parameters[0], **parameters[1])

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return DistributionStandIn if self.parameters else type(self.distribution)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return DistributionStandIn(self.ours, self.distribution, (args, kwargs))

    @cached_property
    def scipys(self) -> Any:
        return self.distribution if self.parameters is None else self.distribution(*self.parameters[0], **self.parameters[1])


@cache
def stand_in_of(module: ModuleType) -> StandIn:
    return StandIn(module)


def stand_ins_of(package: str) -> dict[str, Any]:
    """Return the stand-ins for functions and types of a module, by their names."""
    if package in ("math", "cmath"):
        return python_math.FUNCTIONS if package == "math" else python_math.COMPLEX_FUNCTIONS
    if package == "numpy":
        types = {kind.__name__: kind for kind in NUMBERS if issubclass(kind.of, np.generic)}
        return {door.__name__: door for door in DOORS} | types | JOINED
    if package == "numpy.lib.stride_tricks":
        return {"as_strided": strided_view}
    if package in ("numpy.linalg", "numpy.fft"):
        names, functions = sys.modules[package].__all__, vars(sys.modules[package])  # the list of multi_dot is none of rows
        return {name: taking_lists(functions[name]) for name in names if not isinstance(functions[name], type) and name != "multi_dot"}
    rows = import_module(f"dualad.{package}").FUNCTIONS
    return {name: ufunc_of_lists(ufunc) for name, fn in vars(sys.modules[package]).items() if (ufunc := ufunc_of(fn))} | rows


ARRAY_API = ArrayAPI()

#: what stands for functions and types, behind these, by their identity
INSTEAD: dict[int, tuple[Any, Any]] = {}


def look_up() -> None:
    """Enter the stand-ins of modules that were imported since."""
    for package in ("math", "cmath", "numpy", "numpy.lib.stride_tricks", "numpy.linalg", "numpy.fft", *ROWS_OF_SCIPY):
        if package in sys.modules and package not in ENTERED:
            ENTERED.add(package)
            for name, ours in stand_ins_of(package).items():
                if (theirs := getattr(sys.modules[package], name, None)) is not None:
                    INSTEAD[id(theirs)] = theirs, DistributionStandIn(ours, theirs) if callable(theirs) and not callable(ours) else ours


ENTERED: set[str] = set()


@cache
def is_numbas(kind: type) -> bool:
    """Return whether a type is one of numba's, such as its dispatchers and ufuncs are."""
    return f"{kind.__module__}".partition(".")[0] == "numba"


def python_original(value: Any) -> Any:
    """Return the Python function that numba compiles, or makes a ufunc of numbers of; None for anything else."""
    if not is_numbas(type(value)) or getattr(value, "signature", None) is not None:  # type: ignore[arg-type]
        return None
    return getattr(value, "py_func", None) or getattr(getattr(value, "_dispatcher", None), "py_func", None)


def ufunc_of(fn: Any) -> np.ufunc | None:
    """Return a ufunc, of SciPy's functions for all arrays that there are where SCIPY_ARRAY_API is set, too; None for anything else."""
    if type(fn) is FunctionType:
        fn = getattr(fn, "__wrapped__", None)
    return fn if isinstance(fn, np.ufunc) else None


def vectorized(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of numbers as one of arrays, too."""
    loop = vectorize(function)

    @wraps(function)
    def call(*args: Any) -> Any:
        return loop(*args) if any(map(np.ndim, args)) else function(*args)

    return call


def stand_in(value: Any) -> Any:
    """Return the stand-in for a value in adapted code: the value itself unless it belongs to NumPy, SciPy or `math`."""
    if (found := INSTEAD.get(id(value))) is not None:
        return found[1]
    kind = type(value)  # some packages put objects into their modules that raise at every question
    if issubclass(kind, ModuleType):
        root = value.__name__.partition(".")[0]
        return stand_in_of(value) if kind is not StandIn and root in ("math", "cmath", "numpy", "scipy") else value
    if kind is partial:
        fn = stand_in(value.func)
        return value if fn is value.func else partial(fn, *value.args, **value.keywords)
    if (function := python_original(value)) is not None:
        return function if function is getattr(value, "py_func", None) else vectorized(function)
    return value
