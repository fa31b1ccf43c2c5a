"""Rigid jobs in an emulation by several processes: the coordinator keeps them, as their users would.

A handler asks for the record of a job and has it as it is then.  What it changes, and what it does with the
job, reaches the coordinator before the messages that the handler sends.  Timers and ends of jobs happen at
the coordinator, which then has a handler called in the process of its node.
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

#: Phases of jobs that are over: nothing changes them any more.
_FINAL_PHASES = JobPhase.DONE, JobPhase.FAILED, JobPhase.CANCELLED
#: Delay before a call of a handler that was not possible is tried again, ns.
_RETRY = NS // 10


def _attributes(record: Any) -> dict[str, Any]:
    return {name: to_plain(value) for name, value in (vars(record) | {"phase": int(record.phase)}).items()}


class RemoteJobs:
    """Stands for the coordinator in a process that runs nodes, see `RigidAdapter.keeper`.

    Parameters
    ----------
    process
        The process, with ``ask`` and ``tell``.
    adapter
        Its adapter; the records there are as they were when a handler has asked for them.
    """

    def __init__(self, process: Any, adapter: RigidAdapter) -> None:
        self._process, self._adapter = process, adapter
        #: Job whose record the present handler has -> attribute -> encoded as the coordinator has it.
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
        """Report what the handler has changed in records."""
        for number, known in self._known.items():
            attributes = _attributes(self._adapter.records[number])
            now = _encode(attributes)
            changes = {name: attributes[name] for name, value in now.items() if known.get(name) != value}
            if changes:
                self._process.tell("record", number, changes, self._process.core.now)
                self._known[number] = now

    def forget(self) -> None:
        """Report the changes of records by a handler that has returned: the next one asks again."""
        self.report()
        self._known.clear()

    def claim(self, *arguments: int) -> None:
        """Claim a machine for a job here, and report the claim."""
        self._adapter.claim(*arguments)
        self._tell("claim", *arguments)

    def release(self, *arguments: int) -> None:
        """Release the claim of a machine here, and report that."""
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
    """Keeps the jobs at the coordinator: carries out what nodes want, and has their handlers called.

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
        self.attempted_at: dict[int, int] = {}  # job -> when the coordinator heard of its attempt, ns
        self.called_at: dict[tuple[int, str], int] = {}  # job, handler -> when it was called last, ns
        self.count = 0
        #: Process -> number of a call that it has not reported -> node, handler, job and further arguments.
        self.pending: dict[int, dict[int, tuple[int, str, int, tuple[int, ...]]]] = {}
        adapter.caller = self

    # -- what nodes want ------------------------------------------------------------------------------------

    def record(self, number: int) -> dict[str, Any]:
        """Return the attributes of a record."""
        return _attributes(self.adapter.records[number])

    def change(self, number: int, changes: dict[str, Any], instant: int) -> None:
        """Change a record as a handler did at `instant` ns, unless the job is over by now."""
        adapter = self.adapter
        record = adapter.records[number]
        if record.phase in _FINAL_PHASES:
            return
        if "attempt" in changes:
            record.has_lost_node, self.attempted_at[number] = False, adapter.now
        vars(record).update((name, from_plain(value)) for name, value in changes.items())
        for name, due in record.timers.items():
            # a timer may have fired since then that was ignored in the earlier phase
            called_at = self.called_at.get((number, handler_name(name)), -1)
            if instant <= due <= adapter.now and called_at < due:
                adapter.wake(adapter.now, name, record)

    def do(self, method: str, *arguments: Any) -> None:
        """Carry out one of the `RigidAdapter.shared` methods, unless things have changed meanwhile."""
        adapter = self.adapter
        if method not in adapter.shared:
            raise msgspec.ValidationError(f"a method {method[:40]!r} of jobs")
        if method == "claim" and not adapter.up[arguments[1]]:
            return  # the machine has failed since
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
        """Return whether a machine of a job has failed since the present attempt to claim it began."""
        nodes = np.array(record.nodes, np.int64)
        since = self.attempted_at.get(record.number, -1)
        return bool((~self.adapter.up[nodes] | (self.failed_at[nodes] >= since)).any())

    # -- calls of handlers ----------------------------------------------------------------------------------

    def call(self, handler: str, node: int, number: int, *arguments: int) -> None:
        """Have a handler called in the process of a node, see `RigidAdapter.call`."""
        if handler == "on_job_end":
            self.adapter.end_claim(node, number)
        process = self.coordinator.core.process_of[node]
        self.called_at[number, handler] = self.adapter.now
        self.count += 1
        self.pending.setdefault(process, {})[self.count] = node, handler, number, arguments
        self.coordinator.call(process, self.count, node, handler, number, arguments)

    def confirm_call(self, process: int, count: int, is_done: bool) -> None:
        """Note that a handler was called, or that its node is down."""
        call = self.pending[process].pop(count)
        if not is_done:
            self._call_again(*call)

    def lose(self, process: int) -> None:
        """Have handlers called again if a killed process has not reported their calls."""
        for call in self.pending.pop(process, {}).values():
            self._call_again(*call)

    def _call_again(self, node: int, handler: str, number: int, arguments: tuple[int, ...]) -> None:
        """Call a handler of the node now in charge of a job; calls about one machine are lost."""
        record = self.adapter.records[number]
        if handler in ("on_job_end", "on_job_outlives") or record.phase in _FINAL_PHASES:
            return
        engine = self.coordinator.engine

        def call() -> None:
            if not self.adapter.call_in_charge(handler, record, *arguments):
                engine.call_at(engine.clock() + _RETRY, call)

        engine.call_at(engine.clock() + _RETRY, call)

    def note_failures(self, failed: Integers) -> None:
        """Note when machines fail: a node that does not know it yet may start a job on them."""
        self.failed_at[failed] = self.coordinator.engine.now
