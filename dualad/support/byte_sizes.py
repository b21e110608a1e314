"""Bytes as people write them: ``8MB``, ``1 GiB``."""

import math
import numbers
import re

from .checks import whole_number

DECIMAL = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
BINARY = {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "PIB": 2**50}
SIZES = DECIMAL | BINARY
AMOUNT = re.compile(r"([0-9][0-9_]*\.?[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+)\s*([a-z]*)", re.IGNORECASE)


def parse_bytes(size: float | str, where: str = "parse_bytes", argument: str = "size") -> int:
    """Return a number of bytes, given as a number or as a text with a unit: B, kB, MB, ... (10^3), KiB, MiB, ... (2^10), in any case.

    Errors begin with `where` and `argument`.
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
    """Write a number of bytes with three digits and a decimal unit: 168 MB."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        value /= 1000
        if float(f"{value:.3g}") < 1000 or unit == "PB":
            break
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"
