"""Emitted modules on disk, where numba keeps the machine code next to them, so that a later process need not compile.

The folder is ``$DUALAD_CACHE_DIR``, else ``dualad`` in the user's cache folder. Machine code is executed, so the folder must be the
user's own and writable by nobody else. A module's file is named by a digest of its text, the versions, the processor and the functions
it calls; it is written to a temporary file and renamed. Next to it stands a digest of the machine code: what is damaged is compiled
again.
"""

from __future__ import annotations

import contextlib
import hashlib
import linecache
import os
import platform
import stat
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np

from ..forks import COMPILER

__all__ = ["CacheWarning", "load", "seal"]


class CacheWarning(UserWarning):
    """Compiled code is not kept on disk."""


def folder() -> Path:
    """Return the cache's folder; raise an OSError that says why where it cannot be used."""
    given = os.environ.get("DUALAD_CACHE_DIR")
    path = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dualad"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = path.lstat()
    if not stat.S_ISDIR(info.st_mode):
        raise OSError(f"{path} is no folder")
    if hasattr(os, "getuid") and (info.st_uid != os.getuid() or info.st_mode & 0o022):
        raise OSError(f"{path} belongs to another user or may be written by others (chmod 700 it, or set DUALAD_CACHE_DIR)")
    if not os.access(path, os.W_OK | os.X_OK):
        raise OSError(f"{path} cannot be written")
    return path


@cache
def surroundings() -> bytes:
    """Return what machine code depends on besides its source: versions, the processor, the functions that are inlined."""
    with COMPILER:
        import llvmlite
        import numba
        from llvmlite import binding

        processor = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()

    rooms = b"".join((Path(__file__).parent / f"{room}.py").read_bytes() for room in ("kernels", "scalars", "llvm", "translate", "machine"))
    parts = (sys.version, numba.__version__, llvmlite.__version__, np.__version__, platform.machine(), processor)
    return repr(parts).encode() + rooms


def load(text: str) -> ModuleType:
    """Return the module of an emitted text, from the cache's folder if it can be used; its ``CACHED`` says so."""
    digest = hashlib.sha256(surroundings() + text.encode()).hexdigest()[:24]
    name = f"dualad_emitted_{digest}"
    try:
        path = folder() / f"{name}.py"
        write(path, text.encode())
        check(path)
        cached = True
    except OSError as error:
        warn_once(str(error))
        path, cached = Path(f"<{name}>"), False
        linecache.cache[str(path)] = (len(text), None, text.splitlines(True), str(path))
    module = ModuleType(name)
    module.__file__ = str(path)
    vars(module)["CACHED"] = cached
    sys.modules[name] = module
    with COMPILER:
        exec(compile(text, str(path), "exec"), vars(module))
    return module


@cache
def warn_once(reason):
    warnings.warn(f"dualad.jit: compiled code is not kept on disk: {reason}", CacheWarning, stacklevel=2)


def write(path: Path, content: bytes) -> None:
    """Make sure that a file has a content, by a rename that no other process sees halfway."""
    with contextlib.suppress(OSError):
        if not path.is_symlink() and path.read_bytes() == content:
            return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def machine_code(path: Path) -> list[Path]:
    """Return the files in which numba keeps a module's machine code."""
    return sorted((path.parent / "__pycache__").glob(f"{path.stem}.*.nb?"))


def digest_of(files) -> bytes:
    """Return a digest of files with their names."""
    total = hashlib.sha256()
    for file in files:
        total.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest().encode()


def check(path: Path) -> None:
    """Remove machine code that is not what was sealed."""
    files, seal_file = machine_code(path), path.with_suffix(".seal")
    if not files:
        return
    try:
        whole = seal_file.read_bytes() == digest_of(files)
    except OSError:
        whole = False
    if not whole:
        forget(path)


def forget(path: Path) -> None:
    """Remove a module's machine code."""
    for file in (*machine_code(path), path.with_suffix(".seal")):
        with contextlib.suppress(OSError):
            file.unlink()


def seal(module: ModuleType) -> None:
    """Write down the digest of a module's machine code, once it is compiled."""
    path = Path(module.__file__ or "")
    if vars(module)["CACHED"]:
        with contextlib.suppress(OSError):
            write(path.with_suffix(".seal"), digest_of(machine_code(path)))
