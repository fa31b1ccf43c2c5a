"""Common parts of the experiments of section 7: the paper's tree, readings of resubmission, and FCFS."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import gridsim as gs
from gridsim.reproduce.framework import ResultGrid
from gridsim.reproduce.verdicts import POSITIVE, Row, conclude, judge, sign
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.studies.replicate_result import Replicates
from gridsim.support.arrays import Floats

# -- the tree ---------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """A parameter's value in the paper's tree, and where it comes from."""

    value: Any
    source: str


#: The tree of all experiments of section 7. Parameters that are missing here, because the paper does not
#: state them, keep their defaults.
PAPER_TREE: Mapping[str, Setting] = {
    "accept": Setting(
        "root", "section 6 has S <= B S_min, which with B = 1 decides all requests at the root"
    ),
    "bound": Setting(1.0, "B is not printed"),
    "samples": Setting((40, 6, 3), "not printed; summaries of 3 kB fit the update times of Table 1"),
    "update_rate": Setting(10_000.0, "section 7.2; Table 1 varies it"),
    "update_on": Setting("completion", "section 7.2: when tasks arrive or finish"),
    "release_cell": Setting(0.0, "section 5.2 has a multiple of five minutes, which is no bound for others"),
    "heartbeat": Setting(60.0, "section 6: periodically; the only period printed is five minutes (5.2)"),
    "detection": Setting(None, "section 4: when failures are detected; here at the next heartbeat"),
}
#: Remark about the tree, in every report.
TREE_REMARK = (
    "The paper's tree: "
    + "; ".join(f"{name} = {value!r} ({source})" for name, (value, source) in PAPER_TREE.items())
    + ".  It is the same in all experiments of section 7; other parameters have their defaults."
)


def paper_tree(**changes: Any) -> gs.FairTree:
    """Return the paper's tree with the parameters in `changes` replaced."""
    return gs.FairTree(**{**{name: value for name, (value, _) in PAPER_TREE.items()}, **changes})


TREE, ROOT = "tree", "all at the root"
#: Parameters of a tree whose root decides on every request.
AT_ROOT: Mapping[str, Any] = {"accept": "minimum", "bound": 0.0}
#: Parameters of a tree that accepts early: its bound refers to the minimum stretch of busy leaves only.
EARLY_ACCEPTANCE: Mapping[str, Any] = {"accept": "minimum", "bound": 2.0, "minimum_of": "busy"}

BASE, ECT, RANDOM = "MinCent", "FCFS ect", "FCFS random"
MINCENT = gs.MinCent()
FCFS: Mapping[str, gs.Scheduler] = {ECT: gs.Fcfs(), RANDOM: gs.Fcfs(mode="random")}


# -- metrics ----------------------------------------------------------------------------------------------


def largest(result: gs.Result) -> float:
    """Return the maximum stretch, 1e-8 s/Mflop."""
    return result.max_stretch * 1e8


def requests_at_root(result: gs.Result) -> float:
    """Return the share of requests, also for lost tasks, that the root decided, %; NaN without a tree."""
    return _percent(result, "requests_at_root")


def applications_at_root(result: gs.Result) -> float:
    """Return the share of applications whose first request the root decided, %; NaN without a tree."""
    return _percent(result, "applications_at_root")


def _percent(result: gs.Result, fact: str) -> float:
    share = result.facts.get(fact)
    return math.nan if share is None else 100.0 * float(share)


#: The metrics of experiments on stretches; schedulers are compared by the first one.
METRICS: Mapping[str, MetricFunction] = {
    "max": largest,
    "requests": requests_at_root,
    "applications": applications_at_root,
}


# -- lost tasks -------------------------------------------------------------------------------------------

#: The readings of "we just resubmit tasks" (section 4) -> `FairTree.resubmit`: lost tasks keep the release
#: and size of their application, or become a new application.
READINGS: Mapping[str, str] = {"lost tasks as they were": "as-is", "lost tasks as new requests": "new"}
#: The calibration that is run with both readings; a single run with new requests takes minutes.
WITH_BOTH = "K1"
READINGS_REMARK = (
    '"We just resubmit tasks" (section 4) has two readings.  As they were: lost tasks keep the release and '
    "the size of their application.  As new requests: they are released when they are submitted again, and "
    "have a size of their own.  Claims on failures have a verdict for each; the second is run with "
    f"{WITH_BOTH}."
)
FAILURES_REMARK = (
    "Failures: each machine is reset once in 14,400 s on average; lost tasks are noticed at the next "
    f"heartbeat ({PAPER_TREE['heartbeat'].value:g} s).  The readings are the tree's: MinCent and FCFS know "
    "at once which tasks were lost, and place them again."
)


def readings(calibration: str) -> tuple[str, ...]:
    """Return the readings of resubmission with which a calibration is run."""
    return tuple(READINGS) if calibration == WITH_BOTH else tuple(READINGS)[:1]


def with_failures(name: str, reading: str = "") -> str:
    """Return the label of a scheduler that runs with failures."""
    return ", ".join(filter(None, (name, "failures", reading)))


def failing_trees(calibration: str) -> dict[str, gs.Scheduler]:
    """Return label -> the paper's tree, for each reading of resubmission in runs with failures."""
    return {
        with_failures(TREE, reading): paper_tree(resubmit=READINGS[reading])
        for reading in readings(calibration)
    }


def by_reading(sentence: str, reading: str) -> str:
    """Return the text of a claim: a sentence of the paper under one reading of resubmission."""
    return f"{sentence} ({reading})"


def claims_by_reading(*sentences: str) -> tuple[str, ...]:
    """Return the claims of all sentences under each reading of resubmission, ordered by reading."""
    return tuple(by_reading(sentence, reading) for reading in READINGS for sentence in sentences)


def verdict_grid(
    sentences: Sequence[str], rows: Mapping[tuple[str, str], Sequence[Row]], *, quick: bool
) -> tuple[ResultGrid, str]:
    """Return a grid of verdicts, and a remark on whether all sentences hold together.

    Parameters
    ----------
    rows
        (calibration, reading) -> the rows about them.
    quick
        Whether to mark verdicts as those of a quick run.
    """
    columns = {
        ", ".join(key): [conclude(by_reading(sentence, key[1]), part).verdict for sentence in sentences]
        for key, part in rows.items()
    }
    mark = " (quick)" if quick else ""
    grid = ResultGrid(
        f"Verdicts by calibration and reading{mark}",
        ["claim", *columns],
        dict(zip(sentences, map(list, zip(*columns.values(), strict=True)), strict=True)),
    )
    holding = [key for key, verdicts in columns.items() if set(verdicts) <= {"reproduced"}]
    if holding:
        return grid, f"All claims on failures here are reproduced together with: {'; '.join(holding)}{mark}."
    return grid, f"No reading gives all claims on failures here, with any of the calibrations{mark}."


# -- against FCFS -----------------------------------------------------------------------------------------

WORSE = "with failures the fair tree is worse than without, but better than FCFS"


def fcfs_margin(values: Replicates, tree: str, *, failing: bool) -> Floats:
    """Return the excess of the better FCFS over `tree` per seed, relative to MinCent without failures.

    Parameters
    ----------
    values
        Replicates of `METRICS` with MinCent and with both kinds of FCFS.
    failing
        Whether FCFS runs with failures as well.
    """
    stretch = values["max"]
    fcfs = [stretch[with_failures(name) if failing else name] for name in FCFS]
    margin: Floats = (np.minimum(*fcfs) - stretch[tree]) / stretch[BASE]
    return margin


def against_fcfs(at: str, reading: str, values: Replicates) -> Iterator[Row]:
    """Return the rows about the claim `WORSE` under one reading of resubmission.

    Parameters
    ----------
    at
        Calibration and number of machines.
    values
        As in `fcfs_margin`, and with the paper's tree, without and with failures.
    """
    claim, tree, stretch = by_reading(WORSE, reading), with_failures(TREE, reading), values["max"]
    worse = estimate((stretch[tree] - stretch[TREE]) / stretch[BASE])
    yield judge(claim, f"{at}: {tree} - without failures", worse, POSITIVE)
    for failing in (True, False):
        quantity = f"{at}: better FCFS{', failures' if failing else ''} - {tree}"
        yield sign(claim, quantity, "> 0", fcfs_margin(values, tree, failing=failing), seeds=values.seeds)
