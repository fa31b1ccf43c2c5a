"""What a run takes of memory as far as that is known before: better refused than ended by the system."""

from __future__ import annotations

from gridsim.errors import OutOfMemory
from gridsim.inputs import addresses, memory

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
