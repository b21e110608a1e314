"""The checks that every floor of both packages needs: of whole numbers and flags."""

from operator import index

__all__ = ["flag", "whole_number"]


def whole_number(value: object, *, where: str, argument: str, least: int, hint: str) -> int:
    """Return `value` as a plain int, or raise an error that says what to write instead.

    Python and NumPy integers are welcome. A bool is refused because it is a slip (``steps=True``), a float because
    ``steps=1e3 / 7`` would be cut in silence.

    Parameters
    ----------
    value : object
        What the user gave.
    where, argument : str
        The function or class, and the name of its argument: the error begins with them.
    least : int
        Smallest value allowed.
    hint : str
        What to do; ends the error.

    Returns
    -------
    int

    Raises
    ------
    TypeError
        If `value` is not an integer.
    ValueError
        If `value` is less than `least`.

    Examples
    --------
    >>> whole_number(3, where="Revolve", argument="slots", least=1, hint="")
    3
    >>> whole_number(0, where="Revolve", argument="slots", least=1, hint="give the number of states that fit")
    Traceback (most recent call last):
    ...
    ValueError: Revolve: slots must be at least 1, got 0; give the number of states that fit
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
    """Return `value` as a bool, or raise: a text or a number in the place of a flag is a slip (``resume="no"``).

    Examples
    --------
    >>> flag(True, where="chain", argument="check")
    True
    >>> flag("no", where="chain", argument="check")
    Traceback (most recent call last):
    ...
    TypeError: chain: check must be True or False, got 'no'
    """
    if type(value) is bool or type(value).__name__ == "bool":
        return bool(value)
    raise TypeError(f"{where}: {argument} must be True or False, got {value!r}")
