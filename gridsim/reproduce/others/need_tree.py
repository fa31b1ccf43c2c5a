"""The fair tree for tasks that need more memory than most machines have.

The paper (J. Celaya and L. Marchal, "A fair decentralized scheduler for bag-of-tasks applications on desktop
grids") has no memory and no disk, which the authors' later simulator had, and so no number to compare with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gridsim.model.attributes import Constraints, ListedAttributes
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import ABOVE, Grid, Report, Row, Run, judge, panels
from gridsim.reproduce.others.data_tree import GAP, STRETCH, max_stretch, over_bound
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.schedulers import FairTree, MinCent
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates
from gridsim.support.random_streams import Streams

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "need-tree"
TITLE = "the fair tree for tasks that need much memory"
AWARE = "counting memory when allocating tasks serves applications that few machines can hold"
CLAIMS = (AWARE,)
SEEDS = (5, 5)

MACHINES, APPLICATIONS, FEW = 32, 40, 15
TASK_SIZE = 65536.0
#: Memory of machines, and what the tasks of a large application need, bytes.
SMALL, LARGE, NEEDED = 2e9, 8e9, 4e9
#: One application in so many is large.
ONE_IN = 8
#: Shares of the machines that can hold a task of a large application.
SHARES = (0.5, 0.25, 0.125)
CENTRAL, TREE, IGNORED = "mincent-once", "fair-tree, aware", "fair-tree, memory ignored"
SCHEDULERS: dict[str, Scheduler] = {
    CENTRAL: MinCent(mode="once"),
    TREE: FairTree(),
    IGNORED: FairTree(needs="ignored"),
}
REQUESTS = "requests"


@dataclass(frozen=True)
class Needing:
    """Makes a scenario in which a `share` of the machines can hold the tasks of large applications."""

    share: float
    applications: int = APPLICATIONS
    machines: int = MACHINES

    @property
    def name(self) -> str:
        """Name of the scenario's file."""
        return f"need-{self.machines}-{self.share:g}"

    def __call__(self, seed: int) -> Scenario:
        memory = np.full(self.machines, SMALL)
        order = Streams(seed)("need-tree.memory").permutation(self.machines)
        memory[order[: round(self.share * self.machines)]] = LARGE
        platform = Platform.pareto(self.machines, seed).with_attributes(
            ListedAttributes(memory=tuple(memory.tolist()))
        )
        constraints = Constraints(memory=(*[0.0] * (ONE_IN - 1), NEEDED))
        workload = Workload.bags(self.applications, task_size=TASK_SIZE, seed=seed, constraints=constraints)
        return Scenario(platform, workload, seed=seed)


def requests(result: Result) -> float:
    """How many requests were sent."""
    messages = result.messages
    return float(messages["sent"][messages["kind"] == "request"].sum())


METRICS: dict[str, MetricFunction] = {STRETCH: max_stretch, GAP: over_bound, REQUESTS: requests}


def run(how: Run) -> Report:
    """Run the tree with and without regard to memory, and the centralized heuristic, over the share."""
    applications = FEW if how.quick else APPLICATIONS
    made = {share: how.replicate(Needing(share, applications), SCHEDULERS, METRICS) for share in SHARES}
    rows = []
    for share in SHARES:
        ratio = made[share].ratio_of_means(IGNORED, TREE, STRETCH)
        quantity = f"{share:g}: maximum stretch, memory ignored / aware"
        rows.append(judge(AWARE, quantity, "> 1", ratio, ABOVE, float("inf")))
    for one, other, metric, quantity in (
        (TREE, CENTRAL, STRETCH, "maximum stretch, aware / mincent-once"),
        (IGNORED, TREE, REQUESTS, "requests, memory ignored / aware"),
    ):
        for share in SHARES:
            rows.append(Row("", f"{share:g}: {quantity}", "", made[share].ratio_of_means(one, other, metric)))
    columns = ["scheduler", *(f"{share:g}" for share in SHARES)]
    series = {metric: _series(made, metric) for metric in (STRETCH, GAP)}
    over = "over the share of machines that can hold a large task"
    grids = [
        Grid(f"maximum stretch, {over}", columns, series[STRETCH]),
        Grid(f"maximum stretch over the lower bound, {over}", columns, series[GAP]),
    ]
    return Report(tuple(how.seeds), how.quick, rows, grids, _REMARKS, {"shares": SHARES, "series": series})


def _series(made: dict[float, Replicates], metric: str) -> dict[str, list[Estimate]]:
    return {
        label: [estimate(np.asarray(made[share][metric][label])) for share in SHARES] for label in SCHEDULERS
    }


_REMARKS = (
    f"{MACHINES} machines of 1000..2800 Mflop/s (Pareto), of which a share has {LARGE:g} bytes of memory and "
    f"the others {SMALL:g}; {APPLICATIONS} applications ({FEW} in small), 10 s apart on average, of 10 tasks "
    f"per machine +- 20 %.  Tasks of one application in {ONE_IN}, drawn, need {NEEDED:g} bytes.",
    "Where memory is ignored, a leaf that cannot hold a task passes its share on to a machine drawn at "
    "random.",
    "mincent-once knows all machines and tasks.  The lower bound counts only machines that can hold a task.",
    "The paper has no memory; the axis of memory and disk, and these scenarios, are ours.",
)


def figure(report: Report) -> Figure:
    """Draw the maximum stretch over the lower bound, and itself, over the share."""
    shown = {
        title: report.data["series"][metric]
        for title, metric in (("maximum stretch", STRETCH), ("over the lower bound", GAP))
    }
    scales = {"xscale": "log", "yscale": "log", "xlabel": "share of machines that can hold a large task"}
    return panels(shown, report.data["shares"], scales)
