"""What a schedule is."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import lt
from typing import ClassVar

from ..support.checks import whole_number
from .actions import Action

__all__ = ["Schedule", "check_schedule"]


class Schedule(ABC):
    """Decides which states of a chain x_{k+1} = step(k, x_k), k = 0 ... N-1, are saved and which are computed again.

    A schedule is an immutable value: every call below gives a fresh iterator of actions, so one schedule serves many
    chains and threads. The contract of the two iterators, with N >= 1 (N = 0 gives no actions):

    * `forward` starts with the working state x_0. Its first action is ``Save(0)``. It ends with the working state
      x_{N-1}, having advanced over every step but the last; the driver makes that one, to x_N, on its own.
    * `reverse` starts with the working state x_{N-1} and with the states that `forward` left saved. It yields
      ``Reverse(N-1)``, ..., ``Reverse(0)``, each when the working state is the one it needs, and leaves nothing saved.
    * `forward` of an unknown length (``steps=None``) never ends: before every step k it yields what it likes of drops and
      of ``Save(k)``, then ``Advance(k, k + 1)``. The driver asks whether to go on before it resumes the iterator. If x_k
      is not saved, the driver holds a copy of it, which may still be saved in the next round: ``Save(k)`` before
      ``Advance(k + 1, k + 2)``. So x_{N-1} is at hand when the chain turns out to end at x_N.

    Subclasses are frozen dataclasses that define the first three methods.

    Attributes
    ----------
    records : bool
        Whether there are steps to be recorded among its actions, for which a sweep has to be told how.
    """

    records: ClassVar[bool] = False

    @abstractmethod
    def forward(self, steps: int | None) -> Iterator[Action]:
        """Actions of the first sweep, from x_0 to x_{N-1}; `steps` is N, or None while the length is unknown.

        Raises ValueError where the length is unknown and this schedule needs it.
        """

    @abstractmethod
    def reverse(self, steps: int, saved: Sequence[int]) -> Iterator[Action]:
        """Actions of the reverse sweep, from the working state x_{N-1} down to step 0, for N `steps`.

        `saved` are the indices of the saved states in ascending order, as `forward` left them.
        """

    @abstractmethod
    def limit(self, steps: int) -> int:
        """The largest number of states ever saved at the same time for a chain of `steps` steps."""

    def on_disk(self, steps: int | None) -> frozenset[int]:
        """Places of the stack of saved states that belong on disk rather than in memory; none, for most schedules.

        Place p is that of a state that is saved while p others are. `steps` is as in `forward`.
        """
        return frozenset()

    def _check(self, argument: str, least: int, hint: str) -> None:
        value = whole_number(getattr(self, argument), where=type(self).__name__, argument=argument, least=least, hint=hint)
        object.__setattr__(self, argument, value)

    def _steps(self, steps: int | None) -> int:
        """Check a length, which has to be known."""
        name = type(self).__name__
        if steps is None:
            raise ValueError(
                f"{name}: steps is None, but this schedule needs the number of steps in advance; CTZ() and Online(slots) do without"
            )
        if type(steps) is int and steps >= 0:
            return steps
        return whole_number(steps, where=name, argument="steps", least=0, hint="give the number of steps of the chain")

    def _saved(self, steps: int, saved: Sequence[int]) -> list[int]:
        """Check what the forward sweep left."""
        indices = list(saved)
        if steps and (not indices or indices[0] != 0 or indices[-1] >= steps or not all(map(lt, indices, islice(indices, 1, None)))):
            raise ValueError(
                f"{type(self).__name__}: saved must be ascending indices of states, 0 first and below steps={steps}, "
                f"got {indices}; give what forward left saved"
            )
        return indices


def check_schedule(schedule: object, where: str) -> None:
    if not isinstance(schedule, Schedule):
        raise TypeError(f"{where}: schedule must be a Schedule such as CTZ() or Revolve(20), got {schedule!r}")
