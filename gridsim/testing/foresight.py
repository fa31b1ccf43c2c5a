"""Checks that a scheduler does not know the future.

The check runs a scenario again in which everything is different from some instant on: what is submitted, which
machines fail, and for how long jobs run that have not ended.  Until then the scheduler must do the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arrays import Bools, Integers
from gridsim.support.clock import NS

#: All that a scheduler may foresee.
FORESEEN: tuple[Foreseen, ...] = get_args(Foreseen)
#: How many instants of a scenario are tried.
_INSTANTS = 2
#: How many times as large tasks are that come later.
_LARGER = 8.0
#: s for which machines are down from an instant on.
_DOWN = 60.0
#: s by which users cancel their jobs later.
_LATER = 1000.0

#: The recipes of random scenarios.
_Recipe = ListRecipe | TasksRecipe | JobListRecipe


def foreseen(scenario: Scenario, scheduler: Scheduler, limits: dict[str, Any]) -> str | None:
    """Return what a scheduler does before an instant that depends on what is later, the first; else None.

    What the scheduler says that it foresees (`Scheduler.foresees`) stays the same.  So does what it derives
    from platform and workload before the run (`Scheduler.explicit`), and the mean up time of machines.

    limits : options of the runs.
    """
    kinds = tuple(kind for kind in FORESEEN if kind not in scheduler.foresees)
    fixed = scheduler.explicit(scenario.platform.speeds, scenario.workload.realize(scenario.platform))
    record = ["schedule", *(["decisions"] if scheduler.decision_words else [])]
    first = simulate(scenario, fixed, record=record, **limits)

    def differs(kinds: tuple[Foreseen, ...], at: int, turn: int) -> str | None:
        other, what = _changed(scenario, first, kinds, at, turn)
        if not what:
            return None
        said = _difference(first, simulate(other, fixed, record=record, **limits), at)
        return said and f"{said}, if from {at / NS} s on {what}"

    for at, turn in _instants(scenario, first, kinds):
        if said := differs(kinds, at, turn):
            return next((one for kind in kinds if (one := differs((kind,), at, turn))), said)
    return None


def _instants(scenario: Scenario, result: Result, kinds: tuple[Foreseen, ...]) -> Iterator[tuple[int, int]]:
    """Iterate over instants (ns), and in which of two ways (0, 1) the scenario is changed from there on."""
    pools: list[Integers] = []
    if "applications" in kinds:
        pools.append(_ns(result.applications["release"]))
        pools[0] = pools[0][pools[0] > pools[0].min()]
    if "failures" in kinds and scenario.faults is not None:
        pools.append(_ns(_listed(scenario.faults).down))
    if "run times" in kinds and isinstance(scenario.workload.recipe, JobListRecipe):
        pools.append(_ns(result.tables["schedule"]["start"]) + 1)
    pools = [np.unique(pool[pool > 0]) for pool in pools if (pool > 0).any()]
    chance = np.random.default_rng([scenario.seed, scenario.platform.nodes, len(result.applications)])
    for k in range(_INSTANTS if pools else 0):
        pool = pools[(scenario.seed + k) % len(pools)]
        yield int(chance.choice(pool)), int(chance.integers(2))


# -- another future ----------------------------------------------------------------------------------------


def _changed(
    scenario: Scenario, result: Result, kinds: tuple[Foreseen, ...], at: int, turn: int
) -> tuple[Scenario, str]:
    """Return the scenario with all of these kinds changed from `at` ns on, and how; "" if nothing is."""
    said: list[str] = []
    recipe, nodes = scenario.workload.recipe, scenario.platform.nodes
    assert isinstance(recipe, _Recipe)
    later = _ns(recipe.release) >= at
    if recipe.submitter is None:
        recipe = msgspec.structs.replace(recipe, submitter=tuple(i % nodes for i in range(len(later))))
    if "run times" in kinds and isinstance(recipe, JobListRecipe):
        before, recipe = recipe, _other_run_times(recipe, result, at, turn)
        said += ["jobs run for other times"] if recipe != before else []
    if "applications" in kinds:
        before, none = recipe, _without(recipe, later)
        recipe = none if turn and none and _alike(scenario, recipe, none) else _others(recipe, nodes, later)
        what = "no applications come" if recipe is none else "other applications come"
        said += [what] if recipe != before else []
        if isinstance(recipe, JobListRecipe) and recipe.cancel_at is not None:
            cancelled = tuple(each + _LATER * (each * NS >= at) for each in recipe.cancel_at)
            recipe = msgspec.structs.replace(recipe, cancel_at=cancelled)
    changed = dataclasses.replace(scenario, workload=Workload(recipe))
    if "failures" in kinds and scenario.faults is not None:
        changed = dataclasses.replace(changed, faults=_other_failures(scenario.faults, nodes, at, turn))
        said.append("no machines fail" if turn else "other machines fail")
    return changed, ", ".join(said)


def _without(recipe: _Recipe, later: Bools) -> _Recipe | None:
    """Return the recipe without the applications that come later; None if no others are left."""
    if later.all():
        return None
    columns = {name: getattr(recipe, name) for name in recipe.__struct_fields__}
    return msgspec.structs.replace(
        recipe,
        **{
            name: tuple(each for each, gone in zip(column, later, strict=True) if not gone)
            for name, column in columns.items()
            if isinstance(column, tuple)
        },
    )


def _alike(scenario: Scenario, *recipes: _Recipe) -> bool:
    """Return whether the same is known of both workloads before a run: whether tasks move data, or need it."""
    made = [Workload(recipe).realize(scenario.platform) for recipe in recipes]
    return len({(each.moves_data, each.group is None) for each in made}) == 1


def _others(recipe: _Recipe, nodes: int, later: Bools) -> _Recipe:
    """Return the recipe with larger applications of others in place of those that come later."""
    by_one: Callable[[Any], Any] = lambda seconds: _LARGER * seconds  # noqa: E731
    changes: dict[str, Callable[[Any], Any]] = {"submitter": lambda machine: (machine + 1) % nodes}
    if isinstance(recipe, JobListRecipe):
        changes |= {"nodes": lambda count: (count + 1) // 2, "run_time": by_one, "requested": by_one}
    elif isinstance(recipe, TasksRecipe):
        changes |= {"sizes": lambda sizes: tuple(_LARGER * size for size in (*sizes, *sizes))}
    else:
        changes |= {"tasks": lambda count: 2 * count, "task_size": by_one}
    return msgspec.structs.replace(
        recipe,
        **{
            name: tuple(change(one) if so else one for one, so in zip(column, later, strict=True))
            for name, change in changes.items()
            if (column := getattr(recipe, name)) is not None
        },
    )


def _other_run_times(recipe: JobListRecipe, result: Result, at: int, turn: int) -> JobListRecipe:
    """Return the recipe with other run times, up to the estimates, of jobs that have not ended by `at` ns."""
    if recipe.requested is None:
        return recipe
    number = np.argsort(np.argsort(_ns(recipe.release), kind="stable"))  # of the application of each entry
    table, ended = result.tables["schedule"], _ns(np.nan_to_num(result.applications["finish"], nan=1e9)) < at
    ran = np.zeros(len(number), np.int64)  # ns, before `at`
    np.maximum.at(ran, table["application"], np.minimum(_ns(table["end"]), at) - _ns(table["start"]))
    run_time = list(recipe.run_time)
    for k, (i, lasts, most) in enumerate(zip(number, recipe.run_time, recipe.requested, strict=True)):
        if lasts < most and not ended[i]:
            shorter = ran[i] / NS + 0.1 * (lasts - ran[i] / NS)
            run_time[k] = shorter if (k + turn) % 2 and shorter * NS > ran[i] + 1 else most
    return msgspec.structs.replace(recipe, run_time=tuple(run_time))


def _other_failures(faults: Faults, nodes: int, at: int, turn: int) -> Faults:
    """Return the failures with others from `at` ns on: none by turn 1, else all machines but one at once."""
    listed, back = _listed(faults), at / NS + _DOWN
    columns = listed.machine, listed.down, listed.up, _ns(listed.down) < at, _ns(listed.up) < at
    rows = [
        (machine, down, up if over else back)
        for machine, down, up, begun, over in zip(*columns, strict=True)
        if begun
    ]
    if not turn:
        is_down = [machine for machine, _, up in rows if up == back]
        rows += [(u, at / NS, back) for u in [v for v in range(nodes) if v not in is_down][1:]]
    machine, down, up = ([row[k] for row in rows] for k in range(3))
    recipe = Faults.of(machine, down, up, faults.reachable).recipe
    return _Expected(recipe, faults.mean_up_time(nodes))


@dataclass(frozen=True)
class _Expected(Faults):
    """Failures of which another mean up time is known (s) than that of the list."""

    mean: float

    def mean_up_time(self, nodes: int) -> float:
        """Return the mean up time of one of `nodes` machines, s."""
        return self.mean


def _listed(faults: Faults) -> ListedFaults:
    """Return the list of failures of a random scenario."""
    assert isinstance(faults.recipe, ListedFaults)
    return faults.recipe


def _ns(seconds: Any) -> Integers:
    """Return instants in ns; those that never come are the last of the clock."""
    return np.rint(np.minimum(np.asarray(seconds, np.float64), 9e9) * NS).astype(np.int64)


# -- comparison --------------------------------------------------------------------------------------------


#: Columns that are compared, the instant first.  Grounds of decisions are not: they may have true values.
_COLUMNS = {
    "decisions": ("time", "decider", "action", "application", "task", "machine", "tasks"),
    "arrivals": ("time", "machine", "application", "tasks"),
    "schedule": ("start", "machine", "application", "end", "tasks", "completed", "task", "begin"),
}


def _difference(one: Result, other: Result, at: int) -> str | None:
    """Return the first row before `at` ns that only one of two runs has, in words; None if there is none."""
    apart: list[tuple[int, str]] = []
    for table in one.tables.keys() & _COLUMNS:
        here, there = _rows(one, table, at), _rows(other, table, at)
        for a, b in zip([*here, None], [*there, None], strict=False):
            if a != b:
                row, where = (a, "not") if b is None or (a is not None and a < b) else (b, "only")
                assert row is not None
                values = dict(zip(_COLUMNS[table][1:], row[1:], strict=False))
                apart.append((row[0], f"{table} at {row[0] / NS} s: {values}, {where}"))
                break
    return min(apart)[1] if apart else None


def _rows(result: Result, table: str, at: int) -> list[tuple[Any, ...]]:
    """Return the rows of a table before `at` ns, in order."""
    columns = [result.tables[table][name] for name in _COLUMNS[table] if name in result.tables[table]]
    columns[0] = _ns(columns[0])
    if table == "schedule":
        columns[2 + 1] = _ns(columns[2 + 1])
    before = columns[0] < at
    rows = sorted(zip(*(column[before].tolist() for column in columns), strict=True))
    return _until(rows, at) if table == "schedule" else rows


def _until(rows: list[tuple[Any, ...]], at: int) -> list[tuple[Any, ...]]:
    """Return the rows of a schedule, in order, without how they end where that is at `at` ns or later.

    A task that fails has a row of its own, so tasks that run one after another first make one row.
    """
    joined: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # (machine, application, task), end -> row
    for start, machine, application, end, tasks, completed, *copy in rows:
        which = machine, application, *copy[:1]
        if before := joined.pop((*which, start), None):
            start, tasks, completed, copy = before[0], before[4] + tasks, before[5] + completed, before[6:]
        joined[(*which, end)] = start, machine, application, end, tasks, completed, *copy
    return sorted(row if row[3] < at else (*row[:3], *row[6:]) for row in joined.values())
