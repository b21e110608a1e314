"""What a sweep asks of whoever notes how far it has come.

A storage whose states do not outlive the process notes nothing, and every sweep begins afresh: that is `Journal` itself. A durable one
brings a journal of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from ..schedules import Schedule
from ..schedules.actions import Action
from ..schedules.cursor import Remaining
from ..storage.storage import Session

__all__ = ["Journal", "RowRestorers"]

RowRestorers: TypeAlias = Mapping[str, Callable[[dict[int, list[Any]]], None] | None]


class Journal:
    """The journal of a sweep that starts afresh and stores nothing; `made` counts the steps run again to compare results.
    `restorers`: for ``"first"`` and ``"reverse"``, a function that is given the rows of the completed steps, {index: leaves}."""

    made = 0

    def __init__(
        self,
        session: Session,
        state: Any,
        step: Callable[..., Any],
        token: Any,
        schedule: Schedule,
        until: Callable[..., Any] | None,
        restorers: RowRestorers,
    ) -> None:
        self._session, self._schedule = session, schedule
        self._steps: int | None = None

    def begin(self, steps: int | None) -> tuple[Any, list[Any], int] | None:
        """Look what is there: None, or where the first sweep is done x_N, a list of x_{N-1} unless that is saved, and N."""
        self._steps = steps
        return None

    def forward(self) -> tuple[Iterator[Action], int | None, list[Any]]:
        """Return what is left of the first sweep, the index of the working state, and that state; None and none where it begins."""
        return self._schedule.forward(self._steps), None, []

    def watching(self, step: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
        """Return the step of the first sweep, watched."""
        return step

    def at(self, position: int, *working: Any) -> None:
        """Hear that the working state is x_position, in a first sweep of unknown length also of the one before it."""

    def end_forward(self, final: Any, last: list[Any], steps: int) -> None:
        """Hear that the first sweep is done: x_N, a list of x_{N-1} unless that is saved, and N."""

    def reverse(self, steps: int, seed: Any, token: Any, pull: Callable[[int, Any, Any], Any]) -> tuple[Remaining, Any, Any]:
        """Return what is left of the reverse sweep, the cotangent, and the working state if there is one."""
        saved = self._session.indices()
        return Remaining(self._schedule.reverse(steps, saved), saved, steps - 1, steps), seed, None

    def noting(self, pull: Callable[[int, Any, Any], Any]) -> Callable[[int, Any, Any], Any]:
        """Return the pull, watched."""
        return pull

    def add_row(self, k: int, leaves: list[Any]) -> None:
        """Keep what step k leaves behind besides its state or cotangent: there is one row for every step, or for none."""
