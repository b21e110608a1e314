"""Schedules of the package checkpoint-schedules, in the actions of this one."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from .actions import Action, Advance, Drop, Load, Reverse, Save
from .schedule import Schedule

WORK = "WORK"
TWICE = "from_checkpoint_schedules: the schedule has begun already; make a new one, which can be run only here"


def from_checkpoint_schedules(schedule: Any) -> Schedule:
    """Wrap a schedule of the package checkpoint-schedules: H-Revolve, disk-revolve, multistage, two-level and others.

    Its schedules can be run once; this returns an immutable value, which runs a copy. All actions are translated before the
    first one: N log N of them or more.

    Forward data for restarts and for adjoints both become saved states: the pull evaluates its step itself. So a schedule that
    stores what an adjoint needs (``SingleMemoryStorageSchedule``, ``MixedCheckpointSchedule``) has one more evaluation for
    each. Places of the stack of saved states that are on disk at any time are on disk throughout, so that no more states are
    in memory than the schedule wants.

    Parameters
    ----------
    schedule : one of checkpoint-schedules, not begun; its ``max_n``, if it has one, must be the number of steps of the chain.

    Returns
    -------
    Schedule

    Raises
    ------
    TypeError, ValueError
        If it is no such schedule, or has begun.

    References
    ----------
    D. I. Dolci, J. R. Maddison, D. A. Ham, G. Pallez, J. Herrmann 2024, JOSS 9(95):6148.

    Examples
    --------
    >>> try:
    ...     from checkpoint_schedules import Revolve
    ... except ImportError:
    ...     advances = 15
    ... else:
    ...     from checkpoint.schedules.machine import simulate
    ...     advances = simulate(from_checkpoint_schedules(Revolve(10, 3)), 10).advances
    >>> advances
    15
    """
    if not all(hasattr(schedule, name) for name in ("finalize", "max_n", "uses_storage_type", "__next__")):
        raise TypeError(f"from_checkpoint_schedules: give a schedule of the package checkpoint-schedules, got {schedule!r}")
    if hasattr(schedule, "iter"):
        raise ValueError(TWICE)
    return Foreign(schedule)


@dataclass(frozen=True, eq=False, repr=False)
class Foreign(Schedule):
    """A schedule of checkpoint-schedules."""

    schedule: Any
    _translated: dict[int, "Translation"] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"from_checkpoint_schedules({type(self.schedule).__name__})"

    def forward(self, steps: int | None) -> Iterator[Action]:
        return iter(self._translate(self._steps(steps)).first)

    def reverse(self, steps: int, saved: Sequence[int]) -> Iterator[Action]:
        translation = self._translate(self._steps(steps))
        if list(saved) != translation.left:
            raise ValueError(f"{self}: saved must be {translation.left}, got {list(saved)}; give what forward left saved")
        return iter(translation.second)

    def limit(self, steps: int) -> int:
        """As many as it takes; see `Schedule.limit`."""
        return self._translate(self._steps(steps)).peak

    def on_disk(self, steps: int | None) -> frozenset[int]:
        """Places that it wants on disk at any time; see `Schedule.on_disk`."""
        return frozenset(self._translate(self._steps(steps)).on_disk)

    def _translate(self, steps: int) -> "Translation":
        if steps not in self._translated:
            if self.schedule.max_n not in (None, steps):
                raise ValueError(f"{self}: it was made for max_n={self.schedule.max_n}, but the chain has {steps} steps")
            if hasattr(self.schedule, "iter"):
                raise ValueError(TWICE)
            self._translated.clear()
            self._translated[steps] = Translation(deepcopy(self.schedule), steps)
        return self._translated[steps]


class Translation:
    """All actions for one length; `first` and `second` are those of the two sweeps, `left` is saved between them."""

    def __init__(self, schedule: Any, steps: int) -> None:
        self.first, self.second, self.left = list[Action](), list[Action](), list[int]()
        self.on_disk: set[int] = set()
        self.peak = 0
        self.actions = self.first
        self.places: dict[int, set[str]] = defaultdict(set)  # where each saved state is, in its own words
        self.position: int | None = 0  # index of the working state
        self.rest = steps  # not yet reversed
        if steps:
            self.run(schedule, steps)

    def run(self, schedule: Any, steps: int) -> None:
        for action in schedule:
            match type(action).__name__:
                case "Forward":
                    self.go(action, steps)
                    if schedule.max_n is None and action.n1 >= steps:
                        schedule.finalize(steps)
                case "Reverse":
                    for k in range(int(action.n1) - 1, int(action.n0) - 1, -1):
                        self.load(k)
                        self.forget(k, WORK)
                        self.actions.append(Reverse(k))
                        self.position, self.rest = None, k
                case "Copy" | "Move" as kind:
                    if action.to_storage.name == WORK:
                        self.load(int(action.n))
                    elif action.to_storage.name != "NONE":
                        self.places[action.n].add(action.to_storage.name)
                    if kind == "Move":
                        self.forget(action.n, action.from_storage.name)
                case "EndForward":
                    self.left, self.actions = sorted(self.places), self.second
                case "EndReverse":
                    break
        self.actions += map(Drop, sorted(self.places, reverse=True))

    def go(self, action: Any, steps: int) -> None:
        """Forward(n0, n1): what its adjoints need is the state before every step."""
        n0, n1, place = int(action.n0), min(int(action.n1), steps), action.storage.name
        stop = min(n1, self.rest - 1)  # the last step is evaluated by its pull
        if action.write_ics and place != WORK:
            self.save(n0, place)
        if action.write_adj_deps and (place != WORK or n1 - n0 > 1):
            for k in range(n0, n1):
                if place != WORK or k < stop:
                    self.save(k, place)
                if k < stop:
                    self.advance(k, k + 1)
        elif not action.write_adj_deps and n0 < stop:
            self.advance(n0, stop)

    def advance(self, start: int, stop: int) -> None:
        self.actions.append(Advance(start, stop))
        self.position = stop

    def save(self, k: int, place: str) -> None:
        if k not in self.places:
            if place == "DISK":
                self.on_disk.add(len(self.places))
            self.actions.append(Save(k))
        self.places[k].add(place)
        self.peak = max(self.peak, len(self.places))

    def load(self, k: int) -> None:
        if self.position != k:
            self.actions.append(Load(k))
            self.position = k

    def forget(self, k: int, place: str) -> None:
        if k in self.places:
            self.places[k].discard(place)
            if not self.places[k]:
                del self.places[k]
                self.actions.append(Drop(k))
