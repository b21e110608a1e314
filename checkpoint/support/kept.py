"""Results of a function that are kept for the next call, as many as a number of bytes holds."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, Protocol, TypeVar

from dualad.support.forks import held_across_forks


class Sized(Protocol):
    """An object that knows how many bytes it takes."""

    @property
    def nbytes(self) -> int: ...


P = ParamSpec("P")
R = TypeVar("R", bound=Sized)


def kept_within(most: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache the results of a function by its arguments: the newest ones of `most` bytes altogether, and the last one in any case."""

    def decorate(make: Callable[P, R]) -> Callable[P, R]:
        known: dict[object, R] = {}  # the oldest first
        lock = held_across_forks()

        @wraps(make)
        def found(*given: P.args, **options: P.kwargs) -> R:
            key = (given, *options.items())
            with lock:
                result = known.pop(key, None)
            if result is None:
                result = make(*given, **options)
            with lock:
                known[key] = result
                while len(known) > 1 and sum(kept.nbytes for kept in known.values()) > most:
                    del known[next(iter(known))]
            return result

        return found

    return decorate
