"""The part of an emulated run in one process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gridcore.nodes.kinds import MessageKind
from gridsim.emulation.core import EmulatedCore
from gridsim.emulation.engine import RealTimeEngine
from gridsim.emulation.network import EmulatedTransport
from gridsim.emulation.queues import Ledger, MachineQueues
from gridsim.emulation.tasks import Parts
from gridsim.engine.engine import Engine
from gridsim.engine.transport import Transport
from gridsim.errors import ScenarioError
from gridsim.model.scenario import Scenario
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.nodes.adapter import Adapter
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation

#: The process number of the coordinator, which has no nodes.
COORDINATOR = -1


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Arguments of all processes of an emulation.

    Parameters
    ----------
    processes, speedup, modelled, spin, kill
        As in `gridsim.emulation.emulate.emulate`.
    secret
        Secret of the run, with which both sides of a connection prove that they belong to it.
    """

    scenario: Scenario
    scheduler: Scheduler
    processes: int
    speedup: float
    modelled: bool
    spin: bool
    kill: bool
    secret: bytes


class Part(Simulation):
    """The run in one process, which contains all nodes but calls only the nodes on its machines.

    Parameters
    ----------
    number, incarnation
        Number of the process, and number of its earlier starts.
    """

    engine: RealTimeEngine
    network: EmulatedTransport
    policy: Any  # an adapter of node programs, whose further attributes `Policy` lacks

    def __init__(self, setup: Setup, number: int, incarnation: int = 0) -> None:
        self.setup, self.number, self.incarnation, self.modelled = setup, number, incarnation, setup.modelled
        self.is_alone = setup.speedup == math.inf
        super().__init__(setup.scenario, setup.scheduler, Options(nodes="interpreted", record=("schedule",)))
        if isinstance(self.policy, Adapter):
            self.engine.nodes = self.core
            self.policy.local_nodes = self.core.is_local
            if not self.is_alone:
                # only the coordinator knows the states of tasks
                self.policy.progress_checks.patience = math.inf
        check_run(self)

    @property
    def core(self) -> EmulatedCore:
        """The message core, which calls the nodes."""
        core: EmulatedCore = self.policy.core
        return core

    def make_engine(self) -> tuple[Engine, Transport]:
        """Create the real-time engine and the network of the run."""
        engine, scenario = RealTimeEngine(self.setup.speedup), self.setup.scenario
        network = EmulatedTransport(
            engine,
            scenario.network,
            self.machines.count,
            interfaces=self.machines.platform_machine,
            seed=scenario.seed,
        )
        if self.setup.kill and self.number != COORDINATOR:
            network.reports = self.tell
        return engine, network

    def kernel_factories(self) -> dict[str, Any]:
        """Return the message core and the task queues of an emulation, as arguments of `Run`."""
        queues: Any = Ledger
        if self.number != COORDINATOR:
            queues = partial(MachineQueues, engine=self.engine, tell=self.tell)
        return {"core": partial(EmulatedCore, process=self), "queues": queues}

    def begin_faults(self) -> None:
        """Start the failures of machines, or do nothing if the coordinator kills processes (`Setup.kill`)."""
        if not self.setup.kill:
            super().begin_faults()

    def _schedule_releases(self) -> None:
        """Do nothing: the coordinator releases applications."""

    def release(self, application: int) -> None:
        """Release an application, in a process that is alone."""
        raise NotImplementedError

    def place(self, machine_of: Sequence[int]) -> list[int]:
        """Return the process of each node; neighbouring machines share one, and servers are in the last."""
        processes, machine = self.setup.processes, self.machines.platform_machines(np.asarray(machine_of))
        of = np.minimum(machine * processes // self.machines.nodes, processes - 1)
        processes_of_nodes: list[int] = of.tolist()
        return processes_of_nodes

    def stop(self) -> None:
        """Do nothing: the coordinator detects the end of the run."""

    def tell(self, name: str, *values: Any) -> None:
        """Report to the coordinator; subclasses override it."""
        raise NotImplementedError

    def note(self, node: int, table: str, values: Mapping[str, Any]) -> None:
        """Report a row that a node has written to a table."""
        raise NotImplementedError

    def post(self, kind: MessageKind, message: Any, to: int) -> None:
        """Send a message to a process."""
        raise NotImplementedError

    def open(self, application: int, tasks: Parts, to: int) -> int:
        """Return the number of a message that moves tasks to a process; 0 if that process is down."""
        raise NotImplementedError

    def share(self, name: str, *values: float) -> None:
        """Share a fact with the other processes."""
        raise NotImplementedError

    def after_handler(self, node: int) -> None:
        """Do nothing after a handler; `Worker` reports its changes."""

    def give(self, node: int, application: int, tasks: int, handler: str) -> None:
        """Make the coordinator give a node some of the tasks that no node holds."""
        raise NotImplementedError


def check_run(part: Part) -> None:
    """Raise ScenarioError for a run that cannot be emulated."""
    policy, name, setup = part.policy, part.scheduler.name, part.setup
    if not isinstance(policy, Adapter):
        raise ScenarioError(f"{name} does not support emulation: it has no node program")
    faults, environment = part.scenario.faults, policy.environment
    if environment is not None:
        environment.check_emulation()
    if setup.kill and faults is None:
        raise ScenarioError("kill requires a scenario with faults, which determine the times of kills")
    if setup.kill and faults is not None and faults.reachable:
        raise ScenarioError(
            "kill does not support faults.reachable, since the processes of absent owners continue"
        )
    if setup.kill and "failures" in part.scheduler.foresees:
        raise ScenarioError(
            f"kill does not support {name} with these parameters: nodes foresee failures of single machines, "
            "whereas a kill ends all machines of a process; choose another predictor"
        )
    if setup.kill and environment is not None and environment.STATE is None:
        raise ScenarioError(
            f"kill requires {type(environment).__name__}.STATE, the attributes that a restarted process "
            "restores"
        )
    has_queues = not policy.keeps_jobs and (environment is None or environment.uses_queues)
    if setup.spin and not has_queues:
        raise ScenarioError(f"work must be 'sleep' for {name}, whose nodes have no task queues")
    core, layout = part.core, policy.layout
    machine_of = np.asarray(layout.machine_of)[layout.home]
    for machine in np.flatnonzero(machine_of != np.arange(len(machine_of))).tolist():
        node = int(layout.home[machine])
        if any(core.handles(node, event) for event in ("on_idle", "on_end", "on_done")):
            raise ScenarioError(
                f"{name} does not support emulation: node {node} on machine {machine_of[machine]} handles "
                f"the events of machine {machine}"
            )
