"""Files of others: opened only if they are files, and read only as far as this machine can hold."""

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
    """A file that names itself in errors of reading it, where the system does not say which file it was.

    Not in those of seeking: a place that is not there may be one that its content names.
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
    """A regular file, open to be read.  What else has a name (pipes, devices) may never end, or never begin.

    Raises OSError naming `path`, as does whatever is read from it.
    """
    name = os.fspath(path)
    if "\0" in name:
        raise OSError(errno.EINVAL, "no file has a NUL in its name", name)
    # or opening a pipe would wait for whoever writes to it
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


_LONG = 230  # bytes of a file name, of which file systems have 255, that leave room for a longer one


@contextmanager
def atomic_file(path: str | os.PathLike[str], *, new: bool = False) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` when all went well, and leaves no trace otherwise.

    new : nothing may have come there by then, where the disk has hard links to make sure of it.

    Written beside `path`, synced to the disk, then renamed over it (a symbolic link stays one, and its
    mode what it was, but not its owner).  A process
    that is killed meanwhile leaves the file beside `path`; see `remove_leftovers`.

    Raises OSError naming `path`, among others when something that is no regular file stands there,
    FileExistsError if it must be new and is not.
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
        error.filename = os.fspath(path)  # the user knows nothing of the temporary file
        raise
    try:
        with os.fdopen(descriptor, "w+b") as stream:
            with suppress(OSError):  # there is none yet, or its disk knows no such thing
                os.chmod(temporary, os.stat(target).st_mode & 0o777)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if new and _linked(temporary, target):
            os.unlink(temporary)
        else:
            os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):  # what went wrong before is what to tell
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, temporary):
            error.filename, error.filename2 = os.fspath(path), None
        raise


def _linked(file: str, name: str) -> bool:
    """Whether `file` has a second name now; False where there are no such links.

    Raises FileExistsError if something has it already.
    """
    try:
        os.link(file, name)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def _short(name: str) -> str:
    """`name`, or where something beside it would have too long a name a short one that is as much its own."""
    encoded = os.fsencode(name)
    return name if len(encoded) <= _LONG else f"{name[:20]}-{hashlib.sha256(encoded).hexdigest()[:16]}"


def leftovers(pattern: str) -> re.Pattern[str]:
    """What `atomic_file` calls files beside those, not too long, whose names match `pattern`."""
    return re.compile(rf"\.(?:{pattern})\.[0-9a-f]{{12}}\.tmp")


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what processes that were killed while they wrote `path` have left beside it."""
    folder, name = os.path.split(os.path.realpath(path))
    for entry in os.scandir(folder):
        if leftovers(re.escape(_short(name))).fullmatch(entry.name):
            with suppress(FileNotFoundError):
                os.unlink(entry.path)
