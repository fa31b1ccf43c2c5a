"""Rigid jobs in an emulation with several processes, kept by the coordinator on behalf of their users.

A handler requests the record of a job and gets its current state.  Its changes to the record and its actions
on the job reach the coordinator before the messages that the handler sends.  Timers and ends of jobs are
events of the coordinator, which then requests the call of a handler in the process of its node.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import numpy as np

from gridsim.emulation.wire import from_plain, to_plain
from gridsim.scheduling.nodes.rigid_jobs import JobPhase, RigidAdapter
from gridsim.scheduling.nodes.timers import handler_name
from gridsim.support.arrays import Integers
from gridsim.support.clock import NS

#: Phases of finished jobs, which never change.
_FINAL_PHASES = JobPhase.DONE, JobPhase.FAILED, JobPhase.CANCELLED
#: Delay before a failed call of a handler is repeated, ns.
_RETRY = NS // 10


def _attributes(record: Any) -> dict[str, Any]:
    return {name: to_plain(value) for name, value in (vars(record) | {"phase": int(record.phase)}).items()}


class RemoteJobs:
    """Proxy of the coordinator's jobs in a process that runs nodes; it is the `RigidAdapter.keeper` there.

    Parameters
    ----------
    process
        The process, with ``ask`` and ``tell``.
    adapter
        Its adapter, whose records have the state of the last request by a handler.
    """

    def __init__(self, process: Any, adapter: RigidAdapter) -> None:
        self._process, self._adapter = process, adapter
        #: Job whose record the current handler has requested -> attribute -> the coordinator's encoded value.
        self._known: dict[int, dict[str, bytes]] = {}

    def record(self, number: int) -> Any:
        """Return the record of a job."""
        record = self._adapter.records[number]
        if number not in self._known:
            attributes = self._process.ask("record", number)
            vars(record).update((name, from_plain(value)) for name, value in attributes.items())
            self._known[number] = _encode(attributes)
        return record

    def report(self) -> None:
        """Report the handler's changes to records."""
        for number, known in self._known.items():
            attributes = _attributes(self._adapter.records[number])
            now = _encode(attributes)
            changes = {name: attributes[name] for name, value in now.items() if known.get(name) != value}
            if changes:
                self._process.tell("record", number, changes, self._process.core.now)
                self._known[number] = now

    def forget(self) -> None:
        """Report the changes to records by a handler that has returned, and discard the records."""
        self.report()
        self._known.clear()

    def claim(self, *arguments: int) -> None:
        """Claim a machine for a job, and report the claim."""
        self._adapter.claim(*arguments)
        self._tell("claim", *arguments)

    def release(self, *arguments: int) -> None:
        """Release the claim of a machine, and report the release."""
        self._adapter.release(*arguments)
        self._tell("release", *arguments)

    def __getattr__(self, name: str) -> Any:
        if name not in RigidAdapter.shared:
            raise AttributeError(name)
        return partial(self._tell, name)

    def _tell(self, method: str, *arguments: Any) -> None:
        self.report()
        self._process.tell("job", method, *arguments)


def _encode(attributes: dict[str, Any]) -> dict[str, bytes]:
    return {name: msgspec.msgpack.encode(value) for name, value in attributes.items()}


class JobKeeper:
    """Keeper of the jobs at the coordinator, which executes actions of nodes and requests calls of handlers.

    It is the `RigidAdapter.caller` of the coordinator's adapter.

    Parameters
    ----------
    coordinator
        The coordinator.
    adapter
        Its adapter, which keeps the jobs.
    """

    def __init__(self, coordinator: Any, adapter: RigidAdapter) -> None:
        self.coordinator, self.adapter = coordinator, adapter
        self.failed_at = np.full(len(adapter.claims), -2, np.int64)
        self.attempted_at: dict[
            int, int
        ] = {}  # job -> time at which the coordinator learned of its attempt, ns
        self.called_at: dict[tuple[int, str], int] = {}  # (job, handler) -> time of the last call, ns
        self.count = 0
        #: Process -> number of an unconfirmed call -> node, handler, job and further arguments.
        self.pending: dict[int, dict[int, tuple[int, str, int, tuple[int, ...]]]] = {}
        adapter.caller = self

    # -- actions of nodes -----------------------------------------------------------------------------------

    def record(self, number: int) -> dict[str, Any]:
        """Return the attributes of the record of a job."""
        return _attributes(self.adapter.records[number])

    def change(self, number: int, changes: dict[str, Any], instant: int) -> None:
        """Apply a handler's changes at `instant` ns to a record, unless the job has finished since then."""
        adapter = self.adapter
        record = adapter.records[number]
        if record.phase in _FINAL_PHASES:
            return
        if "attempt" in changes:
            record.has_lost_node, self.attempted_at[number] = False, adapter.now
        vars(record).update((name, from_plain(value)) for name, value in changes.items())
        for name, due in record.timers.items():
            # a timer that has fired since then may have been ignored in the earlier phase
            called_at = self.called_at.get((number, handler_name(name)), -1)
            if instant <= due <= adapter.now and called_at < due:
                adapter.wake(adapter.now, name, record)

    def do(self, method: str, *arguments: Any) -> None:
        """Call one of the `RigidAdapter.shared` methods, unless it is no longer possible."""
        adapter = self.adapter
        if method not in adapter.shared:
            raise msgspec.ValidationError(f"jobs have no shared method {method[:40]!r}")
        if method == "claim" and not adapter.up[arguments[1]]:
            return  # the machine has failed in the meantime
        if method not in ("claim", "release", "stop", "count", "displace"):
            number = arguments[0]
            record = adapter.records[number]
            if record.phase in _FINAL_PHASES or (method == "withdraw" and number not in adapter.runs.placed):
                return
            if method == "start_job" and not record.has_lost_node and self._has_lost_node(record):
                record.has_lost_node = True
                adapter._detect_later(record)
        getattr(adapter, method)(*arguments)

    def _has_lost_node(self, record: Any) -> bool:
        """Return whether a machine of a job has failed since the current attempt to claim machines began."""
        nodes = np.array(record.nodes, np.int64)
        since = self.attempted_at.get(record.number, -1)
        return bool((~self.adapter.up[nodes] | (self.failed_at[nodes] >= since)).any())

    # -- calls of handlers ----------------------------------------------------------------------------------

    def call(self, handler: str, node: int, number: int, *arguments: int) -> None:
        """Request the call of a handler in the process of a node, as `RigidAdapter.call` does."""
        if handler == "on_job_end":
            self.adapter.end_claim(node, number)
        process = self.coordinator.core.process_of[node]
        self.called_at[number, handler] = self.adapter.now
        self.count += 1
        self.pending.setdefault(process, {})[self.count] = node, handler, number, arguments
        self.coordinator.call(process, self.count, node, handler, number, arguments)

    def confirm_call(self, process: int, count: int, is_done: bool) -> None:
        """Forget a call that was made, or whose node is down; in the latter case, repeat it."""
        call = self.pending[process].pop(count)
        if not is_done:
            self._call_again(*call)

    def lose(self, process: int) -> None:
        """Repeat the calls that a killed process has not confirmed."""
        for call in self.pending.pop(process, {}).values():
            self._call_again(*call)

    def _call_again(self, node: int, handler: str, number: int, arguments: tuple[int, ...]) -> None:
        """Call a handler of the node that is now in charge of a job; calls about one machine are dropped."""
        record = self.adapter.records[number]
        if handler in ("on_job_end", "on_job_outlives") or record.phase in _FINAL_PHASES:
            return
        engine = self.coordinator.engine

        def call() -> None:
            if not self.adapter.call_in_charge(handler, record, *arguments):
                engine.call_at(engine.clock() + _RETRY, call)

        engine.call_at(engine.clock() + _RETRY, call)

    def note_failures(self, failed: Integers) -> None:
        """Record when machines fail, since a node that does not know it yet may start a job on them."""
        self.failed_at[failed] = self.coordinator.engine.now
