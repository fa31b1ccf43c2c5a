"""Runs of a study: `Cell` describes one run of one scheduler on one scenario, `RunRecord` is its record.

A `Cell` is plain data that can be sent to another process or machine.  Its key covers all data on which the
outcome depends, so that a store never confuses two runs.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gridsim.errors import FileChanged, GridSimError, collect_warnings, text_of, variant_label
from gridsim.model.scenario import Scenario
from gridsim.results.job_groups import Group, group_values
from gridsim.results.metrics.registry import MetricFunction, metric_values
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.nodes.handler_errors import is_of_library
from gridsim.simulation.options import checked_limit
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.provenance import (
    code_version,
    current_digest,
    first_differing_file,
    peak_memory,
)

MetricSelection = Mapping[str, "MetricFunction | None"]


#: Entry of the values of a run with failures: the mean share of the time that machines were up.
AVAILABILITY = "mean availability"


@dataclass(frozen=True)
class Cell:
    """The description of one run.

    Parameters
    ----------
    metrics
        Name -> a function of the result, or None for one of `gridsim.results.metrics.registry.METRICS`.
    time_limit
        As in `simulate`.
    skip_days
        As in `gridsim.Result.without_first_days`.
    by
        What rigid jobs are grouped by; the record has the waiting times of the groups.
    keep
        The file in which the result is saved, which must be writable for the process that executes the run;
        None to save no result.
    files
        SHA-256 that each trace file must have when it is read; None to accept any content.
    label
        Label of the scheduler in its study, which its warnings name; it is no part of the key.
    place
        Point and replication in the study, such as "bound = 4, replication 3"; it is no part of the key.
    """

    scenario: Scenario
    scheduler: Scheduler
    metrics: MetricSelection = field(default_factory=dict)
    time_limit: float | None = None
    skip_days: float = 0.0
    by: tuple[Group, ...] = ()
    keep: str | None = None
    files: Mapping[str, str] | None = None
    label: str = ""
    place: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "time_limit", checked_limit(self.time_limit))  # as stores read it

    @property
    def name(self) -> str:
        """The run in messages, such as "fcfs (bound = 4, replication 3)"."""
        return f"{self.label or self.scheduler.name} ({self.place or f'seed {self.scenario.seed}'})"


@dataclass(frozen=True)
class RunRecord:
    """The record of a run: its measurements, or the reason why the run failed.

    Parameters
    ----------
    values
        Metric -> number; also of groups of jobs, and `AVAILABILITY`.
    digest
        Digest of the result.
    error
        The reason of a failure, with which there are no values and no digest; empty if the run did not fail.
    lost
        Whether the worker caused the error, which then is not an error of the run itself.
    wall_seconds
        Wall-clock time of the run, s.
    peak_memory
        Maximum memory of the process so far, bytes.
    code
        The version of the code, from `code_version`.
    adopted_from
        The version of the code that executed the run, if its record was adopted under `code`; else empty.
    files
        SHA-256 of each trace file as it was read.
    changed_file
        The first trace file that differs from `Cell.files`; empty if there is none.  If there is one, the
        rest of the record is not valid, and `lost` is set as well.
    notes
        Warnings of the run, (category, message).
    metric_errors
        Metric of the user -> the error that it raised; its value is NaN.
    trace
        The traceback of the error, as text.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    digest: str = ""
    error: str = ""
    lost: bool = False
    wall_seconds: float = 0.0
    peak_memory: int | None = None
    code: str = ""
    adopted_from: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    changed_file: str = ""
    notes: tuple[tuple[type[Warning], str], ...] = ()
    metric_errors: Mapping[str, str] = field(default_factory=dict)
    trace: str = ""


def measure(cell: Cell) -> RunRecord:
    """Execute a run and return its record; an exception becomes the record's `error`."""
    started = time.perf_counter()
    lost, values, digest, error, trace = False, {}, "", "", ""
    files: Mapping[str, str] = {}
    metric_errors: dict[str, BaseException] = {}
    with collect_warnings() as notes, variant_label(cell.label, cell.scheduler.name):
        try:
            result = simulate(cell.scenario, cell.scheduler, time_limit=cell.time_limit)
            files = result.files_read
            changed_file = _changed_file(cell, files)
            if not changed_file:
                window = result.without_first_days(cell.skip_days)
                values, digest = metric_values(window, cell.metrics, metric_errors), result.digest
                values |= group_values(cell.by, window)
                if (availability := result.provenance.get("availability")) is not None:
                    values[AVAILABILITY] = availability["mean"]
            if not changed_file and cell.keep is not None:
                lost = True  # an error of saving is not an error of the run
                result.save(cell.keep)
                lost = False
        except (Exception, SystemExit) as failure:  # a user's scheduler may raise any exception
            values, digest, error = {}, "", _error_text(failure)
            trace = _user_trace(failure)
            # the run might succeed with more memory, on another disk, or with unchanged files
            lost |= isinstance(failure, (MemoryError, FileChanged))
            changed_file = _changed_file(cell)
    return RunRecord(
        values=values,
        digest=digest,
        error=error,
        lost=lost or bool(changed_file),
        wall_seconds=time.perf_counter() - started,
        peak_memory=peak_memory(),
        code=code_version(),
        files=files,
        changed_file=changed_file,
        notes=tuple(notes),
        metric_errors={name: _error_text(failure) for name, failure in metric_errors.items()},
        trace=trace,
    )


def _changed_file(cell: Cell, files_read: Mapping[str, str] | None = None) -> str:
    """Return the first file whose SHA-256 differs from ``cell.files``; "" if there is none.

    Parameters
    ----------
    files_read
        SHA-256 of each file that was read; None for the files that would be read now.
    """
    if cell.files is None:
        return ""
    return (
        first_differing_file(
            _current_digests(cell, set(cell.files)) if files_read is None else files_read, cell.files
        )
        or ""
    )


def _current_digests(cell: Cell, files: set[str]) -> dict[str, str]:
    """Return the SHA-256 of `files` and of the other files that `cell` would read now.

    For files from which the platform was created, the SHA-256 is that of their content at that time."""
    scenario = cell.scenario
    platform_files: Mapping[str, str] = {}
    with suppress(GridSimError, OSError):  # the run has already failed with this error
        files |= set(scenario.files)
        platform_files = scenario.platform.files
    return {file: digest for file in files if (digest := current_digest(file)) is not None} | dict(
        platform_files
    )


def measure_all(cells: list[Cell]) -> list[RunRecord]:
    """Execute runs one after another; workers call this function."""
    return [measure(cell) for cell in cells]


def _user_trace(error: BaseException) -> str:
    """Return the traceback of an error as text, without the frames of gridsim before the first other one."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("gridsim."):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))


def _error_text(error: BaseException) -> str:
    # characters that cannot be encoded, such as lone surrogates, are escaped
    message = " ".join(text_of(error).split()).encode("utf-8", "backslashreplace").decode()
    if isinstance(error, (GridSimError, MemoryError, OSError)) and message:
        return f"{type(error).__name__}: {message}"
    frames = [*traceback.walk_tb(error.__traceback__)]
    own = [frame for frame in frames if not is_of_library(frame[0])]
    place = ""
    for frame, line in (own or frames)[-1:]:
        if f"{frame.f_code.co_filename}:{line}" not in message:  # the note of a handler has it
            place = f" ({Path(frame.f_code.co_filename).name}:{line})"
    return f"{type(error).__name__}: {message}{place}"
