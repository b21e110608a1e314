"""Traced: what every traced value is to NumPy and to Python.

NumPy's protocols (``__array_ufunc__``, ``__array_function__``), the operators and the ndarray methods all end in one
place, `apply`, which looks up the row of the function and hands it to the interpreter of the highest level among the
arguments. A function without a row raises; nothing falls back to plain arrays.

A traced array is a mutable handle. `alias` says what its buffers may be shared with:

* None: they may be shared with other handles, so they are never written;
* `Owner`: written before. They are copied at the first write and from then on nobody else holds them;
* `View`: a view of another handle, read and written through it.
"""

from __future__ import annotations

import itertools
import operator
import warnings

import numpy as np

from .rules.kinds import ROWS, Composite, Constant, Differentiable, Elementwise, Refused, is_complex, public_name, signature
from .rules.indexing import cast, discretize, getitem

__all__ = ["Level", "Owner", "Traced", "View", "apply", "array", "highest", "primal"]

new = object.__new__


class Level:
    """One derivative call. Ids only grow and are never reused, so nesting is right under threads and after exceptions.

    Parameters
    ----------
    directions : number K of tangents carried at once on a leading axis; None for one tangent without that axis.
    nan_safe : a zero tangent times any partial is zero.
    """

    __slots__ = ("alive", "directions", "id", "nan_safe", "plain")
    ids = itertools.count(1)

    def __init__(self, directions=None, nan_safe=False):
        self.id = next(self.ids)
        self.directions = directions
        self.nan_safe = nan_safe
        self.alive = True
        self.plain = not nan_safe  # the scalar fast path reads this one flag

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.alive = self.plain = False

    def check(self):
        """Raise if the derivative call that made this level is over."""
        if not self.alive:
            raise RuntimeError("a traced value is used after the derivative call that made it has returned: it was kept "
                               "in a global, a closure or an attribute. Return it from the differentiated function, or "
                               "keep dualad.primal(x)")


class Owner:
    """The buffers of this handle were written: `version` counts replacements, `exclusive` that nobody shares them."""

    __slots__ = ("exclusive", "version")
    base = type("written", (), {"alias": True})  # so that `alias.base.alias is None` means "never written", as for a View

    def __init__(self, version, exclusive):
        self.version, self.exclusive = version, exclusive


class View:
    """A handle that is a view: `base` after `ops`, each an (fn, arguments, keywords), as of the base's `version`."""

    __slots__ = ("base", "ops", "version")

    def __init__(self, base, ops, version):
        self.base, self.ops, self.version = base, ops, version


def shared_view(handle, alias, fn, args, kwargs={}):  # noqa: B006  (never written)
    """Return the alias of ``fn(handle, *args)``, where `alias` is that of `handle`."""
    view = new(View)
    if type(alias) is View:
        view.base, view.ops, view.version = alias.base, (*alias.ops, (fn, args, kwargs)), alias.version
    else:
        view.base, view.ops, view.version = handle, ((fn, args, kwargs),), 0 if alias is None else alias.version
    return view


def locate(ops, buffer):
    for fn, args, kwargs in ops:
        buffer = fn(buffer, *args, **kwargs)
    return buffer


def version_of(handle):
    return 0 if handle.alias is None else handle.alias.version


# --- the one door --------------------------------------------------------------------------------------------------------

def apply(fn, args, kwargs):
    """Evaluate `fn` where at least one argument is traced."""
    row = ROWS.get(fn)
    if isinstance(row, Differentiable):
        if row.canonical is not None:
            args, kwargs = row.canonical(args, kwargs)
        if kwargs and "out" in kwargs:
            kwargs = dict(kwargs)
            return write_out(row, args, kwargs, kwargs.pop("out"))
        top = highest(args)
        if top is None:
            return apply_by_keyword(row, args, kwargs)
        if row.complex_body is not None and any(map(is_complex, args)):
            return row.complex_body(*args, **kwargs)
        return top._interpret(row, args, kwargs)
    if isinstance(row, Composite):
        if kwargs and "out" in kwargs:
            kwargs = dict(kwargs)
            return write_out(row, args, kwargs, kwargs.pop("out"))
        return row.body(*args, **kwargs)
    if isinstance(row, Constant):
        if row.complex_body is not None and any(map(is_complex, args)):
            return row.complex_body(*args, **kwargs)
        top = highest((*args, *kwargs.values()), deep=True)
        return fn(*args, **kwargs) if top is None else top._constant(row, args, kwargs)
    if isinstance(row, Refused):
        raise TypeError(f"{row.name} has no derivative: {row.reason}")
    raise TypeError(f"{public_name(fn)} has no derivative rule in dualad. Write it with functions that have one, give it "
                    f"a rule (dualad.primitive), or pass plain values (dualad.primal) if no derivative is needed")


def highest(args, deep=False):
    """Return the traced value of the highest level among the arguments, None if there is none."""
    top = None
    for arg in args:
        if isinstance(arg, Traced):
            if top is None or arg.level.id > top.level.id:
                top = arg
        elif deep and type(arg) in (list, tuple):
            inner = highest(arg, deep)
            if inner is not None and (top is None or inner.level.id > top.level.id):
                top = inner
    return top


def apply_by_keyword(row, args, kwargs):
    """Evaluate a call whose traced arguments are keywords or sit inside lists: bring them into position first."""
    if any(isinstance(value, Traced) for value in kwargs.values()):
        parameters = list(signature(row.fn).parameters)
        bound = list(args)
        rest = dict(kwargs)
        for name in parameters[len(args):len(args) + len(row.vjps) + 1]:
            if name in rest:
                bound.append(rest.pop(name))
            else:
                break
        if highest(bound) is not None:
            return apply(row.fn, tuple(bound), rest)
        names = [name for name, value in kwargs.items() if isinstance(value, Traced)]
        raise no_derivative_for(row, names[0])
    packed = tuple(array(arg) if holds_traced(arg) else arg for arg in args)
    if highest(packed) is None:
        raise TypeError(f"{row.name}: no traced argument found in {args!r}")
    return apply(row.fn, packed, kwargs)


def no_derivative_for(row, name):
    return TypeError(f"{row.name} has no derivative with respect to its argument {name!r}: pass a plain value there "
                     f"(dualad.primal), or write it with other functions")


def write_out(row, args, kwargs, out):
    """Evaluate with ``out=``: the result is assigned to a traced array; a plain one cannot hold a derivative."""
    outs = out if isinstance(out, tuple) else (out,)
    results = apply(row.fn, args, kwargs) if highest((*args, *kwargs.values()), deep=True) else row.fn(*args, **kwargs)
    for target, result in zip(outs, results if len(outs) > 1 else (results,), strict=True):
        if target is None:
            continue
        if not isinstance(target, Traced):
            raise TypeError(f"{row.name}: out= is a plain array, which cannot hold derivatives. Use the returned value, or "
                            f"make out= with np.empty_like(x) of a traced x")
        target[...] = result
    return out if len(outs) > 1 or not isinstance(out, tuple) else outs[0]


def masked_call(ufunc, args, kwargs, where):
    """Evaluate a ufunc with ``where=``: only the chosen elements are computed, the others stay as they are in out=."""
    out = kwargs.pop("out", (None,))[0]
    if not isinstance(out, Traced):
        raise TypeError(f"{public_name(ufunc)}: where= leaves the other elements undefined unless out= is a traced array "
                        f"(made with np.zeros_like(x), say); np.where(mask, a, b) chooses between values")
    mask = np.broadcast_to(primal(where), out.shape)
    out[mask] = ufunc(*(np.broadcast_to(arg, out.shape)[mask] for arg in args), **kwargs)
    return out


def apply_method(ufunc, method, args, kwargs):
    """Evaluate a ufunc's ``reduce``, ``accumulate``, ``outer``, ... through the array function that does the same."""
    if method == "outer":
        a, b = args
        return ufunc(np.reshape(a, np.shape(a) + (1,) * np.ndim(b)), b, **kwargs)
    same = METHODS.get((ufunc, method))
    if same is not None:
        if "axis" not in kwargs and len(args) < 2:
            kwargs = {**kwargs, "axis": 0}
        if type(kwargs.get("out")) is tuple:
            kwargs = {**kwargs, "out": kwargs["out"][0]}
        return same(*args, **{key: value for key, value in kwargs.items() if value is not None or key == "axis"})
    row = ROWS.get(ufunc)
    if isinstance(row, Constant) and method in ("reduce", "accumulate", "reduceat"):
        return getattr(ufunc, method)(*(primal(arg) for arg in args), **kwargs)
    raise TypeError(f"{public_name(ufunc)}.{method} has no derivative rule in dualad: write it as a loop or with functions "
                    f"that have one")


METHODS = {
    (np.add, "reduce"): np.sum, (np.multiply, "reduce"): np.prod, (np.maximum, "reduce"): np.max,
    (np.minimum, "reduce"): np.min, (np.add, "accumulate"): np.cumsum, (np.multiply, "accumulate"): np.cumprod,
}


# --- values ----------------------------------------------------------------------------------------------------------------

def primal(x):
    """Return the plain value of a traced value, for logging and branching; anything else is returned as it is.

    Arrays are read-only views: the recorded values must not change.

    Examples
    --------
    >>> import dualad
    >>> dualad.primal(dualad.Dual(2.0, 1.0))
    2.0
    """
    while isinstance(x, Traced):
        x._refresh()
        x = x.value
        if type(x) is np.ndarray:
            x = x.view()
            x.flags.writeable = False
    return x


def array(values, dtype=None):
    """Make one traced array of nested lists (or an object array) of numbers and traced values.

    ``np.array([dx, dy])`` cannot be intercepted and gives a slow object array; this is the fast spelling for it.

    Parameters
    ----------
    values : traced value, number, array, or nested lists of them, all rows of one shape.
    dtype : dtype of the result, by default what NumPy promotes to.

    Returns
    -------
    traced array, or a plain one where nothing in `values` is traced.

    Examples
    --------
    >>> import dualad
    >>> dualad.jvp(lambda x: dualad.array([x, 2.0 * x]), (3.0,), (1.0,))
    (array([3., 6.]), array([1., 2.]))
    """
    if isinstance(values, np.ndarray) and values.dtype == object:
        packed = np.reshape(array(values.ravel().tolist()), values.shape) if values.size else values.astype(float)
    elif holds_traced(values):
        packed = np.stack([array(value) for value in values])
    else:
        packed = values if isinstance(values, Traced) else np.asarray(values)
    return packed if dtype is None else packed.astype(dtype)


def holds_traced(x):
    """Tell whether `x` is a list, tuple or object array with traced values in it."""
    if type(x) in (list, tuple):
        return any(isinstance(value, Traced) or holds_traced(value) for value in x)
    return type(x) is np.ndarray and x.dtype == object and any(isinstance(value, Traced) for value in x.flat)


FLOAT = np.dtype(float)


def dtype_of(x):
    """Return the dtype of a number, array or traced value."""
    if type(x) is float:
        return FLOAT
    dtype = getattr(x, "dtype", None)
    return np.dtype(type(x)) if dtype is None else dtype


class Traced:
    """A value that is being differentiated: a number or an ndarray to the code that uses it.

    Subclasses are interpreters; they say what an operation does (`_interpret`), and how a part of the value is replaced
    (`_assign`).
    """

    __slots__ = ("alias", "level", "payload", "value")
    __array_priority__ = 1000.0

    # --- what a subclass says ---------------------------------------------------------------------------------------------

    def _interpret(self, row, args, kwargs, evaluate=None):
        """Evaluate a row; `self` is of the highest level among the arguments."""
        raise NotImplementedError

    def _constant(self, row, args, kwargs):
        """Evaluate a function without derivative: one level down."""
        level = self.level
        level.check()
        return row.fn(*lower(args, level), **{key: lower_one(value, level) for key, value in kwargs.items()})

    def _assign(self, ops, index, v):
        """Replace the part of this handle that `ops` and then `index` show."""
        raise NotImplementedError

    # --- NumPy's protocols ------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        if method != "__call__":
            return apply_method(ufunc, method, args, kwargs)
        if kwargs:
            where = kwargs.pop("where", True)
            dtype = kwargs.pop("dtype", None)
            if dtype is not None and isinstance(ROWS.get(ufunc), Elementwise):
                args = tuple(np.asarray(arg, dtype) if not isinstance(arg, Traced) else arg.astype(dtype) for arg in args)
            if where is not True:
                return masked_call(ufunc, args, kwargs, where)
        for arg in args:
            if type(arg) is np.ndarray and arg.dtype == object or type(arg) is list:
                args = tuple(pack_operand(arg) for arg in args)
                break
        return apply(ufunc, args, kwargs)

    def __array_function__(self, fn, types, args, kwargs):
        return apply(fn, args, kwargs)

    @classmethod
    def __dualad_apply__(cls, fn, args, kwargs):
        return apply(fn, args, kwargs)

    def __array__(self, dtype=None, copy=None):
        if dtype is not None and np.dtype(dtype) != object:
            raise TypeError(f"a traced {type(self).__name__} cannot become a plain array of {np.dtype(dtype)}: that would "
                            f"lose its derivative. Drop the dtype, use np.stack([...]) or dualad.array([...]), make the "
                            f"array with np.zeros_like(x) of a traced x, or take dualad.primal(x)")
        if self.dtype.kind == "c":
            raise TypeError("a complex traced value cannot sit in an object array (NumPy would take its .imag for 0): use "
                            "np.stack([...]) or dualad.array([...])")
        elements = np.empty(self.shape, dtype=object)
        if self.ndim == 0:
            elements[()] = self if type(self.value) is not np.ndarray else self[()]
        else:
            for index in np.ndindex(self.shape):
                elements[index] = self[index]
        return elements

    # --- Python's protocols -----------------------------------------------------------------------------------------------

    def __bool__(self):
        return bool(self._peek())

    def __int__(self):
        return int(self._peek())

    def __index__(self):
        return operator.index(self._peek())

    def __float__(self):
        raise TypeError(f"float() of a traced {type(self).__name__} would lose its derivative: use NumPy functions "
                        f"(np.sin, not math.sin); to fill an array write into np.zeros_like(x) of a traced x or use "
                        f"np.stack([...]); for the plain number take dualad.primal(x)")

    def __complex__(self):
        raise TypeError(f"complex() of a traced {type(self).__name__} would lose its derivative: write a + 1j * b, or take "
                        f"dualad.primal(x) for the plain number")

    def __len__(self):
        if self.ndim == 0:
            raise TypeError("len() of an unsized (0-dimensional) traced value")
        return self.shape[0]

    def __iter__(self):
        if self.ndim == 0:
            raise TypeError("iteration over a 0-dimensional traced value")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, item):
        return bool(np.any(np.equal(self, item)))

    def __format__(self, spec):
        return format(self._peek(), spec) if spec else str(self)

    def __reduce__(self):
        raise TypeError(f"a traced {type(self).__name__} cannot be pickled: it belongs to a derivative call that is running. "
                        f"Pickle dualad.primal(x)")

    def __copy__(self):
        return np.copy(self) if self.ndim else self

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __round__(self, ndigits=None):
        return round(self._peek(), ndigits) if ndigits is not None else round(self._peek())

    def __floor__(self):
        return int(np.floor(self._peek()))

    def __ceil__(self):
        return int(np.ceil(self._peek()))

    def __trunc__(self):
        return int(self._peek())

    def _peek(self):
        """Return the value one level down, with the level checked."""
        self.level.check()
        self._refresh()
        return self.value

    # --- attributes -------------------------------------------------------------------------------------------------------

    @property
    def shape(self):
        """The shape of the value."""
        return () if type(self.value) is float else getattr(self._refresh().value, "shape", ())

    @property
    def ndim(self):
        """The number of axes of the value."""
        return len(self.shape)

    @property
    def size(self):
        """The number of elements of the value."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def dtype(self):
        """The dtype of the value."""
        return dtype_of(self.value)

    @property
    def itemsize(self):
        """The bytes of one element of the value."""
        return self.dtype.itemsize

    @property
    def nbytes(self):
        """The bytes of the value."""
        return self.size * self.itemsize

    @property
    def T(self):
        """The transpose."""
        return np.transpose(self)

    @property
    def mT(self):
        """The transpose of the last two axes."""
        return np.swapaxes(self, -1, -2)

    @property
    def real(self):
        """The real part."""
        return np.real(self)

    @property
    def imag(self):
        """The imaginary part."""
        return np.imag(self)

    @property
    def flat(self):
        """The elements, flattened: a copy to iterate over."""
        return np.ravel(self)

    # --- indexing and assignment ------------------------------------------------------------------------------------------

    def __getitem__(self, index):
        return self._interpret(GETITEM, (self, index), {})

    def __setitem__(self, index, v):
        self._refresh()
        if type(self.value) is float or not (isinstance(self.value, np.ndarray) or isinstance(self.value, Traced)):
            raise TypeError(f"a scalar {type(self).__name__} does not support assignment to its elements: it is immutable")
        v = array(v) if holds_traced(v) else v
        base, ops = (self.alias.base, self.alias.ops) if type(self.alias) is View else (self, ())
        if not shows(v, base, ops, index):  # x[1:] += w updates the view x[1:], then assigns it to itself
            base._assign(ops, index, v)

    def _in_place(self, operate, other):
        """Evaluate ``x op= other``: an array is changed, with all its views; a scalar is replaced."""
        if self.ndim == 0 and not isinstance(self._refresh().value, np.ndarray):
            return NotImplemented
        result = operate(self, other)
        if np.shape(result) != self.shape:
            raise ValueError(f"non-broadcastable output operand with shape {self.shape} does not match the broadcast shape "
                             f"{np.shape(result)}")
        if not np.can_cast(dtype_of(result), self.dtype, "same_kind"):
            raise TypeError(f"cannot cast the result from {dtype_of(result)} to {self.dtype} in place: write x = x op y")
        if type(result) is type(self) and result.level is self.level and type(self.alias) is not View \
                and result.dtype == self.dtype:
            self.alias = Owner(version_of(self) + 1, False)
            self.value, self.payload = result.value, result.payload
        else:
            self[...] = result
            self._refresh()
        return self

    def _refresh(self):
        """Bring a view up to date with its base."""
        alias = self.alias
        if type(alias) is View and alias.version != version_of(alias.base):
            fresh = alias.base
            for fn, args, kwargs in alias.ops:
                fresh = fn(fresh, *args, **kwargs)
            if type(self) is not type(fresh):
                self.__class__ = type(fresh)
            self.value, self.payload, self.level = fresh.value, fresh.payload, fresh.level
            self.alias = View(alias.base, alias.ops, version_of(alias.base))
        return self

    def _shares_written(self):
        """Refresh, and tell whether the buffers are those of a handle that is written in place."""
        alias = self.alias
        if type(alias) is View:
            self._refresh()
            alias = alias.base.alias
        return alias is not None and alias.exclusive

    def _promote(self, to):
        """Become a value of the higher level of `to`, in place, so that a derivative of that level can be written."""
        inner = new(type(self))
        inner.value, inner.payload, inner.level, inner.alias = self.value, self.payload, self.level, None
        self.alias = Owner(version_of(self) + 1, False)
        self.__class__ = type(to)
        self.value, self.payload, self.level = inner, None, to.level

    # --- methods that differ from the function ----------------------------------------------------------------------------

    def reshape(self, *shape, order="C"):
        """Return ``np.reshape(x, shape)``."""
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, order=order)

    def transpose(self, *axes):
        """Return ``np.transpose(x, axes)``."""
        return np.transpose(self, (axes[0] if len(axes) == 1 else axes) if axes else None)

    def flatten(self, order="C"):
        """Return a flattened copy."""
        return np.copy(np.ravel(self, order))

    def copy(self, order="C"):
        """Return a copy."""
        return np.copy(self)

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        """Return a copy of another dtype; an integer or boolean one is a constant."""
        if not np.can_cast(self.dtype, dtype, casting):
            raise TypeError(f"astype: cannot cast from {self.dtype} to {np.dtype(dtype)} under casting={casting!r}")
        dtype = np.dtype(dtype)
        return (cast if dtype.kind in "fc" else discretize)(self, dtype)

    def fill(self, value):
        """Assign one value to all elements."""
        self[...] = value

    def sort(self, axis=-1, kind=None):
        """Sort in place."""
        self[...] = np.sort(self, axis=axis, kind=kind)

    def item(self, *index):
        """Return one element as a traced scalar."""
        if not index:
            if self.size != 1:
                raise ValueError(f"can only convert an array of size 1 to a scalar; this one has shape {self.shape}")
            return np.reshape(self, (-1,))[0] if self.ndim else self[()]
        return self[index] if len(index) > 1 or isinstance(index[0], tuple) else np.ravel(self)[index[0]]

    def tolist(self):
        """Return nested lists of traced scalars."""
        return [row.tolist() for row in self] if self.ndim else self[()]

    def compress(self, condition, axis=None):
        """Return ``np.compress(condition, x, axis)``."""
        return np.compress(condition, self, axis)


def shows(v, base, ops, index):
    """Tell whether `v` is the up-to-date view of `base` at `ops` and then `index`."""
    if not isinstance(v, Traced) or type(v.alias) is not View or v.alias.base is not base:
        return False
    *before, (fn, arguments, _) = v._refresh().alias.ops
    return fn is getitem and arguments[0] is index and all(map(operator.is_, before, ops)) and len(before) == len(ops)


def writable(buffer, v):
    """Return a buffer that `v` can be written into: a plain one is lifted to v's level if v is traced."""
    if isinstance(v, Traced) and not isinstance(buffer, Traced):
        lifted = new(type(v))
        lifted.value, lifted.payload, lifted.level, lifted.alias = buffer, None, v.level, None
        return lifted
    return buffer


def pack_operand(arg):
    """Return an operand with the traced scalars of an object array or list packed into one traced array."""
    if not holds_traced(arg):
        return arg
    if type(arg) is np.ndarray:
        warnings.warn("packing an object array of traced scalars (from np.array([...])) into one traced array: correct but "
                      "slow; np.stack([...]) or dualad.array([...]) is faster", stacklevel=4)
    return array(arg)


def lower_one(arg, level):
    if isinstance(arg, Traced):
        if arg.level is level:
            return arg._refresh().value
    elif type(arg) in (list, tuple):
        return type(arg)(lower_one(item, level) for item in arg)
    return arg


def lower(args, level):
    """Return the arguments with the values of this level's traced arguments in their place."""
    return tuple(lower_one(arg, level) for arg in args)


# --- operators and methods, from tables ---------------------------------------------------------------------------------------

GETITEM = ROWS[getitem]
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide,
          "mod": np.remainder, "pow": np.power, "matmul": np.matmul, "divmod": np.divmod,
          "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift}
COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
SAME_METHODS = ("all any argmax argmin argpartition argsort choose clip conj conjugate cumprod cumsum diagonal dot max mean min "
                "nonzero prod ravel repeat round searchsorted squeeze std sum swapaxes take trace var").split()


def operand(x):
    """Tell whether an operator may take `x` as the other operand; others get their turn."""
    return isinstance(x, int | float | complex | np.ndarray | np.generic | list | Traced) or hasattr(x, "__array__")


def define_operators():
    def binary(ufunc):
        def forward(self, other):
            return self.__array_ufunc__(ufunc, "__call__", self, other) if operand(other) else NotImplemented

        def reflected(self, other):
            return self.__array_ufunc__(ufunc, "__call__", other, self) if operand(other) else NotImplemented
        return forward, reflected

    def in_place(operate):
        return lambda self, other: self._in_place(operate, other)

    def method(fn):
        def call(self, *args, **kwargs):
            return fn(self, *args, **kwargs)
        call.__doc__ = f"Return ``{public_name(fn)}(x, ...)``."
        return call

    for name, ufunc in BINARY.items():
        forward, reflected = binary(ufunc)
        setattr(Traced, f"__{name}__", forward)
        setattr(Traced, f"__r{name}__", reflected)
        if name != "divmod":
            setattr(Traced, f"__i{name}__", in_place(getattr(operator, f"__{name}__")))
    for name, ufunc in COMPARE.items():
        setattr(Traced, f"__{name}__", binary(ufunc)[0])
    for name, ufunc in UNARY.items():
        setattr(Traced, f"__{name}__", method(ufunc))
    for name in SAME_METHODS:
        setattr(Traced, name, method(getattr(np, name)))
    for row in list(ROWS.values()):  # NumPy's loops over object arrays call x.sin()
        if isinstance(row.fn, np.ufunc) and row.fn.nin == 1 and not hasattr(Traced, row.fn.__name__):
            setattr(Traced, row.fn.__name__, method(row.fn))
    Traced.__hash__ = None


define_operators()
