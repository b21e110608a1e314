"""How a sweep goes on from what a process before it left on disk.

Whether it is the same call, the manifest says for what can be named (the step's source, `until`, the token, x_0, the schedule), and
results say it for everything else: the folder has a digest of x_1, of the first cotangent that was pulled, and of the state from
which the last pull went. The process that goes on makes the steps to these states and this pull again, writes nothing before they
have given the same bits, and is otherwise refused.
"""

import warnings
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import numpy as np
import optree

from .actions import Action
from .fingerprint import digest, digest_with_closure
from .notes import Beside, Kinds, Noted, Rest, skip, structure_of, text_of
from .schedules import Schedule
from .storage import DamagedState
from .storage.folder import ANEW, Mark
from .storage.kept import KeptSession
from .storage.states import canonical

__all__ = ["Journal"]


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
    until : callable or None
    beside : mapping
        For each sweep, ``"first"`` and ``"reverse"``, whose steps have rows: a function that is told, before any of them is made
        again, the rows of those that are done, lists of leaves by the index of the step.

    Attributes
    ----------
    made : int
        Steps made again, to compare what they give or to have their rows.
    """

    def __init__(
        self,
        session: KeptSession,
        state: Any,
        step: Callable[..., Any],
        token: Any,
        schedule: Schedule,
        until: Callable[..., Any] | None = None,
        beside: Beside = MappingProxyType({}),
    ) -> None:
        self._session, self._initial, self._step, self._token, self._beside = session, state, step, token, beside
        self._sweep = "first"
        self._call = {
            "step": digest(step, "resume: step"),
            "until": None if until is None else digest_with_closure(until, "resume: until"),
            "token": digest(token, "resume: the token"),
            "initial state": digest(state, "resume: the initial state"),
            "schedule": text_of(schedule),
        }
        self._schedule = schedule
        self._structure = structure_of(state)
        self._kinds = Kinds(state, token)
        self._marks: list[Mark] = []  # of the process before, while they are of use
        self._noted: Noted | None = None  # the newest cotangent of the process before
        self._turn = 0  # point between the two sweeps
        self._compared: dict[int, list[Any]] | None = None  # rows of steps made again, which are not written
        self._seed = self._pulled = ""  # digests: see Noted
        self._resumed = False
        self.made = 0

    # ------------------------------------------------------------------------------------------------ the first sweep

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
        self._steps, session = steps, self._session
        self._noted, self._compared = None, None
        self._marks = session.begin(self._call | {"steps": steps})
        for mark in self._marks[::-1]:  # whatever stands in the newest one's place must not say how far the sweep came
            if session.is_of_this_run(mark):
                break
            self._discard([mark], f"{mark.path} cannot be read, or is of another run")
        self._resumed = bool(self._marks)
        if not self._resumed:
            return None
        self._compared = {}
        self._same_first_step()
        self._noted = self._newest_cotangent()
        final = self._final()
        if final is None:
            self._discard([mark for mark in self._marks if mark.kind != "state"])
            return None
        states, (count, self._turn, *self._saved) = final
        self._last = states[1]
        self._enter("first", range(count))
        return states[0], [] if count - 1 in self._saved else [self._last], count

    def forward(self) -> tuple[Iterator[Action], int | None, int]:
        """Skip what is done of the first sweep.

        Returns
        -------
        actions : iterator of Action
            What is left.
        index : int or None
            The saved state to go on from; None for x_0, when nothing is done.
        position : int
            How many steps had been made.
        """
        while self._marks:
            newest = self._marks[-1]
            actions = self._schedule.forward(self._steps)
            rest = skip(actions, newest.point, Rest(actions, [], 0, 0))
            if newest.index in rest.saved and rest.position in (newest.index, newest.index + 1):
                self._enter("first", range(newest.index))
                self._session.adopt(rest.saved, self._initial, self._marks)
                self._marks, self._session.point = [], newest.point
                return self._numbered(rest.actions, newest.point), newest.index, rest.position
            self._discard([newest], f"{newest.path} is not of the first sweep, whose end is lost")
        self._enter("first", range(0))
        return self._numbered(self._schedule.forward(self._steps), 0), None, 0

    def watching(self, step: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
        """The same step, of the first sweep; a digest of x_1 is noted.

        Parameters
        ----------
        step : callable

        Returns
        -------
        callable
        """

        def watched(k: int, x: Any) -> Any:
            y = step(k, x)
            if not k:
                self._session.add_row("check", 0, [digest(y, "resume: a state")])
            return y

        return watched

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
        session = self._session
        self._turn = session.point = session.point + 1
        self._saved = session.indices()
        self._note_final(final, last[0] if last else session.held(steps - 1) if steps else final, steps)

    # ---------------------------------------------------------------------------------------------- the reverse sweep

    def reverse(self, steps: int, seed: Any, token: Any, pull: Callable[[int, Any, Any], Any]) -> tuple[Rest, Any]:
        """Skip what is done of the reverse sweep.

        Parameters
        ----------
        steps : int
            N.
        seed : pytree
            Cotangent of x_N.
        token : pytree
            What else the pulls depend on.
        pull : callable

        Returns
        -------
        rest : Rest
            What is left.
        g : pytree
            The cotangent to go on from.

        Raises
        ------
        ValueError
            If it was another seed, or another pull.
        """
        session, noted = self._session, self._noted
        self._seed = digest((seed, token), "resume: the cotangent")
        self._kinds, self._pulled = Kinds(self._initial, self._token, seed), ""
        self._container = optree.tree_structure(seed, none_is_leaf=True)
        if not self._marks:
            self._saved = session.indices()
        self._count = [steps, self._turn, *self._saved]
        rows: dict[int, list[Any]] | None = {}
        if noted is not None:
            if noted.seed != self._seed:
                raise ValueError(
                    f"Disk: {session.path} holds a reverse sweep that began with another cotangent of x_N than this one; "
                    f"make the same call again, or {ANEW}"
                )
            if noted.index:
                self._same(noted.state, self._advanced(noted.index - 1, noted.index), f"step {noted.index - 1}", f"x_{noted.index}")
            self._same_first_pull(noted, steps, seed, pull)
            rows = self._reverse_rows(range(noted.index, steps))
        if rows is None:
            noted = None
        rest, point = self._rest(steps, noted)
        if noted is None:
            self._discard([mark for mark in self._marks if mark.kind == "cotangent"])
            self._enter("reverse", range(0))
        else:
            self._pulled = noted.pulled
            self._enter("reverse", range(noted.index, steps), rows)
            seed = self._container.unflatten(self._kinds.together(noted.parts))
        if self._marks:
            session.adopt(rest.saved, self._initial, self._marks)
        self._marks, self._noted, session.point = [], None, point
        return rest._replace(actions=self._numbered(rest.actions, point)), seed

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
            state = digest(x, "resume: a state")
            try:
                g = pull(k, x, g)
            except RuntimeError as error:
                if self._resumed:
                    error.add_note(f"Disk: states in {self._session.path} are of an earlier process; if the call is not the same, {ANEW}")
                raise
            leaves, structure = optree.tree_flatten(g, none_is_leaf=True)
            if structure != self._container:
                raise TypeError(
                    f"resume: the pull of step {k} returned a cotangent of the structure {structure}; the seed's is "
                    f"{self._container}: begin with a seed that has the structure of all cotangents"
                )
            self._pulled = self._pulled or digest(g, "resume: a cotangent")
            turn = np.array(self._count, np.int64)
            self._session.note(k, [self._seed, state, self._pulled, turn, *self._kinds.apart(leaves)], "cotangent")
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
        if self._compared is not None:
            self._compared[k] = digest(leaves, "resume: a row")
        else:
            self._session.add_row(self._sweep, k, self._kinds.apart(leaves))

    # ------------------------------------------------------------------------------------------------- what is there

    def _newest_cotangent(self) -> Noted | None:
        for mark in [mark for mark in self._marks if mark.kind == "cotangent"][::-1]:
            try:
                seed, state, pulled, turn, *parts = self._session.read(mark)
                return Noted(mark.index, mark.point, seed, state, pulled, turn.tolist(), parts)
            except DamagedState as error:
                self._discard([mark], f"{error}; the reverse sweep begins again")
        return None

    def _final(self) -> tuple[list[Any], list[int]] | None:
        """x_N and x_{N-1}, with N, the point between the sweeps and what was saved there; None if that is not known."""
        turn = None if self._noted is None else self._noted.turn
        for mark in [mark for mark in self._marks if mark.kind == "final"]:
            try:
                *leaves, found = self._session.read(mark)
                n = self._structure.num_leaves
                if not n:
                    return [self._initial] * 2, found.tolist()
                return [self._structure.unflatten(leaves[i : i + n]) for i in range(0, len(leaves), n)], found.tolist()
            except DamagedState as error:
                _warn(f"{error}; x_{mark.index} is computed again")
        if turn is None:
            return None
        if not any(mark.kind == "final" for mark in self._marks):
            _warn(f"Disk: {self._session.path} has lost its file of x_{turn[0]} (*.final), which is computed again")
        steps, self._turn, *self._saved = turn
        last = self._advanced(steps - 1, steps - 1)
        final = self._again(steps - 1, last)
        self._session.point = self._turn
        self._note_final(final, last, steps)
        return [final, last], turn

    def _rest(self, steps: int, noted: Noted | None) -> tuple[Rest, int]:
        """What is left of the reverse sweep, and the point."""
        done, left = (self._turn, steps) if noted is None else (noted.point, noted.index)
        newest = self._marks[-1] if self._marks else None
        for point in (done,) if newest is None else (max(newest.point, done), done):  # states were saved after the cotangent
            actions = self._schedule.reverse(steps, self._saved)
            rest = skip(actions, point - self._turn, Rest(actions, self._saved, steps - 1, steps))
            if rest.left == left and (point == done or newest is None or newest.index in rest.saved):
                return rest, point
        raise DamagedState(f"Disk: {self._session.path}: the files of the reverse sweep contradict each other; {ANEW}")

    def _reverse_rows(self, done: range) -> dict[int, list[Any]] | None:
        if self._beside.get("reverse") is None:
            return {}
        rows = self._session.rows("reverse")
        if all(k in rows for k in done):
            return {k: self._kinds.together(rows[k]) for k in done}
        _warn(f"Disk: {self._session.log_path('reverse')} has lost rows; the reverse sweep begins again")
        return None

    def _enter(self, sweep: str, done: range, rows: dict[int, list[Any]] | None = None) -> None:
        """Hand over the rows that are done; those of the first sweep that are lost are made again."""
        self._sweep, compared, self._compared = sweep, self._compared or {}, None
        take = self._beside.get(sweep)
        if take is None:
            return
        if not done:
            self._session.remove_log(sweep)
            take({})
            return
        if rows is None:
            rows = {k: self._kinds.together(row) for k, row in self._session.rows(sweep).items()}
        for k, found in compared.items():
            if k in rows:
                self._same(digest(rows[k], "resume: a row"), found, f"step {k}", "row, of outs or gradients by inputs,")
        lost = next((k for k in done if k not in rows), None)
        take({k: rows[k] for k in done if lost is None or k < lost})
        if lost is not None:
            _warn(f"Disk: {self._session.log_path(sweep)} has lost rows from {lost} on; the steps are made again")
            self._advanced(lost, done.stop)

    # ------------------------------------------------------------------------------------------------ making again

    def _same_first_step(self) -> None:
        if not any(mark.index or mark.kind != "state" for mark in self._marks):
            return
        noted, found = self._session.rows("check").get(0), self._again(0, self._initial)
        if noted is None:
            path = self._session.log_path("check")
            _warn(f"Disk: {path} cannot be read back; whether the first step still gives what it gave is not compared")
            self._session.add_row("check", 0, [digest(found, "resume: a state")])
        else:
            self._same(noted[0], found, "step 0", "x_1")

    def _same_first_pull(self, noted: Noted, steps: int, seed: Any, pull: Callable[[int, Any, Any], Any]) -> None:
        self._compared = {}
        copy = self._session.copy
        g = pull(steps - 1, canonical(copy(self._last)), copy(seed))
        self._same(noted.pulled, g, f"the pull of step {steps - 1}", "cotangent")

    def _same(self, noted: str, found: Any, what: str, result: str) -> None:
        if noted != (found if isinstance(found, str) else digest(found, "resume: a result")):
            raise ValueError(
                f"Disk: {self._session.path} holds another call than this one: made again, {what} gives another {result} than it gave. "
                "Something that it reads has changed (a closed-over or global value, a helper function, an attribute, random "
                f"numbers). Make the same call again, or {ANEW}"
            )

    def _again(self, k: int, x: Any) -> Any:
        """x_{k+1}."""
        self.made += 1
        return canonical(self._step(k, canonical(self._session.copy(x))))

    def _advanced(self, index: int, stop: int) -> Any:
        """x_stop, from the newest state up to x_index that can be read back."""
        start, x = 0, self._initial
        for mark in sorted(self._marks, key=lambda mark: -mark.index):
            if mark.kind == "state" and mark.index <= index:
                try:
                    start, x = mark.index, self._structure.unflatten(self._session.read(mark))
                    break
                except DamagedState as error:
                    _warn(f"{error}; x_{index} is computed from an earlier one")
        for k in range(start, stop):
            x = self._again(k, x)
        return x

    def _note_final(self, final: Any, last: Any, steps: int) -> None:
        self._session.note(steps, [final, last, np.array([steps, self._turn, *self._saved], np.int64)], "final")

    def _discard(self, marks: list[Mark], why: str = "") -> None:
        if why:
            _warn(why if why.startswith("Disk") else f"Disk: {why}")
        self._marks = [mark for mark in self._marks if mark not in marks]
        self._session.discard(marks)

    def _numbered(self, actions: Iterator[Action], start: int) -> Iterator[Action]:
        session = self._session
        for session.point, action in enumerate(actions, start + 1):
            yield action


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)
