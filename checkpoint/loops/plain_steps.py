"""Steps of a compiled chain that the plain function has made, on paths that are not compiled: they are pulled back on a tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dualad.jit.verify import evaluating

from .entry import Lowered
from .recorded import EagerEntry
from .segments import State
from .stepper import Stepper

__all__ = ["pull_step"]


def pull_step(stepper: Stepper, given: Lowered, k: int, x: State, gs: Sequence[np.ndarray], d: Sequence[np.ndarray]) -> list[Any]:
    """Return the cotangents of the floating leaves of x_k, of the active parameters, and of rows k of the active inputs (None for zero)
    for those of x_{k+1} and of the outs."""
    spec, outs = stepper.spec, stepper.base.outputs[1]
    entry = EagerEntry(given, None, exact=False)
    entry.flat = spec.flat_step(spec.source.f)
    with evaluating(), np.errstate(all="ignore"):
        (tape, nodes, results), *_ = entry.record(k, stepper.state_leaves(k, x))
        cotangents = stepper.duals(gs, [given.state[i] for i in spec.floating])
        moving = [out.dtype.kind in "fc" for out in outs]
        likes = [np.zeros(out.shape, out.dtype) for out, moves in zip(outs, moving, strict=True) if moves]
        rows = iter(stepper.duals([part[k, ...] for part in d], likes))
        cotangents += [next(rows) if moves else None for moves in moving]
        pairs = zip(results, cotangents, strict=True)
        return tape.sweep_back([(node, g) for node, g in pairs if node is not None and g is not None], nodes)
