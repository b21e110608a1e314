"""Derivatives of programs, as programs: the rows' rules run on Symbols.

Forward mode runs the program on Duals of Symbols. Reverse mode runs the rows' VJPs backwards over the
program, which is a Wengert list. K directions at once are `Directions` of Symbols.
"""

from __future__ import annotations

from itertools import pairwise

from ..core.dispatch import no_derivative_for
from ..core.levels import Level
from ..core.traced import example_of
from ..forward.directions import unwrap, wrap
from ..forward.dual import Dual, make_dual
from ..forward.seeding import split_value
from ..rules.cotangents import like_primal
from ..rules.kinds import ROWS, Constant, Differentiable, Elementwise, Refused
from ..rules.names import np
from .nested import Branch, Scan, align
from .passes import optimised
from .program import Program, Value, dead, map_values, values_in
from .trace import BY_VALUE, Examples, Trace


def pushforward(program: Program, examples, tangents, directions=None, nan_safe=False) -> Program:
    """Return the program of the values and the tangents of the outputs (None for zero), from the inputs and those tangents that are not
    None. `tangents` are examples, with a leading axis where `directions` says how long."""
    with Trace() as trace:
        xs = [trace.input(x) for x in examples]
        ts = [None if t is None else trace.input(t) for t in tangents]
        with Level(directions, nan_safe) as level:
            given = (x if t is None else make_dual(x, t, level) for x, t in zip(xs, ts, strict=True))
            held = {**dict(zip(program.inputs, given, strict=True)), **program.constants}
            for operation, done in zip(program.operations, program.last_uses(), strict=True):
                trace.at(operation)
                if type(operation.fn) in PUSHED:
                    results = PUSHED[type(operation.fn)](operation.fn, with_values(operation.args, held), level)
                    held.update(zip(operation.outputs, results, strict=True))
                else:
                    operation.evaluate(held)
                for value in done:
                    del held[value]
            outs = [held[out] if type(out) is Value else out for out in program.outputs]
            values, pushed = zip(*(split_value(out, level) for out in outs), strict=True) if outs else ((), ())
        return trace.finish([*values, *pushed])


def pullback(program: Program, examples, wanted, cotangents, directions=None, nan_safe=False) -> Program:
    """Return the program of the cotangents of the inputs that are `wanted` (None for zero) and of the values of the outputs, from the
    inputs and those cotangents of the outputs that are not None. `cotangents` are examples, with a leading axis of length `directions`
    if it is given."""
    with Trace() as trace:
        xs = [trace.input(x) for x in examples]
        gs = [None if g is None else trace.input(g) for g in cotangents]
        held, examples = {**dict(zip(program.inputs, xs, strict=True)), **program.constants}, Examples(program)
        active = {value for value, asked in zip(program.inputs, wanted, strict=True) if asked}
        back = {}
        for operation in program.operations:
            trace.at(operation)
            if type(operation.fn) is Scan and any(value in active for value in operation.reads):
                given = with_values(operation.args, held)
                moving = [type(arg) is Value and arg in active for arg in operation.args]
                back[operation] = one = Backwards(operation.fn, given, moving, directions, nan_safe)
                held.update(zip(operation.outputs, one.forward(), strict=True))
                active.update(value for value, moves in zip(operation.outputs, one.moving_outs, strict=True) if moves)
                continue
            operation.evaluate(held)
            examples.replace(operation.outputs, held)
            if any(value in active for value in operation.reads) and not isinstance(ROWS.get(operation.fn), Constant):
                active.update(value for value in operation.outputs if value.dtype.kind in "fc")
        outs = [held[out] if type(out) is Value else out for out in program.outputs]
        with Level(directions, nan_safe) as level:
            adjoints: dict[Value, object] = {}
            for out, g in zip(program.outputs, gs, strict=True):
                if g is not None and out in active:
                    add(adjoints, out, g if directions is None else wrap(g, level))
            with np.errstate(all="ignore"):
                for operation in reversed(program.operations):
                    gs = [adjoints.pop(value, None) for value in operation.outputs]
                    if all(g is None for g in gs):
                        continue
                    trace.at(operation)
                    if operation not in back and type(operation.fn) is not Branch:
                        pull(operation, gs, held, active, adjoints, nan_safe)
                        continue
                    if directions is not None:
                        gs = [g if g is None else unwrap(g, level, value.shape) for g, value in zip(gs, operation.outputs, strict=True)]
                    shares = back[operation].pull(gs) if operation in back else pulled_branch(operation, gs, held, active, level)
                    for arg, share in zip(operation.args, shares, strict=True):
                        if share is not None and type(arg) is Value:
                            add(adjoints, arg, share if directions is None else wrap(share, level))
            results = []
            for value, x in zip(program.inputs, xs, strict=True):
                g = adjoints.get(value)
                if value in active and g is not None:
                    g = g if directions is None else unwrap(g, level, x.shape)
                    g = like_primal(g, x)
                results.append(g)
        return trace.finish([g for g, asked in zip(results, wanted, strict=True) if asked] + outs)


def pull(operation, gs, held, active, adjoints, nan_safe):
    """Add the shares of an operation's arguments in cotangents of its results to their adjoints."""
    row = ROWS.get(operation.fn)
    if isinstance(row, Refused) and any(value in active for value in operation.reads):  # entered by a traced program, for its value
        raise TypeError(row.refusal)
    if not isinstance(row, Differentiable):
        return
    args = [held[arg] if type(arg) is Value else arg for arg in with_values(operation.args, held)]
    kwargs = with_values(operation.kwargs, held)
    ans = [held[value] for value in operation.outputs] if operation.several else held[operation.outputs[0]]
    g = gs[0]
    if operation.several:
        g = [np.zeros(value.shape, value.dtype) if part is None else part for part, value in zip(gs, operation.outputs, strict=True)]
    strong = (True,) if nan_safe and isinstance(row, Elementwise) else ()
    arrays = row.arrays(operation.args)
    for name, argument in (*enumerate(operation.args), *operation.kwargs.items()):
        if name not in arrays and any(value in active for value in values_in(argument)):
            raise no_derivative_for(row, name)
    for i in arrays:
        value = operation.args[i]
        if type(value) is Value and value in active:
            add(adjoints, value, row.vjp(i, g, ans, args, kwargs, *strong))


# --- loops ------------------------------------------------------------------------------------------------------------------------


def pushed_loop(loop, args, level):
    """Return the results of a loop of Duals: the loop of its body's pushforward."""
    xs, ts = apart(args, level)
    moving = [t is not None for t in ts]
    if not any(moving):
        return loop(*xs)
    count, rows, lanes = loop.carried, loop.rows, level.directions
    examples = loop.first(list(map(example_of, xs)))
    while True:
        tangents = [blank_like(x, lanes) if moves else None for x, moves in zip(examples, moving, strict=True)]
        made = pushforward(loop.body, [0, *examples], [None, *tangents], lanes, level.nan_safe)
        values, pushed = made.outputs[: len(loop.body.outputs)], made.outputs[len(loop.body.outputs) :]
        grown = [moves or pushed[i] is not None for i, moves in enumerate(moving[:count])]
        if grown == moving[:count]:
            break
        moving[:count] = grown
    k, *inputs = made.inputs
    inputs, their = inputs[: len(xs)], iter(inputs[len(xs) :])
    tangent_inputs = [next(their) if moves else None for moves in moving]
    made.inputs = [k, *beside(inputs, tangent_inputs, count, rows)]
    pushed[:count] = [filled_in(made, t, x) if moves else None for t, x, moves in zip(pushed[:count], tangents, moving, strict=False)]
    made.outputs = beside(values, pushed, count, 0)
    ts = [blank_like(x, lanes) if moves and t is None else t for x, t, moves in zip(examples, ts, moving, strict=True)]
    ts[count : count + rows] = [t if t is None or lanes is None else np.moveaxis(t, 0, 1) for t in ts[count : count + rows]]
    live = loop.live if loop.live is None or loop.live < count else loop.live + sum(moving[:count])
    double = Scan(optimised(made), loop.count, count + sum(moving[:count]), rows + sum(moving[count : count + rows]), loop.backwards, live)
    results = iter(double(*beside(xs, ts, count, rows)))
    primals, shown = [None] * len(values), [t is not None for t in pushed]
    tangents = list(primals)
    for part in (range(count), range(count, len(values))):
        for i in part:
            primals[i] = next(results)
        for i in part:
            if shown[i]:
                t = next(results)
                tangents[i] = np.moveaxis(t, 1, 0) if i >= count and lanes is not None else t
    return [x if t is None else make_dual(x, t, level) for x, t in zip(primals, tangents, strict=True)]


def apart(args, level):
    """Return the primals and the tangents, None for zero, of arguments of which some are Duals of a level."""
    duals = [type(arg) is Dual and arg.level is level for arg in args]
    return [arg.primal if dual else arg for arg, dual in zip(args, duals, strict=True)], [
        arg.tangent if dual else None for arg, dual in zip(args, duals, strict=True)
    ]


def beside(values, others, count, rows):
    """Return a loop's arguments with others, those that are not None, after the carried values, the rows and the params."""
    cuts = (0, count, count + rows, len(values))
    return [
        part for low, high in pairwise(cuts) for part in (*values[low:high], *(other for other in others[low:high] if other is not None))
    ]


def blank_like(x, lanes):
    """Return zeros for a plain value's tangent or cotangent, in `lanes` directions."""
    if lanes is not None:
        return np.zeros((lanes, *np.shape(x)), np.asarray(x).dtype)
    return np.zeros(x.shape, x.dtype) if issubclass(type(x), np.ndarray) else type(x)(0)


def filled_in(program, out, like):
    """Return an output of a program, zeros where it is None."""
    if out is not None or not issubclass(type(like), np.ndarray):
        return 0.0 if out is None else out
    return program.append(np.zeros, (like.shape, like.dtype), {}, like)


class Backwards:
    """The transpose of a loop of `args`, of which those `moving` have cotangents: one that keeps what its turns carried, and one that
    pulls cotangents back through them."""

    def __init__(self, loop, args, moving, lanes, nan_safe):
        self.loop, self.args, self.lanes = loop, args, lanes
        self.examples = loop.first(list(map(example_of, args)))
        count, body = loop.carried, loop.body
        self.moving = moving = list(moving)
        while True:
            live = {value for value, moves in zip(body.inputs[1:], moving, strict=True) if moves}
            for operation in body.operations:
                if any(value in live for value in operation.reads):
                    live.update(value for value in operation.outputs if value.dtype.kind in "fc")
            reached = [type(out) is Value and out in live for out in body.outputs]
            grown = [moves or (reached[i] and body.inputs[1 + i].dtype.kind in "fc") for i, moves in enumerate(moving[:count])]
            if grown == moving[:count]:
                break
            moving[:count] = grown
        self.moving_outs = [*moving[:count], *reached[count:]]
        outs = loop.example(*map(example_of, args))
        self.outs = [*outs[:count], *(stack[0] for stack in outs[count:])]
        gs = [blank_like(out, lanes) if moves else None for out, moves in zip(self.outs, self.moving_outs, strict=True)]
        made = pullback(body, [0, *self.examples], [False, *moving], gs, lanes, nan_safe)
        del made.outputs[sum(moving) :]
        made = optimised(made)
        read = made.read
        self.saved = [i for i in range(count) if made.inputs[1 + i] in read or i == loop.live]
        self.back = self.turned(made, gs)

    def turned(self, made, gs):
        """Return the loop that runs the pullback of a turn: it carries cotangents, and sums of those of the params."""
        loop, moving, lanes = self.loop, self.moving, self.lanes
        count, last = loop.carried, loop.carried + loop.rows
        with Trace() as trace:
            k = trace.input(0)
            pulled = [trace.input(g) for g in gs[:count] if g is not None]
            sums = [trace.input(blank_like(x, lanes)) for x, moves in zip(self.examples[last:], moving[last:], strict=True) if moves]
            given = list(self.examples)
            for i in self.saved:
                given[i] = trace.input(given[i])
            given[count:last] = [trace.input(x) for x in given[count:last]]
            pulled += [trace.input(g) for g in gs[count:] if g is not None]
            given[last:] = [trace.input(x) for x in given[last:]]
            shares = iter(made.run(k, *given, *pulled, each=trace.at))
            places = [(i, next(shares)) for i, moves in enumerate(moving) if moves]
            results = [blank_like(self.examples[i], lanes) if g is None else g for i, g in places if i < count]
            totals = iter(sums)
            results += [total if g is None else total + g for total, g in zip(totals, (g for i, g in places if i >= last), strict=True)]
            results += [blank_like(self.examples[i], lanes) if g is None else g for i, g in places if count <= i < last]
            body = optimised(trace.finish(results), exact=False, adjoint=True)
        carried, live = sum(moving[:count]) + sum(moving[last:]), loop.live
        if live is not None:  # now a row: of what the turns carried, or as before
            live = carried + (self.saved.index(live) if live < count else len(self.saved) + live - count)
        return Scan(body, loop.count, carried, len(body.inputs) - 1 - carried - len(given[last:]), not loop.backwards, live)

    def forward(self):
        """Return the loop's results; what the pullback needs of each turn is kept."""
        loop = self.loop
        outputs = [*loop.body.outputs, *(loop.body.inputs[1 + i] for i in self.saved)]
        body = loop.body.replace(outputs=outputs, adjoint=False)
        results = Scan(body, loop.count, loop.carried, loop.rows, loop.backwards, loop.live)(*self.args)
        self.states = results[len(loop.body.outputs) :]
        return results[: len(loop.body.outputs)]

    def pull(self, gs):
        """Return the arguments' shares of cotangents of the results, which are None for zero: None where there is none."""
        loop, lanes, moving = self.loop, self.lanes, self.moving
        count, last = loop.carried, loop.carried + loop.rows
        given = [blank_like(out, lanes) if g is None else g for g, out, moves in zip(gs, self.outs, moving, strict=False) if moves]
        given = given[: sum(moving[:count])]
        sums = [blank_like(x, lanes) for x, moves in zip(self.examples[last:], moving[last:], strict=True) if moves]
        outs = []
        for g, out, moves in list(zip(gs, self.outs, self.moving_outs, strict=True))[count:]:
            if moves and g is None:
                outs.append(np.zeros((loop.count, *np.shape(blank_like(out, lanes)))))
            elif moves:
                outs.append(g if lanes is None else np.moveaxis(g, 0, 1))
        results = iter(self.back(*given, *sums, *self.states, *self.args[count:last], *outs, *self.args[last:]))
        shares = [None] * len(moving)
        for part in (range(count), range(last, len(moving)), range(count, last)):
            for i in part:
                if moving[i]:
                    g = next(results)
                    shares[i] = np.moveaxis(g, 1, 0) if count <= i < last and lanes is not None else g
        return shares


# --- branches ---------------------------------------------------------------------------------------------------------------------


def pushed_branch(branch, args, level):
    """Return the results of a branch of Duals: the branch between the pushforwards of its programs."""
    test, *xs = args
    xs, ts = apart(xs, level)
    given = [t for t in ts if t is not None]
    if not given:
        return branch(test, *xs)
    tangents = [None if t is None else example_of(t) for t in ts]
    arms = derived(branch, xs, lambda arm, xs: pushforward(arm, xs, tangents, level.directions, level.nan_safe))
    count = len(branch.then.outputs)
    shown = align(arms)
    results = Branch(*arms)(test, *xs, *given)
    pushed = iter(results[count:])
    tangents = [next(pushed) if some else None for some in shown[count:]]
    return [x if t is None else make_dual(x, t, level) for x, t in zip(results[:count], tangents, strict=True)]


def pulled_branch(operation, gs, held, active, level):
    """Return the arguments' shares of cotangents of a branch's results: the results of the branch between the pullbacks of its programs."""
    branch = operation.fn
    test, *xs = with_values(operation.args, held)
    moving = [type(arg) is Value and arg in active for arg in operation.args[1:]]
    cotangents = [None if g is None else example_of(g) for g in gs]
    arms = derived(branch, xs, lambda arm, xs: pullback(arm, xs, moving, cotangents, level.directions, level.nan_safe))
    for arm in arms:
        del arm.outputs[sum(moving) :]
    shown = iter(align(arms))
    results = iter(Branch(*arms)(test, *xs, *(g for g in gs if g is not None)) if any(arm.outputs for arm in arms) else ())
    return [None, *(next(results) if moves and next(shown) else None for moves in moving)]


def derived(branch, xs, derive):
    """Return the derivatives of the arms of a branch, each of which may raise an error at examples of the other one."""

    def one(arm):
        examples = list(map(example_of, xs))
        for integer in (0, 1):  # the first index, or a length that is not zero
            try:
                return derive(arm, examples)
            except BY_VALUE:
                examples = [harmless(x, integer) for x in examples]
        return derive(arm, examples)

    return [one(arm) for arm in branch.bodies.values()]


def harmless(x, integer):
    """Return an example like another at which few functions raise: a regular matrix, True, an integer of ours."""
    like = np.asarray(x)
    if like.dtype.kind not in "fciub":
        return x
    y = np.full_like(like, integer if like.dtype.kind in "iu" else like.dtype.kind == "b")
    if like.dtype.kind in "fc":
        y = y + 1.0 / (1.0 + np.arange(max(like.size, 1), dtype=like.dtype)[: like.size].reshape(like.shape))
        if like.ndim > 1 and like.shape[-1] == like.shape[-2]:
            y = (y + np.swapaxes(y, -1, -2)) / 2.0 + like.shape[-1] * np.eye(like.shape[-1], dtype=like.dtype)
    return y if type(x) is np.ndarray else y[()] if issubclass(type(x), np.generic) else y.item()


PUSHED = {Scan: pushed_loop, Branch: pushed_branch}


# --- what the forward program keeps for the pullback ------------------------------------------------------------------------------


def split_forward_backward(program: Program, count: int, wanted: int) -> tuple[Program, Program]:
    """Split an optimised `pullback` (of a program of `count` inputs, of which so many cotangents are `wanted`) into a forward program,
    whose outputs are those of the differentiated program and dear values, and the rest, which gets these after the first `count` inputs,
    and computes cheap ones again."""
    known = {*program.inputs[:count], *program.constants}
    tests = {operation.args[0] for operation in program.operations if type(operation.fn) is Branch}
    early, late, kept = [], [], []
    for operation in program.operations:
        if not all(value in known for value in operation.reads):
            late.append(operation)
            continue
        known.update(operation.outputs)
        early.append(operation)
        if dear(operation) or not tests.isdisjoint(operation.outputs):
            kept += operation.outputs
        else:
            late.append(operation)
    backward = rest(program, [*program.inputs[:count], *kept, *program.inputs[count:]], late, program.outputs[:wanted])
    read = backward.read
    kept = [value for value in kept if value in read]
    backward.inputs = [*program.inputs[:count], *kept, *program.inputs[count:]]
    return rest(program, program.inputs[:count], early, [*program.outputs[wanted:], *kept]), backward


def rest(program, inputs, operations, outputs):
    """Return the part of a program that these outputs need."""
    return dead(program.replace(inputs=list(inputs), operations=operations, outputs=list(outputs)))


def dear(operation):
    """Return whether a value is sooner kept than computed again: not what is elementwise or only moves elements."""
    row = ROWS.get(operation.fn)
    if row is None:
        return True
    cheap = row.cheap or isinstance(row, Elementwise) or row.views(operation.args)
    return not cheap and not (isinstance(row, Constant) and isinstance(operation.fn, np.ufunc))


def with_values(argument, held):
    """Return an argument with what is held for its values."""
    return map_values(held.__getitem__, argument)


def add(adjoints, value, share):
    """Add a share to the adjoint of a value."""
    if share is not None:
        now = adjoints.get(value)
        adjoints[value] = share if now is None else now + share
