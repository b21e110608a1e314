"""Coverage of the table of rules: every function that NumPy dispatches, and how it is treated."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..rules.calling import public_name
from ..rules.kinds import ROWS, Constant, Refused
from ..rules.late import late_row

NAMESPACES = ("numpy ufuncs", "numpy", "numpy.linalg", "numpy.fft", "numpy.lib", "numpy strings and records", "scipy.special")


# --- public -----------------------------------------------------------------------------------------------------------------


def table() -> str:
    """Return the table of coverage: functions ruled (differentiable), constant, refused and unknown, by namespace.

    Examples
    --------
    >>> from dualad.verbs.coverage import table
    >>> print(table().splitlines()[0])
    namespace                  ruled  constant  refused  unknown  total
    """
    counts = {space: dict.fromkeys(("ruled", "constant", "refused", "unknown"), 0) for space in NAMESPACES}
    for fn in functions().values():
        counts[namespace(fn)][treatment(fn)] += 1
    counts = {space: row for space, row in counts.items() if any(row.values())}
    counts["total"] = {kind: sum(row[kind] for row in counts.values()) for kind in counts[NAMESPACES[0]]}
    lines = [f"{'namespace':25}  ruled  constant  refused  unknown  total"]
    for space, row in counts.items():
        lines.append(f"{space:25}{row['ruled']:7}{row['constant']:10}{row['refused']:9}{row['unknown']:9}{sum(row.values()):7}")
    return "\n".join(lines)


def treatment(fn) -> str:
    """Return how a function is treated: "ruled", "constant", "refused" or "unknown" (a ``TypeError`` that names it)."""
    row = ROWS.get(fn) or late_row(fn)
    if row is None:
        return "unknown"
    return "refused" if isinstance(row, Refused) else "constant" if isinstance(row, Constant) else "ruled"


# --- parts ------------------------------------------------------------------------------------------------------------------


def functions() -> dict[str, object]:
    """Return every function that dispatches on its arguments, by public name; of SciPy's if it can be imported."""
    import numpy.char
    import numpy.polynomial
    import numpy.strings  # noqa: F401  (they enter themselves among the functions that can be overridden)
    from numpy.testing import overrides

    every = [*overrides.get_overridable_numpy_array_functions(), *overrides.get_overridable_numpy_ufuncs(), *special_ufuncs()]
    late_row(None)
    found = {}
    for fn in every:
        name = public_name(fn)
        if namespace(fn) in NAMESPACES[-2:]:
            name = f"{namespace(fn)}: {fn.__name__}"
        elif fn not in ROWS:  # NumPy lists the functions with like= twice, or only what stands behind them
            fn = getattr(np, fn.__name__, fn)
        found[name] = fn
    return dict(sorted(found.items()))  # NumPy gives sets


def special_ufuncs() -> list:
    """Return the ufuncs of ``scipy.special``, each once."""
    try:
        from scipy import special
    except ImportError:
        return []
    fns = (fn for name, fn in vars(special).items() if isinstance(fn, np.ufunc) and not name.startswith("_"))
    return list({fn.__name__: fn for fn in fns}.values())


def namespace(fn) -> str:
    """Return the namespace that a function is counted in."""
    if isinstance(fn, np.ufunc):
        own: Any = vars(np._core.umath)  # type: ignore[attr-defined]
        if fn not in own.values():
            return "scipy.special"
        strings = own.get(fn.__name__) is fn and (fn.__name__.startswith("_") or not hasattr(np, fn.__name__))
        return "numpy strings and records" if strings or fn.__name__ == "clip" else "numpy ufuncs"
    module = fn.__module__
    if module in ("numpy.linalg", "numpy.fft"):
        return module
    if module in ("numpy.lib.recfunctions", "numpy.strings", "numpy.char"):
        return "numpy strings and records"
    return "numpy" if module == "numpy" else "numpy.lib"
