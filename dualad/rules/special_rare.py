"""``scipy.special``: rarely used functions. Their derivatives are tested against differences, not on the published grid.

Where no argument has a derivative in closed form, a function is refused. What is an equation of second order gives the derivative of the
derivative that SciPy returns beside the value (Mathieu, spheroidal and parabolic cylinder functions).
"""

import math

import numpy as np
from scipy import special as sp

from .kinds import ROWS, refused, trust_rows
from .special import chebyu_partial, ellipk_partial, f_density, lower, normal_pdf, rule, several, wofz_partial
from .special_parts import beta_density, gamma_density, near_zero

KNOWN = set(ROWS)
ROOT_PI, ROOT_2, ROOT_2PI = math.sqrt(math.pi), math.sqrt(2.0), math.sqrt(2.0 * math.pi)


# --- distributions ------------------------------------------------------------------------------------------------------------------


def noncentral(df, nc, x):
    """Return the density of the noncentral chi-squared distribution."""
    apart = np.sqrt(x) - np.sqrt(nc)
    return 0.5 * np.exp(-0.5 * apart * apart) * np.power(x / nc, 0.25 * df - 0.5) * sp.ive(0.5 * df - 1.0, np.sqrt(nc * x))


def noncentral_f(m, n, nc, f):
    """Return the density of the noncentral F distribution, by that of the central one."""
    share = m * f / (n + m * f)
    return f_density(m, n, f) * np.exp(-0.5 * nc) * sp.hyp1f1(0.5 * (m + n), 0.5 * m, 0.5 * nc * share)


def binomial(k, n, p):
    """Return the derivative of the binomial distribution function by the probability."""
    k = np.floor(k)
    return -beta_density(k + 1.0, n - k, p)


def kolmogorov_slope(x):
    """Return minus the density: one theta series for large numbers, the other for small ones (Marsaglia, Tsang & Wang 2003)."""
    small = np.less(x, 1.0)
    large, x = np.where(small, 1.0, x), np.where(small, x, 1.0)
    above = sum((-1.0) ** k * 8.0 * k * k * large * np.exp(-2.0 * k * k * large * large) for k in range(1, 6))
    below = 0.0
    for k in range(1, 6):
        a = (2 * k - 1) ** 2 * math.pi**2 / 8.0 / (x * x)
        below = below + ROOT_2PI / (x * x) * np.exp(-a) * (1.0 - 2.0 * a)
    return np.where(small, below, above)


def voigt(x, sigma, gamma):
    """Return the derivative of the Faddeeva function that the profile is made of, its argument, and the scale of it."""
    z = (x + 1j * gamma) / (ROOT_2 * sigma)
    return wofz_partial(sp.wofz(z), z), z, ROOT_2PI * sigma


def voigt_x(ans, x, sigma, gamma):
    slope, _, scale = voigt(x, sigma, gamma)
    return np.real(slope) / (ROOT_2 * sigma * scale)


def voigt_sigma(ans, x, sigma, gamma):
    slope, z, scale = voigt(x, sigma, gamma)
    return -ans / sigma - np.real(slope * z) / (sigma * scale)


def voigt_gamma(ans, x, sigma, gamma):
    slope, _, scale = voigt(x, sigma, gamma)
    return -np.imag(slope) / (ROOT_2 * sigma * scale)


# fmt: off
rule("bdtr",     None, None, lambda ans, k, n, p: binomial(k, n, p))
rule("bdtrc",    None, None, lambda ans, k, n, p: -binomial(k, n, p))
rule("bdtri",    None, None, lambda ans, k, n, y: 1.0 / binomial(k, n, ans))
rule("nbdtr",    None, None, lambda ans, k, n, p: beta_density(n, np.floor(k) + 1.0, p))
rule("nbdtrc",   None, None, lambda ans, k, n, p: -beta_density(n, np.floor(k) + 1.0, p))
rule("nbdtri",   None, None, lambda ans, k, n, y: 1.0 / beta_density(n, np.floor(k) + 1.0, ans))
rule("pdtri",    None, lambda ans, k, y: -1.0 / gamma_density(np.floor(k) + 1.0, ans))
rule("gdtria",   lambda ans, p, b, x: 1.0 / (x * gamma_density(b, ans * x)), None, lambda ans, p, b, x: -ans / x)
rule("gdtrix",   lambda ans, a, b, p: -ans / a, None, lambda ans, a, b, p: 1.0 / (a * gamma_density(b, a * ans)))
rule("chndtr",   lambda ans, x, df, nc: noncentral(df, nc, x), None, lambda ans, x, df, nc: -noncentral(df + 2.0, nc, x))
rule("chndtrix", lambda ans, p, df, nc: 1.0 / noncentral(df, nc, ans), None,
                 lambda ans, p, df, nc: noncentral(df + 2.0, nc, ans) / noncentral(df, nc, ans))
rule("chndtrinc", lambda ans, x, df, p: noncentral(df, ans, x) / noncentral(df + 2.0, ans, x), None,
                  lambda ans, x, df, p: -1.0 / noncentral(df + 2.0, ans, x))
rule("ncfdtr",   None, None, None, lambda ans, m, n, nc, f: noncentral_f(m, n, nc, f))
rule("ncfdtri",  None, None, None, lambda ans, m, n, nc, p: 1.0 / noncentral_f(m, n, nc, ans))
rule("nrdtrimn", lambda ans, p, std, x: -std / normal_pdf(sp.ndtri(p)), lambda ans, p, std, x: -sp.ndtri(p), lambda ans, p, std, x: 1.0)
rule("nrdtrisd", lambda ans, mn, p, x: -1.0 / sp.ndtri(p), lambda ans, mn, p, x: -ans / (sp.ndtri(p) * normal_pdf(sp.ndtri(p))),
                 lambda ans, mn, p, x: 1.0 / sp.ndtri(p))
rule("tklmbda",  lambda ans, x, lmbda: 1.0 / (np.power(ans, lmbda - 1.0) + np.power(1.0 - ans, lmbda - 1.0)), None, singular=True)
rule("kolmogorov", lambda ans, x: kolmogorov_slope(x))
rule("kolmogi",  lambda ans, p: 1.0 / kolmogorov_slope(ans))
rule("voigt_profile", voigt_x, voigt_sigma, voigt_gamma)
# fmt: on


# --- integrals and series -----------------------------------------------------------------------------------------------------------

I0_RISE = [0.0 if k % 2 == 0 else 0.5 ** (k + 1) / math.factorial((k + 1) // 2) ** 2 for k in range(16)]
J0_FALL = [(-1.0) ** ((k - 1) // 2) * c for k, c in enumerate(I0_RISE)]


def agm_partial(x, y, mean):
    """Return the derivative by x of the arithmetic-geometric mean, which is pi (x + y) / 4 K(m) (DLMF 19.8.5)."""
    total = x + y
    m = ((x - y) / total) ** 2
    k = sp.ellipk(m)
    return mean / total - mean / k * ellipk_partial(k, m) * 4.0 * y * (x - y) / total**3


def besselpoly_partial(ans, a, lmbda, nu):
    none = np.equal(nu, 0.0)
    return np.where(none, 0.0, nu / np.where(none, 1.0, a) * ans) - 2.0 * sp.besselpoly(a, lmbda + 1.0, nu + 1.0)


# fmt: off
several("it2i0k0",   lambda part, x: near_zero(x, I0_RISE, lambda x: (sp.i0(x) - 1.0) / x, 1.0), lambda part, x: -sp.k0(x) / x)
several("it2j0y0",   lambda part, x: near_zero(x, J0_FALL, lambda x: (1.0 - sp.j0(x)) / x, 1.0), lambda part, x: -sp.y0(x) / x)
several("itairy",    lambda part, x: sp.airy(x)[0], lambda part, x: sp.airy(x)[2],
                     lambda part, x: sp.airy(-x)[0], lambda part, x: sp.airy(-x)[2])
rule("it2struve0",   lambda ans, x: -sp.struve(0.0, x) / x)
rule("itstruve0",    lambda ans, x: sp.struve(0.0, x))
rule("itmodstruve0", lambda ans, x: sp.modstruve(0.0, x))
rule("agm",          lambda ans, x, y: agm_partial(x, y, ans), lambda ans, x, y: agm_partial(y, x, ans))
rule("besselpoly",   besselpoly_partial, None, None)
rule("wright_bessel",     None, None, lambda ans, a, b, x: sp.wright_bessel(a, a + b, x))
rule("log_wright_bessel", None, None, lambda ans, a, b, x: np.exp(sp.log_wright_bessel(a, a + b, x) - ans))
rule("elliprc",      lambda ans, x, y: -sp.elliprd(y, y, x) / 6.0, lambda ans, x, y: -sp.elliprd(x, y, y) / 3.0)        # DLMF 19.18.1
rule("eval_chebyc",  None, lambda ans, n, x: np.abs(n) * lower(sp.eval_chebyu, np.abs(n), 0.5 * x))
rule("eval_chebys",  None, lambda ans, n, x: chebyu_partial(ans, n, 0.5 * x, 1.0))
rule("eval_sh_jacobi", None, None, None, lambda ans, n, p, q, x: n * lower(sp.eval_sh_jacobi, n, x, p + 2.0, q + 1.0))
rule("lpmv",         None, None, lambda ans, m, v, x: (v * x * ans - (v + m) * sp.lpmv(m, v - 1.0, x)) / (x * x - 1.0))  # DLMF 14.10.5
# fmt: on

for name in ("modfresnelp", "modfresnelm"):
    sign = float(np.sign(getattr(sp, name)(1.0)[0].imag))  # of both the second in SciPy 1.13
    several(
        name,
        lambda part, x, sign=sign: -np.exp(1j * sign * x * x),
        lambda part, x, sign=sign: -2j * sign * x * part(1) - np.exp(-0.25j * sign * math.pi) / ROOT_PI,
    )


# --- solutions of equations of second order -----------------------------------------------------------------------------------------

RADIAN = math.pi / 180.0


def root_of_positive(x):
    return np.sqrt(np.where(np.greater(x, 0.0), x, 0.0))


several(
    "airye",
    lambda part, z: part(1) + np.sqrt(z) * part(0),
    lambda part, z: z * part(0) + np.sqrt(z) * part(1),
    lambda part, z: part(3) - root_of_positive(z) * part(2),
    lambda part, z: z * part(2) - root_of_positive(z) * part(3),
)
several(  # DLMF 10.61.3
    "kelvin",
    lambda part, x: part(2),
    lambda part, x: part(3),
    lambda part, x: 1j * part(0) - part(2) / x,
    lambda part, x: 1j * part(1) - part(3) / x,
)


def oscillating(name, at, bend, unit=1.0):
    """Enter a solution of y'' = q y that SciPy returns with y': `bend` returns q of the arguments; `unit` is that of the one at `at`."""
    several(name, lambda part, *args: unit * part(1), lambda part, *args: unit * bend(*args) * part(0), at=at)


for name in ("pbdv", "pbvv"):
    oscillating(name, 1, lambda v, x: 0.25 * x * x - v - 0.5)  # DLMF 12.2.1
oscillating("pbwa", 1, lambda a, x: a - 0.25 * x * x)
for kind, value in (("c", sp.mathieu_a), ("s", sp.mathieu_b)):  # DLMF 28.2.1 and 28.20.1, of degrees and of real numbers
    oscillating(f"mathieu_{kind}em", 2, lambda m, q, x, value=value: 2.0 * q * sp.cosdg(2.0 * x) - value(m, q), RADIAN)
    for name in (f"mathieu_mod{kind}em1", f"mathieu_mod{kind}em2"):
        oscillating(name, 2, lambda m, q, x, value=value: value(m, q) - 2.0 * q * np.cosh(2.0 * x))


def spheroidal(name, value, sign, side):
    """Enter a spheroidal function and the one that takes its characteristic value (DLMF 30.2.1).

    Prolate ones have the sign -1; radial oblate ones solve the equation of imaginary places, on the other `side` of 1.
    """

    def bend(part, m, x, c, cv):
        gap = 1.0 - side * x * x
        return (2.0 * side * x * part(1) - side * (cv + sign * side * c * c * x * x - m * m / gap) * part(0)) / gap

    several(name, lambda part, m, n, c, x: part(1), lambda part, m, n, c, x: bend(part, m, x, c, value(m, n, c)), at=3)
    several(f"{name}_cv", lambda part, m, n, c, cv, x: part(1), lambda part, m, n, c, cv, x: bend(part, m, x, c, cv), at=4)


spheroidal("pro_ang1", sp.pro_cv, -1.0, 1.0)
spheroidal("pro_rad1", sp.pro_cv, -1.0, 1.0)
spheroidal("obl_ang1", sp.obl_cv, 1.0, 1.0)
spheroidal("obl_rad1", sp.obl_cv, 1.0, -1.0)


# --- the others ---------------------------------------------------------------------------------------------------------------------

NO_FORM = """bdtrik bdtrin btdtria btdtrib chdtriv chndtridf fdtridfd gdtrib nbdtrik nbdtrin ncfdtridfd ncfdtridfn ncfdtrinc nctdtr
             nctdtridf nctdtrinc nctdtrit pdtrik smirnov smirnovi stdtridf mathieu_a mathieu_b pro_cv obl_cv zetac elliprg elliprj"""
for reason, names in {
    "it has none in closed form that keeps its digits": NO_FORM,
    "SciPy has given it up (write lpmv)": "sph_harm",
    "SciPy's own derivative of it has few digits": "pro_rad2 pro_rad2_cv obl_rad2 obl_rad2_cv",
}.items():
    fns = (getattr(sp, name, None) for name in names.split())
    refused(f"{reason}: pass plain values (dualad.primal)", *(fn for fn in fns if isinstance(fn, np.ufunc) and fn not in ROWS))

#: the functions that have got their rows here
RARE = set(ROWS) - KNOWN
trust_rows(KNOWN)
