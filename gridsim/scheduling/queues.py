"""The task queues of the machines of a run, with links if tasks move data, and with several cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from gridcore.queues.core_queues import CoreQueues
from gridcore.queues.data_queues import DataQueues
from gridcore.queues.task_queues import TaskQueues
from gridsim.errors import ScenarioError
from gridsim.model.capacity import whole_bytes
from gridsim.scheduling.contract import Run


def task_queues(
    run: Run,
    *,
    aware: bool = True,
    pad: Callable[[NDArray[Any]], NDArray[Any]] = lambda column: column,
    **options: Any,
) -> TaskQueues:
    """Return the queues of all machines, without applications.

    Parameters
    ----------
    aware
        Whether machines take the data of tasks into account when they estimate how much work they can accept
        (`DataQueues`).
    pad
        Function that extends a column with values for further machines, such as that of a server
        (`Layout.pad`).
    **options
        Options of `TaskQueues`.

    Raises
    ------
    ScenarioError
        If tasks move data, and the run has queues of its own, as an emulation does.
    """
    if run.cores is not None:
        shared: Callable[..., TaskQueues] = run.queues or CoreQueues
        if _shares_memory(run):
            assert run.attributes is not None
            options["memory"] = pad(whole_bytes(run.attributes.memory, len(run.cores)))
        return shared(pad(run.speeds), cores=pad(run.cores), **options)
    if run.bandwidth is not None:
        if run.queues is not None:
            raise ScenarioError("an emulation does not support platform.bandwidth: its tasks move no data")
        return DataQueues(pad(run.speeds), bandwidth=pad(run.bandwidth), aware=aware, **options)
    factory: Callable[..., TaskQueues] = run.queues or TaskQueues
    return factory(pad(run.speeds), **options)


def _shares_memory(run: Run) -> bool:
    """Return whether machines have several cores and state their memory, and tasks need memory."""
    stated = run.attributes is not None and run.attributes.memory is not None
    return run.cores is not None and stated and run.applications.memory is not None


def task_bytes(run: Run) -> dict[str, NDArray[Any]]:
    """Return what a task of each application moves and takes, bytes, as arguments of ``add_applications``."""
    if _shares_memory(run):
        return {"memory": whole_bytes(run.applications.memory, len(run.applications))}
    if run.bandwidth is None:
        return {}
    fetched, sent = run.applications.moved()
    return {"input_bytes": fetched, "output_bytes": sent}
