"""Runs of `gs.WqrFt` with all times in ns, which scenarios in seconds cannot express.

Background load has any phase, and factors above 1; tasks may be shorter than 1 ns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

import gridsim as gs
from gridsim.engine.engine import TIMER, Engine
from gridsim.engine.transport import Transport
from gridsim.model.applications import Applications
from gridsim.model.background_load import LoadProfile
from gridsim.model.fault_events import Events, FaultEvents
from gridsim.results.decisions import Decisions
from gridsim.schedulers.wqr.selections import Machines, Tasks
from gridsim.scheduling.contract import Run
from gridsim.simulation.machines import RunMachines
from gridsim.simulation.outages import Outages
from gridsim.support.clock import NEVER
from gridsim.support.random_streams import Streams

#: Time (ns), machine, whether it recovers, and time of its next change (ns).
Change = tuple[int, int, bool, int]


@dataclass
class ExactRun:
    """A run of a work queue.

    Parameters
    ----------
    speeds
        Mflop/s of each machine.
    sizes
        Mflop of each task of each application.
    releases
        ns, ascending.
    scheduler
        The scheduler.
    changes
        Failures and recoveries in order; None if machines do not fail.
    cuts
        Approximate number of changes up to the end of each block except the last.
    load
        The arguments of `LoadProfile`; None for no background load.
    """

    speeds: list[float]
    sizes: list[list[float]]
    releases: list[int]
    scheduler: gs.WqrFt
    changes: list[Change] | None = None
    cuts: list[int] = field(default_factory=list)
    load: dict[str, Any] | None = None
    records_decisions: bool = False
    seed: int = 0

    @property
    def applications(self) -> Applications:
        """The applications."""
        workload = gs.Workload.of_tasks([0.0] * len(self.sizes), [np.array(sizes) for sizes in self.sizes])
        applications = workload.realize(gs.Platform.equal(len(self.speeds)))
        release = np.array(self.releases, np.int64)
        return dataclasses.replace(applications, release_ns=release, release=release / 1e9)

    def blocks(self) -> Iterator[Events]:
        """Yield the changes in blocks; those of one instant are in the same block."""
        rows = self.changes or []
        ends = [cut for cut in self.cuts if 0 < cut < len(rows) and rows[cut - 1][0] < rows[cut][0]]
        for first, end in zip([0, *ends], [*ends, len(rows)], strict=True):
            if first < end:
                time, machine, up, until = zip(*rows[first:end], strict=True)
                yield Events(
                    np.array(time, np.int64), np.array(machine), np.array(up), np.array(until, np.int64)
                )

    def course(self, machines: int) -> FaultEvents:
        """Return the failures and recoveries, as `Faults.course` does."""
        first = {machine: time for time, machine, up, _ in reversed(self.changes or []) if not up}
        times = np.array([first.get(machine, NEVER) for machine in range(machines)], np.int64)
        return FaultEvents(times, self.blocks())

    def play(self, nodes: Any) -> Any:
        """Return everything that a run in this form shows, as plain values; or the text of its error."""
        engine, machines = Engine(), len(self.speeds)
        network = Transport(engine, gs.Network(), machines, seed=0)
        faults: Any = None
        if self.changes is not None:
            faults = SimpleNamespace(course=self.course, mean_up_time=lambda machines: 100.0)
        outages = Outages(faults, RunMachines(gs.Platform.equal(machines), gs.WqrFt()), engine, network)
        decisions = Decisions(gs.WqrFt.decision_words, 10_000) if self.records_decisions else None
        run = Run(
            engine=engine,
            network=network,
            speeds=np.array(self.speeds),
            applications=self.applications,
            streams=Streams(self.seed),
            up=outages.up,
            faults=faults is not None,
            record=True,
            decisions=decisions,
            nodes=nodes,
            feed=None if faults is None else outages,
            load_profile=None if self.load is None else LoadProfile(**self.load),
        )
        policy = self.scheduler.start(run)
        engine.on(
            "release",
            lambda _: None if policy.takes_releases else policy.on_release(_),
            priority=0,
            phase=TIMER,
        )
        for number, release in enumerate(self.releases):
            engine.at(release, "release", number)
        try:
            if faults is not None:
                outages.begin(policy)
            outages.end(engine.run())
            outcome = policy.finish()
        except gs.GridSimError as error:
            return str(error)
        displayed = {
            name: _comparable_columns(getattr(outcome, name))
            for name in ("applications", "machines", "cycles", "schedule", "facts")
        }
        table = None if decisions is None else _comparable_columns(dict(decisions.table()))
        return displayed, table, outages.failures.tolist(), outages.down_time(2**62).tolist()


def _comparable_columns(columns: Any) -> dict[str, Any]:
    """Return columns as lists of numbers, with the text of numbers that are not equal to themselves."""
    return {name: repr(np.asarray(column).tolist()) for name, column in columns.items()}


# -- functions that choose, and record what they are given ---------------------------------------------------

CHOICES: list[tuple[Any, ...]] = []


def any_task(tasks: Tasks) -> int:
    """Choose any task by a hash of the instant."""
    CHOICES.append((tasks.now, tasks.application, tasks.number.tolist(), tasks.residual.tolist()))
    return round(tasks.now * 1e9) * 7919 % 101 % len(tasks.number)


def any_machine(machines: Machines) -> int:
    """Choose any machine by a hash of the instant."""
    columns = (machines.number, machines.power, machines.up_time, machines.lasts)
    CHOICES.append((machines.now, *(column.tolist() for column in columns)))
    return round(machines.now * 1e9) * 104729 % 97 % len(machines.number)
