"""Celaya and Marchal, research report, Table 1: update time and link utilization for five update rates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import gridsim as gs
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
    CalibratedScenario,
    Case,
    Measurements,
    Reproduction,
    ResultGrid,
    Run,
    bar_panels,
    latest_update,
)
from gridsim.reproduce.verdicts import ClaimedRange, Row, judge, range_around
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.scheduling.overlays import tree_level
from gridsim.studies.replicate_result import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UPDATES = (
    "with 1000 machines the maximum update time is 12.3, 6.61, 3.68, 2.33 and 1.81 s at 2500 to 40,000 B/s"
)
MEAN_USE = "mean link use is 2.41, 3.78, 4.28, 5 and 5.84 %"
PEAK_USE = "peak link use is 11.41, 16.43, 24.88, 40.45 and 72.63 %"
SHARE = "summaries are more than 95 % of the traffic"
DATA = "on each node the data of tasks, 512 kB each, are 10 times the traffic of the protocol"

KINDS = ("U", "V")
NODES, SMALL = 1000, 100
RATES = (2500, 5000, 10_000, 20_000, 40_000)
TIME = (12.3, 6.61, 3.68, 2.33, 1.81)
MEAN = (2.41, 3.78, 4.28, 5.0, 5.84)
PEAK = (11.41, 16.43, 24.88, 40.45, 72.63)
TREES: dict[str, gs.Scheduler] = {f"{rate} B/s": paper_tree(update_rate=float(rate)) for rate in RATES}
#: The paper's update rate, bytes/s, at which its tree is compared with one that decides every request at its
#: root.
PAPER_RATE = 10_000
PAPER_NAME, ROOT_NAME = f"{PAPER_RATE} B/s", f"{PAPER_RATE} B/s, {ROOT}"


def recording(seed: int = 0) -> dict[str, Any]:
    """Return the `network` argument of a `CalibratedScenario` that records link utilization."""
    return {"network": gs.Network(record_use=True)}


#: Data of a task, bytes.
TASK_DATA = 512_000.0
#: Size of a summary, bytes, and the number of summaries per task at which the data ratio is the paper's 10,
#: as each summary crosses two interfaces.
SUMMARY = float(paper_tree().summary_bytes(int(np.prod(PAPER_TREE["samples"].value))))
SUMMARIES = TASK_DATA / 10.0 / SUMMARY / 2.0


def fetching(seed: int = 0) -> dict[str, Any]:
    """Return the `network` argument of a `CalibratedScenario` in which tasks fetch data."""
    return {"network": gs.Network(task_data=TASK_DATA)}


def summary_share(result: gs.Result) -> float:
    """Return the share of summaries in the bytes sent, %."""
    messages = result.messages
    return 100.0 * float(messages["bytes"][messages["kind"] == "summary"].sum() / messages["bytes"].sum())


def mean_use(result: gs.Result) -> float:
    """Return the mean link utilization of a machine, %; NaN if it was not recorded."""
    return 100.0 * float(result.machines["use_mean"].mean()) if "use_mean" in result.machines else math.nan


def peak_1s(result: gs.Result) -> float:
    """Return the maximum utilization of a machine's links in any 1 s, %; NaN if it was not recorded."""
    return _peak(result, "use_peak_1s")


def peak_10s(result: gs.Result) -> float:
    """Return the maximum utilization of a machine's links in any 10 s, %; NaN if it was not recorded."""
    return _peak(result, "use_peak_10s")


def _peak(result: gs.Result, column: str) -> float:
    return 100.0 * float(result.machines[column].max()) if column in result.machines else math.nan


def level_peak(result: gs.Result, level: int) -> float:
    """Return the maximum link utilization in any 10 s of machines with a router on `level`, %, or NaN."""
    if "use_peak_10s" not in result.machines:
        return math.nan
    routers = np.arange(max(0, len(result.machines) - 1))
    utilization = result.machines["use_peak_10s"][: len(routers)][tree_level(routers) == level]
    return 100.0 * float(utilization.max()) if len(utilization) else math.nan


def data_ratio(result: gs.Result) -> float:
    """Return the ratio of the bytes of task data to the bytes of messages, at the interfaces of machines.

    A message crosses two interfaces, its sender's and its receiver's.  Task data come from a repository and
    cross one.
    """
    machines = result.machines
    return float(machines["data_in"].sum() / (machines["bytes_in"].sum() + machines["bytes_out"].sum()))


def summaries_per_task(result: gs.Result) -> float:
    """Return the number of summaries sent per task."""
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

#: Explanations of the measured numbers that are understood.
_TASK_SIZE = (
    "link use grows with the tasks that end while applications arrive, so it depends on the task size"
)
_FIT = "the task size at which mean use is near the paper's"
_BURST = (
    "the answers of up to N leaves reach one submitter within a second, and cross two interfaces a message"
)
_SUMMARIES = f"a ratio of 10 needs {SUMMARIES:.1f} summaries of {SUMMARY:g} bytes a task"
#: Claim, calibration, metric, quantity, published values, and an explanation. Update times are compared for U
#: only. Link utilization depends on the task size, so it is compared for U and V.
COMPARISONS = (
    (UPDATES, "U", "time", "maximum update time", TIME, ""),
    (MEAN_USE, "U", "mean", "U: mean link use", MEAN, _TASK_SIZE),
    (PEAK_USE, "U", "peak_1s", "U: peak link use in 1 s", PEAK, _BURST),
    (PEAK_USE, "U", "peak_10s", "U: peak link use in 10 s", PEAK, _TASK_SIZE),
    (
        *(MEAN_USE, "V", "mean", "V: mean link use", MEAN),
        f"{_FIT}; above 10,000 B/s there are fewer changes than the limit lets through",
    ),
    (PEAK_USE, "V", "peak_1s", "V: peak link use in 1 s", PEAK, _BURST),
    (
        *(PEAK_USE, "V", "peak_10s", "V: peak link use in 10 s", PEAK),
        f"{_FIT}; at 2500 B/s it is that of answers to a submitter, on any level",
    ),
)


def _levels(run: Run) -> range:
    """Return the tree level of each of the routers 0..nodes - 2."""
    return range(int(math.log2(run.choose(NODES, SMALL) - 1)) + 1)


def _cases(run: Run) -> dict[tuple[str, str], Case]:
    nodes = run.choose(NODES, SMALL)
    metrics = METRICS | {f"level {level}": partial(level_peak, level=level) for level in _levels(run)}
    trees = {**TREES, ROOT_NAME: paper_tree(update_rate=float(PAPER_RATE), **AT_ROOT)}
    tree = paper_tree(update_rate=float(PAPER_RATE), run_on=True)
    data: dict[str, MetricFunction] = {"ratio": data_ratio, "summaries": summaries_per_task}
    return {
        **{("use", kind): Case(CalibratedScenario(kind, nodes, recording), trees, metrics) for kind in KINDS},
        **{
            ("data", kind): Case(CalibratedScenario(kind, nodes, fetching), {"tree": tree}, data)
            for kind in KINDS
        },
    }


def _rows(data: Measurements) -> Iterator[Row]:
    utilizations, task_data = data.groups.values()
    for claim, kind, metric, label, printed, why in COMPARISONS:
        for name, paper in zip(TREES, printed, strict=True):
            value, unit = _recorded_mean(utilizations[kind], name, metric), "s" if metric == "time" else "%"
            yield judge(claim, f"{label}, {name}", value, range_around(paper), unit=unit, why=why)
    for name in TREES:
        quantity, share = (
            f"summaries' share of bytes, {name}",
            _recorded_mean(utilizations["U"], name, "share"),
        )
        yield judge(SHARE, quantity, share, ClaimedRange("> 95", 95.0, 100.0), unit="%")
    for kind, values in task_data.items():
        quantity = f"{kind}: task data / messages, {PAPER_RATE} B/s"
        yield judge(DATA, quantity, values.mean("tree", "ratio"), range_around(10.0), why=_SUMMARIES)
        quantity = f"{kind}: summaries a task, {PAPER_RATE} B/s"
        yield Row(DATA, quantity, f"{SUMMARIES:.1f} for a ratio of 10", values.mean("tree", "summaries"))


#: Metric -> column heading of the table about where requests are decided.
COLUMNS = {
    "requests": "requests decided at the root, %",
    "time": "maximum update time (s)",
    "mean": "mean link use, %",
    "peak_10s": "peak in 10 s, %",
    "share": "summaries' share of bytes, %",
}


def _grids(data: Measurements) -> Iterator[ResultGrid]:
    utilizations = data.groups["use"]
    for title, trees, metrics, columns in (
        (
            "peak link use in 10 s of the machines with a router of each level, %",
            list(TREES),
            [f"level {level}" for level in _levels(data.run)],
            ["limit of the update rate", *(f"level {level}" for level in _levels(data.run))],
        ),
        ("where requests are decided", [PAPER_NAME, ROOT_NAME], list(COLUMNS), ["tree", *COLUMNS.values()]),
    ):
        for kind, values in utilizations.items():
            rows = {
                tree: [_recorded_mean(values, tree, metric) or "-" for metric in metrics] for tree in trees
            }
            yield ResultGrid(f"{kind}: {title}", columns, rows)


def _recorded_mean(values: Replicates, name: str, metric: str) -> Estimate | None:
    column = values[metric][name]
    return None if all(map(math.isnan, column)) else estimate(column)


REMARKS = (
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


def _draw(data: Measurements) -> Figure:
    """Draw update time and, if recorded, link utilization, with the published values if N is the paper's."""
    utilizations, bars = data.groups["use"], {}
    for title, kind, metric, paper_values in (
        ("maximum update time (s)", "U", "time", TIME),
        ("V: mean link use (%)", "V", "mean", MEAN),
        ("V: peak link use in 10 s (%)", "V", "peak_10s", PEAK),
    ):
        means = [_recorded_mean(utilizations[kind], name, metric) for name in TREES]
        if all(value is not None for value in means):
            bars[title] = [str(rate) for rate in RATES], means, paper_values
    return bar_panels(data.run, bars, {"xlabel": "limit of the update rate (bytes/s)"})


TABLE1 = Reproduction(
    name="celaya-table1",
    title="update time and link use for limits of the update rate",
    paper="Celaya and Marchal, research report, Table 1",
    claims=(UPDATES, MEAN_USE, PEAK_USE, SHARE, DATA),
    cases=_cases,
    rows=_rows,
    grids=_grids,
    remarks=REMARKS,
    figure=_draw,
)
