"""Celaya and Marchal, research report, Table 1: update time and link use for five update rates."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.model.network import Network
from gridsim.reproduce.celaya.common import (
    AT_ROOT,
    PAPER_TREE,
    ROOT,
    TREE_REMARK,
    paper_tree,
    requests_at_root,
)
from gridsim.reproduce.framework import (
    CALIBRATIONS,
    Grid,
    Make,
    Report,
    Row,
    Run,
    judge,
    latest_update,
    near,
)
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.overlays import tree_level
from gridsim.studies.replicate import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "celaya-table1"
TITLE = "update time and link use for limits of the update rate"
UPDATES = (
    "with 1000 machines the maximum update time is 12.3, 6.61, 3.68, 2.33 and 1.81 s at 2500 to 40,000 B/s"
)
MEAN_USE = "mean link use is 2.41, 3.78, 4.28, 5 and 5.84 %"
PEAK_USE = "peak link use is 11.41, 16.43, 24.88, 40.45 and 72.63 %"
SHARE = "summaries are more than 95 % of the traffic"
DATA = "on each node the data of tasks, 512 kB each, are 10 times the traffic of the protocol"
CLAIMS = (UPDATES, MEAN_USE, PEAK_USE, SHARE, DATA)
SEEDS = (10, 5)

KINDS = ("U", "V")
RATES = (2500, 5000, 10_000, 20_000, 40_000)
TIME = (12.3, 6.61, 3.68, 2.33, 1.81)
MEAN = (2.41, 3.78, 4.28, 5.0, 5.84)
PEAK = (11.41, 16.43, 24.88, 40.45, 72.63)
NODES, SMALL = 1000, 100
SCHEDULERS: dict[str, Scheduler] = {f"{rate} B/s": paper_tree(update_rate=float(rate)) for rate in RATES}
#: The paper's own rate, bytes/s, at which its tree is compared with one that decides all at its root.
OWN_RATE = 10_000
OWN, OWN_ROOT = f"{OWN_RATE} B/s", f"{OWN_RATE} B/s, {ROOT}"


def recording(seed: int = 0) -> dict[str, Any]:
    """Return a network that records the use of links; for `Make`."""
    return {"network": Network(record_use=True)}


#: Bytes of data of a task.
TASK_DATA = 512_000.0
#: Bytes of a summary, and the number of summaries per task that gives the paper's ratio of 10; each summary
#: crosses two interfaces.
SUMMARY = float(paper_tree().summary_bytes(int(np.prod(PAPER_TREE["samples"].value))))
SUMMARIES = TASK_DATA / 10.0 / SUMMARY / 2.0


def fetching(seed: int = 0) -> dict[str, Any]:
    """Return a network on which tasks fetch data; for `Make`."""
    return {"network": Network(task_data=TASK_DATA)}


def summary_share(result: Result) -> float:
    """Share of the bytes sent that summaries make up, %."""
    messages = result.messages
    return 100.0 * float(messages["bytes"][messages["kind"] == "summary"].sum() / messages["bytes"].sum())


def mean_use(result: Result) -> float:
    """Mean over machines of the mean use of their links, %; NaN if it was not recorded."""
    return 100.0 * float(result.machines["use_mean"].mean()) if "use_mean" in result.machines else math.nan


def peak_1s(result: Result) -> float:
    """Largest use of a machine's links in 1 s, %; NaN if it was not recorded."""
    return _peak(result, "use_peak_1s")


def peak_10s(result: Result) -> float:
    """Largest use of a machine's links in 10 s, %; NaN if it was not recorded."""
    return _peak(result, "use_peak_10s")


def _peak(result: Result, column: str) -> float:
    return 100.0 * float(result.machines[column].max()) if column in result.machines else math.nan


def level_peak(result: Result, level: int) -> float:
    """Largest use in 10 s of the links of a machine whose router is on `level`, %; NaN if not recorded."""
    if "use_peak_10s" not in result.machines:
        return math.nan
    routers = np.arange(max(0, len(result.machines) - 1))
    use = result.machines["use_peak_10s"][: len(routers)][tree_level(routers) == level]
    return 100.0 * float(use.max()) if len(use) else math.nan


def data_ratio(result: Result) -> float:
    """Bytes of task data over bytes of messages, both counted at the interfaces of machines.

    A message crosses two interfaces, its sender's and its receiver's.  Task data come from a repository and
    cross one.
    """
    machines = result.machines
    return float(machines["data_in"].sum() / (machines["bytes_in"].sum() + machines["bytes_out"].sum()))


def summaries_per_task(result: Result) -> float:
    """Number of summaries sent per task."""
    messages = result.messages
    sent = messages["sent"][messages["kind"] == "summary"].sum()
    return float(sent / result.applications["tasks"].sum())


METRICS: dict[str, MetricFunction] = {
    "time": latest_update,
    "mean": mean_use,
    "peak_1s": peak_1s,
    "peak_10s": peak_10s,
    "share": summary_share,
    "requests": requests_at_root,
}


def run(how: Run) -> Report:
    """Run the fair tree at each rate; a number within 25 % of the printed one counts as reproduced.

    Update times are compared for U only.  Link use depends on the task size, so it is compared for U and V.
    """
    nodes = SMALL if how.quick else NODES
    levels = range(int(math.log2(nodes - 1)) + 1)  # of the routers 0..nodes - 2
    metrics = METRICS | {f"level {level}": partial(level_peak, level=level) for level in levels}
    schedulers = {**SCHEDULERS, OWN_ROOT: paper_tree(update_rate=float(OWN_RATE), **AT_ROOT)}
    made = {kind: how.replicate(Make(kind, nodes, recording), schedulers, metrics) for kind in KINDS}
    rows: list[Row] = []
    for claim, kind, metric, what, unit, printed in (
        (UPDATES, "U", "time", "maximum update time", "s", TIME),
        *(
            (claim, kind, metric, f"{kind}: {what}", "%", printed)
            for kind in KINDS
            for claim, metric, what, printed in (
                (MEAN_USE, "mean", "mean link use", MEAN),
                (PEAK_USE, "peak_1s", "peak link use in 1 s", PEAK),
                (PEAK_USE, "peak_10s", "peak link use in 10 s", PEAK),
            )
        ),
    ):
        for name, paper in zip(SCHEDULERS, printed, strict=True):
            found, why = _recorded(made[kind], name, metric), WHY[kind, metric]
            rows.append(near(claim, f"{what}, {name}", paper, found, unit=unit, why=why))
    for name in SCHEDULERS:
        share = _recorded(made["U"], name, "share")
        rows.append(judge(SHARE, f"summaries' share of bytes, {name}", "> 95", share, 95.0, 100.0, unit="%"))
    rows += _task_data(nodes, how)
    grids = [
        Grid(
            f"{kind}: peak link use in 10 s of the machines with a router of each level, %",
            ["limit of the update rate", *(f"level {level}" for level in levels)],
            {
                name: [_recorded(made[kind], name, f"level {level}") or "-" for level in levels]
                for name in SCHEDULERS
            },
        )
        for kind in KINDS
    ]
    grids += [_compared(kind, made[kind]) for kind in KINDS]
    data = {metric: [_recorded(made["U"], name, metric) for name in SCHEDULERS] for metric in METRICS}
    data |= {f"V {metric}": [_recorded(made["V"], name, metric) for name in SCHEDULERS] for metric in METRICS}
    return Report(tuple(how.seeds), how.quick, rows, grids, _REMARKS, data)


def _compared(kind: str, made: Replicates) -> Grid:
    """Return the grid of the paper's tree beside one that decides all at its root, at the paper's rate."""
    columns = {
        "requests": "requests decided at the root, %",
        "time": "maximum update time (s)",
        "mean": "mean link use, %",
        "peak_10s": "peak in 10 s, %",
        "share": "summaries' share of bytes, %",
    }
    rows = {name: [_recorded(made, name, metric) or "-" for metric in columns] for name in (OWN, OWN_ROOT)}
    return Grid(f"{kind}: where requests are decided", ["tree", *columns.values()], rows)


def _task_data(nodes: int, how: Run) -> list[Row]:
    tree = paper_tree(update_rate=float(OWN_RATE), run_on=True)
    metrics: dict[str, MetricFunction] = {"ratio": data_ratio, "summaries": summaries_per_task}
    rows = []
    for kind in KINDS:
        made = how.replicate(Make(kind, nodes, fetching), {"tree": tree}, metrics)
        what = f"{kind}: task data / messages, {OWN_RATE} B/s"
        rows.append(near(DATA, what, 10.0, made.mean("tree", "ratio"), why=_FEWER))
        what = f"{kind}: summaries a task, {OWN_RATE} B/s"
        rows.append(Row(DATA, what, f"{SUMMARIES:.1f} for a ratio of 10", made.mean("tree", "summaries")))
    return rows


#: Explanations of measured numbers, where they are known.
_FEW = "link use grows with the tasks that end while applications arrive, so it depends on the task size"
_FIT = "the task size at which mean use is near the paper's"
_BURST = (
    "the answers of up to N leaves reach one submitter within a second, and cross two interfaces a message"
)
_FEWER = f"a ratio of 10 needs {SUMMARIES:.1f} summaries of {SUMMARY:g} bytes a task"
WHY = {
    ("U", "time"): "",
    ("U", "mean"): _FEW,
    ("U", "peak_1s"): _BURST,
    ("U", "peak_10s"): _FEW,
    ("V", "mean"): f"{_FIT}; above 10,000 B/s there are fewer changes than the limit lets through",
    ("V", "peak_1s"): _BURST,
    ("V", "peak_10s"): f"{_FIT}; at 2500 B/s it is that of answers to a submitter, on any level",
}

_REMARKS = (
    TREE_REMARK,
    *(f"{kind}: {CALIBRATIONS[kind]}." for kind in KINDS),
    "The paper gives no task size.  Update times hardly depend on it, and neither do stretches times "
    "aggregate speed; link use does, as each task that ends makes its leaf report.",
    "Update times are of changes from the first release on; each value is the maximum of a run.",
    "Task data: bytes fetched over bytes of messages, in and out as in link use, until every machine is idle "
    "and has said so.",
    "Link use is (bytes in + out) / bandwidth of a machine, from the first to the last release: the mean "
    "over machines, and the peak of the machine that has the largest.  The paper does not say over how "
    "long a peak is taken: 1 s and 10 s are shown.",
    "Level 0 is the root.  A machine with a router has a leaf too, and submits applications.",
)


def _recorded(made: Replicates, name: str, metric: str) -> Estimate | None:
    values = made[metric][name]
    return None if all(map(math.isnan, values)) else estimate(values)


def figure(report: Report) -> Figure:
    """Draw update time, and link use where recorded, with the printed values if N is the paper's."""
    from gridsim import plots

    panels = [
        (title, report.data[metric], printed)
        for title, metric, printed in (
            ("maximum update time (s)", "time", TIME),
            ("V: mean link use (%)", "V mean", MEAN),
            ("V: peak link use in 10 s (%)", "V peak_10s", PEAK),
        )
        if all(value is not None for value in report.data[metric])
    ]
    made, places = plots.figure(max(1, len(panels)))
    for axes, (title, measured, printed) in zip(places, panels, strict=False):
        beside = [None if report.quick else paper for paper in printed]
        plots.bars([f"{rate}" for rate in RATES], measured, beside, axes=axes)
        axes.set_title(title)
        axes.set_xlabel("limit of the update rate (bytes/s)")
    return made
