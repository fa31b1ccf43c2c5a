"""Files of others: opened only if they are files, and read only as far as this machine can hold."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

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


def memory() -> int:
    """Bytes that this process may hold at most: of the machine, of its control group, or its own limit."""
    try:
        most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        most = sys.maxsize
    return min(most, _own_limit(), group_limit())


def addresses() -> int:
    """Bytes of addresses that the limit of this process leaves it, as far as the system tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return sys.maxsize
    return _own_limit() - pages * os.sysconf("SC_PAGE_SIZE")


def _own_limit() -> int:
    try:
        import resource
    except ImportError:
        return sys.maxsize
    own, _ = resource.getrlimit(resource.RLIMIT_AS)
    return sys.maxsize if own == resource.RLIM_INFINITY else own


def group_limit(told: StrPath = "/proc/self/cgroup", mounted: StrPath = "/sys/fs/cgroup") -> int:
    """Bytes that the control group of this process may hold, as that of a container or of a batch job.

    told : which groups it is in.  mounted : where they are, of version 2, or beside it those of version 1.
    """
    least = sys.maxsize
    for line in _lines(told):
        _, controllers, group = line.split(":", 2)
        if not controllers:
            top, limit = Path(mounted), "memory.max"
        elif "memory" in controllers.split(","):
            top, limit = Path(mounted, "memory"), "memory.limit_in_bytes"
        else:
            continue
        folder = Path(f"{top}{group}")  # of those around it each has a limit, too; not all need be seen here
        for each in (folder, *folder.parents[: len(folder.parts) - len(top.parts)]):
            least = min([least, *(int(bytes_) for bytes_ in _lines(each / limit) if bytes_.isdecimal())])
    return least


def _lines(file: StrPath) -> list[str]:
    """Of a file of the system, none if there is no such file."""
    try:
        return Path(file).read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []


def size_of(count: int) -> str:
    """Bytes, for a message."""
    return f"{count} bytes" if count < 10_000 else f"{count / 1e6:,.6g} MB"
