"""``scipy.special``: entered when SciPy's functions are first met (see `late`).

Sources: the numbered formulas of the NIST Digital Library of Mathematical Functions (DLMF). An order or a shape argument
without a closed form has no partial: differentiating by it raises. Functions without a row raise by name.
"""

import math

import numpy as np
from scipy import special as sp

from .inner import InnerLoop
from .kinds import ROWS, composite, constant, elementwise, is_complex, primitive, refused, trust_rows
from .special_parts import (
    beta_density,
    binom_first,
    binom_second,
    by_modulus,
    ellipem1,
    gamma_density,
    half_turns_of_square,
    hankel_slope,
    legendre_series,
    log_ratio,
    logistic_slope,
    near_zero,
    one_minus_ratio,
    poch_first,
    poch_second,
    power_series,
    pseudo_huber_parts,
    rgamma_slope,
    share,
    zeta_difference,
)
from .stable import cosine, exp_of_expm1

KNOWN = set(ROWS)
ROOT_PI, ROOT_2PI, ROOT_2 = math.sqrt(math.pi), math.sqrt(2.0 * math.pi), math.sqrt(2.0)
DEGREE = math.pi / 180.0


# --- how rows are entered ---------------------------------------------------------------------------------------------------


def rule(name, *partials, **options):
    """Enter an elementwise function of this name, where this version of SciPy has it and no other name entered it."""
    fn = getattr(sp._ufuncs, name, None)
    if fn is not None and fn not in ROWS:
        elementwise(fn, *partials, name=f"scipy.special.{name}", **options)


def several(name, *partials, at=0, singular=True):
    """Enter a function with several results: for each a partial ``(part, *args)`` by argument `at`, where ``part(i)`` is result i."""
    fn = getattr(sp, name, None)
    if fn is None:
        return
    parts = [part(fn, i) for i in range(len(partials))]
    for i, (one, partial) in enumerate(zip(parts, partials, strict=True)):

        def by_argument(ans, *args, partial=partial):
            return partial(lambda i: parts[i](*args), *args)

        elementwise(one, *(None,) * at, by_argument, *(None,) * (fn.nin - at - 1), singular=singular, inner=result(name, i))
    composite(fn, lambda *args: tuple(one(*args) for one in parts), name=f"scipy.special.{name}")


def result(name, i):
    """Return the `InnerLoop` of result i of a function."""
    return lambda *args: InnerLoop(f"scipy.special.{name}", args, result=i)


def part(fn, i):
    """Return the function that gives result i of another."""

    def one(*args):
        return fn(*args)[i]

    one.__name__, one.__qualname__ = f"{fn.__name__}_{i}", f"{fn.__name__}_{i}"
    return primitive(one)


# --- partials that do not fit on one line -----------------------------------------------------------------------------------


def degree(n):
    """Return the degree without sign of a Legendre polynomial: P_n = P_(-n - 1)."""
    return np.where(np.less(n, 0), -n - 1, n)


def chebyu_partial(ans, n, x, scale=2.0):
    """Return the derivative of U_n, which is -U_(-n - 2)."""
    left = np.less(n, -1)
    return np.where(left, -scale, scale) * lower(sp.eval_gegenbauer, np.where(left, -n - 2, n), x, 2.0)


def lower(polynomial, n, x, *rest):
    """Return a polynomial of degree n - 1, 0 for n = 0."""
    none = np.equal(n, 0)
    return np.where(none, 0.0, polynomial(np.where(none, 1, n) - 1, *rest, x))


def neighbours(bessel, sign, scale=0.5):
    """Make the derivative of a Bessel function from the orders above and below (DLMF 10.6.1, 10.29.1)."""
    return lambda ans, v, x: scale * (bessel(v - 1, x) + sign * bessel(v + 1, x))


def student_pdf(df, t):
    return np.exp(-0.5 * (df + 1.0) * np.log1p(t * t / df) - sp.betaln(0.5, 0.5 * df)) / np.sqrt(df)


def normal_pdf(x):
    return np.exp(-0.5 * x * x) / ROOT_2PI


def no_trigamma(x):
    raise TypeError("scipy.special.psi has no derivative by a complex argument: SciPy has no complex trigamma function")


def expn_partial(ans, n, x):
    """Return -E_{n-1}(x), and for n = 0 the derivative of exp(-x) / x (DLMF 8.19.13)."""
    none = np.equal(n, 0)
    return np.where(none, -ans * (1.0 + 1.0 / x), -sp.expn(np.where(none, 1, n) - 1, x))


EXPREL = [k / math.factorial(k + 1) for k in range(1, 16)]
INV_BOXCOX = [(-1.0) ** (k + 1) * (k + 1) / (k + 2) for k in range(9)]
SPENCE = [(-1.0) ** (k + 1) / (k + 1) for k in range(22)]


def exprel_partial(ans, x):
    """Return the derivative of (exp(x) - 1) / x."""
    return near_zero(x, EXPREL, lambda x: (np.exp(x) - sp.exprel(x)) / x)


def lambda_partial(log, lmbda):
    """Return the derivative of (exp(l * log) - 1) / l by l, which is log**2 * exprel'(l * log)."""
    return log * log * exprel_partial(sp.exprel(lmbda * log), lmbda * log)


def ratio(x, y):
    """Return x / y, and 0 for 0 / 0."""
    flat = np.logical_and(np.equal(x, 0), np.equal(y, 0))
    return np.where(flat, 0.0, x / np.where(flat, 1.0, y))


DAWSON = [math.prod(range(1, 2 * k, 2)) / 2.0**k for k in range(1, 11)]


def far_out(x, sign, near):
    """Return `near`, but its asymptotic series where it cancels: ``1 - 2 x dawsn(x)`` (sign 1), and the same of erfcx (-1)."""
    if is_complex(x):
        return near
    far = np.greater(x if sign < 0 else np.absolute(x), 20.0)
    s = sign / np.square(np.where(far, x, 20.0))
    return np.where(far, -sign * s * power_series(s, DAWSON), near)


def wofz_partial(ans, z):
    """Return 2i / sqrt(pi) - 2 z w(z) (DLMF 7.10.1), by its asymptotic series where that cancels."""
    far = np.logical_and(np.greater(np.absolute(z), 20.0), np.greater_equal(np.imag(z), 0.0))
    s = 1.0 / np.square(np.where(far, z, 20.0))
    return np.where(far, -2j / ROOT_PI * s * power_series(s, DAWSON), 2j / ROOT_PI - 2.0 * z * ans)


def log_ndtr_partial(ans, x):
    left = np.less(np.real(x), 0)
    tail = (2.0 / ROOT_2PI) / sp.erfcx(np.where(left, x, 0.0) * (-1.0 / ROOT_2))
    return np.where(left, tail, np.exp(-0.5 * x * x) / (ROOT_2PI * sp.ndtr(np.where(left, 0.0, x))))


def spence_partial(ans, z):
    """Return log(z) / (1 - z)."""
    near = np.less(np.abs(z - 1.0), 0.1)
    away = np.where(near, 2.0, z)
    return np.where(near, power_series(np.where(near, z - 1.0, 0.0), SPENCE), np.log(away) / (1.0 - away))


def inv_boxcox_slope(u):
    """Return the derivative of ``log1p(u)/u``."""
    return near_zero(u, INV_BOXCOX, lambda u: (u / (1.0 + u) - np.log1p(u)) / (u * u), 1e-2)


def ellipk_partial(ans, m):
    return by_modulus(m, m, math.pi / 8.0, 1.5, lambda m: (sp.ellipe(m) / (1.0 - m) - ans) / (2.0 * m))


def legendre_root(phi, m):
    return np.sqrt(1.0 - m * np.square(np.sin(phi)))


def small_m(phi, m):
    """Return whether the integrals of Legendre are series in m, and m there, and elsewhere."""
    near = np.less(np.abs(m) * np.where(np.less(np.abs(phi), 1.5), np.square(np.sin(phi)), 1.0), 0.1)
    return near, np.where(near, m, 0.0), np.where(near, 0.5, m)


def ellipkinc_m(ans, phi, m):
    near, small, m = small_m(phi, m)
    rest = np.sin(2.0 * phi) / (4.0 * (1.0 - m) * legendre_root(phi, m))
    return np.where(near, legendre_series(phi, small, -0.5), sp.ellipeinc(phi, m) / (2.0 * m * (1.0 - m)) - ans / (2.0 * m) - rest)


def ellipeinc_m(ans, phi, m):
    near, small, m = small_m(phi, m)
    return np.where(near, legendre_series(phi, small, 0.5), (ans - sp.ellipkinc(phi, m)) / (2.0 * m))


def struve_term(v, x):
    return np.power(0.5 * x, v) * sp.rgamma(v + 1.5) / ROOT_PI


def struve_partial(struve, sign):
    """Make the derivative of a Struve function from the orders above and below, from its own and that above near 0 (DLMF 11.4.23-26)."""

    def partial(ans, v, x):
        term, above = struve_term(v, x), sign * struve(v + 1.0, x)
        return np.where(np.less(np.abs(x), 1.0), v * ratio(ans, x) + above + term, 0.5 * (struve(v - 1.0, x) + above + term))

    return partial


def f_density(m, n, x):
    """Return the derivative of fdtr in x."""
    total = n + m * x
    right = np.greater(m * x, n)
    a, b = np.where(right, 0.5 * n, 0.5 * m), np.where(right, 0.5 * m, 0.5 * n)
    return beta_density(a, b, np.where(right, n, m * x) / total) * (m / total) * (n / total)


def pseudo_huber_delta(ans, delta, r):
    h, apart = pseudo_huber_parts(delta, r)
    return apart * ratio(apart, h)


SINE_OVER = [(-1.0) ** k / math.factorial(2 * k + 1) for k in range(11)]
BEIP = [(-1.0) ** k * (4 * k + 2) * (4 * k + 1) / (math.factorial(2 * k + 1) ** 2 * 2.0 ** (4 * k + 2)) for k in range(8)]


def beip_partial(ans, x):
    """Return ber(x) - beip(x) / x (DLMF 10.61.3), by its series near 0 (10.65.1)."""
    return near_zero(x, BEIP, lambda x: sp.ber(x) - sp.beip(x) / x, 1.0, lambda x: np.square(np.square(x)))


def scaled_i(v, x, near):
    parity = np.where(np.less(x, 0), np.cos(math.pi * v), 1.0)
    return parity * hankel_slope(v, x, near * parity, -1.0, 1.0 / ROOT_2PI)


def scaled_k(v, x, near):
    return hankel_slope(v, x, near, 1.0, math.sqrt(0.5 * math.pi))


def scaled_hankel(v, x, near, unit):
    return hankel_slope(v, x, near, unit, math.sqrt(2.0 / math.pi) * np.exp(-unit * math.pi * (0.5 * v + 0.25)))


# --- gamma and beta ---------------------------------------------------------------------------------------------------------

# fmt: off
constant(sp.gammasgn, name="scipy.special.gammasgn")
constant(sp.round, name="scipy.special.round")
rule("gamma",          lambda ans, x: ans * sp.psi(x))
rule("gammaln",        lambda ans, x: sp.psi(x))
rule("loggamma",       lambda ans, x: sp.psi(x))
rule("rgamma",         lambda ans, x: rgamma_slope(x))
rule("psi",            lambda ans, x: sp.zeta(2.0, x), complex_body=no_trigamma)                      # DLMF 25.11.12
rule("_zeta",          None, lambda ans, s, a: -s * sp.zeta(s + 1.0, a))                     # DLMF 25.11.17
rule("gammainc",       None, lambda ans, a, x: gamma_density(a, x))
rule("gammaincc",      None, lambda ans, a, x: -gamma_density(a, x))
rule("gammaincinv",    None, lambda ans, a, y: 1.0 / gamma_density(a, ans))
rule("gammainccinv",   None, lambda ans, a, y: -1.0 / gamma_density(a, ans))
rule("beta",           lambda ans, a, b: -ans * zeta_difference(1.0, a, b), lambda ans, a, b: -ans * zeta_difference(1.0, b, a))
rule("betaln",         lambda ans, a, b: -zeta_difference(1.0, a, b), lambda ans, a, b: -zeta_difference(1.0, b, a))
rule("betainc",        None, None, lambda ans, a, b, x: beta_density(a, b, x))
rule("betaincc",       None, None, lambda ans, a, b, x: -beta_density(a, b, x))
rule("betaincinv",     None, None, lambda ans, a, b, y: 1.0 / beta_density(a, b, ans))
rule("betainccinv",    None, None, lambda ans, a, b, y: -1.0 / beta_density(a, b, ans))
rule("poch",           poch_first, poch_second, singular=True)
rule("binom",          binom_first, binom_second, singular=True)

# --- errors and distributions -----------------------------------------------------------------------------------------------

rule("erf",        lambda ans, x: 2.0 / ROOT_PI * np.exp(-x * x))
rule("erfc",       lambda ans, x: -2.0 / ROOT_PI * np.exp(-x * x))
rule("erfcx",      lambda ans, x: (2.0 / ROOT_PI) * far_out(x, -1.0, ROOT_PI * x * ans - 1.0))
rule("erfi",       lambda ans, x: 2.0 / ROOT_PI * np.exp(x * x))
rule("erfinv",     lambda ans, y: 0.5 * ROOT_PI * np.exp(ans * ans), singular=True)          # erfinv'(+-1) = inf
rule("erfcinv",    lambda ans, y: -0.5 * ROOT_PI * np.exp(ans * ans), singular=True)
rule("dawsn",      lambda ans, x: far_out(x, 1.0, 1.0 - 2.0 * x * ans))
rule("wofz",       wofz_partial)
rule("ndtr",       lambda ans, x: normal_pdf(x))
rule("ndtri",      lambda ans, p: 1.0 / normal_pdf(ans), singular=True)
rule("log_ndtr",   log_ndtr_partial)
rule("ndtri_exp",  lambda ans, y: 1.0 / log_ndtr_partial(y, ans))
rule("owens_t",    lambda ans, h, a: -0.5 * normal_pdf(h) * sp.erf(a * h / math.sqrt(2.0)),
                   lambda ans, h, a: np.exp(-0.5 * h * h * (1.0 + a * a)) / (2.0 * math.pi * (1.0 + a * a)))
rule("chdtr",      None, lambda ans, v, x: 0.5 * gamma_density(0.5 * v, 0.5 * x))
rule("chdtrc",     None, lambda ans, v, x: -0.5 * gamma_density(0.5 * v, 0.5 * x))
rule("chdtri",     None, lambda ans, v, p: -2.0 / gamma_density(0.5 * v, 0.5 * ans))
rule("gdtr",       lambda ans, a, b, x: x * gamma_density(b, a * x), None, lambda ans, a, b, x: a * gamma_density(b, a * x))
rule("gdtrc",      lambda ans, a, b, x: -x * gamma_density(b, a * x), None, lambda ans, a, b, x: -a * gamma_density(b, a * x))
rule("pdtr",       None, lambda ans, k, m: -gamma_density(np.floor(k) + 1.0, m))
rule("pdtrc",      None, lambda ans, k, m: gamma_density(np.floor(k) + 1.0, m))
rule("stdtr",      None, lambda ans, df, t: student_pdf(df, t))
rule("fdtr",       None, None, lambda ans, m, n, x: f_density(m, n, x))
rule("fdtrc",      None, None, lambda ans, m, n, x: -f_density(m, n, x))
rule("fdtri",      None, None, lambda ans, m, n, p: 1.0 / f_density(m, n, ans))
rule("stdtrit",    None, lambda ans, df, p: 1.0 / student_pdf(df, ans))
several("fresnel", lambda part, x: np.sin(0.5 * math.pi * half_turns_of_square(x)),
                   lambda part, x: np.cos(0.5 * math.pi * half_turns_of_square(x)))

# --- elementary -------------------------------------------------------------------------------------------------------------

rule("expit",        lambda ans, x: logistic_slope(x, ans))
rule("log_expit",    lambda ans, x: sp.expit(-x))
rule("logit",        lambda ans, p: 1.0 / (p * (1.0 - p)), singular=True)
rule("cbrt",         lambda ans, x: 1.0 / (3.0 * ans * ans), singular=True)
rule("exp2",         lambda ans, x: math.log(2.0) * ans)
rule("exp10",        lambda ans, x: math.log(10.0) * ans)
rule("expm1",        lambda ans, x: exp_of_expm1(x, ans))
rule("log1p",        lambda ans, x: 1.0 / (1.0 + x), singular=True)
rule("cosm1",        lambda ans, x: -np.sin(x))
rule("exprel",       exprel_partial)
rule("sindg",        lambda ans, x: DEGREE * sp.cosdg(x))
rule("cosdg",        lambda ans, x: -DEGREE * sp.sindg(x))
rule("tandg",        lambda ans, x: DEGREE * (1.0 + ans * ans))
rule("cotdg",        lambda ans, x: -DEGREE * (1.0 + ans * ans))
rule("radian",       lambda ans, d, m, s: DEGREE, lambda ans, d, m, s: DEGREE / 60.0, lambda ans, d, m, s: DEGREE / 3600.0)
rule("xlogy",        lambda ans, x, y: np.log(y), lambda ans, x, y: ratio(x, y), singular=True)
rule("xlog1py",      lambda ans, x, y: np.log1p(y), lambda ans, x, y: ratio(x, 1.0 + y), singular=True)
rule("entr",         lambda ans, x: -np.log(x) - 1.0, singular=True)                         # entr'(0) = inf
rule("rel_entr",     lambda ans, x, y: log_ratio(x, y) + 1.0, lambda ans, x, y: -ratio(x, y), singular=True)
rule("kl_div",       lambda ans, x, y: log_ratio(x, y), lambda ans, x, y: one_minus_ratio(x, y), singular=True)
rule("powm1",        lambda ans, x, y: y * np.power(x, y - 1.0), lambda ans, x, y: np.power(x, y) * np.log(x), singular=True)
rule("huber",        lambda ans, delta, r: np.maximum(np.abs(r) - delta, 0.0), lambda ans, delta, r: np.clip(r, -delta, delta))
rule("pseudo_huber", pseudo_huber_delta, lambda ans, delta, r: delta * cosine(r, delta, np.hypot(delta, r)))
rule("boxcox",       lambda ans, x, lmbda: np.power(x, lmbda - 1.0), lambda ans, x, lmbda: lambda_partial(np.log(x), lmbda))
rule("boxcox1p",     lambda ans, x, lmbda: np.power(1.0 + x, lmbda - 1.0),
                     lambda ans, x, lmbda: lambda_partial(np.log1p(x), lmbda))
rule("inv_boxcox",   lambda ans, y, lmbda: ans / (1.0 + lmbda * y),
                     lambda ans, y, lmbda: ans * y * y * inv_boxcox_slope(lmbda * y))
rule("inv_boxcox1p", lambda ans, y, lmbda: (ans + 1.0) / (1.0 + lmbda * y),
                     lambda ans, y, lmbda: (ans + 1.0) * y * y * inv_boxcox_slope(lmbda * y))
rule("_lambertw",    lambda ans, z, k, tol: np.exp(-ans) / (1.0 + ans), None, None)          # DLMF 4.13.4
rule("wrightomega",  lambda ans, z: share(ans))

# --- integrals --------------------------------------------------------------------------------------------------------------

rule("exp1",   lambda ans, x: -np.exp(-x) / x)
rule("expi",   lambda ans, x: np.exp(x) / x)
rule("expn",   None, expn_partial)
rule("spence", spence_partial, singular=True)  # spence'(0) = -inf
several("sici",   lambda part, x: near_zero(x, SINE_OVER, lambda x: np.sin(x) / x, 1.0, np.square), lambda part, x: np.cos(x) / x)
several("shichi", lambda part, x: near_zero(x, np.abs(SINE_OVER).tolist(), lambda x: np.sinh(x) / x, 1.0, np.square),
                  lambda part, x: np.cosh(x) / x)

# --- Bessel functions (DLMF 10) ---------------------------------------------------------------------------------------------

for name, sign in (("jv", -1.0), ("yv", -1.0), ("hankel1", -1.0), ("hankel2", -1.0), ("iv", 1.0), ("yn", -1.0)):
    rule(name, None, neighbours(getattr(sp, name), sign))
rule("kv",  None, neighbours(sp.kv, 1.0, -0.5))
rule("kn",  None, lambda ans, n, x: -sp.kn(n - 1, x) - np.where(np.equal(n, 0), 0.0, n / x * ans), singular=True)  # DLMF 10.29.2
rule("ive", None, lambda ans, v, x: scaled_i(v, x, 0.5 * (sp.ive(v - 1, x) + sp.ive(v + 1, x)) - np.sign(x) * ans),
     complex_body=lambda v, z: sp.iv(v, z) * np.exp(-np.abs(np.real(z))))                     # not holomorphic
rule("jve", None, neighbours(sp.jve, -1.0), complex_body=lambda v, z: sp.jv(v, z) * np.exp(-np.abs(np.imag(z))))
rule("yve", None, neighbours(sp.yve, -1.0), complex_body=lambda v, z: sp.yv(v, z) * np.exp(-np.abs(np.imag(z))))
rule("kve", None, lambda ans, v, x: scaled_k(v, x, ans - 0.5 * (sp.kve(v - 1, x) + sp.kve(v + 1, x))))
rule("hankel1e", None, lambda ans, v, x: scaled_hankel(v, x, 0.5 * (sp.hankel1e(v - 1, x) - sp.hankel1e(v + 1, x)) - 1j * ans, 1j))
rule("hankel2e", None, lambda ans, v, x: scaled_hankel(v, x, 0.5 * (sp.hankel2e(v - 1, x) - sp.hankel2e(v + 1, x)) + 1j * ans, -1j))
rule("j0",  lambda ans, x: -sp.j1(x))
rule("j1",  lambda ans, x: 0.5 * (sp.j0(x) - sp.jv(2, x)))
rule("y0",  lambda ans, x: -sp.y1(x))
rule("y1",  lambda ans, x: sp.y0(x) - ans / x, singular=True)
rule("i0",  lambda ans, x: sp.i1(x))
rule("i1",  lambda ans, x: 0.5 * (sp.i0(x) + sp.iv(2, x)))
rule("k0",  lambda ans, x: -sp.k1(x))
rule("k1",  lambda ans, x: -sp.k0(x) - ans / x, singular=True)
rule("i0e", lambda ans, x: scaled_i(0.0, x, sp.i1e(x) - np.sign(x) * ans))
rule("i1e", lambda ans, x: scaled_i(1.0, x, 0.5 * (sp.i0e(x) + sp.ive(2, x)) - np.sign(x) * ans))
rule("k0e", lambda ans, x: scaled_k(0.0, x, ans - sp.k1e(x)), singular=True)
rule("k1e", lambda ans, x: scaled_k(1.0, x, ans - 0.5 * (sp.k0e(x) + sp.kve(2, x))))
rule("struve",    None, struve_partial(sp.struve, -1.0), singular=True)
rule("modstruve", None, struve_partial(sp.modstruve, 1.0), singular=True)
for plain, slope in (("ber", "berp"), ("bei", "beip"), ("ker", "kerp"), ("kei", "keip")):
    rule(plain, lambda ans, x, slope=slope: getattr(sp, slope)(x))
rule("berp", lambda ans, x: -sp.bei(x) - ans / x)                                            # DLMF 10.61.3
rule("beip", beip_partial)
rule("kerp", lambda ans, x: -sp.kei(x) - ans / x)
rule("keip", lambda ans, x: sp.ker(x) - ans / x)
several("airy", lambda part, x: part(1), lambda part, x: x * part(0), lambda part, x: part(3), lambda part, x: x * part(2))
several("itj0y0", lambda part, x: sp.j0(x), lambda part, x: sp.y0(x))
several("iti0k0", lambda part, x: sp.i0(x), lambda part, x: sp.k0(x))

# --- elliptic and hypergeometric ----------------------------------------------------------------------------------------------

rule("ellipk",    ellipk_partial)
rule("ellipe",    lambda ans, m: by_modulus(m, m, -math.pi / 8.0, 0.5, lambda m: (ans - sp.ellipk(m)) / (2.0 * m)),
                  singular=True)  # ellipe'(1) = -inf
rule("ellipkm1",  lambda ans, p: by_modulus(p, 1.0 - p, -math.pi / 8.0, 1.5, lambda p: (ans - ellipem1(p) / p) / (2.0 * (1.0 - p))),
                  singular=True)
rule("ellipkinc", lambda ans, phi, m: 1.0 / legendre_root(phi, m), ellipkinc_m, singular=True)               # DLMF 19.4.5
rule("ellipeinc", lambda ans, phi, m: legendre_root(phi, m), ellipeinc_m, singular=True)
several("ellipj", lambda part, u, m: part(1) * part(2), lambda part, u, m: -part(0) * part(2),               # DLMF 22.13
                  lambda part, u, m: -m * part(0) * part(1), lambda part, u, m: part(2), singular=False)
rule("elliprf",   *(lambda ans, *x, i=i: -sp.elliprd(x[i - 2], x[i - 1], x[i]) / 6.0 for i in range(3)))       # DLMF 19.18.1
refused("its derivative (R_D(x, y, z) - R_D(y, z, x)) / (2 x - 2 z) cancels where x is near z; so elliprf has its first derivative alone",
        sp.elliprd)
rule("hyp0f1",    None, lambda ans, b, z: sp.hyp0f1(b + 1.0, z) / b)
rule("hyp1f1",    None, None, lambda ans, a, b, x: a / b * sp.hyp1f1(a + 1.0, b + 1.0, x))                      # DLMF 13.3.15
rule("hyp2f1",    None, None, None, lambda ans, a, b, c, z: a * b / c * sp.hyp2f1(a + 1.0, b + 1.0, c + 1.0, z))  # DLMF 15.5.1
rule("hyperu",    None, None, lambda ans, a, b, x: -a * sp.hyperu(a + 1.0, b + 1.0, x))                         # DLMF 13.3.22

# --- orthogonal polynomials (DLMF 18.9) ---------------------------------------------------------------------------------------

rule("eval_jacobi",      None, None, None,
                         lambda ans, n, a, b, x: 0.5 * (n + a + b + 1.0) * lower(sp.eval_jacobi, n, x, a + 1.0, b + 1.0))
rule("eval_gegenbauer",  None, None, lambda ans, n, a, x: 2.0 * a * lower(sp.eval_gegenbauer, n, x, a + 1.0))
rule("eval_legendre",    None, lambda ans, n, x: lower(sp.eval_gegenbauer, degree(n), x, 1.5))
rule("eval_chebyt",      None, lambda ans, n, x: np.abs(n) * lower(sp.eval_chebyu, np.abs(n), x))
rule("eval_chebyu",      None, chebyu_partial)
rule("eval_sh_legendre", None, lambda ans, n, x: 2.0 * lower(sp.eval_gegenbauer, degree(n), 2.0 * x - 1.0, 1.5))
rule("eval_sh_chebyt",   None, lambda ans, n, x: 2.0 * np.abs(n) * lower(sp.eval_chebyu, np.abs(n), 2.0 * x - 1.0))
rule("eval_sh_chebyu",   None, lambda ans, n, x: chebyu_partial(ans, n, 2.0 * x - 1.0, 4.0))
rule("eval_hermite",     None, lambda ans, n, x: 2.0 * n * lower(sp.eval_hermite, n, x))
rule("eval_hermitenorm", None, lambda ans, n, x: n * lower(sp.eval_hermitenorm, n, x))
rule("eval_laguerre",    None, lambda ans, n, x: -lower(sp.eval_genlaguerre, n, x, 1.0))
rule("eval_genlaguerre", None, None, lambda ans, n, a, x: -lower(sp.eval_genlaguerre, n, x, a + 1.0))
# fmt: on

trust_rows(KNOWN)
