"""chain: the loop that a program differentiates through.

On plain values it is a loop, on Duals a loop in forward mode (`eager`), on Vars one entry of the tape (`entry`): a `Sweep` runs it, saves
what its schedule says, and pulls the cotangent back step by step, each step on a small tape of its own (`recorded`). Steps that are
compiled run in segments (`compiled`); inside of code that is compiled the whole chain is one operation (`traced`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
import optree

from dualad.core.dispatch import highest
from dualad.core.levels import errors_as_in
from dualad.dask.arrays import LAZY
from dualad.forward.dual import Dual
from dualad.forward.seeding import check_function
from dualad.jit.compiled import BACKENDS, without_llvm
from dualad.jit.jit import Jit
from dualad.support.byte_sizes import parse_bytes
from dualad.support.callers import trim
from dualad.support.checks import flags
from dualad.support.hints import X

from ..reverse.tape import Tape, Var, make_var
from ..schedules import Schedule
from ..storage import Storage
from ..support.checks import check_call, check_until, whole_number
from ..sweep.stats import Stats, filled_stats
from ..sweep.sweep import check_saved
from .eager import run, warn_of_result
from .recorded import record
from .spec import BY_ZEROS, IN_MEMORY, Loop, StepSpec, is_floating, one_level_down


class Options(TypedDict, total=False):
    """The keywords of `chain` besides `outputs`, for type checkers."""

    steps: int | None
    inputs: Any
    schedule: Schedule | None
    storage: Storage | None
    memory: float | str | None
    stats: Stats | None
    until: Callable[[int, Any], Any] | None
    max_steps: int | None
    progress: bool
    check: bool
    check_finite: bool
    token: Any
    block: int | None


Steps = Callable[..., Any] | Sequence[Callable[..., Any]]


# --- public -----------------------------------------------------------------------------------------------------------------


@overload
def chain(step: Steps, state: X, *params: Any, outputs: Literal[False] = False, **options: Unpack[Options]) -> X: ...
@overload
def chain(step: Steps, state: X, *params: Any, outputs: Literal[True], **options: Unpack[Options]) -> tuple[X, Any]: ...
@overload
def chain(step: Steps, state: Any, *params: Any, outputs: bool, **options: Unpack[Options]) -> Any: ...
def chain(
    step: Steps,
    state: Any,
    *params: Any,
    steps: int | None = None,
    inputs: Any = None,
    outputs: bool = False,
    schedule: Schedule | None = None,
    storage: Storage | None = None,
    memory: float | str | None = None,
    stats: Stats | None = None,
    until: Callable[[int, Any], Any] | None = None,
    max_steps: int | None = None,
    progress: bool = False,
    check: bool = False,
    check_finite: bool = False,
    token: Any = None,
    block: int | None = None,
) -> Any:
    """Repeat a step, so that derivatives of long loops need only O(log N) saved states.

    An ordinary loop on plain values and a loop in forward mode on Duals. In reverse mode it is one operation, whose states are
    saved and computed again as `schedule` says. Several chains in a program, a chain inside other differentiated code, a
    chain of a chain, and forward over reverse (`hvp`) through a chain all work.

    Parameters
    ----------
    step : function ``step(k, state, *params) -> state``, or a list of them (layers), one for each step. k is the absolute index of the
        step, on every replay too. The step must return the structure, shapes and dtypes it was given, and the same values whenever it is
        called with the same arguments. What is differentiated must come in through `state`, `inputs` and `params`; the step may change its
        state in place.
    state : x_0, a pytree of numbers and arrays. Non-float leaves (integers, None, strings) are passed on and have no derivative.
    params : passed to every step; their gradients are summed over the steps. They are copied, so that both sweeps see the same ones, and a
        step that changes them raises.
    steps : how many steps N. Leave it out if `until` ends the loop, or if the length of `inputs` or of a list of steps gives it.
    inputs : pytree of arrays with a leading axis of length N. Row k goes to step k, as ``step(k, state, row, *params)``. Its gradient is
        written row by row.
    outputs : the step returns ``(state, out)``, and chain ``(x_N, outs)`` with the outs stacked on a leading axis: for losses along the
        trajectory. Their cotangents enter at the right step.
    schedule : which states are saved; by default ``CTZ()``: at most ceil(log2 N) + 1. For a compiled step see `block`.
    storage : where saved states live: ``Memory()``, the default, or ``Disk()``; two tiers with ``Tiered``. With ``Disk(path, resume=True)``
        the same call resumes where a killed process stopped, with its outs and the gradients by inputs.
    memory : instead of a schedule: a limit such as ``"2 GB"`` for all that the chain holds, saved states, parameters, inputs, outs,
        gradients and what a step and its pull take, for which `plan` chooses one (see ``stats.reason``). The last is measured in a trial of
        step 0 (with ``resume=True`` estimated, so that another process finds the same schedule). Not counted: the rest of the program, and
        the one or two megabytes that compiling a step takes once.
    stats : filled in place: steps, advances, pulls, saves, loads, peak_states, peak_bytes, seconds, reason.
    until : function ``until(k, state) -> bool``, asked before step k, on plain values and in the first sweep only; True ends the loop.
    max_steps : with `until`: raise if it is still not true after so many steps.
    progress : show a bar (needs tqdm): in reverse mode one for each of the two sweeps.
    check : compare every recomputed step with the first sweep, bit for bit, and name the first that differs. Recorded steps of a compiled
        function that runs them one by one are compared up to rounding. On plain values and in forward mode every step is evaluated twice
        for it.
    check_finite : warn if the result has an infinite or NaN element, once, and name the step, the operation and the line that first gave
        one: for that the chain is evaluated again, in Python.
    token : with ``Disk(path, resume=True)``: what else identifies the call, if its results cannot: a version, a seed, the name of a file
        that the steps read.
    block : with a step compiled by `dualad.jit`: how many steps are pulled back in one compiled call. To the schedule a block is one step,
        and its inner states are recomputed in the pull. By default chosen together with the number of saved states, for ``memory=``, or
        else for 256 KiB or what CTZ's states take, if that is more; a given schedule stays as it is. Where the states of all steps fit,
        those inside of blocks are kept in the first sweep.

    Returns
    -------
    pytree : x_N; with `outputs` the pair (x_N, outs).

    Raises
    ------
    TypeError, ValueError
        Where an argument is of the wrong kind; where the step returns another structure, shape or dtype than it was given
        (naming the leaf), or closes over a traced value (whose gradient would be lost); where a step changes its parameters.
    RuntimeError
        Where a recomputed step gives another state than in the first sweep: it draws random numbers or counts its calls, or data that
        it reads besides its arguments has changed.

    Notes
    -----
    In reverse mode step 0 runs once on traced values before the first sweep, so that operations without a derivative fail at
    once, and a value that a step stores in a list or attribute is a traced one, which raises when it is used. Results of recomputed
    steps are compared with those of the first sweep: small states completely, of larger arrays
    1024 elements at each step.

    Where the step is a function compiled by `dualad.jit` (to machine code), the steps between two actions of the schedule are one compiled
    call, also on plain values and in forward mode; `until` is traced with it. The gradient has the same bits under every schedule, block
    and storage. Functions without a compiled form (yours with a rule, say) are called in Python from the compiled steps;
    ``stats.reason`` names them.

    On plain values and in forward mode no state is saved: `schedule`, `storage`, `memory`, `block` and `token` are checked and not used.

    Inside of a function that `dualad.jit` compiles, a chain of a known number of steps is one operation of the program. Its derivatives
    keep the states of all steps where they fit into `memory` (64 MB if it is not given), else about the square root of their number.
    There `schedule`, `block`, a storage in memory, `check`, `check_finite` and `progress` are ignored; a durable storage raises.

    Examples
    --------
    The derivative of x -> x/3 + 2 repeated 1000 times, at most 11 states saved:

    >>> from checkpoint import Stats, chain, grad
    >>> stats = Stats()
    >>> def simulate(x, c):
    ...     return chain(lambda k, x, c: x / 3 + c, x, c, steps=1000, stats=stats)
    >>> grad(simulate, argnums=(0, 1))(1.0, 2.0)
    (0.0, 1.5)
    >>> stats.peak_states
    11

    A loss along the trajectory, of an input at every step:

    >>> import numpy as np
    >>> def loss(x, u):
    ...     _, path = chain(lambda k, x, u: (0.5 * x + u, x * x), x, inputs=u, outputs=True)
    ...     return np.sum(path)
    >>> grad(loss, argnums=(0, 1))(1.0, np.zeros(3))
    (np.float64(2.625), array([1.25, 0.5 , 0.  ]))
    """
    context = copy_context()
    try:
        step, layers, source = as_step(step)
        if until is not None or max_steps is not None:
            max_steps = check_until(until, max_steps, "chain")
        steps = known_length(steps, layers, inputs, until)
        if not {bool}.issuperset(map(type, (outputs, check, check_finite, progress))):
            given = {"outputs": outputs, "check": check, "check_finite": check_finite, "progress": progress}
            outputs, check, check_finite, progress = flags("chain", **given)
        if stats is not None:
            filled_stats(stats, "chain")
        storage = IN_MEMORY if storage is None else storage
        if not (schedule is None and storage is IN_MEMORY and token is None):
            check_saved(BY_ZEROS if schedule is None else schedule, storage, token, check, steps, "chain")
        if memory is not None:
            if schedule is not None:
                raise TypeError(f"chain: schedule={schedule!r} and memory={memory!r} are both given: memory= chooses the schedule")
            parse_bytes(memory, "chain", "memory")
        if block is not None:
            block = whole_number(block, where="chain", argument="block", least=1, hint="give the number of steps of a compiled call")
            if not isinstance(source, Jit):
                raise TypeError("chain: block= requires a step compiled with dualad.jit: chain(dualad.jit(step), ...)")
        if outputs and steps == 0:
            raise ValueError("chain: outputs=True needs at least one step: the structure of the outs is known only from a step")
        spec = StepSpec(step, source, state, params, inputs, outputs)
        if LAZY in spec.levels:
            raise TypeError(
                "chain: a state, parameter or input is a dask array: chains run on plain arrays. Write the loop in Python (it is short "
                "where arrays are this large), or compute the array first"
            )
        loop = Loop(steps, until, max_steps, stats, progress, check, schedule, storage, memory, token, block)
        result = run_spec(spec, loop)
        if check_finite:
            warn_of_result(spec, result, loop)
        return result
    except Exception as error:
        trim(error)
        raise
    except BaseException:
        errors_as_in(context)
        raise


# --- parts ------------------------------------------------------------------------------------------------------------------


def run_spec(spec: StepSpec, loop: Loop) -> Any:
    top, abstract, tapes = highest(spec.traced), False, 0
    for level in spec.levels:
        abstract = abstract or level.abstract
        tapes += isinstance(level, Tape)
    if abstract:
        from .traced import traced_loop

        result = traced_loop(spec, loop)
        if result is not None:
            return result
        loop = loop._replace(check=False)  # symbols have no data
    elif type(top) is Dual and tapes:
        if loop.storage.durable:
            raise ValueError(
                f"chain: {loop.storage!r} cannot resume the gradient of a tangent (grad of a function that calls jvp). Use hvp (forward "
                "over reverse), or Disk(path) without resume=True"
            )
        from .other_leaves import with_tangents

        other = with_tangents(spec, top.level, loop.until)
        if other is not None:
            return other.results(run_spec(other.spec, loop._replace(until=other.until)))
    tape = top.level if type(top) is Var else None
    if tape is not None:
        active = False
        for leaf in spec.traced:
            active = active or (type(leaf) is Var and leaf.level is tape and leaf.node is not None)
        if not active:
            return of_constants(spec, tape, loop)
        if not tape.alive:
            tape.check()
        if tapes > 1:
            raise TypeError(
                "chain: reverse mode over reverse mode through a chain would keep every state of the inner sweep. For "
                "second derivatives use hvp (forward over reverse), or dualad.jacobian(grad(f))"
            )
    result, reason = run_compiled_spec(spec, tape, loop) if isinstance(spec.source, Jit) else (None, "")
    if reason is None:
        return result
    if tape is not None:
        return record(spec, tape, loop, reason, run_spec)
    result = run(spec, top, loop)
    if loop.stats is not None:
        loop.stats.reason = reason
    return result


def as_step(step: Any) -> tuple[Callable[..., Any], int | None, Any]:
    """Return the step, how many layers it was made of (None for a function), and what was given: layers of one function are one."""
    if isinstance(step, list | tuple):
        layers = tuple(step)
        for layer in layers:
            check_step(layer, "a layer of step")
        if layers and all(layer is layers[0] for layer in layers):
            return layers[0], len(layers), layers[0]
        return (lambda k, *args: layers[k](k, *args)), len(layers), layers
    check_step(step, "the first argument")
    return step, None, step


def check_step(step: Any, argument: str) -> None:
    """Raise unless a step is a function. Of ufuncs alone the call is checked before it is made: they would write into the state."""
    check_function(step, "chain", argument)
    if isinstance(step, np.ufunc):
        check_call(step, "step(k, state)", "chain")


def known_length(steps: Any, layers: int | None, inputs: Any, until: Any) -> int | None:
    """Return the number of steps; None where the predicate finds it. Lengths that contradict each other raise."""
    if until is not None and steps is not None:
        raise TypeError("chain: give either steps=N or, if N is not known before, until=predicate")
    if steps is not None and (type(steps) is not int or steps < 0):
        steps = whole_number(steps, where="chain", argument="steps", least=0, hint="give the number of steps")
    lengths = {} if steps is None else {"steps": steps}
    if layers is not None:
        lengths["the list of steps"] = layers
    for path, leaf in () if inputs is None else zip(*optree.tree_flatten_with_path(inputs)[:2], strict=True):
        name = "inputs" + "".join(f"[{part!r}]" for part in path)
        if np.ndim(leaf) == 0:
            raise TypeError(
                f"chain: {name} is {leaf!r}: give arrays with a leading axis, one row for each step (np.array(inputs) of a list)"
            )
        lengths[name] = np.shape(leaf)[0]
    if len(set(lengths.values())) > 1:
        raise ValueError("chain: the lengths differ: " + ", ".join(f"{name} {n}" for name, n in lengths.items()))
    if until is None and not lengths:
        raise TypeError(
            "chain: give the number of steps by keyword, steps=N (positional arguments after the state are params), or, if it is not "
            "known in advance, until=predicate"
        )
    if until is not None and lengths:
        raise TypeError(
            f"chain: until= is for an unknown number of steps, but {next(iter(lengths))} gives the number: leave out one of the two"
        )
    return next(iter(lengths.values()), None)


def of_constants(spec: StepSpec, tape: Tape, loop: Loop) -> Any:
    """Run a chain of constants of a tape one level down: it has nothing to pull back, and saves no state."""
    groups = [one_level_down(leaves, tape)[0] for leaves in (spec.state, spec.params, spec.inputs)]
    result = run_spec(spec.with_leaves(*groups), loop._replace(storage=IN_MEMORY, token=None))
    return optree.tree_map(lambda leaf: make_var(leaf, None, tape) if is_floating(leaf) else leaf, result)


def run_compiled_spec(spec: StepSpec, tape: Tape | None, loop: Loop) -> tuple[Any, str | None]:
    """Run the chain of a compiled step in segments, recorded where there is a tape; return the result, or why it cannot be done."""
    from .compiled import NotCompiled, Retraced, run_compiled
    from .compiled_entry import record_compiled

    run = partial(run_compiled, spec, loop) if tape is None else partial(record_compiled, spec, tape, loop, run_spec)
    try:
        if BACKENDS.get("llvm", BACKENDS["numpy"]) is BACKENDS["numpy"]:
            raise NotCompiled(without_llvm() or "llvmlite cannot be imported")
        if spec.has_statics and not loop.storage.durable:
            from .other_leaves import without_statics

            other = without_statics(spec, loop.until)
            if other is not None:
                try:
                    result, reason = run_compiled_spec(other.spec, tape, loop._replace(until=other.until))
                except TypeError:
                    spec.check_call(0, spec.tree(spec.state), spec.arguments(spec.params), spec.inputs)
                    raise
                return None if reason is not None else other.results(result), reason
        try:
            return run(), None
        except Retraced:
            return run(), None
    except NotCompiled as reason:
        ignored = "" if tape is None or loop.block is None else f"; block={loop.block} is not used"
        return None, f"steps one by one, because {reason}{ignored}"
