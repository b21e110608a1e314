"""A chain on the tape: one entry, whose pull is the reverse sweep of the chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import optree

from dualad.core.dispatch import highest
from dualad.core.levels import Level
from dualad.forward.dual import make_dual
from dualad.forward.seeding import pack_leaf, scalar_kinds, split_value
from dualad.support.byte_sizes import format_bytes, parse_bytes
from dualad.support.forks import lock_of

from ..reverse.entries import Adjoints, Entry, Part, place_of
from ..reverse.tape import Tape, make_var
from ..schedules import Schedule
from ..storage.memory import PACKED_ROW_BYTES, slot_bytes
from ..storage.states import nbytes
from ..support.costs import OVERHEAD_BYTES
from ..sweep.plan import plan
from ..sweep.player import SWEEP_BYTES, SWEEP_STATES, RowRestorers
from .eager import lifted
from .results import Snapshot
from .spec import Loop, StepSpec, is_floating, one_level_down, read_only


def record_chain(entry: ChainEntry, tape: Tape, leaves: list[Any], outs: list[Any], tree_of_outs: Callable[..., Any]) -> Any:
    """Record a chain that was run, and return what it returns, as variables."""
    whole, spec = tape.record(entry), entry.spec
    results = [*leaves, *outs]
    for i, leaf in enumerate(results):
        if type(leaf) is float or is_floating(leaf):
            results[i] = make_var(leaf, tape.record(Part(whole, i)), tape)
    final = spec.tree(results[: len(leaves)])
    return (final, tree_of_outs(results[len(leaves) :])) if spec.outputs else final


def unowned(method: Any) -> Callable[..., Any]:
    """Return a method as a function that does not keep its object.
    An entry hands such functions to its sweep: a cycle of the two would keep their arrays until Python's collector comes."""
    function, owner = method.__func__, ref(method.__self__)
    return lambda *args: function(owner(), *args)


class Lowered:
    """What a chain on a tape is given, one level down, with the nodes on the tape; `below` are the levels of that, `run` runs a chain."""

    def __init__(self, spec: StepSpec, tape: Tape, run: Callable[[StepSpec, Loop], Any]) -> None:
        self.spec, self.run, self.below, self.nan_safe = spec, run, spec.levels - {tape}, tape.nan_safe
        count, rows = len(spec.state), len(spec.state) + len(spec.params)
        values, self.nodes = one_level_down((*spec.state, *spec.params, *spec.inputs), tape)
        self.weak = scalar_kinds(values)[1]
        self.state = lifted(values[:count], highest(values)) if self.below else values[:count]
        self.params, self.inputs = list(map(read_only, values[count:rows])), list(map(read_only, values[rows:]))
        self.arguments = spec.arguments(self.params)
        of_params, of_inputs = self.nodes[count:rows], self.nodes[rows:]
        self.active = [i for i, node in enumerate(of_params) if node is not None]  # of the parameters
        self.active_inputs = [i for i, node in enumerate(of_inputs) if node is not None]
        #: the leaves that cotangents are like: the floating ones of the state, the active parameters, the active inputs; and their nodes
        self.likes = (
            [self.state[i] for i in spec.floating], [self.params[i] for i in self.active], [self.inputs[i] for i in self.active_inputs]
        )  # fmt: skip
        self.like_nodes = [self.nodes[i] for i in spec.floating] + [node for node in (*of_params, *of_inputs) if node is not None]


def overhead_bytes(lowered: Lowered, outs: int, steps: int | None) -> int:
    """Return the bytes that a chain holds besides states: copies of parameters and inputs and their gradients, outs and their cotangents.
    `outs` are the bytes of what one step puts out. Not counted is what the rest of the program holds."""
    return SWEEP_BYTES + nbytes((lowered.params, lowered.inputs, *lowered.likes[1:])) + 2 * outs * (steps or 0)


def planned(lowered: Lowered, steps: int | None, memory: float | str, taken: int, outs: int) -> tuple[Schedule, str]:
    """Return the schedule for a budget, and why; the budget, of which everything else is taken away that the chain holds.
    That is `overhead_bytes`, a few states, and what a trial of step 0 and of its pull has `taken` at most."""
    budget = parse_bytes(memory, "chain", "memory")
    size = nbytes(lowered.state)
    if size <= OVERHEAD_BYTES:  # otherwise what is around the data does not count
        size = max(slot_bytes(lowered.spec.tree(lowered.state)) - PACKED_ROW_BYTES, 1)
    held = overhead_bytes(lowered, outs, steps) + size + taken  # x_N is no state of the sweep
    try:
        schedule, _, reason, _ = plan(steps, size, max(budget - held, 1))
    except ValueError:
        taken = held + SWEEP_STATES * size
        raise ValueError(
            f"chain: memory={memory!r} is too small: the steps, their parameters, inputs and outs take {format_bytes(taken)}, and one "
            f"saved state {format_bytes(size + PACKED_ROW_BYTES)} more"
        ) from None
    return schedule, f"of {format_bytes(budget)}, {format_bytes(held)} are in use otherwise; {reason}"


class ChainEntry(Entry):
    """A chain's entry on a tape: pulls shares to the nodes of its state, parameters and inputs."""

    title = "chain"
    lowered: Lowered
    spec: StepSpec
    keeps_rows = False
    lock = None  # a sweep uses up its states: two threads cannot pull at once
    sweep: Any
    steps: int | None
    last: Snapshot  # x_N
    shares: Any  # (g): returns the cotangents of the floating leaves of the state, of the active parameters, of the active inputs
    take_outs: Any  # (rows): takes back what the steps of the first sweep put out in a process before this one
    take_shares: Any  # (rows): takes back what the steps of the reverse sweep gave to the gradient of the inputs

    def pull(self, k: int, g: Any, adjoints: Adjoints) -> None:
        """Run the reverse sweep, for the cotangents `g` of the final state's leaves and of the outs."""
        with lock_of(self):
            shares = self.shares(g)
        for node, share in zip(self.lowered.like_nodes, shares, strict=True):
            if node is not None and share is not None:
                adjoints.add(node, share, False)

    @property
    def parents(self) -> list[Any]:
        return [node for node in self.lowered.nodes if node is not None]

    def push(self, pushed: list[Any]) -> list[Any]:
        """Return the tangents of the results, by running the chain again in forward mode."""
        lowered, spec = self.lowered, self.spec
        nodes = iter(lowered.nodes)
        with Level(None, lowered.nan_safe, lowered.weak) as level:

            def moving(leaves: list[Any]) -> list[Any]:
                tangents = [None if (node := next(nodes)) is None else pushed[place_of(node)] for _ in leaves]
                return [leaf if t is None else make_dual(leaf, t, level) for leaf, t in zip(leaves, tangents, strict=True)]

            again = spec.with_leaves(moving(lowered.state), moving(lowered.params), moving(lowered.inputs))
            leaves = optree.tree_leaves(lowered.run(again, Loop(self.steps)))
            pairs = [split_value(pack_leaf(leaf), level) for leaf in leaves]
        self.last.compare(self.steps or 0, [value for value, _ in pairs[: len(lowered.state)]], spec.path)
        return [t for _, t in pairs]

    # --- a sweep that outlives the process ----------------------------------------------------------------------------------

    def durable_options(self, tape: Tape, token: Any, block: int | None = None, until: Any = None) -> dict[str, Any]:
        """Return the options of a sweep that another process may go on with; `token` is what else says that it is the same call."""
        from ..durable.identity import function_digest
        from ..durable.journal import Named, named_leaves

        if getattr(tape, "pulled_in_lanes", False):
            raise TypeError(
                "chain: jacobian pulls many cotangents back, one sweep each, and a durable storage keeps one sweep: use Disk(path), "
                "or vjp for each row"
            )
        self.keeps_rows = True
        lowered = self.lowered
        inputs = optree.tree_unflatten(self.spec.inputs_structure, lowered.inputs)
        parts = {"step": self.spec.source}
        for name, tree in {"params": lowered.arguments, "inputs": inputs, "token": token}.items():
            parts |= named_leaves(name, tree)
        parts |= {"what is differentiated": (lowered.active, lowered.active_inputs), "block": block}
        parts["until"] = None if until is None else function_digest(until)
        restorers: RowRestorers = {
            "first": unowned(self.take_outs) if self.spec.outputs else None,
            "reverse": unowned(self.take_shares) if lowered.active_inputs else None,
        }
        return {"token": Named(parts), "restorers": restorers}
