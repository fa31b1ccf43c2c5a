"""Readable text on a result, made from its summary."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from gridsim.model.scenario import Scenario
from gridsim.results.metrics.bounds import BOUND_LIMIT
from gridsim.results.metrics.formulas import offered_load, total
from gridsim.support.text import WIDTH, wrap_text

Facts = dict[str, Any]
#: What a reader of a gap over a bound of these kinds must know.
LOOSE = {
    "fluid": "it cuts tasks at will, so it may be far too low",
    "preemptive": "it lets tasks migrate, so it may be too low",
}
Lines = dict[str, str]

#: What stands for the messages of a job log, which does not state them.
UNKNOWN = "unknown"


def draw_lines(drawn: Iterable[str]) -> Lines:
    """Return a line that says what is drawn at random, once; none if nothing is."""
    *first, last = list(dict.fromkeys(drawn)) or [""]
    if not last:
        return {}
    what = f"{', '.join(first)} and {last} are" if first else f"{last} {'are' if last[-1] == 's' else 'is'}"
    said = f"{what} drawn at random, once: other seeds give other values"
    return {"draw": f"{said}; gridsim compare --replicates 10 gives means with intervals"}


def as_text(lines: Lines, width: int = WIDTH) -> str:
    """Join lines on a run, such as those of `run_lines`, into one text; longer ones are wrapped."""
    return "\n".join(
        part for key, value in lines.items() for part in wrap_text(f"{key:<12}  {value}", width, 14)
    )


def run_lines(
    facts: Facts,
    released_within: float,
    name: str | None = None,
    *,
    remarks: Lines | None = None,
    up: Lines | None = None,
    verbose: bool = False,
) -> Lines:
    """Return the lines that describe a run: what a line is about -> its text.

    Parameters
    ----------
    facts
        As of `Result.summary`.
    released_within
        Time from the first to the last release, s.
    name
        Shown instead of the scheduler's own name.
    remarks
        Lines of `Workload.remarks`.
    up
        The line of `availability_lines`, if any.
    verbose
        Include the parameters of the scheduler and the facts that it reports.
    """
    said = {**facts["parameters"], **facts["facts"]}
    reports = (f"{key} {value}" for key, value in said.items() if isinstance(value, (str, int, float)))
    return {
        **scenario_lines(facts, released_within, remarks),
        **(up or {}),
        "scheduler": name or facts["scheduler"],
        **({"reports": ", ".join(reports) or "-"} if verbose else {}),
        **(_of_jobs(facts) if "mean_waiting" in facts else _of_bags(facts)),
        "makespan": f"{facts['makespan']:.1f} s",
        **(_of_turnaround(facts) if "mean_turnaround" in facts else {}),
        **(_of_cycles(facts) if "wasted" in facts else {}),
        "utilization": _known(facts["utilization"], 100, ".1f", "%"),
        "resubmitted": f"{facts['resubmitted']} tasks",
        "messages": UNKNOWN
        if math.isnan(facts["messages"])
        else f"{facts['messages']} ({facts['bytes'] / 1e6:.2f} MB){_task_data(facts)}",
        "wall time": _known(facts["wall_seconds"], 1, ".2f", "s"),
        "peak memory": _known(facts["peak_memory"], 1e-6, ".0f", "MB (of the process so far)"),
        "digest": facts["digest"],
    }


def _known(value: float | None, factor: float, digits: str, unit: str) -> str:
    """Return `value` times `factor` with its unit; "-" if it is unknown, as in a result from a job log."""
    return "-" if value is None or math.isnan(value) else f"{factor * value:{digits}} {unit}"


def scenario_lines(facts: Facts, released_within: float, remarks: Lines | None = None) -> Lines:
    """Return a line each on the platform, the workload and the load, and the `remarks` on the workload."""
    seconds = facts["work"] / facts["tasks"] / (facts["aggregate_speed"] / facts["machines"])
    load, speed = facts["offered_load"], _grouped(facts["aggregate_speed"])
    return {
        "platform": f"{_many(facts['machines'], 'machine')}, {speed} Mflop/s in all",
        "workload": f"{_many(facts['applications'], 'application')}, {_many(facts['tasks'], 'task')}, "
        f"{_grouped(facts['work'])} Mflop; a mean task takes {seconds:.4g} s at the mean speed; "
        f"released within {released_within:.6g} s",
        **(remarks or {}),
        "load": f"{load:.4g}: the whole grid needs {load:.4g} times the submission period to do the work"
        if math.isfinite(load)
        else "inf: everything is released at once",
    }


def availability_lines(up: Facts | None, machines: int) -> Lines:
    """Return a line on how many machines are up, and for how long; none if they are up all the time.

    Parameters
    ----------
    up
        As in the provenance of a result; None without failures.
    """
    if up is None or up["mean"] == 1:
        return {}
    begin = f"{up['at_start']:,} of {_many(machines, 'machine')} are up at the start"
    return {"up": f"{begin}, {up['never']:,} never in this run; mean availability {up['mean']:.3g}"}


def planned_lines(scenario: Scenario) -> Lines:
    """Return the lines of `scenario_lines` for a scenario, of which there need not be a run."""
    platform, applications = scenario.platform, scenario.workload.realize(scenario.platform)
    facts = {
        "machines": platform.nodes,
        "aggregate_speed": platform.aggregate_speed,
        "applications": len(applications),
        "tasks": int(applications.tasks.sum()),
        "work": total(applications.size),
        "offered_load": offered_load(applications, platform),
    }
    released_within = float(applications.release[-1] - applications.release[0])
    lines = scenario_lines(facts, released_within, scenario.workload.remarks)
    if scenario.faults is not None:
        recipe = scenario.faults.recipe
        values = {name: getattr(recipe, name) for name in recipe.__struct_fields__ if name != "seed"}
        said = ", ".join(
            f"{name} {value:g}{'' if name.endswith('shape') else ' s'}"
            if isinstance(value, float)
            else f"{name} {value}"
            for name, value in values.items()
            if isinstance(value, (float, int, str))
        )
        lines["failures"] = f"of machines, of kind {recipe.__struct_config__.tag}{': ' if said else ''}{said}"
    return lines


def _grouped(value: float) -> str:
    """Return a number in 6 digits, with commas between thousands, and as a power only from 1e15 on."""
    return f"{float(f'{value:.6g}'):,.0f}" if 1e4 <= value < 1e15 else f"{value:.6g}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _task_data(facts: Facts) -> str:
    if "data_bytes" not in facts:
        return ""
    ratio = f"{facts['data_ratio']:.4g} x the messages" if facts["data_ratio"] > 0 else "no messages"
    return f", and {facts['data_bytes'] / 1e6:.6g} MB of task data ({ratio})"


def _of_bags(facts: Facts) -> Lines:
    gap = f"- (computed for up to {BOUND_LIMIT} applications)"
    if facts["gap"] is not None:
        least = f"{facts['lower_bound']:.6g} s/Mflop"
        kind = facts["lower_bound_kind"]
        loose = f"; {LOOSE[kind]}" if kind in LOOSE else ""
        gap = f"{facts['gap']:.4f} (max stretch over the {kind} bound, {least}{loose})"
    return {
        **{
            f"{which} stretch": f"{facts[f'{which}_stretch'] * facts['aggregate_speed']:.5g} "
            f"({facts[f'{which}_stretch']:.6g} s/Mflop)"
            for which in ("max", "mean", "min")
        },
        "gap": gap,
    }


def _of_jobs(facts: Facts) -> Lines:
    cancelled = f", {facts['cancelled']} cancelled by their users" if "cancelled" in facts else ""
    lines = {
        "requests": f"{100 * facts['request_utilization']:.1f} % of the machines, first to last release",
        "rejected": f"{facts['failed']} of {facts['applications']} jobs{cancelled}",
        "waiting": f"mean {facts['mean_waiting']:.6g} s, by cores {facts['mean_waiting_by_cores']:.6g} s, "
        f"median {facts['median_waiting']:.6g} s",
        "slowdown": f"{facts['mean_slowdown']:.4g} (mean, bounded: run times of at least 10 s)",
    }
    if "unknown_waits" in facts["facts"]:  # the schedule of a job log, where no job is rejected
        del lines["rejected"]
        lines["waiting"] += f", unknown for {facts['failed']} jobs" if facts["failed"] else ""
    return lines


def _of_turnaround(facts: Facts) -> Lines:
    error = facts["prediction_error"]
    wrong = "" if math.isnan(error) else f"; predicted waits are wrong by {100 * error:.3g} %"
    return {
        "turnaround": f"mean {facts['mean_turnaround']:.6g} s (until the result is back)",
        "migrated": f"{100 * facts['migrated']:.4g} % of the jobs, with {facts['messages_per_job']:.4g} "
        f"messages a job{wrong}",
    }


def _of_cycles(facts: Facts) -> Lines:
    shares = ", ".join(
        f"{name} {100 * facts[name] / facts['useful']:.3g} %" for name in ("redundant", "lost", "overhead")
    )
    return {
        "completion": f"mean {facts['mean_completion']:.6g} s (from release to finish)",
        "wasted": f"{100 * facts['wasted']:.3g} % of the cycles (over the useful ones: {shares})",
        "undisturbed": f"{facts['undisturbed']:.0f} of {facts['tasks']} tasks were never resubmitted",
    }
