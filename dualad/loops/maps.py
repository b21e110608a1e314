"""Elementwise functions as expressions of numbers: what stands in the loop for each of them."""

from __future__ import annotations

from ..rules.constants import stopped
from ..rules.indexing import cast, discretize
from ..rules.kinds import row_says, strong_multiply
from ..rules.names import np
from ..rules.primitives import ratio
from ..rules.shapes import clamp, select
from ..rules.stable import cosine, exp_of_expm1, one_minus_square, root_above_one, sech_squared, turn
from ..rules.ufuncs import fmax_share, larger_share, softmax_share

__all__ = ["COMPLEX", "EXACT", "IMAGINARY", "INTEGERS", "MAPS", "MULTIPLY_ADD", "REAL_PART", "Scalar", "resolved"]


class Scalar:
    """The expression of an elementwise function.

    Parameters
    ----------
    template : the expression, with ``{0}``, ``{1}`` for the arguments.
    cost : about how many additions it takes in a vectorised loop.
    kinds : letters of the dtypes it holds for: f(loat), i(nteger), u(nsigned), b(oolean), c(omplex).
    wide : computed in double precision also of single precision.
    booleans : the expression for booleans, if another.
    """

    __slots__ = ("booleans", "cost", "kinds", "template", "wide")

    def __init__(self, template, cost=1, kinds="f", wide=False, booleans=None):
        self.template, self.cost, self.kinds, self.wide, self.booleans = template, cost, kinds, wide, booleans

    @property
    def family(self):
        """The name of the functions in `kernels` that share most of their work with this one; None of most functions."""
        return FAMILIES.get(self.template.partition("(")[0])

    @property
    def of_angle(self):
        """Whether it is a function of an angle, which may be too large for `kernels`, so that its loops are emitted twice."""
        return self.family == "angle"


def named(name, count, cost=1, kinds="f", wide=False):
    return Scalar(f"{name}({', '.join(f'{{{i}}}' for i in range(count))})", cost, kinds, wide)


FAMILIES = {"sin": "angle", "cos": "angle", "tan": "angle", "sinh": "exp", "cosh": "exp", "tanh": "tanh", "sech_squared": "tanh"}

ANY = "fiubc"
REAL = "fiub"

# fmt: off
MAPS: dict = {
    # arithmetic
    np.add:          Scalar("{0} + {1}", kinds=ANY, booleans="{0} | {1}"),
    np.subtract:     Scalar("{0} - {1}", kinds="fiuc"),
    np.multiply:     Scalar("{0} * {1}", kinds=ANY, booleans="{0} & {1}"),
    np.divide:       Scalar("{0} / {1}", 5),
    np.negative:     Scalar("-{0}", 0, kinds="fiuc"),  # LLVM negates what it is made of, or what is made of it
    np.positive:     Scalar("{0}", 0, "fiuc"),
    np.reciprocal:   Scalar("1.0 / {0}", 5),
    np.square:       Scalar("{0} * {0}", kinds="fiuc"),
    np.power:        Scalar("{0} ** {1}", 60, wide=True),
    np.float_power:  Scalar("{0} ** {1}", 60, wide=True),
    np.remainder:    named("remainder", 2, 20),
    np.fmod:         named("np.fmod", 2, 20),
    np.floor_divide: named("floor_divide", 2, 20),
    ratio:           named("ratio", 2, 7),
    strong_multiply: named("strong_multiply", 2, 3),
    np.absolute:     Scalar("abs({0})", kinds="fi"),
    np.fabs:         Scalar("abs({0})"),
    np.sign:         named("sign", 1, 3),
    np.deg2rad:      Scalar("{0} * (math.pi / 180.0)", wide=True),
    np.radians:      Scalar("{0} * (math.pi / 180.0)", wide=True),
    np.rad2deg:      Scalar("{0} * (180.0 / math.pi)", wide=True),
    np.degrees:      Scalar("{0} * (180.0 / math.pi)", wide=True),
    np.copy:         Scalar("{0}", 0, ANY),
    cast:            Scalar("{0}", 0, ANY),
    stopped:         Scalar("{0}", 0, ANY),
    discretize:      Scalar("{0}", 0, ANY),
    cosine:           Scalar("ratio({0}, {2})", 7),
    turn:             named("turn", 2, 8, wide=True),
    one_minus_square: Scalar("(1.0 - {0}) * (1.0 + {0})", 3),
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
    np.maximum:    named("maximum", 2, 2, "fiu"),
    np.minimum:    named("minimum", 2, 2, "fiu"),
    np.fmax:       named("fmax", 2, 2, "fiu"),
    np.fmin:       named("fmin", 2, 2, "fiu"),
    clamp:         named("clip", 3, 4, "fiu"),
    np._core.umath.clip: named("clip", 3, 4, "fiu"),
    larger_share:  named("larger_share", 3, 4),
    fmax_share:    named("fmax_share", 3, 4),
    np.copysign:   named("math.copysign", 2, 2),
    np.nextafter:  named("np.nextafter", 2, 20),
    np.ceil:       named("np.ceil", 1, 2),
    np.floor:      named("np.floor", 1, 2),
    np.trunc:      named("np.trunc", 1, 2),
    np.rint:       named("np.rint", 1, 2),
    np.heaviside:  named("heaviside", 2, 3),
    np.spacing:    named("np.spacing", 1, 20),
    select:        Scalar("choose({0}, {1}, {2})", 1, ANY),
    # predicates and bits
    np.equal:         Scalar("{0} == {1}", kinds=ANY),
    np.not_equal:     Scalar("{0} != {1}", kinds=ANY),
    np.less:          Scalar("{0} < {1}", kinds=REAL),
    np.less_equal:    Scalar("{0} <= {1}", kinds=REAL),
    np.greater:       Scalar("{0} > {1}", kinds=REAL),
    np.greater_equal: Scalar("{0} >= {1}", kinds=REAL),
    np.logical_and:   Scalar("{0} & {1}", kinds="b"),
    np.logical_or:    Scalar("{0} | {1}", kinds="b"),
    np.logical_xor:   Scalar("{0} ^ {1}", kinds="b"),
    np.logical_not:   Scalar("not {0}", kinds="b"),
    np.isfinite:      named("is_finite", 1),
    np.isinf:         named("is_infinite", 1),
    np.isnan:         Scalar("{0} != {0}"),
    np.signbit:       named("np.signbit", 1, 2),
    np.bitwise_and:   Scalar("{0} & {1}", kinds="iub"),
    np.bitwise_or:    Scalar("{0} | {1}", kinds="iub"),
    np.bitwise_xor:   Scalar("{0} ^ {1}", kinds="iub"),
    np.invert:        Scalar("~{0}", kinds="iu", booleans="not {0}"),
}
#: of integers, where that is another expression; a division by zero gives 0, as in NumPy
INTEGERS = {
    np.floor_divide:  Scalar("{0} // {1}", 20, "iu"),
    np.remainder:     Scalar("{0} % {1}", 20, "iu"),
}
#: of complex numbers, where that is another expression
COMPLEX = {
    np.divide:       named("complex_quotient", 2, 8, "c", wide=True),
    np.reciprocal:   named("complex_reciprocal", 1, 6, "c", wide=True),
    np.absolute:     named("complex_magnitude", 1, 12, "c", wide=True),
}
MULTIPLY_ADD = Scalar("multiply_add({0}, {1}, {2})")
REAL_PART, IMAGINARY = Scalar("{0}.real", 0, "c"), Scalar("{0}.imag", 0, "c")
#: of Python's integers, which do not wrap: beyond 64 bits they raise, and the program is evaluated by Python
EXACT = {
    np.add:          named("exact_sum", 2, 2, "ib"),
    np.subtract:     named("exact_difference", 2, 2, "ib"),
    np.multiply:     named("exact_product", 2, 2, "ib"),
    np.square:       Scalar("exact_product({0}, {0})", 2, "ib"),
    np.negative:     Scalar("exact_difference(0, {0})", 2, "ib"),
    np.absolute:     named("exact_absolute", 1, 2, "ib"),
    np.power:        named("exact_power", 2, 60, "ib"),
    np.floor_divide: named("exact_quotient", 2, 20, "ib"),
    np.remainder:    named("exact_remainder", 2, 20, "ib"),
}
# fmt: on

BOOL = np.dtype(bool)


def resolved(fn, operands, out):
    """Return the dtypes in which `fn` takes its operands, and that of its result; `operands` are dtypes, or the type of a Python number."""
    if row_says(fn, "logical"):
        return (BOOL,) * len(operands), BOOL
    operands = [BOOL if operand is bool else operand for operand in operands]  # Python's are no weaker
    if all(isinstance(operand, type) for operand in operands):  # numbers of Python alone
        operands = [np.dtype(operand) for operand in operands]
    if isinstance(fn, np.ufunc) and fn is not np._core.umath.clip:
        *inner, result = fn.resolve_dtypes((*operands, None))
        return tuple(inner), result
    if fn is select:
        return (BOOL, out, out), out
    if fn in (cast, discretize, np.copy):
        return tuple(np.dtype(operand) for operand in operands), out
    if out == BOOL:  # a share that was traced where there is no tie
        out = np.result_type(*(np.dtype(operand) for operand in operands))
    return (out,) * len(operands), out
