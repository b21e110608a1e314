"""Helpers of the verbs: making inputs (pytrees) traced and outputs plain, checking arguments."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial, wraps
from inspect import signature
from sys import getrefcount

import numpy as np
import optree

from ..core.conversions import STANDING, lift, refuse_stale
from ..core.dispatch import FLOAT, array, dtype_of, primal
from ..core.levels import FILLED, Handle
from ..core.traced import Traced
from ..dask.arrays import LAZY, to_dask
from ..rules.indexing import number
from ..rules.memory import copied, copied_to_write
from ..support.checks import flag
from .dual import Dual, seedable


def flatten_input(tree, where, what=None, empty=False):
    """Return the differentiable leaves of an input (ints promoted) and the structure; raise for a leaf that is not numeric, by its path.

    `what` is the name of the tree, or of a tuple of arguments a tuple of their names. An input without numbers is taken where `empty`
    says so, but None: the argument of a call that forgot one.
    """
    leaves, structure = optree.tree_flatten(pack_leaf(tree))
    if inexact(leaves) and (leaves or (empty and None not in tree)):
        return leaves, structure
    if what is None:
        what = ["the argument"] if len(tree) == 1 else [f"argument {i} of those differentiated" for i in range(len(tree))]
    if not leaves:
        name, given = (what, tree) if isinstance(what, str) else (" and ".join(what), tree[0] if len(tree) == 1 else tree)
        raise TypeError(f"{where}: {name} is {given!r}, which holds no number or array")
    names = [what + indexed(path) if isinstance(what, str) else what[path[0]] + indexed(path[1:]) for path in structure.paths()]
    return [seedable(pack_leaf(leaf), where, name) for leaf, name in zip(leaves, names, strict=True)], structure


def indexed(path):
    return "".join(f"[{part!r}]" for part in path)


LEAF = optree.tree_structure(0.0)  # type: ignore[arg-type]


def flatten_arguments(args, where, what, empty=False):
    """Return the leaves and the structure of a tuple of arguments; floats and float arrays, traced ones too, take a short way."""
    return (list(args), len(args)) if inexact(args) else flatten_input(args, where, what, empty)


def inexact(leaves):
    """Return whether all leaves are floats or real or complex arrays, traced or not, of which nothing needs to be made."""
    for x in leaves:
        if type(x) is not float and not ((type(x) is np.ndarray or isinstance(x, Traced)) and x.dtype.kind in "fc"):
            return False
    return True


def unflatten_arguments(structure, leaves):
    leaves = list(map(to_dask, leaves)) if LAZY.met else leaves
    return leaves if type(structure) is int else optree.tree_unflatten(structure, leaves)


def unflatten_output(structure, leaves):
    leaves = list(map(to_dask, leaves)) if LAZY.met else leaves
    return leaves[0] if structure is LEAF else optree.tree_unflatten(structure, leaves)


def only_python_scalars(args):
    """Return whether a function was given Python numbers only, so that its results are to be Python floats."""
    for arg in args:
        if type(arg) is np.ndarray or (isinstance(arg, Handle) and not arg.of_python):
            return False
        if type(arg) is not float:
            return all(type(leaf) in (float, int) or getattr(leaf, "of_python", False) for leaf in optree.tree_leaves(args))
    return True


def scalar_kinds(args):
    """Tell of inputs whether they are Python numbers only, and whether values of shape () yield to the dtype of arrays (NEP 50).

    They do where an input is a Python number, and none a float64 array or NumPy scalar.
    """
    for arg in args:
        if type(arg) is np.ndarray and arg.dtype is FLOAT:
            return False, False
    python_scalars = only_python_scalars(args)
    if python_scalars:
        return True, True
    kinds = {leaf.dtype.char if hasattr(leaf, "dtype") else None for leaf in optree.tree_leaves(args)}
    return False, None in kinds and kinds.isdisjoint("dDgGbhilqpBHILQP")


def own_buffers(results, given):
    """Return results whose buffers are their own: neither views, nor given by the caller, nor one another."""
    seen = set(map(id, given))
    for i, leaf in enumerate(results):
        if type(leaf) is np.ndarray:
            if id(leaf) in seen or (leaf.base is not None and is_shared(leaf)):
                results[i] = leaf.copy("K")
            seen.add(id(leaf))
    return results


def is_shared(array):
    """Return whether a view shows the memory of an array that somebody else holds, or a part of it; a result that was reshaped does not.

    A read-only one does, whose one element stands for all that were broadcast from it.
    """
    if not (array.flags.forc and array.flags.writeable):
        return True
    return reference_count(array) != ALONE or array.size != getattr(array.base, "size", 0)


def reference_count(array):
    """Return how many references there are to the array whose memory this one shows."""
    return getrefcount(array.base)


ALONE = reference_count(np.zeros(4).reshape(2, 2))  # counted, because what a call adds depends on the interpreter


def pack_leaf(leaf):
    """Return an object array of numbers, traced or plain, as one array of numbers, what stands for an array as that, all else as it is."""
    if type(leaf) in STANDING:
        return lift(leaf)
    if type(leaf) is not np.ndarray or leaf.dtype.char != "O":
        return leaf
    return array(leaf) if all(issubclass(type(x), Handle | int | float | complex | np.ndarray | np.generic) for x in leaf.flat) else leaf


def flatten_output(out, where):
    """Return the leaves and the structure of what a function returned; raise for one that is not numeric: its derivative would vanish."""
    if isinstance(out, Traced):
        if FILLED:
            refuse_stale([primal(out)], where)
        return [out], LEAF
    paths, leaves, structure = optree.tree_flatten_with_path(pack_leaf(out))
    leaves = [lift(pack_leaf(leaf)) for leaf in leaves]
    for path, leaf in zip(paths, leaves, strict=True):
        if (
            not issubclass(type(leaf), Traced | int | float | complex | np.ndarray | np.generic)
            or getattr(leaf, "dtype", FLOAT).kind not in "biufc"
        ):
            raise TypeError(
                f"{where}: the function returned {type(leaf).__name__} {leaf!r} at output{indexed(path)}, which is no number "
                f"or array: return numbers, arrays, or a tuple, list, dict or named tuple of them (register a "
                f"dataclass with dualad.register_dataclass); has_aux=True passes a second result through"
            )
    if FILLED:
        refuse_stale(map(primal, leaves), where)
    if not leaves:
        raise TypeError(f"{where}: the function returned {out!r}, which holds no number or array to differentiate: return the result")
    return leaves, structure


def split_value(leaf, level):
    """Return value and tangent (None if zero) of an output leaf at a level."""
    if type(leaf) is Dual and leaf.level is level:
        leaf._shares_written()
        return leaf.primal, leaf.tangent
    return leaf, None


def value_for_caller(leaf, level):
    """Return the value of a traced leaf of a level for a caller, who may change it, unlike what was recorded; others as they are."""
    if not isinstance(leaf, Traced) or leaf.level is not level:
        return leaf
    value = leaf.primal if leaf.alias is None else leaf._refresh().primal
    if type(value) is np.ndarray:
        return copied_to_write(value)
    return copied(value) if isinstance(value, Traced) and value.ndim else value


def plain(value, python_scalars):
    """Return a result as NumPy would give it: a Python float only where the inputs were Python scalars."""
    if type(value) is float:
        return value if python_scalars else np.float64(value)
    if not python_scalars:
        return value
    if type(value) is np.float64:
        return value.item()
    return number(value) if isinstance(value, Handle) and value.shape == () and value.dtype.char == "d" else value


def shape_of(x):
    return getattr(x, "shape", ())


def take_aux(out, has_aux, where):
    """Split ``(result, aux)``; the aux is returned as it is, traced leaves included (see `strip_level`)."""
    if not has_aux:
        return out, None
    if not (isinstance(out, tuple) and len(out) == 2):
        raise TypeError(f"{where}: with has_aux=True the function must return a pair (result, aux); it returned {type(out).__name__}")
    return out


def without_aux(f, has_aux, where):
    """Return the function of the result of f alone, where it returns ``(result, aux)``."""
    return wraps(f)(lambda *args, **kwargs: take_aux(f(*args, **kwargs), True, where)[0]) if has_aux else f


def strip_level(tree, level):
    """Return a pytree with the values of this level's traced leaves in their place."""
    leaves, structure = optree.tree_flatten(tree)
    leaves = list(map(pack_leaf, leaves))
    leaves = [leaf._peek() if isinstance(leaf, Traced) and leaf.level is level else leaf for leaf in leaves]
    return optree.tree_unflatten(structure, list(map(to_dask, leaves)) if LAZY.met else leaves)


def chosen_positions(args, argnums, where):
    """Return the positions that `argnums` names, and whether it was no tuple; raise where it is wrong, or names what was not given."""
    if type(argnums) is int and 0 <= argnums < len(args):
        return [argnums], True
    single = issubclass(type(argnums), int | np.integer) and type(argnums) is not bool
    if not single and not (isinstance(argnums, tuple | list) and all(issubclass(type(i), int | np.integer) for i in argnums)):
        raise TypeError(f"{where}: argnums is {argnums!r}: give an integer or a tuple of integers")
    positions = [argnums] if single else list(argnums)
    for i in positions:
        if not -len(args) <= i < len(args):
            raise ValueError(
                f"{where}: argnums names argument {i}, but the function was called with {len(args)} positional "
                f"arguments (keywords are not differentiated)"
            )
    positions = [int(i) % len(args) for i in positions]
    if len(set(positions)) < len(positions) or not positions:
        raise ValueError(f"{where}: argnums is {argnums!r}: name each argument once, and at least one")
    return positions, single


def with_arguments(f: Callable, args, kwargs, positions):
    """Return ``f`` as a function of the arguments at `positions` alone."""
    if not kwargs and len(args) == 1 == len(positions):
        return f
    return partial(call_with, f, args, kwargs, positions)


def call_with(f, args, kwargs, positions, *chosen_args):
    """Return ``f(*args, **kwargs)`` with other arguments at some positions."""
    filled = list(args)
    for i, arg in zip(positions, chosen_args, strict=True):
        filled[i] = arg
    return f(*filled, **kwargs)


def curried(verb):
    """Let a verb be called with options alone, as a decorator is (``@grad(argnums=1)``), and check its function and flags."""
    where = verb.__name__
    flags = [name for name, parameter in signature(verb).parameters.items() if parameter.default is False]

    @wraps(verb)
    def transform(f=None, *args, **kwargs):
        for name in kwargs:
            if name in flags:
                flag(kwargs[name], where=where, argument=name)
        if f is None:
            return lambda f: transform(f, *args, **kwargs)
        if not callable(f):
            check_function(f, where)
        return verb(f, *args, **kwargs)

    return transform


def check_function(f, where, argument="the first argument"):
    if not callable(f):
        raise TypeError(f"{where}: {argument} is {type(f).__name__} {f!r}, not a function: give the function itself, not what it returns")


def note_lists(error, structure):
    """Add a note to an error of a function that was given a list and computes with it as with an array."""
    if "[" in str(structure) and OF_LISTS.search(str(error)) and LIST_NOTE not in getattr(error, "__notes__", ()):
        error.add_note(LIST_NOTE)


OF_LISTS = re.compile("'list'|concatenate list|list indices|multiply sequence")  # what Python says of arithmetic with lists
LIST_NOTE = "a list of numbers stays a list for the function, as in plain Python: give an array, np.array([...])"


def check_holomorphic(leaves, holomorphic, where):
    """Raise where a complex input is differentiated without saying how."""
    if not holomorphic and any(dtype_of(leaf).kind == "c" for leaf in leaves):
        raise TypeError(
            f"{where}: an input is complex: give holomorphic=True if f is complex-differentiable; else differentiate by the "
            f"real and imaginary parts (f of two real arrays), along directions (jvp), or a real f with checkpoint.grad"
        )


def check_chunk(chunk, where):
    if chunk is not None and (not issubclass(type(chunk), int | np.integer) or type(chunk) is bool or chunk < 1):
        raise ValueError(f"{where}: chunk is {chunk!r}: give how many directions to compute at once, a positive integer")


def check_scalar(out, where):
    """Raise unless the function returned one number."""
    if isinstance(out, Traced) and type(out.primal) is float:
        return
    if out is None:
        raise TypeError(f"{where}: the function returned None, not a number: return the result (is its return statement missing?)")
    if isinstance(out, tuple | list | dict):
        raise TypeError(f"{where}: the function returned a {type(out).__name__}, not a number: use jacobian, which takes pytrees")
    if shape_of(out) != ():
        raise TypeError(f"{where}: f returns shape {shape_of(out)}: use jacobian, or return one number (np.sum, say)")
    if not isinstance(out, Traced) and getattr(out, "dtype", None) is None and not issubclass(type(out), int | float | complex):
        raise TypeError(f"{where}: the function returned {type(out).__name__} {out!r}, not a number")
    kind = dtype_of(out).kind
    if kind == "c":
        raise TypeError(
            f"{where}: f returns a complex number, which has no gradient: use jacobian (holomorphic=True for a complex argument), or "
            f"return a real number (np.abs, np.real or np.imag of it)"
        )
    if kind in "biu":
        raise TypeError(
            f"{where}: f returns {dtype_of(out)}, whose derivative is zero wherever it has one: return a float. Comparisons, astype(int), "
            f"int() and round() lose the derivative; a constant is 0.0"
        )
