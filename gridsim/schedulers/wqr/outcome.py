"""The outcome of a run of WQR-FT, from the totals of bags and machines and from the copies that ran."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.schedulers.wqr.rules import Rules
from gridsim.scheduling.contract import Outcome, Run


def outcome_of(
    run: Run, rules: Rules, totals: dict[str, NDArray[Any]], rows: dict[str, NDArray[Any]]
) -> Outcome:
    """Return the outcome from the counts of `gridcore.work_queue.dispatch.WorkQueue`.

    Parameters
    ----------
    totals
        Counts of each application and each machine.
    rows
        One row for each copy of a task.
    """
    names = ("first_start", "finish", "completed", "resubmitted", "nodes_used")
    order = np.lexsort((rows["start"], rows["machine"]))
    rows = {name: column[order] for name, column in rows.items()}
    return Outcome(
        applications={n: totals[n] for n in (*names, "replicas", "killed", "undisturbed")},
        machines={
            **{n: totals[n] for n in ("busy", "tasks", "interrupted", "ended")},
            "peak_queue": np.zeros_like(totals["busy"]),  # all waiting tasks are at the server
        },
        cycles={
            "useful": run.applications.size,
            **{n: totals[n] for n in ("redundant", "lost", "overhead", "slowed")},
        },
        facts={"checkpoint_interval": rules.seconds},
        schedule={
            "machine": rows["machine"],
            "application": rows["bag"],
            "tasks": np.ones_like(rows["machine"]),
            "start": rows["start"],
            "end": rows["end"],
            "completed": rows["completed"],
            "task": rows["task"],
            "begin": rows["begin"],
        },
    )


def check_waiting(parameters: Any, run: Run, rules: Rules, left: int) -> None:
    """Raise ScenarioError if the `left` tasks wait forever while machines are up.

    With ``as_printed`` they wait for machine 0, and with ``exclude`` for machines that are fast enough.
    """
    if not left or not run.up.any():
        return
    name = parameters.name
    if rules.min_speed > run.speeds[run.up].max():
        raise ScenarioError(
            f"{name}.exclude must leave a machine up until all tasks are completed; {left} tasks are left, "
            f"and none of at least {rules.min_speed:g} Mflop/s will be up again"
        )
    if parameters.as_printed:
        raise ScenarioError(
            f"{name}.as_printed must let all tasks end; {left} tasks wait for machine 0, which is never free "
            "again"
        )
