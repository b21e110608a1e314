"""The checks that every floor needs: of whole numbers, flags, and the answers of predicates."""

import math
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from dualad.support.checks import whole_number


def amount(value: Any, of: str, *, where: str, argument: str) -> float:
    """Return a number of seconds, or of whatever it is `of`: finite and not negative."""
    try:
        usable = type(value) is not bool and math.isfinite(value) and value >= 0  # not of a text, which float() takes
    except TypeError:
        raise TypeError(f"{where}: {argument} must be a number of {of}, got {value!r}") from None
    if not usable:
        raise ValueError(f"{where}: {argument} must be a number of {of}, finite and not negative, got {value!r}")
    return float(value)


def folder_path(path: object, where: str) -> Path:
    try:
        folder = Path(path)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{where}: path must be the name of a folder, got {path!r}") from None
    if "\0" in str(folder):
        raise ValueError(f"{where}: path must be the name of a folder, which holds no zero byte, got {path!r}")
    return folder


def check_until(until: Callable[..., object] | None, max_steps: object, where: str) -> int | None:
    """Return `max_steps` as an int; raise unless it goes with a predicate, and that can be called as ``until(k, state)``."""
    if until is not None:
        check_call(until, "until(k, state)", where)
    if max_steps is None:
        return None
    if until is None:
        raise TypeError(f"{where}: max_steps= requires until=; with a known length give steps= only")
    return whole_number(max_steps, where=where, argument="max_steps", least=0, hint="give the largest number of steps")


def check_call(function: object, call: str, where: str) -> None:
    """Raise where a function cannot be called as it is written, such as ``until(k, state)``."""
    name, _, arguments = call.partition("(")
    if not callable(function):
        raise TypeError(f"{where}: {name} must be a function, called as {call}, got {function!r}")
    if (refusal := call_refusal(function, *arguments.split(","))) is not None:
        raise TypeError(f"{where}: {name} is called as {call}, but {refusal}")


def call_refusal(function: Callable[..., object], *given: object) -> str | None:
    """Return why a function does not accept these arguments, None where it does, or has no signature."""
    if isinstance(function, np.ufunc) and len(given) > function.nin:
        return f"numpy.{function.__name__} would write its result into the last of these: give a function that calls it"
    try:
        signature(function).bind(*given)
    except ValueError:
        return None
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        return f"{name}{signature(function)} does not take that: {error}"
    return None


def too_many(max_steps: int | None, where: str = "chain") -> RuntimeError:
    return RuntimeError(
        f"{where}: until(k, state) is still not true after max_steps={max_steps} steps; give more steps, or a predicate that also ends"
    )


def truth(answer: object, *, where: str, k: int) -> bool:
    """Return the answer of a predicate ``until(k, state)`` as a bool; raise TypeError where it is neither true nor false."""
    if type(answer) is bool:
        return answer
    shape = getattr(answer, "shape", None)
    if shape is not None and math.prod(shape) != 1:
        raise TypeError(
            f"{where}: until({k}, state) returned an array of shape {shape}; it must return True or False (use np.all or np.any)"
        )
    if shape is None and not issubclass(type(answer), int | float):
        raise TypeError(f"{where}: until({k}, state) returned {answer!r}; it must return True or False")
    return bool(answer)
