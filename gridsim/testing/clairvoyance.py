"""Check that a scheduler does not know the future.

The check repeats a run with another future from some instant on: other applications, failures, cancellations
and run times of jobs that have not ended.  Until then the scheduler must act as before.
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
from gridsim.simulation.machines import RunMachines
from gridsim.simulation.options import Recording
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arrays import Bools, Integers
from gridsim.support.clock import NS
from gridsim.support.columns import ArrayColumn
from gridsim.support.random_streams import Streams
from gridsim.testing.cases import span
from gridsim.testing.run_limits import LIMITS, OTHER_FUTURE, report_errors, skip_endless
from gridsim.validation.common import queue_numbers

#: The parts of the future that a scheduler may foresee.
FORESIGHT_KINDS: tuple[Foreseen, ...] = get_args(Foreseen)
#: Number of instants per scenario from which on the future is changed.
_INSTANTS = 2
#: Factor by which the sizes of tasks grow, or shrink if the variant would span more than the horizon.
_SIZE_FACTOR = 8.0
#: Duration (s) of outages that are added at such an instant.
_OUTAGE = 60.0
#: Time (s) by which cancellations are delayed.
_CANCELLATION_DELAY = 1000.0
#: Latest instant (s), close to the maximum number of ns that int64 can represent.
_LAST_INSTANT = 9e9

#: Workload recipes of random scenarios.
_Recipe = ListRecipe | TasksRecipe | JobListRecipe


def foresight_violation(
    scenario: Scenario,
    scheduler: Scheduler,
    horizon: float,
    skipped_variants: set[str],
) -> str | None:
    """Describe the first action before an instant that depends on a later event; None if there is none.

    Events that the scheduler declares to foresee (`Scheduler.foresees`) stay the same, and so do parameters
    that it derives from platform and workload before the run (`Scheduler.explicit`), and the mean up time of
    machines.  Rigid jobs without estimates get estimates of twice their run times.

    Parameters
    ----------
    horizon
        Approximate time that runs may span, s.
    skipped_variants
        The set to which `OTHER_FUTURE` is added if a run with another future reaches one of `LIMITS`.

    Raises
    ------
    ConformanceError
        If a run with another future raises an error; it breaks the invariant "runs".
    """
    if not (kinds := tuple(kind for kind in FORESIGHT_KINDS if kind not in scheduler.foresees)):
        return None
    recipe = scenario.workload.recipe
    if isinstance(recipe, JobListRecipe) and recipe.requested is None:
        recipe = msgspec.structs.replace(recipe, requested=tuple(2.0 * item for item in recipe.run_time))
        scenario = dataclasses.replace(scenario, workload=Workload(recipe))
    machines = RunMachines(scenario.platform, scheduler)
    applications = machines.applications(scenario.workload.realize(scenario.platform))
    explicit_scheduler = scheduler.explicit(machines.speeds, applications)
    record: list[Recording] = ["schedule", "decisions"] if scheduler.decision_words else ["schedule"]
    base = simulate(scenario, explicit_scheduler, record=record, **LIMITS)

    def difference_if(kinds: tuple[Foreseen, ...], at: int, is_future_empty: bool) -> str | None:
        variant, change = _with_other_future(scenario, base, kinds, at, is_future_empty, horizon)
        if not change:
            return None
        with skip_endless(skipped_variants, OTHER_FUTURE):
            with report_errors(variant, explicit_scheduler):
                variant_result = simulate(variant, explicit_scheduler, record=record, **LIMITS)
            difference = _first_difference(base, variant_result, at)
            return difference and f"{difference}, if {change} from {at / NS} s on"
        return None

    for at, is_future_empty in _instants(scenario, base, kinds):
        if difference := difference_if(kinds, at, is_future_empty):
            return next(
                (
                    single_difference
                    for kind in kinds
                    if (single_difference := difference_if((kind,), at, is_future_empty))
                ),
                difference,
            )
    return None


def _instants(scenario: Scenario, base: Result, kinds: tuple[Foreseen, ...]) -> Iterator[tuple[int, bool]]:
    """Iterate over (instant in ns, whether the future after it is empty).

    In an empty future nothing is submitted, no machine fails, and all jobs are cancelled.

    Parameters
    ----------
    base
        The result of the unchanged scenario.
    """
    instant_pools, instants_left = list[Integers](), _INSTANTS
    if "applications" in kinds:
        release = base.applications["release"]
        instant_pools.append(_ns(release[release > release[0]]))
        if "cancel_at" in base.applications:
            cancel_at, start = base.applications["cancel_at"], base.applications["first_start"]
            instant_pools.append(_ns(cancel_at[np.isfinite(cancel_at)]))
            waits = np.nan_to_num(start - release)
            if waits.max() > 0.0:  # at these instants, a job that blocks others for long is cancelled
                instants_left -= 1
                yield int(_ns(start[waits.argmax()])) + 1, True
    if "failures" in kinds and scenario.faults is not None:
        instant_pools.append(_ns(_fault_list(scenario.faults).down))
    if "run times" in kinds and isinstance(scenario.workload.recipe, JobListRecipe):
        instant_pools.append(_ns(base.tables["schedule"]["start"]) + 1)
    instant_pools = [np.unique(pool[pool > 0]) for pool in instant_pools if (pool > 0).any()]
    stream = Streams(scenario.seed)(f"foresight {scenario.platform.nodes} {len(base.applications)}")
    for k in range(instants_left if instant_pools else 0):
        pool = instant_pools[(scenario.seed + k) % len(instant_pools)]
        yield int(stream.choice(pool)), bool(stream.integers(2))


# -- another future ----------------------------------------------------------------------------------------


def _with_other_future(
    scenario: Scenario,
    base: Result,
    kinds: tuple[Foreseen, ...],
    at: int,
    is_future_empty: bool,
    horizon: float,
) -> tuple[Scenario, str]:
    """Return the scenario with another future from `at` ns on, and its changes in words; "" for none."""
    texts: list[str] = []
    recipe: Any = scenario.workload.recipe
    assert isinstance(recipe, _Recipe)
    is_later, nodes = _is_later(recipe, base, at), scenario.platform.nodes
    if recipe.submitter is None:
        recipe = msgspec.structs.replace(recipe, submitter=tuple(i % nodes for i in range(len(is_later))))
    if "run times" in kinds and isinstance(recipe, JobListRecipe):
        old_recipe, recipe = recipe, _with_other_run_times(recipe, base, at)
        texts += ["jobs run for other times"] if recipe != old_recipe else []
    if "applications" in kinds and is_later.any():
        shorter_recipe = _without_later_applications(recipe, is_later) if is_future_empty else None
        is_shortened = shorter_recipe is not None and _known_properties(
            scenario, shorter_recipe
        ) == _known_properties(scenario, recipe)
        if is_shortened:
            recipe = shorter_recipe
        else:
            recipe = _with_other_applications(recipe, scenario, is_later, horizon)
        texts.append("no applications come" if is_shortened else "other applications come")
    if "applications" in kinds and isinstance(recipe, JobListRecipe) and recipe.cancel_at is not None:
        delay = min(_CANCELLATION_DELAY, horizon)
        old_recipe, recipe = recipe, _with_other_cancellations(recipe, at, is_future_empty, delay)
        if recipe != old_recipe:
            texts.append("all jobs are cancelled" if is_future_empty else "jobs are cancelled later")
    scenario_after = dataclasses.replace(scenario, workload=Workload(recipe))
    if "failures" in kinds and scenario.faults is not None:
        scenario_after = dataclasses.replace(
            scenario_after,
            faults=_with_other_failures(scenario.faults, nodes, at, is_future_empty, min(_OUTAGE, horizon)),
        )
        texts.append("no machines fail" if is_future_empty else "other machines fail")
    return scenario_after, ", ".join(texts)


def _numbers(recipe: _Recipe) -> Integers:
    """Return the number of each application of the recipe, in order of stated release: int64[n]."""
    return np.argsort(np.argsort(_ns(recipe.release), kind="stable"))


def _is_later(recipe: _Recipe, base: Result, at: int) -> Bools:
    """Return which applications are released at `at` ns or later in the unchanged run: bool[n]."""
    if recipe.after is None:
        return _ns(recipe.release) >= at
    release = base.applications["release"][_numbers(recipe)]
    return _ns(np.where(np.isnan(release), inf, release)) >= at


def _has_last_numbers(recipe: _Recipe, is_later: Bools) -> bool:
    """Return whether the later applications have higher numbers than all others.

    They have not if they were stated earlier, but wait for others to end.
    """
    number = _numbers(recipe)
    return bool(number[~is_later].max(initial=-1) < number[is_later].min())


def _without_later_applications(recipe: _Recipe, is_later: Bools) -> _Recipe | None:
    """Return the recipe without the later applications; None if none is left, or others get new numbers."""
    if is_later.all() or not _has_last_numbers(recipe, is_later):
        return None
    columns = {name: getattr(recipe, name) for name in recipe.__struct_fields__}
    kept_columns: dict[str, Any] = {
        name: tuple(value for value, is_removed in zip(column, is_later, strict=True) if not is_removed)
        for name, column in columns.items()
        if isinstance(column, ArrayColumn)
    }
    if recipe.after is not None:  # those before an earlier application are earlier, too
        place = np.cumsum(~is_later) - 1
        rows = zip(recipe.after, is_later, strict=True)
        kept_columns["after"] = [place[list(row)].tolist() for row, is_removed in rows if not is_removed]
    return msgspec.structs.replace(recipe, **kept_columns)


def _known_properties(scenario: Scenario, recipe: _Recipe) -> tuple[bool, bool, bool]:
    """Return the properties known before a run: whether tasks move data, need capacity, or follow others."""
    applications = Workload(recipe).realize(scenario.platform)
    return applications.moves_data, applications.group is not None, applications.predecessors is not None


def _with_other_applications(recipe: _Recipe, scenario: Scenario, is_later: Bools, horizon: float) -> _Recipe:
    """Return the recipe with later applications on other machines, and larger if `horizon` s suffice."""
    larger_recipe = _with_sizes_times(_SIZE_FACTOR, recipe, scenario.platform.nodes, is_later)
    if span(dataclasses.replace(scenario, workload=Workload(larger_recipe))) <= horizon:
        return larger_recipe
    return _with_sizes_times(1.0 / _SIZE_FACTOR, recipe, scenario.platform.nodes, is_later)


def _with_sizes_times(factor: float, recipe: _Recipe, nodes: int, is_later: Bools) -> _Recipe:
    """Return the recipe with the sizes of later applications times `factor`, on the next machine each.

    Only their sizes change if earlier applications have higher numbers: the cores of a machine submit its
    applications in turn.
    """
    is_last = _has_last_numbers(recipe, is_later)

    def other_size(size: float) -> float:
        return factor * size

    changes: dict[str, Callable[[Any], Any]] = {}
    if is_last:
        changes = {
            "submitter": lambda machine: (machine + 1) % nodes,
            "nodes": lambda count: (count + 1) // 2,
            "tasks": lambda count: 2 * count,
        }
    if isinstance(recipe, JobListRecipe):
        changes |= {"run_time": other_size, "requested": other_size}
    elif isinstance(recipe, TasksRecipe):
        changes |= {"sizes": lambda sizes: tuple(map(other_size, sizes + sizes if is_last else sizes))}
    else:
        changes |= {"task_size": other_size}
    return msgspec.structs.replace(
        recipe,
        **{
            name: tuple(
                change(item) if is_changed else item
                for item, is_changed in zip(column, is_later, strict=True)
            )
            for name, change in changes.items()
            if (column := getattr(recipe, name, None)) is not None
        },
    )


def _with_other_cancellations(
    recipe: JobListRecipe, at: int, cancels_all: bool, delay: float
) -> JobListRecipe:
    """Return the recipe with cancellations from `at` ns on `delay` s later, or of all jobs at `at` ns."""
    assert recipe.cancel_at is not None
    cancel_at = np.array(recipe.cancel_at)
    new_times = np.where(cancels_all & (_ns(recipe.release) < at), at / NS, cancel_at + delay)
    merged_times = np.where(_ns(cancel_at) < at, cancel_at, new_times)
    return msgspec.structs.replace(recipe, cancel_at=tuple(merged_times.tolist()))


def _with_other_run_times(recipe: JobListRecipe, base: Result, at: int) -> JobListRecipe:
    """Return the recipe with other run times of jobs that have not ended by `at` ns, within the estimates."""
    assert recipe.requested is not None
    application_of = _numbers(recipe)
    table, finish = base.tables["schedule"], base.applications["finish"]
    has_ended = _ns(np.where(np.isnan(finish), inf, finish)) < at
    durations = np.zeros(len(application_of))
    durations[application_of] = recipe.run_time
    # a job that was cancelled has no finish, but its tasks may have run to their ends before
    is_over = (_ns(table["end"]) < at) & (table["end"] - table["start"] >= durations[table["application"]])
    has_ended[table["application"][is_over]] = True
    elapsed_ns = np.zeros(len(application_of), np.int64)  # ns, before `at`
    np.maximum.at(elapsed_ns, table["application"], np.minimum(_ns(table["end"]), at) - _ns(table["start"]))
    run_time = list(recipe.run_time)
    for k, (i, duration, estimate) in enumerate(
        zip(application_of, recipe.run_time, recipe.requested, strict=True)
    ):
        if duration < estimate and not has_ended[i]:
            shorter = elapsed_ns[i] / NS + 0.1 * (duration - elapsed_ns[i] / NS)
            run_time[k] = shorter if (k + at) % 2 and shorter * NS > elapsed_ns[i] + 1 else estimate
    return msgspec.structs.replace(recipe, run_time=tuple(run_time))


def _with_other_failures(faults: Faults, nodes: int, at: int, is_future_empty: bool, outage: float) -> Faults:
    """Return the failures until `at` ns, then none or one failure, of `outage` s, of all machines but one."""
    recipe, recovery = _fault_list(faults), at / NS + outage
    columns = recipe.machine, recipe.down, recipe.up, _ns(recipe.down) < at, _ns(recipe.up) < at
    rows = [
        (machine, down, up if is_over else recovery)
        for machine, down, up, has_begun, is_over in zip(*columns, strict=True)
        if has_begun
    ]
    if not is_future_empty:
        is_down = [machine for machine, _, up in rows if up == recovery]
        rows += [(u, at / NS, recovery) for u in [v for v in range(nodes) if v not in is_down][1:]]
    machine, down, up = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    return _FaultsWithUpTime(
        Faults.of(machine, down, up, faults.reachable).recipe, faults.mean_up_time(nodes)
    )


@dataclass(frozen=True)
class _FaultsWithUpTime(Faults):
    """Failures with a given mean up time (s), which may differ from the mean of the list."""

    mean: float

    def mean_up_time(self, nodes: int) -> float:
        """Return the mean up time of one of `nodes` machines, s."""
        return self.mean


def _fault_list(faults: Faults) -> ListedFaults:
    """Return the recipe of `faults`, which is a list in random scenarios."""
    assert isinstance(faults.recipe, ListedFaults)
    return faults.recipe


def _ns(seconds: Any) -> Integers:
    """Return instants in ns; infinity becomes the last instant."""
    nanoseconds: Integers = np.rint(np.minimum(np.asarray(seconds, np.float64), _LAST_INSTANT) * NS).astype(
        np.int64
    )
    return nanoseconds


# -- comparison --------------------------------------------------------------------------------------------

#: Table -> compared columns, the instant first.  Ground-truth values in decisions are omitted, since the
#: scheduler may not know them.
_COLUMNS = {
    "decisions": ("time", "decider", "action", "application", "task", "machine", "tasks"),
    "arrivals": ("time", "machine", "application", "tasks"),
    "schedule": ("start", "machine", "application", "end", "tasks", "completed", "task", "begin"),
}
#: Placeholders for the end, tasks and completed tasks of a row of the schedule that has not ended before the
#: compared instant.
_OPEN_END = (inf, 0, 0)


def _first_difference(base: Result, variant: Result, at: int) -> str | None:
    """Describe the first row before `at` ns that only one of two runs has; None if there is none."""
    differences: list[tuple[int, str]] = []
    run_end = int(min(_ns(item.provenance["clock_seconds"]) for item in (base, variant)))
    for table in base.tables.keys() & _COLUMNS:
        base_rows, variant_rows = _rows(base, table, at, run_end), _rows(variant, table, at, run_end)
        for a, b in zip([*base_rows, None], [*variant_rows, None], strict=False):
            if a != b:
                row, qualifier = (a, "not") if b is None or (a is not None and a < b) else (b, "only")
                assert row is not None
                values = dict(zip(_COLUMNS[table][1:], row[1:], strict=False))
                if "end" in values:
                    values["end"] /= NS
                differences.append((row[0], f"{table} at {row[0] / NS} s: {values}, {qualifier}"))
                break
    return min(differences)[1] if differences else None


def _rows(result: Result, table: str, at: int, run_end: int) -> list[tuple[Any, ...]]:
    """Return the rows of a table before `at` ns, in order."""
    source = result.tables[table]
    columns = {name: source[name] for name in _COLUMNS[table] if name in source}
    columns |= {name: _ns(columns[name]) for name in ("time", "start", "end") if name in columns}
    if table in ("schedule", "arrivals"):
        columns["machine"] = queue_numbers(result, table)
    is_earlier = columns[_COLUMNS[table][0]] < at
    rows = sorted(zip(*(column[is_earlier].tolist() for column in columns.values()), strict=True))
    if table != "schedule":
        return rows
    shared = set[int]()  # the machines that have a row for each task
    if "cores" in result.machines and "core" not in source:
        shared = {*np.flatnonzero(result.machines["cores"] > 1).tolist()}
    merged_rows = _merged_rows([row for row in rows if row[1] not in shared])
    return _truncated_rows([*merged_rows, *(row for row in rows if row[1] in shared)], at, run_end)


def _truncated_rows(rows: list[tuple[Any, ...]], at: int, run_end: int) -> list[tuple[Any, ...]]:
    """Return the rows of a schedule, in order, without the ends at `at` ns or later.

    Parameters
    ----------
    run_end
        The end of the shorter of two runs (ns).
    """
    return sorted(
        row if row[3] < (at if row[5] else min(at, run_end)) else (*row[:3], *_OPEN_END, *row[6:])
        for row in rows
    )


def _merged_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows of a schedule with those of consecutive tasks merged, since a failure splits them."""
    # machine, application, task (if known), end -> merged row
    merged_rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for start, machine, application, end, tasks, completed, *copy_columns in rows:
        key, row = (
            (machine, application, *copy_columns[:1]),
            (start, machine, application, end, tasks, completed),
        )
        if previous := merged_rows.pop((*key, start), None):
            row = (*previous[:3], end, previous[4] + tasks, previous[5] + completed)
            copy_columns = list(previous[6:])
        merged_rows[(*key, end)] = (*row, *copy_columns)
    return [*merged_rows.values()]
