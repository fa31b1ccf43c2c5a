"""Checks that a run has enough memory, as far as known before, so that the system does not kill it later."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from gridsim.errors import OutOfMemory
from gridsim.support.files import StrPath

#: Least bytes of a machine, and of an application, in the tables of any result and the data that they are
#: made from (measured: 280 and 270).
OF_MACHINE = OF_APPLICATION = 200
#: Bytes of a task that has a size of its own: the size and the factor from which it is made.
OF_TASK = 16


def check_room(path: str, count: int, what: str, each: int) -> None:
    """Check that `count` of `what`, of at least `each` bytes, may fit into memory.

    Raises OutOfMemory with `path`, the configuration path of the count.
    """
    need, most = count * each, memory()
    if need > most:
        raise OutOfMemory(
            f"not enough memory for {path}: {count} {what} take at least {need / 1e9:,.1f} GB, "
            f"there are {most / 1e9:,.1f} GB"
        )


def check_addresses(what: str, need: int) -> None:
    """Check that the address space of this process (``ulimit -v``) has `need` bytes left to load `what`.

    Raises OutOfMemory.  Without a limit nothing is checked.
    """
    left = addresses()
    if need > left:
        raise OutOfMemory(
            f"not enough memory for {what}: to load it takes {need / 1e6:,.0f} MB of addresses, "
            f"{max(left, 0) / 1e6:,.0f} MB are left"
        )


def memory() -> int:
    """Return the bytes that this process may hold: the least of the machine, control group and own limit."""
    return min(_given(), _own_limit())


@cache
def _given() -> int:
    """Return the bytes of the machine, or of the control group, which stay what they are."""
    try:
        most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # the system does not say
        most = sys.maxsize
    return min(most, group_limit())


def addresses() -> int:
    """Return the bytes of address space that the limit of this process leaves; very large if unknown."""
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
    """Return the bytes that the control group of this process may hold, as of a container or a batch job.

    Parameters
    ----------
    told
        File that lists the groups of the process.
    mounted
        Folder of the groups of version 2; those of version 1 are in its folder ``memory``.
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
        folder = Path(f"{top}{group}")  # enclosing groups have limits, too; some may not be visible here
        for each in (folder, *folder.parents[: len(folder.parts) - len(top.parts)]):
            least = min([least, *(int(bytes_) for bytes_ in _lines(each / limit) if bytes_.isdecimal())])
    return least


def _lines(file: StrPath) -> list[str]:
    """Return the lines of a system file; an empty list if it cannot be read."""
    try:
        return Path(file).read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []


def size_of(count: int) -> str:
    """Return `count` bytes as text for a message."""
    return f"{count} bytes" if count < 10_000 else f"{count / 1e6:,.6g} MB"
