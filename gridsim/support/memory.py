"""Checks before a run that memory suffices, so that the system does not kill the run later."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from gridsim.errors import OutOfMemory
from gridsim.support.files import StrPath

#: Lower bounds of the memory of a result and its source data, bytes per machine and per application
#: (measured: 280 and 270).
MACHINE_BYTES = APPLICATION_BYTES = 200
#: Memory per task if tasks differ in size, bytes: the size, and the factor from which it is computed.
TASK_BYTES = 16


def check_fits(path: str, count: int, items: str, item_bytes: int) -> None:
    """Check that `count` items of at least `item_bytes` bytes can fit into memory.

    Parameters
    ----------
    path
        Configuration path of the count, for the error.
    items
        Kind of the items in the plural, for the error.

    Raises
    ------
    OutOfMemory
        If they cannot fit.
    """
    required, available = count * item_bytes, memory()
    if required > available:
        raise OutOfMemory(
            f"not enough memory for {path}: {count} {items} take at least {required / 1e9:,.1f} GB, "
            f"but only {available / 1e9:,.1f} GB are available"
        )


def check_address_space(library: str, needed_bytes: int) -> None:
    """Check that the address space of this process (``ulimit -v``) has `needed_bytes` left for a library.

    Without a limit of the address space, the check always passes.

    Raises
    ------
    OutOfMemory
        If fewer bytes are left.
    """
    left = free_address_space()
    if needed_bytes > left:
        raise OutOfMemory(
            f"not enough memory for {library}: it takes {needed_bytes / 1e6:,.0f} MB of address space, "
            f"but only {max(left, 0) / 1e6:,.0f} MB are left"
        )


def memory() -> int:
    """Return the memory limit of this process, bytes, set by the machine, control group or process."""
    return min(_machine_memory(), _process_limit())


@cache
def _machine_memory() -> int:
    """Return the memory of the machine or the limit of the control group, whichever is smaller, bytes."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # unknown on this system
        total = sys.maxsize
    return min(total, cgroup_limit())


def free_address_space() -> int:
    """Return the bytes of address space left to this process; ``sys.maxsize`` if unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return sys.maxsize
    return _process_limit() - pages * os.sysconf("SC_PAGE_SIZE")


def _process_limit() -> int:
    try:
        import resource
    except ImportError:
        return sys.maxsize
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def cgroup_limit(membership: StrPath = "/proc/self/cgroup", mount: StrPath = "/sys/fs/cgroup") -> int:
    """Return the memory limit of the control group of this process (a container or batch job), bytes.

    Parameters
    ----------
    membership
        File that lists the groups of the process.
    mount
        Folder of the control groups of version 2; those of version 1 are in its subfolder ``memory``.
    """
    minimum = sys.maxsize
    for line in _lines(membership):
        _, controllers, group = line.split(":", 2)
        if not controllers:
            top, limit = Path(mount), "memory.max"
        elif "memory" in controllers.split(","):
            top, limit = Path(mount, "memory"), "memory.limit_in_bytes"
        else:
            continue
        folder = Path(f"{top}{group}")  # enclosing groups have limits too; some may be invisible
        for group_folder in (folder, *folder.parents[: len(folder.parts) - len(top.parts)]):
            limits = (int(text) for text in _lines(group_folder / limit) if text.isdecimal())
            minimum = min([minimum, *limits])
    return minimum


def _lines(file: StrPath) -> list[str]:
    """Return the lines of a system file; an empty list if it cannot be read."""
    try:
        return Path(file).read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []


def size_of(count: int) -> str:
    """Return `count` bytes as text for a message."""
    return f"{count} bytes" if count < 10_000 else f"{count / 1e6:,.6g} MB"
