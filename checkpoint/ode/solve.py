"""`solve_ivp` and `odeint`: SciPy's solutions of differential equations, with derivatives in O(log N) memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from dualad.core.dispatch import array, highest, holds_traced, primal
from dualad.core.traced import Traced
from dualad.forward.seeding import check_function
from dualad.jit.jit import Jit
from dualad.jit.tables import Contents, closed_over

from ..schedules.schedule import Schedule
from ..storage.storage import Storage
from ..sweep.stats import Stats
from .methods import METHODS, RungeKutta, method_of
from .solution import Solution
from .steps import accepted_in_compiled_code, accepted_steps

ODEINT_TOLERANCE = 1.49012e-8  # SciPy's default of rtol and atol
#: options of SciPy's odeint that are those of `solve_ivp`, and those that say how LSODA is to work
RENAMED = {"h0": "first_step", "hmax": "max_step"}
OF_LSODA = {"Dfun", "col_deriv", "ml", "mu", "tcrit", "hmin", "ixpr", "mxstep", "mxhnil", "mxordn", "mxords", "printmessg"}


# --- public -----------------------------------------------------------------------------------------------------------------


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Sequence[Any],
    y0: Any,
    method: str = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: tuple | None = None,
    *,
    schedule: Schedule | None = None,
    storage: Storage | None = None,
    memory: float | str | None = None,
    stats: Stats | None = None,
    progress: bool = False,
    check: bool = False,
    **options: Any,
) -> Any:
    """Solve y' = fun(t, y) as ``scipy.integrate.solve_ivp`` does, with derivatives of the solution.

    SciPy's solver chooses the steps on plain numbers. For plain arguments its result is returned. For traced ones the accepted steps are
    repeated as a `chain`, so that a gradient keeps O(log N) states of N steps. It is the gradient of the numerical solution with
    these steps, by `y0`, `args`, `t_span` and `t_eval`, in forward and reverse mode and to every order.

    Parameters
    ----------
    fun : function ``fun(t, y, *args) -> dy/dt`` of shape (n,). A list of n numbers may be returned. What it closes over is differentiated,
        too (variables, attributes, partials, interpolants). For a function compiled by `dualad.jit` the steps are compiled, and with
        explicit methods, without `events` and `dense_output`, also their choice: they are SciPy's to rounding. Its parameters must come in
        through `args`.
    t_span : pair of floats
    y0 : array_like, shape (n,), real or complex
    method : {"RK45", "RK23", "DOP853", "Radau"}, or SciPy's class of one. ``"Radau"`` is for stiff problems: Newton's method with Jacobians
        of `dualad` solves each step until rounding, where SciPy stops at its tolerance.
    t_eval : array_like, shape (m,). The times of the result; by default those between the steps, and then the states of all steps are kept
        in memory. Give ``[t1]`` for the state at the end alone.
    dense_output : ``result.sol(t)`` interpolates; takes memory in proportion to the steps.
    events : function ``event(t, y, *args) -> float``, or a list of them. As in SciPy, with ``terminal`` and ``direction``. Their times and
        states are differentiated by the implicit function theorem.
    vectorized, **options
        As in SciPy: ``rtol``, ``atol``, ``first_step``, ``max_step``; of ``"Radau"`` also ``jac``, for the choice of steps, and
        ``jac_sparsity``, a pattern (of a band: ``scipy.sparse.diags_array``), by which the Jacobians here are coloured and sparse, too.
    args : tuple. Parameters of `fun` and of the events: pytrees, or objects with attributes.
    schedule, storage, memory, stats, progress, check
        As in `chain`, for the longest chain; a new chain begins at each event and, where `fun` is not compiled, at each time of `t_eval`.

    Returns
    -------
    OdeResult
        SciPy's: ``t`` of shape (m,), ``y`` of shape (n, m), ``t_events``, ``y_events``, ``sol``, ``status``, ``message``, ``success``.
        ``nfev`` counts SciPy's calls of `fun`, not those of the chain.

    Raises
    ------
    ValueError
        Where the method has no derivatives here (``"LSODA"``, ``"BDF"``), and where SciPy raises.
    TypeError
        Where `fun` uses a traced value that is found neither in its arguments nor in what it closes over, as its derivative would be
        lost; inside of functions that `dualad.jit` traces.

    Notes
    -----
    The steps depend on the arguments through the error control; as in all discrete adjoints of adaptive solvers they are held fixed
    (Hairer, Norsett & Wanner 1993, section II.6). Only the first and the last step change with ``t_span``.

    Examples
    --------
    >>> import numpy as np
    >>> from checkpoint import grad, solve_ivp
    >>> def end(rate):
    ...     slope = lambda t, y, rate: -rate * y
    ...     return solve_ivp(slope, (0.0, 2.0), [1.0], t_eval=[2.0], args=(rate,), rtol=1e-8, atol=1e-8).y[0, -1]
    >>> bool(abs(grad(end)(0.5) + 2.0 * np.exp(-1.0)) < 1e-6)
    True
    """
    check_function(fun, "solve_ivp")
    method = method_name(method)
    for event in event_list(events):
        check_function(event, "solve_ivp", "an event")
    args = as_args(args)
    if not hasattr(t_span, "__len__") or len(t_span) != 2:
        raise ValueError(f"solve_ivp: t_span must be a pair of times, (t0, t1), got {t_span!r}")
    given: Any = (t_span, y0, t_eval, args)
    solver, steps = method_of(method, options.get("jac_sparsity"))
    plain: Any = optree.tree_map(value_of, given, none_is_leaf=False)
    plain_span, plain_y0, plain_eval, plain_args = plain
    options = {name: primal(value) for name, value in options.items()}  # they choose the steps, which are held fixed
    settings = {"t_eval": plain_eval, "dense_output": dense_output, "events": events, "vectorized": vectorized, **options}
    chained: dict[str, Any] = {
        "schedule": schedule,
        "storage": storage,
        "memory": memory,
        "stats": stats,
        "progress": progress,
        "check": check,
    }
    solution = Solution(fun, steps, given, dense_output, event_list(events), bool(vectorized), chained)
    top, below = solution.top, highest(optree.tree_leaves(plain))
    if below is not None and below.level.abstract and below.level.id:
        raise below.level.refuse(
            "solve_ivp chooses its steps by plain values, which are known only when the program runs: compile the right-hand side, "
            "solve_ivp(dualad.jit(fun), ...), and leave out jit around it"
        )
    settings["events"] = [plain_function(event) for event in event_list(events)] or None
    by_hand = [options["jac"]] if callable(options.get("jac")) else []
    if by_hand:
        settings["jac"] = plain_function(options["jac"])
    settings["args"] = plain_args or None
    keep = top is not None and below is None and schedule is storage is memory is None and not check
    at_once = isinstance(fun, Jit) and isinstance(steps, RungeKutta) and below is None and not events and not dense_output
    functions = fun, *by_hand, *event_list(events)
    opened = top is None or hasattr(fun, "opened") or all(isinstance(function, Jit) for function in functions)
    contents = None if opened else Contents((functions, args))
    found: Any = None
    refused: ClosedOver | None = None
    try:
        called = plain_function(fun, solution)
        problem = solver, steps, fun, called, plain_span, np.array(plain_y0), settings
        if at_once:
            found = accepted_in_compiled_code(*problem, solution.between, t_eval is None and top is None)
        if found is None:
            found = accepted_steps(*problem, keep)
    except ClosedOver as error:
        if hasattr(fun, "opened"):
            raise
        refused = error
    kept = [] if contents is None else contents.kept()
    if refused is not None or kept:
        made, values = of_closed_over(functions, args, kept)
        if refused is not None and not values:
            raise refused
        fun, *events = made
        if by_hand:
            options["jac"] = events.pop(0)
        return solve_ivp(fun, t_span, y0, method, t_eval, dense_output, events or None, vectorized, (values,), **options, **chained)
    return found.result if top is None else solution.result(found)


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: tuple = (),
    *,
    tfirst: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    method: str = "DOP853",
    **options: Any,
) -> Any:
    """Solve y' = func(y, t) at the times `t`, as ``scipy.integrate.odeint`` does, with derivatives by all arguments.

    SciPy's ``odeint`` runs LSODA, whose steps cannot be repeated; here the steps are those of `solve_ivp`. Values agree within tolerances.

    Parameters
    ----------
    func : function ``func(y, t, *args) -> dy/dt``; with `tfirst` ``func(t, y, *args)``
    y0 : array_like, shape (n,)
    t : array_like, shape (m,). Times in order; the first is that of `y0`.
    args : tuple
    tfirst : bool
    rtol, atol : SciPy's default is 1.49012e-8 for both.
    method : {"DOP853", "RK45", "RK23", "Radau"}. ``"Radau"`` for stiff problems.
    **options
        Those of `solve_ivp`: ``max_step``, ``schedule``, ``storage``, ...; of SciPy's ``odeint``, ``h0`` and ``hmax`` are used, and
        settings of LSODA are ignored.

    Returns
    -------
    array, shape (m, n)

    Raises
    ------
    RuntimeError
        Where the integration ends before the last time, with SciPy's message.
    TypeError
        With ``full_output=True``, the report of LSODA.

    Examples
    --------
    >>> import numpy as np
    >>> from checkpoint import odeint
    >>> path = odeint(lambda y, t: [y[1], -y[0]], [1.0, 0.0], np.array([0.0, np.pi]))
    >>> bool(np.allclose(path[-1], [-1.0, 0.0], atol=1e-6))
    True
    """
    check_function(func, "odeint")
    if options.pop("full_output", False):
        raise TypeError("odeint: full_output= reports on LSODA, which is not used here: solve_ivp returns counts and messages")
    options = {RENAMED.get(name, name): value for name, value in options.items() if name not in OF_LSODA and (value or name not in RENAMED)}
    rtol, atol = (ODEINT_TOLERANCE if given is None else given for given in (rtol, atol))
    right = func if tfirst else (lambda t, y, *args: func(y, t, *args))
    times = array(t)
    if np.ndim(times) != 1 or np.size(times) < 2:
        raise ValueError(f"odeint: t must be an array of at least two times, the first that of y0, got shape {np.shape(times)}")
    if not (np.all(times[1:] > times[:-1]) or np.all(times[1:] < times[:-1])):
        raise ValueError(f"odeint: t must be strictly increasing or strictly decreasing, got {primal(times)}")
    found = solve_ivp(right, (times[0], times[-1]), np.atleast_1d(array(y0)), method, times, args=args, rtol=rtol, atol=atol, **options)
    if not found.success:
        at = primal(times[len(found.t)])
        raise RuntimeError(f"odeint: the integration ended before t = {at}: {found.message}")
    return np.transpose(found.y)


# --- arguments --------------------------------------------------------------------------------------------------------------


def method_name(method: Any) -> str:
    """Return the name of a method, or of SciPy's class of it; one whose steps cannot be made again raises."""
    name = method.__name__ if isinstance(method, type) and method.__module__.startswith("scipy.integrate.") else method
    if name in METHODS:
        return name
    stiff = "'Radau' is for stiff problems, with jac_sparsity= where the Jacobian is banded or sparse"
    instead = stiff if name in ("BDF", "LSODA") else "'RK45' is SciPy's default"
    raise ValueError(f"solve_ivp: method={name!r} has no derivatives; give one of {', '.join(map(repr, METHODS))}; {instead}")


def value_of(leaf: Any) -> Any:
    """Return a plain value as the steps see it, where numbers do not yield to the precision of a constant."""
    value = primal(leaf)
    return np.float64(value) if type(value) is float and isinstance(leaf, Traced) else value


def as_args(args: Any) -> tuple:
    try:
        return () if args is None else tuple(args)
    except TypeError:
        raise TypeError(f"solve_ivp: args must be a tuple, args=(value,), got {type(args).__name__}") from None


def event_list(events: Any) -> list:
    """Return events as SciPy counts them: one function, or several."""
    return list(events) if isinstance(events, list | tuple) else [] if events is None else [events]


class ClosedOver(TypeError):
    """A function uses a traced value that is not among its arguments."""

    def __init__(self) -> None:
        super().__init__(
            "solve_ivp: the function uses a traced value that is not among its arguments (it closes over it), so its derivative would "
            "be lost: pass it by args, solve_ivp(fun, t_span, y0, args=(value,)) with fun(t, y, value)"
        )


def plain_function(fun: Callable, solution: Solution | None = None) -> Callable:
    """Return a right-hand side, of a solution, or an event, for SciPy; a traced value that it returns comes from no argument."""
    waiting = [] if solution is None or solution.top is None else [solution]
    first = [solution] if solution is not None else []

    def called(t: Any, y: Any, *args: Any) -> Any:
        if waiting:
            waiting.pop().begin()
        found = fun(t, y, *args)
        if isinstance(found, Traced) or holds_traced(found):
            raise ClosedOver
        if first:
            first.clear()
            if np.isnan(np.asarray(found, y.dtype)).any():  # of which SciPy would choose steps without end
                raise ValueError(f"solve_ivp: the function returned {found} at the start, t = {t}, y = {y}: no step can be chosen")
        return found

    return with_event_attributes(called, fun)


def with_event_attributes(function: Any, event: Any) -> Any:
    """Return a function that tells SciPy of an event what the given one tells."""
    for name in ("terminal", "direction"):
        if hasattr(event, name):
            setattr(function, name, getattr(event, name))
    return function


def of_closed_over(functions: tuple, args: tuple, kept: list) -> tuple[list, tuple]:
    """Return functions of the traced values that the given ones close over, and that are in their arguments, and these values.
    Of what they keep from call to call, plain values and those of each level have copies of their own."""
    values, made = closed_over((*functions, args), kept)
    last: list[Any] = [None, None, None]

    def of(i: int) -> Callable:
        def function(t: Any, y: Any, others: Any) -> Any:
            at = highest((t, y, *others))
            level = None if at is None else at.level
            if last[0] is not others or last[1] is not level:
                last[:] = others, level, made(others)
            return last[2][i](t, y, *last[2][-1])

        function.opened = True  # type: ignore[attr-defined]  # what it uses besides is not found a second time
        return with_event_attributes(function, functions[i])

    return [of(i) for i in range(len(functions))], values
