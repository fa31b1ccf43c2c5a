"""A remark on queues of logs that share all machines in a run."""

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
    """Return a line on queues that share all machines, and how to separate them; none if that is right.

    There is one if no scheduler has partitions, one could, and the log shows that its queues had nodes of
    their own, or does not show which nodes jobs had, or there are several logs.
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
    beginning = f"{len(queues)} queues share all machines"
    partitions = find_partitions(recipe.path) if isinstance(recipe, JobLogRecipe) else None
    if partitions is None:
        sizes = ",".join(f"{queue}=N" for queue in queues)
        line = f"{beginning}; if each has machines of its own, set partitions (--set '*.partitions={sizes}')"
        if isinstance(recipe, SiteLogsRecipe):
            line += ", or those of the sites (--set '*.partitions=sites')"
    elif not 1 < len(partitions.nodes) <= scenario.platform.nodes:
        return {}
    else:
        flags = shlex.join(partitions.settings(scenario.platform.nodes))
        line = f"{beginning}, but had nodes of their own in the log; set partitions ({flags})"
    return {"queues": line}
