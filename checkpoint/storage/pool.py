"""Small states, packed: their bytes stand side by side in a few blocks instead of in an object for every number.

A state of two Python numbers takes 220 bytes as objects, and 36 here. States of one pattern (the kinds of the leaves, in their order)
have rows of one length; a row is found by the index of its state.
"""

import json
import struct
from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import optree

from ..support.costs import LEAF_BYTES, PACKED_BYTES, PACKED_ROW_BYTES, PATTERN_TEXT, POOL_BLOCK_BYTES, POOL_PATTERNS, STATE_BYTES
from .states import nbytes

__all__ = ["NUMBER", "PackedStates", "Pattern", "key_of", "slot_bytes"]

NUMBER = optree.tree_structure(0.0, none_is_leaf=True)  # type: ignore[arg-type]
NUMBERS = {float: "d", np.float64: "d", int: "q", bool: "?"}


def key_of(leaves: Sequence[Any]) -> tuple[Hashable, ...] | None:
    """What patterns are told apart by; None where a leaf cannot be packed."""
    key: list[Any] = []
    for leaf in leaves:
        kind = type(leaf)
        if kind in NUMBERS or kind is complex:
            key.append(kind)
        elif kind is np.ndarray:
            key.append((leaf.dtype, leaf.shape))
        elif issubclass(type(leaf), np.generic):
            key.append((kind, leaf.dtype))
        elif leaf is None or (kind in (str, bytes) and len(leaf) <= PATTERN_TEXT):
            key.append((kind, leaf))
        else:
            return None
    return tuple(key)


class Pattern:
    """The kinds of a state's leaves, and how they are packed into a row of `size` bytes.
    `kinds` is JSON: ``["d"]`` a float, ``["n", dtype]`` a NumPy scalar, ``["a", dtype, shape]`` an array, ``["c", text]`` the same in
    all states."""

    def __init__(self, kinds: list[list[Any]]) -> None:
        self.kinds = kinds
        self.numbers = all(kind[0] in ("d", "q", "?", "f") for kind in kinds)
        self.floats = all(kind[0] == "d" for kind in kinds)
        self.restored = [i for i, kind in enumerate(kinds) if kind[0] == "f"]
        self.struct = struct.Struct("=" + "".join("d" if kind[0] == "f" else kind[0] for kind in kinds)) if self.numbers else None
        self.dtypes = [np.dtype(kind[1]) if kind[0] in "an" else None for kind in kinds]
        self.sizes = [self._bytes(kind) for kind in kinds]
        self.size = self.struct.size if self.struct else sum(self.sizes)
        self.nbytes = sum(8 if kind[0] == "?" else 0 if kind[0] in "cbN" else size for kind, size in zip(kinds, self.sizes, strict=True))

    @staticmethod
    def of(leaves: Sequence[Any]) -> "Pattern | None":
        """The pattern of these leaves; None if one of them cannot be packed."""
        if key_of(leaves) is None:
            return None
        kinds = [_described(leaf) for leaf in leaves]
        return None if None in kinds else Pattern(kinds)  # type: ignore[arg-type]

    def text(self) -> str:
        """All of it, for a file."""
        return json.dumps(self.kinds)

    @staticmethod
    def read(text: str) -> "Pattern":
        """What `text` says."""
        return Pattern([list(kind) for kind in json.loads(text)])

    def pack(self, leaves: Sequence[Any], buffer: bytearray, at: int) -> None:
        """Write leaves into a buffer; an integer of more than 64 bits is a `struct.error`."""
        if self.struct is not None:
            self.struct.pack_into(buffer, at, *leaves)
            return
        for leaf, kind, size in zip(leaves, self.kinds, self.sizes, strict=True):
            if not size:
                continue
            match kind[0]:
                case "a":
                    np.ndarray(leaf.shape, leaf.dtype, buffer, at)[...] = leaf
                case "n":
                    buffer[at : at + size] = leaf.tobytes()
                case "D":
                    struct.pack_into("=dd", buffer, at, leaf.real, leaf.imag)
                case code:
                    struct.pack_into("=d" if code == "f" else f"={code}", buffer, at, leaf)
            at += size

    def unpack(self, buffer: bytes | bytearray | memoryview, at: int) -> list[Any]:
        """Read leaves from a buffer; arrays are copies."""
        if self.struct is not None:
            values = list(self.struct.unpack_from(buffer, at))
            for i in self.restored:
                values[i] = np.float64(values[i])
            return values
        leaves: list[Any] = []
        for kind, size, dtype in zip(self.kinds, self.sizes, self.dtypes, strict=True):
            match kind[0]:
                case "a":
                    leaves.append(np.array(np.ndarray(kind[2], dtype, buffer, at)))
                case "n":
                    leaves.append(np.frombuffer(buffer, np.dtype(kind[1]), 1, at)[0])
                case "D":
                    leaves.append(complex(*struct.unpack_from("=dd", buffer, at)))
                case "f":
                    leaves.append(np.float64(struct.unpack_from("=d", buffer, at)[0]))
                case "N":
                    leaves.append(None)
                case "c":
                    leaves.append(kind[1])
                case "b":
                    leaves.append(bytes.fromhex(kind[1]))
                case code:
                    leaves.append(struct.unpack_from(f"={code}", buffer, at)[0])
            at += size
        return leaves

    @staticmethod
    def _bytes(kind: list[Any]) -> int:
        match kind[0]:
            case "a":
                return int(np.prod(kind[2], dtype=np.int64)) * np.dtype(kind[1]).itemsize
            case "n":
                return np.dtype(kind[1]).itemsize
            case "D":
                return 16
            case "c" | "b" | "N":
                return 0
            case code:
                return struct.calcsize("=d" if code == "f" else f"={code}")


def _described(leaf: Any) -> list[Any] | None:
    kind = type(leaf)
    if kind is np.float64:
        return ["f"]
    if kind in NUMBERS:
        return [NUMBERS[kind]]
    if kind is complex:
        return ["D"]
    if leaf is None:
        return ["N"]
    if kind is str:
        return ["c", leaf]
    if kind is bytes:
        return ["b", leaf.hex()]
    if leaf.dtype.hasobject or np.dtype(leaf.dtype.str) != leaf.dtype or not leaf.dtype.itemsize:
        return None
    return ["a", leaf.dtype.str, list(leaf.shape)] if kind is np.ndarray else ["n", leaf.dtype.str]


class _Rows:
    """The rows of one pattern, in blocks that stay where they are."""

    def __init__(self, pattern: Pattern, structure: optree.PyTreeSpec, number: int, types: tuple[type, ...]) -> None:
        self.pattern, self.structure, self.number = pattern, structure, number
        self.types = types if pattern.numbers else None  # where they say all of the pattern
        self.each = max(POOL_BLOCK_BYTES // max(pattern.size, 1), 1)  # rows in a block
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
        self._largest = largest
        self._rows: dict[Any, _Rows | None] = {}
        self._numbered: list[_Rows] = []
        self._last: _Rows | None = None
        self._indices, self._places = array("q"), array("q")  # ascending; the place is slot * POOL_PATTERNS + number of the rows
        self.nbytes = 0

    def add(self, index: int, structure: optree.PyTreeSpec, leaves: Sequence[Any]) -> int | None:
        """Pack a state that is not there; return the bytes of its leaves, as `nbytes` counts them, or None where it cannot be packed."""
        rows = self._last
        if rows is None or tuple(map(type, leaves)) != rows.types or structure != rows.structure:
            key = key_of(leaves)
            if key is None:
                return None
            try:
                rows = self._rows[structure, key]
            except KeyError:
                rows = self._made(structure, key, leaves)
            if rows is None:
                return None
            if rows.types is not None:
                self._last = rows
        try:
            slot = rows.add(leaves)
        except struct.error:  # an integer of more than 64 bits
            return None
        place, indices = slot * POOL_PATTERNS + rows.number, self._indices
        if not indices or index > indices[-1]:
            indices.append(index)
            self._places.append(place)
        else:
            i = bisect_left(indices, index)
            indices.insert(i, index)
            self._places.insert(i, place)
        pattern = rows.pattern
        self.nbytes += pattern.size
        return pattern.nbytes

    def get(self, index: int) -> tuple[optree.PyTreeSpec, list[Any]] | None:
        """The structure and the leaves of a state; None if it is not there."""
        found = self._find(index)
        if found is None:
            return None
        _, rows, slot = found
        return rows.structure, rows.pattern.unpack(rows.blocks[slot // rows.each], slot % rows.each * rows.pattern.size)

    def remove(self, index: int) -> int | None:
        """Free a state; return the bytes of its leaves, or None if it is not there."""
        found = self._find(index)
        if found is None:
            return None
        i, rows, slot = found
        del self._indices[i], self._places[i]
        if slot == rows.top - 1:
            rows.top -= 1
        else:
            rows.free.append(slot)
        self.nbytes -= rows.pattern.size
        return rows.pattern.nbytes

    def data_bytes(self, index: int) -> int | None:
        """Bytes of the leaves of a state; None if it is not there."""
        found = self._find(index)
        return None if found is None else found[1].pattern.nbytes

    def batch(self, indices: Iterable[int]) -> list[tuple[Pattern, optree.PyTreeSpec, list[int], bytes]]:
        """States that are there, copied: for each pattern, their indices and their rows one behind the other."""
        found: dict[int, tuple[list[int], list[memoryview]]] = {}
        for index in indices:
            _, rows, slot = self._find(index)  # type: ignore[misc]  # it is there
            group = found.setdefault(rows.number, ([], []))
            group[0].append(index)
            group[1].append(rows.bytes(slot))
        parts = ((self._numbered[number], group) for number, group in found.items())
        return [(rows.pattern, rows.structure, group[0], b"".join(group[1])) for rows, group in parts]

    def clear(self) -> None:
        """Free everything."""
        self.__init__(self._largest)  # type: ignore[misc]

    def indices(self) -> list[int]:
        """Indices of the states, ascending."""
        return self._indices.tolist()

    def __len__(self) -> int:
        return len(self._indices)

    def __contains__(self, index: object) -> bool:
        return self._find(index) is not None  # type: ignore[arg-type]

    def _find(self, index: int) -> tuple[int, _Rows, int] | None:
        """The position of a state in the lists, its rows and its slot there; None if it is not there."""
        indices = self._indices
        if not indices:
            return None
        i = len(indices) - 1
        if indices[i] != index:
            i = bisect_left(indices, index)
            if i == len(indices) or indices[i] != index:
                return None
        place = self._places[i]
        return i, self._numbered[place % POOL_PATTERNS], place // POOL_PATTERNS

    def _made(self, structure: optree.PyTreeSpec, key: Hashable, leaves: Sequence[Any]) -> _Rows | None:
        """The rows of a new pattern; None if it is not packed."""
        if len(self._rows) >= POOL_PATTERNS:
            return None
        pattern = Pattern.of(leaves)
        rows = None
        if pattern is not None and pattern.size <= self._largest:
            rows = _Rows(pattern, structure, len(self._numbered), tuple(map(type, leaves)))
            self._numbered.append(rows)
        self._rows[structure, key] = rows
        return rows


def slot_bytes(state: Any) -> int:
    """Return the bytes that a saved copy of a state takes in main memory, overhead included."""
    leaves: list[Any] = optree.tree_leaves(state, none_is_leaf=True)  # type: ignore[arg-type]
    pattern = Pattern.of(leaves)
    if pattern is not None and pattern.size <= PACKED_BYTES:
        return pattern.size + PACKED_ROW_BYTES
    return STATE_BYTES + sum(LEAF_BYTES + nbytes(leaf) for leaf in leaves)
