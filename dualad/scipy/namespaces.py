"""Lookup of SciPy's names in the modules here."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..core.doors import ufunc_of_lists
from ..core.standins import DistributionStandIn, ufunc_of
from ..rules.kinds import ROWS
from ..rules.late import late_row


def modules(package: str, names: list[str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose modules are imported when they are first asked for."""

    def lookup(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}: it has {', '.join(names)}")
        return import_module(f"{package}.{name}")

    return lookup, lambda: names


def has_row(fn: Callable) -> bool:
    return fn in ROWS or late_row(fn) is not None


def namespace(module: str, home: str | None = None) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a module that has the ``FUNCTIONS`` of its rows, or of another home, and
    SciPy's ufuncs with rows."""
    name = module.removeprefix("dualad.scipy.")
    scipys, rows = import_module(f"scipy.{name}"), import_module(home or f"dualad.rules.scipy.{name}")

    def lookup(attribute: str) -> Any:
        if attribute == "FUNCTIONS":
            return rows.FUNCTIONS
        if attribute in rows.FUNCTIONS:
            ours = rows.FUNCTIONS[attribute]
            return ours if callable(ours) else DistributionStandIn(ours, getattr(scipys, attribute))
        found = getattr(scipys, attribute, None)
        if (ufunc := ufunc_of(found)) is not None and has_row(ufunc):
            return ufunc_of_lists(ufunc)
        if found is None or attribute.startswith("_"):
            raise AttributeError(f"module 'scipy.{name}' has no attribute {attribute!r}")
        raise AttributeError(
            f"scipy.{name}.{attribute} has no derivative here: call SciPy's own on plain values (dualad.primal), give it a rule "
            f"(dualad.primitive), or differentiate the equation that it solves (dualad.implicit)"
        )

    things = {key: ufunc_of(thing) for key, thing in vars(scipys).items()}
    ufuncs = (key for key, ufunc in things.items() if ufunc is not None and ufunc.__name__ == key and has_row(ufunc))
    public = sorted({*rows.FUNCTIONS, *ufuncs})
    return lookup, lambda: public, public
