"""Results of a function that are kept for the next call, as many as a number of bytes holds."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from dualad.support.forks import held_across_forks

F = TypeVar("F", bound=Callable[..., Any])


def kept_within(most: int) -> Callable[[F], F]:
    """Cache the results of a function, which have `nbytes`: the newest of `most` bytes altogether, and the last one in any case."""

    def decorate(make: Any) -> Any:
        known: dict[object, Any] = {}  # the oldest first
        lock = held_across_forks()

        @wraps(make)
        def found(*given: Any) -> Any:
            with lock:
                result = known.pop(given, None)
            if result is None:
                result = make(*given)
            with lock:
                known[given] = result
                while len(known) > 1 and sum(kept.nbytes for kept in known.values()) > most:
                    del known[next(iter(known))]
            return result

        return found

    return decorate
