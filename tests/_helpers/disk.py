"""A simulated disk whose n-th call fails, or is interrupted by a power cut."""

from __future__ import annotations

import errno
import io
import os
from typing import Any, Literal

#: The effect of the n-th call: an error, or a power cut, after which no call reaches the disk.  Names given
#: since the last sync of their folder are kept or lost.
Ends = Literal["error", "cut, names kept", "cut, names lost"]


class PowerCut(BaseException):
    """A simulated power cut."""


class _TornFile(io.FileIO):
    """A file of whose failing write only half reaches the disk."""

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
    """A stand-in for the module `os` whose call number `last` fails; other calls are real.

    calls : number of opens, writes, syncs, renames and links so far.
    """

    def __init__(self, last: int, ends: Ends) -> None:
        self.last, self.ends, self.calls, self.off = last, ends, 0, False
        self.paths: dict[int, str] = {}
        #: File -> number of its bytes that have been synced to disk.
        self.unsynced: dict[str, int] = {}
        #: (file, previous content) of names given since the last sync of the folder; None for a new file.
        self.renamed: list[tuple[str, bytes | None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @property
    def failed(self) -> bool:
        """Whether the failing call was made."""
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
        return io.BufferedRandom(_TornFile(descriptor, self), 4096)

    def fsync(self, descriptor: int) -> None:
        self.count()
        path = self.paths[descriptor]
        if os.path.isdir(path):
            self.renamed.clear()
        else:
            self.unsynced.pop(path, None)

    def replace(self, file: str, name: str) -> None:
        self._rename(file, name, os.replace)

    def link(self, file: str, name: str) -> None:
        self._rename(file, name, os.link)

    def _rename(self, file: str, name: str, call: Any) -> None:
        self.count()
        content = None
        if os.path.exists(name):
            with open(name, "rb") as stream:
                content = stream.read()
        call(file, name)
        self.renamed.append((name, content))
        if file in self.unsynced:
            self.unsynced[name] = self.unsynced[file]

    def unlink(self, path: str) -> None:
        if self.off:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.unlink(path)

    def restart(self) -> None:
        """Truncate unsynced files, and undo unsynced renames if names are lost."""
        for path, size in self.unsynced.items():
            if os.path.exists(path):
                os.truncate(path, (size + os.path.getsize(path)) // 2)
        for name, content in reversed(self.renamed) if self.ends == "cut, names lost" else ():
            if content is None:
                os.unlink(name)
            else:
                with open(name, "wb") as stream:
                    stream.write(content)
