"""A line that suggests partitions if the queues of a log share all machines."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from gridsim.model.applications import Applications
from gridsim.model.rigid_logs import JobLogRecipe, SiteLogsRecipe
from gridsim.model.scenario import Scenario
from gridsim.scheduling.contract import Scheduler


def shared_queues(
    scenario: Scenario, schedulers: Iterable[Scheduler], applications: Applications | None = None
) -> dict[str, str]:
    """Return the key and the text of a line on queues that share all machines; empty if there is none.

    There is a line if no scheduler has partitions though one could, and if the log shows that its queues had
    nodes of their own, or does not show which nodes jobs had, or there are several logs.  It has the flags
    that set the partitions.

    Parameters
    ----------
    applications
        The jobs of the workload of `scenario`; None if they are not known yet.
    """
    recipe = scenario.workload.recipe
    values = [getattr(scheduler, "partitions", None) for scheduler in schedulers]
    if not isinstance(recipe, JobLogRecipe | SiteLogsRecipe) or any(values) or () not in values:
        return {}
    jobs = scenario.workload.realize(scenario.platform) if applications is None else applications
    if jobs.queue is None:
        return {}
    from gridsim.traces.partitions import find_partitions

    queues, _ = jobs.members("queue")
    if len(queues) == 1:
        return {}
    line = f"{len(queues)} queues share all machines"
    partitions = find_partitions(recipe.path) if isinstance(recipe, JobLogRecipe) else None
    machines = scenario.platform.nodes
    if partitions is None:
        line += "; if each has machines of its own,"
        flags = ["--set", f"*.partitions={','.join(f'{queue}=N' for queue in queues)}"]
    elif 1 < len(partitions.nodes) <= machines:
        line += ", but had nodes of their own in the log;"
        flags = partitions.settings(machines)
    else:
        return {}
    line += f" set partitions ({shlex.join(flags)})"
    if isinstance(recipe, SiteLogsRecipe):
        line += ", or those of the sites (--set '*.partitions=sites')"
    return {"queues": line}
