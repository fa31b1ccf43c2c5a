"""Text that describes a result, from its summary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gridsim.model.scenario import Scenario
from gridsim.optimization.bounds import BOUND_LIMIT
from gridsim.results.metrics.formulas import offered_load, total
from gridsim.results.metrics.window import window_lines
from gridsim.support.text import WIDTH, number_text, time_text, time_unit, typical_unit, wrap_text

if TYPE_CHECKING:
    from gridsim.model.applications import Applications

Facts = dict[str, Any]
#: Kind of lower bound -> reason why it may be too low.
LOOSE = {
    "fluid": "it cuts tasks at will, so it may be far too low",
    "preemptive": "it lets tasks migrate, so it may be too low",
}
Lines = dict[str, str]
#: Random part of a run on the jobs of a log -> what is drawn.
_PARTS_OF_LOGS = {
    "submitters": "the machine at which each job is submitted",
    "run": "choices of the scheduler",
}

#: Text for numbers that a job log does not state, such as messages, and for ratios of what is not ranked.
UNKNOWN, NOT_RANKED = "unknown", "unranked"
#: Which releases lines are on, if applications are released after others.
_WITHOUT_WAITING, IN_THIS_RUN = ", if nothing waits", ", in this run"


def draw_lines(random_parts: Iterable[str]) -> Lines:
    """Return a line that lists the random parts of a run; no line if there are none."""
    parts = list(dict.fromkeys(random_parts))
    if not parts:
        return {}
    is_of_log = "submitters" in parts
    *first, last = [_PARTS_OF_LOGS.get(part, part) for part in parts] if is_of_log else parts
    subject = (
        f"{', '.join(first)} and {last} are" if first else f"{last} {'are' if last[-1] == 's' else 'is'}"
    )
    sentence = f"{subject} drawn at random, once: other seeds give other values"
    if is_of_log:
        sentence += "; users, run times and submissions are those of the log"
    return {"draw": f"{sentence}; gridsim compare --replicates 10 gives means with intervals"}


def as_text(lines: Lines, width: int = WIDTH) -> str:
    """Return lines as one text, with long lines wrapped."""
    return "\n".join(
        part for key, value in lines.items() for part in wrap_text(f"{key:<12}  {value}", width, 14)
    )


def run_lines(
    facts: Facts,
    released_within: float,
    name: str | None = None,
    *,
    remarks: Lines | None = None,
    condition: str = "",
    availability: Lines | None = None,
    interruptions: str = "",
    verbose: bool = False,
) -> Lines:
    """Return the description of a run as topic -> line.

    Parameters
    ----------
    facts
        The values of `Result.summary`.
    released_within
        Time from the first to the last release, s.
    name
        Name to display instead of that of the scheduler.
    remarks
        Remarks on the workload, `Scenario.remarks`.
    condition
        As of `scenario_lines`.
    availability
        Lines on the machines that were up and on random draws; None for no line.
    interruptions
        The `interruption_text` of the run.
    verbose
        Include the parameters of the scheduler and the facts that it reports.
    """
    values = {**facts["parameters"], **facts["facts"]}
    reports = (
        f"{key} {_short(value)}" for key, value in values.items() if isinstance(value, str | int | float)
    )
    rigid, noun = "mean_waiting" in facts, machine_noun(remarks or {})
    lines = {**scenario_lines(facts, released_within, remarks, condition), **(availability or {})}
    if _is_log(facts):
        record = f"recorded in {facts['parameters'].get('log', 'a job log')}, not simulated"
        return {
            **lines,
            "schedule": record if name in (None, facts["scheduler"]) else f"{name}: {record}",
            **_job_lines(facts, noun),
            "makespan": time_text(facts["makespan"]),
            "utilization": _utilization_text(facts),
            **_energy_lines(facts),
        }
    return {
        **lines,
        "scheduler": name or facts["scheduler"],
        **({"reports": ", ".join(reports) or "-"} if verbose else {}),
        **(_job_lines(facts, noun) if rigid else _bag_lines(facts)),
        **(_response_line(facts) if verbose and not rigid and "wasted" not in facts else {}),
        "makespan": time_text(facts["makespan"]),
        **(_turnaround_lines(facts) if "mean_turnaround" in facts else {}),
        **(_cycle_lines(facts) if "wasted" in facts else {}),
        "utilization": _utilization_text(facts),
        **_energy_lines(facts),
        **(
            ({"interrupted": interruptions} if interruptions else {})
            if rigid
            else {"resubmitted": _count_text(facts["resubmitted"], "task")}
        ),
        "messages": f"{facts['messages']:,} ({number_text(facts['bytes'] / 1e6, 3)} MB)"
        f"{_task_data_text(facts)}",
        "wall time": _value_text(facts["wall_seconds"], 1, ".2f", "s"),
        "peak memory": _value_text(facts["peak_memory"], 1e-6, ",.0f", "MB (of the process so far)"),
        "digest": facts["digest"],
    }


def _value_text(value: float | None, factor: float, digits: str, unit: str) -> str:
    """Return `value` times `factor` with its unit; "-" if it is unknown, as in the result of a job log."""
    return "-" if value is None or math.isnan(value) else f"{factor * value:{digits}} {unit}"


def scenario_lines(
    facts: Facts, released_within: float, remarks: Lines | None = None, condition: str = ""
) -> Lines:
    """Return a line on each of the platform, the workload and the load, and the `remarks` on the workload.

    Parameters
    ----------
    condition
        When releases are those of the lines, such as `IN_THIS_RUN`; "" if they do not depend on the run.
    """
    if "core_hours" in facts:
        return _rigid_scenario_lines(facts, released_within, remarks, condition)
    seconds = facts["work"] / facts["tasks"] / (facts["aggregate_speed"] / facts["cores"])
    load, speed = facts["offered_load"], number_text(facts["aggregate_speed"])
    cores = f" with {_count_text(facts['cores'], 'core')}" if facts["cores"] != facts["machines"] else ""
    return {
        "platform": f"{_count_text(facts['machines'], 'machine')}{cores}, {speed} Mflop/s in all",
        "workload": f"{_count_text(facts['applications'], 'application')}, "
        f"{_count_text(facts['tasks'], 'task')}, "
        f"{number_text(facts['work'])} Mflop; a mean task takes {time_text(seconds)} at the mean speed; "
        f"released within {time_text(released_within)}{condition}",
        **(remarks or {}),
        "load": f"{number_text(load)} (work submitted / capacity during submission){condition}"
        if math.isfinite(load)
        else "inf: everything is released at once",
    }


def waiting_unit(results: Iterable[Any]) -> tuple[float, str]:
    """Return the length (s) and the name of the unit of all waiting times of rigid jobs.

    It suits the median of what long waits are in each result, so that an extreme scheduler has no effect.
    """
    return typical_unit(max(result.mean_waiting, result.p95_waiting) for result in results if result.rigid)


def _rigid_scenario_lines(
    facts: Facts, released_within: float, remarks: Lines | None, condition: str
) -> Lines:
    """Return the lines of `scenario_lines` for rigid jobs; machines that are no nodes count as cores."""
    noun = machine_noun(remarks or {})
    jobs, load = facts["applications"], facts["offered_load"]
    # as submitted: `core_hours` are those that ran, less if jobs are killed at their limits
    core_hours = facts["work"] / (facts["aggregate_speed"] / facts["cores"]) / 3600.0
    width = facts.get("width", facts["tasks"]) / jobs
    return {
        "platform": _count_text(facts["machines"], "machine") + _cores_text(facts),
        "workload": f"{_count_text(jobs, 'job')}, {number_text(core_hours)} {noun}-hours; "
        f"a mean job has {_count_text(width, noun)}; "
        f"{'released' if condition else 'submitted'} within {time_text(released_within)}{condition}",
        **{"nodes" if key == "cores" else key: line for key, line in (remarks or {}).items()},
        "load": f"{number_text(load)} ({noun}-hours submitted / those of the machines during submission)"
        f"{condition}"
        if math.isfinite(load)
        else "inf: everything is released at once",
    }


def _cores_text(facts: Facts) -> str:
    """Return a text with the number of cores, if jobs share machines; else ""."""
    cores = facts["cores" if "cores" in facts else "machines"]
    return "" if cores == facts["machines"] else f" with {_count_text(cores, 'core')}, which jobs share"


def availability_lines(availability: Facts | None, machines: int) -> Lines:
    """Return a line on the availability of machines; no line if they are always up.

    Parameters
    ----------
    availability
        The entry ``availability`` of the provenance; None without failures.
    """
    if availability is None or availability["mean"] == 1:
        return {}
    start = f"{availability['at_start']:,} of {_count_text(machines, 'machine')} are up at the start"
    return {
        "up": f"{start}, {availability['never']:,} never in this run; "
        f"mean availability {availability['mean']:.3g}"
    }


def planned_lines(
    scenario: Scenario, applications: Applications | None = None, *, skip_days: float = 0.0
) -> Lines:
    """Return the lines of `scenario_lines` for a scenario, without running it.

    Parameters
    ----------
    applications
        The applications of the scenario, if they are known.
    skip_days
        Number of days at the beginning whose applications do not count in metrics.

    Raises
    ------
    ScenarioError
        If no application counts.
    """
    platform = scenario.platform
    if applications is None:
        applications = scenario.workload.realize(platform)
    facts = {
        "machines": platform.nodes,
        "cores": platform.core_count,
        "aggregate_speed": platform.aggregate_speed,
        "applications": len(applications),
        "tasks": int(applications.tasks.sum()),
        "work": total(applications.size),
        "offered_load": offered_load(applications, platform),
    }
    if scenario.workload.rigid:
        core_seconds = total(applications.size) / float(platform.speeds[0])
        facts["core_hours"] = core_seconds / 3600.0
        if applications.cores is not None:
            facts["width"] = int(applications.tasks @ applications.cores)
    released_within = float(applications.release.max() - applications.release.min())
    window = window_lines(applications.release, skip_days, scenario.workload.rigid)
    condition = "" if applications.predecessors is None else _WITHOUT_WAITING
    lines = scenario_lines(facts, released_within, scenario.remarks | window, condition)
    if scenario.faults is not None:
        recipe = scenario.faults.recipe
        values = {name: getattr(recipe, name) for name in recipe.__struct_fields__ if name != "seed"}
        parameters = ", ".join(
            f"{name} {value:g}{'' if name.endswith('shape') else ' s'}"
            if isinstance(value, float)
            else f"{name} {value}"
            for name, value in values.items()
            if isinstance(value, (float, int, str))
        )
        lines["failures"] = (
            f"of machines, of kind {recipe.__struct_config__.tag}{': ' if parameters else ''}{parameters}"
        )
    return lines


def _short(value: Any) -> str:
    """Return a fact or a parameter as text; numbers with four digits, whole numbers with all."""
    return number_text(value) if isinstance(value, float) else str(value)


def _count_text(count: float, noun: str) -> str:
    number = f"{count:,}" if isinstance(count, int) else number_text(count)
    return f"{number} {noun}{'' if count == 1 else 's'}"


def _is_log(facts: Facts) -> bool:
    """Return whether these are the values of a schedule recorded in a job log."""
    return "unknown_waits" in facts["facts"]


def machine_noun(*remarks: Mapping[str, Any]) -> str:
    """Return what machines are called that run rigid jobs: "node" if they are nodes, else "core".

    Parameters
    ----------
    remarks
        The remarks on the workload of each run (`Scenario.remarks`), or the provenance that has them.
    """
    return "node" if remarks and all(each.get("cores") for each in remarks) else "core"


def _utilization_text(facts: Facts) -> str:
    text = _value_text(facts["utilization"], 100, ".1f", "%")
    if "offered_utilization" not in facts:
        return text
    offered = _value_text(facts["offered_utilization"], 100, ".1f", "%")
    return f"{offered} from first to last release, {text} until the last end"


def _energy_lines(facts: Facts) -> Lines:
    """Return a line on the energy of the machines; no line if they have no power, or it is unknown."""
    if math.isnan(facts.get("energy", math.nan)):
        return {}
    carbon = f", {number_text(facts['carbon'])} kg of CO2" if "carbon" in facts else ""
    return {"energy": f"{number_text(facts['energy'])} kWh{carbon}"}


def interruption_text(result: Any, noun: str) -> str:
    """Return a text on the rigid jobs that failures interrupted; "" without any.

    Parameters
    ----------
    result
        The `Result` of a run.
    noun
        What the machines are called, "core" or "node".
    """
    jobs = result.applications
    runs = int((jobs["resubmitted"] // jobs["tasks"]).sum()) if result.rigid else 0
    if not runs:
        return ""
    count = int((jobs["resubmitted"] > 0).sum())
    text = f"{_count_text(count, 'job')} interrupted and begun again, {_count_text(runs, 'time')} in all"
    if math.isnan(lost := result.lost_core_hours):
        return text
    return f"{text}, {number_text(lost)} {noun}-hours lost"


def _task_data_text(facts: Facts) -> str:
    if "data_bytes" not in facts:
        return ""
    ratio = f"{number_text(facts['data_ratio'])} x the messages" if facts["data_ratio"] > 0 else "no messages"
    return f", and {number_text(facts['data_bytes'] / 1e6)} MB of task data ({ratio})"


def _bag_lines(facts: Facts) -> Lines:
    gap = f"- (computed for up to {BOUND_LIMIT} applications)"
    if facts["gap"] is not None:
        bound = f"{number_text(facts['lower_bound'])} s/Mflop"
        kind = facts["lower_bound_kind"]
        loose = f"; {LOOSE[kind]}" if kind in LOOSE else ""
        gap = f"{facts['gap']:.3f} (max stretch over the {kind} bound, {bound}{loose})"
    return {
        **{
            f"{statistic} stretch": f"{number_text(stretch * facts['aggregate_speed'])} "
            f"({number_text(stretch)} s/Mflop)"
            for statistic, stretch in ((name, facts[f"{name}_stretch"]) for name in ("max", "mean", "min"))
        },
        "gap": gap,
    }


def _job_lines(facts: Facts, noun: str) -> Lines:
    count = facts.get("counted", facts["applications"])
    cancelled = f", {facts['cancelled']:,} cancelled by their users" if "cancelled" in facts else ""
    length, unit = time_unit(max(facts["mean_waiting"], facts["p95_waiting"]))  # as in tables of several runs
    mean, by_cores, median, p95 = (
        f"{number_text(facts[name] / length)} {unit}"
        for name in ("mean_waiting", "mean_waiting_by_cores", "median_waiting", "p95_waiting")
    )
    lines = {
        "rejected": f"{facts['failed']:,} of {count:,} jobs{cancelled}",
        "waiting": f"mean {mean}, by {noun}s {by_cores}, median {median}, 95th percentile {p95}",
        "slowdown": f"mean {number_text(facts['mean_slowdown'])}, by {noun}s "
        f"{number_text(facts['mean_slowdown_by_cores'])} (bounded)",
    }
    if _is_log(facts):  # no job is rejected
        del lines["rejected"]
        lines["waiting"] += f", unknown for {facts['failed']:,} jobs" if facts["failed"] else ""
    elif "terminated" in facts:
        lines["killed"] = f"{facts['terminated']:,} of {count:,} jobs"
    return lines


def _turnaround_lines(facts: Facts) -> Lines:
    error = facts["prediction_error"]
    error_text = "" if math.isnan(error) else f"; predicted waits are wrong by {100 * error:.3g} %"
    return {
        "turnaround": f"mean {time_text(facts['mean_turnaround'])} (until the result is back)",
        "migrated": f"{100 * facts['migrated']:.4g} % of the jobs, with "
        f"{number_text(facts['messages_per_job'])} messages a job{error_text}",
    }


def _response_line(facts: Facts) -> Lines:
    return {
        "response": f"mean {time_text(facts['mean_completion'])} (mean_completion, from release to finish)"
    }


def _cycle_lines(facts: Facts) -> Lines:
    shares = ", ".join(
        f"{name} {100 * facts[name] / facts['useful']:.3g} %" for name in ("redundant", "lost", "overhead")
    )
    of_tasks = "" if "counted" in facts else f"of {facts['tasks']:,} "
    return {
        **_response_line(facts),
        "wasted": f"{100 * facts['wasted']:.3g} % of the cycles (over the useful ones: {shares})",
        "undisturbed": f"{facts['undisturbed']:,.0f} {of_tasks}tasks were never resubmitted",
    }
