"""The outcome of a fair tree: its tables and facts, from the decisions and reports of its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.queues.summary_grid import SummaryGrid
from gridcore.queues.task_queues import TaskQueues
from gridsim.schedulers.fair_tree.bags import Bags
from gridsim.scheduling.contract import Outcome, Run
from gridsim.scheduling.overlays import tree_level
from gridsim.support.arrays import Integers, Rows
from gridsim.support.clock import NEVER, NS


@dataclass
class TreeFindings:
    """The data that the outcome of a run needs.

    Parameters
    ----------
    decisions, decided
        Rows of `DECISION` for requests that had climbed, and the times of the decisions, ns.
    updates
        int64[k, 2], ns: arrival at the root of a summary with news of a change, and time of that change.
    accepted, completed
        Number of tasks whose acceptance and completion were reported to submitters.
    below_window, above_window
        Number of decisions at the lowest sample, and above the highest.
    ledger_end
        Time at which the last task was placed, which ends the accounting of messages, ns; None if it goes on.
    resubmitted
        int64[applications], number of tasks submitted again; None if machines do not fail.
    """

    decisions: Rows
    decided: Integers
    updates: Integers
    accepted: int
    completed: int
    below_window: int
    above_window: int
    ledger_end: int | None
    resubmitted: Integers | None

    def with_part(self, part: TreeFindings) -> TreeFindings:
        """Return this data merged with the data of another process about its nodes."""
        return replace(
            self,
            decisions=np.concatenate((self.decisions, part.decisions)),
            decided=np.concatenate((self.decided, part.decided)),
            updates=np.concatenate((self.updates, part.updates)),
            accepted=self.accepted + part.accepted,
            completed=self.completed + part.completed,
            below_window=self.below_window + part.below_window,
            above_window=self.above_window + part.above_window,
        )


def complete_queues(queues: TaskQueues) -> dict[str, Integers]:
    """Run the queues of the leaves until all tasks are completed, and return `TaskQueues.totals`."""
    queues.log = False  # completions need not be reported anymore
    queues.advance(NEVER)
    return queues.totals()


def merge_totals(a: dict[str, Integers], b: dict[str, Integers]) -> dict[str, Integers]:
    """Return the combined totals of two processes, each for the queues of its own machines."""
    totals = {name: a[name] + b[name] for name in a}
    totals["finish"] = np.maximum(a["finish"], b["finish"])
    first, second = a["first_start"], b["first_start"]  # -1: never
    totals["first_start"] = np.where(
        (first < 0) | (second < 0), np.maximum(first, second), np.minimum(first, second)
    )
    return totals


def outcome_of(
    parameters: Any,
    run: Run,
    grid: SummaryGrid,
    queues: TaskQueues,
    bags: Bags,
    records: TreeFindings,
    totals: dict[str, Integers],
    axes: Mapping[str, list[Any]] | None = None,
) -> Outcome:
    """Return the outcome of a `FairTree` after `complete_queues`.

    Parameters
    ----------
    axes
        Name -> samples of each further axis of summaries.
    """
    axes = axes or {}
    applications = len(run.applications)
    requests = _requests(grid, bags, totals, records)
    level = np.full(applications, -1, np.int64)
    # the first of several requests of an application counts
    level[requests["application"][::-1]] = requests["level"][::-1]
    return Outcome(
        applications={
            "first_start": totals["first_start"][:applications],
            "finish": totals["finish"][:applications],
            "completed": totals["completed"][:applications],
            "resubmitted": np.zeros(applications, np.int64)
            if records.resubmitted is None
            else records.resubmitted,
            "nodes_used": totals["nodes_used"][:applications],
            "level": level,
        },
        machines={name: totals[name] for name in ("busy", "tasks", "interrupted", "peak_queue")},
        tables={
            "requests": requests,
            "updates": _update_times(records.updates),
            "traffic": run.network.by_level(),
        },
        facts={
            "bound": parameters.bound,
            "stretch_ratio": _ratio(grid.stretch),
            "grid": {
                "stretch": grid.stretch.tolist(),
                "size": grid.size.tolist(),
                "task_size": grid.task_size.tolist(),
                **axes,
            },
            "summary_bytes": parameters.summary_bytes(grid.cells * prod(map(len, axes.values()))),
            "decisions_at_lowest_sample": records.below_window,
            "decisions_above_window": records.above_window,
            "tasks_accepted_known": records.accepted,
            "tasks_completed_known": records.completed,
            "ledger_end_s": None if records.ledger_end is None else records.ledger_end / NS,
            **_root_facts(run, requests, level, records.ledger_end),
        },
        schedule=queues.schedule(),
        arrivals=queues.arrivals(),
    )


_FACTS_OF_ROOT = (
    "requests_at_root",
    "applications_at_root",
    "root_requests_per_s",
    "root_bytes_per_s",
    "decision_wait_mean_s",
    "decision_wait_max_s",
)


def _root_facts(
    run: Run, requests: Mapping[str, NDArray[Any]], level: Integers, ledger_end: int | None
) -> dict[str, float | None]:
    """Return facts on the levels at which requests are decided, and on the waits of applications.

    Rates refer to the time from the first release to the end of the accounting; they are None if that is 0 s.
    All facts are None if no router decided anything.
    """
    if not len(requests["level"]):
        return dict.fromkeys(_FACTS_OF_ROOT)
    at_root, release = requests["level"] == 0, run.applications.release
    number, first = np.unique(requests["application"], return_index=True)
    waits = requests["accepted"][first] - release[number]
    end = run.engine.now if ledger_end is None else ledger_end
    span = end / NS - float(release[0])
    traffic = max(int(column[0]) for column in run.network.interfaces().values())
    rates = (int(at_root.sum()) / span, traffic / span) if span > 0.0 else (None, None)
    shares = float(at_root.mean()), float((level == 0).mean())
    values = *shares, *rates, float(waits.mean()), float(waits.max())
    return dict(zip(_FACTS_OF_ROOT, values, strict=True))


def _requests(
    grid: SummaryGrid, bags: Bags, totals: dict[str, NDArray[Any]], records: TreeFindings
) -> dict[str, NDArray[Any]]:
    """Return the table of requests: accepting node, time, steps up, and stretch of each.

    The table has the stretch reached and the stretch promised (s/Mflop).  If some tasks of a request for
    lost tasks are lost again, the finish of the request is that of its application.
    """
    rows, time = records.decisions, records.decided
    order = np.lexsort((rows["application"], time, bags.whose[rows["application"]]))
    rows, time = rows[order], time[order]
    sample, bag = rows["sample"], rows["application"]
    whose, release, size = bags.whose[bag], bags.release[bag], bags.size[bag]
    finish = totals["finish"][np.where(totals["completed"][bag] == bags.tasks[bag], bag, whose)]
    stretch = (finish - np.round(release * NS)) / NS / size
    promised = np.where(sample >= 0, grid.stretch[sample], np.inf)
    return {
        "application": whose,
        "tasks": rows["tasks"].copy(),
        "release": release,
        "size": size,
        "accepted": time / NS,
        "router": rows["node"].copy(),
        "level": tree_level(rows["node"]),
        "steps_up": rows["hops"].copy(),
        "promised": promised,
        "guaranteed": rows["guaranteed"].copy(),
        "stretch": stretch,
        "kept": ((sample >= 0) & (stretch <= promised)).astype(np.int64),
    }


def _update_times(rows: Integers) -> dict[str, NDArray[Any]]:
    """Return the table of summaries that informed the root of a change: arrival, and age of the change, s."""
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    return {"arrived": rows[:, 0] / NS, "age": (rows[:, 0] - rows[:, 1]) / NS}


def _ratio(samples: NDArray[np.float64]) -> float:
    """Return the ratio of neighbouring samples of a geometric axis."""
    return float((samples[-1] / samples[0]) ** (1.0 / max(1, len(samples) - 1)))
