"""A function recorded once on a tape: its value, and sweeps over it; grad, value_and_grad, and what the verbs of reverse mode share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Literal, TypedDict, Unpack, overload

import numpy as np
import optree

from dualad.core.dispatch import dtype_of
from dualad.core.levels import INSTEAD, Level, replacement_of
from dualad.core.traced import Traced
from dualad.dask.arrays import LAZY, like_chunks, to_dask
from dualad.forward.directions import unwrap, wrap
from dualad.forward.push import zero_like
from dualad.forward.seeding import (
    check_scalar,
    chosen_positions,
    curried,
    flatten_arguments,
    flatten_input,
    flatten_output,
    note_lists,
    own_buffers,
    pack_leaf,
    plain,
    scalar_kinds,
    shape_of,
    take_aux,
    unflatten_arguments,
    unflatten_output,
    value_for_caller,
    with_arguments,
)
from dualad.forward.streaming import chunk_size
from dualad.rules.cotangents import is_complex, like_primal
from dualad.support.callers import trim
from dualad.support.hints import Argnums, Aux, Chunk, Decorator, Rest, Result, X
from dualad.verbs.explain_nan import warn_not_finite

from .tape import Tape, Var


class GradFlags(TypedDict, total=False):
    """Keywords of `grad` on which no type depends."""

    nan_safe: bool
    check_finite: bool


class GradOptions(GradFlags, total=False):
    """All of them."""

    has_aux: bool


# --- public -----------------------------------------------------------------------------------------------------------------


@overload
def grad(f: None = None, argnums: Argnums = 0, **options: Unpack[GradOptions]) -> Decorator: ...
@overload
def grad(
    f: Callable[Concatenate[X, Rest], tuple[Any, Aux]], argnums: Literal[0] = 0, *, has_aux: Literal[True], **flags: Unpack[GradFlags]
) -> Callable[Concatenate[X, Rest], tuple[X, Aux]]: ...
@overload
def grad(
    f: Callable[Concatenate[X, Rest], Any], argnums: Literal[0] = 0, *, has_aux: Literal[False] = False, **flags: Unpack[GradFlags]
) -> Callable[Concatenate[X, Rest], X]: ...
@overload
def grad(
    f: Callable[..., Any], argnums: tuple[int, ...], *, has_aux: Literal[False] = False, **flags: Unpack[GradFlags]
) -> Callable[..., tuple[Any, ...]]: ...
@overload
def grad(f: Callable[..., Any], argnums: Argnums, **options: Unpack[GradOptions]) -> Callable[..., Any]: ...
@curried
def grad(
    f: Callable[..., Any], argnums: Argnums = 0, *, nan_safe: bool = False, check_finite: bool = False, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of `f`, a function that returns one number, in reverse mode.

    Parameters
    ----------
    f : function that returns one number (shape ()); its arguments are numbers, arrays or pytrees of them.
        Without it `grad` returns a decorator: ``@grad(argnums=1)``.
    argnums : position of the argument to differentiate, or a tuple of positions.
    nan_safe : see `vjp`.
    check_finite : warn if the value or the gradient has an infinite or NaN element, once, and name the operation and its line that first
        gave one (in a `chain` the step, too): for that `f` is evaluated again. Operations that `jit` compiles around it are not checked.
    has_aux : `f` returns ``(result, aux)``; the gradient function returns ``(gradient, aux)``.

    Returns
    -------
    function with f's arguments; its result has the structure and shapes of the argument, a tuple of them for a tuple.

    Raises
    ------
    TypeError
        Where f returns an array or a pytree (use `jacobian`), or a complex number, an integer or a boolean.

    Examples
    --------
    >>> import numpy as np
    >>> from checkpoint import grad
    >>> grad(lambda x: np.sum(x**2))(np.array([1.0, 3.0]))
    array([2., 6.])
    """
    return gradient_function(f, argnums, "grad", nan_safe, has_aux, check_finite=check_finite)


@overload
def value_and_grad(f: None = None, argnums: Argnums = 0, **options: Unpack[GradOptions]) -> Decorator: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[X, Rest], Result], argnums: Literal[0] = 0, **options: Unpack[GradOptions]
) -> Callable[Concatenate[X, Rest], tuple[Result, X]]: ...
@overload
def value_and_grad(
    f: Callable[..., Result], argnums: tuple[int, ...], **options: Unpack[GradOptions]
) -> Callable[..., tuple[Result, tuple[Any, ...]]]: ...
@overload
def value_and_grad(f: Callable[..., Result], argnums: int, **options: Unpack[GradOptions]) -> Callable[..., tuple[Result, Any]]: ...
@curried
def value_and_grad(
    f: Callable[..., Any], argnums: Argnums = 0, *, nan_safe: bool = False, check_finite: bool = False, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes ``(f(x), gradient)`` in reverse mode.

    Parameters
    ----------
    f, argnums, nan_safe, check_finite : see `grad`.
    has_aux : `f` returns ``(result, aux)``; the function returns ``((result, aux), gradient)``.

    Returns
    -------
    function with f's arguments, which returns what f does and the gradient: see `grad`.

    Raises
    ------
    TypeError
        Where f returns an array or a pytree (use `vjp` or `jacobian`), or a complex number, an integer or a boolean.

    Examples
    --------
    >>> import numpy as np
    >>> from checkpoint import value_and_grad
    >>> value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 3.0]))
    (np.float64(10.0), array([2., 6.]))
    """
    return gradient_function(f, argnums, "value_and_grad", nan_safe, has_aux, valued=True, check_finite=check_finite)


# --- parts ------------------------------------------------------------------------------------------------------------------


def size_of(x: Any) -> int:
    return int(np.prod(shape_of(x), dtype=int))


def units_of(x: Any, start: int, stop: int) -> np.ndarray:
    """Return some of the unit directions of a leaf, along a leading axis."""
    units = np.zeros((stop - start, size_of(x)), dtype_of(x) if dtype_of(x).kind in "fc" else float)
    units[np.arange(stop - start), np.arange(start, stop)] = 1.0
    return units.reshape(stop - start, *shape_of(x))


def dtype_by(value: Any, leaf: Any) -> np.dtype:
    return np.result_type(dtype_of(value), dtype_of(leaf)) if dtype_of(value).kind == "c" else dtype_of(leaf)


def gradient_function(
    f: Callable[..., Any], argnums: Any, where: str, nan_safe: bool, has_aux: bool, valued: bool = False, check_finite: bool = False
) -> Callable[..., Any]:
    """Return the function that computes the gradient of f, aux and the value where they are asked for; errors name the verb `where`."""

    @wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        try:
            positions, single = chosen_positions(args, argnums, where)
            of_primals = with_arguments(f, args, kwargs, positions)
            primals = args if len(args) == len(positions) == 1 else tuple(args[i] for i in positions)
            recording = Recording(of_primals, primals, where, nan_safe, has_aux, check_scalar)
            try:
                (value,) = recording.values
                gradients = recording.pull_leaves([1.0 if issubclass(type(value), float) else np.ones_like(value)[()]])
            except BaseException:
                recording.release()
                raise
        except Exception as error:
            trim(error)
            raise
        gradient = gradients[0] if single else gradients
        if check_finite:
            warn_not_finite(where, "value or the gradient", (recording.value, gradient), of_primals, *primals)
        if valued:
            return ((recording.value, recording.aux), gradient) if has_aux else (recording.value, gradient)
        return (gradient, recording.aux) if has_aux else gradient

    return differentiated


class Recording:
    """A function recorded once: its value, and sweeps over its tape."""

    def __init__(
        self,
        f: Callable[..., Any],
        primals: Any,
        where: str,
        nan_safe: bool,
        has_aux: bool,
        check: Callable[[Any, str], None] | None = None,
    ) -> None:
        self.where = where
        self.aux: Any = None
        self.leaves, self.structure = flatten_arguments(primals, where, None, empty=True)
        self.python_scalars, weak = scalar_kinds(primals)
        if INSTEAD:
            f = replacement_of(f, self.leaves)
        self.tape = Tape(nan_safe, weak)
        if where in ("jacobian", "jacobian_rows"):
            self.tape.pulled_in_lanes = True
        try:
            with self.tape as tape:
                inputs = tape.inputs(self.leaves)
                self.inputs = list(range(len(inputs)))
                try:
                    out = f(*unflatten_arguments(self.structure, inputs))
                except TypeError as error:
                    note_lists(error, self.structure)
                    raise
                if has_aux:
                    out, self.aux = take_aux(out, has_aux, where)
                if check is not None:
                    check(out, where)
                outs, self.out_structure = flatten_output(out, where)
                self.nodes, self.values = [], []
                for leaf in outs:
                    self.values.append(plain(value_for_caller(leaf, tape), self.python_scalars))  # first: a view is brought up to date
                    self.nodes.append(leaf.node if type(leaf) is Var and leaf.level is tape else None)
                if has_aux:
                    self.aux = optree.tree_map(lambda leaf: to_dask(value_for_caller(pack_leaf(leaf), tape)), self.aux)
        except BaseException:
            self.release()
            raise

    @property
    def value(self) -> Any:
        return unflatten_output(self.out_structure, self.values)

    def release(self) -> None:
        """Free what the chains on the tape have saved."""
        for sweep in getattr(self.tape, "sweeps", ()):
            sweep.release()

    def pull(self, g: Any) -> tuple[Any, ...]:
        """Return the cotangents of the arguments, a tuple."""
        leaves, structure = flatten_input(g, self.where, "the cotangent")
        if structure != self.out_structure:
            raise TypeError(
                f"{self.where}: the cotangent has the structure {structure}, the value {self.out_structure}: they must be equal"
            )
        for leaf, value in zip(leaves, self.values, strict=True):
            if shape_of(leaf) != shape_of(value):
                raise ValueError(f"{self.where}: a cotangent has shape {shape_of(leaf)}, its value {shape_of(value)}: they must be equal")
            if is_complex(leaf) and not is_complex(value):
                raise TypeError(
                    f"{self.where}: a cotangent is complex and its value real: pull its real and imaginary parts back one by one"
                )
        return self.pull_leaves(list(map(like_primal, leaves, self.values)))

    def pull_leaves(self, leaves: list[Any]) -> tuple[Any, ...]:
        if LAZY.met:
            leaves = list(map(like_chunks, leaves, self.values))
        pulled = self.tape.pull(list(zip(self.nodes, leaves, strict=True)), self.inputs)
        for i, (g, leaf) in enumerate(zip(pulled, self.leaves, strict=True)):
            if not (type(g) is np.ndarray is type(leaf) and g.dtype is leaf.dtype):
                pulled[i] = self.finish(g, leaf)
        return tuple(unflatten_arguments(self.structure, own_buffers(pulled, leaves)))

    def finish(self, g: Any, leaf: Any) -> Any:
        """Return a cotangent as users get it: of the primal's dtype, their own; zeros where nothing depends on it."""
        if g is None:
            return plain(zero_like(leaf), self.python_scalars)
        if type(leaf) is np.ndarray:
            g = like_primal(g, leaf)
            return g if isinstance(g, Traced) else np.asarray(g)
        g = g if issubclass(type(g), float) else like_primal(g, leaf)
        return plain(g[()] if type(g) is np.ndarray and g.ndim == 0 else g, self.python_scalars)

    def rows(self, k: int, value: Any, chunk: Chunk) -> list[Any]:
        """Return the Jacobian of output leaf k by each input leaf, pulling back K unit cotangents at a time."""
        shape, size = shape_of(value), size_of(value)
        blocks = [np.zeros((size, *shape_of(leaf)), dtype_by(value, leaf)) for leaf in self.leaves]
        if self.nodes[k] is not None and size:
            lanes = self.lanes(value, chunk)
            for start in range(0, size, lanes):
                stop = min(start + lanes, size)
                for i, rows in enumerate(self.block_of_rows(k, value, start, stop)):
                    if rows is not None:
                        if type(rows) is not np.ndarray and type(blocks[i]) is np.ndarray:
                            blocks[i] = np.zeros_like(rows[:1]) + blocks[i]
                        blocks[i][start:stop] = rows
        return [np.reshape(block, (*shape, *shape_of(leaf)))[()] for block, leaf in zip(blocks, self.leaves, strict=True)]

    def cheaper_forward(self) -> bool:
        """Return whether jit traces a function of more outputs than inputs: a compiled row costs about as much as a column."""
        fewer = sum(map(size_of, self.leaves)) < sum(map(size_of, self.values))
        return fewer and any(isinstance(leaf, Traced) and leaf.level.abstract for leaf in self.leaves)

    def lanes(self, value: Any, chunk: Chunk) -> int:
        """Return how many cotangents of a value to pull back at once; where that is compiled all of them, not code for each chunk."""
        if chunk is None and isinstance(value, Traced) and value.level.abstract:
            return max(1, value.size)
        largest = max(dtype_of(x).itemsize * size_of(x) for x in (value, *self.leaves))
        return chunk_size(size_of(value), largest, chunk)

    def block_of_rows(self, k: int, value: Any, start: int, stop: int) -> list[Any]:
        """Return some rows of the Jacobian of output leaf k by each input leaf, None for zeros."""
        return self.pull_units([(self.nodes[k], units_of(value, start, stop))], stop - start)

    def pull_units(self, pairs: list[tuple[Any, Any]], lanes: int) -> list[Any]:
        """Return the cotangents of the inputs for K cotangents of each of some nodes, as plain (K, ...) buffers.
        A complex output of a real input takes two sweeps: Re(1 dy) and Re(-1j dy) = Im(dy)."""
        sweeps: list[list[Any]] = []
        mixed = any(units.dtype.kind == "c" for _, units in pairs) and any(dtype_of(leaf).kind != "c" for leaf in self.leaves)
        with Level(lanes) as level:
            for factor in (1.0, -1j)[: 2 if mixed else 1]:
                pulled = self.tape.pull([(node, wrap(units * factor, level)) for node, units in pairs], self.inputs)
                pairs_of_leaves = zip(pulled, self.leaves, strict=True)
                sweeps.append([None if g is None else unwrap(like_primal(g, leaf), level, shape_of(leaf)) for g, leaf in pairs_of_leaves])
        return [
            first if not mixed or first is None or dtype_of(leaf).kind == "c" else first + 1j * sweeps[1][i]
            for i, (first, leaf) in enumerate(zip(sweeps[0], self.leaves, strict=True))
        ]

    def block_of_columns(self, start: int, stop: int) -> Any:
        """Return some columns of the Jacobian of the only output by the only input, along the first axis; None for zeros."""
        (leaf,), (node,), (value,) = self.leaves, self.nodes, self.values
        if node is None:
            return None
        with Level(stop - start) as level:
            t = self.tape.push([(self.inputs[0], wrap(units_of(leaf, start, stop), level))], [node])[0]
            return unwrap(t, level, shape_of(value))

    def push(self, tangents: Any) -> Any:
        """Return the tangent of the value along tangents of the arguments."""
        leaves, structure = flatten_input(tangents, self.where, "tangents")
        if LAZY.met:
            leaves = list(map(like_chunks, leaves, self.leaves))
        inputs: Any = (0.0,) * self.structure if type(self.structure) is int else None
        expected = self.structure if inputs is None else optree.tree_structure(inputs)
        if structure != expected or [shape_of(t) for t in leaves] != [shape_of(x) for x in self.leaves]:
            raise TypeError(
                f"{self.where}: push was given tangents of structure {structure} and shapes {[shape_of(t) for t in leaves]}; "
                f"the arguments have {expected} and {[shape_of(x) for x in self.leaves]}"
            )
        outputs = [node for node in self.nodes if node is not None]
        pushed = iter(self.tape.push(list(zip(self.inputs, leaves, strict=True)), outputs))
        results = [None if node is None else next(pushed) for node in self.nodes]
        results = [
            zero_like(value) if t is None else np.broadcast_to(t, shape_of(value)).copy()[()] if shape_of(t) != shape_of(value) else t
            for t, value in zip(results, self.values, strict=True)
        ]
        return optree.tree_unflatten(self.out_structure, [to_dask(plain(t, self.python_scalars)) for t in results])
