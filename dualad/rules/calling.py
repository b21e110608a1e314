"""Passing the arguments of a call to the rules of its function: positional, with keywords and defaults."""

from __future__ import annotations

import inspect
import sys
from functools import cache, lru_cache

import numpy as np

from .partials import MARKS, one_over

PLACES = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def bind_user_call(row, args, kwargs):
    """Return a call of a user's function with its arguments in their places, positional or by keyword, and defaults filled in."""
    parameters = signature(row.fn)
    if isinstance(row.fn, np.ufunc) or not parameters.parameters:
        return args, kwargs
    if row.lacking is None:
        row.lacking = set()
        for rules, lead in row.rules.items():
            setattr(row, rules, tuple(adapt_rule(row, rule, lead) for rule in getattr(row, rules)))
    call = with_defaults(row.name, parameters, args, kwargs)
    for name in row.lacking:
        value = call.arguments[name]
        if value is not parameters.parameters[name].default:
            raise TypeError(
                f"{row.name}: its rule does not accept the argument {name!r}, which is {value!r} here: "
                f"give the rule the parameters of the function"
            )
    return call.args, call.kwargs


def with_defaults(title, parameters, args, kwargs):
    """Return the arguments of a call in their places, defaults too; errors begin with a title."""
    call = bind(title, parameters, args, kwargs)
    call.apply_defaults()
    return call


def bind(title, parameters, args, kwargs):
    """Return the arguments of a call in their places; errors begin with a title."""
    try:
        return parameters.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{title}: {error}") from None


def adapt_rule(row, rule, lead):
    """Return a rule as one that takes all parameters of its function, after `lead` others; `row.lacking` gets what it lacks."""
    divisor = getattr(rule, "divisor", None)
    if rule in MARKS or divisor is not None:
        return rule if rule in MARKS else one_over(adapt_rule(row, divisor, lead))
    own = signature(rule).parameters.values()
    kinds = {p.kind for p in own}
    if not own:
        return rule
    most = sum(p.kind in PLACES for p in own) - lead
    places = places_of(row.fn)
    words = [p.name for p in signature(row.fn).parameters.values() if p.kind is p.KEYWORD_ONLY]
    lacking = [] if inspect.Parameter.VAR_POSITIONAL in kinds else places[most:]
    known = words if inspect.Parameter.VAR_KEYWORD in kinds else [p.name for p in own if p.kind not in VARIADIC]
    unknown = [name for name in words if name not in known]
    if not lacking and not unknown:
        return rule
    row.lacking.update(lacking, unknown)
    stop = lead + most if lacking else None
    return lambda *args, **kwargs: rule(*args[:stop], **{name: value for name, value in kwargs.items() if name not in unknown})


def positional_count(fn) -> int:
    """Return how many positional arguments a function takes; of one that takes any number those that it names."""
    if isinstance(fn, np.ufunc):
        return fn.nin
    return len(places_of(fn))


def places_of(fn) -> list[str]:
    """Return the names of the arguments of a function that have a place."""
    return [name for name, p in signature(fn).parameters.items() if p.kind in PLACES]


def is_numpys(fn) -> bool:
    """Return whether a function is an array function of NumPy's."""
    return not isinstance(fn, np.ufunc) and str(getattr(fn, "__module__", "")).startswith("numpy")


def dtype_position(fn) -> int | None:
    """Return where an array function of NumPy's takes its argument ``dtype``, None if it has none."""
    if not is_numpys(fn):
        return None
    parameters, places = signature(fn).parameters, places_of(fn)
    if "dtype" in places:
        return places.index("dtype")
    named = not parameters or "dtype" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return sys.maxsize if named else None


def out_position(fn) -> int | None:
    """Return where an array function of NumPy's takes its argument ``out``, None where it has no place for it."""
    if not is_numpys(fn):
        return None
    places = places_of(fn)
    return places.index("out") if "out" in places else UNSIGNED.get(fn)


#: where functions take ``out`` that have no signature before NumPy 2.4
UNSIGNED = {np.dot: 2, np.concatenate: 2}


def with_out_named(fn, out_at, args, kwargs):
    """Return a call with ``out`` and the arguments after it as keywords; None stands for no ``out``."""
    named = {**dict(zip(names_from(fn, out_at), args[out_at:], strict=False)), **kwargs}
    if named.get("out", fn) is None:
        del named["out"]
    return args[:out_at], named


@cache
def names_from(fn, place):
    """Return the names of a function's arguments from a place on, of which the first is ``out``."""
    return list(signature(fn).parameters)[place:] or ["out"]


def required_count(fn) -> int:
    """Return how many arguments of an array function of NumPy's have a place and no default."""
    if not is_numpys(fn):
        return 0
    return sum(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in signature(fn).parameters.values())


def positional_call(fn, args, kwargs):
    """Return a call with the arguments that stand first in their places, where they were given by keyword."""
    names, args, kwargs = places_of(fn), list(args), dict(kwargs)
    while len(args) < len(names) and names[len(args)] in kwargs:
        args.append(kwargs.pop(names[len(args)]))
    return tuple(args), kwargs


def public_name(fn) -> str:
    """Return the name users know a function by, such as ``numpy.linalg.solve``."""
    name = getattr(fn, "__name__", repr(fn))
    if not isinstance(fn, np.ufunc):
        module = getattr(fn, "__module__", None)
        return f"{module}.{name}" if module else name
    for module in ("numpy", "scipy.special"):
        if getattr(sys.modules.get(module), name, None) is fn:
            return f"{module}.{name}"
    return name


ORDINALS = "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"


def argument_of(fn, place) -> str:
    """Return how to call an argument: by its name, or by its place where it has none that says anything, as those of ufuncs."""
    names = () if isinstance(fn, np.ufunc) else tuple(signature(fn).parameters)
    if isinstance(place, str) or place < len(names):
        return f"its argument {(place if isinstance(place, str) else names[place])!r}"
    return f"its {ORDINALS[place]} argument" if place < len(ORDINALS) else f"its argument {place}"


def missing_rule(row, mode, i):
    return TypeError(
        f"{row.name} has no {mode} with respect to {argument_of(row.fn, i)}: pass a plain array there "
        f"(dualad.primal, dualad.stop_gradient) or give the rule"
    )


def signature(fn) -> inspect.Signature:
    """Return the signature of a function, or an open one where it has none (some C functions)."""
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        return inspect.Signature()


def without_defaults(fn, args, kwargs):
    """Return the arguments of a call without those that are the defaults, so that equal calls look equal; our own functions keep all."""
    if isinstance(fn, np.ufunc) or not (kwargs or len(args) > 1) or (getattr(fn, "__module__", None) or "").startswith("dualad."):
        return args, kwargs
    names, defaults = parameters(fn)
    kwargs = {name: arg for name, arg in kwargs.items() if not (name in defaults and equals_default(arg, defaults[name]))}
    count = len(args)
    while count and count <= len(names) and names[count - 1] in defaults and equals_default(args[count - 1], defaults[names[count - 1]]):
        count -= 1
    return args[:count], kwargs


@lru_cache(maxsize=1024)
def parameters(fn):
    """Return the names of a function's positional parameters, and all defaults."""
    given = signature(fn).parameters.values()
    positional = [p.name for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return positional, {p.name: p.default for p in given if p.default is not p.empty}


def equals_default(a, b):
    """Return whether an argument is the default; arrays are not."""
    return a is b or (type(a) in (int, bool, str) and type(a) is type(b) and a == b)
