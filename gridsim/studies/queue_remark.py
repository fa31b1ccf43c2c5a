"""A line that suggests partitions if the queues of a log share all machines."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from gridsim.model.applications import Applications
from gridsim.model.rigid_logs import JobLogRecipe
from gridsim.model.scenario import Scenario
from gridsim.scheduling.contract import Scheduler


def shared_queues(
    scenario: Scenario, schedulers: Mapping[str, Scheduler], applications: Applications
) -> dict[str, str]:
    """Return the key and the text of a line on queues that share all machines; empty if there is none.

    There is a line if no scheduler has partitions though one could, and if the log shows that its queues had
    nodes of their own, or does not show which nodes jobs had.  It has the flags that set the partitions.

    Parameters
    ----------
    schedulers
        Name -> scheduler.
    applications
        The jobs of the workload of `scenario`.
    """
    recipe = scenario.workload.recipe
    values = [getattr(scheduler, "partitions", None) for scheduler in schedulers.values()]
    if not isinstance(recipe, JobLogRecipe) or applications.queue is None or any(values) or () not in values:
        return {}
    from gridsim.traces.partitions import find_partitions

    queues, _ = applications.members("queue")
    if len(queues) == 1:
        return {}
    line = f"{len(queues)} queues share all machines"
    partitions, machines = find_partitions(recipe.path), scenario.platform.nodes
    if partitions is None:
        line += "; if each has machines of its own,"
        flags = ["--set", f"*.partitions={','.join(f'{queue}=N' for queue in queues)}"]
    elif 1 < len(partitions.nodes) <= machines:
        line += ", but had nodes of their own in the log;"
        flags = partitions.settings(machines)
    else:
        return {}
    return {"queues": f"{line} set partitions ({shlex.join(flags)})"}
