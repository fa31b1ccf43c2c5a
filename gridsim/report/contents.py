"""The contents of a report, before they become HTML: sections of cards, tables, charts and texts."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridsim.errors import ScenarioError
from gridsim.model.scenario import Scenario
from gridsim.plots.scales import clock
from gridsim.report import charts, tables
from gridsim.report.figures import Chart
from gridsim.report.schedules import schedules
from gridsim.results.formats.job_logs import job_difference
from gridsim.results.metrics.registry import BoundKind, words
from gridsim.results.result import Result
from gridsim.scheduling.registry import command, scheduler_from
from gridsim.studies.comparison_table import about, cautions, columns_of, measure_of, rows_of, verdict
from gridsim.studies.replicate import Replicates
from gridsim.studies.sweep_result import SweepResult
from gridsim.studies.verdicts import of_replications
from gridsim.support.docstrings import first_paragraph
from gridsim.support.imports import names_code
from gridsim.support.parameters import changed_fields
from gridsim.support.references import INLINE, has_references

Results = Mapping[str, Result]

_DIFFERENT = "These results are of different scenarios, so that ratios do not tell of schedulers alone."
#: Lines on a run that have no card because they are shown elsewhere.
_NO_CARDS = {"platform", "workload", "log", "clock", "load", "scheduler", "reports"}
_NO_CARDS |= {"wall time", "peak memory", "digest"}


_SECONDS = re.compile(r"(?<![\w.,])(\d+\.?\d*(?:e[+-]?\d+)?) s(?![\w/])")


@dataclass(frozen=True)
class Card:
    """A number with its name and a note."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Code:
    """Text to be copied; it is folded away unless `shown`."""

    title: str
    text: str
    shown: bool = False


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading."""

    name: str
    title: str
    about: str = ""
    cards: Sequence[Card] = ()
    tables: Sequence[tables.TableView] = ()
    charts: Sequence[Chart] = ()
    codes: Sequence[Code] = ()


@dataclass(frozen=True)
class Page:
    """A whole report.

    Parameters
    ----------
    lead
        What was run: a term -> a line about it.
    """

    title: str
    lead: Mapping[str, str]
    sections: Sequence[Section]
    notes: Sequence[str] = field(default=())


def baseline_of(results: Results) -> str:
    """Return the name of the baseline among the results.

    It is ``mincent``, else the centralized scheduler that `default_baseline` chooses, else the first result.
    Unknown schedulers count as decentralized.
    """
    from gridsim.studies.compare import default_baseline

    known = {}
    for name, result in results.items():
        try:
            known[name] = scheduler_from(result.scheduler, name)
        except ScenarioError:
            continue
    if "mincent" in results or not known:
        return "mincent" if "mincent" in results else next(iter(results))
    chosen = default_baseline(known)
    return next(iter(results)) if known[chosen].decentralized else chosen


def of_results(
    results: Results,
    *,
    title: str | None = None,
    baseline: str | None = None,
    bound: BoundKind = "best",
    files: Mapping[str, str] | None = None,
) -> Page:
    """Return the page on one run or several.

    Raises ScenarioError for results that cannot be compared.

    Parameters
    ----------
    files
        Name -> file that contains the result.
    """
    names, every = list(results), list(results.values())
    first = every[0]
    base = baseline_of(results) if baseline is None else baseline
    measure_of(results)
    scenarios, comparable = _scenarios(results), _comparable(results)
    sections = [
        _summary(results, base, bound, comparable),
        Section(
            "applications",
            "Jobs" if first.rigid else "Applications",
            charts=_some(*charts.distributions(results), charts.over_size(results)),
            tables=tables.quantiles(results),
        ),
        Section("time", "Over time", charts=_some(*charts.over_time(results))),
        Section("machines", "Machines", charts=_some(charts.utilization(results), *schedules(results))),
        Section(
            "messages",
            "Messages and cycles" if any("cycles" in each.tables for each in every) else "Messages",
            about="" if any(each.messages["sent"].any() for each in every) else "No messages were sent.",
            charts=_some(*charts.traffic(results), charts.cycles(results)),
            tables=tables.messages(results),
        ),
        Section("facts", "Facts and parameters", tables=tables.facts(results)),
        Section(
            "scenario", "Scenario", codes=[Code(title, toml) for title, toml in scenarios.items() if toml]
        ),
        Section("provenance", "Provenance", tables=tables.provenance(results)),
        Section(
            "again",
            "Run it again",
            about=f"{_saving(scenarios.values())}; the same digest must come out.",
            codes=[
                _again(name, result, (files or {}).get(name))
                for name, result in results.items()
                if "scenario" in result.provenance
            ],
        ),
    ]
    notes = [] if comparable else [_DIFFERENT]
    lead = _lead(results, base, bound, comparable)
    count = len(first.machines)
    where = " compared" if len(names) > 1 else f" on {count} machine{'' if count == 1 else 's'}"
    return Page(title or _listed(names) + where, lead, [each for each in sections if _holds(each)], notes)


def of_replicates(
    found: Replicates,
    *,
    title: str | None = None,
    scenario: Scenario | None = None,
    command: str | None = None,
) -> Page:
    """Return the page on replications.  See `gridsim.report.html.write_report` for the parameters."""
    names = list(found.schedulers)
    said = of_replications(found)
    lead = {"result": said} if said else {}
    lead |= found.lines()
    if found.baseline is not None:
        lead["baseline"] = f"{found.baseline}, with which the others are paired, replication by replication"
    lead["compared by"] = words(found.measure)
    metrics = [tables.turned(title, columns) for title, columns in found.sections()]
    digests = {
        f"replication {seed}": {name: found.digests[name][k] or "failed" for name in found.digests}
        for k, seed in enumerate(found.seeds)
    }
    sections = [
        Section("summary", "Comparison", tables=metrics[:1], charts=_some(*charts.intervals(found))),
        Section("metrics", "Other metrics", tables=metrics[1:]),
    ]
    if found.digests:
        made = tables.by_run("Digests", digests, names, beside=len(names))
        sections.append(Section("digests", "Digests", tables=[made]))
    if found.files:
        sections.append(Section("provenance", "Provenance", tables=tables.files(found.files.items())))
    if scenario is not None:
        toml = scenario.to_archive().toml
        codes = [Code("What the replications are of", toml)]
        sections.append(Section("scenario", "Scenario", codes=codes))
        if command is not None:
            codes = [Code("All of them", command, shown=True)]
            sections.append(Section("again", "Run it again", about=f"{_saving([toml])}.", codes=codes))
    usual = f"{_listed(names)} over {len(found.seeds)} replications"
    return Page(title or usual, lead, [each for each in sections if _holds(each)], found.remarks())


def of_sweep(
    found: SweepResult,
    *,
    title: str | None = None,
    scenario: Scenario | None = None,
    command: str | None = None,
) -> Page:
    """Return the page on a sweep.  See `gridsim.report.html.write_report` for the parameters."""
    names, points = list(found.schedulers), len(list(found.points()))
    said = found.verdict()
    lead = {"result": said} if said else {}
    lead |= {axis: ", ".join(map(str, labels)) for axis, labels in found.axes.items()}
    lead["replications"] = f"{found.replicates} of each of {points} points"
    if found.baseline is not None:
        lead["baseline"] = f"{found.baseline}, with which the others are paired, replication by replication"
    shown = [tables.turned(found.title(metric), found.columns(metric)) for metric in found.metrics]
    sections = [
        Section("summary", "Comparison", tables=shown[:1], charts=_some(*charts.swept(found))),
        Section("metrics", "Other metrics", tables=shown[1:]),
    ]
    if scenario is not None:
        codes = [Code("What the sweep changes", scenario.to_archive().toml)]
        sections.append(Section("scenario", "Scenario", codes=codes))
    if command is not None:
        sections.append(Section("again", "Run it again", codes=[Code("All of it", command, shown=True)]))
    usual = f"{_listed(names)} over {_listed(list(found.axes))}" if found.axes else _listed(names)
    notes = [f"failed: {error}" for error in found.errors]
    return Page(title or usual, lead, [each for each in sections if _holds(each)], notes)


# -- parts ------------------------------------------------------------------------------------------------


def _lead(results: Results, baseline: str, bound: BoundKind, comparable: bool) -> dict[str, str]:
    said = verdict(results, rows_of(results, baseline, bound)) if comparable else ""
    lead = ({"result": said} if said else {}) | about(results, baseline)
    if not comparable:
        lead = {"baseline": lead["baseline"]}
    lead = {key: _in_clock(line) for key, line in lead.items()}
    if len(results) == 1:
        del lead["baseline"]
        lead |= {"scheduler": line} if (line := "".join(_schedulers(results))) else {}
        return lead | {"digest": next(iter(results.values())).digest}
    if len(results) > tables.BESIDE:  # the table has the digests
        return lead
    return lead | {"digests": ", ".join(f"{name} {each.digest[:16]}" for name, each in results.items())}


def _summary(results: Results, baseline: str, bound: BoundKind, comparable: bool) -> Section:
    if len(results) == 1:
        name, result = next(iter(results.items()))
        return Section("summary", "Summary", cards=_cards(result, name, bound))
    rows = rows_of(results, baseline, bound)
    columns = columns_of(results, rows, baseline, bound, verbose=True)
    notes = [*_schedulers(results), *cautions(results, rows, bound)]
    shown = [tables.turned("Schedulers compared", tables.in_clock(columns), notes)]
    if not comparable:
        lines = {name: result.describe_scenario() for name, result in results.items()}
        keys = next(iter(lines.values()))
        each = {key: {name: line[key] for name, line in lines.items()} for key in keys}
        shown.append(tables.by_run("Scenarios", each, list(results)))
    return Section("summary", "Comparison", tables=shown, charts=_some(charts.compared(results, baseline)))


def _schedulers(results: Results) -> list[str]:
    """Return a line on what each scheduler is, as in `gridsim list schedulers`, of those known by name."""
    lines = []
    for name, result in results.items():
        try:
            scheduler = scheduler_from(result.scheduler, name)
        except ScenarioError:
            continue
        values = ", ".join(f"{key}={value}" for key, value in changed_fields(scheduler).items())
        about = first_paragraph(type(scheduler)).partition("  ")[0]
        lines.append(f"{name}: with {values}: {about}" if values else f"{name}: {about}")
    return lines


def _in_clock(line: str) -> str:
    """Return a line with long times in h or days, as charts have them."""

    def shown(match: re.Match[str]) -> str:
        factor, unit = clock(float(match[1]))
        return match[0] if factor == 1.0 else f"{float(match[1]) / factor:.4g} {unit}"

    return _SECONDS.sub(shown, line)


def _cards(result: Result, name: str, bound: BoundKind) -> list[Card]:
    """Return a card for each line that `gridsim run` prints; brackets at the end of a line become a note."""
    cards = []
    for key, line in result.lines(name, bound).items():
        if key in _NO_CARDS:
            continue
        line = _in_clock(line)
        value, bracket, note = line.partition(" (")
        whole = bracket and note.endswith(")") and "(" not in note and ")" not in note[:-1]
        cards.append(Card(key, value, note[:-1]) if whole else Card(key, line))
    return cards


def _scenarios(results: Results) -> dict[str, str]:
    """Return title -> TOML of each different scenario; only one if all runs have the same."""
    found: dict[str, list[str]] = {}
    for name, result in results.items():
        found.setdefault(result.provenance.get("scenario", ""), []).append(name)
    if len(found) == 1:
        return {"scenario.toml": next(iter(found))}
    return {f"scenario.toml of {_listed(of)}": toml for toml, of in found.items()}


#: Tables of a scenario that are the same for runs that are compared, apart from platform and workload.
_CONDITIONS = ("network", "faults", "fluctuation")


def _comparable(results: Results) -> bool:
    """Whether all results are of the same jobs on the same machines, under the same conditions.

    The schedule of a job log states no conditions.
    """
    first, *others = results.values()
    if len({result.provenance.get("scenario", "") for result in results.values()}) == 1:
        return True
    runs = [result.provenance.get("scenario", "") for result in results.values() if not result.of_log]
    conditions = [{key: tomllib.loads(toml).get(key) for key in _CONDITIONS} for toml in runs]
    return all(each == conditions[0] for each in conditions[1:]) and not any(
        job_difference(first, other) for other in others
    )


def _saving(scenarios: Iterable[str]) -> str:
    """Return how to save the scenarios (TOML) that the page shows, as a sentence without its full stop."""
    tables = [tomllib.loads(toml) for toml in scenarios]
    if any(map(has_references, tables)):
        return (
            "Write scenario.toml with Result.scenario.save, as the text above only names its lists of more "
            f"than {INLINE} entries, by their SHA-256"
        )
    paths = {
        part["path"]: None
        for each in tables
        for part in each.values()
        if isinstance(part, dict) and not os.path.isabs(part.get("path", "/"))
    }
    where = f", in the folder from which {_listed(list(paths))} can be found" if paths else ""
    return f"Save the scenario above as scenario.toml{where}"


def _again(name: str, result: Result, file: str | None) -> Code:
    """Return the commands that run a result again."""
    if result.of_log:
        return Code(name, "# the schedule that a log tells of itself: no scheduler made it", shown=True)
    stated, given = result.scheduler["class"], result.scheduler["parameters"]
    imports = [code for value in given.values() if (code := names_code(value)) is not None]
    repro = "".join(f" --import {shlex.quote(code)}" for code in imports)
    try:
        line = command("scenario.toml", scheduler_from(result.scheduler, name, imports=imports))
    except ScenarioError:
        words = ["gridsim", "run", "scenario.toml", "--scheduler", stated]
        for key, value in given.items():
            words += ["--set", f"{stated}.{key}={tables.text(value)}"] if value is not None else []
        line = shlex.join(words)
        repro = f" --scheduler {shlex.quote(stated)}{repro}"
    lines = [f"{line}  # digest {result.digest[:16]}..."]
    if file is not None:
        lines.append(f"gridsim repro {shlex.quote(file)}{repro}")
    return Code(name, "\n".join(lines), shown=True)


def _listed(names: Sequence[str], most: int = 4) -> str:
    """Return names as a list, "a, b and c"; of more than `most`, the first ones and how many more."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _some(*found: Chart | None) -> list[Chart]:
    """Return the charts in which anything is drawn."""
    return [chart for chart in found if chart is not None and chart.holds]


def _holds(section: Section) -> Iterable[Any]:
    return section.cards or section.tables or section.charts or section.codes
