"""sweep(): schedulers over a grid of changes to a scenario, with replicas of each point."""

from __future__ import annotations

import itertools
import json
import os
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gridsim.cells import Cell, Measured
from gridsim.collecting import collect
from gridsim.errors import ScenarioError
from gridsim.extras import need
from gridsim.measures import Metric, usual_metrics, wanted_metrics
from gridsim.naming import build_scheduler, check_schedulers, named_scheduler
from gridsim.platform import whole
from gridsim.progress import Progress
from gridsim.records import Table, align
from gridsim.replication import Replicates, arranged
from gridsim.results import UNITS
from gridsim.scenario import Scenario
from gridsim.scheduler import Scheduler
from gridsim.seeding import replica
from gridsim.store import Store, StorePath, store_of

#: What an axis goes through: values of the entry that it is called after, or name -> entries and values.
Axis = Sequence[Any] | Mapping[str, Mapping[str, Any]]
#: Label of each axis -> entries of the scenario and of schedulers that it stands for.
Point = dict[str, Any]
_SCHEDULERS = "schedulers."
_KEYS = ("scenario", "schedulers", "replicates", "baseline", "metrics", "hold", "time_limit", "over")


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What a sweep is of.

    scenario : that is changed.  schedulers : name -> scheduler, all of which run at each point.
    over : axis -> its values.  The name of an axis is the path of an entry of a scenario file, as
        ``"platform.nodes"``, or of a parameter, ``"schedulers.NAME.PARAMETER"`` of the scheduler called NAME
        here.  An axis that changes several entries at once is a mapping of labels to such paths and values.
        The points are all combinations, those of the last axis next to one another.
    replicates : of each point.  hold : what is the same in all of them; see `gridsim.seeding.replica`.
    metrics : as of `gridsim.replicate`.  baseline : the scheduler to compare with.
    time_limit : as of `simulate`.

    Raises ScenarioError for what is none of that, naming the axis.
    """

    scenario: Scenario
    schedulers: Mapping[str, Scheduler]
    over: Mapping[str, Axis] = field(default_factory=dict)
    replicates: int = 10
    hold: Collection[str] = ()
    metrics: Sequence[str] | Mapping[str, Metric] | None = None
    baseline: str | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_schedulers(self.schedulers)
        whole("replicates", self.replicates, low=1)
        if self.baseline is not None and self.baseline not in self.schedulers:
            known = ", ".join(self.schedulers)
            raise ScenarioError(f"baseline must be one of {known}, got {self.baseline!r}")
        if not isinstance(self.over, Mapping):
            raise ScenarioError(f"over must map axes to values, got {self.over!r}")
        if self.metrics is not None:
            wanted_metrics(self.metrics)
        for name in self.over:
            if name in ("scheduler", "replicate"):
                raise ScenarioError(f"over: no axis may be called {name!r}")
            labels = self.labels[name]
            if not labels or len(set(labels)) < len(labels):
                raise ScenarioError(f"over.{name} must have different values and at least one, got {labels}")

    @classmethod
    def from_toml(cls, path: StorePath, **changes: Any) -> Sweep:
        """The sweep in a file; see docs/experiments.md.

        changes : in place of what the file says; ``schedulers`` are names, or module:Class, which a file may
            not say.

        Raises ScenarioError naming the key of what is wrong, OSError for a file that cannot be read.
        """
        file = os.fspath(path)
        with open(file, "rb") as stream:
            try:
                document = tomllib.load(stream)
            except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
                raise ScenarioError(f"{file}: {error}") from error
        for key in document:
            if key not in _KEYS:
                raise ScenarioError(f"{file}: {key} is not a known key of a sweep; known: {', '.join(_KEYS)}")
        given, folder = document.pop("scenario", None), os.path.dirname(file)
        if isinstance(given, str):
            scenario = Scenario.from_toml(os.path.join(folder, given))
        elif isinstance(given, dict):
            scenario = Scenario.from_document(given, f"scenario of {file}", folder)
        else:
            raise ScenarioError(f"{file}: scenario must be the path of a file or a table, got {given!r}")
        names = document.pop("schedulers", None)
        if not (isinstance(names, list) and names and all(isinstance(name, str) for name in names)):
            raise ScenarioError(f"{file}: schedulers must be a list of names, got {names!r}")
        for name in names:
            if ":" in name:
                raise ScenarioError(f"{file}: schedulers: a file never imports code, got {name!r}")
        schedulers = {
            name: named_scheduler(name, scenario.schedulers.get(name, {}))
            for name in changes.pop("schedulers", names)
        }
        for key, kind, said in (
            ("metrics", list, "a list of names"),
            ("hold", list, "a list of names"),
            ("over", dict, "a table"),
            ("baseline", str, "a name"),
        ):
            if not isinstance(document.get(key, kind()), kind):
                raise ScenarioError(f"{file}: {key} must be {said}, got {document[key]!r}")
        return cls(scenario=scenario, schedulers=schedulers, **{**document, **changes})

    @cached_property
    def labels(self) -> dict[str, tuple[Any, ...]]:
        """The labels of each axis: numbers and texts as they are, other values as JSON."""
        found = {}
        for name, axis in self.over.items():
            if isinstance(axis, (str, bytes)) or not isinstance(axis, (Sequence, Mapping, np.ndarray)):
                raise ScenarioError(
                    f"over.{name} must be a list of values, or a table of cases, got {axis!r}"
                )
            found[name] = tuple(axis) if isinstance(axis, Mapping) else tuple(map(_label, axis))
        return found

    def points(self) -> Iterator[tuple[Point, dict[str, Any]]]:
        """The labels of each point, and the entries that it changes."""
        for labels in itertools.product(*self.labels.values()):
            entries: dict[str, Any] = {}
            for (name, axis), label in zip(self.over.items(), labels, strict=True):
                if isinstance(axis, Mapping):
                    case = axis[label]
                    if not isinstance(case, Mapping):
                        raise ScenarioError(f"over.{name}.{label} must be a table of entries, got {case!r}")
                    entries |= case
                else:
                    entries[name] = _plain(axis[self.labels[name].index(label)])
            yield dict(zip(self.over, labels, strict=True)), entries

    @cached_property
    def cells(self) -> list[Cell]:
        """All runs: point after point, of each replica after replica, of each the schedulers in order."""
        wanted = {} if self.metrics is None else wanted_metrics(self.metrics)
        # one object for what is equal: so it is known as equal without a store too
        scenarios: dict[str, list[Scenario]] = {}
        schedulers: dict[tuple[str, str], Scheduler] = {}
        cells = []
        for _, entries in self.points():
            own, others = self._split(entries)
            said = json.dumps(others, sort_keys=True)
            if said not in scenarios:
                point = self.scenario.replaced(others) if others else self.scenario
                scenarios[said] = [replica(point, k, self.hold) for k in range(self.replicates)]
            chosen = []
            for name, scheduler in self.schedulers.items():
                key = name, json.dumps(own[name], sort_keys=True)
                if key not in schedulers:
                    schedulers[key] = _changed(name, scheduler, own[name])
                chosen.append(schedulers[key])
            cells += [
                Cell(one, scheduler, wanted, self.time_limit)
                for one in scenarios[said]
                for scheduler in chosen
            ]
        return cells

    def run(
        self,
        *,
        executor: Executor | None = None,
        batch: int | None = None,
        store: Store | StorePath | None = None,
        retry: bool = False,
        progress: Progress = False,
    ) -> SweepResult:
        """Run the cells.

        A cell that fails is recorded with its error and stops nothing.  What comes out does not depend on the
        executor.  With a store only cells are run that it does not have: a sweep that was cut off goes on,
        and one with more values, schedulers or replicates takes the old ones from there.

        executor, batch, store, retry, progress : as of `gridsim.replicate`.

        Raises ScenarioError for points that make no scenario, before anything is run.
        """
        made = collect(
            self.cells,
            executor=executor,
            batch=batch,
            store=store_of(store),
            progress=progress,
            retry=retry,
        )
        return SweepResult(self, made)

    def _split(self, entries: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """Parameters of each scheduler, and entries of the scenario."""
        own: dict[str, dict[str, Any]] = {name: {} for name in self.schedulers}
        others = {}
        for path, value in entries.items():
            if not path.startswith(_SCHEDULERS):
                others[path] = value
                continue
            name, _, parameter = path.removeprefix(_SCHEDULERS).rpartition(".")
            if name not in own:
                raise ScenarioError(f"over.{path}: no scheduler {name!r} here; there are {', '.join(own)}")
            own[name][parameter] = value
        return own, others


def _label(value: Any) -> Any:
    value = _plain(value)
    return value if isinstance(value, (str, int, float)) else json.dumps(value, sort_keys=True)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _changed(name: str, scheduler: Scheduler, parameters: Mapping[str, Any]) -> Scheduler:
    if not parameters:
        return scheduler
    now = {key: getattr(scheduler, key) for key in scheduler.__struct_fields__}
    return build_scheduler(type(scheduler), {**now, **parameters}, name)


@dataclass(frozen=True)
class SweepResult:
    """What a sweep came to.

    measured : of each of ``sweep.cells``.
    """

    sweep: Sweep
    measured: Sequence[Measured]

    @cached_property
    def metrics(self) -> list[str]:
        """What was asked for; or else the usual ones."""
        if self.sweep.metrics is not None:
            return list(self.sweep.metrics)
        done = [each.values for each in self.measured if not each.error]
        return usual_metrics(done, self.sweep.scenario.workload.rigid)

    @property
    def errors(self) -> list[str]:
        """Why cells failed, each reason once."""
        return list(dict.fromkeys(each.error for each in self.measured if each.error))

    def table(self) -> Table:
        """A row a cell: its point, scheduler, replicate, digest, error, wall_seconds, and the metrics."""
        sweep = self.sweep
        rows = len(self.measured)
        per_point = sweep.replicates * len(sweep.schedulers)
        points = [labels for labels, _ in sweep.points()]
        columns: dict[str, Any] = {}
        for axis in sweep.over:
            columns[_column(axis)] = np.repeat([labels[axis] for labels in points], per_point)
        columns["scheduler"] = np.tile(list(sweep.schedulers), rows // len(sweep.schedulers))
        columns["replicate"] = np.tile(
            np.repeat(np.arange(sweep.replicates), len(sweep.schedulers)), len(points)
        )
        columns["digest"] = [each.digest for each in self.measured]
        columns["error"] = [each.error for each in self.measured]
        columns["wall_seconds"] = [each.wall_seconds for each in self.measured]
        for metric in self.metrics:
            columns[metric] = [each.values.get(metric, np.nan) for each in self.measured]
        return Table(columns)

    def to_pandas(self) -> Any:
        """`table` as a pandas DataFrame."""
        return self.table().to_pandas()

    def to_arrow(self) -> Any:
        """`table` as a pyarrow Table."""
        return self.table().to_arrow()

    def to_xarray(self) -> Any:
        """An xarray Dataset: a dimension an axis, then scheduler and replicate; a variable a metric, and the
        digest."""
        xarray = need("xarray", "data", "to_xarray")
        sweep, table = self.sweep, self.table()
        dims = [*map(_column, sweep.over), "scheduler", "replicate"]
        coords = {_column(axis): list(labels) for axis, labels in sweep.labels.items()}
        coords |= {"scheduler": list(sweep.schedulers), "replicate": list(range(sweep.replicates))}
        shape = [*map(len, sweep.labels.values()), sweep.replicates, len(sweep.schedulers)]
        variables = {
            name: (dims, np.swapaxes(table[name].reshape(shape), -1, -2), _unit(name))
            for name in (*self.metrics, "wall_seconds", "digest")
        }
        return xarray.Dataset(variables, coords)

    def at(self, **labels: Any) -> Replicates:
        """The replicates of one point, with means, ratios and their intervals; labels of all axes that have
        more than one, with ``_`` for ``.`` and ``-`` in their names.

        Raises ScenarioError where that is no point.
        """
        wanted = {axis: self._label_of(axis, labels) for axis in self.sweep.over}
        if labels:
            raise ScenarioError(f"at: no axis {next(iter(labels))!r}; axes: {', '.join(self.sweep.over)}")
        for number, (point, _) in enumerate(self.sweep.points()):
            if point == wanted:
                return self._at(number)
        raise ScenarioError(f"at: no point {wanted}")

    def _label_of(self, axis: str, labels: dict[str, Any]) -> Any:
        known = self.sweep.labels[axis]
        name = _column(axis)
        if name not in labels and len(known) == 1:
            return known[0]
        if name not in labels:
            raise ScenarioError(f"at: {name} must be given, one of {', '.join(map(repr, known))}")
        if (label := _label(labels.pop(name))) not in known:
            raise ScenarioError(f"at: {name} must be one of {', '.join(map(repr, known))}, got {label!r}")
        return label

    def _at(self, number: int) -> Replicates:
        size = self.sweep.replicates * len(self.sweep.schedulers)
        made = self.measured[number * size : (number + 1) * size]
        numbers = tuple(range(self.sweep.replicates))
        return arranged(made, list(self.sweep.schedulers), numbers, self.metrics, self.sweep.baseline)

    def each(self) -> Iterator[tuple[Point, Replicates]]:
        """The labels and the replicates of each point."""
        for number, (labels, _) in enumerate(self.sweep.points()):
            yield labels, self._at(number)

    def format(self) -> str:
        """A line a point and scheduler: the mean of the first metric, and its ratio to the baseline."""
        sweep, metric = self.sweep, self.metrics[0]
        base = sweep.baseline
        heads = [*map(str, sweep.over), "scheduler", metric, *([] if base is None else [f"to {base}"])]
        rows = []
        for labels, found in self.each():
            for name in sweep.schedulers:
                row = [*map(str, labels.values()), name, found.mean(name, metric).format()]
                if base is not None:
                    row.append(found.relative(name, base, metric))
                rows.append(row)
        columns = [[head, *column] for head, column in zip(heads, zip(*rows, strict=True), strict=True)]
        unit = f" ({UNITS[metric]})" if metric in UNITS else ""
        lines = [f"{metric}{unit}, mean over {sweep.replicates} replicas", *align(columns, left=len(heads))]
        lines += [f"failed: {error}" for error in self.errors]
        return "\n".join(lines)

    __str__ = format

    def to_dict(self) -> dict[str, Any]:
        """Axes, cells, and means with their intervals, as plain values."""
        return {
            "axes": {axis: list(labels) for axis, labels in self.sweep.labels.items()},
            "schedulers": list(self.sweep.schedulers),
            "replicates": self.sweep.replicates,
            "baseline": self.sweep.baseline,
            "units": {metric: UNITS[metric] for metric in self.metrics if metric in UNITS},
            "cells": list(self.table().rows()),
            "points": [
                {"point": labels, **{key: found.to_dict()[key] for key in ("means", "ratios")}}
                for labels, found in self.each()
            ],
        }


def _column(axis: str) -> str:
    """An axis as the name of a column."""
    name = "".join(c if c.isalnum() or c == "_" else "_" for c in axis)
    return name if not name[:1].isdigit() else f"_{name}"


def _unit(name: str) -> dict[str, str]:
    return {"units": UNITS[name]} if name in UNITS else {}


def sweep(
    scenario: Scenario,
    schedulers: Mapping[str, Scheduler],
    over: Mapping[str, Axis],
    *,
    replicates: int = 10,
    hold: Collection[str] = (),
    metrics: Sequence[str] | Mapping[str, Metric] | None = None,
    baseline: str | None = None,
    time_limit: float | None = None,
    **how: Any,
) -> SweepResult:
    """Run `schedulers` on replicas of `scenario`, changed as `over` says; see `Sweep`, and `Sweep.run` for
    `how`: executor, batch, store, retry, progress."""
    made = Sweep(
        scenario=scenario,
        schedulers=schedulers,
        over=over,
        replicates=replicates,
        hold=hold,
        metrics=metrics,
        baseline=baseline,
        time_limit=time_limit,
    )
    return made.run(**how)
