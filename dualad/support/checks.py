"""The checks that every floor of both packages needs: of whole numbers and flags."""

from collections.abc import Iterable
from operator import index


def whole_number(value: object, *, where: str, argument: str, least: int, hint: str) -> int:
    """Return `value` as a plain int of at least `least`, or raise an error that begins with `where` and `argument` and ends with `hint`.

    A bool is refused because it is a slip (``steps=True``), a float because ``steps=1e3 / 7`` would be cut in silence.
    """
    try:
        if type(value) is bool or type(value).__name__ == "bool":  # NumPy's too, which 2.0 takes for an index
            raise TypeError
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        given = f"{value!r} ({type(value).__name__})"
        raise TypeError(f"{where}: {argument} must be an integer, got {given}; {hint}") from None
    if number < least:
        raise ValueError(f"{where}: {argument} must be at least {least}, got {number}; {hint}")
    return number


def flag(value: object, *, where: str, argument: str) -> bool:
    """Return `value` as a bool, or raise: a text or a number in the place of a flag is a slip (``resume="no"``)."""
    if type(value) is bool or type(value).__name__ == "bool":
        return bool(value)
    raise TypeError(f"{where}: {argument} must be True or False, got {value!r}")


def flags(where: str, **given: object) -> Iterable[bool]:
    """Return values as bools, by their names; see `flag`."""
    for name, value in given.items():
        if type(value) is not bool:
            given[name] = flag(value, where=where, argument=name)
    return given.values()  # type: ignore[return-value]
