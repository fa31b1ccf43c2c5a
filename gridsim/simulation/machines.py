"""The machines of a run as its scheduler sees them: those of the platform, or their cores.

A scheduler that takes cores for machines (`Scheduler.cores`) needs no code for them.  Its run has a machine
for each core, with the speed, the fate and the network interface of its machine and an equal part of its
memory, and what the scheduler reports is folded to the machines of the platform.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.model.applications import Applications
from gridsim.model.attributes import Attributes, bytes_text
from gridsim.model.background_load import LoadProfile
from gridsim.model.fault_events import Events, FaultEvents
from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.results.schema import TABLES
from gridsim.results.table import Table
from gridsim.scheduling.contract import Outcome, Scheduler
from gridsim.support.arrays import Floats, Integers, first_true
from gridsim.support.clock import NEVER


class RunMachines:
    """The machines of a run as its scheduler sees them.

    Attributes
    ----------
    count
        Their number.
    nodes
        Number of machines of the platform.
    speeds
        float64[count], Mflop/s.
    cores
        int64[count], the number of cores of each, as in `gridsim.scheduling.contract.Run`.
    platform_machine
        int64[count], the machine of the platform to which each core belongs; None if the scheduler sees the
        machines of the platform.
    """

    def __init__(self, platform: Platform, scheduler: Scheduler) -> None:
        self._platform, self._scheduler = platform, scheduler
        self.cores, self.platform_machine = platform.cores, None
        self.count, self.nodes, self.speeds = platform.nodes, platform.nodes, platform.speeds
        if platform.cores is None or scheduler.cores != "separate":
            return
        self.platform_machine = np.repeat(np.arange(platform.nodes), platform.cores)
        self._first_core = np.cumsum(platform.cores) - platform.cores
        self.cores, self.count = None, len(self.platform_machine)
        self.speeds = self._spread(platform.speeds)

    def _spread(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return a column of the machines of the platform with an entry per core, read-only."""
        result = column[..., self.platform_machine]
        result.flags.writeable = False
        return result

    # -- what the scheduler gets ------------------------------------------------------------------------

    def applications(self, applications: Applications) -> Applications:
        """Return the applications; those of a machine are submitted at its cores in turn."""
        if self.platform_machine is None:
            return applications
        cores, submitter = self._platform.cores, applications.submitter
        assert cores is not None
        order = np.argsort(submitter, kind="stable")
        first = np.searchsorted(submitter[order], submitter[order])  # the first application of the submitter
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - first
        is_machine = submitter >= 0
        at_core = self._first_core[submitter] + rank % cores[submitter]
        rates: Floats | None = applications.rates
        if rates is not None:
            rates = self._spread(rates / cores)
        site = applications.machine_site
        return replace(
            self.with_suited_machines(applications),
            submitter=np.where(is_machine, at_core, submitter),
            rates=rates,
            machine_site=None if site is None else self._spread(site),
        )

    def with_suited_machines(self, applications: Applications) -> Applications:
        """Return the applications with the machines of the run that suit them.

        Raises
        ------
        ScenarioError
            If the memory that a core has suffices for no task of an application.
        """
        if self.platform_machine is None:
            return applications
        if applications.rigid or applications.memory is None:
            machines = applications.suited
            return applications if machines is None else replace(applications, suited=self._spread(machines))
        attributes = self.attributes(self._platform.attributes)
        assert attributes is not None and attributes.memory is not None
        group, machines = applications.wants.groups(attributes, "tasks")
        for i in first_true(machines.sum(axis=1)[group] == 0):
            raise ScenarioError(
                "workload.memory must be at most platform.memory / platform.cores of some machine under "
                f"{self._scheduler.name}, where each core has an equal part of the memory of its machine, "
                f"got {applications.wants.describe(i)} for application {i}; cores have up to "
                f"{bytes_text(attributes.memory.max())} bytes"
            )
        if machines.all():
            return replace(applications, group=None, suited=None)
        return replace(applications, group=group, suited=machines)

    def attributes(self, attributes: Attributes | None) -> Attributes | None:
        """Return the attributes of the machines; a core has an equal part of the memory of its machine."""
        cores = self._platform.cores
        if attributes is None or self.platform_machine is None or cores is None:
            return attributes
        columns = {each.name: getattr(attributes, each.name) for each in fields(attributes)}
        if attributes.memory is not None:
            columns["memory"] = attributes.memory / cores
        index = self.platform_machine
        return Attributes(**{name: None if each is None else each[index] for name, each in columns.items()})

    def load_profile(self, profile: LoadProfile | None) -> LoadProfile | None:
        """Return the background load of the machines."""
        if profile is None or self.platform_machine is None:
            return profile
        return replace(profile, series=self._spread(profile.series), first=self._spread(profile.first))

    def fault_events(self, faults: Faults | None) -> FaultEvents:
        """Return the failures and recoveries of the machines; the cores of a machine fail together."""
        if faults is None:
            return FaultEvents(np.full(self.count, NEVER, np.int64), iter(()))
        events = faults.course(self.nodes)
        if self.platform_machine is None:
            return events
        return FaultEvents(self._spread(events.first), map(self._events_of_cores, events.blocks))

    def _events_of_cores(self, events: Events) -> Events:
        """Return a change of each core for each change of a machine."""
        assert self._platform.cores is not None
        counts = self._platform.cores[events.machine]
        row = np.repeat(np.arange(len(events)), counts)
        core = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        first = self._first_core[events.machine[row]]
        # the changes of an instant stay in the order of machines, in which a machine fails before it recovers
        return replace(events[row], machine=first + core).in_order()

    # -- what becomes of its report ---------------------------------------------------------------------

    def of_platform(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return the entries of the machines of the platform in a column in which their cores are equal."""
        return column if self.platform_machine is None else column[self._first_core]

    def outcome(self, outcome: Outcome) -> Outcome:
        """Return the outcome with a row per machine of the platform: sums, and the longest of its queues."""
        if self.platform_machine is None:
            return outcome
        machines = {
            name: (np.maximum if name == "peak_queue" else np.add).reduceat(column, self._first_core)
            for name, column in outcome.machines.items()
        }
        return replace(outcome, machines=machines)

    def tables(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        """Return the tables with machines of the platform, and recorded schedules with the core."""
        if self.platform_machine is None:
            return dict(tables)
        return {name: Table(dict(self._columns(name, table))) for name, table in tables.items()}

    def _columns(self, name: str, table: Table) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the columns of a table whose machines are cores."""
        known = TABLES.get(name, {})
        for column, values in table.items():
            if column not in known or known[column].unit != "machine":
                yield column, values
                continue
            machine = self.platform_machines(values)
            yield column, machine
            if column == "machine" and "core" in known:
                yield "core", values - self._first_core[machine]

    def platform_machines(self, machines: Integers) -> Integers:
        """Return the machine of the platform of each; servers follow them, and negative numbers stay."""
        if self.platform_machine is None:
            return machines
        is_core = (machines >= 0) & (machines < self.count)
        of_core = self.platform_machine[np.where(is_core, machines, 0)]
        return np.where(is_core, of_core, machines - np.where(machines < 0, 0, self.count - self.nodes))
