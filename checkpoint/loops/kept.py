"""What was made of a compiled step, kept with it for chains of the same kind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from ..support.costs import KEPT_STEPS

__all__ = ["kept"]


def kept(owner: Any, key: Hashable, make: Callable[[], Any]) -> Any:
    """Return what was made of a step or program before, or is now; what was not used for longest is forgotten."""
    known = vars(owner).setdefault("of_chains", OrderedDict())
    known[key] = made = known.pop(key, None) or make()
    while len(known) > KEPT_STEPS:
        known.popitem(last=False)
    return made
