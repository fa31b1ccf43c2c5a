"""Checks that a scheduler does not know the future.

The check runs a scenario again in which everything is different from some instant on: what is submitted, what
fails, how long jobs run that have not ended, and when users cancel them.  Until then the scheduler must do
the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, get_args

import msgspec
import numpy as np

from gridsim.model.bag_workloads import ListRecipe, TasksRecipe
from gridsim.model.faults import Faults, ListedFaults
from gridsim.model.rigid_workloads import JobListRecipe
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.results.result import Result
from gridsim.scheduling.contract import Foreseen, Scheduler
from gridsim.simulation.simulate import Recording
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arrays import Bools, Integers
from gridsim.support.clock import NS
from gridsim.support.columns import ArrayColumn
from gridsim.support.random_streams import Streams

#: All that a scheduler may foresee.
FORESEEN: tuple[Foreseen, ...] = get_args(Foreseen)
#: How many instants of a scenario are tried.
_INSTANTS = 2
#: How many times as large other tasks are.
_LARGER = 8.0
#: s for which machines are down after an instant.
_DOWN = 60.0
#: s by which users cancel their jobs later.
_LATER = 1000.0
#: s, the last instant: int64 has no later ones in ns.
_LAST = 9e9

#: The recipes of random scenarios.
_Recipe = ListRecipe | TasksRecipe | JobListRecipe


def foreknown(scenario: Scenario, scheduler: Scheduler, limits: dict[str, Any]) -> str | None:
    """Return what a scheduler does differently before an instant if all is different afterwards; else None.

    What the scheduler says that it foresees (`Scheduler.foresees`) stays the same.  So does what it derives
    from platform and workload before the run (`Scheduler.explicit`), and the mean up time of machines.  Where
    no user states how long a rigid job may run, all state twice its run time.

    Parameters
    ----------
    limits
        Options of the runs.
    """
    if not (kinds := tuple(kind for kind in FORESEEN if kind not in scheduler.foresees)):
        return None
    recipe = scenario.workload.recipe
    if isinstance(recipe, JobListRecipe) and recipe.requested is None:
        recipe = msgspec.structs.replace(recipe, requested=tuple(2.0 * each for each in recipe.run_time))
        scenario = dataclasses.replace(scenario, workload=Workload(recipe))
    fixed = scheduler.explicit(scenario.platform.speeds, scenario.workload.realize(scenario.platform))
    record: list[Recording] = ["schedule", "decisions"] if scheduler.decision_words else ["schedule"]
    first = simulate(scenario, fixed, record=record, **limits)

    def differs(kinds: tuple[Foreseen, ...], at: int, none: bool) -> str | None:
        other, what = _changed(scenario, first, kinds, at, none)
        if not what:
            return None
        said = _difference(first, simulate(other, fixed, record=record, **limits), at)
        return said and f"{said} if from {at / NS} s on {what}"

    for at, none in _instants(scenario, first, kinds):
        if said := differs(kinds, at, none):
            return next((one for kind in kinds if (one := differs((kind,), at, none))), said)
    return None


def _instants(scenario: Scenario, first: Result, kinds: tuple[Foreseen, ...]) -> Iterator[tuple[int, bool]]:
    """Iterate over instants (ns), each with whether nothing is submitted, fails and goes on from there on.

    Parameters
    ----------
    first
        The result of the scenario as it is.
    """
    pools, left = list[Integers](), _INSTANTS
    if "applications" in kinds:
        release = first.applications["release"]
        pools.append(_ns(release[release > release[0]]))
        if "cancel_at" in first.applications:
            cancel_at, start = first.applications["cancel_at"], first.applications["first_start"]
            pools.append(_ns(cancel_at[np.isfinite(cancel_at)]))
            waited = np.nan_to_num(start - release)
            if waited.max() > 0.0:  # its user could cancel what has held others back for long
                left -= 1
                yield int(_ns(start[waited.argmax()])) + 1, True
    if "failures" in kinds and scenario.faults is not None:
        pools.append(_ns(_listed(scenario.faults).down))
    if "run times" in kinds and isinstance(scenario.workload.recipe, JobListRecipe):
        pools.append(_ns(first.tables["schedule"]["start"]) + 1)
    pools = [np.unique(pool[pool > 0]) for pool in pools if (pool > 0).any()]
    chance = Streams(scenario.seed)(f"foresight {scenario.platform.nodes} {len(first.applications)}")
    for k in range(left if pools else 0):
        pool = pools[(scenario.seed + k) % len(pools)]
        yield int(chance.choice(pool)), bool(chance.integers(2))


# -- another future ----------------------------------------------------------------------------------------


def _changed(
    scenario: Scenario, first: Result, kinds: tuple[Foreseen, ...], at: int, none: bool
) -> tuple[Scenario, str]:
    """Return the scenario with all of these kinds changed from `at` ns on, and how; "" if nothing is."""
    said: list[str] = []
    recipe: Any = scenario.workload.recipe
    assert isinstance(recipe, _Recipe)
    later, nodes = _ns(recipe.release) >= at, scenario.platform.nodes
    if recipe.submitter is None:
        recipe = msgspec.structs.replace(recipe, submitter=tuple(i % nodes for i in range(len(later))))
    if "run times" in kinds and isinstance(recipe, JobListRecipe):
        before, recipe = recipe, _other_run_times(recipe, first, at)
        said += ["jobs run for other times"] if recipe != before else []
    if "applications" in kinds and later.any():
        fewer = _without(recipe, later) if none and not later.all() else None
        known_before = fewer is not None and _known(scenario, fewer) == _known(scenario, recipe)
        recipe = fewer if known_before else _others(recipe, nodes, later)
        said.append("no applications come" if known_before else "other applications come")
    if "applications" in kinds and isinstance(recipe, JobListRecipe) and recipe.cancel_at is not None:
        before, recipe = recipe, _other_cancellations(recipe, at, none)
        if recipe != before:
            said.append("all jobs there are cancelled" if none else "jobs are cancelled later")
    changed = dataclasses.replace(scenario, workload=Workload(recipe))
    if "failures" in kinds and scenario.faults is not None:
        changed = dataclasses.replace(changed, faults=_other_failures(scenario.faults, nodes, at, none))
        said.append("no machines fail" if none else "other machines fail")
    return changed, ", ".join(said)


def _without(recipe: _Recipe, later: Bools) -> _Recipe:
    """Return the recipe without the applications that come later."""
    columns = {name: getattr(recipe, name) for name in recipe.__struct_fields__}
    return msgspec.structs.replace(
        recipe,
        **{
            name: tuple(each for each, gone in zip(column, later, strict=True) if not gone)
            for name, column in columns.items()
            if isinstance(column, ArrayColumn)
        },
    )


def _known(scenario: Scenario, recipe: _Recipe) -> tuple[bool, bool]:
    """Return what is known of a workload before a run: whether any task moves data, and needs machines."""
    made = Workload(recipe).realize(scenario.platform)
    return made.moves_data, made.group is not None


def _others(recipe: _Recipe, nodes: int, later: Bools) -> _Recipe:
    """Return the recipe with applications of other sizes and machines in place of those that come later."""

    def larger(size: float) -> float:
        return _LARGER * size

    changes: dict[str, Callable[[Any], Any]] = {"submitter": lambda machine: (machine + 1) % nodes}
    if isinstance(recipe, JobListRecipe):
        changes |= {"nodes": lambda count: (count + 1) // 2, "run_time": larger, "requested": larger}
    elif isinstance(recipe, TasksRecipe):
        changes |= {"sizes": lambda sizes: tuple(map(larger, sizes + sizes))}
    else:
        changes |= {"tasks": lambda count: 2 * count, "task_size": larger}
    return msgspec.structs.replace(
        recipe,
        **{
            name: tuple(change(each) if so else each for each, so in zip(column, later, strict=True))
            for name, change in changes.items()
            if (column := getattr(recipe, name)) is not None
        },
    )


def _other_cancellations(recipe: JobListRecipe, at: int, all_now: bool) -> JobListRecipe:
    """Return the recipe with later cancellations from `at` ns on, or that of all jobs at that instant."""
    assert recipe.cancel_at is not None
    cancel_at = np.array(recipe.cancel_at)
    other = np.where(all_now & (_ns(recipe.release) < at), at / NS, cancel_at + _LATER)
    known = np.where(_ns(cancel_at) < at, cancel_at, other)
    return msgspec.structs.replace(recipe, cancel_at=tuple(known.tolist()))


def _other_run_times(recipe: JobListRecipe, first: Result, at: int) -> JobListRecipe:
    """Return the recipe with other run times, up to the estimates, of jobs that have not ended by `at` ns."""
    assert recipe.requested is not None
    number = np.argsort(np.argsort(_ns(recipe.release), kind="stable"))  # of the application of each entry
    table, finish = first.tables["schedule"], first.applications["finish"]
    ended = _ns(np.where(np.isnan(finish), inf, finish)) < at
    ran = np.zeros(len(number), np.int64)  # ns, before `at`
    np.maximum.at(ran, table["application"], np.minimum(_ns(table["end"]), at) - _ns(table["start"]))
    run_time = list(recipe.run_time)
    for k, (i, lasts, most) in enumerate(zip(number, recipe.run_time, recipe.requested, strict=True)):
        if lasts < most and not ended[i]:
            shorter = ran[i] / NS + 0.1 * (lasts - ran[i] / NS)
            run_time[k] = shorter if (k + at) % 2 and shorter * NS > ran[i] + 1 else most
    return msgspec.structs.replace(recipe, run_time=tuple(run_time))


def _other_failures(faults: Faults, nodes: int, at: int, none: bool) -> Faults:
    """Return the failures with others from `at` ns on: none, or all machines but one at once."""
    listed, back = _listed(faults), at / NS + _DOWN
    columns = listed.machine, listed.down, listed.up, _ns(listed.down) < at, _ns(listed.up) < at
    rows = [
        (machine, down, up if over else back)
        for machine, down, up, begun, over in zip(*columns, strict=True)
        if begun
    ]
    if not none:
        is_down = [machine for machine, _, up in rows if up == back]
        rows += [(u, at / NS, back) for u in [v for v in range(nodes) if v not in is_down][1:]]
    machine, down, up = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    return _Expected(Faults.of(machine, down, up, faults.reachable).recipe, faults.mean_up_time(nodes))


@dataclass(frozen=True)
class _Expected(Faults):
    """Failures of which another mean up time (s) is known than that of the list."""

    mean: float

    def mean_up_time(self, nodes: int) -> float:
        """Return the mean up time of one of `nodes` machines, s."""
        return self.mean


def _listed(faults: Faults) -> ListedFaults:
    """Return the list of failures of a random scenario."""
    assert isinstance(faults.recipe, ListedFaults)
    return faults.recipe


def _ns(seconds: Any) -> Integers:
    """Return instants in ns, those that never come as the last one."""
    found: Integers = np.rint(np.minimum(np.asarray(seconds, np.float64), _LAST) * NS).astype(np.int64)
    return found


# -- comparison --------------------------------------------------------------------------------------------

#: Columns that are compared, the instant first.  Grounds of decisions are not: they may have true values.
_COLUMNS = {
    "decisions": ("time", "decider", "action", "application", "task", "machine", "tasks"),
    "arrivals": ("time", "machine", "application", "tasks"),
    "schedule": ("start", "machine", "application", "end", "tasks", "completed", "task", "begin"),
}
#: Of a row of the schedule that has not ended: end, tasks, completed.
_OPEN = (inf, 0, 0)


def _difference(first: Result, other: Result, at: int) -> str | None:
    """Return the first row before `at` ns that only one of two runs has, in words; None if there is none."""
    apart: list[tuple[int, str]] = []
    over = int(min(_ns(each.provenance["clock_seconds"]) for each in (first, other)))
    for table in first.tables.keys() & _COLUMNS:
        here, there = _rows(first, table, at, over), _rows(other, table, at, over)
        for a, b in zip([*here, None], [*there, None], strict=False):
            if a != b:
                row, where = (a, "not") if b is None or (a is not None and a < b) else (b, "only")
                assert row is not None
                values = dict(zip(_COLUMNS[table][1:], row[1:], strict=False))
                if "end" in values:
                    values["end"] /= NS
                apart.append((row[0], f"{table} at {row[0] / NS} s: {values}, {where}"))
                break
    return min(apart)[1] if apart else None


def _rows(result: Result, table: str, at: int, over: int) -> list[tuple[Any, ...]]:
    """Return the rows of a table before `at` ns, in order."""
    of = result.tables[table]
    columns = {name: of[name] for name in _COLUMNS[table] if name in of}
    columns |= {name: _ns(columns[name]) for name in ("time", "start", "end") if name in columns}
    before = columns[_COLUMNS[table][0]] < at
    rows = sorted(zip(*(column[before].tolist() for column in columns.values()), strict=True))
    return _until(rows, at, over) if table == "schedule" else rows


def _until(rows: list[tuple[Any, ...]], at: int, over: int) -> list[tuple[Any, ...]]:
    """Return the rows of a schedule, in order, without how those end that do so at `at` ns or later.

    Tasks that run one after another become one row: a task that a failure cuts off has a row of its own.

    Parameters
    ----------
    over
        ns, when the first of two runs ends.
    """
    joined: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # machine, application, task if known, end -> row
    for start, machine, application, end, tasks, completed, *copy in rows:
        which, row = (machine, application, *copy[:1]), (start, machine, application, end, tasks, completed)
        if before := joined.pop((*which, start), None):
            row = (*before[:3], end, before[4] + tasks, before[5] + completed)
            copy = list(before[6:])
        joined[(*which, end)] = (*row, *copy)
    return sorted(
        row if row[3] < (at if row[5] else min(at, over)) else (*row[:3], *_OPEN, *row[6:])
        for row in joined.values()
    )
