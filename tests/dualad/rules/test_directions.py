"""Every row with K directions at once, K = 1 and K equal to each dimension, is K single directions."""

import numpy as np
import samples_more
from cases import arrays, cases, rows

from checkpoint.reverse.tape import Tape, Var
from dualad import jvp
from dualad.core.levels import Level
from dualad.forward.directions import unwrap, wrap
from dualad.forward.dual import make_dual
from dualad.forward.seeding import split_value
from dualad.rules import ROWS


def push_together(f, leaves, directions, count):
    """Push `count` directions (on a leading axis) in one evaluation; returns tangents with that leading axis."""
    with Level(count) as level:
        outs = f([make_dual(x, v, level) for x, v in zip(leaves, directions, strict=True)])
        pairs = [split_value(out, level) for out in outs]
    return [np.zeros((count, *np.shape(value))) if t is None else t for value, t in pairs]


def counts(case):
    """K = 1, and K equal to each dimension that the call meets."""
    return sorted({1, *(n for x in (*case.leaves, *arrays(case.value)) for n in np.shape(x) if n)})


def stacked(singles):
    """The results of K evaluations, on a leading axis."""
    return [np.stack(parts) for parts in zip(*singles, strict=True)]


def lane(directions, k):
    return [v[k, ...] for v in directions]


@rows
def test_tangents(fn):
    for case in cases(fn):
        for count in counts(case):
            directions = case.directions(count, count)
            together = push_together(case, case.leaves, directions, count)
            case.assert_close(together, stacked(case.push(lane(directions, k)) for k in range(count)), exact=1e-12)


@rows
def test_tangents_of_some_leaves(fn):
    for case in cases(fn):
        for i in range(len(case.leaves) if len(case.leaves) > 1 else 0):
            directions = case.directions(2, 2)
            zeros = [v if k == i else 0.0 * v for k, v in enumerate(directions)]
            given = [v if k == i else None for k, v in enumerate(directions)]
            together = push_together(case, case.leaves, given, 2)
            case.assert_close(together, stacked(case.push(lane(zeros, k)) for k in range(2)), exact=1e-12)


@rows
def test_tangents_of_tangents(fn):
    for case in cases(fn):
        count = counts(case)[:2][-1]
        directions = case.directions(count, count)
        inner = lambda *leaves: case.push(case.v, leaves)
        single = stacked(jvp(inner, tuple(case.leaves), tuple(lane(directions, k)))[1] for k in range(count))
        case.assert_close(push_together(lambda leaves: inner(*leaves), case.leaves, directions, count), single, exact=1e-10)
        together = lambda *leaves: push_together(case, leaves, directions, count)
        case.assert_close(jvp(together, tuple(case.leaves), tuple(case.v))[1], single, exact=1e-10)


@rows
def test_cotangents(fn):
    for case in cases(fn):
        with Tape() as tape:
            inputs = tape.inputs(list(case.leaves))
            outs = [out for out in case(inputs) if type(out) is Var and out.node is not None]
        nodes, random = [x.node for x in inputs], np.random.default_rng(15)
        for count in counts(case):
            seeds = [random.standard_normal((count, *out.shape)).astype(out.dtype) for out in outs]
            with Level(count) as level:
                pulled = tape.pull([(out.node, wrap(g, level)) for out, g in zip(outs, seeds, strict=True)], nodes)
                together = [unwrap(filled(g, x), level, np.shape(x)) for g, x in zip(pulled, case.leaves, strict=True)]
            singles = []
            for k in range(count):
                pulled = tape.pull([(out.node, g[k, ...]) for out, g in zip(outs, seeds, strict=True)], nodes)
                singles.append([np.broadcast_to(filled(g, x), np.shape(x)) for g, x in zip(pulled, case.leaves, strict=True)])
            case.assert_close(together, stacked(singles), exact=1e-12)


def filled(g, x):
    return np.zeros(np.shape(x)) if g is None else g


#: linear functions whose K tangents are looped over one by one: right, but slower
LOOPED: list[str] = []


def test_functions_without_a_form_for_directions():
    rows = [row for row in ROWS.values() if row.trusted and row.kind in ("linear", "real_linear", "bilinear", "multilinear")]
    assert sorted(row.name for row in rows if not row.batch) == sorted(LOOPED + samples_more.LOOPED)
