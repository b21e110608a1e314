"""What is noted of a sweep in files."""

from dataclasses import dataclass, fields, is_dataclass
from itertools import islice
from typing import Any

import numpy as np
import optree

from dualad.support.costs import ONE_BY_ONE

from ..schedules import Schedule
from ..storage.codec import NAMESPACE

__all__ = ["LeafCodec", "Named", "Point", "named", "structure_of", "text_of"]


class LeafCodec:
    """Encodes the leaves of cotangents and rows for a file, and decodes them; registered types are taken apart.
    `trees` contain every kind of leaf, in the same order in every process."""

    def __init__(self, *trees: Any) -> None:
        self._structures = [structure_of(0.0)]
        leaves: list[Any] = optree.tree_leaves(trees, none_is_leaf=True)  # type: ignore[arg-type]
        for leaf in leaves:
            if (structure := structure_of(leaf)) not in self._structures:
                self._structures.append(structure)

    def encode(self, leaves: list[Any]) -> list[Any]:
        """The leaves in parts, and before them which structure each has."""
        parts, numbers = [], []
        for leaf in leaves:
            of_leaf, structure = optree.tree_flatten(leaf, none_is_leaf=True, namespace=NAMESPACE)
            if structure not in self._structures:
                raise TypeError(
                    f"resume: cannot store a leaf of type {type(leaf).__name__}: none is in the state, the token or the cotangent of x_N. "
                    "Put what it depends on into the state, or drop resume=True"
                )
            numbers.append(self._structures.index(structure))
            parts += of_leaf
        return [np.array(numbers, np.uint8), *parts]

    def decode(self, parts: list[Any]) -> list[Any]:
        numbers, rest = parts[0].tolist(), iter(parts[1:])
        structures = [self._structures[number] for number in numbers]
        return [structure.unflatten(list(islice(rest, structure.num_leaves))) for structure in structures]


@dataclass
class Point:
    """How far a sweep has come. Digests are empty until they are known."""

    sweep: str  # "first" or "reverse"
    point: int = 0  # actions of the sweep's schedule that had begun
    position: int | None = None  # index of the working state
    left: int = 0  # steps not yet reversed; 0 in the first sweep
    first_actions: int = 0  # actions of the first sweep, once it was complete
    steps: int | None = None  # N, if known
    first: str = ""  # digest of x_1
    seed: str = ""  # digest of the cotangent of x_N and of what else the pulls depend on
    pulled: str = ""  # digest of the cotangent of x_{N-1}
    state: str = ""  # digest of x_left, from which the last pull started

    def done(self, sweep: str) -> range:
        """Return the steps of a sweep that were done then."""
        if sweep == "reverse":
            return range(self.left, self.steps or 0) if self.sweep == "reverse" else range(0)
        return range((self.position if self.sweep == "first" else self.steps) or 0)


class Named(dict[str, Any]):
    """A token of several parts, each of which is named where it differs."""


def named(name: str, tree: Any) -> dict[str, Any]:
    """Return the leaves of a tree by names such as ``params[0]['rate']``, and its structure under the name itself."""
    accessors, leaves, structure = optree.tree_flatten_with_accessor(tree, none_is_leaf=True, namespace=NAMESPACE)
    if len(leaves) > ONE_BY_ONE or (len(leaves) == 1 and not len(accessors[0])):
        return {name: tree}
    empty = optree.tree_unflatten(structure, [0.0] * len(leaves))
    return {name: empty} | {accessor.codify(name): leaf for accessor, leaf in zip(accessors, leaves, strict=True)}


def structure_of(tree: Any) -> optree.PyTreeSpec:
    """The structure of a tree whose leaves can be written to a file."""
    return optree.tree_structure(tree, none_is_leaf=True, namespace=NAMESPACE)


def text_of(schedule: Schedule) -> str:
    if not is_dataclass(schedule):
        return repr(schedule)
    values = ", ".join(f"{field.name}={getattr(schedule, field.name)!r}" for field in fields(schedule))
    return f"{type(schedule).__name__}({values})"
