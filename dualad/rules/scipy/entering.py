"""How functions of SciPy get rows: SciPy computes the value, a body or rules give the derivative."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

from ...support.equality import same_arrays
from ..calling import bind, equals_default, signature
from ..cotangents import is_symbolic
from ..kinds import Differentiable, Elementwise, any_traced, composite, elementwise, primitive
from ..memory import copied
from ..shapes import as_array

OBJECT = np.dtype(object)


def dispatching_as(fn: Callable, name: str) -> Callable:
    """Return a function of SciPy that dispatches on traced arguments, in arrays of objects, too; errors call it by its public name."""

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        for arg in args:
            if type(arg) is np.ndarray and arg.dtype is OBJECT:
                packed = tuple(map(array_of_list, args))
                if any(map(any_traced, packed)):
                    return dispatching(*packed, **kwargs)
        return fn(*args, **kwargs)

    dispatching = primitive(call)
    dispatching.__module__, _, dispatching.__name__ = name.rpartition(".")
    return dispatching


def by_name(*bodies: Callable) -> dict[str, Callable]:
    """Return bodies by the names of what they stand for."""
    return {body.__name__.removesuffix("_body"): body for body in bodies}


def enter_bodies(module: ModuleType, bodies: dict[str, Callable]) -> dict[str, Callable]:
    """Enter functions of a module of SciPy by their bodies."""
    return {name: by_body(getattr(module, name), body, f"{module.__name__}.{name}") for name, body in bodies.items()}


def by_body(fn: Callable, body: Callable, name: str, rules: tuple | None = None, partials: tuple | None = None) -> Callable:
    """Enter a function whose derivative is that of a body in NumPy's functions; arguments that the body does not know are refused.

    Of real arrays, what takes less time where values are known may be given, too: as `rules`, the JVPs and the VJPs of the first arguments
    and a predicate that says for which calls, or, of an elementwise function, as `partials` of all its arguments."""
    known, scipys = inspect.signature(body), signature(fn)
    dispatching = dispatching_as(without_overwriting(fn, scipys, name), name)
    if (places := [name for name in scipys.parameters if name in known.parameters]) != [
        name for name in known.parameters if name in places
    ]:
        raise ValueError(f"{name}: a body of {known} takes the arguments of {scipys} in another order")
    by_keyword = all(
        (name in scipys.parameters or p.kind is p.KEYWORD_ONLY) and p.kind is not p.VAR_POSITIONAL for name, p in known.parameters.items()
    )  # of SciPy's own names, but for keywords of a later SciPy

    def checked(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tuple(map(array_of_list, args)), {key: array_of_list(x) for key, x in kwargs.items()}
        refuse_words(fn, args, kwargs)
        try:
            if by_keyword:  # the body may leave out arguments between others
                args, kwargs = (), given_arguments(scipys, known, args, kwargs)
            known.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name} has no derivative with these arguments: {error}; it takes {known}") from None
        return body(*args, **kwargs)

    in_short = None
    if rules is not None:
        in_short = call_if_fits(Differentiable(dispatching, *rules[:2], trusted=True), rules[2])
    elif partials is not None:
        in_short = call_if_fits(Elementwise(dispatching, *partials, trusted=True), lambda *args: True)
    composite(dispatching, checked, with_numpy_value=True, in_short=in_short)
    return dispatching


def refuse_words(fn: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
    """Have SciPy check the string arguments of a call that a program computes without it, by a call with ones."""
    every = (*args, *kwargs.values())
    if not any(issubclass(type(x), str) for x in every) or not any(map(is_symbolic, every)):
        return
    known = lambda x: np.ones(x.shape, x.dtype) if is_symbolic(x) else x
    with warnings.catch_warnings(), np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):
        warnings.simplefilter("ignore")
        fn(*map(known, args), **{key: known(x) for key, x in kwargs.items()})


def array_of_list(x: Any) -> Any:
    """Return a list, or an array of objects, that holds traced numbers as an array, and anything else as it is."""
    if type(x) is np.ndarray and x.dtype is OBJECT:
        packed = as_array(x)
        return packed if any_traced(packed) else x
    return as_array(x) if type(x) is list and any_traced(x) else x


def taking_lists(fn: Callable) -> Callable:
    """Return a function of SciPy's that is made of ufuncs, whose arguments may be lists of traced numbers."""

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*map(array_of_list, args), **kwargs)

    return call


def call_if_fits(row: Differentiable, fits: Callable) -> Callable[[tuple, dict[str, Any]], Differentiable | None]:
    """Return the function of a call that returns a row of rules where it fits."""
    count = row.argnums[-1] + 1
    return lambda args, kwargs: row if len(args) >= count and all(map(is_plain, args[:count])) and fits(*args, **kwargs) else None


def is_plain(x: Any) -> bool:
    """Return whether `x` is traced, an array or a number: SciPy drops the mask of a masked array, which a body refuses."""
    kind = type(x)
    return kind is np.ndarray or hasattr(kind, "__dualad_apply__") or issubclass(kind, float | int | np.generic)


def given_arguments(scipys: inspect.Signature, known: inspect.Signature, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name, without those that a body does not know and that are the defaults."""
    arguments = scipys.bind(*args, **kwargs).arguments
    for key, parameter in scipys.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments |= arguments.pop(key, {})
    for key in ignored_arguments(scipys):
        arguments.pop(key, None)
    return {key: value for key, value in arguments.items() if key in known.parameters or not is_default(scipys, key, value)}


def ignored_arguments(scipys: inspect.Signature) -> list[str]:
    """Return the arguments that change no value, as the wrappers of LAPACK have them."""
    return [key for key in scipys.parameters if key.startswith("overwrite_") or key in ("check_finite", "lwork")]


def without_overwriting(fn: Callable, scipys: inspect.Signature, name: str) -> Callable:
    """Return a function that leaves its arguments as they are: they may be values of traced ones."""
    flags = [key for key in scipys.parameters if key.startswith("overwrite_")]
    if not flags:
        return fn

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = bind(name, scipys, args, kwargs)
        bound.arguments.update((key, False) for key in flags if key in bound.arguments)
        return fn(*bound.args, **bound.kwargs)

    return call


def is_default(signature: inspect.Signature, key: str, value: Any) -> bool:
    return key in signature.parameters and equals_default(value, signature.parameters[key].default)


def with_short_path(fn: Callable, short: Callable, samples: list[tuple]) -> Callable:
    """Return a function of SciPy that takes its value from `short` where that gives one, if that has the bits of this SciPy's for samples.

    These are compared when it is called first."""
    agrees: list[bool] = []

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not agrees:
            agrees.append(all(same_arrays(short(*sample), fn(*sample)) for sample in samples))
        try:
            value = short(*args, **kwargs) if agrees[0] else None
        except (TypeError, ValueError):  # of arguments that it does not know, or that SciPy refuses
            value = None
        return fn(*args, **kwargs) if value is None else value

    return call


def by_partials(fn: Callable, *partials: Callable | None, name: str, **options: Any) -> Callable:
    """Enter an elementwise function by the partials of its arguments."""
    dispatching = dispatching_as(fn, name)
    elementwise(dispatching, *partials, **options)
    return dispatching


def plain_copies(x: Any) -> Any:
    """Return copies of traced arrays, which their owners may write: a plain one of a buffer in which nothing traced is."""
    if not any_traced(x):
        return x
    return type(x)(map(plain_copies, x)) if type(x) in (list, tuple) else copied(x)
