"""Result: what a run resulted in, as tables and facts."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import GridSimError, ScenarioError
from gridsim.model.scenario import Scenario
from gridsim.results.decisions import Why, why
from gridsim.results.files import damaged, read, write
from gridsim.results.metrics import formulas as metrics
from gridsim.results.metrics.bounds import BOUND_LIMIT, Bound, discrete_bound, fluid_bound
from gridsim.results.schema import COLUMN_UNITS, check_rows
from gridsim.results.table import Table, digest
from gridsim.results.text import as_text, run_lines, scenario_lines
from gridsim.support.extras import need
from gridsim.support.provenance import check_read
from gridsim.support.text import check_name, plain

CORE_TABLES = ("applications", "machines", "messages")
#: Tables that are there only when they are asked for; they have no part in the digest.
RECORDS = ("schedule", "arrivals", "decisions", "message_log")

BoundKind = Literal["fluid", "discrete"]
#: Dimensions of tables that have a row for each of something; others have rows.
_DIMENSIONS = {"applications": "application", "cycles": "application", "machines": "machine"}


def check_bound(kind: BoundKind) -> BoundKind:
    """`kind` if it is one, else ScenarioError."""
    if kind not in (known := get_args(BoundKind)):
        raise ScenarioError(f"bound must be {' or '.join(known)}, got {kind!r}")
    return kind


class Result:
    """What a run resulted in.

    tables : name -> `Table`: ``applications``, ``machines``, ``messages``, and those of the scheduler.
    facts : scalars that the scheduler reports.
    scheduler : ``name``, ``class`` and ``parameters`` of the scheduler, as plain values.
    provenance : versions, seed, scenario (TOML), SHA-256 of trace files, wall seconds, peak memory.

    Columns of ``applications``: release, first_start, finish (s); tasks; task_size, size (Mflop); submitter;
    stretch (s/Mflop) = (finish - release) / size; stretch_agg = stretch * aggregate speed (no unit);
    resubmitted (tasks); nodes_used; and what else the scheduler reports (-1 stands for none).
    Of rigid jobs also failed (0 or 1: given up; start, finish and what is made of them are NaN), run_time,
    requested, waiting (s, from the release to the start of the run that was completed), slowdown (bounded).
    Where tasks of an application differ also smallest_task, largest_task (Mflop), and task_size is the mean.
    Of ``machines``: speed (Mflop/s), busy (s), tasks, peak_queue (tasks), bytes_out, bytes_in, utilization.
    Of ``messages``, a row a kind: kind, sent, delivered, dropped, in_flight, bytes.
    Of ``cycles``, where tasks may have several instances, a row an application: useful, redundant, lost,
    overhead, slowed (Mflop), together what machines were busy with; see
    `gridsim.scheduling.contract.Outcome`. Of ``jobs``, where tasks may move before they run, a row a task:
    application, machine, probes (steps of its search), predicted, waited (s), turnaround (s); see
    docs/background/rjss.md. Recorded on request, ``schedule``:
    machine, application, tasks, start, end (s), completed (tasks); where tasks may have several instances
    also task (within the application) and begin (Mflop done before); and ``arrivals``: machine, application,
    tasks, time (s); ``decisions``, see `why`; and ``message_log``, a row a message: kind, sender, receiver,
    sent, delivered (s; NaN if it never was), dropped (0 or 1), bytes, application (-1: of none).
    """

    def __init__(
        self,
        *,
        tables: Mapping[str, Table],
        facts: Mapping[str, Any],
        scheduler: Mapping[str, Any],
        provenance: Mapping[str, Any],
        scenario: Scenario | None = None,
    ) -> None:
        for name in CORE_TABLES:
            if name not in tables:
                raise ValueError(f"a result needs the table {name!r}")
        self.tables = {check_name(name): table for name, table in tables.items()}
        self.facts: dict[str, Any] = plain(facts)
        self.scheduler: dict[str, Any] = plain(scheduler)
        self.provenance: dict[str, Any] = plain(provenance)
        self._bounds: dict[BoundKind, Bound] = {}
        #: The digest that the file states, of a loaded result.
        self.stated_digest: str | None = None
        if scenario is not None:
            self.__dict__["scenario"] = scenario

    # -- what happened --------------------------------------------------------------------------------

    @property
    def applications(self) -> Table:
        """A row per application, in order of release."""
        return self.tables["applications"]

    @property
    def machines(self) -> Table:
        """A row per machine."""
        return self.tables["machines"]

    @property
    def messages(self) -> Table:
        """A row per kind of message."""
        return self.tables["messages"]

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario; of a loaded result it is made again, and needs the trace files it names.

        Raises GridSimError for a result that does not say it.
        """
        if "scenario" not in self.provenance:
            raise GridSimError("the result does not say of what scenario it is")
        return Scenario.from_text(self.provenance["scenario"])

    def check_faults(self) -> None:
        """That the trace of the failures, if there is one, is what the run has read.

        Who makes the failures again, as for a chart, would draw those of another one.  Raises FileChanged.
        """
        faults, stated = self.scenario.faults, self.provenance.get("files")
        own = {} if faults is None else faults.sources()
        if own and isinstance(stated, dict):
            named = {path for path in self.scenario.paths if path not in own}
            of_faults = {file: digest for file, digest in stated.items() if file not in named}
            check_read((file for files in own.values() for file in files), of_faults)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of tables and facts (see `gridsim.results.table.digest`): equal runs have equal digests.

        What was recorded on request has no part in it.
        """
        return digest({name: t for name, t in self.tables.items() if name not in RECORDS}, self.facts)

    @property
    def aggregate_speed(self) -> float:
        """Mflop/s of all machines."""
        return math.fsum(self.machines["speed"].tolist())

    @property
    def rigid(self) -> bool:
        """Whether the applications are rigid jobs."""
        return "failed" in self.applications

    @cached_property
    def _completed(self) -> NDArray[np.bool_]:
        """bool[applications]: all but rigid jobs that were given up."""
        finish: NDArray[np.float64] = self.applications["finish"]
        return ~np.isnan(finish)

    def _of_completed(self, name: str) -> NDArray[np.float64]:
        column: NDArray[np.float64] = self.applications[name]
        return column[self._completed]

    @property
    def max_stretch(self) -> float:
        """Largest stretch of an application, s/Mflop; NaN if none was completed."""
        return _most(self._of_completed("stretch"))

    @property
    def mean_stretch(self) -> float:
        """Mean stretch over applications, s/Mflop."""
        return metrics.mean(self._of_completed("stretch"))

    @property
    def min_stretch(self) -> float:
        """Smallest stretch of an application, s/Mflop; NaN if none was completed."""
        return -_most(-self._of_completed("stretch"))

    @property
    def failed(self) -> int:
        """Rigid jobs that were given up."""
        return int((~self._completed).sum())

    @property
    def mean_waiting(self) -> float:
        """Mean waiting time of the rigid jobs that were completed, s; NaN for bags."""
        return metrics.mean(self._of_completed("waiting")) if self.rigid else math.nan

    @property
    def median_waiting(self) -> float:
        """Median waiting time of the rigid jobs that were completed, s; NaN for bags."""
        waiting = self._of_completed("waiting") if self.rigid else np.zeros(0)
        return float(np.median(waiting)) if len(waiting) else math.nan

    @property
    def mean_slowdown(self) -> float:
        """Mean bounded slowdown of the rigid jobs that were completed; NaN for bags."""
        return metrics.mean(self._of_completed("slowdown")) if self.rigid else math.nan

    @property
    def mean_completion(self) -> float:
        """Mean over the applications that were completed of the time from release to finish, s."""
        return metrics.mean(self._of_completed("finish") - self._of_completed("release"))

    def _of_jobs(self, name: str) -> NDArray[np.float64]:
        """That column of the table ``jobs``; empty if there is none."""
        return self.tables["jobs"][name] if "jobs" in self.tables else np.zeros(0)

    @property
    def mean_turnaround(self) -> float:
        """Mean over jobs of the time from release until the result is back, s; NaN where that is not told."""
        return metrics.mean(self._of_jobs("turnaround"))

    @property
    def migrated(self) -> float:
        """Share of the jobs that moved to another machine than their submitter's; NaN where that is not
        told."""
        if "jobs" not in self.tables:
            return math.nan
        home = self.applications["submitter"][self.tables["jobs"]["application"]]
        return float(np.mean(self.tables["jobs"]["machine"] != home))

    @property
    def prediction_error(self) -> float:
        """Mean over jobs that moved and had to wait of abs(predicted - actual wait) / actual; NaN if none had
        to."""
        return metrics.mean(metrics.prediction_errors(self._of_jobs("predicted"), self._of_jobs("waited")))

    @property
    def prediction_undefined(self) -> float:
        """Jobs that moved and found no queue, for which `prediction_error` is undefined; NaN without jobs."""
        if "jobs" not in self.tables:
            return math.nan
        return float((~np.isnan(self._of_jobs("predicted")) & (self._of_jobs("waited") == 0)).sum())

    @property
    def messages_per_job(self) -> float:
        """Messages sent over the number of jobs; NaN where there are no jobs that may move."""
        count = len(self._of_jobs("turnaround"))
        return int(self.messages["sent"].sum()) / count if count else math.nan

    @property
    def wasted(self) -> float:
        """Share of the cycles that did not go into the size of a task; NaN where that is not told.

        Redundant, lost and overhead, over these and the useful ones (see ``cycles``).
        """
        return (
            metrics.wasted_share(dict(self.tables["cycles"].items())) if "cycles" in self.tables else math.nan
        )

    @property
    def undisturbed(self) -> float:
        """Tasks completed that were never resubmitted; NaN where that is not told."""
        table = self.applications
        return float(table["undisturbed"].sum()) if "undisturbed" in table else math.nan

    @property
    def makespan(self) -> float:
        """From the first release to the last finish, s."""
        return metrics.makespan(self.applications["release"], self.applications["finish"])

    @property
    def utilization(self) -> float:
        """Mean share of the makespan in which a machine was busy."""
        return metrics.mean(self.machines["utilization"])

    def bound(self, kind: BoundKind = "fluid") -> Bound:
        """What no schedule of these applications on these machines can beat; see
        `gridsim.results.metrics.bounds`.

        kind : ``"fluid"``: work can be cut at will; ``"discrete"``: whole tasks that do not migrate.

        Computed from the tables when it is first asked for; it has no part in the digest.  Raises
        ScenarioError for another kind, and for "discrete" where tasks of an application differ in size.
        """
        if kind == "discrete" and "largest_task" in self.applications:
            raise ScenarioError('bound must be "fluid" where tasks of an application differ in size')
        if check_bound(kind) not in self._bounds:
            speeds = self.machines["speed"]
            release, size = self._of_completed("release"), self._of_completed("size")
            if kind == "fluid":
                self._bounds[kind] = fluid_bound(release, size, self.aggregate_speed)
            else:
                tasks = self._of_completed("task_size"), self.applications["tasks"][self._completed]
                self._bounds[kind] = discrete_bound(release, size, *tasks, speeds)
        return self._bounds[kind]

    def gap(self, kind: BoundKind = "fluid") -> float:
        """Largest stretch over the lower bound of this `kind`; 1 is optimal, and may be out of reach."""
        return self.max_stretch / self.bound(kind).stretch

    def summary(self, bound: BoundKind = "fluid") -> dict[str, Any]:
        """The run in a few numbers; their units are in `UNITS`.

        bound : the kind of ``lower_bound`` and ``gap``, which are None with more than `BOUND_LIMIT`
            applications.
        """
        applications, messages = self.applications, self.messages
        bounded = len(applications) <= BOUND_LIMIT and bool(self._completed.any())
        sent = int(messages["bytes"].sum())
        data = float(self.machines["data_in"].sum()) if "data_in" in self.machines else None
        size, speed = applications["size"], self.aggregate_speed
        return {
            "scheduler": self.scheduler["name"],
            "parameters": self.scheduler["parameters"],
            "machines": len(self.machines),
            "aggregate_speed": speed,
            "applications": len(applications),
            "tasks": int(applications["tasks"].sum()),
            "work": metrics.total(size),
            "offered_load": metrics.load_of(applications["release"], size, speed),
            "max_stretch": self.max_stretch,
            "max_stretch_agg": _most(self._of_completed("stretch_agg")),
            "mean_stretch": self.mean_stretch,
            "min_stretch": self.min_stretch,
            "lower_bound_kind": bound,
            "lower_bound": self.bound(bound).stretch if bounded else None,
            "gap": self.gap(bound) if bounded else None,
            "makespan": self.makespan,
            "utilization": self.utilization,
            "mean_completion": self.mean_completion,
            "resubmitted": int(applications["resubmitted"].sum()),
            **(self._jobs_summary() if "jobs" in self.tables else {}),
            **(self._cycles_summary() if "cycles" in self.tables else {}),
            **(self._rigid_summary() if self.rigid else {}),
            "messages": int(messages["sent"].sum()),
            "dropped": int(messages["dropped"].sum()),
            "bytes": sent,
            "data_bytes": data,
            "data_ratio": data / sent if data is not None and sent else None,
            "facts": self.facts,
            "wall_seconds": self.provenance.get("wall_seconds"),
            "peak_memory": self.provenance.get("peak_memory"),
            "digest": self.digest,
        }

    def _jobs_summary(self) -> dict[str, Any]:
        names = "mean_turnaround", "migrated", "prediction_error", "prediction_undefined", "messages_per_job"
        return {name: getattr(self, name) for name in names}

    def _cycles_summary(self) -> dict[str, Any]:
        table = self.applications
        return {
            "wasted": self.wasted,
            "undisturbed": self.undisturbed,
            **{name: metrics.total(column) for name, column in self.tables["cycles"].items()},
            **{name: int(table[name].sum()) for name in ("replicas", "killed") if name in table},
        }

    def _rigid_summary(self) -> dict[str, Any]:
        table = self.applications
        columns = table["release"], table["tasks"], table["run_time"]
        return {
            "failed": self.failed,
            "request_utilization": metrics.request_utilization(*columns, len(self.machines)),
            "mean_waiting": self.mean_waiting,
            "median_waiting": self.median_waiting,
            "mean_slowdown": self.mean_slowdown,
        }

    def __repr__(self) -> str:
        if self.rigid:
            return (
                f"<Result of {self.scheduler['name']}: {len(self.applications)} rigid jobs on "
                f"{len(self.machines)} machines, {self.failed} given up, mean waiting "
                f"{self.mean_waiting:.6g} s, makespan {self.makespan:.6g} s, digest {self.digest[:16]}>"
            )
        return (
            f"<Result of {self.scheduler['name']}: {len(self.applications)} applications on "
            f"{len(self.machines)} machines, max stretch {self.max_stretch:.4g} s/Mflop, "
            f"makespan {self.makespan:.6g} s, digest {self.digest[:16]}>"
        )

    def format(self, name: str | None = None, bound: BoundKind = "fluid") -> str:
        """The run as readable text; `name` stands for the scheduler's own; `bound` as in `summary`."""
        return as_text(self.lines(name, bound))

    def lines(self, name: str | None = None, bound: BoundKind = "fluid") -> dict[str, str]:
        """What `format` says: what it is about -> the line."""
        said = run_lines(self.summary(bound), self._released_within, name)
        for table, count in self.left_out.items():
            said[table] = f"the first {len(self.tables[table])} rows; {count} more were left out"
        return said

    @property
    def left_out(self) -> dict[str, int]:
        """Table -> rows that were not kept of ``decisions`` and ``message_log``, where a limit was met."""
        about = self.provenance
        counts = {
            "decisions": about.get("decisions", {}).get("dropped", 0),
            "message_log": about.get("message_log", {}).get("left_out", 0),
        }
        return {table: count for table, count in counts.items() if count}

    def describe_scenario(self) -> dict[str, str]:
        """Platform, workload and load in a line each."""
        return scenario_lines(self.summary(), self._released_within)

    @property
    def _released_within(self) -> float:
        """From the first to the last release, s."""
        release = self.applications["release"]
        return float(release[-1] - release[0])

    def why(self, application: int, task: int | None = None) -> Why:
        """Who decided on an application or a rigid job, what it saw, how old that was, and what was true.

        application : its row in ``applications``.  task : the number of one of its tasks, for what was
            decided on it alone and on all.

        Raises GridSimError for a run that was not simulated with ``record="decisions"``, ScenarioError for
        what is no number, IndexError for one of which there is no application or task.
        """
        about = self.provenance.get("decisions")
        if "decisions" not in self.tables or about is None:
            raise GridSimError(
                'why: decisions are only there if the run had record="decisions" (--decisions)'
            )
        _check_row("application", application, len(self.applications))
        if task is not None:
            tasks = int(self.applications["tasks"][application])
            _check_row("task", task, tasks, f" of application {application}")
        return why(self.tables["decisions"], about, application, task)

    def to_xarray(self) -> Any:
        """The tables as an xarray DataTree: a group a table, with the digest and the facts as attributes.

        Columns of ``applications`` and ``cycles`` are along the dimension ``application``, those of
        ``machines`` along ``machine``, others along ``row``.  They are shared, as `Table.to_xarray` says, and
        have their unit, unless they count something, as attribute ``units``.

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
        """Write the result to one file, whole or not at all; see `gridsim.results.files`."""
        write(
            path,
            digest=self.digest,
            tables=self.tables,
            facts=self.facts,
            scheduler=self.scheduler,
            provenance=self.provenance,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, verify: bool = True) -> Result:
        """Read a result, check its digest, and that rows are of machines and applications that there are.

        Without `verify` neither is checked; the digest is kept as `stated_digest`.

        Raises GridSimError for a file that is no result, is damaged, or whose tables do not make the digest
        that it states; OSError for a file that cannot be read.
        """
        name = os.fspath(path)
        stated, content = read(path)
        try:
            result = cls(**content)
            result.stated_digest = stated
            if verify:
                check_rows(result.tables)
            found = result.digest if verify else stated
        except Exception as error:  # whatever tables or facts are that no result has
            raise damaged(name, error) from error
        if stated != found:
            raise GridSimError(f"{name}: the file states digest {stated!r}, but its tables make {found!r}")
        return result


def _most(values: NDArray[np.float64]) -> float:
    return float(values.max()) if len(values) else math.nan


def _check_row(what: str, number: Any, count: int, whose: str = "") -> None:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise ScenarioError(f"{what} must be a whole number, got {number!r}")
    if not 0 <= number < count:
        raise IndexError(f"{what} {number} of {count}{whose}")
