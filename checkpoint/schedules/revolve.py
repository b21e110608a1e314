"""Optimal checkpointing for a known length and a given number of saved states."""

from collections.abc import Sequence
from dataclasses import dataclass

from . import binomial, refill
from .costs import as_costs, cheapest_split
from .refill import Slotted

__all__ = ["Revolve"]


@dataclass(frozen=True)
class Revolve(Slotted):
    """Reverse a chain of known length with the fewest advances that `slots` saved states allow.

    The actions follow from the closed form of Algorithm 799 (Griewank & Walther 2000, ACM TOMS 26:19), one at a time:
    A = t(N, S) = r N - C(S + r, r - 1) plain advances, with C(S + r - 1, S) < N <= C(S + r, S).

    Parameters
    ----------
    slots : int
        Most states saved at the same time, x_0 included, the working state not; at least 1.
    costs : sequence of float, optional
        What each step costs, in seconds or any other unit, if that is not the same for all: the chain is then reversed
        with advances of the least total cost, found by dynamic programming. As many as there are steps, at most 4096.

    Raises
    ------
    ValueError, TypeError
        If `slots` is less than 1 or not an integer, or `costs` are not finite numbers of at least 0.

    See Also
    --------
    checkpoint.schedules.binomial.advances : how many advances it will take.

    Examples
    --------
    >>> for action in Revolve(2).forward(6):
    ...     print(action)
    Save(index=0)
    Advance(start=0, stop=3)
    Save(index=3)
    Advance(start=3, stop=5)
    >>> list(Revolve(2, costs=[1, 1, 1, 9, 1, 1]).forward(6))[1]
    Advance(start=0, stop=4)
    """

    slots: int
    costs: Sequence[float] | None = None

    def __post_init__(self) -> None:
        self._check("slots", 1, binomial.SLOTS_HINT)
        if self.costs is not None:
            object.__setattr__(self, "costs", as_costs(self.costs, "Revolve"))

    def __repr__(self) -> str:
        return f"Revolve(slots={self.slots})" if self.costs is None else f"Revolve(slots={self.slots}, costs=...)"

    def _split(self, steps: int) -> refill.Split:
        if self.costs is None:
            return binomial.split
        if len(self.costs) != steps:
            raise ValueError(f"Revolve: costs are those of {len(self.costs)} steps, but the chain has {steps}; give one a step")
        return cheapest_split(tuple(self.costs), self.slots)
