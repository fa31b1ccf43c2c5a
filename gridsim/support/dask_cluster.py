"""The start of a Dask cluster, whose scheduler and workers a batch system starts along with a study."""

from __future__ import annotations

import json
import time
from typing import Any

from gridsim.errors import GridSimError, text_of
from gridsim.support.files import open_regular

#: Interval between looks at the scheduler file, s.
_INTERVAL = 0.1
#: Maximum number of bytes of the scheduler file that are read.
_LONGEST = 1 << 20


def scheduler_address(file: str, limit: float) -> str:
    """Return the address of the Dask scheduler that writes `file`, and wait for the file.

    Parameters
    ----------
    limit
        Time limit, s.

    Raises
    ------
    GridSimError
        If the file does not state an address within the time limit.
    """
    deadline = time.monotonic() + limit
    while True:
        try:
            with open_regular(file) as stream:
                document = json.loads(stream.read(_LONGEST))
            if isinstance(document, dict) and isinstance(address := document.get("address"), str):
                return address
            reason = "it has no address"
        except FileNotFoundError:
            reason = "it does not exist"
        except ValueError as error:  # the scheduler may be writing the file
            reason = text_of(error)
        if time.monotonic() >= deadline:
            raise GridSimError(
                f"--scheduler-file must be written by a Dask scheduler within {limit:g} s, got {file} "
                f"({reason})"
            )
        time.sleep(_INTERVAL)


def wait_for_worker(executor: Any, address: str, limit: float) -> None:
    """Wait for the first worker of a Dask cluster.

    Parameters
    ----------
    executor
        The executor of a client of the cluster.
    limit
        Time limit, s.

    Raises
    ------
    GridSimError
        If no worker connects within the time limit.
    """
    deadline = time.monotonic() + limit
    while not executor._client.scheduler_info()["workers"]:
        if time.monotonic() >= deadline:
            raise GridSimError(f"a worker must connect to the Dask scheduler {address} within {limit:g} s")
        time.sleep(_INTERVAL)
