"""The fair tree for tasks that move data, or that need more memory than most machines have.

J. Celaya and L. Marchal, "A fair decentralized scheduler for bag-of-tasks applications on desktop grids",
leave data to future work.  The paper considers neither memory nor disk, unlike the authors' later simulator,
so there are no published values to compare with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import gridsim as gs
from gridsim.reproduce.framework import (
    CaseTable,
    Check,
    Measurements,
    Reproduction,
    panels,
    ratio_of_means,
    rows_of,
    series,
)
from gridsim.reproduce.verdicts import LARGER, Row, exact
from gridsim.results.metrics.registry import MetricFunction
from gridsim.simulation.simulate import execute
from gridsim.support.random_streams import Streams

#: Numbers of applications of the full and the quick run.
APPLICATIONS = 40, 15
MACHINES, TASK_SIZE = 32, 65536.0
CENTRAL, TREE = "mincent-once", "fair-tree, aware"
STRETCH, GAP, REQUESTS = "max_stretch_agg", "over bound", "requests"


def over_bound(result: gs.Result) -> float:
    """Return the maximum stretch over its lower bound for whole tasks, machine speeds and links."""
    return result.gap("discrete")


def max_stretch(result: gs.Result) -> float:
    """Return the maximum stretch of an application, dimensionless."""
    return result.max_stretch_agg


def requests(result: gs.Result) -> float:
    """Return the number of requests that were sent."""
    messages = result.messages
    return float(messages["sent"][messages["kind"] == "request"].sum())


METRICS: dict[str, MetricFunction] = {STRETCH: max_stretch, GAP: over_bound, REQUESTS: requests}
CHARTS = {"maximum stretch": STRETCH, "over the lower bound": GAP}


def _check(claim: str, quantity: str, a: str, b: str, metric: str = STRETCH) -> Check:
    test = LARGER if claim else None
    return Check(claim, f"{{case}}: {quantity}", ratio_of_means(a, b, metric), test)


# -- data -----------------------------------------------------------------------------------------------

DATA_AWARE = "taking file size into account when allocating tasks serves communication-intensive applications"
NO_DATA = "without data all is as it was"

#: Minimum and maximum bandwidth of links, bytes/s (0.5 to 5 Mbit/s); its logarithm is uniform.
LINKS = (62_500.0, 625_000.0)
#: Bytes that a task sends, relative to those that it fetches.
SENT = 0.1
#: Mean bytes per Mflop, relative to the bytes that all links carry while all machines compute.
LOADS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
#: Load from which applications are communication-intensive, that is, possibly limited by links.
INTENSIVE = 1.0
DATA_IGNORED = "fair-tree, data ignored"
DATA_SCHEDULERS: dict[str, gs.Scheduler] = {
    CENTRAL: gs.MinCent(mode="once"),
    TREE: gs.FairTree(),
    DATA_IGNORED: gs.FairTree(data="ignored"),
}


@dataclass(frozen=True)
class DataBags:
    """Factory of scenarios in which the mean bytes per Mflop are `load` times the capacity of links."""

    load: float
    applications: int = APPLICATIONS[0]
    machines: int = MACHINES
    has_links: bool = True

    @property
    def name(self) -> str:
        """File name of the scenario without its extension."""
        return f"data-{self.machines}-{self.load:g}" + ("" if self.has_links else "-unlinked")

    def __call__(self, seed: int) -> gs.Scenario:
        platform = gs.Platform.pareto(self.machines, seed)
        data: dict[str, Any] = {}
        if self.has_links:
            platform = platform.linked(LINKS)
            links = platform.bandwidth
            assert links is not None
            mean = self.load * float(links.sum()) / platform.aggregate_speed * TASK_SIZE
            data = {"input_bytes": [0.0, mean, 2.0 * mean], "output_bytes": SENT * mean}
        workload = gs.Workload.bags(self.applications, task_size=TASK_SIZE, seed=seed, **data)
        return gs.Scenario(platform, workload, seed=seed)


def _data_rows(data: Measurements) -> list[Row]:
    intensive = {load: values for load, values in data.items() if float(load) >= INTENSIVE}
    calm = {load: values for load, values in data.items() if load not in intensive}
    quantity = "maximum stretch, data ignored / aware"
    return [
        _without_data(data.run.seeds[0], data.run.choose(*APPLICATIONS)),
        *rows_of([_check("", quantity, DATA_IGNORED, TREE)], calm),
        *rows_of([_check(DATA_AWARE, quantity, DATA_IGNORED, TREE)], intensive),
        *rows_of([_check("", "maximum stretch, aware / mincent-once", TREE, CENTRAL)], data),
    ]


def _without_data(seed: int, applications: int) -> Row:
    """Return the row on whether runs without bytes have the same digests as runs without links."""
    with_links, without_links = (
        [
            execute(DataBags(0.0, applications, has_links=links)(seed), s).digest
            for s in DATA_SCHEDULERS.values()
        ]
        for links in (True, False)
    )
    text = "equal" if with_links == without_links else "differ"
    reason = f"digests of seed {seed} with links and 0 bytes, and without links: {text}"
    return exact(NO_DATA, "digests at 0 bytes", "equal", with_links == without_links, reason)


DATA_TREE = Reproduction(
    name="data-tree",
    title="the fair tree for tasks that move data",
    paper="Celaya and Marchal, on future work",
    claims=(DATA_AWARE, NO_DATA),
    cases=lambda run: {f"{load:g}": DataBags(load, run.choose(*APPLICATIONS)) for load in LOADS},
    schedulers=DATA_SCHEDULERS,
    metrics={STRETCH: max_stretch, GAP: over_bound},
    rows=_data_rows,
    grids=(
        CaseTable("maximum stretch, over bytes per Mflop relative to what the links carry", STRETCH),
        CaseTable("maximum stretch over the lower bound", GAP),
    ),
    remarks=(
        f"{MACHINES} machines of 1000..2800 Mflop/s (Pareto), with links of {LINKS[0]:g}..{LINKS[1]:g} "
        f"bytes/s whose logarithms are uniform; {APPLICATIONS[0]} applications ({APPLICATIONS[1]} in "
        "small), 10 s apart on average, of 10 tasks per machine +- 20 %.",
        "Tasks of an application fetch 0, 1 or 2 times the mean, equally likely, and send a tenth of the "
        "mean.",
        "mincent-once knows all machines, links and tasks; its availabilities, like those of the tree, are "
        "bounds from below.  The lower bound holds for every schedule.",
        "The paper says that file size should be taken into account, and has no number.  The three stages "
        "of a machine, the axis of bytes per Mflop and these scenarios are ours.",
    ),
    figure=lambda data: panels(
        {
            title: {name: values[1:] for name, values in series(data, metric).items()}
            for title, metric in CHARTS.items()
        },
        LOADS[1:],
        {"xscale": "log", "yscale": "log", "xlabel": "bytes per Mflop over what links carry"},
    ),
)

# -- memory ---------------------------------------------------------------------------------------------

MEMORY_AWARE = "counting memory when allocating tasks serves applications that few machines can hold"

#: Memory of small and large machines, and memory that tasks of a large application need, bytes.
SMALL, LARGE, NEED = 2e9, 8e9, 4e9
#: Number of applications per large application.
ONE_IN = 8
#: Shares of the machines that can hold a task of a large application.
SHARES = (0.5, 0.25, 0.125)
MEMORY_IGNORED = "fair-tree, memory ignored"


@dataclass(frozen=True)
class MemoryBags:
    """Factory of scenarios in which a `share` of the machines has the memory for large applications."""

    share: float
    applications: int = APPLICATIONS[0]
    machines: int = MACHINES

    @property
    def name(self) -> str:
        """File name of the scenario without its extension."""
        return f"need-{self.machines}-{self.share:g}"

    def __call__(self, seed: int) -> gs.Scenario:
        memory = np.full(self.machines, SMALL)
        order = Streams(seed)("need-tree.memory").permutation(self.machines)
        memory[order[: round(self.share * self.machines)]] = LARGE
        platform = gs.Platform.pareto(self.machines, seed).with_attributes(
            gs.ListedAttributes(memory=tuple(memory.tolist()))
        )
        constraints = gs.Constraints(memory=(*[0.0] * (ONE_IN - 1), NEED))
        workload = gs.Workload.bags(
            self.applications, task_size=TASK_SIZE, seed=seed, constraints=constraints
        )
        return gs.Scenario(platform, workload, seed=seed)


NEED_TREE = Reproduction(
    name="need-tree",
    title="the fair tree for tasks that need much memory",
    paper="not in the paper of Celaya and Marchal",
    claims=(MEMORY_AWARE,),
    seeds=(5, 5),
    cases=lambda run: {f"{share:g}": MemoryBags(share, run.choose(*APPLICATIONS)) for share in SHARES},
    schedulers={
        CENTRAL: gs.MinCent(mode="once"),
        TREE: gs.FairTree(),
        MEMORY_IGNORED: gs.FairTree(needs="ignored"),
    },
    metrics=METRICS,
    rows=(
        _check(MEMORY_AWARE, "maximum stretch, memory ignored / aware", MEMORY_IGNORED, TREE),
        _check("", "maximum stretch, aware / mincent-once", TREE, CENTRAL),
        _check("", "requests, memory ignored / aware", MEMORY_IGNORED, TREE, REQUESTS),
    ),
    grids=(
        CaseTable("maximum stretch, over the share of machines that can hold a large task", STRETCH),
        CaseTable(
            "maximum stretch over the lower bound, over the share of machines that can hold a large task", GAP
        ),
    ),
    remarks=(
        f"{MACHINES} machines of 1000..2800 Mflop/s (Pareto), of which a share has {LARGE:g} bytes of "
        f"memory and the others {SMALL:g}; {APPLICATIONS[0]} applications ({APPLICATIONS[1]} quick), 10 "
        f"s apart on average, of 10 tasks per machine +- 20 %.  Tasks of one application in {ONE_IN}, "
        f"drawn, need {NEED:g} bytes.",
        "Where memory is ignored, a leaf that cannot hold a task passes its share on to a machine drawn at "
        "random.",
        "mincent-once knows all machines and tasks.  The lower bound counts only machines that can hold a "
        "task.",
        "The paper has no memory; the axis of memory and disk, and these scenarios, are ours.",
    ),
    figure=lambda data: panels(
        {title: series(data, metric) for title, metric in CHARTS.items()},
        SHARES,
        {"xscale": "log", "yscale": "log", "xlabel": "share of machines that can hold a large task"},
    ),
)
