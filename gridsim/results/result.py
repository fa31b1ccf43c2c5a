"""Class `Result`: the outcome of a run, as tables and facts."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import GridSimError, ScenarioError
from gridsim.model.applications import ListedWorkload
from gridsim.model.scenario import ArchivedScenario, Scenario
from gridsim.optimization.chains import earliest_ends, last_end
from gridsim.results.decisions import Explanation, why
from gridsim.results.diary import Diary, diary_of
from gridsim.results.metrics.registry import BoundKind, Metrics, summary_values
from gridsim.results.metrics.window import checked_days, counted_applications, window_lines
from gridsim.results.schema import COLUMN_UNITS, CORE_TABLES, check_columns, check_rows
from gridsim.results.table import Table, digest
from gridsim.results.text import (
    IN_THIS_RUN,
    as_text,
    availability_lines,
    draw_lines,
    interruption_text,
    machine_noun,
    run_lines,
    scenario_lines,
)
from gridsim.support import html
from gridsim.support.arguments import SuggestingDict, integer, real
from gridsim.support.imports import import_extra
from gridsim.support.provenance import check_digests
from gridsim.support.references import Arrays
from gridsim.support.text import WIDTH, check_name, number_text, plain, time_text

#: Tables that the digest does not cover: recordings, and the numbers of jobs in the log of the workload.
RECORDS = ("schedule", "arrivals", "decisions", "message_log", "observed", "diary", "log_jobs")

#: Class of the scheduler in a result of `gridsim.result_from_log`.
READ_FROM_LOG = "gridsim:result_from_log"

#: Table -> name of its dimension in xarray, for tables with a row per application or machine.
_DIMENSIONS = {
    "applications": "application",
    "cycles": "application",
    "log_jobs": "application",
    "machines": "machine",
}


class Result(Metrics):
    """The outcome of a run, with the metrics of `gridsim.results.metrics.registry.Metrics`.

    Columns of ``applications``: release, first_start, finish (s); tasks; task_size, size (Mflop); submitter;
    stretch (s/Mflop) = (finish - release) / size; stretch_agg = stretch * aggregate speed (no unit);
    resubmitted (tasks); nodes_used; and further columns of the scheduler, in which -1 means none.
    Rigid jobs also have failed (1 if rejected, else 0), run_time, requested, waiting (s, from the release to
    the start of the completed run) and slowdown (bounded).  For a rejected job, start, finish and the columns
    computed from them are NaN.  If the tasks of an application differ in size, there are also smallest_task
    and largest_task (Mflop), and task_size is the mean.

    Columns of ``machines``: speed (Mflop/s), busy (s), tasks, peak_queue (tasks), bytes_out, bytes_in,
    utilization.  Columns of ``messages``, which has a row per kind: kind, sent, delivered, dropped,
    in_flight, bytes.  Columns of ``cycles``, which has a row per application and exists if tasks may have
    several replicas: useful, redundant, lost, overhead, slowed (Mflop).  Their sum is all work of the busy
    machines; see `gridsim.scheduling.contract.Outcome`.  Columns of ``jobs``, which has a row per task and
    exists if tasks may move before they run: application, machine, probes (steps of the search of the task),
    predicted, waited (s), turnaround (s); see docs/background/rjss.md.

    Tables recorded on request: ``schedule`` has machine, application, tasks, start, end (s), completed
    (tasks), and, if tasks may have several replicas, task (its number within the application) and begin
    (Mflop of the task done before).  ``arrivals`` has machine, application, tasks, time (s).  For
    ``decisions`` see `why`.  ``log_jobs`` has job, the number of each application in its log, for rigid jobs
    of a log. ``message_log`` has a row per message: kind, sender, receiver, sent, delivered (s; NaN if it
    never arrived), dropped (0 or 1), bytes, application (-1 for none).  Senders and receivers are machines or
    `servers`.  For ``observed`` and ``diary`` see `observed` and `diary`.

    Parameters
    ----------
    tables
        Name -> `Table`: ``applications``, ``machines``, ``messages``, and those of the scheduler.
    facts
        Scalars reported by the scheduler.
    scheduler
        ``name``, ``class`` and ``parameters`` of the scheduler, as plain values.
    provenance
        Versions, seed, scenario (TOML), SHA-256 of trace files, wall seconds, peak memory.
    arrays
        Arrays to which the scenario in the provenance refers, as in `ArchivedScenario`.
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
                raise ValueError(f"tables must contain {name!r}, got {', '.join(tables) or 'none'}")
        self.tables = _Tables("table", {check_name(name): table for name, table in tables.items()})
        self.facts: dict[str, Any] = plain(facts)
        self.scheduler: dict[str, Any] = plain(scheduler)
        # provenance of a run, without its scenario
        self._provenance: dict[str, Any] = plain(provenance)
        #: The digest stated in the file of a loaded result; None for the result of a run.
        self.stated_digest: str | None = None
        self._arrays = arrays or {}
        if scenario is not None:
            self.__dict__["scenario"] = scenario

    # -- the run --------------------------------------------------------------------------------------

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Versions, seed, scenario (TOML), SHA-256 of trace files, wall seconds, peak memory.

        The TOML refers to arrays in place of lists of more than a hundred entries.  `scenario` has these
        lists, and ``scenario.to_toml()`` is the complete text.
        """
        archive = self._archive
        return self._provenance if archive is None else {**self._provenance, "scenario": archive.toml}

    @cached_property
    def _archive(self) -> ArchivedScenario | None:
        """The scenario as stored in a result file; None if the result does not contain it."""
        if "scenario" in self._provenance:
            return ArchivedScenario(self._provenance["scenario"], self._arrays)
        scenario = self.__dict__.get("scenario")
        return None if scenario is None else scenario.to_archive()

    @property
    def decentralized(self) -> bool | None:
        """True if the scheduler was decentralized; None if unknown, as for a job log."""
        return self._provenance.get("decentralized")

    @property
    def migrates(self) -> bool | None:
        """True if the scheduler may migrate tasks that have begun; None if unknown."""
        stated = self._provenance.get("migrates")
        return stated if isinstance(stated, bool) else None

    @property
    def queue_order(self) -> str | None:
        """The order in which machines ran their tasks, as the scheduler promises it; None if unknown."""
        return self._provenance.get("order")

    @property
    def has_separate_cores(self) -> bool:
        """True if machines have several cores, each of which was a machine for the scheduler."""
        return bool(self._provenance.get("separate_cores"))

    @property
    def origin(self) -> float:
        """Time 0 of the run on the clock of its list of applications or jobs, s; 0 for other workloads."""
        return float(self._provenance.get("origin", 0.0))

    @property
    def of_log(self) -> bool:
        """True for the schedule of a job log, which states neither messages nor machines of tasks."""
        return bool(self.scheduler.get("class") == READ_FROM_LOG)

    @property
    def has_faults(self) -> bool:
        """True if machines could fail in the run."""
        return "availability" in self._provenance

    @cached_property
    def servers(self) -> int:
        """The number of servers: machines of the scheduler that run no tasks and never fail.

        In ``message_log`` and ``decisions`` server k has the number ``len(machines) + k``.
        """
        provenance, machines = self._provenance, len(self.machines)
        if "servers" in provenance:
            return int(provenance["servers"])
        # files of earlier versions state the number of machines and servers together, or do not state it
        stated = provenance.get("message_log", {}).get("machines")
        if stated is not None:
            return max(0, int(stated) - machines)
        if (log := self.tables.get("message_log")) is None:
            return 0
        endpoints = np.concatenate((log["sender"], log["receiver"]))
        # every server sends or receives messages, so all their numbers occur in the log
        return len(np.unique(endpoints[endpoints >= machines]))

    @property
    def files_read(self) -> dict[str, str]:
        """Trace file that the run has read -> its SHA-256."""
        return dict(self._provenance["files"])

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario of the run.

        The scenario of a loaded result is rebuilt, which requires its trace files.

        Raises
        ------
        GridSimError
            If the result does not contain the scenario or the arrays to which the scenario refers.
        """
        if self._archive is None:
            raise GridSimError("the result does not contain its scenario")
        scenario = Scenario.from_archive(self._archive)
        if "origin" not in self._provenance and isinstance(scenario.workload.recipe, ListedWorkload):
            # if a result has no origin, its run began at time 0 of the releases
            return scenario.replaced({"workload.origin": 0.0})
        return scenario

    def check_faults(self) -> None:
        """Check that the failure trace, if there is one, is unchanged since the run.

        Call this before the failures are generated again, for instance for a chart: a changed trace would
        give other failures.

        Raises
        ------
        FileChanged
            If the trace has changed.
        """
        faults, digests = self.scenario.faults, self._provenance.get("files")
        sources = {} if faults is None else faults.sources()
        if sources and isinstance(digests, dict):
            other_files = {path for path in self.scenario.paths if path not in sources}
            fault_digests = {file: digest for file, digest in digests.items() if file not in other_files}
            check_digests((file for files in sources.values() for file in files), fault_digests)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of tables and facts, as `gridsim.results.table.digest` computes it.

        Equal runs have equal digests.  The digest covers neither the tables recorded on request nor
        ``log_jobs``.
        """
        return digest({name: t for name, t in self.tables.items() if name not in RECORDS}, self.facts)

    def summary(self, bound: BoundKind = "best") -> dict[str, Any]:
        """Return the metrics and facts of the run; `gridsim.results.metrics.registry.UNITS` has their units.

        Parameters
        ----------
        bound
            Kind of the lower bound for ``lower_bound`` and ``gap`` (the optimality gap).  Both are None for
            more than `BOUND_LIMIT` applications.
        """
        return {
            "scheduler": self.scheduler["name"],
            "parameters": self.scheduler["parameters"],
            "machines": len(self.machines),
            "cores": self.core_count,
            "applications": len(self.applications),
            "tasks": int(self.applications["tasks"].sum()),
            **({"width": int(self.width.sum())} if "cores" in self.applications else {}),
            **(
                {"skip_days": self.skip_days, "counted": int(self.is_counted.sum())} if self.skip_days else {}
            ),
            **({} if self.rigid else {"lower_bound_kind": self.kind_of_bound(bound)}),
            **summary_values(self, bound),
            "facts": self.facts,
            "wall_seconds": self._provenance.get("wall_seconds"),
            "peak_memory": self._provenance.get("peak_memory"),
            "digest": self.digest,
        }

    def without_first_days(self, skip_days: float | str) -> Result:
        """Return this result with metrics that leave out applications released in the first days.

        The tables, the digest and saved files have all applications.

        Parameters
        ----------
        skip_days
            Number of days after the first release, >= 0, such as 0.5, or a time with a unit such as "12 h".

        Raises
        ------
        ScenarioError
            If there is no later release, or `skip_days` is not such a number.
        """
        view = copy.copy(self)
        for name in ("_completed", "_all_completed", "_bounds", "_linear_metrics"):
            view.__dict__.pop(name, None)
        view.is_counted = counted_applications(self.applications["release"], skip_days)
        view.skip_days = checked_days(skip_days)
        return view

    def __repr__(self) -> str:
        if self.rigid:
            failed = f"{self.failed} {'of unknown wait' if self.of_log else 'rejected'}"
            digest = "" if self.of_log else f", digest {self.digest[:16]}"
            return (
                f"<Result of {self.scheduler['name']}: {len(self.applications)} rigid jobs on "
                f"{len(self.machines)} machines, {failed}, mean waiting "
                f"{time_text(self.mean_waiting)}, makespan {time_text(self.makespan)}{digest}>"
            )
        return (
            f"<Result of {self.scheduler['name']}: {len(self.applications)} applications on "
            f"{len(self.machines)} machines, max_stretch_agg {number_text(self.max_stretch_agg)}, "
            f"makespan {time_text(self.makespan)}, digest {self.digest[:16]}>"
        )

    def _repr_html_(self) -> str:
        """Return an HTML table of `lines`."""
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

    def plot(self, kind: str = "distribution", **options: Any) -> Any:
        """Draw the run as a matplotlib figure.

        Parameters
        ----------
        kind
            ``"distribution"``, ``"series"``, ``"gantt"``, ``"sequence"``, ``"traffic"`` or ``"tree"``.
        options
            Further arguments of the function of `gridsim.plots` with the name `kind`.

        Raises
        ------
        ScenarioError
            If there is no such kind.
        ImportError
            If matplotlib is not installed.
        """
        # imported here, since the package of figures imports this module
        return import_extra("gridsim.studies.figures", "plot", "plot").of_results(
            kind, {self.scheduler["name"]: self}, **options
        )

    def format(
        self,
        name: str | None = None,
        bound: BoundKind = "best",
        *,
        width: int = WIDTH,
        verbose: bool = False,
        plan: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Return the run as readable text.

        Parameters
        ----------
        name
            Name to display instead of that of the scheduler.
        bound
            Kind of the lower bound, as in `summary`.
        width
            Characters of a line.
        verbose
            Include the parameters of the scheduler and the facts that it reports.
        plan
            Lines that are left out, since they were printed before the run.
        """
        lines = self.lines(name, bound, verbose=verbose)
        return as_text({key: line for key, line in lines.items() if plan.get(key) != line}, width)

    def lines(
        self, name: str | None = None, bound: BoundKind = "best", *, verbose: bool = False
    ) -> dict[str, str]:
        """Return the lines of `format` as topic -> text."""
        lines = run_lines(
            self.summary(bound),
            self._release_span,
            name,
            remarks=self._remarks,
            condition=self._release_condition,
            availability=self.describe_availability() | draw_lines(self.drawn),
            interruptions=interruption_text(self, machine_noun(self._remarks)),
            verbose=verbose,
        )
        if (emulation := self._provenance.get("emulation")) is not None:
            lines["emulated"] = (
                f"in {emulation['processes']} processes, {emulation['speedup']:g} s in a second, "
                f"{emulation['network']} network; "
                f"timers late by {emulation['late_mean']:.2g} s, at most {emulation['late_most']:.2g} s"
            )
        for table, omitted in self.left_out.items():
            lines[table] = f"the first {len(self.tables[table])} rows; {omitted} more were left out"
        return lines

    @property
    def drawn(self) -> tuple[str, ...]:
        """Random parts of the scenario and of the run on which the result depends.

        The tuple is empty if the result does not depend on the seed, or was stored by an earlier version.
        """
        return tuple(self._provenance.get("drawn", ()))

    @property
    def left_out(self) -> dict[str, int]:
        """Table -> number of rows beyond its limit, which were not recorded."""
        provenance = self._provenance
        counts = {
            "decisions": provenance.get("decisions", {}).get("dropped", 0),
            "message_log": provenance.get("message_log", {}).get("left_out", 0),
            "diary": provenance.get("diary", {}).get("left_out", 0),
        }
        return {table: count for table, count in counts.items() if count}

    def describe_scenario(self) -> dict[str, str]:
        """Return a line on each of the platform, the workload, the meaning of time 0, and the load."""
        return scenario_lines(self.summary(), self._release_span, self._remarks, self._release_condition)

    def describe_availability(self) -> dict[str, str]:
        """Return a line on the availability of machines; no line if they are always up."""
        return availability_lines(self._provenance.get("availability"), len(self.machines))

    @property
    def _remarks(self) -> dict[str, str]:
        topics = "log", "period", "clock", "cores", "parts", "after", "requests", "unfinished", "sample"
        lines = {name: text for name in topics if (text := str(self._provenance.get(name, "")))}
        return lines | window_lines(self.applications["release"], self.skip_days, self.rigid)

    @property
    def _release_condition(self) -> str:
        return IN_THIS_RUN if "stated_release" in self.applications else ""

    @property
    def _release_span(self) -> float:
        """Time from the first to the last release, s."""
        release = self.applications["release"]
        return float(release.max() - release.min())

    @property
    def jobs_of_log(self) -> NDArray[np.int64] | None:
        """The number of each rigid job in the log that it comes from, int64; None without a log."""
        return self.tables["log_jobs"]["job"] if "log_jobs" in self.tables else None

    def row_of_job(self, job: int) -> int:
        """Return the row in ``applications`` of a job, by its number in the log that it comes from.

        Raises
        ------
        ScenarioError
            If the jobs do not come from a log, or if several applications have the number.
        IndexError
            If no job has the number.
        """
        if (numbers := self.jobs_of_log) is None:
            raise ScenarioError(f"job {job!r} requires a result of rigid jobs from a log")
        rows = np.flatnonzero(numbers == job)
        if not len(rows):
            raise IndexError(f"job must be the number of a job in the log, got {job}")
        if len(rows) > 1:
            examples = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
            raise ScenarioError(f"job {job} of the log has several applications; choose one of {examples}")
        return int(rows[0])

    def makespan_bound(self) -> float:
        """Return a lower bound of the makespan of all schedules of these applications and machines, s.

        No schedule ends before the longest chain of stated releases, think times and shortest run times, nor
        before all machines have done the work that is released from any instant on.  Rejected and killed jobs
        count with the time for which they ran.

        Raises
        ------
        ScenarioError
            If the result comes from a job log.
        """
        if self.of_log:
            raise ScenarioError("makespan_bound requires the result of a run, got that of a job log")
        workload, table = self.scenario.workload.realize(self.scenario.platform), self.applications
        is_completed, speed = ~np.isnan(table["finish"]), float(self.machines["speed"].max())
        if self.rigid:
            shortest = table["run_time"] if "terminated" in table else table["task_size"] / speed
            work, capacity = self.width.astype(np.float64) * shortest, float(self.core_count)
        else:
            work, capacity = table["size"], self.aggregate_speed
            largest = table["largest_task"] if "largest_task" in table else table["task_size"]
            shortest = np.maximum(work / capacity, largest / speed)
        work, shortest = np.where(is_completed, work, 0.0), np.where(is_completed, shortest, 0.0)
        if workload.predecessors is None:
            ends = workload.ready + shortest
        else:
            assert workload.predecessor_offsets is not None and workload.think_time is not None
            ends = earliest_ends(
                workload.release,
                shortest,
                workload.predecessors,
                workload.predecessor_offsets,
                workload.think_time,
            )
        last = max(float(ends.max()), last_end(ends - shortest, work, capacity))
        return last - float(table["release"].min())

    def why(self, application: int, task: int | None = None) -> Explanation:
        """Explain the decisions on an application or a rigid job.

        The explanation states the deciding machine, the value that it saw, the age of the value, and the true
        value.

        Parameters
        ----------
        application
            Row of the application in ``applications``; `row_of_job` returns the row of a job of a log.
        task
            Number of a task of the application; the explanation is then limited to decisions on this task or
            on the whole application.

        Raises
        ------
        GridSimError
            If the run was not simulated with ``record="decisions"``.
        ScenarioError
            If an argument is not a whole number.
        IndexError
            If there is no such application or task.
        """
        metadata = self._provenance.get("decisions")
        if "decisions" not in self.tables or metadata is None:
            raise GridSimError('why requires a run with record="decisions" (--decisions)')
        _check_row("application", application, len(self.applications))
        if task is not None:
            tasks = int(self.applications["tasks"][application])
            _check_row("task", task, tasks, f" for application {application}")
        job = None if (numbers := self.jobs_of_log) is None else int(numbers[application])
        return why(self.tables["decisions"], metadata, application, task, job)

    @property
    def observed(self) -> Table:
        """The observed attributes of nodes: time (s), node, and the columns of `Observe`, all float.

        A sample shows the nodes after all events of its instant, the last one at the end of the run.  Nodes
        that are down have no row.  An attribute that does not exist is NaN.

        Raises
        ------
        GridSimError
            If the run was not simulated with ``observe=``.
        """
        if "observed" not in self.tables:
            raise GridSimError("observed requires a run with observe=Observe(...) (--observe)")
        return self._table("observed")

    def diary(self, node: int, start: float = 0.0, end: float = math.inf) -> Diary:
        """Return the handler calls of a node, with the arguments, actions and changes of each.

        Parameters
        ----------
        node
            The node, one of those that the run has recorded.
        start, end
            Beginning and end of the part of the run, s, both included.

        Raises
        ------
        GridSimError
            If the run was not simulated with ``record="events"``.
        ScenarioError
            If the node was not recorded, or a time is not a number.
        """
        if "diary" not in self.tables:
            raise GridSimError('diary requires a run with record="events" (run --events)')
        node, nodes = integer("node", node), self._provenance.get("diary", {}).get("nodes")
        if nodes is not None and node not in nodes:
            raise ScenarioError(
                f"node must be one of the recorded nodes, {', '.join(map(str, nodes))}, got {node}"
            )
        start, end = real("start", start, unit="s"), real("end", end, unit="s", finite=False)
        return diary_of(self._table("diary"), node, start, end, self.left_out.get("diary", 0))

    def to_xarray(self) -> Any:
        """Return the tables as an xarray DataTree: a group per table; digest and facts are attributes.

        Columns of ``applications`` and ``cycles`` have the dimension ``application``, those of ``machines``
        the dimension ``machine``, others ``row``.  The columns are shared, not copied, as by
        `Table.to_xarray`.  A column with a unit of measurement has it as the attribute ``units``.

        Raises
        ------
        ImportError
            If xarray is not installed.
        """
        xarray = import_extra("xarray", "data", "to_xarray")
        groups = {name: table.to_xarray(_DIMENSIONS.get(name, "row")) for name, table in self.tables.items()}
        for name, group in groups.items():
            for column, unit in COLUMN_UNITS.get(name, {}).items():
                if column in group:
                    group[column].attrs["units"] = unit
        tree = xarray.DataTree.from_dict(groups)
        tree.attrs = {"scheduler": self.scheduler["name"], "digest": self.digest, **self.facts}
        return tree

    # -- files ----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to one file, either completely or not at all.

        `gridsim.results.files` describes the format.

        Raises
        ------
        GridSimError
            If the result could not be read again.
        OSError
            If the file cannot be written.
        """
        from gridsim.results.files import unreadable_result_error, write

        try:
            check_columns(self.tables)
            check_rows(self.tables, self.servers)
        except ValueError as error:
            raise unreadable_result_error(path, error) from error
        write(
            path,
            digest=self.digest,
            tables=self.tables,
            arrays={} if self._archive is None else self._archive.arrays,
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
            Whether to check that the tables have the digest stated in the file, and that rows refer only to
            existing machines and applications.

        Raises
        ------
        GridSimError
            If the file is not a result, is damaged, or states a digest other than that of its tables.
        OSError
            If the file cannot be read.
        """
        from gridsim.results.files import damaged_result_error, read

        name = os.fspath(path)
        expected, content = read(path)
        try:
            result = cls(**content)
            result.stated_digest = expected
            if verify:
                check_rows(result.tables, result.servers)
            actual = result.digest if verify else expected
        except Exception as error:  # malformed tables or facts may cause any exception
            raise damaged_result_error(name, error) from error
        if expected != actual:
            raise GridSimError(f"{name}: the file states digest {expected!r}, but its tables have {actual!r}")
        return result


class _Tables(SuggestingDict):
    """The tables of a result, by name."""

    def __repr__(self) -> str:
        return f"<tables {', '.join(f'{name} ({len(table)} rows)' for name, table in self.items())}>"


def _check_row(argument: str, number: Any, count: int, owner: str = "") -> None:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise ScenarioError(f"{argument} must be a whole number, got {number!r}")
    if not 0 <= number < count:
        raise IndexError(f"{argument} must be in 0..{count - 1}{owner}, got {number}")
