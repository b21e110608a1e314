"""What is noted of a sweep in files, and what is left to do of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import optree

from .actions import Action, Advance, Drop, Load, Reverse, Save
from .schedules import Schedule
from .storage.files import NAMESPACE

__all__ = ["Beside", "Kinds", "Noted", "Rest", "skip", "structure_of", "text_of"]

Beside: TypeAlias = Mapping[str, Callable[[dict[int, list[Any]]], None] | None]


class Rest(NamedTuple):
    """What is left to do of a sweep.

    Attributes
    ----------
    actions : iterator of Action
        Not yet executed.
    saved : list of int
        What is saved.
    position : int or None
        Index of the working state.
    left : int
        Steps not yet reversed.
    """

    actions: Iterator[Action]
    saved: list[int]
    position: int | None
    left: int


def skip(actions: Iterator[Action], count: int, start: Rest) -> Rest:
    """Execute actions on integers only.

    Parameters
    ----------
    actions : iterator of Action
        From it, `count` are taken.
    count : int
        How many.
    start : Rest
        Where they begin; its own actions do not matter.

    Returns
    -------
    Rest

    Examples
    --------
    >>> from checkpoint.schedules import Revolve
    >>> skip(Revolve(2).forward(6), 3, Rest(iter(()), [], 0, 6))[1:]
    ([0, 3], 3, 6)
    """
    saved, position, left = set(start.saved), start.position, start.left
    for action in islice(actions, count):
        match action:
            case Save():
                saved.add(action.index)
            case Drop():
                saved.discard(action.index)
            case Load():
                position = action.index
            case Advance():
                position = action.stop
            case Reverse():
                position, left = None, action.index
    return Rest(actions, sorted(saved), position, left)


class Kinds:
    """The leaves of cotangents and rows as what can be written to a file, and back: a leaf may be of a type that is taken apart.

    Parameters
    ----------
    *trees : pytree
        In which every kind of leaf there is, in the same order in every process.

    Examples
    --------
    >>> kinds = Kinds((1.5, None))
    >>> kinds.together(kinds.apart([2.5, None]))
    [2.5, None]
    """

    def __init__(self, *trees: Any) -> None:
        self._structures = [structure_of(0.0)]
        leaves: list[Any] = optree.tree_leaves(trees, none_is_leaf=True)  # type: ignore[arg-type]
        for leaf in leaves:
            if (structure := structure_of(leaf)) not in self._structures:
                self._structures.append(structure)

    def apart(self, leaves: list[Any]) -> list[Any]:
        """The leaves in parts, and before them which structure each has."""
        parts, numbers = [], []
        for leaf in leaves:
            of_leaf, structure = optree.tree_flatten(leaf, none_is_leaf=True, namespace=NAMESPACE)
            if structure not in self._structures:
                raise TypeError(
                    f"resume: a leaf of type {type(leaf).__name__} came in that no leaf of the state, of the token, or of the cotangent of "
                    "x_N is like: without resume=True it can be kept, or put what it depends on into the state"
                )
            numbers.append(self._structures.index(structure))
            parts += of_leaf
        return [np.array(numbers, np.uint8), *parts]

    def together(self, parts: list[Any]) -> list[Any]:
        """The leaves of such parts."""
        numbers, rest = parts[0].tolist(), iter(parts[1:])
        structures = [self._structures[number] for number in numbers]
        return [structure.unflatten(list(islice(rest, structure.num_leaves))) for structure in structures]


class Noted(NamedTuple):
    """What is in the file of a cotangent.

    Attributes
    ----------
    index : int
        The step that was reversed.
    point : int
        Of its mark.
    seed : str
        Digest of the cotangent of x_N, and of what else the pulls depend on.
    state : str
        Digest of x_index, from which it was pulled.
    pulled : str
        Digest of the cotangent of x_{N-1}.
    turn : list of int
        N, the point between the sweeps, and which states were saved there.
    parts : list
        The cotangent, as `Kinds` takes it apart.
    """

    index: int
    point: int
    seed: str
    state: str
    pulled: str
    turn: list[int]
    parts: list[Any]


def structure_of(tree: Any) -> optree.PyTreeSpec:
    """The structure of a tree whose leaves can be written to a file."""
    return optree.tree_structure(tree, none_is_leaf=True, namespace=NAMESPACE)


def text_of(schedule: Schedule) -> str:
    """All that a schedule consists of."""
    if not is_dataclass(schedule):
        return repr(schedule)
    values = ", ".join(f"{field.name}={getattr(schedule, field.name)!r}" for field in fields(schedule))
    return f"{type(schedule).__name__}({values})"
