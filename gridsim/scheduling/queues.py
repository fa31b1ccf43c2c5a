"""The task queues of the machines of a run: with links where tasks move data, else without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gridcore.queues.data_queues import DataQueues
from gridcore.queues.task_queues import TaskQueues
from gridsim.errors import ScenarioError
from gridsim.scheduling.contract import Run
from gridsim.support.arrays import Floats


def task_queues(
    run: Run,
    *,
    aware: bool = True,
    padded: Callable[[Floats], Floats] = lambda column: column,
    **options: Any,
) -> TaskQueues:
    """Return the queues of all machines, without applications.

    Parameters
    ----------
    aware
        Whether machines count the data of tasks in what they can take (`DataQueues`).
    padded
        Adds entries for further machines, such as that of a server, to a column (`Layout.padded`).
    **options
        Those of `TaskQueues`.

    Raises
    ------
    ScenarioError
        Where tasks move data and the run has queues of its own, as an emulation has.
    """
    if run.bandwidth is not None:
        if run.queues is not None:
            raise ScenarioError("platform.bandwidth must be absent in an emulation, whose tasks move no data")
        return DataQueues(padded(run.speeds), bandwidth=padded(run.bandwidth), aware=aware, **options)
    made: Callable[..., TaskQueues] = run.queues or TaskQueues
    return made(padded(run.speeds), **options)


def moved_bytes(run: Run) -> dict[str, Floats]:
    """Return the bytes that tasks of each application move, for ``add_applications`` of the queues."""
    if run.bandwidth is None:
        return {}
    fetched, sent = run.applications.moved()
    return {"input_bytes": fetched, "output_bytes": sent}
