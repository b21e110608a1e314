"""How functions of SciPy get rows: SciPy computes the value, a body or rules give the derivative."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..kinds import composite, elementwise, primitive

__all__ = ["by_body", "by_partials", "named", "positional"]


def named(fn: Callable, name: str) -> Callable:
    """Return a function of SciPy that dispatches on traced arguments; errors call it by its public name."""
    dispatching = primitive(fn)
    dispatching.__module__, _, dispatching.__name__ = name.rpartition(".")
    return dispatching


def by_body(fn: Callable, body: Callable, name: str) -> Callable:
    """Enter a function whose derivative is that of a body in NumPy's functions; arguments that the body does not know are refused."""
    dispatching, known = named(fn, name), inspect.signature(body)

    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            known.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name} has no derivative with these arguments: {error}; it takes {known}") from None
        return body(*args, **kwargs)

    composite(dispatching, checked, with_numpy_value=True)
    return dispatching


def by_partials(fn: Callable, *partials: Callable | None, name: str, **options: Any) -> Callable:
    """Enter an elementwise function by the partials of its arguments."""
    dispatching = named(fn, name)
    elementwise(dispatching, *partials, **options)
    return dispatching


def positional(name: str, signature: inspect.Signature, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Return all arguments of a call by position, defaults too."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}{signature}: {error}") from None
    bound.apply_defaults()
    return bound.args
