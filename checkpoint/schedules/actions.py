"""The six actions. A schedule is a stream of them; a driver executes them.

They are named tuples, not frozen dataclasses, because a long chain makes millions of them: a named tuple is as
immutable and hashable, and is created several times faster. Mind that tuples of different kinds compare by content
(``Save(3) == Load(3)``): tell kinds apart by ``type(action)``.
"""

from typing import NamedTuple, TypeAlias


class Save(NamedTuple):
    """Save a copy of the working state, which is x_index; the working state stays.

    Examples
    --------
    >>> Save(3)
    Save(index=3)
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which no one needs here


class Load(NamedTuple):
    """Make a copy of the saved state x_index the working state; x_index stays saved.

    Examples
    --------
    >>> Load(3).index
    3
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which no one needs here


class Drop(NamedTuple):
    """Free the place of the saved state x_index.

    Examples
    --------
    >>> Drop(index=3)
    Drop(index=3)
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which no one needs here


class Advance(NamedTuple):
    """Run steps start, start + 1, ..., stop - 1: from the working state x_start to the working state x_stop.

    Examples
    --------
    >>> start, stop = Advance(4, 7)
    >>> stop - start
    3
    """

    start: int
    stop: int


class Record(NamedTuple):
    """Run step ``index`` from the working state x_index to x_{index+1}, keeping what its pull needs, in a slot like a state's.

    Examples
    --------
    >>> Record(9)
    Record(index=9)
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which no one needs here


class Reverse(NamedTuple):
    """Pull the cotangent of x_{index+1} back through step ``index``; uses up its record or the working state, x_index.

    Examples
    --------
    >>> Reverse(9)
    Reverse(index=9)
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which no one needs here


Action: TypeAlias = Save | Load | Drop | Advance | Record | Reverse
