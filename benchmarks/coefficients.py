"""Coefficients of the polynomials in ``dualad/codegen/kernels.py``: ``python -m benchmarks.coefficients`` prints them with their errors.

Each is the polynomial of least maximal relative error (Remez exchange in 60 digits) of a function that is smooth at 0, on an interval.
"""

import mpmath as mp

from dualad.codegen.kernels import MIDDLE

mp.mp.dps = 60


def remez(f, low, high, degree, rounds=6):
    """Return the coefficients (lowest first) of the polynomial p of least max |1 - p/f| on [low, high], and that error."""
    n = degree + 2
    nodes = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * k / (n - 1)) for k in range(n)]
    for _ in range(rounds):
        matrix = mp.matrix(n, n)
        for i, x in enumerate(nodes):
            value = f(x)
            for j in range(degree + 1):
                matrix[i, j] = x**j / value
            matrix[i, n - 1] = (-1) ** i
        solved = mp.lu_solve(matrix, mp.matrix([mp.mpf(1)] * n))
        coefficients = [solved[j] for j in range(degree + 1)]
        grid = [low + (high - low) * k / mp.mpf(40 * n) for k in range(40 * n + 1)]
        errors = [mp.polyval(coefficients[::-1], x) / f(x) - 1 for x in grid]
        nodes = alternation(grid, errors, n)
    return coefficients, max(map(abs, errors))


def alternation(grid, errors, n):
    """Return n points where the error is largest with alternating signs."""
    runs = [[0]]
    for k in range(1, len(grid)):
        if (errors[k] > 0) == (errors[runs[-1][-1]] > 0):
            runs[-1].append(k)
        else:
            runs.append([k])
    peaks = [max(run, key=lambda k: abs(errors[k])) for run in runs]
    while len(peaks) > n:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    if len(peaks) < n:
        raise ValueError(f"only {len(peaks)} alternations for {n}: the error is at the level of the arithmetic")
    return [grid[k] for k in peaks]


def series(first, ratio, x, terms=60):
    """Return the sum of terms c_k x^k with c_0 = first and c_(k+1) = c_k * ratio(k)."""
    total, c = mp.mpf(0), mp.mpf(first)
    for k in range(terms):
        total, c = total + c * x**k, c * ratio(k)
    return total


QUARTER, HALF_LN2 = (mp.pi / 4) ** 2 * mp.mpf("1.001"), mp.log(2) / 2 * mp.mpf("1.001")
#: name: (function of the polynomial's variable, interval, degree)
WANTED = {
    "SIN": (lambda z: series(mp.mpf(-1) / 6, lambda k: -mp.mpf(1) / ((2 * k + 4) * (2 * k + 5)), z), mp.mpf(0), QUARTER, 5),
    "COS": (lambda z: series(mp.mpf(1) / 24, lambda k: -mp.mpf(1) / ((2 * k + 5) * (2 * k + 6)), z), mp.mpf(0), QUARTER, 5),
    "EXP": (lambda r: series(mp.mpf(1) / 2, lambda k: mp.mpf(1) / (k + 3), r), -HALF_LN2, HALF_LN2, 10),
    "LOG": (
        lambda w: 2 * sum(w**k / mp.mpf(2 * k + 3) for k in range(60)),
        mp.mpf(0),
        ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.001"),
        7,
    ),
    "SINH": (lambda z: series(mp.mpf(1) / 6, lambda k: mp.mpf(1) / ((2 * k + 4) * (2 * k + 5)), z), mp.mpf(0), mp.mpf(1), 6),
    "ATAN": (
        lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z if z > mp.mpf("1e-12") else -mp.mpf(1) / 3 + z / 5,
        mp.mpf(0),
        mp.mpf("0.2501"),
        11,
    ),
    "COTH": (
        lambda z: (mp.sqrt(z) * mp.coth(mp.sqrt(z)) - 1) / z if z > mp.mpf("1e-12") else mp.mpf(1) / 3 - z / 45,
        mp.mpf(0),
        ((MIDDLE + mp.log(2) / 4) * mp.mpf("1.001")) ** 2,
        5,
    ),
    "CBRT": (lambda m: mp.cbrt(m), mp.mpf("0.353"), mp.mpf("0.708"), 4),
}

if __name__ == "__main__":
    for name, (function, low, high, degree) in WANTED.items():
        coefficients, error = remez(function, low, high, degree)
        print(f"{name} = (  # error {mp.nstr(error, 3)}")
        for c in coefficients:
            print(f"    {float(c)!r},")
        print(")")
