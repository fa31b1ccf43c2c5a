"""Readable text on a result, made from its summary."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from gridsim.results.metrics.bounds import BOUND_LIMIT

Facts = dict[str, Any]
Lines = dict[str, str]


def as_text(lines: Lines) -> str:
    """Join lines on a run, such as those of `run_lines`, into one text."""
    return "\n".join(
        textwrap.fill(f"{key:<12}  {value}", 110, subsequent_indent=" " * 14) for key, value in lines.items()
    )


def run_lines(facts: Facts, released_within: float, name: str | None = None) -> Lines:
    """Return the lines that describe a run: what a line is about -> its text.

    facts : as of `Result.summary`.  released_within : time from the first to the last release, s.
    name : shown instead of the scheduler's own name.
    """
    said = {**facts["parameters"], **facts["facts"]}
    reports = (f"{key} {value}" for key, value in said.items() if isinstance(value, (str, int, float)))
    return {
        **scenario_lines(facts, released_within),
        "scheduler": name or facts["scheduler"],
        "reports": ", ".join(reports) or "-",
        **(_of_jobs(facts) if "mean_waiting" in facts else _of_bags(facts)),
        "makespan": f"{facts['makespan']:.1f} s",
        **(_of_turnaround(facts) if "mean_turnaround" in facts else {}),
        **(_of_cycles(facts) if "wasted" in facts else {}),
        "utilization": _known(facts["utilization"], 100, ".1f", "%"),
        "resubmitted": f"{facts['resubmitted']} tasks",
        "messages": f"{facts['messages']} ({facts['bytes'] / 1e6:.2f} MB){_task_data(facts)}",
        "wall time": _known(facts["wall_seconds"], 1, ".2f", "s"),
        "peak memory": _known(facts["peak_memory"], 1e-6, ".0f", "MB (of the process so far)"),
        "digest": facts["digest"],
    }


def _known(value: float | None, factor: float, digits: str, unit: str) -> str:
    """Return `value` times `factor` with its unit; "-" if it is unknown, as in a result from a job log."""
    return "-" if value is None or math.isnan(value) else f"{factor * value:{digits}} {unit}"


def scenario_lines(facts: Facts, released_within: float) -> Lines:
    """Return a line each on the platform, the workload and the load."""
    seconds = facts["work"] / facts["tasks"] / (facts["aggregate_speed"] / facts["machines"])
    return {
        "platform": f"{_many(facts['machines'], 'machine')}, {facts['aggregate_speed']:.6g} Mflop/s in all",
        "workload": f"{_many(facts['applications'], 'application')}, {_many(facts['tasks'], 'task')}, "
        f"{facts['work']:.6g} Mflop, a mean task {seconds:.4g} s at the mean speed; "
        f"released within {released_within:.6g} s",
        "load": f"{facts['offered_load']:.4g} (work / (aggregate speed * first to last release))",
    }


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _task_data(facts: Facts) -> str:
    if "data_bytes" not in facts:
        return ""
    ratio = f"{facts['data_ratio']:.4g} x the messages" if facts["data_ratio"] > 0 else "no messages"
    return f", and {facts['data_bytes'] / 1e6:.6g} MB of task data ({ratio})"


def _of_bags(facts: Facts) -> Lines:
    gap = f"- (computed for up to {BOUND_LIMIT} applications)"
    if facts["gap"] is not None:
        least = f"{facts['lower_bound']:.6g} s/Mflop"
        gap = f"{facts['gap']:.4f} (max stretch over the {facts['lower_bound_kind']} bound, {least})"
    return {
        "max stretch": f"{facts['max_stretch']:.6g} s/Mflop (S * s_agg = {facts['max_stretch_agg']:.5g})",
        "mean stretch": f"{facts['mean_stretch']:.6g} s/Mflop",
        "min stretch": f"{facts['min_stretch']:.6g} s/Mflop",
        "gap": gap,
    }


def _of_jobs(facts: Facts) -> Lines:
    return {
        "requests": f"{100 * facts['request_utilization']:.1f} % of the machines, first to last release",
        "rejected": f"{facts['failed']} of {facts['applications']} jobs",
        "waiting": f"mean {facts['mean_waiting']:.6g} s, median {facts['median_waiting']:.6g} s",
        "slowdown": f"{facts['mean_slowdown']:.4g} (mean, bounded: run times of at least 10 s)",
    }


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
