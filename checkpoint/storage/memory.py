"""Saved states in main memory. Small ones are packed: their bytes stand side by side in a few blocks, not in an object for every number.

A state of two Python numbers takes 220 bytes as objects, and 36 here. States of one pattern (the kinds of the leaves, in their order)
have rows of one length; a row is found by the index of its state.
"""

import math
import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import optree

from ..support.checks import whole_number
from ..support.costs import KNOWN_PATTERNS, OVERHEAD_BYTES, PACKED_BYTES
from .states import PACKERS, copy_state, nbytes, raw_bytes
from .storage import Session, Storage

NUMBER = optree.tree_structure(0.0, none_is_leaf=True)  # type: ignore[arg-type]
PACKED_ROW_BYTES = 84  # what says where a packed row is, with its index in the lists of a schedule
LEAF_BYTES = 160  # around the data of each leaf; twice as many keep a state (its place in a table, its containers)


#: a type of leaves with their dtype and shape, or, of what is the same in all rows, with None and the leaf itself
Kind: TypeAlias = tuple[type, np.dtype | None, Any]
NUMBERS: dict[type, Kind] = {kind: (kind, np.dtype(kind), ()) for kind in (float, bool, complex)} | {int: (int, np.dtype(np.int64), ())}
CODES = {float: "d", np.float64: "d", int: "q", bool: "?"}
CONSTANTS = frozenset({int, str, bytes, type(None)})
INTEGERS = 1 << 63  # of which a row holds those that are smaller


def key_of(leaves: Sequence[Any]) -> tuple[Kind, ...] | None:
    """Return the kinds of leaves; None where there is one that cannot be written."""
    key: list[Kind] = []
    for leaf in leaves:
        kind = type(leaf)
        if kind in NUMBERS and (kind is not int or -INTEGERS <= leaf < INTEGERS):
            key.append(NUMBERS[kind])
        elif kind is np.ndarray or issubclass(kind, np.generic):
            if leaf.dtype.hasobject:
                return None
            key.append((kind, leaf.dtype, leaf.shape))
        elif kind in CONSTANTS:
            key.append((kind, None, leaf))
        else:
            return None
    return tuple(key)


class Pattern:
    """How leaves of these kinds are packed into a row of `size` bytes; `nbytes` are those that `states.nbytes` counts."""

    def __init__(self, key: tuple[Kind, ...]) -> None:
        self.key = key
        self.sizes = [0 if dtype is None else dtype.itemsize * math.prod(shape) for _, dtype, shape in key]
        *self.places, self.size = accumulate(self.sizes, initial=0)
        self.nbytes = sum(8 if kind is bool else size for (kind, _, _), size in zip(key, self.sizes, strict=True))
        self.numbers = all(kind in CODES and dtype is not None for kind, dtype, _ in key)
        self.restored = [i for i, (kind, _, _) in enumerate(key) if kind is np.float64]
        self.struct = struct.Struct("=" + "".join(CODES[kind] for kind, _, _ in key)) if self.numbers else None

    def pack(self, leaves: Sequence[Any], buffer: bytearray, at: int) -> None:
        """Write leaves into a buffer; an integer of more than 64 bits, which is of another kind, is a `struct.error` or OverflowError."""
        if self.struct is not None:
            self.struct.pack_into(buffer, at, *leaves)
            return
        for leaf, (_, dtype, shape), place in zip(leaves, self.key, self.places, strict=True):
            if dtype is not None:
                np.ndarray(shape, dtype, buffer, at + place)[...] = leaf

    def unpack(self, buffer: bytes | bytearray | memoryview, at: int, copy: bool = True) -> list[Any]:
        """Read leaves from a buffer; without `copy`, aligned arrays show its memory."""
        if self.struct is not None:
            values = list(self.struct.unpack_from(buffer, at))
            for i in self.restored:
                values[i] = np.float64(values[i])
            return values
        leaves: list[Any] = []
        for (kind, dtype, shape), place in zip(self.key, self.places, strict=True):
            if dtype is None:
                leaves.append(shape)
                continue
            array = np.ndarray(shape, dtype, buffer, at + place)
            if kind is not np.ndarray:
                leaves.append(array.item() if kind in NUMBERS else array[()])
            else:
                leaves.append(np.array(array) if copy or not array.flags.carray else array)
        return leaves

    def parts(self, row: memoryview) -> list[memoryview]:
        """Return the bytes of each leaf in a row."""
        return [row[place : place + size] for place, size in zip(self.places, self.sizes, strict=True)]

    def blocks(self, leaves: Sequence[Any]) -> list[memoryview]:
        """Return the bytes of each leaf, which may share its memory."""
        return [raw_bytes(np.asarray(leaf, dtype)) for leaf, (_, dtype, _) in zip(leaves, self.key, strict=True) if dtype is not None]


class Record(NamedTuple):
    """States of one pattern, as a file has them: their rows, one behind the other, or the leaves of a single one."""

    pattern: Pattern
    structure: Any  # of optree, where it is known
    indices: list[int]
    rows: bytes | bytearray | list[Any]

    def blocks(self) -> list[memoryview]:
        """Return the bytes of the rows; of a single one those of each leaf, which may share its memory."""
        if isinstance(self.rows, list):
            return self.pattern.blocks(self.rows)
        rows = memoryview(self.rows)
        return self.pattern.parts(rows) if len(self.indices) == 1 else [rows]

    def leaves(self) -> dict[int, list[Any]]:
        """Return the leaves of each state by its index."""
        if isinstance(self.rows, list):
            return {self.indices[0]: self.rows}
        return {index: self.pattern.unpack(self.rows, i * self.pattern.size) for i, index in enumerate(self.indices)}


pattern_of = lru_cache(KNOWN_PATTERNS)(Pattern)  # it takes longer to make than a small state to save


class PatternRows:
    """The rows of one pattern, in blocks that stay where they are."""

    def __init__(self, pattern: Pattern, structure: optree.PyTreeSpec, number: int, types: tuple[type, ...]) -> None:
        self.pattern, self.structure, self.number = pattern, structure, number
        self.types = types if pattern.numbers else None  # where they say all of the pattern
        self.each = max(4 * PACKED_BYTES // max(pattern.size, 1), 1)  # rows in a block
        self.blocks: list[bytearray] = []
        self.free, self.top = array("q"), 0

    def add(self, leaves: Sequence[Any]) -> int:
        slot = self.free[-1] if self.free else self.top
        if slot == self.each * len(self.blocks):
            self.blocks.append(bytearray(self.each * self.pattern.size))
        block, row = divmod(slot, self.each)
        self.pattern.pack(leaves, self.blocks[block], row * self.pattern.size)
        if self.free:
            self.free.pop()
        else:
            self.top += 1
        return slot

    def bytes(self, slot: int) -> memoryview:
        at = slot % self.each * self.pattern.size
        return memoryview(self.blocks[slot // self.each])[at : at + self.pattern.size]


class PackedStates:
    """Packed states by their index, in rows of at most `largest` bytes; `nbytes` counts all rows."""

    def __init__(self, largest: int = PACKED_BYTES) -> None:
        self.largest = largest
        self.rows: dict[Any, PatternRows | None] = {}
        self.numbered: list[PatternRows] = []
        self.last: PatternRows | None = None
        self.saved, self.places = array("q"), array("q")  # ascending; the place is slot * KNOWN_PATTERNS + number of the rows
        self.nbytes = 0

    def add(self, index: int, structure: optree.PyTreeSpec, leaves: Sequence[Any]) -> int | None:
        """Pack a state that is not there; return the bytes of its leaves, as `nbytes` counts them, or None where it cannot be packed."""
        rows = self.last
        if rows is None or tuple(map(type, leaves)) != rows.types or structure != rows.structure:
            key = key_of(leaves)
            if key is None:
                return None
            try:
                rows = self.rows[structure, key]
            except KeyError:
                rows = self.new_rows(structure, key, leaves)
            if rows is None:
                return None
            if rows.types is not None:
                self.last = rows
        try:
            slot = rows.add(leaves)
        except struct.error:  # an integer of more than 64 bits, where the last one had fewer
            return None
        place, indices = slot * KNOWN_PATTERNS + rows.number, self.saved
        if not indices or index > indices[-1]:
            indices.append(index)
            self.places.append(place)
        else:
            i = bisect_left(indices, index)
            indices.insert(i, index)
            self.places.insert(i, place)
        pattern = rows.pattern
        self.nbytes += pattern.size
        return pattern.nbytes

    def get(self, index: int) -> tuple[optree.PyTreeSpec, list[Any]] | None:
        """Return the structure and the leaves of a state; None if it is not there."""
        found = self.find(index)
        if found is None:
            return None
        _, rows, slot = found
        return rows.structure, rows.pattern.unpack(rows.blocks[slot // rows.each], slot % rows.each * rows.pattern.size)

    def remove(self, index: int) -> int | None:
        """Free a state; return the bytes of its leaves, or None if it is not there."""
        found = self.find(index)
        if found is None:
            return None
        i, rows, slot = found
        del self.saved[i], self.places[i]
        if slot == rows.top - 1:
            rows.top -= 1
        else:
            rows.free.append(slot)
        self.nbytes -= rows.pattern.size
        return rows.pattern.nbytes

    def batch(self, indices: Iterable[int]) -> list[Record]:
        """Return copies of states, a record for each pattern."""
        found: dict[int, tuple[list[int], list[memoryview]]] = {}
        for index in indices:
            _, rows, slot = self.find(index)  # type: ignore[misc]  # it is there
            group = found.setdefault(rows.number, ([], []))
            group[0].append(index)
            group[1].append(rows.bytes(slot))
        parts = ((self.numbered[number], group) for number, group in found.items())
        return [Record(rows.pattern, rows.structure, group[0], b"".join(group[1])) for rows, group in parts]

    def clear(self) -> None:
        self.__init__(self.largest)  # type: ignore[misc]

    def indices(self) -> list[int]:
        return self.saved.tolist()

    def __len__(self) -> int:
        return len(self.saved)

    def __contains__(self, index: object) -> bool:
        return self.find(index) is not None  # type: ignore[arg-type]

    def find(self, index: int) -> tuple[int, PatternRows, int] | None:
        """Return the position of a state in the lists, its rows and its slot there; None if it is not there."""
        indices = self.saved
        if not indices:
            return None
        i = len(indices) - 1
        if indices[i] != index:
            i = bisect_left(indices, index)
            if i == len(indices) or indices[i] != index:
                return None
        place = self.places[i]
        return i, self.numbered[place % KNOWN_PATTERNS], place // KNOWN_PATTERNS

    def new_rows(self, structure: optree.PyTreeSpec, key: tuple[Kind, ...], leaves: Sequence[Any]) -> PatternRows | None:
        """Return the rows of a new pattern; None if it is not packed."""
        long = any(kind is int or len(value or "") > PACKED_BYTES for kind, dtype, value in key if dtype is None)
        if long or len(self.rows) >= KNOWN_PATTERNS:
            return None
        pattern, rows = pattern_of(key), None
        if pattern.size <= self.largest and all(dtype is None or dtype.itemsize for _, dtype, _ in key):
            rows = PatternRows(pattern, structure, len(self.numbered), tuple(map(type, leaves)))
            self.numbered.append(rows)
        self.rows[structure, key] = rows
        return rows


class MemorySession(Session):
    """The states of one sweep in main memory, at most `slots` of them; see `Session`. Small ones are packed, others ``pack(state)``.
    `name` is that of the storage in messages, `namespace` that of optree in which states are taken apart."""

    name, namespace = "Memory", ""

    def __init__(
        self,
        copy: Callable[[Any], Any] = copy_state,
        slots: int | None = None,
        pack: Callable[[Any], Any] = copy_state,
        unpack: Callable[[Any], Any] = copy_state,
        largest: int = PACKED_BYTES,
    ) -> None:
        self.copy = copy  # type: ignore[method-assign, assignment]
        self._slots, self._pack, self._unpack = slots, pack, unpack
        self._pool = PackedStates(largest)
        self._large: dict[int, Any] = {}  # what keeps states that are not packed
        self._bytes = 0

    def _put(self, index: int, state: Any) -> int:
        """Keep a copy of a state, and return the bytes of its leaves."""
        if self._slots is not None and len(self) >= self._slots:
            raise RuntimeError(
                f"Memory: cannot save state {index}: all {self._slots} slots hold states {self.indices()}; drop one, or give more slots"
            )
        if self._pack is copy_state:
            leaves, structure = self._flat(state)
            size = self._pool.add(index, structure, leaves)
            if size is not None:
                return size
        packed = self._pack(state)
        size = nbytes(packed)
        self._large[index] = packed, size
        return size

    def _take(self, index: int, kept: Any) -> Any:
        """Return a copy of a state that is not packed."""
        return self._unpack(kept[0])

    def _size(self, index: int, kept: Any) -> int:
        """Return the bytes of a state that is not packed."""
        return int(kept[1])

    def save(self, index: int, state: Any) -> None:
        if self._pool.find(index) is not None or index in self._large:
            raise ValueError(f"{self.name}: state {index} is saved already; drop it before saving it again")
        self._bytes += self._put(index, state)
        self.saves += 1
        count = len(self._pool) + len(self._large)
        if count > self.peak_states:
            self.peak_states = count
        if self._bytes > self.peak_bytes:
            self.peak_bytes = self._bytes

    def _flat(self, state: Any) -> tuple[Sequence[Any], optree.PyTreeSpec]:
        """Return the leaves and the structure of a state."""
        return ((state,), NUMBER) if type(state) is float else optree.tree_flatten(state, none_is_leaf=True, namespace=self.namespace)

    def load(self, index: int) -> Any:
        packed = self._pool.get(index)
        if packed is None:
            state = self._take(index, self._get(index, "load"))
        else:
            structure, leaves = packed
            state = leaves[0] if structure is NUMBER else structure.unflatten(leaves)
        self.loads += 1
        return state

    def drop(self, index: int) -> None:
        size = self._pool.remove(index)
        if size is None:
            size = self._size(index, self._get(index, "drop"))
            del self._large[index]
        self._bytes -= size

    def clear(self) -> None:
        self._large.clear()
        self._pool.clear()
        self._bytes = 0

    def indices(self) -> list[int]:
        return sorted([*self._pool.indices(), *self._large]) if self._large else self._pool.indices()

    def nbytes(self, index: int | None = None) -> int:
        if index is None:
            return self._bytes
        packed = self._pool.find(index)
        return self._size(index, self._get(index, "measure")) if packed is None else packed[1].pattern.nbytes

    def __len__(self) -> int:
        return len(self._pool) + len(self._large)

    def __contains__(self, index: object) -> bool:
        return index in self._pool or index in self._large

    def _get(self, index: int, verb: str) -> Any:
        """Return the entry of a state that is not packed; KeyError if there is none."""
        try:
            return self._large[index]
        except KeyError:
            raise KeyError(f"{self.name}: cannot {verb} state {index}: saved are {self.indices()}; save it first") from None


@dataclass(frozen=True, repr=False)
class Memory(Storage):
    """Keep copies of states in main memory.

    States are copied when they are saved and again when they are loaded, so a step may write into the state that it receives. Small states
    (up to 4 KB of numbers and arrays) are packed into a few blocks.

    Parameters
    ----------
    copy : ``copy(state) -> state`` for states that the default does not copy correctly, such as ``lambda x: x.clone()`` for a torch tensor.
        The default copies the array leaves of a pytree, C-contiguous, and keeps other leaves (numbers, None, texts) as they are.
    slots : most states saved at the same time; one more raises. The default is no limit.
    compress : ``"zlib"`` deflates the arrays of saved states, without loss. ``"float32"`` is lossy: it rounds arrays
        of double precision to single, so that steps are recomputed and pulled from states that are wrong in the eighth digit, and the
        gradient has an error of that order.

    Raises
    ------
    TypeError, ValueError
        If `copy` is not callable, or `slots` not an integer of at least 1, or there is no such `compress`, or it is given
        together with `copy`.

    Examples
    --------
    >>> session = Memory().open()
    >>> session.save(0, 4.5)
    >>> session.load(0), 0 in session, len(session), session.nbytes()
    (4.5, True, 1, 8)
    """

    copy: Callable[[Any], Any] | None = None
    slots: int | None = None
    compress: str | None = None

    def __post_init__(self) -> None:
        if self.copy is not None and not callable(self.copy):
            raise TypeError(f"Memory: copy must be a function of a state, got {self.copy!r}; leave it out for arrays")
        if self.slots is not None:
            hint = "leave it out for no limit"
            slots = whole_number(self.slots, where="Memory", argument="slots", least=1, hint=hint)
            object.__setattr__(self, "slots", slots)
        if self.compress is not None:
            if self.compress not in PACKERS:
                raise ValueError(f'Memory: compress must be "zlib" or "float32" (which is lossy), got {self.compress!r}')
            if self.copy is not None:
                raise TypeError("Memory: compress packs the arrays of a state, and does not go with a copy of your own")
        object.__setattr__(self, "lossy", self.compress == "float32")

    def open(self) -> MemorySession:
        copy = self.copy or copy_state
        pack, unpack = (copy, copy) if self.compress is None else PACKERS[self.compress]
        return MemorySession(copy, self.slots, pack, unpack)


def identity(state: Any) -> Any:
    return state


def slot_bytes(state: Any) -> int:
    """Return the bytes that a saved copy of a state takes in main memory, overhead included."""
    leaves: list[Any] = optree.tree_leaves(state, none_is_leaf=True)  # type: ignore[arg-type]
    key = key_of(leaves)
    if key is not None and (size := Pattern(key).size) <= PACKED_BYTES:
        return size + PACKED_ROW_BYTES
    return (2 + len(leaves)) * LEAF_BYTES + sum(map(nbytes, leaves))


def overhead_of(size: int) -> int:
    """Return the bytes around those of a saved state of one leaf, where they count."""
    return PACKED_ROW_BYTES if size <= PACKED_BYTES else 3 * LEAF_BYTES if size <= OVERHEAD_BYTES else 0
