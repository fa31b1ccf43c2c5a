"""Small scenarios, results and logs, as gridsim writes them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from files import FOLDER

import gridsim as gs
from gridsim.model.platform import Platform
from gridsim.model.workload import Workload
from gridsim.results.formats.job_logs import to_batsim, to_swf

BAGS = gs.Scenario(
    platform=Platform.desktop_grid(4, seed=1),
    workload=Workload.bags(3, tasks=3.0, seed=2),
    faults=gs.Faults.of([0, 1], [5.0, 30.0], [60.0, 30.0]),
)
RIGID = gs.Scenario(
    platform=Platform.equal(3), workload=Workload.jobs_of([0.0, 1.0, 2.0], [1, 3, 2], [5.0, 6.0, 7.0])
)

#: Scenario with lists that files store as arrays.
LISTED = gs.Scenario(
    platform=Platform.equal(3), workload=Workload.of([0.5 * k for k in range(120)], 2, [900.0] * 120)
)

SWF = b"""; Version: 2.2
; MaxProcs: 8
1 0 3 10 2 -1 -1 2 20 -1 1 1 1 -1 1 -1 -1 -1
2 5 0 7 1 -1 -1 1 20 -1 1 2 1 -1 1 -1 -1 -1
3 5.5 -1 -1 -1 -1 -1 4 30 -1 5 -1 1 -1 1 -1 1 2
"""


@cache
def scheduler(name: str) -> gs.Scheduler:
    """Return the registered scheduler `name`."""
    from gridsim.scheduling.registry import make_scheduler

    return make_scheduler(name)


@cache
def result(rigid: bool) -> gs.Result:
    """Return the result of a recorded run."""
    return gs.simulate(RIGID if rigid else BAGS, scheduler("backfill" if rigid else "mincent"), record=True)


@cache
def messages() -> gs.Result:
    """Return the result of a run with messages and decisions, all recorded."""
    return gs.simulate(BAGS, gs.FairTree(samples=(2, 2, 2)), record="all")


@cache
def long_lists() -> gs.Result:
    """Return the result of a run of many listed bags."""
    return gs.simulate(LISTED, scheduler("mincent"))


def file_of(result: gs.Result) -> bytes:
    """Return the content of the file of a result."""
    path = Path(FOLDER, "seed.npz")
    result.save(path)
    return path.read_bytes()


def log(rigid: bool, batsim: bool) -> bytes:
    """Return a schedule in the format of another program."""
    path = Path(FOLDER, "seed.log")
    (to_batsim if batsim else to_swf)(result(rigid), path)
    return path.read_bytes()
