"""Workloads of Batsim: a JSON file with jobs, and with profiles that describe the work of jobs.

Source: https://batsim.readthedocs.io/en/latest/input-workload.html.  A job has the fields ``id``, ``subtime``
(s), ``res`` (number of resources), ``profile``, and possibly ``walltime`` (s).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gridcore.common.names import closest
from gridsim.support.files import StrPath
from gridsim.traces._text import LARGEST_COUNT, LARGEST_EXACT, Remark, format_error, parse_number, truncate
from gridsim.traces.accounting import make_jobs, unique_numbers
from gridsim.traces.jobs import ParsedJobs
from gridsim.traces.json_text import JsonText

_FIELDS = ("id", "subtime", "res", "profile", "walltime")
_MANDATORY = _FIELDS[:4]
#: Types of profiles with a run time: the present name first, then those of earlier versions of Batsim.
_DELAYS = ("DelayProfile", "delay")
_SEQUENCES = ("SequentialCompositionProfile", "sequential_composition", "composed")
#: Greatest depth of profiles that consist of others.
_MAX_DEPTH = 50


def parse_batsim(path: StrPath) -> ParsedJobs:
    """Return the jobs of a workload of Batsim as in the file, in its order.

    The run time of a job is that of its profile: a delay, or a sequence of delays.  The run time of other
    profiles depends on the simulated platform, so their jobs are left out; `ParsedJobs.remarks` counts them.
    The number of a job is its ``id``, without the name of a workload before ``!``; if they are not different
    whole numbers, jobs are numbered from 1.

    Raises
    ------
    TraceFormatError
        If the file is not such a workload.
    """
    text = JsonText(path)
    jobs: list[tuple[int, dict[str, Any]]] = []
    profiles: Any = {}
    resources: float | None = None
    names: list[str] = []
    if text.peek() == "{":
        for name in text.members():
            names.append(name)
            if name == "jobs" and text.peek() == "[":
                for line in text.items():
                    jobs.append((line, text.value()))
            elif name == "profiles":
                profiles = text.value()
            elif name == "nb_res":
                line = text.line
                resources = _number(path, line, {name: text.value()}, name, LARGEST_COUNT, integer=True)
            else:
                text.value()
    for name in ("jobs", "profiles"):
        if name not in names:
            hint = next(
                (f"; for {other}, {close}" for other in names if (close := closest((name,), other))), ""
            )
            raise format_error(path, 1, f"a workload of Batsim must have {name}{hint.rstrip()}")
    if not isinstance(profiles, dict):
        raise format_error(path, 1, f"profiles must be an object, got {type(profiles).__name__}")
    run_times: dict[str, float] = {}
    rows = np.full((len(jobs), 5), np.nan)
    depends = np.zeros(len(jobs), np.bool_)
    unused: set[str] = set()
    for k, (line, job) in enumerate(jobs):
        if not isinstance(job, dict):
            raise format_error(path, line, f"a job must be an object, got {type(job).__name__}")
        _check_fields(path, line, job)
        profile = str(job["profile"])
        if profile not in run_times:
            run_times[profile] = _run_time(path, line, profiles, profile)
        number = parse_number(str(job["id"]).rpartition("!")[2])
        is_number = number is not None and 0 <= number <= LARGEST_EXACT and number == math.floor(number)
        rows[k] = (
            number if is_number and number is not None else np.nan,
            _number(path, line, job, "subtime"),
            run_times[profile],
            _number(path, line, job, "res", LARGEST_COUNT, integer=True),
            _number(path, line, job, "walltime") if "walltime" in job else np.nan,
        )
        depends[k] = math.isnan(run_times[profile])
        unused.update(key for key in job if key not in _FIELDS)
    lines = np.array([line for line, _ in jobs], np.int64)
    numbers, submit, run_time, procs, limit = rows[~depends].T
    if len(np.unique(numbers)) != len(numbers):
        numbers = np.full(len(numbers), np.nan)
    ids = np.array([str(job["id"]) for _, job in jobs])
    is_repeated = np.ones(len(ids), np.bool_)
    is_repeated[np.unique(ids, return_index=True)[1]] = False
    fields = {
        "job": unique_numbers(numbers),
        "submit": submit,
        "run_time": run_time,
        "used_procs": procs,
        "req_procs": procs,
        "req_time": np.where(limit > 0, limit, np.nan),
    }
    remarks = (
        Remark(lines[depends], "jobs whose profile is not a delay, so their run time is unknown, left out"),
        Remark(
            np.ones(len(unused), np.int64), f"fields that no run uses ({', '.join(sorted(unused))}), left out"
        ),
    )
    header = {"Computer": "Batsim"}
    if resources is not None:
        header["MaxProcs"] = str(int(resources))
    parsed = make_jobs(path, fields, lines[~depends], header=header, is_local=None, remarks=remarks)
    if not is_repeated.any():
        return parsed
    repeated = Remark(lines[is_repeated], "jobs of an id that an earlier job has, so jobs get new numbers")
    return parsed._replace(repairs=(repeated, *parsed.repairs))


def _check_fields(path: StrPath, line: int, job: Mapping[str, Any]) -> None:
    for name in _MANDATORY:
        if name in job:
            continue
        close = next((hint for key in job if key not in _FIELDS and (hint := closest((name,), key))), "")
        hint = f"; {close.rstrip()}" if close else ""
        raise format_error(path, line, f"a job must have {', '.join(_MANDATORY)}, got none for {name}{hint}")


def _number(
    path: StrPath,
    line: int,
    job: Mapping[str, Any],
    name: str,
    maximum: float = LARGEST_EXACT,
    *,
    integer: bool = False,
) -> float:
    value = parse_number(str(job[name])) if not isinstance(job[name], bool) else None
    low = 1 if integer else -1 if name == "walltime" else 0
    if value is None or not low <= value <= maximum or (integer and value != math.floor(value)):
        kind = "a whole number" if integer else "a number"
        message = f"field {name} must be {kind} of at least {low}, got {truncate(repr(job[name]))}"
        raise format_error(path, line, message)
    return value


def _run_time(path: StrPath, line: int, profiles: Mapping[str, Any], name: str, depth: int = 0) -> float:
    """Return the run time of a profile, s; NaN if it depends on the platform."""
    profile = profiles.get(name)
    if not isinstance(profile, dict):
        hint = closest(profiles, name).rstrip()
        message = f"field profile must be the name of a profile, got {truncate(repr(name))}"
        raise format_error(path, line, f"{message}; {hint}" if hint else message)
    if profile.get("type") in _DELAYS:
        if "delay" not in profile:
            raise format_error(path, line, f"profile {name!r} of type delay must have delay, got none")
        return _number(path, line, profile, "delay")
    if profile.get("type") not in _SEQUENCES:
        return math.nan
    if depth == _MAX_DEPTH:
        raise format_error(path, line, f"profiles must be nested at most {_MAX_DEPTH} levels, got more")
    sequence = profile.get("seq")
    if not isinstance(sequence, list):
        raise format_error(
            path, line, f"profile {name!r} must have a list seq, got {truncate(repr(sequence))}"
        )
    repeat = next((key for key in ("repeat", "nb") if key in profile), None)
    times = 1.0 if repeat is None else _number(path, line, profile, repeat)
    return times * sum(_run_time(path, line, profiles, str(part), depth + 1) for part in sequence)
