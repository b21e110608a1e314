"""`scalar=` of a row: an elementwise function as an expression of the loop IR, which is imported when a loop is first made."""

from ..support.forks import cached_property

#: kinds of numbers: all, and those that are ordered
ANY, REAL = "fiubc", "fiub"


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
        from ..ir.nodes import Var
        from ..ir.values import wrapped

        probes = [Var(f"x{k}", "complex128") for k in range(self.count)]
        return occurrences(wrapped(self.function, *probes), probes[0]) > 1


def occurrences(node, probe):
    return int(node is probe) + sum(occurrences(arg, probe) for arg in getattr(node, "args", ()))


def kernel(name, count, cost=1, kinds="f", wide=False, dtype="float64"):
    """Return the expression that calls a kernel; the dtype is as in `call`."""
    return Scalar(lambda *args: call(name, *args, dtype=dtype), cost, kinds, wide, name=name, count=count)


def wide(name, count, cost):
    """Return the expression that calls a kernel in double precision, also of numbers in single precision."""
    return kernel(name, count, cost, wide=True)


def whole(name, count, cost=2):
    """Return the expression of Python's integers, which do not wrap: beyond 64 bits it raises, and the program is evaluated by Python."""
    return kernel(name, count, cost, "ib", dtype="int64")


def by_operator(operator, kinds, count=2):
    """Return the expression that one of Python's operators is."""
    return Scalar(operator, kinds=kinds, count=count)


def call(name, *args, dtype="float64"):
    """Return the call of a kernel, which computes in a dtype, or in the one of which all arguments are special cases."""
    from ..ir import values

    return values.call(name, *args, dtype=dtype or values.common(*(arg.node.dtype for arg in args)))


def choose(condition, x, y):
    from ..ir import values

    return values.choose(condition, x, y)


def itself(x):
    return x


def fractional(x):
    """Return the fractional part of modf, which is a zero of the sign of an infinite number."""
    rest = x - call("np.trunc", x)
    return call("math.copysign", choose(call("is_infinite", x, dtype="bool"), 0.0, rest), x)


FAMILIES = {"sin": "angle", "cos": "angle", "tan": "angle", "sinh": "exp", "cosh": "exp", "tanh": "tanh", "sech_squared": "tanh"}
MULTIPLY_ADD = kernel("multiply_add", 3, dtype=None)
REAL_PART, IMAGINARY = Scalar(lambda x: x.real, 0, "c"), Scalar(lambda x: x.imag, 0, "c")
