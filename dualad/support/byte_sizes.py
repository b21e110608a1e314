"""Bytes as people write them: ``8MB``, ``1 GiB``."""

import math
import numbers
import re

from .checks import whole_number

__all__ = ["format_bytes", "parse_bytes"]

DECIMAL = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
BINARY = {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "PIB": 2**50}
SIZES = DECIMAL | BINARY
AMOUNT = re.compile(r"([0-9][0-9_]*\.?[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+)\s*([a-z]*)", re.IGNORECASE)


def parse_bytes(size: float | str, where: str = "parse_bytes", argument: str = "size") -> int:
    """Read a number of bytes. GB is 10^9 bytes, GiB is 2^30, as the units are defined (IEC 80000-13).

    Parameters
    ----------
    size : number or str
        A number of bytes (4096, 4e6), or a number with a unit: B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB, upper or lower case,
        with or without a space. A bare number in a text is in bytes.
    where, argument : str
        The function that was called, and the name of its argument: errors begin with them.

    Returns
    -------
    int
        Bytes, rounded to the nearest.

    Raises
    ------
    ValueError
        If the text is not such a number, or the number is negative.
    TypeError
        If `size` is neither a whole number nor a text.

    Examples
    --------
    >>> parse_bytes("8MB"), parse_bytes("1.5 GiB"), parse_bytes(4096), parse_bytes(4e6)
    (8000000, 1610612736, 4096, 4000000)
    """
    help_ = 'write a number of bytes or a text such as "8MB", "2 GB" (10^9 bytes each) or "1 GiB" (2^30 bytes)'
    if isinstance(size, str):
        match = AMOUNT.fullmatch(size.strip())
        unit = SIZES.get(match[2].upper() or "B") if match else None
        if match is None or unit is None:
            raise ValueError(f"{where}: {argument}: cannot read {size!r}; {help_}")
        number = match[1].replace("_", "")
        value = int(number) * unit if number.isdigit() else float(number) * unit
        if not math.isfinite(value):
            raise ValueError(f"{where}: {argument}: {size!r} is not a finite number; {help_}")
        return round(value)
    if issubclass(type(size), float) and size.is_integer():
        size = int(size)
    if not issubclass(type(size), numbers.Number):
        raise TypeError(f"{where}: {argument}: cannot read {size!r}; {help_}")
    return whole_number(size, where=where, argument=argument, least=0, hint=help_)


def format_bytes(count: int) -> str:
    """Write a number of bytes with three digits and a decimal unit.

    Parameters
    ----------
    count : int
        Bytes.

    Returns
    -------
    str

    Examples
    --------
    >>> format_bytes(40), format_bytes(168_000_000), format_bytes(8 * 10**12), format_bytes(999_999)
    ('40 B', '168 MB', '8 TB', '1 MB')
    """
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        value /= 1000
        if float(f"{value:.3g}") < 1000 or unit == "PB":
            break
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"
