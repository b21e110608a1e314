"""Digests of values: the same value has the same one in every process, whatever its layout in memory."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import blake2b
from inspect import unwrap
from types import CodeType
from typing import Any
from zlib import adler32, crc32

import numpy as np
import optree

from .codec import NAMESPACE
from .states import raw_bytes

PLAIN = (float, int, bool, complex, str, bytes, type(None), np.generic)
PART = 1 << 20
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # of an object in the structure: another one in every process


def checksum(state: Any) -> int:
    """Return the CRC-32 of a state: structure, types, shapes and every bit of the data, whatever the memory layout of its arrays.
    Raises TypeError for a leaf that is neither plain data nor can be made an array."""
    total = 0
    for piece in pieces_of(state, "check=True: a state"):
        total = crc32(piece, total)
    return total


def digest(value: Any, what: str) -> str:
    """Return 128 bits of BLAKE2b, in hexadecimal, of a value: the same in every process. Errors begin with `what`.
    A function counts by its compiled code and plain defaults, or else its name and methods, without what it closes over."""
    return hash_pieces(pieces_of(value, what))


def hash_pieces(pieces: Iterable[Any]) -> str:
    """Return 128 bits of BLAKE2b over pieces with their lengths, in hexadecimal."""
    total = blake2b(digest_size=16)
    for piece in pieces:
        total.update(len(piece).to_bytes(8))
        total.update(piece)
    return total.hexdigest()


def text_or_digest(value: Any, what: str) -> str:
    """Return the repr of a number, a short text, a boolean or None, and the digest of anything else."""
    text = repr(value) if issubclass(type(value), PLAIN) else ""
    return text if 0 < len(text) <= 60 else digest(value, what)


def pieces_of(value: Any, what: str) -> Iterator[Any]:
    """Yield the structure of a value, and type, shape and data of each leaf, as bytes."""
    leaves, structure = optree.tree_flatten(value, none_is_leaf=True, namespace=NAMESPACE)
    yield ADDRESS.sub("", str(structure)).encode()
    for leaf in leaves:
        if issubclass(type(leaf), PLAIN):
            yield f"{type(leaf).__name__} {leaf!r}".encode("utf-8", "surrogatepass")
            continue
        if callable(leaf):
            yield from function_pieces(leaf, what)
            continue
        try:
            data = np.asarray(leaf)
            if data.dtype.hasobject:
                raise TypeError("its dtype is object")
        except Exception as error:
            kind = type(leaf).__name__
            raise TypeError(f"{what} has a leaf of type {kind}, whose data cannot be compared ({error})") from error
        yield f"{data.dtype.str} {data.shape}".encode()
        yield from summed_parts(raw_bytes(data))


def summed_parts(data: memoryview) -> Iterator[Any]:
    """Yield the data; if they are large, two checksums of each part instead, which take a seventh of the time of BLAKE2b."""
    if len(data) <= PART:
        yield data
        return
    for start in range(0, len(data), PART):
        part = data[start : start + PART]
        yield crc32(part).to_bytes(4) + adler32(part).to_bytes(4)


def function_pieces(function: Callable[..., Any], what: str) -> Iterator[Any]:
    """Yield the compiled code of a function and the numbers and texts among its defaults; of an object or a class its name and methods."""
    if isinstance(function, partial):
        yield from function_pieces(function.func, what)
        yield from pieces_of((function.args, function.keywords), what)
        return
    function = unwrap(function)
    parts: list[Any] = [function]
    if not hasattr(function, "__code__"):
        kind: Any = function if hasattr(function, "__qualname__") else type(function)
        yield f"{kind.__module__}.{kind.__qualname__}".encode()
        methods = {**getattr(kind, "__dict__", {}), "__call__": kind.__call__}
        parts = [part for _, part in sorted(methods.items()) if hasattr(part, "__code__")]
    for part in parts:
        yield from code_pieces(part.__code__)
        defaults: Any = [getattr(part, name, None) for name in ("__defaults__", "__kwdefaults__")]
        yield repr([default for default in optree.tree_leaves(defaults) if issubclass(type(default), PLAIN)]).encode()


def code_pieces(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_pieces(constant)
        else:
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant).encode()
