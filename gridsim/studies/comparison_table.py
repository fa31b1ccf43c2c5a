"""Rows and columns of the table that compares several schedulers, for all places where it is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.applications import Applications
from gridsim.model.rigid_logs import NO_REQUESTS
from gridsim.optimization.bounds import BOUND_LIMIT
from gridsim.results.comparability import has_equal_jobs, job_difference, rejected_jobs, rejects_others
from gridsim.results.metrics.energy import JOULES_PER_KWH
from gridsim.results.metrics.formulas import SLOWDOWN, load_of_whole_machines
from gridsim.results.metrics.registry import BoundKind
from gridsim.results.result import Result
from gridsim.results.text import (
    LOOSE,
    NOT_RANKED,
    UNKNOWN,
    draw_lines,
    interruption_text,
    machine_noun,
    waiting_unit,
)
from gridsim.studies.overview import (
    NOT_CHARGED,
    TextTable,
    convert_times,
    enumeration,
    queue_order_lines,
    short_text,
    value_text,
)
from gridsim.studies.size_effect import size_effect
from gridsim.studies.verdicts import (
    SMALL_SHARE,
    by_cores,
    of_one_run,
    reference_text,
    rejection_reasons,
    wait_limit,
)
from gridsim.support.text import DIGITS, number_text, time_text, to_json

Row = dict[str, Any]
#: Entry of a summary -> its name in tables of numbers, as on the screen.
_NUMERIC_NAMES = {"failed": "rejected", "terminated": "killed"}
# A column: its head, its unit, and a function that returns the text for a row of `rows_of`.
_Cells = tuple[str, str, Callable[[Row], str]]

#: Two means of waiting times, which may rank schedulers in different orders.
BY_JOBS, BY_CORES = "mean_waiting", "mean_waiting_by_cores"
#: Largest number of decisions without summaries that is normal: the first ones precede any summary.
_STARTING = 4
#: Largest relative difference of the ends of runs whose energies are compared without a remark.
_SMALL_DIFFERENCE = 0.01
#: Resubmissions per task from which on an application is named: its tasks take longer than machines stay up.
_MANY_RESUBMISSIONS = 100
#: Entries of a summary that the schedule of a job log does not have.
NOT_OF_LOGS = ("messages", "dropped", "bytes", "wall_seconds", "peak_memory", "digest")
_NOT_OF_LOG_ROWS = (*NOT_OF_LOGS, "failed", "request_utilization")
#: Columns that are left out first, in this order, where the terminal is too narrow for all; those of rigid
#: jobs.
DISPENSABLE = ("traffic", "busy", "over")
_RIGID_DISPENSABLE = ("traffic", "makespan", "to end")


def scheduler_results(results: Mapping[str, Result]) -> Mapping[str, Result]:
    """Return the results of schedulers, without schedules of job logs; all if there are no others."""
    return {name: result for name, result in results.items() if not result.of_log} or results


def measure_of(results: Mapping[str, Result]) -> str:
    """Return the metric by which schedulers are compared.

    It is mean_waiting for rigid jobs, mean_turnaround for jobs that may move, mean_completion for work
    queues, and max_stretch otherwise.

    Raises ScenarioError if only some of the results are for rigid jobs.
    """
    kinds = {result.rigid for result in results.values()}
    if len(kinds) > 1:
        raise ScenarioError("results must all be of rigid jobs or all of bags to be compared, got both")
    if kinds == {True}:
        return "mean_waiting"
    for table, measure in (("jobs", "mean_turnaround"), ("cycles", "mean_completion")):
        if all(table in result.tables for result in results.values()):
            return measure
    return "max_stretch"


def ratio_of(results: Mapping[str, Result], name: str, baseline: str) -> float:
    """Return the ratio of the metric of comparison of `name` to the baseline (NaN if both are 0)."""
    measure = measure_of(results)
    own_value, other = (getattr(results[each], measure) for each in (name, baseline))
    if other:
        return float(own_value / other)
    return math.inf if own_value else math.nan


def rows_of(results: Mapping[str, Result], baseline: str, bound: BoundKind) -> list[Row]:
    """Return one row per scheduler: its name here, the ratio to the baseline, and `Result.summary`."""
    kinds = {result.kind_of_bound() for result in scheduler_results(results).values()}
    if bound == "best" and kinds != {"discrete"}:
        bound = "preemptive"  # one bound for all, which holds for all
    return [
        {"name": name, "ratio": ratio_of(results, name, baseline), **result.summary(bound)}
        for name, result in results.items()
    ]


def values_by_run(lines_of: Mapping[str, Mapping[str, str]], key: str) -> str:
    """Return the line `key` of runs: each value, with the names of its runs if they differ.

    Parameters
    ----------
    lines_of
        Name of a run -> the lines on its scenario, by key.
    """
    names_of: dict[str, list[str]] = {}
    for name, lines in lines_of.items():
        names_of.setdefault(lines.get(key, "-"), []).append(name)
    if len(names_of) == 1:
        return next(iter(names_of))
    return "; ".join(f"{enumeration(names)}: {line}" for line, names in names_of.items())


def scenario_facts(
    lines_of: Mapping[str, Mapping[str, str]], estimates: Mapping[str, str], baseline: str
) -> dict[str, str]:
    """Return lines by key: platform, workload, load (by run if they differ), known times and the baseline.

    Parameters
    ----------
    lines_of
        Name of a run -> the lines on its scenario, by key.
    estimates
        Name of a run of rigid jobs -> parameter `estimate` of its scheduler; "" if it has none.
    """
    lines = {key: values_by_run(lines_of, key) for key in next(iter(lines_of.values()))}
    known: dict[str, list[str]] = {}
    for name, estimate in estimates.items():
        if estimate:
            known.setdefault(estimate, []).append(name)
    if known:
        words = _KNOWN_TIMES
        if lines.get("requests") == NO_REQUESTS:
            words = words | {"requested": "run times, which count as requested, are known to"}
        parts = (
            f"{words.get(key, 'other estimates are known to')} {', '.join(names)} (estimate={key})"
            for key, names in known.items()
        )
        lines["times"] = "; ".join(parts)
    return lines | {"baseline": f"{baseline} (ratios are relative to it)"}


def context_lines(results: Mapping[str, Result], baseline: str) -> dict[str, str]:
    """Return the `scenario_facts` of results, and lines on availability, failures and random draws."""
    results = scheduler_results(results)
    lines = scenario_facts(
        {name: result.describe_scenario() for name, result in results.items()},
        {
            name: str(result.scheduler["parameters"].get("estimate") or "")
            for name, result in results.items()
            if result.rigid
        },
        baseline,
    )
    lines |= max(results.values(), key=lambda result: result.makespan).describe_availability()
    if any(result.has_faults for result in results.values()):
        counts = {name: int(result.machines["failures"].sum()) for name, result in results.items()}
        texts = ", ".join(f"{count:,} ({name})" for name, count in counts.items())
        noun = noun_of(results)
        interruptions = [
            f"{name}: {text}" for name, result in results.items() if (text := interruption_text(result, noun))
        ]
        if interruptions:
            interruptions.append(
                "the busy share to the end includes lost core-hours, the offered one does not"
            )
        lines["failures"] = "; ".join([f"of machines, until the end of each run: {texts}", *interruptions])
    return lines | draw_lines(part for result in results.values() for part in result.drawn)


def comparison_table(
    results: Mapping[str, Result],
    rows: Sequence[Row],
    baseline: str,
    bound: BoundKind,
    *,
    caption: str = "",
    verbose: bool = False,
    identity: bool = True,
) -> TextTable:
    """Return the table with a row per scheduler, of which some columns are `DISPENSABLE`.

    Rows that the verdict does not rank have no ratio.

    Parameters
    ----------
    verbose
        Include what explains a result: further metrics.  Then no column is dispensable.
    identity
        Include wall time and digest as well, if `verbose`.
    """
    measure = measure_of(results)
    rigid = measure == "mean_waiting"
    ratios = ratio_texts(results, rows, baseline)
    cells: list[_Cells] = [
        *_MEASURE_COLUMNS[measure],
        ("relative", f"to {baseline}", lambda row: ratios[row["name"]]),
        *_of_measure(results, rows, measure, bound, verbose),
        ("makespan", "s", _seconds("makespan")),
        *(_OFFERED_COLUMN if rigid else ()),
        ("to end" if rigid else "busy", "busy, %" if rigid else "%",
         lambda row: _known(100 * row["utilization"], ".1f")),
    ]  # fmt: skip
    cells += [
        (name, unit, _energy_cell(name))
        for name, unit in (("energy", "kWh"), ("carbon", "kg"))
        if any(name in row for row in rows)
    ]
    # in a comparison of batch queues nobody sends messages
    if not rigid or any(_messages(result) not in _NO_MESSAGES for result in results.values()):
        cells += [
            ("messages", "", lambda row: _messages(results[row["name"]])),
            ("traffic", "MB", lambda row: short_text(row["bytes"] / 1e6) if row["messages"] > 0 else "-"),
        ]
    if verbose and identity:
        cells.append(("wall", "s", lambda row: _known(row["wall_seconds"] or math.nan, ".3g")))
        cells.append(("digest", "", lambda row: "-" if results[row["name"]].of_log else row["digest"][:16]))
    table = TextTable(
        caption,
        [("scheduler", ""), *((title, unit) for title, unit, _ in cells)],
        [[row["name"], *(cell(row) for _, _, cell in cells)] for row in rows],
        dispensable=() if verbose else _RIGID_DISPENSABLE if rigid else DISPENSABLE,
    )
    return convert_times(table, {"waiting": waiting_unit(results.values())})


def numeric_rows(results: Mapping[str, Result], rows: Sequence[Row], baseline: str) -> list[Row]:
    """Return the rows of `rows_of` with plain numbers only, and with the names of the columns of tables.

    Only ranked rows have a ratio.
    """
    ratios = ratio_texts(results, rows, baseline)
    exclusions = names_without_rank(results, rows)
    table = []
    for row in rows:
        name, result = row["name"], results[row["name"]]
        values = {
            _NUMERIC_NAMES.get(key, key): value
            for key, value in row.items()
            if scalar(value)
            and not (result.of_log and key in (*NOT_OF_LOGS, "failed", "request_utilization"))
        }
        del values["name"]
        if ratios[name] in (NOT_RANKED, "-"):
            del values["ratio"]
        if result.of_log and isinstance(killed := result.facts.get("killed"), int):
            values["killed"] = killed
        parameters = to_json(result.scheduler["parameters"], indent=None)
        head = {"scheduler": name, "by": "", "group": "", "ranked": name not in exclusions}
        table.append(head | {"parameters": parameters} | values | {"scheduler": name})
    return table


def names_without_rank(results: Mapping[str, Result], rows: Sequence[Row]) -> set[str]:
    """Return the names that tables and charts do not rank: schedules of logs, and those of `_exclusions`."""
    return {name for name, result in results.items() if result.of_log} | {*_exclusions(results, rows)}


def ratio_texts(results: Mapping[str, Result], rows: Sequence[Row], baseline: str) -> dict[str, str]:
    """Return the ratio of each row to the baseline as text, for tables and charts.

    It is a mark if the row is not ranked, or if both mean waiting times are too short for a ratio.
    """
    exclusions = names_without_rank(results, rows)
    exclusions |= {name for name, result in results.items() if rejects_others(result, results[baseline])}
    is_rigid = measure_of(results) == "mean_waiting"
    short = {row["name"] for row in rows if is_rigid and row[BY_JOBS] < _wait_limit(results[row["name"]])[0]}
    texts = {}
    for row in rows:
        name, text = row["name"], _known(row["ratio"], ".3f")
        if name != baseline:
            text = NOT_RANKED if name in exclusions else "-" if {name, baseline} <= short else text
        texts[name] = text
    return texts


def remarks(results: Mapping[str, Result], rows: Sequence[Row], bound: BoundKind) -> list[str]:
    """Return lines with the facts of each scheduler, and a line with the reason if there is no bound."""
    lines = []
    for row in rows:
        if results[row["name"]].of_log:
            continue
        facts = (f"{key} {_short(value)}" for key, value in row["facts"].items() if scalar(value))
        if said := ", ".join(facts):
            lines.append(f"{row['name']}: {said}")
    return [*lines, *cautions(results, rows, bound)]


def cautions(results: Mapping[str, Result], rows: Sequence[Row], bound: BoundKind) -> list[str]:
    """Return lines on values that the table does not show.

    These are schedules that were exchanged, where a fair tree decides, its decisions without room in samples,
    applications that failures cut off again and again, and a bound that is missing.
    """
    lines = [
        f"{name}: {number_text(total / 1e6)} MB of exchanged schedules are not among its messages and its "
        "traffic"
        for name, result in results.items()
        if (total := int(result.tables["exchanges"]["bytes"].sum()) if "exchanges" in result.tables else 0)
    ]
    lines += [
        f"{row['name']}: {count:,} decisions found no room at the highest sample of the stretch and were "
        "made without a promise (decisions_above_window)"
        for row in rows
        if (count := row["facts"].get("decisions_above_window", 0)) > _STARTING
    ]
    lines += [
        _decision_line(row["name"], row["facts"])
        for row in rows
        if row["facts"].get("requests_at_root") is not None
    ]
    lines += [said for name, result in results.items() if (said := _cut_off(name, result))]
    lines += [
        f"{name}: jobs share machines, so EASY reserves particular machines at all sites; a site without "
        'shared machines does so alone with reserve="machines"'
        for name, result in results.items()
        if _reserves_at_sites(result)
    ]
    sharing = [name for name, result in results.items() if _shares_machines(result)]
    lines += [
        f"{name}: each core is a machine of its own, on which a job of several cores may be anywhere, so it "
        f"cannot be ranked with {', '.join(sharing)}, where the parts of jobs have to fit on machines"
        for name, result in results.items()
        if sharing and result.rigid and not (result.of_log or "cores" in result.machines)
    ]
    separate = [name for name, result in results.items() if result.rigid and result.has_separate_cores]
    if separate:
        others = f"; {enumeration(sharing)}: jobs share machines, and reservations are of particular ones"
        lines.append(
            f"{enumeration(separate)}: each core is a machine of its own, so jobs use and reserve any "
            f"cores{others if sharing else ''}"
        )
    orders = {name: result.queue_order for name, result in results.items() if result.decentralized}
    lines += queue_order_lines(orders)
    lines += _lines_of_common_jobs(results, rows)
    lines += _energy_lines(results)
    if any("mean_slowdown" in row for row in rows):
        lines.append(f"slowdown: {SLOWDOWN}")
    lines += [_reference_line(name, result) for name, result in results.items() if result.of_log]
    lines += [
        f"{row['name']}: busy is above 100 %, since its jobs shared nodes, which count as whole ones here; "
        "they share them with --shared (platform.cores)"
        for row in rows
        if results[row["name"]].of_log and row["utilization"] > 1.0 and noun_of(results) == "node"
    ]
    lines += [
        f"{name}: the load is {number_text(load)} with whole machines, so the queue grows while jobs arrive"
        for name, result in results.items()
        if result.scheduler["parameters"].get("exclusive") is True
        and (load := load_of_whole_machines(_jobs(result), result.scenario.platform)) > 1.0
    ]
    gaps = [row for row in rows if "mean_waiting" not in row]
    if any(row["gap"] is None for row in gaps):
        lines.append(f"no lower bound: it is computed for up to {BOUND_LIMIT} applications")
    elif gaps and (kind := gaps[0]["lower_bound_kind"]) in LOOSE:
        lines.append(f"the bound is the {kind} one: {LOOSE[kind]}")
    return lines


def verdict(results: Mapping[str, Result], rows: Sequence[Row]) -> str:
    """Return a sentence on the best scheduler by each metric, and its lead; empty for one scheduler.

    If there is a schedule of a job log, a sentence compares each scheduler with it.  Runs of different jobs
    or machines are not compared: there are sentences for each of these.
    """
    unit, groups = waiting_unit(results.values()), comparable_rows(results, rows)
    counts = [len(results[group[0]["name"]].machines) for group in groups]
    is_by_size = 1 < len(groups) == len(set(counts))
    sentences = [
        _verdict_of_equal_jobs(
            results, group, unit, f"With {count:,} machines" if is_by_size else "In this run"
        )
        for group, count in zip(groups, counts, strict=True)
    ]
    if is_by_size:
        key, metric = next(iter(_VERDICT_METRICS[measure_of(results)].items()))
        exclusions = _exclusions(results, rows)
        values = [
            {
                row["name"]: float(row[key])
                for row in group
                if key in row and row["name"] not in exclusions and not results[row["name"]].of_log
            }
            for group in groups
        ]
        is_time = measure_of(results) == "mean_waiting"
        sentences.append(size_effect(results, values, metric, unit if is_time else (1.0, "")))
    return "  ".join(filter(None, sentences))


def comparable_rows(results: Mapping[str, Result], rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of results by groups with the same jobs and machines."""
    return _row_groups(results, rows, _is_comparable)


def _row_groups(
    results: Mapping[str, Result], rows: Sequence[Row], is_equal: Callable[[Result, Result], bool]
) -> list[list[Row]]:
    """Return the rows of results by groups, each with the results equal to its first one."""
    groups: list[list[Row]] = []
    for row in rows:
        result = results[row["name"]]
        same = (group for group in groups if is_equal(result, results[group[0]["name"]]))
        if (group := next(same, None)) is None:
            groups.append(group := [])
        group.append(row)
    return groups


def _is_comparable(result: Result, reference: Result) -> bool:
    """Return whether two results have the same jobs and machines."""
    return result.core_count == reference.core_count and not job_difference(result, reference)


def _verdict_of_equal_jobs(
    results: Mapping[str, Result], rows: Sequence[Row], unit: tuple[float, str], beginning: str
) -> str:
    """Return the sentences of `verdict` on runs of the same jobs on the same machines."""
    references = [row for row in rows if results[row["name"]].of_log]
    rows = [row for row in rows if not results[row["name"]].of_log]
    exclusions = _exclusions(results, rows)
    values = {
        what: {row["name"]: float(row[key]) for row in rows if key in row}
        for key, what in _VERDICT_METRICS[measure_of(results)].items()
    }
    if measure_of(results) != "mean_waiting":
        return of_one_run(values, exclusions, beginning)
    waits, slowdowns = _VERDICT_METRICS[BY_JOBS].values()
    ranked_rows = [row for row in rows if row["name"] not in exclusions]
    by_job, by_machine = (
        {row["name"]: float(row[key]) for row in ranked_rows} for key in (BY_JOBS, BY_CORES)
    )
    limit, limit_text = _wait_limit(results[[*rows, *references][0]["name"]])
    short, sentence = [row["name"] for row in ranked_rows if row[BY_JOBS] < limit], ""
    is_short = len(ranked_rows) > 1 and len(short) == len(ranked_rows)
    if is_short:
        sentence = f"{beginning}, jobs hardly wait: each {waits} is below {limit_text}.  "
        del values[waits]
        if max(values[slowdowns][name] for name in short) < 1.0 + SMALL_SHARE:
            del values[slowdowns]
    sentence += of_one_run(values, exclusions, beginning, {waits: unit}, {waits: limit})
    sentence = sentence.rstrip()
    if not is_short:
        sentence += by_cores(by_job, by_machine, noun_of(results), unit)
    for reference in references:
        sentence += _log_text(reference, ranked_rows, unit)
    return sentence.strip()


def _log_text(reference: Row, rows: Sequence[Row], unit: tuple[float, str]) -> str:
    """Return the sentence that compares the mean waiting times of `rows` with that of a job log."""
    values = {row["name"]: row[BY_JOBS] for row in rows if not (row["failed"] or math.isnan(row[BY_JOBS]))}
    if not values or not (waiting := reference[BY_JOBS]) > 0.0:
        return ""
    return reference_text(_VERDICT_METRICS[BY_JOBS][BY_JOBS], value_text(waiting, unit), waiting, values)


def _wait_limit(result: Result) -> tuple[float, str]:
    """Return the mean waiting time (s) below which jobs of a result hardly wait, and its text."""
    run_times = result.applications["run_time"]
    known = run_times[np.isfinite(run_times)]
    return wait_limit(float(known.mean()) if len(known) else 0.0)


def _exclusions(results: Mapping[str, Result], rows: Sequence[Row]) -> dict[str, str]:
    """Return the schedulers that are not ranked, and why; others with the same jobs and machines count."""
    rows = [row for row in rows if not results[row["name"]].of_log]
    exclusions: dict[str, str] = {}
    for group in comparable_rows(results, rows):
        counts = {row["name"]: row.get("failed", 0) for row in group}
        exclusions |= {
            name: f"{reason}, {number_text(100.0 * _rejected_share(results[name]), 2)} % of the work"
            for name, reason in rejection_reasons(counts).items()
        }
        ranked_names = [name for name in counts if name not in exclusions]
        first = ranked_names[0]
        exclusions |= {
            name: f"it rejected other jobs than {first}"
            for name in ranked_names
            if rejects_others(results[name], results[first])
        }
    for row in rows:
        if (
            row["name"] not in exclusions
            and "mean_waiting" not in row
            and (done := _completed(results[row["name"]])) != "all"
        ):
            exclusions[row["name"]] = f"it completed {done} tasks"
    return exclusions


def _decision_line(name: str, facts: Mapping[str, Any]) -> str:
    """Return a line on where requests of a fair tree are decided, and how long they wait for that."""
    rates = facts["root_requests_per_s"], facts["root_bytes_per_s"]
    load = "" if None in rates else f"; {rates[0]:.3g} requests/s and {rates[1] / 1e3:.3g} kB/s there"
    shares = [f"{100 * facts[f'{what}_at_root']:.3g} % of {what}" for what in ("requests", "applications")]
    mean, most = (facts[f"decision_wait_{statistic}_s"] for statistic in ("mean", "max"))
    return (
        f"{name}: {' and '.join(shares)} are decided at the root{load}; a decision takes {mean:.3g} s on "
        f"average and {most:.3g} s at most"
    )


def _rejected_share(result: Result) -> float:
    """Return the part of the work that a scheduler rejected, among the jobs that count."""
    work = np.where(result.is_counted, result.applications["tasks"] * result.applications["task_size"], 0.0)
    return float(work[rejected_jobs(result)].sum() / work.sum())


def _lines_of_common_jobs(results: Mapping[str, Result], rows: Sequence[Row]) -> list[str]:
    """Return a line for each group of runs of equal jobs, on any machines, that rejected different ones.

    It has the mean waiting times of the jobs that all of them ran.
    """
    lines, unit = [], waiting_unit(results.values())
    for group in _row_groups(results, rows, has_equal_jobs):
        names = [row["name"] for row in group]
        if not any(rejects_others(results[name], results[names[0]]) for name in names):
            continue
        waits = np.array([results[name].applications["waiting"] for name in names])
        is_common = ~np.isnan(waits).any(axis=0) & results[names[0]].is_counted
        if not is_common.any():
            continue
        means = waits[:, is_common].mean(axis=1)
        parts = (f"{name} {value_text(mean, unit)}" for name, mean in zip(names, means, strict=True))
        lines.append(
            f"mean waiting time of the {is_common.sum():,} jobs that each of these ran: {', '.join(parts)}; "
            "a run that rejected jobs had less work"
        )
    return lines


def _idle_energy(result: Result) -> float:
    """Return the part of the energy that idle machines and cores draw, kWh, if machines never fail."""
    power, span = result.scenario.platform.power, result.makespan
    assert power is not None
    added = power.busy - power.idle
    with np.errstate(all="ignore"):
        busy_time = (result.machines["energy"] - power.idle * span) / added
    return float((power.idle * (span - busy_time))[added > 0].sum() / JOULES_PER_KWH)


def _energy_lines(results: Mapping[str, Result]) -> list[str]:
    """Return lines with the energy of idle machines, and until a common end if runs end apart.

    There are none if machines fail.
    """
    known = {name: result for name, result in results.items() if not math.isnan(result.energy)}
    ends = {name: result.makespan for name, result in known.items()}
    if any(result.has_faults for result in known.values()):
        return []
    idle_parts = [
        f"{name} {number_text(_idle_energy(result))} kWh"
        for name, result in known.items()
        if "energy" in result.machines and not result.of_log
    ]
    lines = [f"energy that idle machines and cores draw: {', '.join(idle_parts)}"] if idle_parts else []
    return lines + _lines_of_common_end(known, ends)


def _lines_of_common_end(known: Mapping[str, Result], ends: Mapping[str, float]) -> list[str]:
    """Return a line with the energy until the last end of runs, if they end apart."""
    if len(known) < 2:
        return []
    last = max(ends, key=ends.__getitem__)
    if min(ends.values()) > (1.0 - _SMALL_DIFFERENCE) * ends[last]:
        return []
    texts = {}
    for name, result in known.items():
        power = result.scenario.platform.power
        assert power is not None
        idle = float(power.idle.sum()) * (ends[last] - ends[name])
        texts[name] = number_text(result.energy + idle / JOULES_PER_KWH)
    totals = ", ".join(f"{name} {text}" for name, text in texts.items())
    if len(set(texts.values())) == 1:
        totals = f"for each {texts[last]}"
    return [
        f"energy counts until the end of each run; with machines that idle until the end of {last} it is "
        f"{totals} kWh"
    ]


def _jobs(result: Result) -> Applications:
    return result.scenario.workload.realize(result.scenario.platform)


def _shares_machines(result: Result) -> bool:
    """Return whether jobs shared machines in a run."""
    return "cores" in result.machines and not (result.of_log or result.has_separate_cores)


def _reserves_at_sites(result: Result) -> bool:
    """Return whether each site has an EASY queue of its own, and some sites have shared machines."""
    parameters = result.scheduler["parameters"]
    expected = {"partitions": "sites", "backfill": "easy", "reserve": "counts"}
    return "cores" in result.machines and expected.items() <= parameters.items()


def _reference_line(name: str, result: Result) -> str:
    """Return a line on the schedule of a job log."""
    unknown, jobs = result.failed, len(result.applications)
    known = f"; the waiting times of {unknown:,} of {jobs:,} jobs are unknown" if unknown else ""
    return (
        f"{name}: the schedule recorded in {result.scheduler['parameters'].get('log', 'a job log')}, as a "
        f"reference, not ranked: the log shows neither the rules and limits of its system nor outages{known}"
    )


def noun_of(results: Mapping[str, Result]) -> str:
    """Return what machines that run rigid jobs are called in texts on all results, "core" or "node"."""
    return machine_noun(*(result.provenance for result in scheduler_results(results).values()))


def is_one_queue(result: Result) -> bool:
    """Return whether a result is of a batch queue without partitions."""
    return not result.scheduler["parameters"].get("partitions", "sites")


def _cut_off(name: str, result: Result) -> str:
    """Return a line on the application whose tasks were begun again most often; empty if that is seldom."""
    if result.of_log:
        return ""
    table = result.applications
    resubmissions = table["resubmitted"] / table["tasks"]
    worst = int(resubmissions.argmax())
    if (restarts := resubmissions[worst]) < _MANY_RESUBMISSIONS:
        return ""
    tasks, item = int(table["tasks"][worst]), "job" if result.rigid else "application"
    lasts = table["size"][worst] / tasks / result.machines["speed"].mean()
    plural = "s" * (tasks > 1)
    parts = (
        f"{tasks} {machine_noun(result.provenance)}{plural} for"
        if result.rigid
        else f"{tasks} task{plural} of"
    )
    return (
        f"{name}: failures cut off {item} {worst} again and again, {restarts:,.0f} times: it has {parts} "
        f"{time_text(lasts)}, and machines seldom stay up so long"
    )


def scalar(value: Any) -> bool:
    """Whether a fact or a parameter is short enough for a line: a text, a number, or true or false."""
    return isinstance(value, (str, bool, int, float))


def _known(value: float, digits: str) -> str:
    return "-" if math.isnan(value) else f"{value:{digits}}"


def _short(value: Any) -> str:
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else number_text(value)


def _cell(name: str, digits: int = DIGITS, factor: float = 1.0) -> Callable[[Row], str]:
    return lambda row: number_text(factor * row[name], digits) if name in row else "-"


def _energy_cell(name: str) -> Callable[[Row], str]:
    """Return a function that returns an energy, or the carbon of it, which may be unknown for a log."""
    return lambda row: UNKNOWN if math.isnan(row.get(name, math.nan)) else number_text(row[name])


def _seconds(name: str) -> Callable[[Row], str]:
    """Return a function that returns a time (s), for `convert_times`."""
    return lambda row: f"{row[name]:.12g}" if name in row else "-"


#: Metric of comparison -> the columns before the ratio, which have its values.
_MEASURE_COLUMNS: dict[str, tuple[_Cells, ...]] = {
    "mean_waiting": (("waiting", "mean, s", _seconds("mean_waiting")),),
    "mean_turnaround": (("turnaround", "mean, s", _seconds("mean_turnaround")),),
    "mean_completion": (("response", "mean, s", _seconds("mean_completion")),),
    "max_stretch": (("stretch", "max", _cell("max_stretch_agg")),),
}
_OFFERED_COLUMN: tuple[_Cells, ...] = (
    ("offered", "busy, %", lambda row: _known(100 * row.get("offered_utilization", math.nan), ".1f")),
)
#: Parameter `estimate` of a scheduler -> what it knows of run times.  Other schedulers may have other values.
_KNOWN_TIMES = {
    "run": "run times are known to",
    "requested": "only requested times are known to",
    "predicted": "only requested times and predictions by earlier jobs of the user are known to",
}
#: Texts for the messages of schedulers that are not charged for any, and of logs.
_NO_MESSAGES = (NOT_CHARGED, UNKNOWN)
#: Metric of comparison -> metric of a row -> its name in the sentences of `verdict`.
_VERDICT_METRICS = {
    "mean_waiting": {"mean_waiting": "mean waiting time", "mean_slowdown": "mean slowdown"},
    "mean_turnaround": {"mean_turnaround": "mean turnaround", "max_stretch": "max stretch"},
    "mean_completion": {"mean_completion": "mean response time", "wasted": "share of wasted cycles"},
    "max_stretch": {"max_stretch": "max stretch", "mean_stretch": "mean stretch"},
}


def _of_measure(
    results: Mapping[str, Result], rows: Sequence[Row], measure: str, bound: BoundKind, verbose: bool
) -> list[_Cells]:
    """Return the columns after the ratio: other metrics that belong to the metric of comparison."""
    if measure == "mean_waiting":
        noun = noun_of(results)
        counts = {name: "-" if result.of_log else f"{result.failed:,}" for name, result in results.items()}
        killed = {row["name"]: f"{row['terminated']:,}" if "terminated" in row else "-" for row in rows}
        if set(killed.values()) != {"-"}:
            killed |= {name: f"{r.facts.get('killed', '-')}" for name, r in results.items() if r.of_log}
        count_columns: list[_Cells] = [
            (title, "jobs", lambda row, texts=texts: texts[row["name"]])  # type: ignore[misc]
            for title, texts in (("rejected", counts), ("killed", killed))
            if not set(texts.values()) <= {"0", "-"} or (verbose and set(texts.values()) != {"-"})
        ]
        return [
            ("waiting", f"by {noun}s, s", _seconds("mean_waiting_by_cores")),
            ("waiting", "median, s", _seconds("median_waiting")),
            ("waiting", "95 %, s", _seconds("p95_waiting")),
            ("slowdown", "mean", _cell("mean_slowdown")),
            *([("slowdown", f"by {noun}s", _cell("mean_slowdown_by_cores"))] if verbose else []),
            *count_columns,
        ]
    done = {name: _completed(result) for name, result in results.items()}
    columns: list[_Cells] = []
    if verbose or any(text != "all" for text in done.values()):
        columns.append(("completed", "tasks", lambda row: done[row["name"]]))
    if measure == "max_stretch" or verbose:
        mean = ("stretch", "mean", _cell("mean_stretch_agg"))
        over = (
            "over",
            "bound" if bound == "best" else bound,
            lambda row: f"{row['gap']:.3f}" if row["gap"] else "-",
        )
        columns += [mean, over]
    if measure != "max_stretch":
        columns.insert(0, *_MEASURE_COLUMNS["max_stretch"])
    if measure == "mean_turnaround" or (verbose and any("migrated" in row for row in rows)):
        if measure != "mean_turnaround":
            columns += _MEASURE_COLUMNS["mean_turnaround"]
        columns.append(("migrated", "%", _cell("migrated", factor=100.0)))
    if measure == "mean_completion" or (verbose and any("wasted" in row for row in rows)):
        if measure != "mean_completion":
            columns += _MEASURE_COLUMNS["mean_completion"]
        columns.append(("wasted", "%", _cell("wasted", 3, 100.0)))
    return columns


def _completed(result: Result) -> str:
    done, submitted = int(result.machines["tasks"].sum()), int(result.applications["tasks"].sum())
    return "all" if done == submitted else f"{done:,} of {submitted:,}"


def _messages(result: Result) -> str:
    """Return how many messages were sent; a scheduler that sees the whole grid is not charged for any."""
    if result.of_log:
        return UNKNOWN
    sent = int(result.messages["sent"].sum())
    free = not sent and result.decentralized is False
    return NOT_CHARGED if free else f"{sent:,}"
