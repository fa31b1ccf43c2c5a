"""sweep(): runs schedulers over a grid of changes to a scenario, with replications of each point."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gridsim.errors import ScenarioError, name_files_in_errors
from gridsim.model.sanity_checks import warn_unusual
from gridsim.model.scenario import Scenario, check_scenario
from gridsim.results.metrics.registry import (
    METRICS,
    UNITS,
    MetricFunction,
    default_metrics,
)
from gridsim.results.metrics.selection import RequestedMetrics, requested_metrics, split_code
from gridsim.results.metrics.window import checked_days
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.registry import (
    Schedulers,
    build_scheduler,
    check_preset,
    chosen_schedulers,
    named_scheduler,
)
from gridsim.simulation.options import checked_limit
from gridsim.studies.execution.cell import Cell, RunRecord
from gridsim.studies.execution.collect import MAX_RUNS, collect
from gridsim.studies.execution.store import Store, StorePath, store_of
from gridsim.studies.overview import queue_order_lines
from gridsim.studies.replicate import replication
from gridsim.studies.sweep_points import Point, column_of, has_repetition, label_of, label_text, point_text
from gridsim.studies.sweep_result import COLUMNS, SweepResult
from gridsim.support import html
from gridsim.support import toml as toml_files
from gridsim.support.arguments import check_names, integer, listed, short_repr, suggest_arguments, text
from gridsim.support.imports import first_code_name
from gridsim.support.progress import Progress
from gridsim.support.text import check_name, plain

#: The values of an axis: values of the entry that the axis is named after, or label -> (entry -> value).
Axis = Sequence[Any] | Mapping[str, Mapping[str, Any]]
_SCHEDULERS = "schedulers."
_KEYS = (
    "scenario",
    "schedulers",
    "parameters",
    "replicates",
    "baseline",
    "metrics",
    "skip_days",
    "hold",
    "time_limit",
    "over",
)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The description of a sweep: a scenario, schedulers, and the axes over which they are changed.

    Raises ScenarioError for invalid values; for those of an axis, the error names the axis.

    Parameters
    ----------
    scenario
        The scenario that is changed.
    schedulers
        Name -> scheduler; all of them run at each point.
    over
        Axis -> its values.  The name of an axis is the path of an entry of a scenario file, such as
        ``"platform.nodes"``, or of a parameter: ``"schedulers.NAME.PARAMETER"`` of the scheduler that is
        called NAME here.  An axis that changes several entries at once maps labels to such paths and values.
        The points are all combinations, in an order in which the last axis varies fastest.
    replicates
        The number of replications of each point.
    hold
        Parts that are the same in all replications; see `gridsim.studies.replicate.replication`.
    metrics, skip_days
        As in `gridsim.replicate`.
    baseline
        The scheduler to compare with.
    time_limit
        As in `simulate`.
    folder
        The folder that files named in ``over`` are relative to; for a sweep file its own folder, else the
        working directory.
    """

    scenario: Scenario
    schedulers: Mapping[str, Scheduler]
    over: Mapping[str, Axis] = field(default_factory=dict)
    replicates: int = 10
    hold: Collection[str] = ()
    metrics: RequestedMetrics | None = None
    baseline: str | None = None
    time_limit: float | None = None
    skip_days: float = 0.0
    folder: str = ""

    def __post_init__(self) -> None:
        check_scenario(self.scenario)
        chosen = chosen_schedulers(self.schedulers, self.scenario.schedulers)
        object.__setattr__(self, "schedulers", chosen)
        integer("replicates", self.replicates, low=1)
        object.__setattr__(self, "time_limit", checked_limit(self.time_limit))
        object.__setattr__(self, "skip_days", checked_days(self.skip_days))
        if self.baseline is not None and self.baseline not in self.schedulers:
            known = ", ".join(self.schedulers)
            raise ScenarioError(f"baseline must be one of {known}, got {self.baseline!r}")
        if not isinstance(self.over, Mapping):
            raise ScenarioError(f"over must map axes to values, got {self.over!r}")
        self._check_metrics()
        uses = {column: "a column of the table" for column in (*COLUMNS, *METRICS, *self.selection)}
        for name in self.over:
            text("over: the name of an axis", name)
            if (column := column_of(name)) in uses:
                raise ScenarioError(
                    f"over must not have the axis {name!r}: its column {column!r} is already {uses[column]}"
                )
            uses[column] = f"the column of the axis {name!r}"
            labels = self.labels[name]
            if not labels or has_repetition(labels):
                raise ScenarioError(
                    f"over.{name} must have at least one value and no value twice, got {labels}"
                )
        runs = math.prod(map(len, self.labels.values())) * self.replicates * len(self.schedulers)
        if runs > MAX_RUNS:
            raise ScenarioError(f"over and replicates must make at most {MAX_RUNS} runs, got {runs}")
        self._check_apart()

    def _check_metrics(self) -> None:
        """Raise ScenarioError for a metric whose name is not valid or is already the name of a column.

        A function may not have the name of a metric of gridsim either, since units are looked up by name.
        """
        for name, metric in self.selection.items():
            if metric is not None and name in (*METRICS, *COLUMNS, *UNITS):
                meaning = "a column of the table" if name in COLUMNS else "a metric or a unit of gridsim"
                raise ScenarioError(
                    f"metrics must not have a function {name!r}, which is {meaning}; rename it"
                )
            try:
                check_name(name)
            except ValueError as error:
                raise ScenarioError(f"metrics: {error}") from error

    def _check_apart(self) -> None:
        """Raise ScenarioError if two axes change the same entry, since it is undefined which would count."""
        paths: set[tuple[str, int]] = set()
        for number, (name, axis) in enumerate(self.over.items()):
            cases = axis.values() if isinstance(axis, Mapping) else [{name: None}]
            paths |= {(f"{path}.", number) for case in cases if isinstance(case, Mapping) for path in case}
        enclosing: list[tuple[str, int]] = []  # the entries that contain the current one, all of one axis
        for path, number in sorted(paths):
            while enclosing and not path.startswith(enclosing[-1][0]):
                enclosing.pop()
            if enclosing and enclosing[-1][1] != number:
                other, axis_number = enclosing[-1]
                one, two = (list(self.over)[k] for k in sorted((axis_number, number)))
                raise ScenarioError(f"over: {one} and {two} both change {other[:-1]}")
            enclosing.append((path, number))

    def __repr__(self) -> str:
        axes = ", ".join(f"{axis} ({len(labels)})" for axis, labels in self.labels.items())
        return (
            f"<Sweep of {', '.join(self.schedulers)} over {axes or 'one point'}, "
            f"{self.replicates} replications each>"
        )

    def _repr_html_(self) -> str:
        """Return the plan as notebooks show it: the axes and their values."""
        lines = {axis: ", ".join(map(label_text, labels)) for axis, labels in self.labels.items()}
        lines |= {"schedulers": ", ".join(self.schedulers), "replications": str(self.replicates)}
        return html.pairs(lines, "Sweep")

    @classmethod
    def from_toml(cls, path: StorePath, *, imports: Collection[str] = (), **changes: Any) -> Sweep:
        """Read a sweep from a file; see docs/guides/experiments.md.

        Raises ScenarioError that names the key of an invalid value, OSError for a file that cannot be read.

        Parameters
        ----------
        imports
            The code, such as ``"nearby:Nearby"``, that the file may name as a scheduler, metric or parameter,
            and the classes of kinds in its scenario.  For safety, other code that a file names is not
            imported.
        changes
            Fields that replace those of the file; ``schedulers`` are names or module:Class.
        """
        file = os.fspath(path)
        document = toml_files.parse(toml_files.read(file), file)
        for key in document:
            if key not in _KEYS:
                raise ScenarioError(f"{file}: {key} is not a known key of a sweep; {listed(_KEYS, key)}")
        source, folder = document.pop("scenario", None), os.path.dirname(file)
        if isinstance(source, str):
            scenario = Scenario.from_toml(os.path.join(folder, source), imports=imports)
        elif isinstance(source, dict):
            scenario = Scenario.from_document(source, f"scenario of {file}", folder, imports=imports)
        else:
            raise ScenarioError(f"{file}: scenario must be the path of a file or a table, got {source!r}")
        from_file, names = document.pop("schedulers", None), changes.pop("schedulers", None)
        tables = _parameters_in(file, document.pop("parameters", {}), imports)
        if names:  # others than those of the file, which may have parameters there
            schedulers = chosen_schedulers(names, scenario.schedulers)
            tables = {name: tables[name] for name in tables if name in schedulers}
        else:
            with name_files_in_errors([file]):
                names = _names_in(file, from_file, imports)
                schedulers = chosen_schedulers(names, scenario.schedulers)
        with name_files_in_errors([file]):
            for name, parameters in tables.items():
                if name not in schedulers:
                    raise ScenarioError(
                        f"parameters.{name} must be that of one of the schedulers; {listed(schedulers, name)}"
                    )
                schedulers[name] = _with_parameters(name, schedulers[name], parameters)
        for name, table in scenario.schedulers.items():
            named_scheduler(name, table)  # this also checks the tables of schedulers that do not run
        for key, kind, expectation in (
            ("metrics", list, "a list of names"),
            ("hold", list, "a list of names"),
            ("over", dict, "a table"),
            ("baseline", str, "a name"),
        ):
            if not isinstance(document.get(key, kind()), kind):
                raise ScenarioError(f"{file}: {key} must be {expectation}, got {document[key]!r}")
        if "metrics" in document and "metrics" not in changes:
            names_in_file = (name for name in document["metrics"] if isinstance(name, str))
            _refuse_code(f"{file}: metrics", [split_code(name)[1] for name in names_in_file], imports)
            with name_files_in_errors([file]):
                requested_metrics(document["metrics"])
        _check_code(file, document.get("over", {}), imports)
        fields = {**document, **changes}
        labels = zip(names, schedulers, strict=True)  # a class of one's own has a name as well
        baselines = {entry: label for entry, label in labels if isinstance(entry, str)}
        if (baseline := fields.get("baseline")) in baselines:
            fields["baseline"] = baselines[baseline]
        return cls(scenario=scenario, schedulers=schedulers, folder=folder, **fields)

    @cached_property
    def selection(self) -> dict[str, MetricFunction | None]:
        """The metrics by name, as `requested_metrics` returns them; empty for the usual ones."""
        return {} if self.metrics is None else requested_metrics(self.metrics)

    @cached_property
    def labels(self) -> dict[str, tuple[Any, ...]]:
        """The labels of each axis: numbers, texts and None as they are, other values as JSON."""
        labels = {}
        for name, axis in self.over.items():
            listed = isinstance(axis, np.ndarray) and axis.ndim or isinstance(axis, (Sequence, Mapping))
            if isinstance(axis, (str, bytes)) or not listed:
                raise ScenarioError(
                    f"over.{name} must be a list of values, or a table of cases, got {axis!r}"
                )
            cases = isinstance(axis, Mapping)
            labels[name] = tuple(axis if cases else (_of_plain(label_of, name, value) for value in axis))
        return labels

    @cached_property
    def own_axes(self) -> dict[str, tuple[str, ...]]:
        """The axes that change only parameters of some schedulers, and these schedulers.

        The other schedulers run once for all values of such an axis.
        """
        axes = {}
        for name, axis in self.over.items():
            cases = axis.values() if isinstance(axis, Mapping) else [{name: None}]
            paths = [path for case in cases if isinstance(case, Mapping) for path in case]
            owners = {path.removeprefix(_SCHEDULERS).rpartition(".")[0] for path in paths}
            if paths and all(path.startswith(_SCHEDULERS) for path in paths) and owners < {*self.schedulers}:
                axes[name] = tuple(label for label in self.schedulers if label in owners)
        return axes

    def points(self) -> Iterator[tuple[Point, dict[str, Any]]]:
        """Iterate over the points: the labels of each, and the entries that it changes."""
        for choices in itertools.product(*(enumerate(labels) for labels in self.labels.values())):
            entries: dict[str, Any] = {}
            for (name, axis), (place, label) in zip(self.over.items(), choices, strict=True):
                if isinstance(axis, Mapping):
                    case = axis[label]
                    if not isinstance(case, Mapping):
                        raise ScenarioError(f"over.{name}.{label} must be a table of entries, got {case!r}")
                    where = f"{name}.{label}"
                    entries |= {path: _of_plain(plain, where, value) for path, value in case.items()}
                else:
                    entries[name] = plain(axis[place])
            yield {name: label for name, (_, label) in zip(self.over, choices, strict=True)}, entries

    @cached_property
    def cells(self) -> list[Cell]:
        """All runs, ordered by point, replication and scheduler.

        Runs at the first values of `own_axes` of other schedulers are those at all values.
        """
        # equal scenarios and schedulers are one object, so that equal runs are recognized without a store
        scenarios: dict[str, list[Scenario]] = {}
        schedulers: dict[tuple[str, str], Scheduler] = {}
        cells = []
        for labels, entries in self.points():
            parameters, scenario_entries = self._split(entries)
            scenario_key = json.dumps(scenario_entries, sort_keys=True)
            if scenario_key not in scenarios:
                point = (
                    self.scenario.replaced(scenario_entries, folder=self.folder)
                    if scenario_entries
                    else self.scenario
                )
                scenarios[scenario_key] = [replication(point, k, self.hold) for k in range(self.replicates)]
            variants: dict[str, tuple[Scheduler, str]] = {}
            for name, scheduler in self.schedulers.items():
                foreign_axes = [axis for axis, owners in self.own_axes.items() if name not in owners]
                if any(labels[axis] != self.labels[axis][0] for axis in foreign_axes):
                    continue
                key = name, json.dumps(parameters[name], sort_keys=True)
                if key not in schedulers:
                    schedulers[key] = _with_parameters(name, scheduler, parameters[name])
                place = point_text({axis: labels[axis] for axis in labels if axis not in foreign_axes})
                variants[name] = schedulers[key], place
            cells += [
                Cell(
                    one,
                    scheduler,
                    self.selection,
                    self.time_limit,
                    self.skip_days,
                    label=name,
                    place=", ".join(filter(None, (place, f"replication {k}"))),
                )
                for k, one in enumerate(scenarios[scenario_key])
                for name, (scheduler, place) in variants.items()
            ]
        return cells

    def with_parameters(self, tables: Mapping[str, Mapping[str, Any]]) -> Sweep:
        """Return the sweep whose schedulers have these parameters at all points.

        Raises ScenarioError for an unknown parameter or an invalid value.

        Parameters
        ----------
        tables
            Scheduler of the sweep -> parameter -> value.
        """
        changed = {
            name: _with_parameters(name, self.schedulers[name], table) for name, table in tables.items()
        }
        return replace(self, schedulers={**self.schedulers, **changed})

    def run(
        self,
        *,
        executor: Executor | None = None,
        batch: int | None = None,
        store: Store | StorePath | None = None,
        retry: bool = False,
        progress: Progress = False,
    ) -> SweepResult:
        """Execute all runs of the sweep.

        A run that fails is recorded with its error, and the others continue.  The results do not depend on
        the executor.  With a store, only runs that it does not have are executed: an interrupted sweep
        continues, and a sweep with more values, schedulers or replications takes the old runs from the store.

        Raises ScenarioError for points whose scenario is invalid, before anything is run.

        Parameters
        ----------
        executor, batch, store, retry, progress
            As in `gridsim.replicate`.
        """
        warn_unusual(self.scenario)
        records = collect(
            self.cells,
            executor=executor,
            batch=batch,
            store=store_of(store),
            progress=progress,
            retry=retry,
        )
        metrics = list(self.selection)
        if not metrics:
            done = [each.values for each in records if not each.error]
            metrics = default_metrics(done, self.scenario.workload.rigid)
        return SweepResult(
            self.labels,
            tuple(self.schedulers),
            self.replicates,
            tuple(metrics),
            self.baseline,
            records,
            tuple(metrics) if self.selection else tuple(metrics[:1]),
            self.own_axes,
            tuple(queue_order_lines(self._queue_orders())),
        )

    def _queue_orders(self) -> dict[str, str | None]:
        """Return the order that machines promise in all runs of a decentralized scheduler, by its name."""
        orders: dict[str, set[str | None]] = {}
        for cell in self.cells:
            if cell.scheduler.decentralized:
                orders.setdefault(cell.label, set()).add(cell.scheduler.promised_order)
        return {name: order for name, (order, *others) in orders.items() if not others}

    def part(self, number: int, count: int) -> list[Cell]:
        """Return the runs of part `number` (from 1) of `count` parts of the sweep.

        Each run is in one part.  The parts differ by at most one run, and each has runs of all points if it
        has enough.
        """
        integer("count", count, low=1)
        integer("number", number, low=1, high=count)
        runs = {(id(cell.scenario), id(cell.scheduler)): cell for cell in self.cells}
        return [*runs.values()][number - 1 :: count]

    def run_part(
        self,
        number: int,
        count: int,
        *,
        store: Store | StorePath,
        executor: Executor | None = None,
        batch: int | None = None,
        retry: bool = False,
        progress: Progress = False,
    ) -> list[RunRecord]:
        """Execute part `number` (from 1) of `count` parts of the sweep, and return the records of its runs.

        The parts may be executed on several machines, in one store or in several that are merged afterwards
        (`Store.merge`).  Then `run` finds all runs in the store.

        Parameters
        ----------
        store, executor, batch, retry, progress
            As in `run`.
        """
        warn_unusual(self.scenario)
        return collect(
            self.part(number, count),
            executor=executor,
            batch=batch,
            store=store_of(store),
            progress=progress,
            retry=retry,
        )

    def _split(self, entries: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """Split the entries of a point into parameters of each scheduler, and entries of the scenario.

        Raises ScenarioError for a path that names no parameter or an unknown scheduler.
        """
        parameters: dict[str, dict[str, Any]] = {name: {} for name in self.schedulers}
        scenario_entries = {}
        for path, value in entries.items():
            if not f"{path}.".startswith(_SCHEDULERS):
                scenario_entries[path] = value
                continue
            name, _, parameter = path.removeprefix(_SCHEDULERS).rpartition(".")
            if not name:
                raise ScenarioError(
                    f"over.{path} must be {_SCHEDULERS}NAME.PARAMETER, a parameter of one scheduler"
                )
            if name not in parameters:
                raise ScenarioError(
                    f"over.{path} must be of a scheduler of the sweep, {', '.join(parameters)}, got {name!r}"
                )
            parameters[name][parameter] = value
        return parameters, scenario_entries


def _of_plain(make: Callable[[Any], Any], axis: str, value: Any) -> Any:
    """Return ``make(value)``; raise ScenarioError naming the axis for other values, such as dates of TOML."""
    try:
        return make(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ScenarioError(
            f"over.{axis} must contain only numbers, strings, lists and tables, got {short_repr(value)}"
        ) from error


def _names_in(file: str, names: Any, imports: Collection[str]) -> list[str]:
    """Return the names of schedulers in a file, which must be there and name no other code."""
    if names is None:
        raise ScenarioError(
            f"{file}: schedulers is required, a list of names, unless --schedulers names them"
        )
    if not (isinstance(names, list) and names and all(isinstance(name, str) for name in names)):
        raise ScenarioError(f"{file}: schedulers must be a list of names, got {names!r}")
    for name in names:
        label, equals, scheduler = name.partition("=")  # as `split_label` splits it, which would import code
        _refuse_code(f"{file}: schedulers", (scheduler if equals else label).strip(), imports)
    return names


def _parameters_in(file: str, tables: Any, imports: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the tables under `parameters` in a file, which must be tables and name no other code."""
    if not (isinstance(tables, dict) and all(isinstance(table, dict) for table in tables.values())):
        raise ScenarioError(f"{file}: parameters must be a table of tables, got {tables!r}")
    for name, table in tables.items():
        for key, value in table.items():
            _refuse_code(f"{file}: parameters.{name}.{key}", value, imports)
    return tables


def _refuse_code(path: str, value: Any, imports: Collection[str]) -> None:
    """Raise ScenarioError if a value in a file names code that is not among `imports`."""
    if (code := first_code_name(value, imports)) is not None:
        raise ScenarioError(
            f"{path} must not name code that is not allowed, got {code!r}; to allow it, add --import {code}"
        )


def _check_code(file: str, axes: Mapping[str, Any], imports: Collection[str]) -> None:
    """Raise ScenarioError if a value for a parameter of a scheduler, in an axis or a case, names code."""
    for axis, values in axes.items():
        for case in values.values() if isinstance(values, dict) else [{axis: values}]:
            for path, value in case.items() if isinstance(case, dict) else ():
                if path.startswith(_SCHEDULERS):
                    _refuse_code(f"{file}: over.{axis}", value, imports)


def _with_parameters(name: str, scheduler: Scheduler, parameters: Mapping[str, Any]) -> Scheduler:
    if not parameters:
        return scheduler
    check_preset(name, type(scheduler), parameters)
    now = {key: getattr(scheduler, key) for key in scheduler.__struct_fields__}
    return build_scheduler(type(scheduler), {**now, **parameters}, name)


@suggest_arguments
def sweep(
    scenario: Scenario,
    schedulers: Schedulers,
    over: Mapping[str, Axis],
    *,
    replicates: int = 10,
    hold: Collection[str] = (),
    metrics: RequestedMetrics | None = None,
    skip_days: float = 0.0,
    baseline: str | None = None,
    time_limit: float | None = None,
    **options: Any,
) -> SweepResult:
    """Run `schedulers` on replications of `scenario` with the changes of `over`; see `Sweep`.

    Parameters
    ----------
    options
        Executor, batch, store, retry, progress; see `Sweep.run`.
    """
    from inspect import signature  # takes long

    known = [*signature(sweep).parameters, *signature(Sweep.run).parameters]
    check_names("sweep", options, [name for name in known if name not in ("self", "options")])
    plan = Sweep(
        scenario=scenario,
        schedulers=chosen_schedulers(schedulers, check_scenario(scenario).schedulers),
        over=over,
        replicates=replicates,
        hold=hold,
        metrics=metrics,
        skip_days=skip_days,
        baseline=baseline,
        time_limit=time_limit,
    )
    return plan.run(**options)
