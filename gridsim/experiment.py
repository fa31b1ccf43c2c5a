"""compare(): several schedulers on one scenario, and the table that sets them side by side."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import msgspec

from gridsim.errors import ScenarioError
from gridsim.records import align, to_json
from gridsim.results import UNITS, BoundKind, Result, check_bound
from gridsim.scenario import Scenario
from gridsim.scheduler import Scheduler, registered
from gridsim.simulation import Progress, simulate


@dataclass(frozen=True)
class Comparison:
    """Results of several schedulers on one scenario.

    results : name -> `Result`, in the order in which they ran.
    baseline : the name whose maximum stretch counts as 1.
    bound : the kind of lower bound that the table sets maximum stretches over; see `Result.bound`.
    """

    scenario: Scenario
    results: Mapping[str, Result]
    baseline: str
    bound: BoundKind = "fluid"

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    def ratio(self, name: str) -> float:
        """Maximum stretch of `name` relative to the baseline's."""
        return self.results[name].max_stretch / self.results[self.baseline].max_stretch

    def table(self) -> list[dict[str, Any]]:
        """A row per scheduler: its name here, the ratio to the baseline, and `Result.summary`."""
        return [
            {"name": name, "ratio": self.ratio(name), **result.summary(self.bound)}
            for name, result in self.results.items()
        ]

    def format(self) -> str:
        """Platform, workload and load; the table as aligned text; what each scheduler reports of itself."""
        rows = self.table()
        largest = max(row["max_stretch"] for row in rows)
        exponent = -8  # as the fair-tree papers print it, unless that makes long numbers
        while largest / 10.0**exponent >= 1e6:
            exponent += 3
        unit = f"1e{exponent} s/Mflop"
        columns = [["scheduler", "", *(row["name"] for row in rows)]]
        for title, below, cell in (
            ("completed", "tasks", lambda row: self._completed(row["name"])),
            ("max stretch", unit, lambda row: f"{row['max_stretch'] / 10.0**exponent:.5g}"),
            ("mean", f"1e{exponent}", lambda row: f"{row['mean_stretch'] / 10.0**exponent:.5g}"),
            ("relative", f"to {self.baseline}", lambda row: f"{row['ratio']:.3f}"),
            ("over the", f"{self.bound} bound", lambda row: f"{row['gap']:.3f}" if row["gap"] else "-"),
            ("S * s_agg", "max", lambda row: f"{row['max_stretch_agg']:.5g}"),
            ("makespan", "s", lambda row: f"{row['makespan']:.1f}"),
            ("busy", "%", lambda row: f"{100 * row['utilization']:.1f}"),
            ("messages", "", lambda row: f"{row['messages']}"),
            ("traffic", "MB", lambda row: f"{row['bytes'] / 1e6:.2f}"),
            ("wall", "s", lambda row: f"{row['wall_seconds'] or math.nan:.2f}"),
            ("digest", "", lambda row: row["digest"][:16]),
        ):
            columns.append([title, below, *map(cell, rows)])
        about = next(iter(self.results.values())).describe_scenario()
        lines = [*(f"{key:<8}  {value}" for key, value in about.items()), "", *align(columns, left=1), ""]
        for row in rows:
            facts = (f"{key} {_short(value)}" for key, value in row["facts"].items() if _scalar(value))
            if said := ", ".join(facts):
                lines.append(f"{row['name']}: {said}")
        return "\n".join(lines).rstrip()

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
            "units": {**UNITS, "ratio": f"1 (max stretch / that of {self.baseline})"},
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
) -> Comparison:
    """Run each of `schedulers` on `scenario`, one after another.

    baseline : the name to compare with; default: the smallest maximum stretch among the schedulers that see
        the whole grid, or among all when none does.
    bound : the kind of lower bound to set maximum stretches over, ``"fluid"`` or ``"discrete"``.
    """
    if not schedulers:
        raise ScenarioError("schedulers must name at least one, got none")
    if baseline is not None and baseline not in schedulers:
        raise ScenarioError(f"baseline must be one of {', '.join(schedulers)}, got {baseline!r}")
    check_bound(bound)
    results = {
        name: simulate(scenario, scheduler, progress=progress) for name, scheduler in schedulers.items()
    }
    if baseline is None:
        central = [name for name in schedulers if not schedulers[name].decentralized]
        baseline = min(central or schedulers, key=lambda name: results[name].max_stretch)
    return Comparison(scenario, results, baseline, bound)


def _scalar(value: Any) -> bool:
    return isinstance(value, (str, bool, int, float))


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# -- schedulers by name ---------------------------------------------------------------------------------


def make_scheduler(name: str, parameters: Mapping[str, Any] | None = None) -> Scheduler:
    """The scheduler known as `name`, with `parameters` in place of its presets.

    Raises ScenarioError for an unknown name or parameter, or a value that does not fit, with what is known.
    """
    known = registered()
    if name not in known:
        raise ScenarioError(f"unknown scheduler {name!r}; known: {', '.join(known)}")
    cls, preset = known[name]
    return build_scheduler(cls, {**preset, **(parameters or {})}, name)


def import_scheduler(name: str, parameters: Mapping[str, Any] | None = None) -> Scheduler:
    """The scheduler class at module:Class, with `parameters`.

    Modules of the current directory are found too, after installed ones.  Raises ScenarioError for whatever
    goes wrong on the way.
    """
    module, _, attribute = name.partition(":")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever the module does wrong
        raise ScenarioError(f"cannot import scheduler {name!r}: {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Scheduler)):
        raise ScenarioError(f"scheduler {name!r} must be a subclass of gridsim.Scheduler, got {found!r}")
    return build_scheduler(found, parameters or {}, name)


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
            message = str(error)[:1].lower() + str(error)[1:]
            raise ScenarioError(f"{name}.{key} = {value!r}: {message}; known: {', '.join(fields)}") from error
    missing = [key for key, field in fields.items() if field.required and key not in values]
    if missing:
        raise ScenarioError(f"{name}.{missing[0]} is missing, the scheduler has no default for it")
    return cls(**values)
