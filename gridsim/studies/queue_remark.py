"""A remark on queues of a log that share all machines in a run."""

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
    """Return a line on queues that share all machines, and how to separate them; none if that is right.

    There is one if no scheduler has partitions, one could, and the log shows that its queues had nodes of
    their own, or does not show which nodes jobs had.
    """
    recipe = scenario.workload.recipe
    values = [getattr(scheduler, "partitions", None) for scheduler in schedulers.values()]
    if not isinstance(recipe, JobLogRecipe) or applications.queue is None or any(values) or () not in values:
        return {}
    from gridsim.traces.partitions import find_partitions

    queues, _ = applications.members("queue")
    if len(queues) == 1:
        return {}
    beginning = f"{len(queues)} queues share all machines"
    partitions = find_partitions(recipe.path)
    if partitions is None:
        sizes = ",".join(f"{queue}=N" for queue in queues)
        line = f"{beginning}; if each has machines of its own, set partitions (--set '*.partitions={sizes}')"
    elif not 1 < len(partitions.nodes) <= scenario.platform.nodes:
        return {}
    else:
        flags = shlex.join(partitions.settings(scenario.platform.nodes))
        line = f"{beginning}, but had nodes of their own in the log; set partitions ({flags})"
    return {"queues": line}
