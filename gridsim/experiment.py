"""compare(): several schedulers on one scenario, and the table that sets them side by side."""

from __future__ import annotations

import importlib
import math
import os
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from gridsim import importing
from gridsim.bounds import BOUND_LIMIT
from gridsim.errors import GridSimError, ScenarioError
from gridsim.importing import imported
from gridsim.platform import shown
from gridsim.records import align, to_json
from gridsim.results import UNITS, BoundKind, Result, check_bound
from gridsim.scenario import Scenario
from gridsim.scheduler import Scheduler, registered
from gridsim.simulation import Progress, Record, simulate

# Head, unit, and what stands in a row of `Comparison.table`.
_Cells = tuple[str, str, Callable[[dict[str, Any]], str]]


@dataclass(frozen=True)
class Comparison:
    """Results of several schedulers on one scenario.

    results : name -> `Result`, in the order in which they ran.
    baseline : the name whose `measure` counts as 1.
    bound : the kind of lower bound that the table sets maximum stretches over; see `Result.bound`.
    """

    scenario: Scenario
    results: Mapping[str, Result]
    baseline: str
    bound: BoundKind = "fluid"

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    @property
    def measure(self) -> str:
        """What schedulers are compared by: max_stretch, of rigid jobs mean_waiting, of work queues
        mean_completion, of jobs that may move mean_turnaround."""
        if self.scenario.workload.rigid:
            return "mean_waiting"
        for table, measure in (("jobs", "mean_turnaround"), ("cycles", "mean_completion")):
            if all(table in result.tables for result in self.results.values()):
                return measure
        return "max_stretch"

    def ratio(self, name: str) -> float:
        """`measure` of `name` relative to the baseline's."""
        mine, other = (getattr(self.results[each], self.measure) for each in (name, self.baseline))
        if other:
            return float(mine / other)
        return math.inf if mine else math.nan

    def table(self) -> list[dict[str, Any]]:
        """A row per scheduler: its name here, the ratio to the baseline, and `Result.summary`."""
        return [
            {"name": name, "ratio": self.ratio(name), **result.summary(self.bound)}
            for name, result in self.results.items()
        ]

    def format(self) -> str:
        """Platform, workload and load; the table as aligned text; what each scheduler reports of itself."""
        rows = self.table()
        columns = [["scheduler", "", *(row["name"] for row in rows)]]
        own = self._of_jobs() if self.scenario.workload.rigid else self._of_bags(rows)
        for title, below, cell in (
            *own,
            ("makespan", "s", lambda row: f"{row['makespan']:.1f}"),
            ("busy", "%", lambda row: f"{100 * row['utilization']:.1f}"),
            ("messages", "", lambda row: f"{row['messages']}"),
            ("traffic", "MB", lambda row: f"{row['bytes'] / 1e6:.2f}"),
            ("wall", "s", lambda row: f"{row['wall_seconds'] or math.nan:.2f}"),
            ("digest", "", lambda row: row["digest"][:16]),
        ):
            columns.append([title, below, *map(cell, rows)])
        about = next(iter(self.results.values())).describe_scenario()
        about["baseline"] = f"{self.baseline} (its {self.measure.replace('_', ' ')} counts as 1)"
        lines = [*(f"{key:<8}  {value}" for key, value in about.items()), "", *align(columns, left=1), ""]
        for row in rows:
            facts = (f"{key} {_short(value)}" for key, value in row["facts"].items() if _scalar(value))
            if said := ", ".join(facts):
                lines.append(f"{row['name']}: {said}")
        if not self.scenario.workload.rigid and any(row["gap"] is None for row in rows):
            lines.append(f"no {self.bound} bound: it is computed for up to {BOUND_LIMIT} applications")
        return "\n".join(lines).rstrip()

    def _of_bags(self, rows: list[dict[str, Any]]) -> tuple[_Cells, ...]:
        largest = max(row["max_stretch"] for row in rows)
        exponent = -8  # as the fair-tree papers print it, unless that makes long numbers
        while largest / 10.0**exponent >= 1e6:
            exponent += 3
        unit = f"1e{exponent} s/Mflop"
        return (
            ("completed", "tasks", lambda row: self._completed(row["name"])),
            ("max stretch", unit, lambda row: f"{row['max_stretch'] / 10.0**exponent:.5g}"),
            ("mean", f"1e{exponent}", lambda row: f"{row['mean_stretch'] / 10.0**exponent:.5g}"),
            ("relative", f"to {self.baseline}", lambda row: f"{row['ratio']:.3f}"),
            ("over the", f"{self.bound} bound", lambda row: f"{row['gap']:.3f}" if row["gap"] else "-"),
            ("S * s_agg", "max", lambda row: f"{row['max_stretch_agg']:.5g}"),
            *(self._of_turnaround() if any("migrated" in row for row in rows) else ()),
            *(self._of_cycles() if any("wasted" in row for row in rows) else ()),
        )

    def _of_turnaround(self) -> tuple[_Cells, ...]:
        def cell(name: str, digits: int, factor: float = 1.0) -> Callable[[dict[str, Any]], str]:
            return lambda row: f"{factor * row[name]:.{digits}g}" if name in row else "-"

        return (
            ("turnaround", "mean, s", cell("mean_turnaround", 6)),
            ("migrated", "%", cell("migrated", 4, 100.0)),
        )

    def _of_cycles(self) -> tuple[_Cells, ...]:
        return (
            ("completion", "mean, s", lambda row: f"{row['mean_completion']:.6g}"),
            ("wasted", "%", lambda row: f"{100 * row['wasted']:.3g}" if "wasted" in row else "-"),
        )

    def _of_jobs(self) -> tuple[_Cells, ...]:
        return (
            ("given up", "jobs", lambda row: f"{row['failed']}"),
            ("waiting", "mean, s", lambda row: f"{row['mean_waiting']:.6g}"),
            ("relative", f"to {self.baseline}", lambda row: f"{row['ratio']:.3f}"),
            ("waiting", "median, s", lambda row: f"{row['median_waiting']:.6g}"),
            ("slowdown", "mean", lambda row: f"{row['mean_slowdown']:.4g}"),
        )

    __str__ = format

    def _completed(self, name: str) -> str:
        result = self.results[name]
        done, given = int(result.machines["tasks"].sum()), int(result.applications["tasks"].sum())
        return "all" if done == given else f"{done} of {given}"

    def to_dict(self) -> dict[str, Any]:
        """Scenario (TOML), baseline, rows and their units, as plain values."""
        return {
            "scenario": self.scenario.to_toml(),
            "baseline": self.baseline,
            "schedulers": self.table(),
            "units": {**UNITS, "ratio": f"1 ({self.measure.replace('_', ' ')} / that of {self.baseline})"},
        }

    def to_json(self) -> str:
        """`to_dict` as JSON; infinite and undefined numbers are null."""
        return to_json(self.to_dict())


def compare(
    scenario: Scenario,
    schedulers: Mapping[str, Scheduler],
    *,
    progress: Progress = False,
    baseline: str | None = None,
    bound: BoundKind = "fluid",
    threads: int = 1,
    time_limit: float | None = None,
    record: Record = False,
) -> Comparison:
    """Run each of `schedulers` on `scenario`, one after another.

    baseline : the name to compare with; default: see `default_baseline`.
    bound : the kind of lower bound to set maximum stretches over, ``"fluid"`` or ``"discrete"``.
    threads, time_limit, record : as in `simulate`.
    """
    if not isinstance(schedulers, Mapping):
        raise ScenarioError(f"schedulers must map names to Scheduler objects, got {schedulers!r}")
    for name, scheduler in schedulers.items():
        if not isinstance(scheduler, Scheduler):
            raise ScenarioError(f"schedulers[{name!r}] must be a Scheduler object, got {scheduler!r}")
    if not schedulers:
        raise ScenarioError("schedulers must name at least one, got none")
    if baseline is None:
        baseline = default_baseline(schedulers)
    elif baseline not in schedulers:
        raise ScenarioError(f"baseline must be one of {', '.join(schedulers)}, got {baseline!r}")
    check_bound(bound)
    results = {
        name: simulate(
            scenario, scheduler, progress=progress, threads=threads, time_limit=time_limit, record=record
        )
        for name, scheduler in schedulers.items()
    }
    return Comparison(scenario, results, baseline, bound)


def default_baseline(schedulers: Mapping[str, Scheduler]) -> str:
    """The one named ``mincent``, else the first that sees the whole grid, else the first.

    It depends on names and order alone, so that ratios of several runs have the same meaning.
    """
    if "mincent" in schedulers:
        return "mincent"
    central = [name for name, scheduler in schedulers.items() if not scheduler.decentralized]
    return next(iter(central or schedulers))


def _scalar(value: Any) -> bool:
    return isinstance(value, (str, bool, int, float))


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# -- schedulers by name ---------------------------------------------------------------------------------


def make_scheduler(name: str, parameters: Mapping[str, Any] | None = None) -> Scheduler:
    """The scheduler known as `name`, with `parameters`.

    Raises ScenarioError for an unknown name or parameter, a value that does not fit, with what is known, or
    one that contradicts a name which stands for another.
    """
    known = registered()
    if name not in known:
        raise ScenarioError(f"unknown scheduler {name!r}; known: {', '.join(known)}")
    cls, preset = known[name]
    for key, value in (parameters or {}).items():
        if name != cls.name and value != preset.get(key, value):
            raise ScenarioError(
                f"{name}.{key} must be {preset[key]!r}, for which the name stands, got {shown(value)}; "
                f"say {cls.name} for others"
            )
    return build_scheduler(cls, {**preset, **(parameters or {})}, name)


def import_scheduler(name: str, parameters: Mapping[str, Any] | None = None) -> Scheduler:
    """The scheduler class at module:Class, with `parameters`.

    Modules of the current directory are found too, after installed ones.  Raises ScenarioError for whatever
    goes wrong on the way.
    """
    try:
        found = imported(name)
    except (Exception, SystemExit) as error:  # whatever the module does wrong
        said = f"{type(error).__name__}: {error}{_place(error)}"
        raise ScenarioError(f"cannot import scheduler {name!r}: {said}") from error
    if not (isinstance(found, type) and issubclass(found, Scheduler)):
        raise ScenarioError(f"scheduler {name!r} must be a subclass of gridsim.Scheduler, got {found!r}")
    if found.start is Scheduler.start:
        raise ScenarioError(f"scheduler {name!r} must define start(run), {found.__name__} does not")
    return build_scheduler(found, parameters or {}, name)


def _place(error: BaseException) -> str:
    """Where a module of somebody else raised `error`; nothing if that was in the import itself."""
    if isinstance(error, SyntaxError):
        return ""  # it says so itself
    ours = (__file__, importing.__file__, importlib.__file__)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename not in ours and not frame.filename.startswith("<frozen "):
            return f" ({os.path.basename(frame.filename)}:{frame.lineno})"
    return ""


def scheduler_from(description: Mapping[str, Any], whose: str) -> Scheduler:
    """The scheduler that `gridsim.simulation.describe` told of, if it is one of those known by name.

    `whose` it is says the ScenarioError if it is not.
    """
    stated = description["class"]
    for cls, _ in registered().values():
        if f"{cls.__module__}:{cls.__qualname__}" == stated:
            return build_scheduler(cls, _given(description), cls.name)
    raise ScenarioError(
        f"the scheduler of {whose}, {description['name']!r}, is {stated}, which is not known by a name: "
        f"say --scheduler {stated} to import it"
    )


def import_described(name: str, description: Mapping[str, Any], whose: str) -> Scheduler:
    """The scheduler that `gridsim.simulation.describe` told of, imported as ``module:Class``.

    ScenarioError if that is another one than it tells of, and `whose` that is.
    """
    if name != (stated := description["class"]):
        raise ScenarioError(f"--scheduler must be {whose}'s, {stated}, got {name!r}")
    return import_scheduler(name, _given(description))


def _given(description: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in description["parameters"].items() if value is not None}


def build_scheduler(cls: type[Scheduler], parameters: Mapping[str, Any], name: str) -> Scheduler:
    """``cls(**parameters)``, each value converted to the type of its field; `name` is for the errors."""
    fields = {field.name: field for field in msgspec.structs.fields(cls)}
    values = {}
    for key, value in parameters.items():
        if key not in fields:
            known = ", ".join(fields) or "it has none"
            raise ScenarioError(f"{name}.{key} is not a parameter of this scheduler; known: {known}")
        try:
            values[key] = msgspec.convert(value, fields[key].type)
        except msgspec.ValidationError as error:
            if words := _words(fields[key].type):
                raise ScenarioError(f"{name}.{key} must be {words[0]}, got {shown(value)}") from error
            message = str(error)[:1].lower() + str(error)[1:]
            raise ScenarioError(f"{name}.{key} = {shown(value)}: {message}") from error
    missing = [key for key, field in fields.items() if field.required and key not in values]
    if missing:
        raise ScenarioError(f"{name}.{missing[0]} is missing, the scheduler has no default for it")
    try:
        return cls(**values)
    except GridSimError:
        raise
    except Exception as error:  # what the checks of somebody else's parameters raise
        raise ScenarioError(f"{name}: {type(error).__name__}: {error}") from error


_WORDS: dict[Any, tuple[str, str]] = {
    bool: ("true or false", "entries true or false"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a text", "texts"),
}


def _words(kind: Any) -> tuple[str, str] | None:
    """What a value of a type is called, and several of them; None for a type that has no simple name."""
    if kind in _WORDS:
        return _WORDS[kind]
    origin, entries = get_origin(kind), [entry for entry in get_args(kind) if entry is not Ellipsis]
    if origin is Literal:
        listed = ", ".join(map(repr, entries))
        return f"one of {listed}", f"entries of {listed}"
    if origin in (Union, UnionType):
        named = [_words(entry) for entry in entries if entry is not NoneType]
        some = [words for words in named if words is not None]
        if len(some) < len(named):
            return None
        return " or ".join(one for one, _ in some), " or ".join(several for _, several in some)
    if origin in (tuple, list) and entries and len(set(entries)) == 1 and (words := _words(entries[0])):
        count = "" if origin is list or Ellipsis in get_args(kind) else f"{len(entries)} "
        return f"a list of {count}{words[1]}", f"lists of {count}{words[1]}"
    return None
