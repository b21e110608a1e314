"""Leaves as bytes, in one format for main memory, files and logs: a pattern gives their kinds, and a row holds their data.

A record in a file is: ``CKPT``, a format number, the length and the CRC-32 of a header; the header in JSON, with a label (of which run or
evaluation it is), the number of rows, the kinds of the leaves in a row, and the length and the checksum of the data; then the data: the
index of each row, and the rows. Python objects are refused, so that reading a file runs nothing. The structure of a pytree is not in the
file: whoever reads it brings it along.
"""

import io
import json
import os
import struct
from ast import literal_eval
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

import numpy as np

from .files import open_file, write_file
from .memory import NUMBERS, Kind, Pattern, Record, key_of
from .states import raw_bytes
from .storage import DamagedState

NAMESPACE = "checkpoint"  # of optree: whoever registers a type of leaf here says how it is taken apart for a file
PREFIX = struct.Struct("<4sHII")
MAGIC, FORMAT = b"CKPT", 4
PART, COLUMNS = 1 << 20, 1024  # bytes of a table of words that is summed, and its columns
ALLOWED = "arrays without Python objects, NumPy and Python numbers, texts, bytes, booleans and None"

NAMES = {kind.__name__: kind for kind in NUMBERS}


def check_leaves(leaves: Sequence[Any]) -> tuple[Kind, ...]:
    """Return the kinds of leaves; TypeError, naming the type, for one that cannot be written."""
    key = key_of(leaves)
    if key is not None:
        return key
    leaf = next(leaf for leaf in leaves if key_of([leaf]) is None)
    what = f"an array of dtype {leaf.dtype}" if type(leaf) is np.ndarray else f"a leaf of type {type(leaf).__name__}"
    raise TypeError(f"Disk: a state has {what}, which is not written to disk; use {ALLOWED}, or Memory()")


def kind_as_json(given: Kind) -> list[Any]:
    kind, dtype, value = given
    if dtype is None:
        return ["constant", value.hex() if kind is bytes else f"{value:x}" if kind is int else value, kind.__name__]
    if kind in NUMBERS:
        return [kind.__name__]
    return ["array" if kind is np.ndarray else "scalar", repr(np.lib.format.dtype_to_descr(dtype)), list(value)]


def kind_of_json(text: list[Any]) -> Kind:
    match text:
        case [str(name)] if name in NAMES:
            return NUMBERS[NAMES[name]]
        case ["constant", None, "NoneType"]:
            return type(None), None, None
        case ["constant", str(value), "str"]:
            return str, None, value
        case ["constant", str(value), "bytes"]:
            return bytes, None, bytes.fromhex(value)
        case ["constant", str(value), "int"]:
            return int, None, int(value, 16)
        case ["array" | "scalar" as name, str(descr), [*shape]] if all(type(n) is int and n >= 0 for n in shape):
            dtype = np.lib.format.descr_to_dtype(literal_eval(descr))
            if not dtype.hasobject:
                return (np.ndarray if name == "array" else dtype.type), dtype, tuple(shape)
    raise ValueError(f"a leaf of kind {text!r} is unknown")


# ----------------------------------------------------------------------------------------------------------- records


class Header(NamedTuple):
    """The header of a record."""

    label: str
    rows: int
    leaves: list[list[Any]]  # see `kind_as_json`
    bytes: int  # of the data
    check: int  # of the data


def encode_leaves(index: int, leaves: Sequence[Any], label: str = "") -> list[Any]:
    """Return the bytes of a record of leaves with an index, in blocks that may share their memory; errors as `check_leaves`."""
    return encode_records([Record(Pattern(check_leaves(leaves)), None, [index], list(leaves))], label)


def encode_records(records: Iterable[Record], label: str = "") -> list[Any]:
    """Return the bytes of records, in blocks that may share the memory of leaves."""
    encoded: list[Any] = []
    for record in records:
        blocks = [raw_bytes(np.array(record.indices, np.int64)), *record.blocks()]
        kinds = list(map(kind_as_json, record.pattern.key))
        header = json.dumps(Header(label, len(record.indices), kinds, sum(map(len, blocks)), checksum_of(blocks))._asdict()).encode()
        encoded += [PREFIX.pack(MAGIC, FORMAT, len(header), crc32(header)), header, *blocks]
    return encoded


def read_header(file: BinaryIO) -> Header:
    """Read the header of a record from where a file is; a ValueError if it is not there."""
    magic, number, length, check = PREFIX.unpack(read_bytes(file, PREFIX.size))
    if (magic, number) != (MAGIC, FORMAT):
        raise ValueError("it is not the file of a state in this format")
    header = read_bytes(file, length)
    if crc32(header) != check:
        raise ValueError("its header has been altered")
    try:
        content = Header(**json.loads(bytes(header)))
    except TypeError:
        content = None
    if content is None or not all(map(isinstance, content, (str, int, list, int, int))):
        raise ValueError("its header is not that of a state")
    return content


def read_record(file: BinaryIO, label: str = "") -> dict[int, list[Any]]:
    """Read a record from where a file is, leaves by index; if it is not whole, or of another label, that is a ValueError."""
    header = read_header(file)
    if header.label != label:
        raise ValueError("it is of another run, or was another file")
    pattern, count = Pattern(tuple(map(kind_of_json, header.leaves))), header.rows
    if header.bytes != count * (8 + pattern.size):
        raise ValueError("its data do not match its header")
    data = read_bytes(file, header.bytes)
    indices, rows = data[: 8 * count], data[8 * count :]
    if checksum_of([indices, *(pattern.parts(rows) if count == 1 else [rows])]) != header.check:
        raise ValueError("its data have been altered")
    leaves = [pattern.unpack(rows, i * pattern.size, copy=count > 1) for i in range(count)]
    return dict(zip(indices.cast("q"), leaves, strict=True))


def check_of(data: memoryview, before: int = 0) -> int:
    """Return the checksum of data after `before`: a CRC-32 of the row and column sums (mod 2^64) of each whole MiB, and of the rest.
    It takes a quarter of the time of a CRC-32 and finds damage, not deliberate changes or a flipped sign of every number."""
    whole = len(data) - len(data) % PART
    for start in range(0, whole, PART):
        words = np.frombuffer(data[start : start + PART], np.uint64).reshape(-1, COLUMNS)
        before = crc32(np.add.reduce(words, 1).data, crc32(np.add.reduce(words, 0).data, before))
    return crc32(data[whole:], before)


def checksum_of(blocks: Sequence[memoryview]) -> int:
    check = 0
    for block in blocks:
        check = check_of(block, check)
    return check


def bytes_left(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size - file.tell()


def read_bytes(file: BinaryIO, length: int) -> memoryview:
    """Read so many bytes; where they are not there, that is a ValueError before so much memory is asked for."""
    if length > PART and length > bytes_left(file):
        raise ValueError("it is cut off")
    memory = rest = raw_bytes(np.empty(length, np.uint8))
    while rest:
        read = file.readinto(rest)  # type: ignore[attr-defined]
        if not read:
            raise ValueError("it is cut off")
        rest = rest[read:]
    return memory


# ------------------------------------------------------------------------------------------------------------- files


def write_leaves(path: Path, index: int, leaves: Sequence[Any], *, sync: bool = False, label: str = "") -> None:
    """Write the leaves of state `index` into a file of their own; see `files.write_file`. `label`: demanded by `read_leaves`."""
    write_file(path, encode_leaves(index, leaves, label), f"state {index}", sync)


def read_leaves(path: Path, index: int, label: str = "", what: str = "") -> list[Any]:
    """Return the leaves of state `index`, every byte checked; see `read_records`."""
    (rows,) = read_records(path, label, what or f"state {index}", [index])
    return rows[index]


def read_records(path: Path, label: str, what: str, indices: Iterable[int] | None = None) -> list[dict[int, list[Any]]]:
    """Return the records of a file, leaves by index; `what` names its content in messages.
    Raises DamagedState if the file is gone, truncated or altered, or belongs to another run (`label`), or has not these states."""
    try:
        with io.BufferedReader(open_file(path)) as file:
            records = [read_record(file, label)]
            while bytes_left(file):
                if not file.peek().startswith(MAGIC):
                    raise ValueError("it has bytes after its end")
                records.append(read_record(file, label))
            found = [index for rows in records for index in rows]
            if indices is not None and found != list(indices):
                raise ValueError(f"it holds state {', '.join(map(str, found))}")
            return records
    except MemoryError:
        raise
    except Exception as error:
        raise unreadable(what, path, error) from error


def unreadable(what: str, path: Path, error: Exception, where: str = "Disk") -> DamagedState:
    """Return the error for something in a file that cannot be read back."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return DamagedState(f"{where}: {what} cannot be read back from {path}: {reason}")
