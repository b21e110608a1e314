"""Parts of partials of ``scipy.special`` whose textbook form cancels or overflows; their own partials are accurate, too.

Sources: the numbered formulas of the NIST Digital Library of Mathematical Functions (DLMF).
"""

import math

import numpy as np
from scipy import special as sp

from .kinds import ROWS, elementwise, explicit, is_complex, one_over, primitive, trust_rows
from .primitives import ratio

KNOWN = set(ROWS)
IGAM_FAC, BETA_PDF = (getattr(sp._ufuncs, name, None) for name in ("_igam_fac", "_beta_pdf"))
for fn in filter(None, (IGAM_FAC, BETA_PDF)):
    explicit(fn, (None,) * fn.nin, name=f"scipy.special.{fn.__name__}")


# --- series -----------------------------------------------------------------------------------------------------------------


def power_series(x, coefficients):
    """Return the sum of ``coefficients[k] * x**k``."""
    total = 0.0
    for c in reversed(coefficients):
        total = total * x + c
    return total


def near_zero(x, series, away, bound=0.1, power=lambda x: x):
    """Return a function with a removable singularity at 0, by the coefficients of its series in a power of x within `bound`."""
    near = np.less(np.abs(x), bound)
    return np.where(near, power_series(power(np.where(near, x, 0.0)), series), away(np.where(near, 1.0, x)))


# --- gamma and beta ---------------------------------------------------------------------------------------------------------

SHIFT = 16
#: B_2k / (2k)!
BERNOULLI = [1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600]


@primitive
def zeta_difference(p, z, m):
    """Return the sum over k >= 0 of ``(z + k)**-p - (z + m + k)**-p`` without cancellation, p a whole number (DLMF 25.11.5).

    For p = 1 it is ``psi(z + m) - psi(z)``, for others ``zeta(p, z) - zeta(p, z + m)``; where z or z + m is not positive, by these.
    """
    z, m = np.asarray(z), np.asarray(m)
    with np.errstate(all="ignore"):
        return (between_positive(p, z, m) if np.all(positive(z, m)) else between_any(p, z, m))[()]


def positive(z, m):
    return np.logical_and(np.greater(z, 0), np.greater(z + m, 0))


def between_any(p, z, m):
    good = positive(z, m)
    apart = sp.psi(z + m) - sp.psi(z) if p == 1 else sp.zeta(p, z) - sp.zeta(p, z + m)
    return np.where(good, between_positive(p, np.where(good, z, 1.0), np.where(good, m, 1.0)), apart)


def between_positive(p, z, m):
    total = 0.0
    for k in range(SHIFT):
        total = total + power_difference(z + k, m, p)
    z = z + SHIFT
    total = total + (log_growth(z, m) if p == 1 else power_difference(z, m, p - 1) / (p - 1)) + 0.5 * power_difference(z, m, p)
    rising = 1.0 * p
    for k, c in enumerate(BERNOULLI):
        total = total + c * rising * power_difference(z, m, p + 2 * k + 1)
        rising *= (p + 2 * k + 1) * (p + 2 * k + 2)
    return total


def power_difference(z, m, q):
    """Return ``z**-q - (z + m)**-q`` of positive z and z + m."""
    return z**-q * -np.expm1(-q * log_growth(z, m))


def log_growth(z, m):
    """Return log((z + m) / z) of positive z and z + m."""
    growth = m / z
    return np.where(growth < -0.5, np.log((z + m) / z), np.log1p(growth))


elementwise(
    zeta_difference,
    None,
    lambda ans, p, z, m: -p * zeta_difference(p + 1.0, z, m),
    lambda ans, p, z, m: p * sp.zeta(p + 1.0, z + m),
    inlined=between_any,
)


@primitive
def gamma_density(a, x):
    """Return ``x**(a - 1) * exp(-x) / gamma(a)``, the derivative of gammainc."""
    with np.errstate(all="ignore"):
        plain = np.exp(sp.xlogy(a - 1.0, x) - x - sp.gammaln(a))
        if IGAM_FAC is None:
            return plain
        inside = np.logical_and(np.greater(x, 0), np.less(x, np.inf))
        power = IGAM_FAC(a, np.where(inside, x, 1.0))
        return np.where(np.logical_and(inside, np.greater(power, 1e-290)), power / x, plain)[()]


def gamma_density_slope(ans, a, x):
    """Return the derivative in x; at 0 its limit."""
    edge = np.equal(x, 0)
    at_zero = np.where(np.equal(a, 1), -1.0, np.where(np.less(a, 2), np.copysign(np.inf, a - 1.0), 1.0 * np.equal(a, 2)))
    x = np.where(edge, 1.0, x)
    return np.where(edge, at_zero, ans * (a - 1.0 - x) / x)


elementwise(gamma_density, None, gamma_density_slope, singular=True, inlined=True)


@primitive
def beta_density(a, b, x):
    """Return ``x**(a - 1) * (1 - x)**(b - 1) / beta(a, b)``, the derivative of betainc."""
    with np.errstate(all="ignore"):
        plain = np.exp(sp.xlogy(a - 1.0, x) + sp.xlog1py(b - 1.0, -x) - sp.betaln(a, b))
        if BETA_PDF is None:
            return plain
        inside = np.logical_and(np.greater(x, 0), np.less(x, 1))
        return np.where(inside, BETA_PDF(np.where(inside, x, 0.5), a, b), plain)[()]


elementwise(beta_density, None, None, lambda ans, a, b, x: ans * ((a - 1.0) / x - (b - 1.0) / (1.0 - x)), singular=True, inlined=True)


def poch_first(ans, z, m):
    """Return the derivative of ``gamma(z + m) / gamma(z)`` by z, also where both are infinite."""
    right = np.greater(z, 0)
    left = np.logical_and(np.logical_not(right), np.logical_and(np.less_equal(z + m, 0), np.equal(m, np.rint(m))))
    through = np.logical_and(np.logical_not(right), np.greater(z + m, 0))
    # left of 0, for a whole m: poch(z, m) = (-1)**m poch(1 - z - m, m)
    mirrored = -ans * zeta_difference(1.0, np.where(left, 1.0 - z - m, z), m)
    # from left to right through 0: poch(z, m) = poch(z, k) (z + k) poch(z + k + 1, m - k - 1), where z + k is next to 0
    safe = np.where(through, z, 1.0)
    k = np.maximum(np.rint(-safe), 0.0)
    sign, near = np.cos(math.pi * k), safe + k
    first = sign * sp.poch(1.0 - near, k)
    second = sp.poch(near + 1.0, m - k - 1.0)
    change = zeta_difference(1.0, near + 1.0, m - k - 1.0) - zeta_difference(1.0, 1.0 - near, k)
    crossing = first * second * (1.0 + near * change)
    return np.where(through, crossing, np.where(left, mirrored, -mirrored))


def poch_second(ans, z, m):
    """Return the derivative of ``gamma(z + m) / gamma(z)`` by m."""
    return ans * sp.psi(z + m)


def binom_first(ans, n, k):
    """Return the derivative of the binomial coefficient by n."""
    z = n - k + 1.0
    low = np.logical_and(np.less(z, 0.5), np.less(np.abs(k), 170.0))
    z_low, k_low = np.where(low, z, 1.0), np.where(low, k, 1.0)
    return np.where(low, poch_first(sp.poch(z_low, k_low), z_low, k_low) * sp.rgamma(k_low + 1.0), ans * zeta_difference(1.0, z, k))


def binom_second(ans, n, k):
    """Return the derivative of the binomial coefficient by k."""
    z = n - k + 1.0
    low = np.logical_and(np.logical_and(np.less(z, 0.5), np.less(np.abs(n), 170.0)), np.less(np.abs(k), 170.0))
    z_low, n_low, k_low = np.where(low, z, 1.0), np.where(low, n, 1.0), np.where(low, k, 1.0)
    slope = sp.psi(k_low + 1.0) * sp.rgamma(z_low) + rgamma_slope(z_low)
    return np.where(low, -sp.gamma(n_low + 1.0) * sp.rgamma(k_low + 1.0) * slope, ans * zeta_difference(1.0, k + 1.0, n - 2.0 * k))


def rgamma_slope(x):
    """Return the derivative of 1/gamma: by reflection on the left, where digamma has poles and 1/gamma has none."""
    left = np.less(np.real(x), 0.5)
    y = np.where(left, 1.0 - x, 1.0)
    reflected = sp.gamma(y) * (np.cos(math.pi * x) - np.sin(math.pi * x) * sp.psi(y) / math.pi)
    right = np.where(left, 1.0, x)
    return np.where(left, reflected, -sp.rgamma(right) * sp.psi(right))


# --- logistic -----------------------------------------------------------------------------------------------------------------


@primitive
def logistic_slope(x, p):
    """Return p * (1 - p), where p is expit(x)."""
    return p * sp.expit(-x)


elementwise(logistic_slope, lambda ans, x, p: -ans * np.tanh(0.5 * x), lambda ans, x, p: 0.0, inlined=True)


@primitive
def share(w):
    """Return w / (1 + w)."""
    return w / (1.0 + w)


elementwise(share, lambda ans, w: 1.0 / np.square(1.0 + w), inlined=True)


# --- logarithms of quotients --------------------------------------------------------------------------------------------------


@primitive
def log_ratio(x, y):
    """Return log(x / y), whose digits hold near x = y and where the quotient over- or underflows."""
    with np.errstate(all="ignore"):
        q, d = x / y, (x - y) / y
        far = np.logical_or(np.less(q, 1e-300), np.greater(q, 1e300))
        return np.where(np.less(np.abs(d), 0.5), np.log1p(d), np.where(far, np.log(x) - np.log(y), np.log(q)))[()]


elementwise(log_ratio, one_over(lambda ans, x, y: x), one_over(lambda ans, x, y: -y), singular=True, inlined=True)


@primitive
def one_minus_ratio(x, y):
    """Return 1 - x / y."""
    with np.errstate(all="ignore"):
        return (y - x) / y


elementwise(one_minus_ratio, lambda ans, x, y: -1.0 / y, lambda ans, x, y: x / y / y, singular=True, inlined=True)


# --- Bessel functions and integrals ---------------------------------------------------------------------------------------------


def hankel_slope(v, x, near, unit, scale):
    """Return `near`, but for large real x the derivative of a scaled Bessel function by Hankel's expansion, where `near` cancels.

    The expansion is ``scale * sqrt(1 / x) * sum(unit**k * a_k(v) / x**k)`` (DLMF 10.17.5, 10.40.1, 10.40.2).
    """
    if is_complex(x):
        return near
    size = np.absolute(x)
    far = np.greater(size, np.maximum(30.0, 1.0 * v * v))
    s = 1.0 / np.where(far, size, 1e300)
    coefficients, a = [], 1.0
    for k in range(26):
        coefficients.append(-(k + 0.5) * a)
        a = a * unit * (4.0 * v * v - (2 * k + 1) ** 2) / (8.0 * (k + 1))
    return np.where(far, np.sign(x) * scale * power_series(s, coefficients) * s * np.sqrt(s), near)


@primitive
def half_turns_of_square(x):
    """Return x**2 modulo 4, with the digits that the rounding of the square would lose."""
    with np.errstate(all="ignore"):
        p = x * x
        c = 134217729.0 * x  # 2**27 + 1: Dekker's exact product
        high = c - (c - x)
        low = x - high
        rest = ((high * high - p) + 2.0 * high * low) + low * low
        return np.where(np.less(np.abs(x), 1e15), np.fmod(p, 4.0) + rest, 0.0)[()]


elementwise(half_turns_of_square, lambda ans, x: 2.0 * x)


@primitive
def ellipem1(p):
    """Return the complete elliptic integral of the second kind of m = 1 - p."""
    return sp.ellipe(1.0 - p)


def by_modulus(x, m, scale, a, away):
    """Return the derivative of a complete elliptic integral, by its series near m = 0, where `away(x)` cancels (DLMF 19.4.1, 15.5.1)."""
    near = np.less(np.absolute(m), 0.25)
    return np.where(near, scale * sp.hyp2f1(a, 1.5, 2.0, np.where(near, m, 0.0)), away(np.where(near, 0.5, x)))


elementwise(
    ellipem1,
    lambda ans, p: by_modulus(p, 1.0 - p, math.pi / 8.0, 0.5, lambda p: (sp.ellipkm1(p) - ans) / (2.0 * (1.0 - p))),
    inlined=True,
)


@primitive
def sine_integral(k, phi):
    """Return the integral of ``sin(t)**(2 k)`` from 0 to phi, k a whole number."""
    s, c = np.sin(phi), np.cos(phi)
    total, odd = phi * 1.0, s
    for j in range(1, k + 1):
        total = ((2 * j - 1) * total - c * odd) / (2 * j)
        odd = odd * s * s
    small = np.less(np.abs(phi), 0.8)
    t = np.where(small, s, 0.0)
    return np.where(small, t ** (2 * k + 1) / (2 * k + 1) * sp.hyp2f1(0.5, k + 0.5, k + 1.5, t * t), total)[()]


elementwise(sine_integral, None, lambda ans, k, phi: np.sin(phi) ** (2 * k), inlined=True)


def legendre_series(phi, m, power):
    """Return the derivative in m of the integral of ``(1 - m sin(t)**2)**power`` from 0 to phi, as a series in m."""
    coefficient, total, mk = 1.0, 0.0, 1.0
    for k in range(1, 18):
        coefficient *= (k - 1 - power) / k
        total = total + (k * coefficient) * mk * sine_integral(k, phi)
        mk = mk * m
    return total


def pseudo_huber_parts(delta, r):
    """Return hypot(delta, r) and its difference from delta."""
    h = np.hypot(delta, r)
    return h, r * ratio(r, h + delta)


trust_rows(KNOWN)
