"""Functions of the loop IR that tests make by hand, as machine code and as Python."""

import math

import numpy as np
from comparing import close

from dualad.codegen import native
from dualad.codegen.emit import text_of
from dualad.ir.cut import cut
from dualad.ir.nodes import ArrayType, For, Function, Load, Module, Store, Var, number
from dualad.ir.values import Value, call, unwrapped
from dualad.ir.verify import verify

I = Var("i", "int64")


def variables(**kinds):
    """Return variables by their names, each a number of a dtype or an array of ``(shape, dtype)``."""
    return [Var(name, ArrayType(kind[1], kind[0]) if isinstance(kind, tuple) else kind) for name, kind in kinds.items()]


def module_of(parameters, *body, tables=()):
    return Module((*tables, Function("part0", tuple(parameters), body)))


def compiled(parameters, *body, tables=()):
    """Return the function of these statements as machine code."""
    module = module_of(parameters, *body, tables=tables)
    verify(module)
    return native.compiled(module, "part0")


def loop_of(name, count, result, *kinds):
    """Return the parameters and the statement of ``y[i] = name(x0[i], ...)`` for so many elements of these dtypes."""
    y, *xs = variables(y=((count,), result), **{f"x{k}": ((count,), kind) for k, kind in enumerate(kinds)})
    value = call(name, *(Value(Load(x, (I,))) for x in xs), dtype=result)
    return (y, *xs), For(I, number(0), number(count), (Store(y, (I,), unwrapped(value)),))


def applied(name, *arguments, result=float):
    """Return the results of a function for arrays of arguments, compiled."""
    outs = np.empty(len(arguments[0]), result)
    compiled(*loop_of(name, len(outs), *(array.dtype.name for array in (outs, *arguments))))(outs, *arguments)
    return outs


def python_of(text):
    """Return what a text defines when Python runs it."""
    space = {"np": np, "math": math}
    exec(text, space)
    return space


def filled(kind, rng):
    """Return a random argument of a type."""
    shape, dtype = (kind.shape, kind.dtype) if isinstance(kind, ArrayType) else ((), kind)
    array = np.array(rng.integers(0, 2, shape) if np.dtype(dtype).kind in "bi" else rng.uniform(0.2, 1.5, shape), dtype)
    return array if isinstance(kind, ArrayType) else array.item()


def left_by(module, name):
    """Return what a function leaves in random arguments where Python runs it."""
    rng = np.random.default_rng(1)
    given = [filled(parameter.type, rng) for parameter in module.function(name).parameters]
    with np.errstate(all="ignore"):
        python_of(text_of(module))[name](*given)
    return given


def cut_up(module, name, longest):
    """Return a module in pieces, which leave the same in its arguments, bit for bit, and how many more functions they are."""
    pieces = cut(module, longest)
    verify(pieces)
    close(left_by(pieces, name), left_by(module, name), rtol=0.0)
    return pieces, len(pieces.parts) - len(module.parts)
