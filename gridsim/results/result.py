"""Result: what a run resulted in, as tables and facts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from gridsim.errors import GridSimError, ScenarioError
from gridsim.model.scenario import Scenario
from gridsim.results.decisions import Why, why
from gridsim.results.files import damaged, read, write
from gridsim.results.metrics.registry import BoundKind, Metrics, summarized
from gridsim.results.schema import COLUMN_UNITS, CORE_TABLES, check_rows
from gridsim.results.table import Table, digest
from gridsim.results.text import as_text, run_lines, scenario_lines
from gridsim.support.extras import need
from gridsim.support.provenance import check_read
from gridsim.support.text import check_name, plain

#: Tables that are there only when they are asked for; they have no part in the digest.
RECORDS = ("schedule", "arrivals", "decisions", "message_log")

#: Dimensions of tables that have a row for each of something; others have rows.
_DIMENSIONS = {"applications": "application", "cycles": "application", "machines": "machine"}


class Result(Metrics):
    """What a run resulted in; its metrics are those of `gridsim.results.metrics.registry.Metrics`.

    tables : name -> `Table`: ``applications``, ``machines``, ``messages``, and those of the scheduler.
    facts : scalars that the scheduler reports.
    scheduler : ``name``, ``class`` and ``parameters`` of the scheduler, as plain values.
    provenance : versions, seed, scenario (TOML), SHA-256 of trace files, wall seconds, peak memory.

    Columns of ``applications``: release, first_start, finish (s); tasks; task_size, size (Mflop); submitter;
    stretch (s/Mflop) = (finish - release) / size; stretch_agg = stretch * aggregate speed (no unit);
    resubmitted (tasks); nodes_used; and what else the scheduler reports (-1 stands for none).
    Of rigid jobs also failed (0 or 1: rejected; start, finish and what is made of them are NaN), run_time,
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
        #: The digest that the file states, of a loaded result.
        self.stated_digest: str | None = None
        if scenario is not None:
            self.__dict__["scenario"] = scenario

    # -- what happened --------------------------------------------------------------------------------

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

    def summary(self, bound: BoundKind = "fluid") -> dict[str, Any]:
        """The run in a few numbers; their units are in `gridsim.results.metrics.registry.UNITS`.

        bound : the kind of ``lower_bound`` and ``gap``, which are None with more than `BOUND_LIMIT`
            applications.
        """
        return {
            "scheduler": self.scheduler["name"],
            "parameters": self.scheduler["parameters"],
            "machines": len(self.machines),
            "applications": len(self.applications),
            "tasks": int(self.applications["tasks"].sum()),
            "lower_bound_kind": bound,
            **summarized(self, bound),
            "facts": self.facts,
            "wall_seconds": self.provenance.get("wall_seconds"),
            "peak_memory": self.provenance.get("peak_memory"),
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


def _check_row(what: str, number: Any, count: int, whose: str = "") -> None:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise ScenarioError(f"{what} must be a whole number, got {number!r}")
    if not 0 <= number < count:
        raise IndexError(f"{what} {number} of {count}{whose}")
