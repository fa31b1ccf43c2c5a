"""Reading of regular files only, and atomic writing of files, for paths that a user gives."""

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


class _NamedFile(FileIO):
    """A file that adds its name to read errors, which lack it otherwise.

    Seek errors are unchanged, since the content of the file may cause a wrong position.
    """

    def readinto(self, buffer: Any) -> int | None:
        with self._add_name():
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with self._add_name():
            return super().readall()

    @contextmanager
    def _add_name(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = self.name
            raise


def open_regular(path: StrPath) -> BufferedReader:
    """Open a regular file for reading; reject pipes and devices, which may block or never end.

    Raises
    ------
    OSError
        If the file cannot be opened; later read errors also name `path`.
    """
    name = os.fspath(path)
    if "\0" in name:
        raise OSError(errno.EINVAL, "a file name must not contain NUL", name)
    # without O_NONBLOCK, opening a pipe would wait for a writer
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(name, flags)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        file = _NamedFile(descriptor)
        file.name = name
        return BufferedReader(file)
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    raise OSError(errno.EINVAL, "not a regular file", name)


_MAX_NAME_BYTES = 230  # leaves room for the suffix of a temporary name; file systems allow 255


@contextmanager
def atomic_file(path: str | os.PathLike[str], *, new: bool = False) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces `path` when the context ends; after an error `path` is unchanged.

    The file is written beside `path`, synced to the disk and renamed to `path`; then the folder is synced, so
    that the new content survives a power failure.  A symbolic link and the mode of its target are kept, the
    owner is not.  A process that is killed meanwhile leaves the temporary file beside `path`;
    `remove_leftovers` removes it.

    Parameters
    ----------
    new
        Reject a file that exists at `path` when the context ends; checked only if the disk has hard links.

    Raises
    ------
    OSError
        If the file cannot be written, for instance because `path` is not a regular file; it names `path`.
    FileExistsError
        If `new` is true and the file exists.
    """
    target = os.path.realpath(path)
    if os.path.lexists(target) and not os.path.isfile(target):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{_short_name(name)}.{secrets.token_hex(6)}.tmp")
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
        if new and _try_link(temporary, target):
            os.unlink(temporary)
        else:
            os.replace(temporary, target)
        _sync_folder(folder)
    except BaseException as error:
        with suppress(OSError):  # report only the first error
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, temporary):
            error.filename, error.filename2 = os.fspath(path), None
        raise


def _sync_folder(folder: str) -> None:
    """Sync the entries of a folder to the disk if the system supports it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with suppress(OSError):  # the file itself is synced; some file systems cannot sync folders
        descriptor = os.open(folder or os.curdir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _try_link(file: str, name: str) -> bool:
    """Create the hard link `name` to `file`; return False if the disk has no hard links.

    Raises FileExistsError if `name` exists.
    """
    try:
        os.link(file, name)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def _short_name(name: str) -> str:
    """Return `name`, or a short unique name if `name` is too long for the name of a temporary file."""
    encoded = os.fsencode(name)
    return (
        name if len(encoded) <= _MAX_NAME_BYTES else f"{name[:20]}-{hashlib.sha256(encoded).hexdigest()[:16]}"
    )


def temporary_names(pattern: str) -> re.Pattern[str]:
    """Return a pattern for the temporary files of `atomic_file` for files whose names match `pattern`."""
    return re.compile(rf"\.(?:{pattern})\.[0-9a-f]{{12}}\.tmp")


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files of `path` that killed processes have left."""
    folder, name = os.path.split(os.path.realpath(path))
    for entry in os.scandir(folder):
        if temporary_names(re.escape(_short_name(name))).fullmatch(entry.name):
            with suppress(FileNotFoundError):
                os.unlink(entry.path)
