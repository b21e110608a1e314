"""Trusted folders and files: written by this user only. Open files are checked, as names may mean other files a moment later."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex

POSIX = hasattr(os, "geteuid") and os.open in os.supports_dir_fd
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
FOLDER = getattr(os, "O_DIRECTORY", 0) | NO_LINK
PASSED = FOLDER | getattr(os, "O_PATH", 0)  # on the way, where reading may not be allowed
FILE = NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
OTHERS = stat.S_IWGRP | stat.S_IWOTH
MOST_LINKS = 40


class TrustedFolder:
    """An open folder, whose files are opened in it, wherever its name may point to by now."""

    def __init__(self, path: str, descriptor: int | None):
        self.path, self.descriptor = path, descriptor

    def at(self, name):
        return name if self.descriptor is not None else os.path.join(self.path, name)

    def read(self, name: str) -> bytes | None:
        """Return what is in a file, which is the newest now; None where there is no file that is this user's alone."""
        try:
            handle = os.open(self.at(name), os.O_RDONLY | FILE, dir_fd=self.descriptor)
        except OSError:
            return None
        try:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode) or (POSIX and (info.st_uid != os.geteuid() or info.st_mode & OTHERS)):
                return None
            with suppress(OSError):
                os.utime(handle if os.utime in os.supports_fd else self.at(name))
            with os.fdopen(handle, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(handle)

    def write(self, name: str, content: bytes) -> None:
        """Make a file, or replace it: no other process sees it halfway."""
        temporary = f".writing-{token_hex(8)}"
        handle = os.open(self.at(temporary), os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE, 0o600, dir_fd=self.descriptor)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(self.at(temporary), self.at(name), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except BaseException:
            self.remove(temporary)
            raise

    def remove(self, name: str) -> None:
        """Remove a file that may be gone already."""
        with suppress(OSError):
            os.unlink(self.at(name), dir_fd=self.descriptor)

    def files(self) -> list[tuple[float, int, str]]:
        """Return when each file was used last, its bytes and its name."""
        found = []
        with os.scandir(self.path if self.descriptor is None else self.descriptor) as entries:
            for entry in entries:
                with suppress(OSError):  # removed meanwhile
                    info = entry.stat(follow_symlinks=False)
                    found.append((info.st_mtime, info.st_size, entry.name))
        return found


@contextmanager
def opened(path: str, make: bool = True) -> Iterator[TrustedFolder]:
    """Open a folder, which is made if it is not there; an OSError names it, and says why it cannot be trusted or used."""
    descriptor = None
    try:
        if POSIX:
            descriptor = walked(path, make)
        elif make:
            os.makedirs(path, exist_ok=True)
        yield TrustedFolder(path, descriptor)
    except OSError as error:
        if error.filename in (None, path):
            raise
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def walked(path, make):
    """Return a descriptor of a folder, having looked at each folder and link on the way from the root."""
    rest, links, here = steps(os.path.abspath(path)), 0, os.open("/", PASSED)
    try:
        while rest:
            refuse_what_others_write(here, path, sticky=True)
            name = rest.pop()
            try:
                after = os.open(name, PASSED, dir_fd=here)
            except FileNotFoundError:
                if not make:
                    raise
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=here)
                rest.append(name)
                continue
            except OSError as error:
                target, links = own_link(name, here, error, path), links + 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from None
                rest += steps(target)
                after = os.open("/" if target.startswith("/") else ".", PASSED, dir_fd=here)
            os.close(here)
            here = after
        refuse_what_others_write(here, path, sticky=False)
        return os.open(".", os.O_RDONLY | FOLDER, dir_fd=here)
    finally:
        os.close(here)


def steps(path):
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def own_link(name, folder, error, path):
    """Return where a link leads that this user or the administrator has made; anything else is an error."""
    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISLNK(info.st_mode):
        raise OSError(error.errno, error.strerror, path) from None
    if info.st_uid not in (0, os.geteuid()):
        raise PermissionError(errno.EPERM, f"the link {name!r} on the way to it belongs to another user", path) from None
    return os.readlink(name, dir_fd=folder)


def refuse_what_others_write(descriptor, path, sticky):
    """Raise where a folder on the way, or with `sticky` False the last one, is another user's, or others may write into it."""
    info, where = os.fstat(descriptor), "a folder on the way to it" if sticky else "it"
    if info.st_uid != os.geteuid() and not (sticky and info.st_uid == 0):
        raise PermissionError(errno.EPERM, f"{where} belongs to another user", path)
    if info.st_mode & OTHERS and not (sticky and info.st_mode & stat.S_ISVTX):
        raise PermissionError(errno.EPERM, f"{where} may be written by others", path)
