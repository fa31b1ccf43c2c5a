"""The fair tree for tasks that move data, which J. Celaya and L. Marchal leave to later work.

"A fair decentralized scheduler for bag-of-tasks applications on desktop grids", section on future work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import ABOVE, Grid, Report, Row, Run, exact, judge, panels
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.schedulers import FairTree, MinCent
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.simulate import execute
from gridsim.studies.replicate import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "data-tree"
TITLE = "the fair tree for tasks that move data"
AWARE = "taking file size into account when allocating tasks serves communication-intensive applications"
SAME = "without data all is as it was"
CLAIMS = (AWARE, SAME)
SEEDS = (10, 5)

MACHINES, APPLICATIONS, FEW = 32, 40, 15
#: Links, bytes/s: from half a megabit to five a second; logarithms are uniform.
LINKS = (62_500.0, 625_000.0)
TASK_SIZE = 65536.0
#: What a task sends, relative to what it fetches.
SENT = 0.1
#: Bytes per Mflop on average, relative to what all links carry while all machines compute.
LOADS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
#: From here on applications are communication-intensive: links can be what limits them.
INTENSIVE = 1.0
CENTRAL, TREE, IGNORED = "mincent-once", "fair-tree, aware", "fair-tree, data ignored"
SCHEDULERS: dict[str, Scheduler] = {
    CENTRAL: MinCent(mode="once"),
    TREE: FairTree(),
    IGNORED: FairTree(data="ignored"),
}
STRETCH, GAP = "max_stretch_agg", "over bound"


@dataclass(frozen=True)
class Moving:
    """Makes a scenario in which the mean bytes per Mflop are `load` times what the links carry."""

    load: float
    applications: int = APPLICATIONS
    machines: int = MACHINES
    linked: bool = True

    @property
    def name(self) -> str:
        """Name of the scenario's file."""
        return f"data-{self.machines}-{self.load:g}" + ("" if self.linked else "-unlinked")

    def __call__(self, seed: int) -> Scenario:
        platform = Platform.pareto(self.machines, seed)
        data: dict[str, Any] = {}
        if self.linked:
            platform = platform.linked(LINKS)
            links = platform.bandwidth
            assert links is not None
            mean = self.load * float(links.sum()) / platform.aggregate_speed * TASK_SIZE
            data = {"input_bytes": [0.0, mean, 2.0 * mean], "output_bytes": SENT * mean}
        workload = Workload.bags(self.applications, task_size=TASK_SIZE, seed=seed, **data)
        return Scenario(platform, workload, seed=seed)


def over_bound(result: Result) -> float:
    """Largest stretch over the lower bound by whole tasks and by what machines and links do."""
    return result.gap("discrete")


def max_stretch(result: Result) -> float:
    """Largest stretch of an application, dimensionless."""
    return result.max_stretch_agg


METRICS: dict[str, MetricFunction] = {STRETCH: max_stretch, GAP: over_bound}


def run(how: Run) -> Report:
    """Run the tree with and without regard to data, and the centralized heuristic, over bytes per Mflop."""
    applications = FEW if how.quick else APPLICATIONS
    made = {load: how.replicate(Moving(load, applications), SCHEDULERS, METRICS) for load in LOADS}
    rows = [_without_data(how.seeds[0], applications)]
    for load in LOADS:
        quantity = f"{load:g}: maximum stretch, data ignored / aware"
        ratio = made[load].ratio_of_means(IGNORED, TREE, STRETCH)
        rows.append(
            judge(AWARE, quantity, "> 1", ratio, ABOVE, float("inf"))
            if load >= INTENSIVE
            else Row("", quantity, "", ratio)
        )
    for load in LOADS:
        ratio = made[load].ratio_of_means(TREE, CENTRAL, STRETCH)
        rows.append(Row("", f"{load:g}: maximum stretch, aware / mincent-once", "", ratio))
    columns = ["scheduler", *(f"{load:g}" for load in LOADS)]
    series = {metric: _series(made, metric) for metric in (STRETCH, GAP)}
    grids = [
        Grid(
            "maximum stretch, over bytes per Mflop relative to what the links carry", columns, series[STRETCH]
        ),
        Grid("maximum stretch over the lower bound", columns, series[GAP]),
    ]
    return Report(tuple(how.seeds), how.quick, rows, grids, _REMARKS, {"loads": LOADS, "series": series})


def _without_data(seed: int, applications: int) -> Row:
    """Return whether runs without bytes have the digests of runs without links."""
    same = all(
        execute(Moving(0.0, applications)(seed), each).digest
        == execute(Moving(0.0, applications, linked=False)(seed), each).digest
        for each in SCHEDULERS.values()
    )
    said = (
        f"digests of seed {seed} with links and 0 bytes, and without links: {'equal' if same else 'differ'}"
    )
    return exact(SAME, "digests at 0 bytes", "equal", same, said)


def _series(made: dict[float, Replicates], metric: str) -> dict[str, list[Estimate]]:
    return {
        label: [estimate(np.asarray(made[load][metric][label])) for load in LOADS] for label in SCHEDULERS
    }


_REMARKS = (
    f"{MACHINES} machines of 1000..2800 Mflop/s (Pareto), with links of {LINKS[0]:g}..{LINKS[1]:g} bytes/s "
    f"whose logarithms are uniform; {APPLICATIONS} applications ({FEW} in small), 10 s apart on average, of "
    "10 tasks per machine +- 20 %.",
    "Tasks of an application fetch 0, 1 or 2 times the mean, equally likely, and send a tenth of the mean.",
    "mincent-once knows all machines, links and tasks; its availabilities, like those of the tree, are "
    "bounds from below.  The lower bound holds for every schedule.",
    "The paper says that file size should be taken into account, and has no number.  The three stages of a "
    "machine, the axis of bytes per Mflop and these scenarios are ours.",
)


def figure(report: Report) -> Figure:
    """Draw the maximum stretch over the lower bound, and itself, over bytes per Mflop."""
    loads = report.data["loads"]
    shown = {
        title: {label: values[1:] for label, values in report.data["series"][metric].items()}
        for title, metric in (("maximum stretch", STRETCH), ("over the lower bound", GAP))
    }
    scales = {"xscale": "log", "yscale": "log", "xlabel": "bytes per Mflop over what links carry"}
    return panels(shown, loads[1:], scales)
