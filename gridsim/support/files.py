"""Files that a user names: opened only if they are regular files, and written as a whole or not at all.

Their readers read no more than this machine can hold.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO
from typing import IO, Any

StrPath = str | os.PathLike[str]


class _Named(FileIO):
    """A file that adds its name to errors of reading, in which the system does not name it.

    Errors of seeking are left alone: a wrong position may come from the content of the file.
    """

    def readinto(self, buffer: Any) -> int | None:
        with self._naming():
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with self._naming():
            return super().readall()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = self.name
            raise


def opened(path: StrPath) -> BufferedReader:
    """Open a regular file for reading; reject pipes and devices, which may never end or never begin.

    Raises OSError naming `path`; errors in reading from the file name it, too.
    """
    name = os.fspath(path)
    if "\0" in name:
        raise OSError(errno.EINVAL, "no file has a NUL in its name", name)
    # without O_NONBLOCK, opening a pipe would wait for a writer
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(name, flags)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        file = _Named(descriptor)
        file.name = name
        return BufferedReader(file)
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    raise OSError(errno.EINVAL, "not a regular file", name)


_LONG = 230  # bytes of a file name that leave room for a longer, temporary name; file systems allow 255


@contextmanager
def atomic_file(path: str | os.PathLike[str], *, new: bool = False) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces `path` at the end of the context, or leaves no trace after an error.

    The file is written beside `path`, synced to the disk, then renamed to `path`, and the folder is synced,
    so that a power cut later does not bring back what was there before.  A symbolic link stays, and so does
    the mode of the target, but not its owner.  A process that is killed meanwhile leaves the file
    beside `path`; see `remove_leftovers`.

    Raises OSError naming `path`, for instance if it exists and is not a regular file, and FileExistsError if
    it must be new and is not.

    Parameters
    ----------
    new
        Reject a file that exists at `path` by then; it is only checked if the disk has hard links.
    """
    target = os.path.realpath(path)
    if os.path.lexists(target) and not os.path.isfile(target):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{_short(name)}.{secrets.token_hex(6)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(temporary, flags, 0o666)
    except OSError as error:
        error.filename = os.fspath(path)  # the user does not know the temporary file
        raise
    try:
        with os.fdopen(descriptor, "w+b") as stream:
            with suppress(OSError):  # there is no target yet, or its disk has no modes
                os.chmod(temporary, os.stat(target).st_mode & 0o777)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if new and _linked(temporary, target):
            os.unlink(temporary)
        else:
            os.replace(temporary, target)
        _sync_names(folder)
    except BaseException as error:
        with suppress(OSError):  # the first error is the one to report
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, temporary):
            error.filename, error.filename2 = os.fspath(path), None
        raise


def _sync_names(folder: str) -> None:
    """Sync the names in a folder to the disk, where the system can do that."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with suppress(OSError):  # the file itself is there; some file systems cannot sync folders
        descriptor = os.open(folder or os.curdir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _linked(file: str, name: str) -> bool:
    """Give `file` the second name `name` and return True; return False if the disk has no hard links.

    Raises FileExistsError if `name` exists already.
    """
    try:
        os.link(file, name)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def _short(name: str) -> str:
    """Return `name`, or a short unique name if a temporary file named after it would have too long a name."""
    encoded = os.fsencode(name)
    return name if len(encoded) <= _LONG else f"{name[:20]}-{hashlib.sha256(encoded).hexdigest()[:16]}"


def leftovers(pattern: str) -> re.Pattern[str]:
    """Return a pattern of temporary files of `atomic_file` for names, not too long, that match `pattern`."""
    return re.compile(rf"\.(?:{pattern})\.[0-9a-f]{{12}}\.tmp")


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files that killed processes left beside `path` while writing it."""
    folder, name = os.path.split(os.path.realpath(path))
    for entry in os.scandir(folder):
        if leftovers(re.escape(_short(name))).fullmatch(entry.name):
            with suppress(FileNotFoundError):
                os.unlink(entry.path)
