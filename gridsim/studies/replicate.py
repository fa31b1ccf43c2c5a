"""replicate(): runs several schedulers on replications of a scenario and compares them in pairs.

All schedulers run on the same replications (common random numbers), so that differences between them are
estimated from pairs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from gridsim.errors import GridSimError, ScenarioError, WarningScope
from gridsim.model.bag_workloads import LogRecipe
from gridsim.model.rigid_logs import JobLogRecipe, SiteLogsRecipe
from gridsim.model.sanity_checks import warn_unusual
from gridsim.model.scenario import Scenario, check_scenario
from gridsim.results.job_groups import Group, checked_groups, job_groups
from gridsim.results.metrics.estimates import MIN_SEEDS
from gridsim.results.metrics.registry import default_metrics
from gridsim.results.metrics.selection import RequestedMetrics, requested_metrics
from gridsim.results.metrics.window import checked_days
from gridsim.results.text import planned_lines
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.registry import Schedulers, chosen_schedulers
from gridsim.studies.execution.cell import AVAILABILITY, Cell, RunRecord
from gridsim.studies.execution.collect import MAX_RUNS, collect
from gridsim.studies.execution.store import Store, StorePath, store_of
from gridsim.studies.overview import availability_line, enumeration, queue_order_lines
from gridsim.studies.queue_remark import shared_queues
from gridsim.studies.replicate_result import Replicates, replicates_of
from gridsim.support.announcement import announce
from gridsim.support.arguments import integer, real, sequence, short_repr, suggest_arguments
from gridsim.support.processes import Processes
from gridsim.support.progress import Progress
from gridsim.support.provenance import TraceDigests

#: Initial and maximum number of replications if a half-width is requested.
AT_LEAST, AT_MOST = 10, 1000
#: Random part of a scenario on the jobs of a log -> what is drawn.
_OF_LOGS = {"submitters": "the machine at which each job is submitted"}

Source = Scenario | Callable[[int], Scenario]


@suggest_arguments
def replicate(
    scenario: Source,
    schedulers: Schedulers,
    seeds: Sequence[int] | None = None,
    *,
    replicates: int | None = None,
    half_width: float | None = None,
    at_most: int = AT_MOST,
    hold: Collection[str] = (),
    baseline: str | None = None,
    metrics: RequestedMetrics | None = ("max_stretch",),
    skip_days: float = 0.0,
    by: Sequence[Group] = (),
    errors: str = "raise",
    time_limit: float | None = None,
    executor: Executor | None = None,
    batch: int | None = None,
    store: Store | StorePath | None = None,
    retry: bool = False,
    progress: Progress = False,
) -> Replicates:
    """Run each of `schedulers` on the same replications of `scenario`.

    Raises ScenarioError for invalid arguments.

    Parameters
    ----------
    scenario
        The scenario; replication k is ``gridsim.replication(scenario, k, hold)``.  Or a function that returns
        the scenario for a seed; it is called once per seed, in this process.
    schedulers
        As in `gridsim.compare`.
    seeds
        Numbers of the replications, or seeds for the function.
    replicates
        N, for seeds 0 to n - 1.
    half_width
        The largest half-width of intervals, relative to their middles.  Replications are run, from
        `replicates` (default 10; at least 5) to `at_most`, until all intervals are so narrow: those of the
        ratios to the baseline, or of the means if there is none, for the first of `metrics`.  Such stopping
        favours narrow intervals, so they contain the true value a little less often than in 95 % of cases:
        see docs/guides/experiments.md.
    at_most
        The most replications that are run for `half_width`.
    hold
        Parts of the scenario that are the same in all replications, see `gridsim.replication`.
    baseline
        The scheduler to compare with.
    metrics
        A list of names in `gridsim.results.metrics.registry.METRICS` and of functions that return a number
        for a `Result`; or name -> function, where a metric of gridsim is mapped to its own name; or one
        function.  None for the usual metrics of such schedulers.
    skip_days
        Number of days at the beginning of each replication whose applications do not count in metrics; see
        `gridsim.Result.without_first_days`.
    by
        What rigid jobs are grouped by, as in `gridsim.compare`; each has a table of mean waiting times.
    errors
        ``"raise"`` a GridSimError for the first run that fails, or ``"record"`` it and continue.
    time_limit
        As in `simulate`.
    executor, batch
        Where the runs are executed, and how many are sent at a time; see
        `gridsim.studies.execution.run_cells.run_cells`.  The values do not depend on them.
    store
        A store of runs; runs that it has are not executed again, and new ones are added.  See
        `gridsim.studies.execution.store.Store`.
    retry
        Whether runs that are in the store as failed are executed again.
    progress
        Whether to show a progress bar of runs on stderr; see `simulate`.
    """
    named = scenario.schedulers if isinstance(scenario, Scenario) else None
    schedulers = chosen_schedulers(schedulers, named)
    selection = {} if metrics is None else requested_metrics(metrics)
    for name in selection:
        if not name or not name.isprintable():
            raise ScenarioError(f"metrics must have names that can be printed, got {name!r}")
        if name in ("replicate", "scheduler"):
            raise ScenarioError(
                f"metrics must not have a function {name!r}, which is a column of the table; rename it"
            )
    if errors not in ("raise", "record"):
        raise ScenarioError(f"errors must be raise or record, got {errors!r}")
    if baseline is not None and baseline not in schedulers:
        raise ScenarioError(f"baseline must be one of {', '.join(schedulers)}, got {baseline!r}")
    if seeds is not None and half_width is not None:
        raise ScenarioError("half_width requires replicates in place of seeds")
    numbers = _numbers(seeds, AT_LEAST if replicates is None and half_width is not None else replicates)
    if (runs := len(numbers) * len(schedulers)) > MAX_RUNS:
        raise ScenarioError(f"replicates must make at most {MAX_RUNS} runs of all schedulers, got {runs}")
    skip_days, by = checked_days(skip_days), checked_groups(by)
    target = None if half_width is None else real("half_width", half_width, above=0)
    integer("at_most", at_most, low=1 if target is None else len(numbers))
    if not callable(scenario):
        warn_unusual(check_scenario(scenario), stacklevel=4)
    make = (lambda k: replication(scenario, k, hold)) if isinstance(scenario, Scenario) else scenario
    kept, read = store_of(store), TraceDigests()
    records: list[RunRecord] = []  # ordered by replication and scheduler

    about: dict[str, str] = {}
    scope = WarningScope()

    def run(new_numbers: Sequence[int]) -> bool:
        scenarios = [make(k) for k in new_numbers]
        with scope:
            if not records:
                for group in by:
                    job_groups(group, scenarios[0])
                    if getattr(scenarios[0].workload.recipe, "resample", None) == f"{group}s":
                        raise ScenarioError(
                            f"by must not be {group!r} if workload.resample draws {group}s, which differ "
                            "between replications"
                        )
                about.update(plan_lines(scenarios[0], schedulers.values(), hold, executor, skip_days))
                announce(lambda: about)
            cells = [
                Cell(
                    one,
                    scheduler,
                    selection,
                    time_limit,
                    skip_days,
                    by,
                    label=name,
                    place=f"replication {k}",
                )
                for k, one in zip(new_numbers, scenarios, strict=True)
                for name, scheduler in schedulers.items()
            ]
            records.extend(
                collect(
                    cells,
                    executor=executor,
                    batch=batch,
                    store=kept,
                    progress=progress,
                    retry=retry,
                    fail_fast=errors == "raise",
                    first_read=read,
                )
            )
        return scenarios[0].workload.rigid

    rigid = run(numbers)
    names = list(selection) or default_metrics([each.values for each in records if not each.error], rigid)

    def study(is_narrow: bool | None) -> Replicates:
        return replicates_of(records, list(schedulers), numbers, names, baseline, is_narrow, selection, by)

    def with_provenance(values: Replicates) -> Replicates:
        orders = {name: one.promised_order for name, one in schedulers.items() if one.decentralized}
        means = [each.values[AVAILABILITY] for each in records if AVAILABILITY in each.values]
        lines = about | availability_line(means)
        return replace(values, about=lines, files=read.files, remarks=tuple(queue_order_lines(orders)))

    if target is None:
        return with_provenance(study(None))
    while True:
        count, width = len(numbers), _widest(study(None))
        is_narrow = count >= MIN_SEEDS and width <= target
        # if there is no interval, because a run failed or the baseline is 0, more replications do not help
        if is_narrow or count >= at_most or (count >= MIN_SEEDS and math.isinf(width)):
            return with_provenance(study(is_narrow))
        further = range(count, min(_next_count(count, width / target), at_most))
        numbers = (*numbers, *further)
        run(further)


def plan_lines(
    scenario: Scenario,
    schedulers: Iterable[Scheduler],
    hold: Collection[str],
    executor: Executor | None = None,
    skip_days: float = 0.0,
) -> dict[str, str]:
    """Return lines on a replication, its applications that count and queues, and on what is drawn anew.

    They must be possible if the runs are on this machine.  Elsewhere there may be files and memory that are
    not here.
    """
    try:
        lines = planned_lines(scenario, skip_days=skip_days) | shared_queues(scenario, schedulers)
    except (GridSimError, OSError, MemoryError):
        if executor is None or isinstance(executor, Processes):
            raise
        lines = {}
    parts = [
        name for name in scenario.drawn if name not in hold and not (name in _OF_LOGS and "workload" in hold)
    ]
    recipe = scenario.workload.recipe
    if isinstance(recipe, LogRecipe | JobLogRecipe | SiteLogsRecipe):
        names = dict(_OF_LOGS)
        if (blocks := getattr(recipe, "resample", None)) is not None:
            noun = "logs" if isinstance(recipe, SiteLogsRecipe) else "log"
            names["workload"] = f"{blocks} of the {noun} (with replacement)"
            lines.pop("sample", None)
        else:
            line = "the jobs of the log are the same in each replication"
            if not isinstance(recipe, LogRecipe):
                line += "; --change workload.resample=weeks (or users) draws them anew"
            lines["sample"] = line
        parts = [names.get(name, name) for name in parts]
    parts += [] if "run" in hold else ["choices of the schedulers"]
    if not parts:
        return lines | {"drawn anew": "nothing"}
    return lines | {"drawn anew": f"{enumeration(parts, len(parts))} (in replication 0 as well)"}


def _numbers(seeds: Sequence[int] | None, replicates: int | None) -> tuple[int, ...]:
    if (seeds is None) == (replicates is None):
        count = "neither" if seeds is None else "both"
        raise ScenarioError(f"replicate requires exactly one of seeds and replicates, got {count}")
    if seeds is None:
        return tuple(range(integer("replicates", replicates, low=1, high=MAX_RUNS)))
    numbers = tuple(integer(f"seeds[{i}]", seed) for i, seed in enumerate(sequence("seeds", seeds)))
    if not numbers or len(set(numbers)) < len(numbers):
        raise ScenarioError(f"seeds must be different and not empty, got {list(numbers)}")
    return numbers


def _next_count(count: int, ratio: float) -> int:
    """Estimate how many replications are enough, if intervals of `count` are `ratio` times too wide.

    The estimate is at most twice `count`, unless that is below the least number for an interval.
    """
    if count < MIN_SEEDS:
        return MIN_SEEDS
    return max(count + 1, min(2 * count, math.ceil(1.1 * count * min(ratio, 2.0) ** 2)))


def _widest(values: Replicates) -> float:
    """Return the largest half-width, relative to its middle, of the intervals that must be narrow.

    It is infinite if an interval is missing, as for a single replication or a run that failed.
    """
    base, measure = values.baseline, values.measure
    if values.is_identical:
        return math.inf
    if base is None:
        estimates = [values.mean(name, measure) for name in values.schedulers]
    else:
        estimates = [values.ratio(name, base, measure) for name in values.schedulers if name != base]
    widths = [(e.high - e.low) / 2 / abs(e.mean) if e.mean else math.inf for e in estimates]
    return max((math.inf if math.isnan(width) else width for width in widths), default=0.0)


#: The parts of a scenario that have seeds; ``"run"`` is the scenario's own.
PARTS = ("platform", "workload", "faults", "fluctuation", "run")


def replication(scenario: Scenario, number: int, hold: Collection[str] = ()) -> Scenario:
    """Return the scenario of replication `number` of `scenario`: each part gets a new seed.

    The new seed of a part is spawned by `numpy.random.SeedSequence`, and depends only on the part's own seed
    and on `number`.  So scenarios that differ otherwise, as those of a sweep, have the same random streams in
    replications of the same number (common random numbers).  Parts that draw nothing, such as listed speeds,
    are the same in all replications.

    Raises ScenarioError for an invalid number or an unknown part.

    Parameters
    ----------
    number
        0, 1, 2, ...
    hold
        Parts that keep their seeds, of `PARTS`, for example the platform.
    """
    check_scenario(scenario)
    number = integer("number", number, high=2**32 - 1)
    if isinstance(hold, str) or not isinstance(hold, Collection):
        raise ScenarioError(f"hold must be a list of parts ({', '.join(PARTS)}), got {short_repr(hold)}")
    for part in hold:
        if part not in PARTS:
            raise ScenarioError(f"hold must contain only {', '.join(PARTS)}, got {part!r}")
    changes: dict[str, Any] = {}
    for name in ("platform", "workload", "faults", "fluctuation"):
        part = getattr(scenario, name)
        if part is not None and name not in hold and hasattr(part.recipe, "seed"):
            recipe = msgspec.structs.replace(part.recipe, seed=_child(part.recipe.seed, number))
            changes[name] = type(part)(recipe)
    if "run" not in hold:
        changes["seed"] = _child(scenario.seed, number)
    return dataclasses.replace(scenario, **changes)


def _child(seed: int, number: int) -> int:
    """Return a child seed of 63 bits, which a scenario file can hold."""
    spawned = np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1, np.uint64)
    return int(spawned[0] >> np.uint64(1))
