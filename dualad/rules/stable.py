"""Parts of partials whose textbook form cancels or overflows: each is accurate, and so are its own partials.

Where an argument is only another's function that is there already (``r = hypot(x, y)``), the partials by the others are total, and
its own is 0. Plain arrays take the textbook's form where one cheap pass over its result says that it holds.
"""

import numpy as np

from .cotangents import FLOAT, is_complex
from .kinds import elementwise
from .primitives import all_finite, primitive, ratio
from .scalars import Scalar, call, wide


def none(ans, *args):
    """The partial by an argument whose share the others' partials hold."""
    return 0.0


def with_far_values(p, bound, away, x):
    """Return p, a fresh result, with ``away(x)`` where it is below the bound (higher in single precision): there it has lost digits."""
    if type(p) is float:
        return quietly(away, x) if p < bound else p
    if type(p) is np.ndarray and p.dtype is FLOAT and p.size and p.item(p.argmin()) >= bound:
        return p
    if p.dtype.kind == "c":
        return p
    far = np.less(p, bound if p.dtype == float else 10.0 * bound)
    if not p.ndim:
        return quietly(away, x) if far else p
    if far.any():
        p[far] = quietly(away, (x if np.shape(x) == p.shape else np.broadcast_to(x, p.shape))[far])
    return p


def quietly(away, x):
    with np.errstate(all="ignore"):  # an underflow says nothing about the function
        return away(x)


@primitive
def cosine(x, y, r):
    """Return x / r, where r is hypot(x, y); 0 where r is 0."""
    return ratio.plain(x, r)  # type: ignore[attr-defined]  # `primitive` adds it


@primitive
def turn(x, y):
    """Return x / (x**2 + y**2); 0 where both are 0. As a partial, it is asked where overflow is ignored."""
    r = x * x + y * y
    if type(r) is np.ndarray and r.size and r.dtype is FLOAT and r.item(r.argmin()) > 1e-280 and r.item(r.argmax()) < 1e280:
        return np.divide(x, r, r)
    with np.errstate(all="ignore"):
        r = np.hypot(x, y)
        return ratio(ratio(x, r), r)


@primitive
def one_minus_square(x):
    """Return 1 - x**2."""
    return (1.0 - x) * (1.0 + x)


def one_more(x):
    """Return 1 + x; the imaginary part keeps the sign of a zero, which says on which side of a cut x is (Kahan 1987)."""
    return -(-x - 1.0) if is_complex(x) else 1.0 + x


def root_below_one(x):
    """Return sqrt(1 - x**2)."""
    return np.sqrt(one_more(-x)) * np.sqrt(one_more(x)) if is_complex(x) else np.sqrt(one_minus_square(x))


@primitive
def root_above_one(x):
    """Return sqrt(1 + x**2)."""
    if is_complex(x):
        return np.sqrt(one_more(x * x))
    if type(x) is np.ndarray and x.dtype is FLOAT and x.size and x.item(x.argmax()) < 1e150 and x.item(x.argmin()) > -1e150:
        return np.sqrt(1.0 + x * x)
    with np.errstate(all="ignore"):
        r = np.sqrt(1.0 + x * x)
        return r if all_finite(r) else np.hypot(1.0, x)


@primitive
def sech_squared(x, t):
    """Return 1 - t**2 where t is tanh(x), as 1 / cosh(x)**2 where that cancels."""
    return with_far_values(1.0 - t * t, 0.01, sech_squared_far, x)


def tanh_partial(ans, x):
    """Return 1 / cosh(x)**2, of a small array too at hardly more than the cost of 1 - ans**2."""
    if type(ans) is np.ndarray is type(x):
        return with_far_values(1.0 - ans * ans, 0.01, sech_squared_far, x)
    return sech_squared(x, ans)


def expm1_partial(ans, x):
    """Return exp(x), of a small array too at hardly more than the cost of ans + 1."""
    if type(ans) is np.ndarray and ans.dtype is FLOAT and ans.size:
        p = ans + 1.0
        if p.item(p.argmin()) >= 0.01:
            return p
    return exp_of_expm1(x, ans)


def tanh_keeps(ans):
    """Return whether 1 - ans**2 keeps its digits."""
    return ans.dtype is FLOAT and ans.size > 0 and ans.item(ans.argmax()) <= 0.99 and ans.item(ans.argmin()) >= -0.99


def expm1_keeps(ans):
    """Return whether ans + 1 keeps its digits."""
    return ans.dtype is FLOAT and ans.size > 0 and ans.item(ans.argmin()) >= -0.99


def sech_squared_far(x):
    e = np.exp(-np.abs(x))
    s = 2.0 * e / (1.0 + e * e)
    return s * s


@primitive
def exp_of_expm1(x, e):
    """Return exp(x), where e is expm1(x)."""
    return with_far_values(e + 1.0, 0.01, np.exp, x)


def turn_first(ans, x, y):
    r = np.hypot(x, y)
    s, c = cosine(y, x, r), cosine(x, y, r)
    return ratio(ratio((s - c) * (s + c), r), r)


# fmt: off
elementwise(cosine,           lambda ans, x, y, r: ratio(np.square(cosine(y, x, r)), r),
            lambda ans, x, y, r: -ratio(ans * cosine(y, x, r), r), none, chooses=True,
            scalar=Scalar(lambda x, y, r: call("ratio", x, r), 7))
elementwise(turn,             turn_first, lambda ans, x, y: -2.0 * ans * turn(y, x), scalar=wide("turn", 2, 8))
elementwise(one_minus_square, lambda ans, x: -2.0 * x, scalar=Scalar(lambda x: (1.0 - x) * (1.0 + x), 3))
elementwise(root_above_one,   lambda ans, x: x / ans, singular=True, scalar=wide("root_above_one", 1, 10))
elementwise(sech_squared,     lambda ans, x, t: -2.0 * t * ans, none, scalar=wide("sech_squared", 2, 22))
elementwise(exp_of_expm1,     lambda ans, x, e: ans, none, scalar=wide("exp_of_expm1", 2, 18))
# fmt: on
