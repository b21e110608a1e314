"""How a sweep goes on from what a process before it left on disk."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import optree

from .actions import Action, Advance, Drop, Load, Reverse, Save
from .fingerprint import digest
from .schedules import Schedule
from .storage.files import NAMESPACE
from .storage.kept import KeptSession, Mark

__all__ = ["Beside", "Journal", "Rest"]

Beside: TypeAlias = Mapping[str, Callable[[dict[int, list[Any]]], None] | None]


class Rest(NamedTuple):
    """What is left to do of a sweep.

    Attributes
    ----------
    actions : iterator of Action
        Not yet executed.
    saved : list of int
        What is saved.
    position : int or None
        Index of the working state.
    left : int
        Steps not yet reversed.
    """

    actions: Iterator[Action]
    saved: list[int]
    position: int | None
    left: int


def skip(actions: Iterator[Action], count: int, start: Rest) -> Rest:
    """Execute actions on integers only.

    Parameters
    ----------
    actions : iterator of Action
        From it, `count` are taken.
    count : int
        How many.
    start : Rest
        Where they begin; its own actions do not matter.

    Returns
    -------
    Rest

    Examples
    --------
    >>> from checkpoint.schedules import Revolve
    >>> skip(Revolve(2).forward(6), 3, Rest(iter(()), [], 0, 6))[1:]
    ([0, 3], 3, 6)
    """
    saved, position, left = set(start.saved), start.position, start.left
    for action in islice(actions, count):
        match action:
            case Save():
                saved.add(action.index)
            case Drop():
                saved.discard(action.index)
            case Load():
                position = action.index
            case Advance():
                position = action.stop
            case Reverse():
                position, left = None, action.index
    return Rest(actions, sorted(saved), position, left)


class Journal:
    """Finds how far a process before this one came with the same call, and has noted how far this one comes.

    Parameters
    ----------
    session : KeptSession
        Where.
    state : pytree
        x_0.
    step : callable
    token : pytree
        What else says that it is the same call.
    schedule : Schedule
    beside : mapping
        For each sweep, ``"first"`` and ``"reverse"``, whose steps have rows: a function that is told, before any of them is made
        again, the rows of those that are done, lists of leaves by the index of the step.
    """

    def __init__(
        self,
        session: KeptSession,
        state: Any,
        step: Callable[..., Any],
        token: Any,
        schedule: Schedule,
        beside: Beside = MappingProxyType({}),
    ) -> None:
        if hasattr(step, "__self__") and token is None:
            raise ValueError(
                f"resume: the step is the method {step.__qualname__}, and what it is bound to is not compared with an earlier call; "
                "hand in as the token what the step depends on, or an empty tuple for nothing"
            )
        self._session, self._initial, self._beside = session, state, beside
        self._sweep = "first"
        self._call = {
            "step": digest(step, "resume: step"),
            "token": digest(token, "resume: the token"),
            "initial state": digest(state, "resume: the initial state"),
            "schedule": _text(schedule),
        }
        self._structure = _structure(state)
        self._marks: list[Mark] = []  # of the process before, while they are of use
        self._turn = 0  # point between the two sweeps

    def begin(self, steps: int | None) -> tuple[Any, list[Any], int] | None:
        """Look what is there.

        Parameters
        ----------
        steps : int or None
            N, or None if it is not known.

        Returns
        -------
        tuple or None
            x_N, a list of x_{N-1} if that is not among the saved states, and N, if the first sweep is done.
        """
        self._marks = self._session.begin(self._call | {"steps": steps})
        for mark in self._marks:
            if mark.kind == "final":
                *leaves, saved = self._session.read(mark)
                n = self._structure.num_leaves
                if not n:
                    leaves, n = [self._initial] * 2, 1
                states = [self._structure.unflatten(leaves[i : i + n]) for i in range(0, len(leaves), n)]
                self._turn, self._saved = mark.point, saved.tolist()
                self._enter("first", range(mark.index))
                return states[0], states[1:], mark.index
        return None

    def forward(self, actions: Iterator[Action]) -> tuple[Iterator[Action], int | None, int]:
        """Skip what is done of the first sweep.

        Parameters
        ----------
        actions : iterator of Action
            All of it.

        Returns
        -------
        actions : iterator of Action
            What is left.
        index : int or None
            The saved state to go on from; None for x_0, when nothing is done.
        position : int
            How many steps had been made.
        """
        if not self._marks:
            self._enter("first", range(0))
            return self._numbered(actions, 0), None, 0
        newest = self._marks[-1]
        self._enter("first", range(newest.index))
        rest = skip(actions, newest.point, Rest(actions, [], 0, 0))
        self._session.adopt(rest.saved, self._initial, self._marks)
        self._marks, self._session.point = [], newest.point
        return self._numbered(rest.actions, newest.point), newest.index, rest.position or 0

    def turn(self, final: Any, last: list[Any], steps: int) -> None:
        """Note that the first sweep is done.

        Parameters
        ----------
        final : pytree
            x_N.
        last : list
            x_{N-1}, if it is not among the saved states.
        steps : int
            N.
        """
        self._turn = self._session.point = self._session.point + 1
        saved = self._session.indices()
        self._session.note(steps, [final, *last, np.array(saved, np.int64)], "final")

    def reverse(self, schedule: Schedule, steps: int, seed: Any, token: Any = None) -> tuple[Rest, Any]:
        """Skip what is done of the reverse sweep.

        Parameters
        ----------
        schedule : Schedule
        steps : int
            N.
        seed : pytree
            Cotangent of x_N.
        token : pytree
            What else the pulls depend on.

        Returns
        -------
        rest : Rest
            What is left.
        g : pytree
            The cotangent to go on from.

        Raises
        ------
        ValueError
            If it was another seed.
        """
        self._seed, g = digest((seed, token), "resume: the cotangent"), seed
        self._pulled = structure = _structure(seed)
        saved = self._saved if self._marks else self._session.indices()
        actions = schedule.reverse(steps, saved)
        point = max([mark.point for mark in self._marks], default=self._turn)
        rest = skip(actions, point - self._turn, Rest(actions, saved, steps - 1, steps))
        cotangents = [mark for mark in self._marks if mark.kind == "cotangent"]
        if (cotangents[-1].index if cotangents else steps) != rest.left:
            raise RuntimeError("resume: a cotangent is missing; remove the folder to begin again")
        if cotangents:
            digested, *leaves = self._session.read(cotangents[-1])
            if digested != self._seed or len(leaves) != structure.num_leaves:
                raise ValueError(
                    "Disk: the folder holds a reverse sweep that began with another cotangent of x_N than this one; "
                    "make the same call again, or remove the folder to begin a new one"
                )
            g = structure.unflatten(leaves)
        self._enter("reverse", range(rest.left, steps))
        if self._marks:
            self._session.adopt(rest.saved, self._initial, self._marks)
        self._marks, self._session.point = [], point
        return rest._replace(actions=self._numbered(rest.actions, point)), g

    def noting(self, pull: Callable[[int, Any, Any], Any]) -> Callable[[int, Any, Any], Any]:
        """The same pull; the cotangent that it returns is noted.

        Parameters
        ----------
        pull : callable

        Returns
        -------
        callable
        """

        def noted(k: int, x: Any, g: Any) -> Any:
            g = pull(k, x, g)
            if _structure(g) != self._pulled:
                raise TypeError(
                    f"resume: the pull of step {k} returned a cotangent of the structure {_structure(g)}; the seed's is "
                    f"{self._pulled}: begin with a seed that has the structure of all cotangents"
                )
            self._session.note(k, (self._seed, g), "cotangent")
            return g

        return noted

    def add_row(self, k: int, leaves: list[Any]) -> None:
        """Keep what step k leaves behind besides its state or cotangent: there is one row for every step, or for none.

        Parameters
        ----------
        k : int
        leaves : list
            What can be written to a file; copied.
        """
        self._session.add_row(self._sweep, k, leaves)

    def _enter(self, sweep: str, done: range) -> None:
        self._sweep = sweep
        take = self._beside.get(sweep)
        if take is not None:
            take(self._session.rows(sweep, done))

    def _numbered(self, actions: Iterator[Action], start: int) -> Iterator[Action]:
        session = self._session
        for session.point, action in enumerate(actions, start + 1):
            yield action


def _structure(tree: Any) -> optree.PyTreeSpec:
    return optree.tree_structure(tree, none_is_leaf=True, namespace=NAMESPACE)


def _text(schedule: Schedule) -> str:
    """All that a schedule consists of."""
    if not is_dataclass(schedule):
        return repr(schedule)
    values = ", ".join(f"{field.name}={getattr(schedule, field.name)!r}" for field in fields(schedule))
    return f"{type(schedule).__name__}({values})"
