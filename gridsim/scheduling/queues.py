"""The task queues of the machines of a run, with links if tasks move data, and with several cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from gridcore.queues.core_queues import CoreQueues
from gridcore.queues.data_queues import DataQueues
from gridcore.queues.task_queues import TaskQueues
from gridsim.errors import ScenarioError
from gridsim.scheduling.contract import Run
from gridsim.support.arrays import Floats


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
        return shared(pad(run.speeds), cores=pad(run.cores), **options)
    if run.bandwidth is not None:
        if run.queues is not None:
            raise ScenarioError("an emulation does not support platform.bandwidth: its tasks move no data")
        return DataQueues(pad(run.speeds), bandwidth=pad(run.bandwidth), aware=aware, **options)
    factory: Callable[..., TaskQueues] = run.queues or TaskQueues
    return factory(pad(run.speeds), **options)


def moved_bytes(run: Run) -> dict[str, Floats]:
    """Return the transfers of a task of each application, bytes, as arguments of ``add_applications``."""
    if run.bandwidth is None:
        return {}
    fetched, sent = run.applications.moved()
    return {"input_bytes": fetched, "output_bytes": sent}
