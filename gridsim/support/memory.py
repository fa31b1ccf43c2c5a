"""What a run takes of memory as far as that is known before: better refused than ended by the system."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gridsim.errors import OutOfMemory
from gridsim.support.files import StrPath

#: Bytes of a machine, and of an application, in the tables of any result and what these are made from (they
#: were measured to take 280 and 270).
OF_MACHINE = OF_APPLICATION = 200
#: Of a task that has a size of its own: that, and the factor that it is drawn by.
OF_TASK = 16


def check_room(path: str, count: int, what: str, each: int) -> None:
    """That `count` of `what`, as `path` says, of at least `each` bytes, may fit into the memory.

    Raises OutOfMemory.
    """
    need, most = count * each, memory()
    if need > most:
        raise OutOfMemory(
            f"not enough memory for {path}: {count} {what} take at least {need / 1e9:,.1f} GB, "
            f"there are {most / 1e9:,.1f} GB"
        )


def check_addresses(what: str, need: int) -> None:
    """That the limit of this process (``ulimit -v``), if there is one, leaves `need` bytes to load `what`.

    Raises OutOfMemory.
    """
    left = addresses()
    if need > left:
        raise OutOfMemory(
            f"not enough memory for {what}: to load it takes {need / 1e6:,.0f} MB of addresses, "
            f"{max(left, 0) / 1e6:,.0f} MB are left"
        )


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
