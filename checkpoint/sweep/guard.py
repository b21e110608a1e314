"""A step that is made again must give the state that it gave before: checksums of a whole sweep, compared."""

from array import array
from collections.abc import Callable
from typing import Any

from ..storage.digests import checksum

__all__ = ["ReplayCheck"]


class ReplayCheck:
    """Stores the checksum of every state of the first sweep, four bytes each, and compares the replays with them."""

    def __init__(self) -> None:
        self._seen = array("I")  # x_0, x_1, ...

    def first(self, step: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
        """A step of the first sweep."""
        seen = self._seen

        def noted(k: int, x: Any) -> Any:
            if not k:
                seen[:] = array("I", [checksum(x)])
            y = step(k, x)
            seen.append(checksum(y))
            return y

        return noted

    def replay(self, step: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
        """The same step on a replay: it raises where the result is another one."""

        def checked(k: int, x: Any) -> Any:
            self._same(k, x)
            y = step(k, x)
            if checksum(y) != self._seen[k + 1]:
                raise RuntimeError(
                    f"sweep: step {k} is not reproducible: running it again from the same state gave another x_{k + 1}. "
                    "Random numbers, clocks and counters must depend on k only"
                )
            return y

        return checked

    def pull(self, pull: Callable[[int, Any, Any], Any]) -> Callable[[int, Any, Any], Any]:
        """A pull: it raises where the state that it is handed is not that of the first sweep."""

        def checked(k: int, x: Any, g: Any) -> Any:
            self._same(k, x)
            return pull(k, x, g)

        return checked

    def _same(self, k: int, x: Any) -> None:
        if checksum(x) != self._seen[k]:
            raise RuntimeError(
                f"sweep: the storage returned another x_{k} than was saved; check=True needs a lossless storage and a copy= that copies all"
            )
