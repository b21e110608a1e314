"""The base class of schedules, and the walk shared by all that divide a gap: from a saved state, saving on the way, to the one needed.

A gap of n steps starts at a saved state, its base. `split(n, slots, base)` says how far to advance from there before the
next save, n - 1 meaning straight to the end. A stack of indices is all the memory: no recursion, no tables, and the first
action of a chain of 10^9 steps comes at once. Actions are made a few at a time, so that the generators are resumed once for those.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, islice
from operator import lt
from typing import ClassVar, TypeAlias

from ..support.checks import whole_number
from . import binomial
from .actions import Action, Advance, Drop, Load, Reverse, Save

joined = chain.from_iterable
new = tuple.__new__  # the constructor of a named tuple is a function of Python, called several times a step

Split: TypeAlias = Callable[[int, int, int], int]


class Schedule(ABC):
    """Decides which states of a chain x_{k+1} = step(k, x_k), k = 0 ... N-1, are saved and which are recomputed.

    A schedule is an immutable value: every call below gives a fresh iterator of actions, so one schedule serves many
    chains and threads. The contract of the two iterators, with N >= 1 (N = 0 gives no actions):

    * `forward` starts with the working state x_0. Its first action is ``Save(0)``, or ``Record(0)`` of a schedule that records.
      It ends with the working state x_{N-1}, having advanced over every step but the last; the driver makes that one, to x_N.
    * `reverse` starts with the working state x_{N-1} and with the states that `forward` left saved. It yields
      ``Reverse(N-1)``, ..., ``Reverse(0)``, each when the working state is the one it needs, and leaves nothing saved.
    * `forward` of an unknown length (``steps=None``) never ends: before every step k it yields any number of drops and
      possibly ``Save(k)``, then ``Advance(k, k + 1)``. The driver asks whether to go on before it resumes the iterator. If x_k
      is not saved, the driver holds a copy of it, which may still be saved in the next round: ``Save(k)`` before
      ``Advance(k + 1, k + 2)``. So x_{N-1} is at hand when the chain turns out to end at x_N.

    Subclasses are frozen dataclasses that define the first three methods.

    Attributes
    ----------
    records : whether its actions include `Record`, for which a sweep needs `record=`.
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


class Refilled(Schedule):
    """A schedule that saves some states in the first sweep, and refills the gaps between them in the reverse sweep."""

    def forward(self, steps: int | None) -> Iterator[Action]:
        if steps is None and self._outlived(0) is not None:
            return self._endless()
        steps = self._steps(steps)
        return joined(first_sweep(self._first(steps), steps - 1))

    def reverse(self, steps: int, saved: Sequence[int]) -> Iterator[Action]:
        steps = self._steps(steps)
        saved, split = self._saved(steps, saved), self._split(steps)
        return joined(refill_gaps(steps, saved, self.limit(steps), split))

    @abstractmethod
    def _first(self, steps: int) -> Iterable[int]:
        """Return the states that the first sweep saves, ascending."""

    def _outlived(self, k: int) -> Iterable[int] | None:
        """Return the states that are dropped before x_k is saved while the length is unknown; None where it has to be known."""
        return None

    def _endless(self) -> Iterator[Action]:
        """Yield the first sweep of unknown length."""
        for k in count():
            for index in self._outlived(k) or ():
                yield new(Drop, (index,))
            yield new(Save, (k,))
            yield new(Advance, (k, k + 1))

    def _split(self, steps: int) -> Split:
        return binomial.split


class Slotted(Refilled):
    """A schedule that saves at most `slots` states."""

    slots: int

    def limit(self, steps: int) -> int:
        """`slots`, or fewer for a short chain; see `Schedule.limit`."""
        return min(self.slots, max(self._steps(steps) - 1, 1) if steps else 0)

    def _first(self, steps: int) -> Iterable[int]:
        return first_saves(steps, self.slots, self._split(steps))


def first_sweep(indices: Iterable[int], last: int) -> Iterator[Sequence[Action]]:
    """Yield the first sweep of a schedule that saves the states `indices` (ascending, 0 first) and ends at x_last, last = N - 1."""
    position = 0
    for index in indices:
        save = new(Save, (index,))
        yield (new(Advance, (position, index)), save) if position < index else (save,)
        position = index
    if position < last:
        yield (new(Advance, (position, last)),)


def first_saves(steps: int, slots: int, split: Split) -> Iterator[int]:
    """Yield the states that the first sweep saves if the whole chain is one gap, by ``split(n, free, base) -> int``."""
    base, last = 0, steps - 1
    if steps:
        yield base
    while base < last:
        base += split(steps - base, slots, base)
        slots -= 1
        if base < last:
            yield base


def refill_gaps(steps: int, saved: Sequence[int], slots: int, split: Split) -> Iterator[Sequence[Action]]:
    """Yield the reverse sweep: refill each gap from its base with the slots that are free at that moment.
    ``split(n, free, base) -> int`` counts the base's own slot among the free ones."""
    stack = list(saved)
    del saved
    for last in reversed(range(steps)):
        actions: list[Action] = []
        if last < steps - 1:
            base = stack[-1]
            actions.append(new(Load, (base,)))
            while base < last:
                stop = last if last == base + 1 else base + split(last - base + 1, slots - len(stack) + 1, base)
                actions.append(new(Advance, (base, stop)))
                base = stop
                if base < last:
                    stack.append(base)
                    actions.append(new(Save, (base,)))
                    yield actions
                    actions = []
        if stack[-1] == last:  # its last use: free the place before the pull, which needs memory of its own
            stack.pop()
            actions.append(new(Drop, (last,)))
        actions.append(new(Reverse, (last,)))
        yield actions
