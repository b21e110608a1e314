"""Checksums of states: is a state that was computed again the one of the first sweep?"""

from array import array
from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np
import optree

from .storage.files import NAMESPACE
from .storage.states import raw

__all__ = ["ReplayCheck", "checksum"]

PLAIN = (float, int, bool, complex, str, bytes, type(None), np.generic)


def checksum(state: Any) -> int:
    """CRC-32 of everything that a state consists of: structure, types, shapes, and every bit of the data.

    The layout of arrays in memory does not matter.

    Parameters
    ----------
    state : pytree

    Returns
    -------
    int

    Raises
    ------
    TypeError
        If a leaf is neither plain data nor an array, nor can be made one.

    Examples
    --------
    >>> x = np.arange(6.0).reshape(2, 3)
    >>> checksum((x, 1)) == checksum((np.asfortranarray(x), 1)), checksum((x, 1)) == checksum((x, 1.0))
    (True, False)
    """
    leaves, structure = optree.tree_flatten(state, none_is_leaf=True, namespace=NAMESPACE)
    total = crc32(str(structure).encode())
    for leaf in leaves:
        if isinstance(leaf, PLAIN):
            total = crc32(f"{type(leaf).__name__} {leaf!r}".encode("utf-8", "surrogatepass"), total)
            continue
        try:
            data = np.asarray(leaf)
            if data.dtype.hasobject:
                raise TypeError("its dtype is object")
        except Exception as error:
            kind = type(leaf).__name__
            raise TypeError(f"check=True: a state has a leaf of type {kind}, whose data cannot be compared ({error})") from error
        total = crc32(f"{data.dtype.str} {data.shape}".encode(), total)
        total = crc32(raw(data), total)
    return total


class ReplayCheck:
    """Notes the checksum of every state of the first sweep, four bytes each, and compares those of the replays.

    Examples
    --------
    >>> from itertools import count
    >>> noise = count()
    >>> check = ReplayCheck()
    >>> step = lambda k, x: x + next(noise)
    >>> check.first(step)(0, 1.5)
    1.5
    >>> check.replay(step)(0, 1.5)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    RuntimeError: sweep: step 0 is not deterministic: computed again from the same state, it returned another x_1. ...
    """

    def __init__(self) -> None:
        self._seen = array("I")  # x_0, x_1, ...

    def first(self, step: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
        """A step of the first sweep.

        Parameters
        ----------
        step : callable

        Returns
        -------
        callable
        """
        seen = self._seen

        def noted(k: int, x: Any) -> Any:
            if not k:
                seen[:] = array("I", [checksum(x)])
            y = step(k, x)
            seen.append(checksum(y))
            return y

        return noted

    def replay(self, step: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
        """The same step on a replay: it raises where the result is another one.

        Parameters
        ----------
        step : callable

        Returns
        -------
        callable
        """

        def checked(k: int, x: Any) -> Any:
            self._same(k, x)
            y = step(k, x)
            if checksum(y) != self._seen[k + 1]:
                raise RuntimeError(
                    f"sweep: step {k} is not deterministic: computed again from the same state, it returned another x_{k + 1}. "
                    "Make what it reads besides its state (random numbers, the clock, what it changed itself) depend on k"
                )
            return y

        return checked

    def pull(self, pull: Callable[[int, Any, Any], Any]) -> Callable[[int, Any, Any], Any]:
        """A pull: it raises where the state that it is handed is not that of the first sweep.

        Parameters
        ----------
        pull : callable

        Returns
        -------
        callable
        """

        def checked(k: int, x: Any, g: Any) -> Any:
            self._same(k, x)
            return pull(k, x, g)

        return checked

    def _same(self, k: int, x: Any) -> None:
        if checksum(x) != self._seen[k]:
            raise RuntimeError(
                f"sweep: the storage gave back another x_{k} than was saved; check=True goes with storages without loss only, "
                "and with a copy= that copies everything"
            )
