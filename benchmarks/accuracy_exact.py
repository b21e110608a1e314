"""The exact values and derivatives on the grid of `accuracy_grid`, by mpmath: computed here, and kept in ``accuracy_exact.json``.

``python -m benchmarks.accuracy_exact`` computes all of them again (10 minutes).
"""

from __future__ import annotations

import json
import sys
import warnings
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from mpmath import mp, mpf
from scipy import special

from . import accuracy_special  # noqa: F401  (enters its functions)
from .accuracy_grid import GRID

FILE = Path(__file__).with_suffix(".json")
LARGEST = float(np.finfo(float).max)


def alone(entry, point, by, namespaces=(np, special)):
    """Return the function of argument `by` alone, in NumPy and ``scipy.special`` or a peer's likes of them; None without."""
    arrays, functions = namespaces
    args = [a[0] if type(a) is tuple else a for a in point]
    if entry.call is not None:
        return lambda x: entry.call(arrays, x)
    fn = getattr(arrays if entry.group == "ufuncs" else functions, entry.name, None)
    if fn is None:
        return None
    whole = lambda x: fn(*args[:by], x, *args[by + 1 :])
    return whole if entry.part is None else lambda x: whole(x)[entry.part]


def derivatives(entry):
    """Yield the points of an entry with each argument that is differentiated, `by`."""
    for point in entry.points:
        for by, value in enumerate(point):
            if type(value) is float:
                yield point, by


# --- the exact derivatives ------------------------------------------------------------------------------------------------


def differences(f, x, order, bits):
    """Return derivative `order` of f at x by central differences of a step 2**-bits of x."""
    with mp.workprec(bits * (order + 2) + 150 + order * max(0, -mp.mag(x) if x else 0)):
        h = mp.ldexp(abs(x) if x else mpf(1), -bits)
        if order == 0:
            return +f(x)
        if order == 1:
            return (f(x + h) - f(x - h)) / (2 * h)
        if order == 2:
            return (f(x + h) - 2 * f(x) + f(x - h)) / h**2
        return (f(x + 2 * h) - 2 * f(x + h) + 2 * f(x - h) - f(x - 2 * h)) / (2 * h**3)


def settled(approximate):
    """Return the value on which two precisions agree, of those tried in turn; None if no two do."""
    before = None
    for bits in (40, 60, 160, 720, 1500):
        try:
            with mp.workprec(200):
                now = approximate(bits)
        except (ValueError, ZeroDivisionError, ArithmeticError, mp.NoConvergence):
            return None
        if before is not None:
            with mp.workprec(200):
                apart, size = abs(now - before), abs(now)
                if apart <= size * mpf(10) ** -16:
                    return now
                if size < mpf(10) ** -20 and size <= abs(before) * mpf(10) ** -5:
                    return mpf(0)
        before = now
    return None


def solved(f, slope, y, start, bits):
    """Return the root of f(x) = y by Newton's method."""
    with mp.workprec(bits * 4 + 150):
        x = mpf(start)
        for _ in range(40):
            step = (f(x) - y) / slope(x)
            x -= step
            if abs(step) <= abs(x) * mpf(2) ** (-bits * 2 - 40):
                break
        return x


def exact(entry, point, by, order, value):
    """Return derivative `order` (0: the value itself) of the exact function by argument `by`; `value` is where to look for an inverse."""
    args = [mpf(a[0] if type(a) is tuple else a) if type(a) is not int else a for a in point]

    def of(fn):
        return lambda x: fn(*args[:by], x, *args[by + 1 :])

    f, x = of(entry.exact), args[by]

    def slope(x, order, bits):
        return differences(of(entry.slope), x, order - 1, bits) if entry.slope else differences(f, x, order + entry.shift, bits)

    def approximate(bits):
        if not entry.inverse:
            return slope(x, order, bits) if order else differences(f, x, entry.shift, bits)
        root = solved(f, lambda x: slope(x, 1, bits), x, value, bits)
        if order == 0:
            return root
        first = slope(root, 1, bits)
        return 1 / first if order == 1 else -slope(root, 2, bits) / first**3

    return settled(approximate)


# --- kept in a file -------------------------------------------------------------------------------------------------------


def computed(number):
    """Return the value and both derivatives at all points of an entry; None where they are not settled, or no floats."""
    entry = GRID[number]
    rows = []
    for point, by in derivatives(entry):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            value = alone(entry, point, by)(point[by])
        rows.append([as_json(exact(entry, point, by, order, value)) for order in (0, 1, 2)])
    return number, rows


def as_json(x):
    if x is None or abs(x) > LARGEST:
        return None
    return [float(x.real), float(x.imag)] if mp.im(x) else float(mp.re(x))


def where(entry):
    return [[*point, by] for point, by in derivatives(entry)]


def kept():
    """Return the exact values of all entries, each ``[value, first, second]`` for what `derivatives` yields."""
    entries = json.loads(FILE.read_text())
    for entry, (name, points, _) in zip(GRID, entries, strict=True):
        if name != entry.name or points != json.loads(json.dumps(where(entry))):
            raise ValueError(f"{entry.name}: the grid differs from {FILE.name}: run python -m benchmarks.accuracy_exact")
    return [[[complex(*x) if type(x) is list else x for x in row] for row in rows] for _, _, rows in entries]


def main():
    with Pool() as pool:
        rows = dict(pool.imap_unordered(computed, range(len(GRID))))
    lines = [json.dumps([entry.name, where(entry), rows[number]]) for number, entry in enumerate(GRID)]
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
