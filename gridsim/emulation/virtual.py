"""An emulation with a virtual clock: one process, without sockets and without waiting.

Everything else is as in real time: messages are encoded and decoded, the process reports to the coordinator,
and the coordinator makes the result, which has the digest of a simulation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from gridcore.common.state import NEVER
from gridcore.nodes.kinds import MessageKind
from gridsim.emulation.coordinator import Coordinator
from gridsim.emulation.part import Setup
from gridsim.emulation.tasks import Parts, TaskSet
from gridsim.emulation.wire import message_frame
from gridsim.emulation.worker import Worker
from gridsim.model.applications import Applications
from gridsim.simulation.releases import Releases


class VirtualWorker(Worker):
    """The only process, which runs inside the coordinator."""

    def __init__(self, setup: Setup, coordinator: VirtualCoordinator) -> None:
        self.coordinator = coordinator
        super().__init__(setup, 0, 0)
        self.outbox[0] = bytearray()

    def make_releases(self, applications: Applications) -> Releases:
        """Return the releases of the coordinator, which learns of all ends."""
        return self.coordinator.released

    def stop(self) -> None:
        """End the run after the current wave."""
        self.core.finished = True

    def tell(self, name: str, *values: Any) -> None:
        """Report to the coordinator immediately."""
        self.coordinator.engine.now = self.engine.now
        name, *values = msgspec.msgpack.decode(msgspec.msgpack.encode((name, *values)))
        self.coordinator.records[name](0, *values)

    def note(self, node: int, table: str, values: Mapping[str, Any]) -> None:
        """Report a row that a node has written, which the environment of this process also reads."""
        super().note(node, table, values)
        self.policy.note(node, table, values)

    def post(self, kind: MessageKind, message: Any, to: int) -> None:
        """Deliver a message."""
        self.core.mail.receive(self.decoder.decode(message_frame(message)[4:]))

    def share(self, name: str, *values: float) -> None:
        """Do nothing: there is no other process."""

    def give(self, node: int, application: int, tasks: int, handler: str) -> None:
        """Give tasks to a node immediately."""
        self.core.get(node, application, self.coordinator.free_tasks[application].take(tasks), handler)

    def release(self, application: int) -> None:
        """Release an application; its tasks are lost while all nodes that handle releases are down."""
        core = self.core
        if not any(core.up[node] for node in core.submission_nodes):
            core.unqueued_tasks.setdefault(application, TaskSet()).add(
                self.coordinator.free_tasks[application].take_all()
            )
        core.submit(application, core.tasks[application], "on_release")

    def run_to_end(self) -> None:
        """Handle all events in order of time, until the run ends."""
        core, engine = self.core, self.engine
        for index, at in enumerate(core.release if core.release_queue is None else ()):
            core.push(at, self.release, index)
        while not engine.ended and (due := engine.next_instant()) < NEVER:
            self.coordinator.check_limit(due)
            engine.handle(due)
        end = core.now  # the instant of the last event; the arrival of a head is not an event
        core.drain(end)
        core.mail.counting = False
        core.queues.finish()
        engine.now = self.coordinator.engine.now = end


class VirtualCoordinator(Coordinator):
    """Coordinator that only records events; the process itself releases applications and lost tasks.

    Parameters
    ----------
    worker
        The class of the process.
    """

    def __init__(
        self, setup: Setup, time_limit: float | None, worker: type[VirtualWorker] = VirtualWorker
    ) -> None:
        super().__init__(setup, time_limit)
        self.worker = worker(setup, self)
        self.adapter = self.worker.policy

    def stop(self) -> None:
        """End the run after the current wave."""
        self.worker.stop()

    def task_lost(self, application: int, tasks: Parts, node: int = -1) -> None:
        """Store lost tasks until the process releases them again."""
        self.free_tasks[application].add(tasks)

    def execute(self) -> None:
        """Run the emulation to its end."""
        worker, started, busy = self.worker, time.perf_counter(), time.process_time()
        try:
            worker.run_to_end()
        except Exception as error:
            worker.policy.explain(error)
            raise
        self.engine.ended, self.seconds = worker.engine.ended, time.perf_counter() - started
        self.outages = worker.outages
        worker.end_nodes()
        self.counted = [(worker.network.counters.packed(), {})]
        seconds, late, lags = time.process_time() - busy, [0.0] * 4, [0] * 3
        self.final = [[late, lags, worker.engine.events, seconds]]
        # the worker has the nodes and the environment of the run, and the coordinator their reports
        worker.policy.queues, worker.policy.notes = self.policy.queues, self.policy.notes
        self.policy = worker.policy
