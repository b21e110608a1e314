"""Elementwise functions as plain functions of values: what stands in the loop for each of them (`scalar=` of its row).

Those of the rows of this package are entered here, when the loops are first imported.
"""

from __future__ import annotations

import math

from ..ir.nodes import Var
from ..ir.values import call, choose, common, wrapped
from ..support.forks import cached_property
from .constants import stopped
from .indexing import cast, discretize, number, stated
from .kinds import ROWS, strong_multiply
from .names import np
from .primitives import ratio
from .shapes import clamp, select
from .stable import cosine, exp_of_expm1, one_minus_square, root_above_one, sech_squared, turn
from .ufuncs import fmax_share, fraction, integral_part, larger_share, softmax_share

__all__ = ["IMAGINARY", "MULTIPLY_ADD", "REAL_PART", "Scalar", "itself", "named"]


class Scalar:
    """The expression of an elementwise function.

    Parameters
    ----------
    function : the plain function of values (`dualad.ir.values`), or of numbers.
    cost : about how many additions it takes in a vectorised loop.
    kinds : letters of the dtypes it holds for: f(loat), i(nteger), u(nsigned), b(oolean), c(omplex).
    wide : computed in double precision also of single precision.
    booleans : the function of booleans, if another.
    name : of the kernel that it calls, if it is nothing else.
    count : how many arguments it takes.
    """

    def __init__(self, function, cost=1, kinds="f", wide=False, booleans=None, name="", count=None):
        self.function, self.cost, self.kinds, self.wide, self.booleans, self.name = function, cost, kinds, wide, booleans, name
        self.count = function.__code__.co_argcount if count is None else count

    @property
    def family(self):
        """The name of the functions in `kernels` that share most of their work with this one; None of most functions."""
        return FAMILIES.get(self.name)

    @property
    def of_angle(self):
        """Whether it is a function of an angle, which may be too large for `kernels`, so that its loops are emitted twice."""
        return self.family == "angle"

    @cached_property
    def repeats(self):
        """Whether its first argument stands in it more than once."""
        probes = [Var(f"x{k}", "complex128") for k in range(self.count)]
        return occurrences(wrapped(self.function, *probes), probes[0]) > 1


def occurrences(node, probe):
    return int(node is probe) + sum(occurrences(arg, probe) for arg in getattr(node, "args", ()))


def named(name, count, cost=1, kinds="f", wide=False, dtype="float64"):
    """Return the expression that calls a kernel, which computes in a dtype, or in the one of which all arguments are special cases."""

    def function(*args):
        return call(name, *args, dtype=dtype or common(*(arg.node.dtype for arg in args)))

    return Scalar(function, cost, kinds, wide, name=name, count=count)


def itself(x):
    return x


def fractional(x):
    """Return the fractional part of modf, which is a zero of the sign of an infinite number."""
    rest = x - call("np.trunc", x, dtype="float64")
    return call("math.copysign", choose(call("is_infinite", x, dtype="bool"), 0.0, rest), x, dtype="float64")


FAMILIES = {"sin": "angle", "cos": "angle", "tan": "angle", "sinh": "exp", "cosh": "exp", "tanh": "tanh", "sech_squared": "tanh"}

ANY = "fiubc"
REAL = "fiub"

# fmt: off
MAPS: dict = {
    # arithmetic
    np.add:          Scalar(lambda x, y: x + y, kinds=ANY, booleans=lambda x, y: x | y),
    np.subtract:     Scalar(lambda x, y: x - y, kinds="fiuc"),
    np.multiply:     Scalar(lambda x, y: x * y, kinds=ANY, booleans=lambda x, y: x & y),
    np.divide:       Scalar(lambda x, y: x / y, 5),
    np.negative:     Scalar(lambda x: -x, 0, kinds="fiuc"),  # LLVM negates what it is made of, or what is made of it
    np.positive:     Scalar(itself, 0, "fiuc"),
    np.reciprocal:   Scalar(lambda x: 1.0 / x, 5),
    np.square:       Scalar(lambda x: x * x, kinds="fiuc"),
    np.power:        Scalar(lambda x, y: x ** y, 60, wide=True),
    np.float_power:  Scalar(lambda x, y: x ** y, 60, wide=True),
    np.remainder:    named("remainder", 2, 20),
    np.fmod:         named("np.fmod", 2, 20),
    np.floor_divide: named("floor_divide", 2, 20),
    ratio:           named("ratio", 2, 7),
    strong_multiply: named("strong_multiply", 2, 3),
    np.absolute:     Scalar(lambda x: abs(x), kinds="fi"),
    np.fabs:         Scalar(lambda x: abs(x)),
    np.sign:         named("sign", 1, 3),
    np.deg2rad:      Scalar(lambda x: x * (math.pi / 180.0), wide=True),
    np.radians:      Scalar(lambda x: x * (math.pi / 180.0), wide=True),
    np.rad2deg:      Scalar(lambda x: x * (180.0 / math.pi), wide=True),
    np.degrees:      Scalar(lambda x: x * (180.0 / math.pi), wide=True),
    np.copy:         Scalar(itself, 0, ANY),
    cast:            Scalar(itself, 0, ANY),
    stopped:         Scalar(itself, 0, ANY),
    stated:          Scalar(lambda value, x: value, 0, ANY),
    discretize:      Scalar(itself, 0, ANY),
    number:          Scalar(itself, 0),
    cosine:           Scalar(lambda x, y, r: call("ratio", x, r, dtype="float64"), 7),
    turn:             named("turn", 2, 8, wide=True),
    one_minus_square: Scalar(lambda x: (1.0 - x) * (1.0 + x), 3),
    root_above_one:   named("root_above_one", 1, 10, wide=True),
    sech_squared:     named("sech_squared", 2, 22, wide=True),
    exp_of_expm1:     named("exp_of_expm1", 2, 18, wide=True),
    # powers, exponentials, logarithms
    np.sqrt:      named("math.sqrt", 1, 6),
    np.cbrt:      named("cbrt", 1, 25, wide=True),
    np.exp:       named("exp", 1, 14, wide=True),
    np.exp2:      named("np.exp2", 1, 40, wide=True),
    np.expm1:     named("expm1", 1, 18, wide=True),
    np.log:       named("log", 1, 18, wide=True),
    np.log2:      named("np.log2", 1, 40, wide=True),
    np.log10:     named("np.log10", 1, 40, wide=True),
    np.log1p:     named("log1p", 1, 22, wide=True),
    np.logaddexp:  named("np.logaddexp", 2, 80, wide=True),
    np.logaddexp2: named("np.logaddexp2", 2, 80, wide=True),
    softmax_share: named("softmax_share", 3, 25, wide=True),
    # trigonometric and hyperbolic
    np.sin:     named("sin", 1, 20, wide=True),
    np.cos:     named("cos", 1, 20, wide=True),
    np.tan:     named("tan", 1, 30, wide=True),
    np.arcsin:  named("np.arcsin", 1, 40, wide=True),
    np.arccos:  named("np.arccos", 1, 40, wide=True),
    np.arctan:  named("arctan", 1, 25, wide=True),
    np.arctan2: named("np.arctan2", 2, 60, wide=True),
    np.hypot:   named("np.hypot", 2, 20, wide=True),
    np.sinh:    named("sinh", 1, 40, wide=True),
    np.cosh:    named("cosh", 1, 30, wide=True),
    np.tanh:    named("tanh", 1, 25, wide=True),
    np.arcsinh: named("np.arcsinh", 1, 60, wide=True),
    np.arccosh: named("np.arccosh", 1, 60, wide=True),
    np.arctanh: named("np.arctanh", 1, 60, wide=True),
    # kinks
    np.maximum:    named("maximum", 2, 2, "fiu", dtype=None),
    np.minimum:    named("minimum", 2, 2, "fiu", dtype=None),
    np.fmax:       named("fmax", 2, 2, "fiu", dtype=None),
    np.fmin:       named("fmin", 2, 2, "fiu", dtype=None),
    clamp:         named("clip", 3, 4, "fiu", dtype=None),
    np._core.umath.clip: named("clip", 3, 4, "fiu", dtype=None),
    larger_share:  named("larger_share", 3, 4),
    fmax_share:    named("fmax_share", 3, 4),
    np.copysign:   named("math.copysign", 2, 2),
    np.nextafter:  named("np.nextafter", 2, 20),
    np.ceil:       named("np.ceil", 1, 2),
    np.floor:      named("np.floor", 1, 2),
    np.trunc:      named("np.trunc", 1, 2),
    np.rint:       named("np.rint", 1, 2),
    np.fix:        named("np.trunc", 1, 2),
    integral_part: named("np.trunc", 1, 2),
    fraction:      Scalar(fractional, 5),
    np.heaviside:  named("heaviside", 2, 3),
    np.spacing:    named("np.spacing", 1, 20),
    select:        Scalar(choose, 1, ANY),
    # predicates and bits
    np.equal:         Scalar(lambda x, y: x == y, kinds=ANY),
    np.not_equal:     Scalar(lambda x, y: x != y, kinds=ANY),
    np.less:          Scalar(lambda x, y: x < y, kinds=REAL),
    np.less_equal:    Scalar(lambda x, y: x <= y, kinds=REAL),
    np.greater:       Scalar(lambda x, y: x > y, kinds=REAL),
    np.greater_equal: Scalar(lambda x, y: x >= y, kinds=REAL),
    np.logical_and:   Scalar(lambda x, y: x & y, kinds="b"),
    np.logical_or:    Scalar(lambda x, y: x | y, kinds="b"),
    np.logical_xor:   Scalar(lambda x, y: x ^ y, kinds="b"),
    np.logical_not:   Scalar(lambda x: ~x, kinds="b"),
    np.isfinite:      named("is_finite", 1, dtype="bool"),
    np.isinf:         named("is_infinite", 1, dtype="bool"),
    np.isnan:         Scalar(lambda x: x != x),
    np.isposinf:      Scalar(lambda x: x == math.inf),
    np.isneginf:      Scalar(lambda x: x == -math.inf),
    np.signbit:       named("np.signbit", 1, 2, dtype="bool"),
    np.bitwise_and:   Scalar(lambda x, y: x & y, kinds="iub"),
    np.bitwise_or:    Scalar(lambda x, y: x | y, kinds="iub"),
    np.bitwise_xor:   Scalar(lambda x, y: x ^ y, kinds="iub"),
    np.invert:        Scalar(lambda x: ~x, kinds="iub"),
}
#: of integers, where that is another expression; a division by zero gives 0, as in NumPy
INTEGERS = {
    np.floor_divide:  Scalar(lambda x, y: x // y, 20, "iu"),
    np.remainder:     Scalar(lambda x, y: x % y, 20, "iu"),
}
#: of complex numbers, where that is another expression
COMPLEX = {
    np.divide:       named("complex_quotient", 2, 8, "c", wide=True, dtype="complex128"),
    np.reciprocal:   named("complex_reciprocal", 1, 6, "c", wide=True, dtype="complex128"),
    np.absolute:     named("complex_magnitude", 1, 12, "c", wide=True),
    strong_multiply: named("complex_strong_multiply", 2, 8, "c", dtype="complex128"),
}
MULTIPLY_ADD = named("multiply_add", 3, dtype=None)
REAL_PART, IMAGINARY = Scalar(lambda x: x.real, 0, "c"), Scalar(lambda x: x.imag, 0, "c")
#: of Python's integers, which do not wrap: beyond 64 bits they raise, and the program is evaluated by Python
EXACT = {
    np.add:          named("exact_sum", 2, 2, "ib", dtype="int64"),
    np.subtract:     named("exact_difference", 2, 2, "ib", dtype="int64"),
    np.multiply:     named("exact_product", 2, 2, "ib", dtype="int64"),
    np.square:       Scalar(lambda k: call("exact_product", k, k, dtype="int64"), 2, "ib"),
    np.negative:     Scalar(lambda k: call("exact_difference", 0, k, dtype="int64"), 2, "ib"),
    np.absolute:     named("exact_absolute", 1, 2, "ib", dtype="int64"),
    np.power:        named("exact_power", 2, 60, "ib", dtype="int64"),
    np.floor_divide: named("exact_quotient", 2, 20, "ib", dtype="int64"),
    np.remainder:    named("exact_remainder", 2, 20, "ib", dtype="int64"),
}
# fmt: on

for field, scalars in (("scalar", MAPS), ("of_integers", INTEGERS), ("of_complex", COMPLEX), ("exact", EXACT)):
    for fn, scalar in scalars.items():
        setattr(ROWS[fn], field, scalar)
