"""Whether the current values will be recomputed later and must have the same bits: in sweeps, and where steps are checked."""

from __future__ import annotations

REPEATED: list[None] = []  # one element for each block that is entered, in any thread


class Repeated:
    """A block whose values are computed again."""

    def __enter__(self) -> None:
        REPEATED.append(None)

    def __exit__(self, *exception: object) -> None:
        REPEATED.pop()


repeated = Repeated()
