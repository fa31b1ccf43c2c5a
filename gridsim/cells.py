"""Cells: one run of one scheduler on one scenario, as a study needs it: in, and what it measured, out.

A cell is plain data that can go to another process or machine.  Its key is what its outcome depends on, so
that a store never mistakes one for another.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import multiprocessing
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from gridsim.arguments import shown
from gridsim.describing import Description
from gridsim.errors import FileChanged, GridSimError, ScenarioError, text_of
from gridsim.importing import imported, located
from gridsim.measures import Metric, measured
from gridsim.provenance import PACKAGES, code_version, digest_now, other_file, peak_memory, sha256
from gridsim.records import plain
from gridsim.scenario import Scenario
from gridsim.scheduler import Scheduler
from gridsim.simulation import checked_limit, simulate

Wanted = Mapping[str, "Metric | None"]


@dataclass(frozen=True)
class Cell:
    """One run.

    metrics : name -> a function of the result, or None for one of `gridsim.measures.METRICS`.
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


@dataclass(frozen=True)
class _Known:
    """A scenario (held, so that its id stays its own), what its key says, and the SHA-256 of its files."""

    scenario: Scenario
    said: str
    files: Mapping[str, str]


class Keys:
    """Keys of cells.  What many cells share, scenarios, files and modules, is looked at once."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._scenarios: dict[int, _Known] = {}

    def scenario(self, scenario: Scenario) -> str:
        """The scenario's TOML, without parameters of schedulers; in the place of files what their names say
        of how they are read, and SHA-256."""
        return self._known(scenario).said

    def files(self, scenario: Scenario) -> Mapping[str, str]:
        """The SHA-256 of each file that the scenario reads, which are in its key."""
        return self._known(scenario).files

    def _known(self, scenario: Scenario) -> _Known:
        from gridsim.traces import format_of_name

        if id(scenario) not in self._scenarios:
            sources = scenario.sources()
            files = {file: self._file(file) for of_path in sources.values() for file in of_path}

            def content(path: str) -> str:
                # names decide how files are read
                packed = ("gz:" if file.endswith(".gz") else "" for file in sources[path])
                parts = [f"{gz}sha256:{files[file]}" for gz, file in zip(packed, sources[path], strict=True)]
                return "+".join(filter(None, (format_of_name(path), *parts)))

            said = scenario.to_toml(schedulers=False, place=content)
            self._scenarios[id(scenario)] = _Known(scenario, said, files)
        return self._scenarios[id(scenario)]

    def key(self, cell: Cell) -> str:
        """SHA-256 (hexadecimal) of all that decides what comes out of `cell`.

        The scenario with its seeds and the content of its files, the scheduler's class and parameters, the
        time limit, functions of the user (with the source of their modules, but not what those import), the
        code of gridsim and the version of numpy.

        Raises ScenarioError for a scheduler or function whose source is not in a file, and for parameters
        that plain values do not tell.
        """
        scheduler = Description(cell.scheduler)
        for name, value in scheduler.unsaid.items():
            raise ScenarioError(
                f"{cell.scheduler.name}.{name} must be of plain values, structs, and functions or classes "
                f"of modules to be kept in a store, got {shown(value)}"
            )
        own = {
            name: self._function(name, metric)
            for name, metric in sorted(cell.metrics.items())
            if metric is not None
        }
        said = {
            "code": code_version(),
            "scenario": self.scenario(cell.scenario),
            "class": scheduler.told["class"],
            "parameters": scheduler.told["parameters"],
            "modules": self._modules(scheduler),
            "metrics": own,
            "time_limit": cell.time_limit,
        }
        return hashlib.sha256(json.dumps(plain(said), sort_keys=True).encode()).hexdigest()

    def _function(self, name: str, metric: Metric) -> str:
        """A function of the user by its name, which must say all of it, and the source of its module."""
        module, called = (getattr(metric, key, "") for key in ("__module__", "__qualname__"))
        try:
            found = imported(f"{module}:{called}")
        except Exception:  # whatever importing raises
            found = None
        if found is not metric:
            raise ScenarioError(
                f"metrics[{name!r}] must be a function of a module to be kept in a store, which knows it by "
                f"its name, got {metric!r}"
            )
        return f"{module}:{called} {self._module(module, name)}"

    def _modules(self, scheduler: Description) -> dict[str, str]:
        """The source of the user's modules that the scheduler and functions in parameters come from."""
        whose = scheduler.told["name"]
        found = {name: self._module(name, whose) for name in scheduler.modules if _of_user(name)}
        for text in scheduler.texts:  # which may name a function, or be a time of day
            name, _, attribute = text.partition(":")
            if name and attribute and _of_user(name) and (file := located(name)) is not None:
                found.setdefault(name, f"sha256:{self._file(file)}")
        return found

    def _module(self, name: str, whose: str) -> str:
        if name.partition(".")[0] in sys.stdlib_module_names:
            return f"python {sys.version}"
        try:
            file = inspect.getsourcefile(import_module(name))
        except (ImportError, TypeError):
            file = None
        if file is None or not Path(file).is_file():
            raise ScenarioError(
                f"{whose} must come from a module in a file to be kept in a store, got one of {name}"
            )
        return f"sha256:{self._file(file)}"

    def _file(self, path: str) -> str:
        if path not in self._files:
            self._files[path] = sha256(path)
        return self._files[path]


def _of_user(module: str) -> bool:
    return module.partition(".")[0] not in PACKAGES
