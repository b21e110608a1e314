"""map_gradients: the values and gradients of many members, on executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import optree

from dualad.forward.seeding import check_function, chosen_positions
from dualad.jit.jit import Jit
from dualad.jit.members import Members, results_of
from dualad.support.callers import trim, trimmed
from dualad.support.checks import flags
from dualad.support.executors import Crew, Unpicklable, check_executor
from dualad.support.hints import Argnums
from dualad.support.progress import Bar

from .recording import value_and_grad

Options: TypeAlias = dict[str, Any]  # of value_and_grad
Outcome: TypeAlias = tuple[int, tuple[Any, Any] | Exception]  # number of a member; its value and gradient, or why it failed


# --- public -----------------------------------------------------------------------------------------------------------------


class MemberError(RuntimeError):
    """Some members of an ensemble failed; the results of the others are in `values` and `gradients`.

    Attributes
    ----------
    values, gradients : lists in the order of the members; None where one failed.
    errors : dict of what was raised, by the numbers of the members.

    Examples
    --------
    >>> from checkpoint import MemberError, map_gradients
    >>> try:
    ...     map_gradients(lambda x: x**2 if x < 3.0 else x.missing, [1.0, 3.0, 2.0])
    ... except MemberError as error:
    ...     print(error.gradients, list(error.errors))
    [2.0, None, 4.0] [1]
    """

    def __init__(self, message: str, values: list[Any], gradients: list[Any], errors: dict[int, BaseException]) -> None:
        super().__init__(message)
        self.values, self.gradients, self.errors = values, gradients, errors

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (*self.args, self.values, self.gradients, self.errors)


@trimmed
def map_gradients(
    f: Callable[..., Any],
    xs: Iterable[Any],
    *args: Any,
    argnums: Argnums = 0,
    executor: Executor | None = None,
    progress: bool = False,
    nan_safe: bool = False,
) -> tuple[list[Any], list[Any]]:
    """Compute the value and the gradient of `f` at each of `xs`, in reverse mode.

    Parameters
    ----------
    f : function ``f(x, *args)`` that returns one number; it may run chains.
    xs : the members: numbers, arrays or pytrees of them.
    args : further arguments, the same for every member.
    argnums : position of the argument to differentiate, or a tuple of positions: 0 is the member. For shared parameters in `args`, the
        results are the gradients of single examples.
    executor : computes the members, each in a task of its own: processes for NumPy code (f and the arguments are pickled), threads for
        compiled code; ``client.get_executor()`` of dask.distributed for many machines. Without one the members of a compiled f,
        ``jit(f)``, that are alike are computed in one compiled loop (see its `map`), which ``jit(f, threads=2)`` shares out; those of
        any other f are computed one by one.
    progress : show a bar (needs tqdm).
    nan_safe : see `grad`.

    Returns
    -------
    (values, gradients) : lists in the order of `xs`.

    Raises
    ------
    MemberError
        Where a member fails. The others are computed all the same; the error names the members, and holds all results.
    TypeError
        Where `xs` is no sequence, or the executor is none, or cannot pickle f.

    Examples
    --------
    >>> from checkpoint import map_gradients
    >>> map_gradients(lambda x, p: p * x**2, [1.0, 2.0, 3.0], 0.5)
    ([0.5, 2.0, 4.5], [1.0, 2.0, 3.0])

    Of a loss by its parameters, for each example:

    >>> loss = lambda example, slope: (slope * example[0] - example[1]) ** 2
    >>> map_gradients(loss, [(1.0, 2.0), (2.0, 3.0)], 1.0, argnums=1)[1]
    [-2.0, -4.0]
    """
    check_function(f, "map_gradients")
    flags("map_gradients", nan_safe=nan_safe)
    check_executor(executor, "map_gradients")
    if not isinstance(xs, Iterable) or isinstance(xs, dict | str) or (hasattr(xs, "ndim") and not xs.ndim):
        raise TypeError(f"map_gradients: xs is {type(xs).__name__} {xs!r}: give the members, a list of what f takes as its first argument")
    members = list(xs)
    chosen_positions((None, *args), argnums, "map_gradients")
    here: Callable[..., Iterator[Outcome]] = compiled_outcomes if isinstance(f, Jit) else separate_outcomes
    compute = here if executor is None else partial(on_executor, executor)
    results: list[Any] = [(None, None)] * len(members)
    errors: dict[int, BaseException] = {}
    with Bar(progress, "map_gradients", "member") as bar:
        bar.start(len(members))
        for k, outcome in compute(f, members, args, {"argnums": argnums, "nan_safe": nan_safe}):
            if isinstance(outcome, Exception):
                errors[k] = outcome
            else:
                results[k] = outcome
            bar.advance(1)
    values, gradients = ([result[i] for result in results] for i in (0, 1))
    if errors:
        first = min(errors)
        raise MemberError(summary(errors, len(members)), values, gradients, dict(sorted(errors.items()))) from errors[first]
    return values, gradients


# --- parts ------------------------------------------------------------------------------------------------------------------


def one_member(f: Callable[..., Any], x: Any, args: tuple[Any, ...], options: Options) -> Any:
    return value_and_grad(f, **options)(x, *args)


def compiled_outcomes(f: Jit[..., Any], members: list[Any], args: tuple[Any, ...], options: Options) -> Iterator[Outcome]:
    """Yield the number of each member and its outcome, computed in one compiled loop where all are alike and none fails."""
    kept: dict[tuple[Any, ...], Jit[..., Any]] = vars(f).setdefault("gradients", {})
    positions, single = chosen_positions((None, *args), options["argnums"], "map_gradients")
    key = options["nan_safe"], single, *positions
    if key not in kept:
        kept[key] = Jit(value_and_grad(f, **options), *f.options)
    made = None
    if (stacked := stacked_alike(members)) is not None:
        given = {0: stacked, **dict(enumerate(args, 1))}
        with suppress(Exception):  # which is told of the member
            made = Members(kept[key], given, {0}, len(members), lambda k: ((members[k], *args), {})).together()
    if made is None:
        yield from separate_outcomes(f, members, args, options)
        return
    leaves, entry = made
    outputs = entry.compiled.program.outputs[: len(leaves)]
    values, *gradients = (results_of(leaf, out, 0, len(members)) for leaf, out in zip(leaves, outputs, strict=True))
    first = [leaf for i in positions for leaf in optree.tree_leaves((members[0], *args)[i])]  # of the same types in all
    alike = [[like_leaf(g, leaf) for g in column] for column, leaf in zip(gradients, first, strict=True)]
    yield from enumerate(map(entry.structure.unflatten, zip(values, *alike, strict=True)))


def like_leaf(g: Any, leaf: Any) -> Any:
    """Return a number's cotangent as what the number is to Python; a compiled function's are NumPy's."""
    return np.asarray(g) if issubclass(type(leaf), np.ndarray) else g.item() if type(leaf) in (float, complex) and hasattr(g, "item") else g


def stacked_alike(members: list[Any]) -> Any:
    """Return members of one structure and leaves of the same types, shapes and dtypes as one tree of stacked leaves; None of others."""
    if not members:
        return None
    flat = [optree.tree_flatten(member) for member in members]
    columns = list(zip(*(leaves for leaves, _ in flat), strict=False))
    kinds = [{(type(leaf), getattr(leaf, "shape", ()), getattr(leaf, "dtype", None)) for leaf in column} for column in columns]
    plain = all(issubclass(type(leaf), np.ndarray | np.generic | float | complex) for leaf in flat[0][0])
    if not plain or any(structure != flat[0][1] for _, structure in flat) or any(len(kind) > 1 for kind in kinds):
        return None
    return optree.tree_unflatten(flat[0][1], [np.array(column) for column in columns])


def separate_outcomes(f: Callable[..., Any], members: list[Any], args: tuple[Any, ...], options: Options) -> Iterator[Outcome]:
    """Yield the number of each member and its outcome, computed here."""
    for k, x in enumerate(members):
        yield k, outcome_of(one_member, f, x, args, options)


def outcome_of(compute: Callable[..., Any], *given: Any) -> Any:
    """Return the result of a function, or its error."""
    try:
        return compute(*given)
    except Unpicklable:
        raise
    except Exception as error:
        trim(error)
        return error


def on_executor(pool: Executor, f: Callable[..., Any], members: list[Any], args: tuple[Any, ...], options: Options) -> Iterator[Outcome]:
    """Yield the number of each member and its outcome, as they are computed elsewhere."""
    numbers: dict[Future[Any], int] = {}
    waiting = iter(enumerate(members))
    with Crew(pool, "map_gradients", {"the function": f, "the members and arguments": (members, args)}) as crew:
        most = 2 * crew.workers
        while True:
            while len(numbers) < most and (member := next(waiting, None)) is not None:
                k, x = member
                try:
                    numbers[crew.submit(f"member {k}", one_member, f, x, args, options)] = k
                except RuntimeError as error:  # the executor takes no more work
                    yield k, error
            if not numbers:
                return
            done, _ = wait(numbers, return_when="FIRST_COMPLETED")
            for future in sorted(done, key=numbers.__getitem__):
                yield numbers.pop(future), outcome_of(crew.result, future)


def summary(errors: Mapping[int, BaseException], count: int) -> str:
    numbers = sorted(errors)
    first = errors[numbers[0]]
    shown = ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")
    return (
        f"map_gradients: member{'s' * (len(numbers) > 1)} {shown} failed ({type(first).__name__}: {first}), "
        f"{count - len(numbers)} of {count} are done: see the error's values and gradients"
    )
