"""The content of a report as data: sections with cards, tables, charts and texts."""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from gridsim.errors import ScenarioError
from gridsim.model.scenario import Scenario
from gridsim.plots.animation.player import animate
from gridsim.report import charts, tables
from gridsim.report.charts import Results
from gridsim.report.draw import draw
from gridsim.report.figures import PlotlyChart
from gridsim.report.schedules import schedules
from gridsim.results.comparability import job_difference
from gridsim.results.metrics.registry import BoundKind
from gridsim.results.result import Result
from gridsim.results.text import waiting_unit
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.registry import command, scheduler_from, setting_text
from gridsim.studies.comparison_table import (
    Row,
    cautions,
    comparison_table,
    context_lines,
    is_one_queue,
    measure_of,
    names_without_rank,
    rows_of,
    scheduler_results,
    values_by_run,
    verdict,
)
from gridsim.studies.overview import TextTable, enumeration
from gridsim.studies.study import Study
from gridsim.support.imports import first_code_name
from gridsim.support.parameters import MACHINES_OR_CORES, Limits, changed_fields, limits_of
from gridsim.support.references import MAX_INLINE, has_references
from gridsim.support.text import number_text, time_text

_DIFFERENT_SCENARIOS = (
    "These results come from different scenarios, so differences may come from the scenarios as well as from "
    "the schedulers."
)
#: Lines of a run's summary without a card, since other sections show them.
_NO_CARDS = {
    "platform",
    "workload",
    "log",
    "period",
    "clock",
    "unfinished",
    "load",
    "draw",
    "scheduler",
    "reports",
    "wall time",
    "peak memory",
    "digest",
}
#: Lines of a lead that are not folded.
_SHORT_LEAD = ("result", "scenario", "platform", "log", "workload", "period", "scheduler")
#: Largest size of an animation in a report, in characters.
_MAX_ANIMATION = 300_000
#: Sentences on the terms of reports on rigid jobs.
_TERMS = (
    "load: the machine time that the jobs need, over that of all machines from the first to the last "
    "release; above 1, the queue grows until the last release",
    "offered busy: the share of all machine time from the first to the last release in which jobs ran, "
    "without runs that failures cut off",
    "to end busy: the same until the last job ended, with those runs; it depends on how long the "
    "last jobs ran",
)
#: Lines on the scenarios of results that begin a report, even if results have different scenarios.
_SCENARIO_KEYS = ("platform", "workload", "load")


@dataclass(frozen=True)
class Card:
    """A number with its name and a note."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Code:
    """Text for copying, collapsed unless `is_open`."""

    title: str
    text: str
    is_open: bool = False


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Parameters
    ----------
    name
        The id of its HTML element, to which links lead.
    title
        Its heading.
    """

    name: str
    title: str
    text: str = ""
    cards: Sequence[Card] = ()
    tables: Sequence[TextTable] = ()
    charts: Sequence[PlotlyChart] = ()
    animations: Sequence[str] = ()
    codes: Sequence[Code] = ()


@dataclass(frozen=True)
class Page:
    """The content of a report.

    Parameters
    ----------
    title
        Heading of the page.
    lead
        Summary of the runs: term -> line of text.
    notes
        Sentences below the lead that a reader must not miss.
    """

    title: str
    lead: Mapping[str, str]
    sections: Sequence[Section]
    notes: Sequence[str] = ()

    @property
    def short_lead(self) -> list[tuple[str, str]]:
        """The lines on what was run and on its result, which are always visible."""
        return [(key, line) for key, line in self.lead.items() if key in _SHORT_LEAD]

    @property
    def further_lead(self) -> list[tuple[str, str]]:
        """The other lines, which are folded."""
        return [(key, line) for key, line in self.lead.items() if key not in _SHORT_LEAD]


def baseline_of(results: Results) -> str:
    """Return the name of the baseline among the results.

    It is ``mincent``, else the centralized scheduler that `default_baseline` chooses, else the first result.
    Unknown schedulers count as decentralized.
    """
    from gridsim.studies.compare import default_baseline

    schedulers = {}
    for name, result in results.items():
        try:
            schedulers[name] = scheduler_from(result.scheduler, name)
        except ScenarioError:
            continue
    first = next(iter(scheduler_results(results)))
    if "mincent" in results or not schedulers:
        return "mincent" if "mincent" in results else first
    baseline = default_baseline(schedulers)
    return first if schedulers[baseline].decentralized else baseline


def of_results(
    results: Results,
    *,
    title: str | None = None,
    baseline: str | None = None,
    bound: BoundKind = "best",
    files: Mapping[str, str] | None = None,
    remarks: Sequence[str] = (),
    further: Sequence[TextTable] = (),
    is_comparable: bool | None = None,
) -> Page:
    """Return the page on one or several results.

    Parameters
    ----------
    is_comparable
        Whether differences between results are those of the schedulers, or of scenarios that are meant to be
        compared; None if that depends on the scenarios.
    remarks
        Sentences below the comparison.
    further
        Tables below the comparison.
    files
        Name -> file that contains the result.

    Raises
    ------
    ScenarioError
        If some results are of rigid jobs and others of bags.
    """
    runs, schedulers = list(results.values()), scheduler_results(results)
    first = runs[0]
    base = baseline_of(results) if baseline is None else baseline
    measure_of(results)  # raises the error on rigid jobs and bags
    scenarios = _scenarios(results)
    comparable = _are_comparable(results) if is_comparable is None else is_comparable
    rows = rows_of(results, base, bound)
    summary = _summary(results, rows, base, bound, comparable, remarks, further)
    distributions = _with_data(*charts.distributions(results, names_without_rank(results, rows)))
    if not summary.charts:
        summary, distributions = replace(summary, charts=distributions[:1]), distributions[1:]
    sections = [
        summary,
        Section(
            "jobs" if first.rigid else "applications",
            "Jobs" if first.rigid else "Applications",
            charts=[*distributions, *_with_data(charts.over_size(results))],
            tables=tables.quantiles(results),
        ),
        Section("time", "Over time", charts=_with_data(*charts.over_time(results))),
        Section("animation", "Animation", animations=_animations(runs)),
        Section("machines", "Machines", charts=_with_data(charts.utilization(results), *schedules(results))),
        Section(
            "messages",
            "Messages and cycles" if any("cycles" in run.tables for run in runs) else "Messages",
            text="" if any(run.messages["sent"].any() for run in runs) else "No messages were sent.",
            charts=_with_data(*charts.traffic(results), charts.cycles(results)),
            tables=tables.messages(results),
        ),
        Section("facts", "Facts and parameters", tables=tables.facts(schedulers)),
        Section(
            "scenario", "Scenario", codes=[Code(title, toml) for title, toml in scenarios.items() if toml]
        ),
        Section("provenance", "Provenance", tables=tables.provenance(results)),
        Section(
            "again",
            "Run it again",
            text=f"{_saving_instructions(scenarios.values())}.  The commands must report the same digest.",
            codes=[
                _repeat_commands(name, result, (files or {}).get(name))
                for name, result in schedulers.items()
                if "scenario" in result.provenance
            ],
        ),
    ]
    notes = [] if comparable else [_DIFFERENT_SCENARIOS]
    lead = _lead(results, rows, base, comparable)
    count = len(first.machines)
    suffix = " compared" if len(runs) > 1 else f" on {count} machine{'' if count == 1 else 's'}"
    names = [*schedulers, *(["the schedule in the log"] if len(schedulers) < len(runs) else [])]
    return Page(
        title or enumeration(names) + suffix,
        lead,
        [section for section in sections if _has_content(section)],
        notes,
    )


def of_study(
    study: Study,
    *,
    title: str | None = None,
    scenario: Scenario | None = None,
    command: str | None = None,
) -> Page:
    """Return the page on a study, with the parameters of `gridsim.report.html.write_report`."""
    overview = study.overview(full=True)
    tables, further = overview.tables[:1], overview.tables[1:]  # none if all runs failed
    tables = [replace(table, notes=[*table.notes, *overview.remarks]) for table in tables]
    drawn = [draw(chart) for row in study.charts(full=True) for chart in row]
    sections = [
        Section("summary", "Comparison", tables=tables, charts=_with_data(*drawn)),
        Section("metrics", "Other metrics", tables=further),
        Section("provenance", "Provenance", tables=overview.records),
    ]
    instructions = ""
    if scenario is not None:
        toml = scenario.to_archive().toml
        codes = [Code(study.scenario_title, toml)]
        sections.append(Section("scenario", "Scenario", codes=codes))
        if study.scenario_title == "scenario.toml":  # the command reads the file
            instructions = f"{_saving_instructions([toml])}."
    if command is not None:
        codes = [Code("The whole study", command, is_open=True)]
        sections.append(Section("again", "Run it again", text=instructions, codes=codes))
    return Page(
        title or overview.title,
        ({"result": overview.conclusion} if overview.conclusion else {}) | dict(overview.facts),
        [section for section in sections if _has_content(section)],
        overview.failures,
    )


# -- parts ------------------------------------------------------------------------------------------------


def _lead(results: Results, rows: Sequence[Row], baseline: str, comparable: bool) -> dict[str, str]:
    verdict_text = verdict(results, rows) if comparable else ""
    lead = ({"result": verdict_text} if verdict_text else {}) | context_lines(results, baseline)
    if not comparable:
        lines_of = {name: result.describe_scenario() for name, result in results.items()}
        lead = {key: values_by_run(lines_of, key) for key in _SCENARIO_KEYS} | {"baseline": lead["baseline"]}
    results, count = scheduler_results(results), len(results)
    if count == 1:
        (result,) = results.values()
        del lead["baseline"]
        lead = {"result": _outcome(result)} | lead
        lead |= {"scheduler": line} if (line := "".join(_schedulers(results))) else {}
        return lead if result.of_log else lead | {"digest": result.digest}
    # the table of digests shows them as well
    if len(results) > tables.MAX_COLUMNS or measure_of(results) == "mean_waiting":
        return lead
    return lead | {"digests": ", ".join(f"{name} {result.digest[:16]}" for name, result in results.items())}


def _outcome(result: Result) -> str:
    """Return a sentence on the mean waiting time or the maximum stretch of a run, and on its makespan."""
    text = f"The max stretch is {number_text(result.max_stretch_agg)}"
    if result.rigid:
        length, unit = waiting_unit([result])
        text = f"Jobs wait for {number_text(result.mean_waiting / length)} {unit} on average"
    return f"{text}, and the makespan is {time_text(result.makespan)}."


def _summary(
    results: Results,
    rows: Sequence[Row],
    baseline: str,
    bound: BoundKind,
    comparable: bool,
    remarks: Sequence[str],
    further: Sequence[TextTable],
) -> Section:
    if len(results) == 1:
        name, result = next(iter(results.items()))
        text = "  ".join(f"{remark[0].upper()}{remark[1:]}." for remark in remarks)
        return Section("summary", "Summary", text=text, cards=_cards(result, name, bound), tables=further)
    table = comparison_table(
        results,
        rows,
        baseline,
        bound,
        caption="Schedulers compared",
        verbose=True,
        identity=measure_of(results) != "mean_waiting",
    )
    terms = _TERMS if results[baseline].rigid else ()
    notes = [*_schedulers(results), *terms, *cautions(results, rows, bound), *remarks]
    views = [replace(table, notes=notes), *further]
    if not comparable:
        lines = {name: result.describe_scenario() for name, result in results.items()}
        keys = dict.fromkeys(key for line in lines.values() for key in line)
        scenario_lines = {
            key: {name: line[key] for name, line in lines.items() if key in line}
            for key in keys
            if len({line.get(key) for line in lines.values()}) > 1
        }
        views.append(tables.table_by_run("Scenarios", scenario_lines, list(results)))
    return Section(
        "summary", "Comparison", tables=views, charts=_with_data(charts.comparison(results, rows, baseline))
    )


def _schedulers(results: Results) -> list[str]:
    """Return a line per known scheduler of the results: its parameters and its summary.

    The parameters are those that differ from their defaults, or between schedulers of one class.  A single
    queue for the machines of several sites is said to be one cluster.
    """
    schedulers: dict[str, Scheduler] = {}
    for name, result in results.items():
        with suppress(ScenarioError):
            schedulers[name] = scheduler_from(result.scheduler, name)
    changes: dict[type[Scheduler], dict[str, None]] = {}
    for scheduler in schedulers.values():
        changes.setdefault(type(scheduler), {}).update(dict.fromkeys(changed_fields(scheduler)))
    lines = []
    for name, scheduler in schedulers.items():
        parameters, limits = results[name].scheduler["parameters"], limits_of(type(scheduler))
        values = ", ".join(
            f"{key} = {_with_unit(parameters.get(key), _unit_in_run(limits.get(key), results[name]))}"
            for key in changes[type(scheduler)]
        )
        summary = scheduler.summary
        if is_one_queue(results[name]) and _has_sites(results[name]):
            summary += "  All sites are one cluster."
        title = f"{name} ({values})" if values else name
        lines.append(f"{title}: {summary}" if summary else title)
    return lines


def _unit_in_run(limits: Limits | None, result: Result) -> str:
    """Return the unit of a parameter with these limits in the run of a result; "" without one."""
    unit = "" if limits is None else limits.unit
    if unit == MACHINES_OR_CORES:
        return "cores" if {"cores", "gpus"} & set(result.machines) else "machines"
    return unit


def _with_unit(value: Any, unit: str) -> str:
    """Return the value of a parameter with its unit if it is a number, or if it has numbers."""
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    are_numbers = entries and all(isinstance(entry, (int, float)) for entry in entries)
    return f"{tables.text(value)} {unit}" if are_numbers and unit else tables.text(value)


def _has_sites(result: Result) -> bool:
    """Return whether the machines of a result belong to sites."""
    platform = tomllib.loads(result.provenance.get("scenario", "")).get("platform", {})
    return bool(platform.get("kind") == "sites")


def _cards(result: Result, name: str, bound: BoundKind) -> list[Card]:
    """Return a card for each line that `gridsim run` prints; brackets at the end of a line become a note."""
    cards = []
    for key, line in result.lines(name, bound).items():
        if key in _NO_CARDS:
            continue
        value, bracket, note = line.partition(" (")
        has_note = bracket and note.endswith(")") and "(" not in note and ")" not in note[:-1]
        cards.append(Card(key, value, note[:-1]) if has_note else Card(key, line))
    return cards


def _scenarios(results: Results) -> dict[str, str]:
    """Return title -> TOML of each distinct scenario."""
    names_of: dict[str, list[str]] = {}
    for name, result in scheduler_results(results).items():
        names_of.setdefault(result.provenance.get("scenario", ""), []).append(name)
    if len(names_of) == 1:
        return {"scenario.toml": next(iter(names_of))}
    return {f"scenario.toml of {enumeration(names)}": toml for toml, names in names_of.items()}


#: Tables of a scenario, besides platform and workload, that must be equal for results to be comparable.
_CONDITIONS = ("network", "faults", "fluctuation")


def _are_comparable(results: Results) -> bool:
    """Return whether all results have the same jobs, machines and conditions.

    The schedule of a job log states no conditions, and is comparable under any.
    """
    first, *other_results = results.values()
    if len({result.provenance.get("scenario", "") for result in results.values()}) == 1:
        return True
    runs = [result.provenance.get("scenario", "") for result in results.values() if not result.of_log]
    conditions = [{key: tomllib.loads(toml).get(key) for key in _CONDITIONS} for toml in runs]
    return all(condition == conditions[0] for condition in conditions[1:]) and not any(
        job_difference(first, result) for result in other_results
    )


def _saving_instructions(scenarios: Iterable[str]) -> str:
    """Return instructions to save the scenarios (TOML) of the page, as a sentence without its full stop."""
    tables = [tomllib.loads(toml) for toml in scenarios]
    if any(map(has_references, tables)):
        return (
            "Write scenario.toml with Result.scenario.save, since the text above has only the SHA-256 of "
            f"lists with more than {MAX_INLINE} entries"
        )
    paths = {
        part["path"]: None
        for table in tables
        for part in table.values()
        if isinstance(part, dict) and not os.path.isabs(part.get("path", "/"))
    }
    suffix = f", in the folder from which {enumeration(list(paths))} can be found" if paths else ""
    return f"Save the scenario above as scenario.toml{suffix}"


def _repeat_commands(name: str, result: Result, file: str | None) -> Code:
    """Return the commands that repeat the run of a result."""
    if result.of_log:
        return Code(name, "# the schedule in a job log; it cannot be repeated", is_open=True)
    class_name, parameters = result.scheduler["class"], result.scheduler["parameters"]
    imports = [code for value in parameters.values() if (code := first_code_name(value)) is not None]
    repro = "".join(f" --import {shlex.quote(code)}" for code in imports)
    try:
        line = command("scenario.toml", scheduler_from(result.scheduler, name, imports=imports))
    except ScenarioError:
        arguments = ["gridsim", "run", "scenario.toml", "--scheduler", class_name]
        for key, value in parameters.items():
            arguments += ["--set", f"{class_name}.{key}={setting_text(value)}"] if value is not None else []
        line = shlex.join(arguments)
        repro = f" --scheduler {shlex.quote(class_name)}{repro}"
    lines = [f"{line}  # digest {result.digest[:16]}..."]
    if file is not None:
        lines.append(f"gridsim repro {shlex.quote(file)}{repro}")
    return Code(name, "\n".join(lines), is_open=True)


def _animations(runs: Sequence[Result]) -> list[str]:
    """Return the animation of a single recorded run as HTML, if it is not too large."""
    if len(runs) > 1 or len(runs[0].tables.get("schedule", ())) == 0:
        return []
    player = animate(runs[0]).player()
    return [player] if len(player) <= _MAX_ANIMATION else []


def _with_data(*candidates: PlotlyChart | None) -> list[PlotlyChart]:
    """Return the charts that are not None and have data."""
    return [chart for chart in candidates if chart is not None and chart.has_data]


def _has_content(section: Section) -> bool:
    """Return whether a section has more than its heading and a text."""
    return any((section.cards, section.tables, section.charts, section.animations, section.codes))
