"""sparsity: which inputs each output depends on, read from the program of a function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from ..core.dispatch import array, holds_traced
from ..core.levels import Handle
from ..forward.seeding import check_function, chosen_positions, flatten_input, flatten_output, shape_of
from ..graph.differentiate import pullback
from ..graph.passes import optimised
from ..graph.program import Program, Value, key_of, kind_of
from ..graph.trace import TraceError
from ..jit.impure import compare
from ..jit.tracing import traced
from ..support.callers import trimmed
from ..support.hints import Argnums
from .detect import dependencies
from .sets import scipy_sparse
from .values import Recorder, Tracked

# --- public -----------------------------------------------------------------------------------------------------------------


@trimmed
def sparsity(f: Callable[..., Any], *args: Any, argnums: Argnums = 0, order: int = 1, local: bool = False, **kwargs: Any) -> Any:
    """Return the sparsity pattern of the Jacobian of `f` (or of its Hessian), without computing a derivative.

    Parameters
    ----------
    f : function of numbers, arrays or pytrees of them, in plain NumPy; it returns one too.
    args, kwargs : arguments, whose shapes and dtypes count. Integers and booleans among those that are not differentiated are held
        fixed, and so is what `f` reads from variables outside.
    argnums : position of the argument to differentiate, or a tuple of positions.
    order : 1 for the Jacobian; 2 for the Hessian of a function that returns one number, whose entries are the pairs of inputs that
        interact nonlinearly.
    local : the pattern at these arguments, for a function that branches on values. It holds for the path taken here.

    Returns
    -------
    ``scipy.sparse.csr_array`` of booleans: a row for each element of the outputs, a column for each element of the differentiated
    inputs (leaves one after the other, each in C order). No entry that can be nonzero is missing; an entry whose
    derivative vanishes at some points, or by cancellation, is included.

    Raises
    ------
    TypeError
        Where `f` branches on a value and `local` is false; where two traces of it differ (random numbers, a clock).
    ValueError
        Where the pattern has too many entries to be of use (1e8).

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import sparsity
    >>> sparsity(lambda x: x[1:] * x[:-1], np.zeros(4)).toarray().astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    >>> sparsity(lambda x: np.sum(x[1:] * x[:-1]), np.zeros(4), order=2).toarray().astype(int)
    array([[0, 1, 0, 0],
           [1, 0, 1, 0],
           [0, 1, 0, 1],
           [0, 0, 1, 0]])

    Notes
    -----
    The function is traced as `jit` does it, and each operation is read by the row of its function. Exact are elementwise functions, moved
    elements, reductions, products with constant matrices and masks. Sorting and Fourier transforms are dense along their axis;
    operations without such structure (a call of LAPACK, your own primitive) are dense in all arguments.
    """
    return find_pattern(f, args, kwargs, argnums, order, local)


# --- parts ------------------------------------------------------------------------------------------------------------------


def find_pattern(f, args, kwargs, argnums=0, order=1, local=False):
    """Return the pattern of a function."""
    check_function(f, "sparsity")
    if order not in (1, 2):
        raise ValueError(f"sparsity: order is {order!r}: give 1 for the Jacobian, 2 for the Hessian")
    arguments = Arguments(args, kwargs, argnums, "sparsity")
    if arguments.traced:
        raise TypeError("sparsity: an argument is being differentiated: find the pattern before, and pass it on")
    program, sizes = (recorded_program if local else traced_program)(f, arguments)
    program = optimised(program)
    if order == 2:
        program, sizes = optimised(gradient_program(program, arguments)), [value.size for value in program.inputs[: arguments.active]]
    rows = dependencies(program, program.inputs[: arguments.active], arguments.columns, sizes)
    sparse = scipy_sparse()
    pattern = sparse.csr_array(sparse.vstack(rows, format="csr") if len(rows) > 1 else rows[0])
    pattern = sparse.csr_array(pattern + pattern.T) if order == 2 else pattern
    pattern.sort_indices()
    pattern.data[:] = True
    return pattern


class Arguments:
    """The arguments of a call: leaves that are differentiated, floating ones that are not, and what is held fixed."""

    def __init__(self, args, kwargs, argnums, where):
        self.where = where
        self.positions, _ = chosen_positions(args, argnums, where)
        leaves, self.structure = flatten_input(tuple(args[i] for i in self.positions), where)
        self.traced = any(isinstance(leaf, Handle) for leaf in leaves)
        self.active, self.shapes = len(leaves), list(map(shape_of, leaves))
        self.columns = sum(map(math.prod, self.shapes))
        rest: Any = [None if i in self.positions else arg for i, arg in enumerate(args)], kwargs
        others, self.others = optree.tree_flatten(rest, none_is_leaf=True)
        self.fixed = [Value if is_float(leaf) else leaf for leaf in others]
        self.leaves = [*leaves, *(leaf for leaf in others if is_float(leaf))]

    def arguments(self, leaves):
        """Return the arguments with these leaves."""
        leaves = iter(leaves)
        given: Any = optree.tree_unflatten(self.structure, [next(leaves) for _ in range(self.active)])
        rest: Any = optree.tree_unflatten(self.others, [next(leaves) if leaf is Value else leaf for leaf in self.fixed])
        args, kwargs = rest
        for i, arg in zip(self.positions, given, strict=True):
            args[i] = arg
        return args, kwargs

    def examples(self):
        return self.leaves

    def key(self):
        """Return the key of a pattern: shapes and dtypes, and values that are held fixed."""
        types = tuple(kind_of(leaf)[:3] for leaf in self.leaves)
        return self.structure, self.others, types, tuple(map(key_of, self.fixed))


def is_float(leaf):
    return issubclass(type(leaf), float | complex) or (issubclass(type(leaf), np.ndarray | np.generic) and leaf.dtype.kind in "fc")


def traced_program(f, arguments) -> tuple[Program, list[int]]:
    """Return the program of f, and how many elements each of its outputs has."""
    try:
        first, structure = traced(f, arguments)
        second, other = traced(f, arguments)
        compare(first, second, structure == other, getattr(f, "__name__", type(f).__name__))
    except TraceError as error:
        message = f"{arguments.where}: {str(error).removeprefix('jit: ')}"
        branch = "" if "two traces" in message else ". Or find the pattern at one point, local=True, and pass it as sparsity="
        raise TypeError(message + branch) from error
    return first.program, sizes_of(first.program.outputs, arguments.where)


def recorded_program(f, arguments) -> tuple[Program, list[int]]:
    """Return the program of the way that f takes at these arguments, and how many elements each of its outputs has."""
    with Recorder() as recorder:
        args, kwargs = arguments.arguments(list(map(recorder.input, arguments.leaves)))
        leaves, _ = flatten_output(f(*args, **kwargs), arguments.where)
        outputs: list[Any] = []
        for leaf in leaves:
            leaf = array(leaf) if type(leaf) is np.ndarray and holds_traced(leaf) else leaf
            outputs.append(recorder.entered(leaf))
            if isinstance(leaf, Handle) and type(leaf) is not Tracked:
                raise TypeError(f"{arguments.where}: f returns a {type(leaf).__name__} of a derivative call that has returned")
        recorder.program.outputs = outputs
    return recorder.program, sizes_of(outputs, arguments.where)


def sizes_of(outputs, where):
    """Return the number of elements of each output."""
    if not outputs:
        raise TypeError(f"{where}: the function returned nothing to differentiate: return the result")
    for out in outputs:
        if not issubclass(type(out), Value | int | float | complex | np.generic):
            raise TypeError(f"{where}: the function returned {type(out).__name__} {out!r}, which is no number or array")
    return [out.size if isinstance(out, Value) else 1 for out in outputs]


def gradient_program(program, arguments) -> Program:
    """Return the program of the gradient of a program with one number as result."""
    wanted = [i < arguments.active for i in range(len(arguments.leaves))]
    made = pullback(program, arguments.leaves, wanted, [one_for(program.outputs, arguments.where)])
    del made.outputs[sum(wanted) :]
    return made


def one_for(outs, where):
    """Return a one in the dtype of the result of a function, None for a literal; raise unless it is one real number."""
    out = outs[0]
    if len(outs) != 1 or shape_of(out) or (isinstance(out, Value) and out.dtype.kind != "f"):
        shown = ", ".join(out.type if isinstance(out, Value) else repr(out) for out in outs)
        raise TypeError(f"{where}: f returns {shown}: a Hessian requires a function that returns one real number")
    return np.ones((), out.dtype)[()] if isinstance(out, Value) else None
