"""Progress bars, and the output of both command lines."""

import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any


class Bar:
    """A bar of tqdm around one phase of a computation, with `label` in front, counting `unit`; nothing at all if it is not shown."""

    def __init__(self, shown: bool, label: str, unit: str = "step") -> None:
        self._make, self._label, self._unit = import_tqdm() if shown else None, label, unit
        self._bar: Any = None

    def start(self, total: int | None, done: int = 0) -> None:
        """Show the bar, of `total` calls (None if not known), of which an earlier process made `done`."""
        if self._make is not None:
            self._bar = self._make(total=total, initial=done, desc=self._label, unit=self._unit)

    def counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function such that every call moves the bar by one when it returns; the function itself if no bar is shown."""
        if self._make is None:
            return function

        def counted(*arguments: Any) -> Any:
            result = function(*arguments)
            self._bar.update()
            return result

        return counted

    def advance(self, count: int) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(count)

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def import_tqdm() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError('progress=True needs tqdm; install it with: pip install "dualad[progress]"') from error
    return tqdm


def written(text: str) -> int:
    """Print a text and return the status of the program: 0, also where a reader has enough (``| head``)."""
    try:
        print(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is flushed when the program ends
    return 0
