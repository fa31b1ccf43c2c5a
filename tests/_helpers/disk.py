"""A disk whose n-th call fails, or during whose n-th call the power is cut."""

from __future__ import annotations

import errno
import io
import os
from typing import Any, Literal

#: What the n-th call does: it fails, or nothing reaches the disk from then on.  After a power cut, names that
#: were given since their folder was synced are there, or lost.
Ends = Literal["error", "cut, names kept", "cut, names lost"]


class PowerCut(BaseException):
    """The machine is off."""


class _Torn(io.FileIO):
    """A file of which only half of what is written reaches the disk in the call that fails."""

    def __init__(self, descriptor: int, disk: Disk) -> None:
        super().__init__(descriptor, "w+")
        self.disk = disk

    def write(self, data: Any) -> int:
        path = self.disk.paths[self.fileno()]
        self.disk.unsynced.setdefault(path, os.path.getsize(path))
        try:
            self.disk.count()
        except BaseException:
            super().write(memoryview(data).cast("B")[: len(data) // 2])
            raise
        return super().write(data)


class Disk:
    """The module `os` for code that writes files, whose call number `last` fails; all others are real.

    calls : opens, writes, syncs, renames and links so far.
    """

    def __init__(self, last: int, ends: Ends) -> None:
        self.last, self.ends, self.calls, self.off = last, ends, 0, False
        self.paths: dict[int, str] = {}
        #: File -> bytes of it that are on the disk for certain.
        self.unsynced: dict[str, int] = {}
        #: (file, its content before) of names given since the folder was synced; None: it did not exist.
        self.renamed: list[tuple[str, bytes | None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @property
    def failed(self) -> bool:
        """Whether the call that fails has come."""
        return self.calls >= self.last

    def count(self) -> None:
        """Count a call; raises OSError or PowerCut."""
        if self.off:
            raise PowerCut
        self.calls += 1
        if self.calls == self.last:
            if self.ends == "error":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self.off = True
            raise PowerCut

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        self.count()
        descriptor = os.open(path, flags, mode)
        self.paths[descriptor] = path
        return descriptor

    def fdopen(self, descriptor: int, mode: str) -> Any:
        return io.BufferedRandom(_Torn(descriptor, self), 4096)

    def fsync(self, descriptor: int) -> None:
        self.count()
        path = self.paths[descriptor]
        if os.path.isdir(path):
            self.renamed.clear()
        else:
            self.unsynced.pop(path, None)

    def replace(self, file: str, name: str) -> None:
        self._named(file, name, os.replace)

    def link(self, file: str, name: str) -> None:
        self._named(file, name, os.link)

    def _named(self, file: str, name: str, call: Any) -> None:
        self.count()
        before = None
        if os.path.exists(name):
            with open(name, "rb") as stream:
                before = stream.read()
        call(file, name)
        self.renamed.append((name, before))
        if file in self.unsynced:
            self.unsynced[name] = self.unsynced[file]

    def unlink(self, path: str) -> None:
        if self.off:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.unlink(path)

    def restart(self) -> None:
        """Leave what a disk may have after a power cut."""
        for path, size in self.unsynced.items():
            if os.path.exists(path):
                os.truncate(path, (size + os.path.getsize(path)) // 2)
        for name, before in reversed(self.renamed) if self.ends == "cut, names lost" else ():
            if before is None:
                os.unlink(name)
            else:
                with open(name, "wb") as stream:
                    stream.write(before)
