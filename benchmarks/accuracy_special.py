"""The published grid of `accuracy`: ``scipy.special``."""

from __future__ import annotations

from mpmath import mp, mpf

from .accuracy_grid import HUGE, LINE, POSITIVE, TINY, UNIT, both, each, enter, held

# --- special functions ------------------------------------------------------------------------------------------------------


def special(names, exact, points, **options):
    for name in names.split():
        enter("special functions", name, exact, points, **options)


def tails(names, lower, upper, points, slope, **options):
    """Enter a distribution and its complement, of which `slope` and its negative are the slopes."""
    below, above = names.split()
    special(below, lower, points, slope=slope, **options)
    special(above, upper, points, slope=lambda *args: -slope(*args), **options)


def normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def student(df, t):
    tail = mp.betainc(df / 2, mpf(1) / 2, 0, df / (df + t * t), regularized=True) / 2
    return 1 - tail if t > 0 else tail


def lower_gamma(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def upper_gamma(a, x):
    return mp.gammainc(a, x, mp.inf, regularized=True)


def lower_beta(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def upper_beta(a, b, x):
    return mp.betainc(b, a, 0, 1 - x, regularized=True)


def fisher(m, n, x):
    return lower_beta(m / 2, n / 2, m * x / (n + m * x))


def gamma_density(a, x):
    return mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))


def beta_density(a, b, x):
    return x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b)


def student_density(df, t):
    return (1 + t * t / df) ** (-(df + 1) / 2) / (mp.sqrt(df) * mp.beta(mpf(1) / 2, df / 2))


def fisher_density(m, n, x):
    return beta_density(m / 2, n / 2, m * x / (n + m * x)) * m * n / (n + m * x) ** 2


def macdonald(v, x):
    """The Bessel function K by the trapezoidal rule (DLMF 10.32.9): much faster than mpmath's, at integer orders."""
    if x < 1e-9 or x > 200:
        return mp.besselk(v, x)
    with mp.extraprec(20):
        step = mpf(1) / (mp.prec // 10)
        total, power, ratio = mp.exp(-x) / 2, mpf(1), mp.exp(step)
        while True:
            power *= ratio
            term = mp.exp(-x * (power + 1 / power) / 2) * (power**v + power**-v) / 2
            total += term
            if term < total * mp.eps:
                return total * step


def struve_pair(x, bessel, sign=1):
    """The integral from 0 to x of a Bessel function of order 0 (DLMF 10.22.2)."""
    return x * bessel(0, x) + mp.pi * x / 2 * (bessel(1, x) * mp.struveh(0, x) - bessel(0, x) * mp.struveh(1, x))


def amplitude(u, m):
    return mp.atan2(mp.ellipfun("sn", u, m=m), mp.ellipfun("cn", u, m=m))


def power_minus_one(x, power):
    return mp.expm1(power * mp.log(x)) / power if power else mp.log(x)


GAMMAS = [*both([0.1, 0.3, 0.9, 1.7, 4.2, 9.5, 20.5]), *TINY, -1e-8, 1.0, 1.461, 2.0, 3.0, 40.0, 150.0]
special("gamma", mp.gamma, GAMMAS)
special("rgamma", mp.rgamma, [*GAMMAS, 0.0, -1.0, -3.0, -20.0])
special("gammaln loggamma", lambda x: mp.re(mp.loggamma(x)), [x for x in [*GAMMAS, *HUGE, 1e30, 1e200] if x > 0])
special("gammaln", lambda x: mp.re(mp.loggamma(x)), [x for x in GAMMAS if x < 0])
special("psi", mp.digamma, [*GAMMAS, *HUGE, 1e30, 1e200])
special("zeta", mp.zeta, each([(1.1,), (2.3,), (20.0,)], [1e-8, 0.3, 1.7, 40.0, 1e4, 1e8]))
SHAPES = held([0.3, 1.0, 2.5, 40.0, 1e4])
special(
    "gammainc",
    lower_gamma,
    [*each(SHAPES[:4], [1e-200, 1e-8, 0.3, 1.7, 9.5, 40.0]), ((1e4,), 9950.0), ((1e4,), 1e4), ((1e8,), 1e8)],
    slope=gamma_density,
)
special(
    "gammaincc",
    upper_gamma,
    [*each(SHAPES[:4], [1e-8, 0.3, 1.7, 9.5, 40.0, 100.0]), ((1e4,), 1e4), ((1e4,), 10100.0), ((1e8,), 1e8)],
    slope=lambda a, x: -gamma_density(a, x),
)
QUANTILES = each(SHAPES[:4], [1e-30, 1e-8, 0.1, 0.5, 0.9, 0.999])
tails("gammaincinv gammainccinv", lower_gamma, upper_gamma, QUANTILES, gamma_density, inverse=True)
BETAS = [
    (1e-8, 0.3), (0.3, 1.7), (1.7, 4.2), (20.0, 0.9), (4.2, 300.0), (300.0, 1e4), (1e4, 0.3), (0.3, 1e8), (1e8, 1.7), (1e15, 2.5),
    (1e4, 1e4), (1e8, 1e8),
]  # fmt: skip
special("beta", mp.beta, BETAS)
special("betaln", lambda a, b: mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b), BETAS)
SHAPE_PAIRS = [(0.3, 1.7), (2.0, 2.0), (4.2, 0.9), (40.0, 20.0), (1e4, 5e3), (1e4, 0.5)]
PLACES = [1e-30, 1e-8, 0.1, 0.5, 0.66, 0.9, 1 - 1e-8]
POINTS = [((a,), (b,), x) for (a, b), x in each(SHAPE_PAIRS, PLACES)]
tails("betainc betaincc", lower_beta, upper_beta, POINTS, beta_density)
QUANTILES = [((a,), (b,), y) for (a, b), y in each(SHAPE_PAIRS[:4], [1e-30, 1e-8, 0.1, 0.5, 0.9])]
tails("betaincinv betainccinv", lower_beta, upper_beta, QUANTILES, beta_density, inverse=True)
special(
    "poch",
    lambda z, m: mp.gamma(z + m) / mp.gamma(z),
    [
        *each([0.3, 1.7, 4.2, 20.0], [-0.2, 1e-8, 0.5, 1.0, 3.0, 9.5]),
        (1e8, 0.3),
        (1e8, 2.0),
        (1e15, 1.5),
        (-2.5, 1.3),
        (-2.5, 4.0),
        (1e4, -3.0),
    ],
)
special("poch", mp.rf, [(-3.0, (2.0,)), (-3.0, (5.0,)), (0.0, (3.0,)), (-1.0, (1.0,)), (1e8, (1.0,)), (0.0, (1.0,))])
special(
    "binom",
    lambda n, k: mp.gamma(n + 1) / mp.gamma(k + 1) / mp.gamma(n - k + 1),
    [
        *each([4.2, 9.5, 40.0], [0.3, 1.0, 2.0, 3.7]),
        (1e8, 0.3),
        (1e8, 2.0),
        (1e15, 1.5),
        (1e8, 1e8 - 3),
        (0.3, 1.7),
        (0.3, 20.0),
        (1e4, 5e3 + 1),
    ],
)
special("binom", mp.binomial, [(5.0, (2.0,)), (5.0, (7.0,)), (-2.0, (3.0,)), (-1.0, (2.0,)), (0.0, (1.0,)), (3.0, (3.0,)), (0.0, (0.0,))])
special("erf", mp.erf, [x for x in LINE if abs(x) < 30])
special("erfc", mp.erfc, [x for x in LINE if abs(x) < 30])
special("erfcx", lambda x: mp.exp(x * x) * mp.erfc(x), [x for x in [*LINE, 2.0, 6.0, 15.0] if -25 < x < 1e9])
special("erfi", mp.erfi, [x for x in LINE if abs(x) < 25])
special("dawsn", lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), [x for x in [*LINE, 2.0, 6.0, 15.0, 25.0] if abs(x) < 1e30])
special("wofz", lambda x: mp.exp(-x * x) * mp.erfc(-1j * x), [0.0, 0.3, -1.7, 4.2, 6.0, 9.5, 20.0, -40.0, 300.0, 1e4, 1e-8, 1e8])
special("erfinv", mp.erf, [0.0, *both([1e-300, 1e-200, 1e-8, 0.1, 0.3, 0.6, 0.9, 0.999, 1 - 1e-8])], inverse=True)
special("erfcinv", mp.erfc, [1e-200, 1e-30, 1e-8, 0.1, 0.5, 0.9, 1.1, 1.7, 1.999], inverse=True)
special("ndtr", normal, [x for x in LINE if abs(x) < 38])
special("ndtri", normal, [1e-200, 1e-30, 1e-8, 0.1, 0.3, 0.6, 0.9, 0.999], inverse=True)
special("log_ndtr", lambda x: mp.log(normal(x)), [x for x in LINE if -1e30 < x < 38])
special("ndtri_exp", lambda x: mp.log(normal(x)), [-1e8, -1e4, -300.0, -40.0, -4.2, -1.7, -0.3, -0.1, -1e-3, -1e-8], inverse=True)
special(
    "owens_t",
    lambda h, a: mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mp.pi),
    [(0.3, 1.7), (-1.7, 0.3), (4.2, -0.9), (1e-8, 2.5), (9.5, 0.1), (2.0, 1e-8)],
)
FREE = held([1.0, 2.5, 9.0, 40.0, 1e4])
POINTS = [*each(FREE[:4], [1e-8, 0.3, 4.2, 40.0]), ((1e4,), 9900.0)]
chi_square = lambda v, x: gamma_density(v / 2, x / 2) / 2
tails("chdtr chdtrc", lambda v, x: lower_gamma(v / 2, x / 2), lambda v, x: upper_gamma(v / 2, x / 2), POINTS, chi_square)
special(
    "chdtri",
    lambda v, x: upper_gamma(v / 2, x / 2),
    each(FREE[:4], [1e-30, 1e-8, 0.1, 0.5, 0.9]),
    inverse=True,
    slope=lambda v, x: -gamma_density(v / 2, x / 2) / 2,
)
POINTS = [(0.3, (1.7,), 2.5), (1.7, (40.0,), 20.0), (1e-8, (0.3,), 1e8), (1e-200, (2.0,), 1e200), (2.0, (1e4,), 5e3)]
special("gdtr", lambda a, b, x: lower_gamma(b, a * x), POINTS)
special("gdtrc", lambda a, b, x: upper_gamma(b, a * x), POINTS)
COUNTS = [0, 1, 5, 40]
POINTS = [*each(COUNTS, [1e-8, 0.3, 4.2, 40.0]), (10000, 9900.0)]
poisson = lambda k, m: -gamma_density(k + 1, m)
tails("pdtr pdtrc", lambda k, m: upper_gamma(mpf(k) + 1, m), lambda k, m: lower_gamma(mpf(k) + 1, m), POINTS, poisson)
special("stdtr", student, each(FREE, both([1e-8, 0.3, 1.7, 9.5, 300.0])), slope=student_density)
special("stdtrit", student, each(FREE[:4], [1e-30, 1e-8, 0.1, 0.3, 0.9]), inverse=True, slope=student_density)
FISHERS = [(3.0, 4.0), (1.0, 40.0), (40.0, 0.9), (1e4, 50.0)]
POINTS = [((m,), (n,), x) for (m, n), x in each(FISHERS, [1e-8, 0.3, 1.0, 4.2, 300.0])]
tails("fdtr fdtrc", fisher, lambda m, n, x: upper_beta(m / 2, n / 2, m * x / (n + m * x)), POINTS, fisher_density)
special("fdtri", fisher, [((m,), (n,), y) for (m, n), y in each(FISHERS, [1e-8, 0.1, 0.5, 0.9])], inverse=True, slope=fisher_density)
for part, exact in enumerate((mp.fresnels, mp.fresnelc)):
    special("fresnel", exact, [0.0, *both([1e-200, 1e-8, 0.3, 1.3, 2.7, 9.6, 40.3, 300.7])], part=part)
special("expit", lambda x: 1 / (1 + mp.exp(-x)), LINE)
special("log_expit", lambda x: -mp.log1p(mp.exp(-x)), LINE)
special("logit", lambda p: mp.log(p) - mp.log1p(-p), UNIT)
special("cbrt", lambda x: mp.sign(x) * mp.cbrt(abs(x)), both([1e-200, 0.3, 1.7, 1e200]))
special("exp2", lambda x: mpf(2) ** x, [-300.0, -1.7, 1e-8, 4.2, 1000.0])
special("exp10", lambda x: mpf(10) ** x, [-300.0, -1.7, 1e-8, 4.2, 300.0])
special("expm1", mp.expm1, [-40.0, -1e-8, 0.0, 1e-200, 0.3, 300.0])
special("log1p", mp.log1p, [-0.999, -1e-8, 0.0, 1e-200, 0.3, 1e200])
special("cosm1", lambda x: -2 * mp.sin(x / 2) ** 2, [0.0, *both([1e-200, 1e-8, 0.3, 1.3, 2.7, 9.6, 1e5])])
special("exprel", lambda x: mp.expm1(x) / x if x else mpf(1), LINE)
special("sindg", lambda x: mp.sin(x * mp.pi / 180), [0.0, 1e-200, 1e-8, 0.3, 30.0, 80.0, 91.0, 200.0, 1e5])
special("cosdg", lambda x: mp.cos(x * mp.pi / 180), [0.0, 1e-200, 1e-8, 0.3, 30.0, 80.0, 91.0, 200.0, 1e5])
special("tandg", lambda x: mp.tan(x * mp.pi / 180), [0.0, 1e-200, 1e-8, 0.3, 30.0, 80.0, 91.0, 200.0, 1e5])
special("cotdg", lambda x: mp.cot(x * mp.pi / 180), [1e-8, 0.3, 30.0, 80.0, 91.0, 200.0, 1e5])
special("radian", lambda d, m, s: (d + m / 60 + s / 3600) * mp.pi / 180, [(0.3, 1.7, 40.0), (1e-8, 0.1, 0.9)])
QUANTITIES = [
    (0.3, 1.7), (1e-200, 3e-200), (1e200, 3e200), (1e-300, 2.0), (1e-200, 1e200), (1e200, 1e-200), (5.0, 5.0 + 1e-8), (4.2, 1e-8),
    (1e8, 1.0),
]  # fmt: skip
special("xlogy", lambda x, y: x * mp.log(y), QUANTITIES)
special("xlog1py", lambda x, y: x * mp.log1p(y), [*QUANTITIES, (1.7, -0.999), (0.3, -1e-8), (2.0, 1e-300)])
special("entr", lambda x: -x * mp.log(x), POSITIVE)
special("rel_entr", lambda x, y: x * mp.log(x / y), QUANTITIES)
special("kl_div", lambda x, y: x * mp.log(x / y) - x + y, QUANTITIES)
special("powm1", lambda x, y: mp.expm1(y * mp.log(x)), each([1e-8, 0.3, 1 - 1e-8, 1 + 1e-8, 1.7, 1e8], [-1.5, 1e-8, 0.5, 2.0]))
special("huber", lambda d, r: r * r / 2 if abs(r) <= d else d * (abs(r) - d / 2), [(1.7, 0.3), (0.3, -1.7), (1e200, 3.0), (1e-200, 3.0)])
special(
    "pseudo_huber",
    lambda d, r: d * d * (mp.sqrt(1 + (r / d) ** 2) - 1),
    [
        *each([1e-8, 0.3, 1.7, 1e4], [1e-8, -0.3, 4.2, 1e4]),
        (1e-150, 2.0),
        (1e-200, 1e-200),
        (1e200, 1.0),
        (2.0, 1e200),
        (2.0, 1e-200),
        (1e150, 1e150),
        (1e-140, -2e-140),
    ],
)
special("boxcox", power_minus_one, each([1e-8, 0.3, 1 + 1e-8, 1.7, 1e8], [-1.5, 1e-8, 0.5, 2.0]))
special("boxcox1p", lambda x, power: power_minus_one(1 + x, power), each([-0.9, 1e-200, 1e-8, 1.7, 1e8], [-1.5, 1e-8, 0.5, 2.0]))
special("inv_boxcox", lambda y, power: mp.exp(mp.log1p(power * y) / power), each([-0.3, 1e-8, 1.7, 20.0], [1e-8, 1e-3, 0.013, 0.5, 2.0]))
special(
    "inv_boxcox1p",
    lambda y, power: mp.expm1(mp.log1p(power * y) / power),
    each([-0.3, 1e-200, 1e-8, 1.7, 20.0], [1e-8, 1e-3, 0.013, 0.5, 2.0]),
)
special("lambertw", mp.lambertw, [-0.36, -0.3, -1e-8, 1e-200, 1e-8, 0.3, 1.7, 20.0, 1e8, 1e200])
special("lambertw", lambda x, k: mp.lambertw(x, int(k)), [(-0.3, -1), (-0.01, -1), (-1e-8, -1), (-1e-200, -1)])
special("wrightomega", lambda x: mp.lambertw(mp.exp(x)), [-300.0, -40.0, -1.7, 0.0, 1e-8, 0.3, 4.2, 40.0, 300.0, 1e4, 1e8])
special("exp1", mp.e1, [1e-300, 1e-8, 0.1, 0.3, 1.7, 4.2, 20.0, 40.0, 300.0, 700.0])
special("expi", mp.ei, both([1e-300, 1e-8, 0.1, 0.3, 1.7, 4.2, 20.0, 40.0, 300.0, 700.0]))
special("expn", mp.expint, each([0, 1, 2, 5, 40], [1e-8, 0.3, 1.7, 9.5, 40.0, 300.0]))
special(
    "spence",
    lambda z: mp.re(mp.polylog(2, 1 - z)),
    [1e-300, 1e-17, 1e-8, 0.1, 0.5, 0.9, 0.95, 1 - 1e-8, 1.0, 1 + 1e-8, 1.05, 1.11, 1.7, 4.2, 20.0, 300.0, 1e8],
)
for part, (circular, hyperbolic) in enumerate(((mp.si, mp.shi), (mp.ci, mp.chi))):
    special("sici", circular, [1e-200, 1e-8, 0.1, 0.3, 1.7, 4.2, 9.5, 40.0, 300.0, 1e5], part=part)
    special("shichi", hyperbolic, [1e-200, 1e-8, 0.1, 0.3, 1.7, 4.2, 9.5, 40.0, 300.0, 700.0], part=part)

ORDERS = held([0.0, 1.0, 4.3, 20.0])
ARGUMENTS = [1e-8, 0.1, 1.7, 9.5, 40.0, 300.0, 1e4]
special("jv", mp.besselj, each(ORDERS, ARGUMENTS))
special("yv", mp.bessely, each(ORDERS, ARGUMENTS))
special("iv", mp.besseli, each(ORDERS, ARGUMENTS[:-1]))
special("kv", macdonald, each(ORDERS, ARGUMENTS[:-1]))
special("yn", mp.bessely, each([0, 1, 7], ARGUMENTS))
special("kn", macdonald, each([0, 1, 7], ARGUMENTS[:-1]))
special("jve", mp.besselj, each(ORDERS, ARGUMENTS))
special("yve", mp.bessely, each(ORDERS, ARGUMENTS))
special("ive", lambda v, x: mp.besseli(v, x) * mp.exp(-abs(x)), each(ORDERS, [*ARGUMENTS, 1e6]))
special("kve", lambda v, x: macdonald(v, x) * mp.exp(x), each(ORDERS, [*ARGUMENTS, 1e6]))
special("hankel1", mp.hankel1, each(ORDERS, ARGUMENTS[1:]))
special("hankel2", mp.hankel2, each(ORDERS, ARGUMENTS[1:]))
special("hankel1e", lambda v, x: mp.hankel1(v, x) * mp.exp(-1j * x), each(ORDERS, [*ARGUMENTS[1:], 1e6]))
special("hankel2e", lambda v, x: mp.hankel2(v, x) * mp.exp(1j * x), each(ORDERS, [*ARGUMENTS[1:], 1e6]))
for v in (0, 1):
    special(f"j{v}", lambda x, v=v: mp.besselj(v, x), [0.0, -1.7, *ARGUMENTS])
    special(f"y{v}", lambda x, v=v: mp.bessely(v, x), ARGUMENTS)
    special(f"i{v}", lambda x, v=v: mp.besseli(v, x), [0.0, -1.7, *ARGUMENTS[:-1], 700.0])
    special(f"k{v}", lambda x, v=v: macdonald(v, x), [*ARGUMENTS[:-1], 700.0])
    special(f"i{v}e", lambda x, v=v: mp.besseli(v, x) * mp.exp(-abs(x)), [-1.7, -300.0, *ARGUMENTS, 1e6, 1e8, 1e15])
    special(f"k{v}e", lambda x, v=v: macdonald(v, x) * mp.exp(x), [*ARGUMENTS, 1e6, 1e8, 1e15])
special("struve", mp.struveh, each(held([-0.3, 0.0, 1.0, 2.5]), [1e-8, 0.3, 1.7, 4.2, 9.5, 40.0]))
special("modstruve", mp.struvel, each(held([-0.3, 0.0, 1.0, 2.5]), [1e-8, 0.3, 1.7, 4.2, 9.5, 40.0]))
KELVIN = [1e-8, 1e-3, 0.3, 1.7, 4.2, 9.5, 20.0]
for name in ("ber", "bei", "ker", "kei"):
    special(name, lambda x, name=name: getattr(mp, name)(0, x), KELVIN)
    special(f"{name}p", lambda x, name=name: getattr(mp, name)(0, x), KELVIN, shift=1)
for part, exact in enumerate((mp.airyai, lambda x: mp.airyai(x, derivative=1), mp.airybi, lambda x: mp.airybi(x, derivative=1))):
    special("airy", exact, [0.0, *both([1e-8, 0.3, 1.7, 4.2, 9.5, 20.0])], part=part)
special("itj0y0", lambda x: struve_pair(x, mp.besselj), [1e-8, 0.3, 1.7, 4.2, 9.5, 40.0], part=0)
special("itj0y0", lambda x: struve_pair(x, mp.bessely), [1e-8, 0.3, 1.7, 4.2, 9.5, 40.0], part=1)
special("iti0k0", lambda x: x * mp.hyp1f2(0.5, 1, 1.5, x * x / 4), [1e-8, 0.3, 1.7, 4.2, 9.5, 40.0], part=0)
special(
    "iti0k0",
    lambda x: mp.pi * x / 2 * (macdonald(0, x) * mp.struvel(-1, x) + macdonald(1, x) * mp.struvel(0, x)),
    [1e-8, 0.3, 1.7, 4.2, 9.5, 40.0],
    part=1,
)

MODULI = [0.0, *both([1e-200, 1e-8, 1e-3, 0.009, 0.011, 0.24, 0.26, 0.5, 0.9, 0.999]), 1 - 1e-8, -3.0, -100.0, -1e8]
special("ellipk", mp.ellipk, MODULI)
special("ellipe", mp.ellipe, MODULI)
special("ellipkm1", lambda p: mp.ellipk(1 - p), [1e-300, 1e-200, 1e-15, 1e-8, 1e-3, 0.1, 0.5, 0.7, 0.8, 0.99, 1.0, 1 + 1e-8, 1.2, 3.0, 1e8])
AMPLITUDES = [1e-8, 0.1, 0.8, 1.5, -0.8, 4.0]
special("ellipkinc", mp.ellipf, each(AMPLITUDES, [0.0, 1e-8, 1e-4, -1e-4, 9e-3, 0.011, 0.3, 0.5, 0.9, -0.5, -3.0, -100.0]))
special("ellipeinc", mp.ellipe, each(AMPLITUDES, [0.0, 1e-8, 1e-4, -1e-4, 9e-3, 0.011, 0.3, 0.5, 0.9, -0.5, -3.0, -100.0]))
JACOBI = each([1e-8, 0.1, 0.8, 1.5, -0.8], held([1e-8, 0.3, 0.9]))
for part, exact in enumerate((*(lambda u, m, kind=kind: mp.ellipfun(kind, u, m=m) for kind in ("sn", "cn", "dn")), amplitude)):
    special("ellipj", exact, JACOBI, part=part)
special(
    "elliprf",
    mp.elliprf,
    [(0.3, 1.7, 2.5), (1.0, 1.0, 1.0), (1.0, 1.0 + 1e-8, 1.0), (1e-8, 0.3, 40.0), (1e-100, 2e-100, 3e-100), (1e100, 2e100, 1.0)],
)
special("hyp0f1", mp.hyp0f1, each(held([0.5, 2.5, 20.0]), both([1e-8, 0.3, 1.7, 9.5, 40.0])))
special("hyp1f1", mp.hyp1f1, each(held([0.7, -2.0, 5.5]), held([1.9, 4.0]), both([1e-8, 0.3, 1.7, 9.5, 40.0])))
special("hyp2f1", mp.hyp2f1, each(held([0.7, -2.0, 3.5]), held([1.2]), held([2.1, 5.0]), [-40.0, -1.7, -0.3, 1e-8, 0.3, 0.7, 0.95]))
special("hyperu", mp.hyperu, each(held([0.7, 2.0]), held([1.9, 2.5]), [1e-3, 0.3, 1.7, 9.5, 40.0]))

DEGREES = [0, 1, 2, 5, 20]
CHORD = [0.0, *both([1e-200, 1e-8, 0.3, 0.77, 0.999, 1.0, 1.5])]
UNITS = [0.0, 1e-8, 0.2, 0.6, 0.93, 1.0, 1.5]
WEIGHT = [(0.8,)]
special("eval_jacobi", mp.jacobi, each(DEGREES, WEIGHT, [(0.3,)], CHORD))
special("eval_gegenbauer", mp.gegenbauer, each(DEGREES, WEIGHT, CHORD))
special("eval_legendre", lambda n, x: mp.legendre(n if n >= 0 else -n - 1, x), each([*DEGREES, -1, -2, -5], CHORD))
special("eval_chebyt", lambda n, x: mp.chebyt(abs(n), x), each([*DEGREES, -1, -2, -5], CHORD))
special(
    "eval_chebyu",
    lambda n, x: mp.chebyu(n, x) if n >= 0 else -mp.chebyu(-n - 2, x) if n < -1 else mpf(0),
    each([*DEGREES, -1, -2, -5], CHORD),
)
special("eval_sh_legendre", lambda n, x: mp.legendre(n, 2 * x - 1), each(DEGREES, UNITS))
special("eval_sh_chebyt", lambda n, x: mp.chebyt(n, 2 * x - 1), each(DEGREES, UNITS))
special("eval_sh_chebyu", lambda n, x: mp.chebyu(n, 2 * x - 1), each(DEGREES, UNITS))
special("eval_hermite", mp.hermite, each(DEGREES, [*CHORD, 10.0]))
special("eval_hermitenorm", lambda n, x: mp.hermite(n, x / mp.sqrt(2)) / mp.sqrt(2) ** n, each(DEGREES, [*CHORD, 10.0]))
special("eval_laguerre", lambda n, x: mp.laguerre(n, 0, x), each(DEGREES, [*CHORD, 10.0]))
special("eval_genlaguerre", mp.laguerre, each(DEGREES, WEIGHT, [*CHORD, 10.0]))
