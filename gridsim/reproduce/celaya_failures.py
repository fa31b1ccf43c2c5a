"""Celaya and Marchal, research report, section 7.2: the range of stretches without and with failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gridsim.estimates import estimate
from gridsim.measures import Metric
from gridsim.reproduce.common import BELOW, CALIBRATIONS, Make, Report, Row, Run, failing, judge, near
from gridsim.results import Result
from gridsim.scheduler import Scheduler
from gridsim.schedulers import FairTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "celaya-failures"
TITLE = "range of stretches without and with failures"
RANGES = (
    "with 1000 machines stretches lie in [220, 10876] * 1e-8 s/Mflop without failures, and in [10303, 12533] "
    "* 1e-8 with failures"
)
NARROWER = "failures narrow the range"
COMPLETED = "lost tasks are submitted again until all are completed"
CLAIMS = (RANGES, NARROWER, COMPLETED)
SEEDS = (10, 5)

KINDS = ("K1", "U")
NODES, SMALL = 1000, 25
CALM, FAILING, LITERAL = "without failures", "with failures", "with failures, idle = 0"
#: min and max, 1e-8 s/Mflop
PAPER = {CALM: (220.0, 10876.0), FAILING: (10303.0, 12533.0)}


def least(result: Result) -> float:
    """Smallest stretch, 1e-8 s/Mflop."""
    return result.min_stretch * 1e8


def most(result: Result) -> float:
    """Largest stretch, 1e-8 s/Mflop."""
    return result.max_stretch * 1e8


def completed(result: Result) -> float:
    """Share of tasks that were completed, %."""
    return 100.0 * float(result.machines["tasks"].sum() / result.applications["tasks"].sum())


def resubmitted(result: Result) -> float:
    """Tasks that had to be placed again, % of all tasks."""
    return 100.0 * float(result.applications["resubmitted"].sum() / result.applications["tasks"].sum())


METRICS: dict[str, Metric] = {
    "min": least,
    "max": most,
    "completed": completed,
    "resubmitted": resubmitted,
}


def run(how: Run) -> Report:
    """The fair tree with both calibrations, without and with failures, those with two minimum stretches."""
    nodes = SMALL if how.quick else NODES
    rows: list[Row] = []
    data: dict[str, Any] = {}
    for kind in KINDS:
        made = how.replicate(Make(kind, nodes), {CALM: FairTree()}, METRICS)
        hit: dict[str, Scheduler] = {FAILING: FairTree(), LITERAL: FairTree(minimum_of="all")}
        made = made.joined(how.replicate(Make(kind, nodes, failing), hit, METRICS))
        for case, printed in PAPER.items():
            for end, paper in zip(("min", "max"), printed, strict=True):
                what = f"{kind}: {'smallest' if end == 'min' else 'largest'} stretch {case}"
                found = made.mean(case, end)
                why = WHY.get((case, end), "")
                rows.append(near(RANGES, what, paper, found, unit="1e-8 s/Mflop", why=why))
        for end, name in (("min", "smallest"), ("max", "largest")):
            what = f"{kind}: {name} stretch {LITERAL}"
            rows.append(Row(RANGES, what, "-", made.mean(LITERAL, end), "1e-8 s/Mflop"))
        width = {case: made["max"][case] / made["min"][case] for case in made.schedulers}
        rows.append(Row(NARROWER, f"{kind}: largest / smallest {CALM}", "49.4", estimate(width[CALM])))
        rows.append(Row(NARROWER, f"{kind}: largest / smallest {FAILING}", "1.22", estimate(width[FAILING])))
        narrower = estimate(width[FAILING] / width[CALM])
        what = f"{kind}: largest / smallest, with failures over without"
        rows.append(judge(NARROWER, what, "< 1", narrower, 0.0, BELOW))
        for case in (FAILING, LITERAL):
            share = made.mean(case, "completed")
            what = f"{kind}: tasks completed {case}"
            rows.append(judge(COMPLETED, what, "all", share, 100.0, 100.0, unit="%"))
            rows.append(
                Row(
                    COMPLETED,
                    f"{kind}: tasks submitted again {case}",
                    "-",
                    made.mean(case, "resubmitted"),
                    "%",
                )
            )
        data[kind] = {case: {end: made.mean(case, end) for end in ("min", "max")} for case in made.schedulers}
    return Report(tuple(how.seeds), how.quick, rows, (), _REMARKS, data)


#: Why a number is what it is, where that is known.
_SMALL = "the smallest applications have the earliest deadlines and end first"
WHY = {
    (CALM, "min"): f"{_SMALL}: it depends on the draw of the smallest",
    (CALM, "max"): "see the remarks",
    (FAILING, "min"): f"{_SMALL}; what they lose keeps its release as it is submitted again: it comes first",
}

_REMARKS = (
    *(f"{kind}: {CALIBRATIONS[kind]}." for kind in KINDS),
    "The paper gives neither B (here 2), nor the task size, nor how speeds are distributed.  Its ranges are "
    "of one network; a number within 25 % of the printed one counts as reproduced.",
    "On an overloaded platform stretch times aggregate speed does not depend on the task size.  The printed "
    "10876e-8 is 217 over the aggregate speed for uniform speeds, but no schedule that keeps machines busy "
    "has more than about 100 / 0.8 = 125 with sizes within 20 %: not with any task size.",
    "Failures: each machine is reset once in 14,400 s on average; what was lost is noticed at the next "
    "heartbeat (300 s).",
    "Idle = 0: the minimum stretch of the platform is over all leaves, and an idle one counts 0, the paper "
    "to the letter; otherwise it is over the busy leaves.",
)


def figure(report: Report) -> Figure:
    """Bars of the ends of the ranges beside the printed ones (if N is theirs), a panel per calibration."""
    from gridsim import plots

    made, panels = plots.figure(len(KINDS))
    labels = ["min", "max", "min, failures", "max, failures"]
    printed = [None if report.quick else paper for case in PAPER.values() for paper in case]
    for axes, kind in zip(panels, KINDS, strict=True):
        found = [report.data[kind][case][end] for case in PAPER for end in ("min", "max")]
        plots.bars(labels, found, printed, axes=axes)
        axes.set_title(kind)
        axes.set_ylabel("stretch (1e-8 s/Mflop)")
    return made
