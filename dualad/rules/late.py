"""Rows for packages that only some users import: entered when the first function without a row is met, at no cost before."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np

from ..support.forks import held_across_forks
from .kinds import ROWS, composite, refused, trust_rows

#: packages whose rows are entered
entered: set[str] = set()
#: held while they are entered: a thread that meets another function of the package waits for its row
ENTERING = held_across_forks()


def enter_structured():
    """Enter the functions on structured arrays, as refused ones."""
    from numpy.lib import recfunctions

    fns = dict.fromkeys(getattr(recfunctions, name) for name in recfunctions.__all__)
    refused(
        "it is defined on structured arrays, which hold no derivatives: take single fields",
        *(fn for fn in fns if hasattr(fn, "__wrapped__")),
    )


def enter_strings():
    """Enter the functions of ``numpy.strings`` and ``numpy.char``, as refused ones."""
    for module in (sys.modules.get("numpy._core.strings"), sys.modules.get("numpy._core.defchararray")):
        fns = dict.fromkeys(fn for fn in vars(module or object).values() if hasattr(fn, "__wrapped__") and fn not in ROWS)
        refused("it is defined on strings", *(fn for fn in fns if fn.__module__ in ("numpy.strings", "numpy.char")))


def enter_polynomials():
    """Enter the functions of ``numpy.polynomial`` that dispatch on their arguments."""
    from numpy.polynomial import polynomial

    from .polynomials import polygrid2d, polyval2d, polyvalnd

    bodies: dict[str, Any] = {"polyval2d": polyval2d, "polygrid2d": polygrid2d, "polyvalnd": polyvalnd}
    for name, body in bodies.items():
        if hasattr(polynomial, name):
            composite(getattr(polynomial, name), body)


PACKAGES = {
    "numpy.char": enter_strings,
    "numpy.strings": enter_strings,
    "numpy.polynomial.polynomial": enter_polynomials,
    "scipy.special": lambda: import_module("..special", __name__),
    "numpy.lib.recfunctions": enter_structured,
}


def late_row(fn):
    """Return the row of a function that had none so far, None if there is none: call where ``ROWS.get(fn)`` found nothing."""
    with ENTERING:
        before = set(ROWS)
        for name in [name for name in PACKAGES if name in sys.modules and name not in entered]:
            entered.add(name)
            PACKAGES[name]()
        if isinstance(fn, np.ufunc) and fn not in ROWS and "scipy.special" in entered and "rare" not in entered:
            entered.add("rare")
            import_module("..special_rare", __name__)
        trust_rows(before)
        return ROWS.get(fn)
