"""Machine code on disk, so that a later process need not compile.

The folder is ``$DUALAD_CACHE_DIR``, else ``dualad`` in the user's cache folder. Machine code is executed, so only what this user alone
can have written is read (`trusted`). A file is named by a digest of the LLVM code, the versions and the processor, and begins with a
digest of its content: what is damaged is compiled again. All files together take ``$DUALAD_CACHE_SIZE``.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
import time
import warnings
from functools import cache

import numpy as np

from ..support.byte_sizes import format_bytes, parse_bytes
from ..support.forks import compiler
from .trusted import opened

#: bytes of all files together where `$DUALAD_CACHE_SIZE` does not say: some thousand functions
DEFAULT_BYTES = 256_000_000
#: seconds after which nobody goes on writing a file
ABANDONED_SECONDS = 3600.0

OURS = re.compile(r"[0-9a-f]{32}\.code|\.writing-[0-9a-f]{16}")
HELP = "set DUALAD_CACHE_DIR to a folder that you alone can write into, in one that nobody else can, or DUALAD_CACHE_SIZE=0"


class CacheWarning(UserWarning):
    """Compiled code is not kept on disk."""


def folder() -> str:
    """Return the path of the cache's folder."""
    given = os.environ.get("DUALAD_CACHE_DIR")
    if given:
        return os.path.abspath(given)
    caches = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(caches):  # as its specification says
        caches = os.path.expanduser("~/.cache")
    if caches.startswith("~"):
        raise OSError("this user has no home folder")
    return os.path.join(caches, "dualad")


def size() -> int:
    """Return how many bytes the files may take; 0 where the cache is switched off."""
    try:
        return parse_bytes(os.environ.get("DUALAD_CACHE_SIZE") or DEFAULT_BYTES, "dualad.jit", "DUALAD_CACHE_SIZE")
    except ValueError as error:
        raise OSError(str(error)) from None


@cache
def surroundings() -> bytes:
    """Return what machine code depends on besides its LLVM code: versions, the processor."""
    with compiler():
        import llvmlite
        from llvmlite import binding

        processor = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()

    return repr((sys.version, llvmlite.__version__, np.__version__, platform.machine(), processor)).encode()


@cache
def warn_once(reason):
    warnings.warn(f"dualad.jit: compiled code is not kept on disk: {reason}; {HELP}", CacheWarning, stacklevel=2)


# --- machine code -----------------------------------------------------------------------------------------------------------------


def stored(digest: str, make) -> bytes:
    """Return the machine code of a function, by the digest of its source: that on disk, else what `make` returns, which is kept."""
    code = None
    try:
        most = size()
        if most:
            name = f"{hashlib.sha256(surroundings() + digest.encode()).hexdigest()[:32]}.code"
            with opened(folder()) as files:
                code = content_of(files.read(name))
                if code is None:
                    code = make()
                    keep(files, name, hashlib.sha256(code).digest() + code, most)
    except OSError as error:
        warn_once(reason(error))
    return make() if code is None else code


def content_of(file: bytes | None) -> bytes | None:
    """Return what a file holds, None where it is not whole."""
    return file[32:] if file is not None and hashlib.sha256(file[32:]).digest() == file[:32] else None


def reason(error):
    return str(error) if error.filename is None else f"{error.filename}: {error.strerror}"


#: of folders, and of what files may take in them, how many bytes this process may write before it looks through the files again
ROOM: dict[tuple[str, int], int] = {}


def keep(files, name, content, most):
    """Write a file, and remove the least recently used ones beyond what all may take."""
    if len(content) <= most:
        room = ROOM.get((files.path, most), 0) - len(content)
        if room < 0:  # of what is free, other processes take as much
            room = remove_beyond(files, most - len(content)) // 16
        files.write(name, content)
        ROOM[files.path, most] = room


def remove_beyond(files, most):
    """Remove the least recently used files until what is left takes no more than so many bytes; return how many are free."""
    found = sorted(file for file in files.files() if OURS.fullmatch(file[2]))
    total = sum(size for _, size, _ in found)
    for used, size, name in found:
        if total > most if name.endswith(".code") else used < time.time() - ABANDONED_SECONDS:
            files.remove(name)
            total -= size
    return most - total


def clear_cache() -> int:
    """Remove the machine code that `jit` has kept on disk, of all programs of this user.

    Running functions are not affected; later compilations are stored again.

    Returns
    -------
    int
        How many bytes were freed.

    Raises
    ------
    OSError
        If another user can write into the folder, or on the way to it: then nothing in it is read or removed.

    See Also
    --------
    jit : compiles, and keeps machine code in ``$DUALAD_CACHE_DIR``, ``~/.cache/dualad`` by default.

    Examples
    --------
    >>> import dualad
    >>> freed = dualad.clear_cache()
    >>> dualad.clear_cache()
    0
    """
    try:
        with opened(folder(), make=False) as files:
            found = [file for file in files.files() if OURS.fullmatch(file[2])]
            for *_, name in found:
                files.remove(name)
            left = {name for *_, name in files.files()}
            return sum(size for _, size, name in found if name not in left)
    except FileNotFoundError:
        return 0


def described() -> str:
    """Return where machine code is kept, and how much of it there is."""
    try:
        where, most = folder(), size()
        if not most:
            return f"{where}: switched off (DUALAD_CACHE_SIZE=0)"
        try:
            with opened(where, make=False) as files:
                sizes = [size for _, size, name in files.files() if name.endswith(".code") and OURS.fullmatch(name)]
        except FileNotFoundError:
            sizes = []
        return f"{where}: {len(sizes):,} functions, {format_bytes(sum(sizes))} of {format_bytes(most)}"
    except OSError as error:
        return f"not used: {reason(error)}; {HELP}"
