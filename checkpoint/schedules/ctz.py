"""Checkpointing by counting trailing zeros: no length is needed in advance."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from . import binomial
from .schedule import Refilled, Split


@dataclass(frozen=True)
class CTZ(Refilled):
    """Keep states at gaps of powers of two, denser towards the end: at most ceil(log2 N) + 1 of them.

    While the length is unknown, one rule keeps the saved set up to date. Before x_i is saved, drop nothing if i is 0 or
    a power of two, else drop x_j with j = i - 2 (i & -i), where i & -i is 2 to the number of trailing zeros of i. That
    leaves {i} and {2^l (floor(i / 2^l) - 1), l = 0 ... floor(log2 i)}, which has floor(log2 i) + 2 members. If the
    length is known, only the states that are in this set at the end are ever saved.

    In the reverse sweep a gap is refilled from its base, under the same limit.

    Parameters
    ----------
    refill : ``"binomial"`` uses all slots that are free at that moment optimally (Griewank & Walther 2000).
        ``"bisect"`` uses the rule above relative to the base (the classical scheme; Griewank 1992): each step is advanced at most ceil(log2
        N) times again.

    Raises
    ------
    ValueError
        If `refill` is neither.

    See Also
    --------
    Revolve : for a given number of saved states.

    Examples
    --------
    >>> from checkpoint.schedules.actions import Save
    >>> [action.index for action in CTZ().forward(16) if type(action) is Save]
    [0, 8, 12, 14, 15]
    """

    refill: str = "binomial"

    def __post_init__(self) -> None:
        if self.refill not in ("binomial", "bisect"):
            raise ValueError(f'CTZ: refill must be "binomial" (fewer advances) or "bisect", got {self.refill!r}')

    def _first(self, steps: int) -> list[int]:
        return saved_set(steps - 1)

    def _outlived(self, k: int) -> Iterable[int]:
        return (k - 2 * (k & -k),) if k & (k - 1) else ()

    def _split(self, steps: int) -> Split:
        return binomial.split if self.refill == "binomial" else bisect_split

    def limit(self, steps: int) -> int:
        """ceil(log2 N) + 1; see `Schedule.limit`."""
        steps = self._steps(steps)
        return (steps - 1).bit_length() + 1 if steps else 0


def advances(steps: int) -> int:
    """Return the plain advances of ``CTZ()``: of the first sweep to x_{N-1}, and of every gap that is refilled, with the places free then.

    >>> [advances(steps) for steps in (16, 100, 1000, 10_000)]
    [28, 274, 3781, 46197]
    """
    limit, saved = CTZ().limit(steps), saved_set(steps - 1)
    gaps = (binomial.advances(stop - start, limit - i) for i, (start, stop) in enumerate(pairwise(saved)))
    return sum(gaps, max(steps - 1, 0))


def saved_set(newest: int) -> list[int]:
    """Return the saved states, ascending, when x_newest has just been saved (-1: none): [0, 8, 10, 12, 13] for 13."""
    if newest < 0:
        return []
    return [(newest >> scale) - 1 << scale for scale in reversed(range(newest.bit_length()))] + [newest]


def bisect_split(steps: int, slots: int, base: int = 0) -> int:
    """Return the smallest positive member of ``saved_set(steps - 1)``: CTZ's rule, relative to the base of the gap.
    The set is the same at every scale, so neither `slots` nor `base` matters."""
    offset = steps - 1
    if offset < 2:
        return offset
    scale = offset.bit_length() - 2
    return (offset >> scale) - 1 << scale
