"""Class `Result`: the outcome of a run, as tables and facts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import GridSimError, ScenarioError
from gridsim.model.applications import ListedWorkload
from gridsim.model.scenario import ArchivedScenario, Scenario
from gridsim.results.decisions import Explanation, why
from gridsim.results.metrics.registry import BoundKind, Metrics, summarized
from gridsim.results.schema import COLUMN_UNITS, CORE_TABLES, check_columns, check_rows
from gridsim.results.table import Table, digest
from gridsim.results.text import as_text, availability_lines, draw_lines, run_lines, scenario_lines
from gridsim.support import html
from gridsim.support.arguments import SuggestingDict
from gridsim.support.extras import need
from gridsim.support.provenance import check_read
from gridsim.support.references import Arrays
from gridsim.support.text import WIDTH, check_name, plain

#: Tables that the digest does not cover: those that exist only if the user asked for them, and the numbers
#: that jobs have in their log.
RECORDS = ("schedule", "arrivals", "decisions", "message_log", "log_jobs")

#: The class of the scheduler in a result that `gridsim.result_from_log` made.
READ_FROM_LOG = "gridsim:result_from_log"

#: Table -> name of its dimension in xarray, for tables with a row per application or machine; else ``row``.
_DIMENSIONS = {
    "applications": "application",
    "cycles": "application",
    "log_jobs": "application",
    "machines": "machine",
}


class Result(Metrics):
    """The outcome of a run; its metrics are those of `gridsim.results.metrics.registry.Metrics`.

    Columns of ``applications``: release, first_start, finish (s); tasks; task_size, size (Mflop); submitter;
    stretch (s/Mflop) = (finish - release) / size; stretch_agg = stretch * aggregate speed (no unit);
    resubmitted (tasks); nodes_used; and whatever else the scheduler reports (-1 stands for none).
    Rigid jobs also have failed (1 if rejected, else 0; start, finish and all columns computed from them are
    NaN then), run_time, requested, waiting (s, from the release to the start of the run that was completed),
    slowdown (bounded).
    If the tasks of an application differ in size, smallest_task and largest_task (Mflop) are there too, and
    task_size is the mean.

    Columns of ``machines``: speed (Mflop/s), busy (s), tasks, peak_queue (tasks), bytes_out, bytes_in,
    utilization.  Columns of ``messages``, which has a row per kind: kind, sent, delivered, dropped,
    in_flight, bytes.  Columns of ``cycles``, which has a row per application and exists if tasks may have
    several replicas: useful, redundant, lost, overhead, slowed (Mflop).  Together they are all that machines
    were busy with; see `gridsim.scheduling.contract.Outcome`.  Columns of ``jobs``, which has a row per task
    and exists if tasks may move before they run: application, machine, probes (steps of its search),
    predicted, waited (s), turnaround (s); see docs/background/rjss.md.

    Tables recorded on request: ``schedule`` has machine, application, tasks, start, end (s), completed
    (tasks), and, if tasks may have several replicas, task (its number within the application) and begin
    (Mflop done before).  ``arrivals`` has machine, application, tasks, time (s).  For ``decisions`` see
    `why`.  ``log_jobs`` has job, the number of each application in its log, for rigid jobs of a log.
    ``message_log`` has a row per message: kind, sender, receiver, sent, delivered (s; NaN if it never
    arrived), dropped (0 or 1), bytes, application (-1 if it is about none).  Senders and receivers are
    machines or `servers`.

    Parameters
    ----------
    tables
        Name -> `Table`: ``applications``, ``machines``, ``messages``, and those of the scheduler.
    facts
        Scalars that the scheduler reports.
    scheduler
        ``name``, ``class`` and ``parameters`` of the scheduler, as plain values.
    provenance
        Versions, seed, scenario (TOML), SHA-256 of trace files, wall seconds, peak memory.
    arrays
        Those to which the scenario in the provenance refers, see `ArchivedScenario`.
    """

    def __init__(
        self,
        *,
        tables: Mapping[str, Table],
        facts: Mapping[str, Any],
        scheduler: Mapping[str, Any],
        provenance: Mapping[str, Any],
        arrays: Arrays | None = None,
        scenario: Scenario | None = None,
    ) -> None:
        for name in CORE_TABLES:
            if name not in tables:
                raise ValueError(f"a result needs the table {name!r}")
        self.tables = _Tables("table", {check_name(name): table for name, table in tables.items()})
        self.facts: dict[str, Any] = plain(facts)
        self.scheduler: dict[str, Any] = plain(scheduler)
        self._about: dict[str, Any] = plain(provenance)  # the provenance; of a run, without its scenario
        #: The digest stated in the file, if the result was loaded from one; else None.
        self.stated_digest: str | None = None
        self._arrays = arrays or {}
        if scenario is not None:
            self.__dict__["scenario"] = scenario

    # -- what happened --------------------------------------------------------------------------------

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Versions, seed, scenario (TOML), SHA-256 of trace files, wall seconds, peak memory.

        The TOML refers to arrays in place of lists of more than a hundred entries, so that it is short.
        `scenario` has these lists, and ``scenario.to_toml()`` is the whole text.
        """
        archived = self._archived
        return self._about if archived is None else {**self._about, "scenario": archived.toml}

    @cached_property
    def _archived(self) -> ArchivedScenario | None:
        """The scenario as the file of the result holds it; None if the result does not contain it."""
        if "scenario" in self._about:
            return ArchivedScenario(self._about["scenario"], self._arrays)
        scenario = self.__dict__.get("scenario")
        return None if scenario is None else scenario.to_archive()

    @property
    def decentralized(self) -> bool | None:
        """Whether the scheduler was decentralized; None if the result does not say, as one of a log."""
        return self._about.get("decentralized")

    @property
    def migrates(self) -> bool | None:
        """Whether the scheduler may hand on tasks that have begun; None if the result does not say."""
        stated = self._about.get("migrates")
        return stated if isinstance(stated, bool) else None

    @property
    def origin(self) -> float:
        """The time of a list of applications or jobs at which the run began, s; 0 for other workloads."""
        return float(self._about.get("origin", 0.0))

    @property
    def of_log(self) -> bool:
        """Whether this is the schedule of a job log, which states no messages and no single machines."""
        return bool(self.scheduler.get("class") == READ_FROM_LOG)

    @property
    def has_faults(self) -> bool:
        """Whether machines could fail in the run."""
        return "availability" in self._about

    @cached_property
    def servers(self) -> int:
        """The number of servers: machines of a scheduler's own, which run no tasks and never fail.

        In ``message_log`` and ``decisions`` server k has the number ``len(machines) + k``.
        """
        about, machines = self._about, len(self.machines)
        if "servers" in about:
            return int(about["servers"])
        # a file of an earlier version: it states the machines of its log, with servers, or nothing
        stated = about.get("message_log", {}).get("machines")
        if stated is not None:
            return max(0, int(stated) - machines)
        if (log := self.tables.get("message_log")) is None:
            return 0
        ends = np.concatenate((log["sender"], log["receiver"]))
        return len(np.unique(ends[ends >= machines]))  # each server takes part, so that no number is left out

    @property
    def files_read(self) -> dict[str, str]:
        """SHA-256 of each trace file that the run has read."""
        return dict(self._about["files"])

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario of the run.

        For a loaded result it is built again, which needs the trace files that it names.

        Raises GridSimError if the result does not contain its scenario, or the arrays to which that refers.
        """
        if self._archived is None:
            raise GridSimError("the result does not say of what scenario it is")
        scenario = Scenario.from_archive(self._archived)
        if "origin" not in self._about and isinstance(scenario.workload.recipe, ListedWorkload):
            # results without it are of runs that began at time 0 of the releases
            return scenario.replaced({"workload.origin": 0.0})
        return scenario

    def check_faults(self) -> None:
        """Check that the failure trace, if there is one, is still the file that the run read.

        Call this before failures are generated again, as for a chart: a changed trace would give others.
        Raises FileChanged.
        """
        faults, stated = self.scenario.faults, self._about.get("files")
        own = {} if faults is None else faults.sources()
        if own and isinstance(stated, dict):
            named = {path for path in self.scenario.paths if path not in own}
            of_faults = {file: digest for file, digest in stated.items() if file not in named}
            check_read((file for files in own.values() for file in files), of_faults)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of tables and facts (see `gridsim.results.table.digest`): equal runs have equal digests.

        It does not cover the tables that were recorded on request, and ``log_jobs``.
        """
        return digest({name: t for name, t in self.tables.items() if name not in RECORDS}, self.facts)

    def summary(self, bound: BoundKind = "best") -> dict[str, Any]:
        """Return the run in a few numbers; `gridsim.results.metrics.registry.UNITS` has their units.

        Parameters
        ----------
        bound
            The kind of bound behind ``lower_bound`` and ``gap`` (the optimality gap), which are None with
            more than `BOUND_LIMIT` applications.
        """
        return {
            "scheduler": self.scheduler["name"],
            "parameters": self.scheduler["parameters"],
            "machines": len(self.machines),
            "applications": len(self.applications),
            "tasks": int(self.applications["tasks"].sum()),
            "lower_bound_kind": self.kind_of_bound(bound),
            **summarized(self, bound),
            "facts": self.facts,
            "wall_seconds": self._about.get("wall_seconds"),
            "peak_memory": self._about.get("peak_memory"),
            "digest": self.digest,
        }

    def __repr__(self) -> str:
        if self.rigid:
            return (
                f"<Result of {self.scheduler['name']}: {len(self.applications)} rigid jobs on "
                f"{len(self.machines)} machines, {self.failed} rejected, mean waiting "
                f"{self.mean_waiting:.6g} s, makespan {self.makespan:.6g} s, digest {self.digest[:16]}>"
            )
        return (
            f"<Result of {self.scheduler['name']}: {len(self.applications)} applications on "
            f"{len(self.machines)} machines, max_stretch_agg {self.max_stretch_agg:.5g}, "
            f"makespan {self.makespan:.6g} s, digest {self.digest[:16]}>"
        )

    def _repr_html_(self) -> str:
        """Return the run as notebooks show it."""
        return html.pairs(self.lines(), f"Result of {self.scheduler['name']}")

    def to_pandas(self, table: str = "applications") -> Any:
        """Return one of the `tables` as a pandas DataFrame.  Raises ImportError without pandas."""
        return self._table(table).to_pandas()

    def to_arrow(self, table: str = "applications") -> Any:
        """Return one of the `tables` as a pyarrow Table.  Raises ImportError without pyarrow."""
        return self._table(table).to_arrow()

    def _table(self, name: str) -> Table:
        table: Table = self.tables[name]
        return table

    def plot(self, kind: str = "distribution", **how: Any) -> Any:
        """Draw the run as a figure of matplotlib.

        Raises ScenarioError for another kind, and ImportError without matplotlib.

        Parameters
        ----------
        kind
            ``"distribution"``, ``"series"``, ``"gantt"``, ``"traffic"`` or ``"tree"``.
        how
            Further arguments of the function of `gridsim.plots` that has this name.
        """
        # figures are drawn by a package that knows results, so it cannot be imported above
        return need("gridsim.studies.figures", "plot", "plot").of_results(
            kind, {self.scheduler["name"]: self}, **how
        )

    def format(
        self,
        name: str | None = None,
        bound: BoundKind = "best",
        *,
        width: int = WIDTH,
        verbose: bool = False,
    ) -> str:
        """Return the run as readable text.

        Parameters
        ----------
        name
            Shown instead of the scheduler's own name.
        bound
            As in `summary`.
        width
            Characters of a line.
        verbose
            Include the parameters of the scheduler and the facts that it reports.
        """
        return as_text(self.lines(name, bound, verbose=verbose), width)

    def lines(
        self, name: str | None = None, bound: BoundKind = "best", *, verbose: bool = False
    ) -> dict[str, str]:
        """Return the lines of `format` as a dict: what a line is about -> its text."""
        said = run_lines(
            self.summary(bound),
            self._released_within,
            name,
            remarks=self._remarks | draw_lines(self.drawn),
            up=self.describe_availability(),
            verbose=verbose,
        )
        if (about := self._about.get("emulation")) is not None:
            said["emulated"] = (
                f"in {about['processes']} processes, {about['speedup']:g} s in a second, "
                f"{about['network']} network; "
                f"timers late by {about['late_mean']:.2g} s, at most {about['late_most']:.2g} s"
            )
        for table, count in self.left_out.items():
            said[table] = f"the first {len(self.tables[table])} rows; {count} more were left out"
        return said

    @property
    def drawn(self) -> tuple[str, ...]:
        """What the result depends on that was drawn at random: parts of the scenario, and the run itself.

        Empty if a run with another seed would be the same, and for a result of an earlier version.
        """
        return tuple(self._about.get("drawn", ()))

    @property
    def left_out(self) -> dict[str, int]:
        """Table -> rows not kept, for ``decisions`` and ``message_log`` if they reached their limit."""
        about = self._about
        counts = {
            "decisions": about.get("decisions", {}).get("dropped", 0),
            "message_log": about.get("message_log", {}).get("left_out", 0),
        }
        return {table: count for table, count in counts.items() if count}

    def describe_scenario(self) -> dict[str, str]:
        """Return a line each on the platform, the workload, what time 0 is, and the load."""
        return scenario_lines(self.summary(), self._released_within, self._remarks)

    def describe_availability(self) -> dict[str, str]:
        """Return a line on how many machines are up, and for how long; none if all are, all the time."""
        return availability_lines(self._about.get("availability"), len(self.machines))

    @property
    def _remarks(self) -> dict[str, str]:
        return {name: text for name in ("log", "clock") if (text := str(self._about.get(name, "")))}

    @property
    def _released_within(self) -> float:
        """Time from the first to the last release, s."""
        release = self.applications["release"]
        return float(release[-1] - release[0])

    @property
    def jobs_of_log(self) -> NDArray[np.int64] | None:
        """The number of each rigid job in the log that it comes from, int64; None without a log."""
        return self.tables["log_jobs"]["job"] if "log_jobs" in self.tables else None

    def row_of_job(self, job: int) -> int:
        """Return the row in ``applications`` of a job, by its number in the log that it comes from.

        Raises ScenarioError if the jobs come from no log, or if several copies have the number, and
        IndexError if none has it.
        """
        if (numbers := self.jobs_of_log) is None:
            raise ScenarioError(f"job must be absent, as the applications are no jobs of a log, got {job!r}")
        rows = np.flatnonzero(numbers == job)
        if not len(rows):
            raise IndexError(f"job {job} of the log")
        if len(rows) > 1:
            some = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
            raise ScenarioError(f"job {job} of the log is several applications, {some}: name one of them")
        return int(rows[0])

    def why(self, application: int, task: int | None = None) -> Explanation:
        """Explain the decisions on an application or a rigid job.

        The explanation tells which machine decided, what it saw, how old that was, and the true value.

        Raises GridSimError for a run that was not simulated with ``record="decisions"``, ScenarioError if an
        argument is not a whole number, IndexError if there is no such application or task.

        Parameters
        ----------
        application
            Its row in ``applications``; `row_of_job` tells that of a job of a log.
        task
            The number of one of its tasks; only the decisions on this task or on the whole application are
            explained then.
        """
        about = self._about.get("decisions")
        if "decisions" not in self.tables or about is None:
            raise GridSimError(
                'why: decisions are only there if the run had record="decisions" (--decisions)'
            )
        _check_row("application", application, len(self.applications))
        if task is not None:
            tasks = int(self.applications["tasks"][application])
            _check_row("task", task, tasks, f" of application {application}")
        job = None if (numbers := self.jobs_of_log) is None else int(numbers[application])
        return why(self.tables["decisions"], about, application, task, job)

    def to_xarray(self) -> Any:
        """Return the tables as an xarray DataTree: a group per table; digest and facts are attributes.

        Columns of ``applications`` and ``cycles`` are along the dimension ``application``, those of
        ``machines`` along ``machine``, others along ``row``.  The columns are shared, not copied (see
        `Table.to_xarray`).  Columns that measure rather than count have their unit as attribute ``units``.

        Raises ImportError when xarray is not installed.
        """
        xarray = need("xarray", "data", "to_xarray")
        groups = {name: table.to_xarray(_DIMENSIONS.get(name, "row")) for name, table in self.tables.items()}
        for name, group in groups.items():
            for column, unit in COLUMN_UNITS.get(name, {}).items():
                if column in group:
                    group[column].attrs["units"] = unit
        tree = xarray.DataTree.from_dict(groups)
        tree.attrs = {"scheduler": self.scheduler["name"], "digest": self.digest, **self.facts}
        return tree

    # -- in a file ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to one file, either completely or not at all; see `gridsim.results.files`.

        Raises GridSimError for a result that could not be read again, OSError if the file cannot be written.
        """
        from gridsim.results.files import unreadable, write

        try:
            check_columns(self.tables)
            check_rows(self.tables, self.servers)
        except ValueError as error:
            raise unreadable(path, error) from error
        write(
            path,
            digest=self.digest,
            tables=self.tables,
            arrays={} if self._archived is None else self._archived.arrays,
            facts=self.facts,
            scheduler=self.scheduler,
            provenance=self.provenance,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, verify: bool = True) -> Result:
        """Read a result from a file and verify it.

        The digest stated in the file is kept as `stated_digest`.

        Parameters
        ----------
        verify
            Check that the tables give the digest stated in the file, and that rows refer only to machines and
            applications that exist.

        Raises
        ------
        GridSimError
            If the file is not a result, is damaged, or states a digest that its tables do not give; OSError
            if the file cannot be read.
        """
        from gridsim.results.files import damaged, read

        name = os.fspath(path)
        stated, content = read(path)
        try:
            result = cls(**content)
            result.stated_digest = stated
            if verify:
                check_rows(result.tables, result.servers)
            found = result.digest if verify else stated
        except Exception as error:  # any error of malformed tables or facts
            raise damaged(name, error) from error
        if stated != found:
            raise GridSimError(f"{name}: the file states digest {stated!r}, but its tables make {found!r}")
        return result


class _Tables(SuggestingDict):
    """The tables of a result, by name."""

    def __repr__(self) -> str:
        return f"<tables {', '.join(f'{name} ({len(table)} rows)' for name, table in self.items())}>"


def _check_row(what: str, number: Any, count: int, whose: str = "") -> None:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise ScenarioError(f"{what} must be a whole number, got {number!r}")
    if not 0 <= number < count:
        raise IndexError(f"{what} {number} of {count}{whose}")
