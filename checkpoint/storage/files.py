"""One saved state in one file: written whole or not at all, checked when it is read, and nothing in it can be executed.

The layout: ``CKPT``, a format number, the length and the CRC-32 of the header; the header in JSON, with the index of the state, a
label (of which run it is, and under which name) and one entry a leaf; then every array leaf in NumPy's npy format (Python objects are
refused, so there is no pickle in it), its checksum (`check_of`) in the header. Other leaves (numbers, texts, booleans, None, bytes)
stand in the header itself. The structure of the pytree is not in the file: whoever reads it brings it along.
"""

import io
import json
import math
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import numpy as np

from ..support.byte_sizes import format_bytes
from .opening import created, opened
from .states import raw
from .storage import DamagedState

__all__ = [
    "NAMESPACE",
    "check_leaves",
    "encode_leaves",
    "entry_header",
    "next_leaves",
    "read_label",
    "read_leaves",
    "sync_file",
    "sync_folder",
    "write_all",
    "write_leaves",
]

NAMESPACE = "checkpoint"  # of optree: whoever registers a type of leaf here says how it is taken apart for a file
PREFIX = struct.Struct("<4sHII")
MAGIC, FORMAT = b"CKPT", 3
PART, COLUMNS = 1 << 20, 1024  # bytes of a table of words that is summed, and its columns
PLAIN = (float, bool, str, type(None))
ALLOWED = "arrays without Python objects, NumPy and Python numbers, texts, bytes, booleans and None"


def check_leaves(leaves: Sequence[Any]) -> None:
    """Raise TypeError, naming the type, for a leaf that cannot be written to a file."""
    for leaf in leaves:
        kind = type(leaf)
        if kind is np.ndarray or issubclass(type(leaf), np.generic):
            if leaf.dtype.hasobject:
                raise TypeError(f"Disk: a state has an array of dtype {leaf.dtype}, which is not written to disk; use {ALLOWED}")
        elif kind not in PLAIN and kind not in (int, complex, bytes):
            raise TypeError(f"Disk: a state has a leaf of type {kind.__name__}, which is not written to disk; use {ALLOWED}, or Memory()")


def write_leaves(path: Path, index: int, leaves: Sequence[Any], *, sync: bool = False, label: str = "") -> None:
    """Write the leaves of state `index` atomically (temporary name, then rename); with `sync`, they outlive a loss of power.

    `leaves`: as `check_leaves` accepts, C-contiguous. `label`: demanded by `read_leaves`. OSError names the file and its size."""
    blocks = encode_leaves(index, leaves, label)
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        _write(temporary, blocks, sync)
        os.replace(temporary, path)
        if sync:
            sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        size = format_bytes(sum(map(len, blocks)))
        reason = f"Disk: cannot write state {index}, which takes {size}: {error.strerror or error}"
        raise OSError(error.errno, reason, str(path)) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def encode_leaves(index: int, leaves: Sequence[Any], label: str = "") -> list[Any]:
    """The bytes of leaves with an index, in the layout above, in blocks that may show the memory of the leaves."""
    entries, blocks = [], []
    for leaf in leaves:
        entry, block = _encode(leaf)
        entries.append(entry)
        blocks += block
    header = json.dumps({"index": index, "label": label, "leaves": entries}).encode()
    return [PREFIX.pack(MAGIC, FORMAT, len(header), crc32(header)), header, *blocks]


def next_leaves(file: BinaryIO, label: str = "") -> tuple[int, list[Any]]:
    """Read what `encode_leaves` made, from where the file is; if it is not whole, or of another label, that is a ValueError."""
    content = _header(file)
    if content["label"] != label:
        raise ValueError("it is of another run, or was another file")
    return content["index"], [_decode(entry, file) for entry in content["leaves"]]


def entry_header(file: BinaryIO) -> tuple[str, int]:
    """The label of what `encode_leaves` made, from where the file is, and the bytes of all of it; a ValueError if it is not there."""
    start = file.tell()
    content = _header(file)
    arrays = (entry.get("array") or entry.get("scalar") for entry in content["leaves"])
    return str(content["label"]), file.tell() - start + sum(entry["bytes"] for entry in arrays if entry)


def read_label(path: Path) -> str | None:
    """The label of a file, None if not even its header can be read."""
    try:
        with opened(path) as file:
            return str(_header(file)["label"])
    except (OSError, ValueError):
        return None


def read_leaves(path: Path, index: int, label: str = "", what: str = "") -> list[Any]:
    """Return the leaves of state `index`, every byte checked; `what` names the content in messages.

    Raises DamagedState if the file is gone, truncated or altered, or belongs to another state or run (`label`)."""
    try:
        with opened(path) as file:
            return _read(file, index, label)
    except MemoryError:
        raise
    except Exception as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        raise DamagedState(f"Disk: {what or f'state {index}'} cannot be read back from {path}: {reason}") from error


def write_all(file: io.FileIO, data: Any) -> None:
    """Write bytes into an unbuffered file, which may take them in parts."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def sync_file(path: Path) -> None:
    """Force what was written to a file onto the disk itself."""
    with opened(path, "r+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names of the files in a folder outlive a loss of power, where the system can do that."""
    if hasattr(os, "O_DIRECTORY"):  # elsewhere a folder cannot be opened
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ------------------------------------------------------------------------------------------------------------- parts


def _encode(leaf: Any) -> tuple[dict[str, Any], list[Any]]:
    """Entry of a leaf in the header, and its block of the file."""
    kind = type(leaf)
    if kind in PLAIN:
        return {"value": leaf}, []
    if kind is int:
        return {"int": f"{leaf:x}"}, []
    if kind is complex:
        return {"complex": [leaf.real, leaf.imag]}, []
    if kind is bytes:
        return {"bytes": leaf.hex()}, []
    array = np.ascontiguousarray(leaf).reshape(np.shape(leaf))
    buffer = io.BytesIO()
    np.lib.format.write_array_header_2_0(buffer, np.lib.format.header_data_from_array_1_0(array))
    header, data = buffer.getvalue(), raw(array)
    check = check_of(data, crc32(header))
    entry = {"shape": array.shape, "dtype": str(array.dtype), "bytes": len(header) + len(data), "check": check}
    return {"scalar" if issubclass(type(leaf), np.generic) else "array": entry}, [header, data]


def check_of(data: memoryview, before: int = 0) -> int:
    """Return the checksum of data after `before`: a CRC-32 of the row and column sums (mod 2^64) of each whole MiB, and of the rest.

    It takes a quarter of the time of a CRC-32 and finds damage, not deliberate changes or a flipped sign of every number."""
    whole = len(data) - len(data) % PART
    for start in range(0, whole, PART):
        words = np.frombuffer(data[start : start + PART], np.uint64).reshape(-1, COLUMNS)
        before = crc32(np.add.reduce(words, 1).data, crc32(np.add.reduce(words, 0).data, before))
    return crc32(data[whole:], before)


def _decode(entry: dict[str, Any], file: BinaryIO) -> Any:
    ((kind, value),) = entry.items()
    match kind:
        case "value":
            return value
        case "int":
            return int(value, 16)
        case "complex":
            return complex(*value)
        case "bytes":
            return bytes.fromhex(value)
        case "array" | "scalar":
            array = _read_array(file, value)
            return array if kind == "array" else array[()]
    raise ValueError(f"a leaf of kind {kind!r} is unknown")


def _write(path: Path, blocks: Sequence[Any], sync: bool) -> None:
    with created(path) as file:
        for block in blocks:
            write_all(file, block)
        if sync:
            os.fsync(file.fileno())


def _header(file: Any) -> dict[str, Any]:
    magic, number, length, check = PREFIX.unpack(_take(file, PREFIX.size))
    if (magic, number) != (MAGIC, FORMAT):
        raise ValueError("it is not the file of a state in this format")
    header = _take(file, length)
    if crc32(header) != check:
        raise ValueError("its header has been altered")
    content: dict[str, Any] = json.loads(header)
    return content


def _read(file: Any, index: int, label: str) -> list[Any]:
    found, leaves = next_leaves(file, label)
    if found != index:
        raise ValueError(f"it holds state {found}")
    if file.read(1):
        raise ValueError("there is something behind its end")
    return leaves


def _read_array(file: Any, entry: dict[str, Any]) -> np.ndarray:
    start = file.tell()
    try:
        if np.lib.format.read_magic(file) != (2, 0):
            raise ValueError
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    except (OSError, MemoryError):
        raise
    except Exception:  # of the parser of the header, which is not made for bits that flip
        raise ValueError("an array in it is not in the expected format") from None
    length = file.tell() - start
    nbytes = math.prod(shape) * dtype.itemsize
    file.seek(start)
    check = crc32(_take(file, length))
    if fortran or dtype.hasobject or length + nbytes != entry["bytes"] or list(shape) != entry["shape"]:
        raise ValueError("an array in it is not the one of its header")
    if nbytes > os.fstat(file.fileno()).st_size - file.tell():
        raise ValueError("it is cut off")
    array = np.empty(shape, dtype)
    rest = raw(array)
    while rest:
        read = file.readinto(rest)
        if not read:
            raise ValueError("it is cut off")
        rest = rest[read:]
    if check_of(raw(array), check) != entry["check"]:
        raise ValueError("an array in it has been altered")
    return array


def _take(file: Any, length: int) -> bytes:
    data = file.read(length) if length <= os.fstat(file.fileno()).st_size else b""
    if len(data) != length:
        raise ValueError("it is cut off")
    return data
