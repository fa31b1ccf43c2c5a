"""Cells: one run of one scheduler on one scenario, as a study needs it: in, and what it measured, out.

A cell is plain data that can go to another process or machine.  Its key is what its outcome depends on, so
that a store never mistakes one for another.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from gridsim.errors import FileChanged, GridSimError, text_of
from gridsim.model.scenario import Scenario
from gridsim.results.metrics.registry import MetricFunction, measured
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.simulate import checked_limit, simulate
from gridsim.support.provenance import (
    code_version,
    digest_now,
    other_file,
    peak_memory,
)

Wanted = Mapping[str, "MetricFunction | None"]


@dataclass(frozen=True)
class Cell:
    """One run.

    metrics : name -> a function of the result, or None for one of `gridsim.results.metrics.registry.METRICS`.
    time_limit : as of `simulate`.
    keep : the file to save the result in, which whoever runs the cell must be able to write; None for none.
    files : SHA-256 of each trace file that it must read; None for whatever is there.
    """

    scenario: Scenario
    scheduler: Scheduler
    metrics: Wanted = field(default_factory=dict)
    time_limit: float | None = None
    keep: str | None = None
    files: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "time_limit", checked_limit(self.time_limit))  # as a store holds it


@dataclass(frozen=True)
class Measured:
    """What a cell came to.

    values : metric -> number.  digest : of the result.  error : why there is none of that; empty if there is.
    lost : whether that was the worker's fault, and says nothing of the cell.
    wall_seconds, peak_memory : s, and bytes of the process so far.  code : see `code_version`.
    files : SHA-256 of each trace file as it was read.  changed : the first of them that is not what the cell
    says; then nothing else is true of it, and it is lost, too.
    notes : warnings of the run, (category, message).  trace : where the error came from, as text.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    digest: str = ""
    error: str = ""
    lost: bool = False
    wall_seconds: float = 0.0
    peak_memory: int | None = None
    code: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    changed: str = ""
    notes: tuple[tuple[type[Warning], str], ...] = ()
    trace: str = ""


def measure(cell: Cell) -> Measured:
    """Run a cell; whatever goes wrong is its error."""
    started = time.perf_counter()
    lost, values, digest, error, trace = False, {}, "", "", ""
    files: Mapping[str, str] = {}
    with _noted() as notes:
        try:
            result = simulate(cell.scenario, cell.scheduler, time_limit=cell.time_limit)
            files = result.provenance["files"]
            changed = _changed(cell, files)
            if not changed:
                values, digest = measured(result, cell.metrics), result.digest
            if not changed and cell.keep is not None:
                lost = True  # from here on
                result.save(cell.keep)
                lost = False
        except (Exception, SystemExit) as failure:  # whatever a scheduler of the user does
            values, digest, error = {}, "", _said(failure)
            trace = "".join(traceback.format_exception(failure))
            # with more memory, on another disk, or with files that stay, it would have been done
            lost |= isinstance(failure, (MemoryError, FileChanged))
            changed = _changed(cell)
    return Measured(
        values=values,
        digest=digest,
        error=error,
        lost=lost or bool(changed),
        wall_seconds=time.perf_counter() - started,
        peak_memory=peak_memory(),
        code=code_version(),
        files=files,
        changed=changed,
        notes=tuple(notes),
        trace=trace,
    )


def _changed(cell: Cell, read: Mapping[str, str] | None = None) -> str:
    """The first file that is not as `cell` says: of those that were read, or would be now; "" if all are."""
    if cell.files is None:
        return ""
    return other_file(_now(cell, set(cell.files)) if read is None else read, cell.files) or ""


def _now(cell: Cell, files: set[str]) -> dict[str, str]:
    """SHA-256 of `files` and what else `cell` would read now; of its platform, what that was made from."""
    scenario = cell.scenario
    made: Mapping[str, str] = {}
    with suppress(GridSimError, OSError):  # that is how it failed
        files |= set(scenario.files)
        made = scenario.platform.files
    return {file: digest for file in files if (digest := digest_now(file)) is not None} | dict(made)


def measure_all(cells: list[Cell]) -> list[Measured]:
    """Run cells one after another: what is sent to a worker."""
    return [measure(cell) for cell in cells]


def _said(error: BaseException) -> str:
    # what is no text that can be written, as half a character, is spelt out
    message = " ".join(text_of(error).split()).encode("utf-8", "backslashreplace").decode()
    if isinstance(error, (GridSimError, MemoryError, OSError)) and message:
        return f"{type(error).__name__}: {message}"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {message}{place}"


@contextmanager
def _noted() -> Iterator[list[tuple[type[Warning], str]]]:
    """What is warned of meanwhile, in a process of its own: there nobody would see it."""
    notes: list[tuple[type[Warning], str]] = []
    own = multiprocessing.parent_process() is not None
    if not own or threading.current_thread() is not threading.main_thread():
        yield notes
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    notes += [(entry.category, str(entry.message)) for entry in caught]


# -- what a cell is called --------------------------------------------------------------------------------
