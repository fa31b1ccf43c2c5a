"""Runs with a log of the messages and task starts of each machine, and with changed random streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gridsim.engine import TIMER
from gridsim.model.applications import JOB_TIMES
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.scheduling.contract import Policy, Run, Scheduler
from gridsim.scheduling.description import describe
from gridsim.scheduling.nodes.adapter import Adapter, Message, NodeScheduler
from gridsim.scheduling.nodes.board import BoardScheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arrays import Integers
from gridsim.support.clock import NS, nanoseconds
from gridsim.support.random_streams import Streams
from gridsim.testing.action_log import ActionLog, ActionRecorder
from gridsim.testing.perturbations import release_machines
from gridsim.testing.run_limits import LIMITS, report_errors

#: Cohort limit above the size of any cohort: cohorts stay whole, but are handled in Python.
_UNLIMITED_COHORT = 2**40
#: Number of draws that a changed stream skips.
_STREAM_OFFSET = 12_345
#: Values of the fields of a message for which its size is computed.
_LARGE_VALUES = tuple(2**k for k in range(0, 62, 3))
#: Priority of a timer that fires after all others of its instant.
_LAST_PRIORITY = 999


@dataclass(frozen=True)
class ObservedRun:
    """Run with the messages and task starts of each machine.

    Parameters
    ----------
    actions
        The messages that were sent, and the tasks that were started.
    end
        The time (ns) until which runs can be compared.
    release_machine
        int64[applications], the machine whose node handles the release of each application.
    task_kinds
        The kinds of messages that hand tasks over to their receivers.
    delayed_messages
        int64[messages, 4], the time (ns), the machines of sender and receiver, and the delay (ns) of messages
        with a delay that the network does not determine.
    streams
        Random streams that the scheduler uses: name -> state at the end of the run.
    draws_during_setup
        Whether the scheduler drew from them during setup, for example to seed its own generator.
    message_fault
        Description of a message that is faster than the network or has fewer bytes than fields, or None.
    board_age
        Time (ns) after which all nodes can see what one has published; None without such a board, 0 if nodes
        add to the shown numbers.
    """

    actions: ActionLog
    end: int
    result: Result
    release_machine: Integers
    task_kinds: list[str]
    delayed_messages: Integers
    streams: dict[str, int]
    draws_during_setup: bool
    message_fault: str | None
    board_age: int | None


def _advance(stream: np.random.Generator) -> None:
    """Skip `_STREAM_OFFSET` numbers of a stream."""
    stream.bit_generator.advance(_STREAM_OFFSET)  # type: ignore[attr-defined]  # PCG64 has it, its base class has not


class _RecordedStreams(Streams):
    """Recorded random streams, one of which draws other numbers from some time on.

    Attributes
    ----------
    draws_during_setup
        Whether a number was drawn before the run began.
    """

    def __init__(self, streams: Streams, changed_stream: str | None) -> None:
        super().__init__(streams.seed)
        self.changed_stream = changed_stream
        self.generators: list[tuple[str, np.random.Generator]] = []
        self.is_changed = self.draws_during_setup = False

    def __call__(self, name: str) -> np.random.Generator:
        """Return the generator of the stream `name`."""
        generator = super().__call__(name)
        self.generators.append((name, generator))
        if name == self.changed_stream and self.is_changed:
            _advance(generator)
        return generator

    def begin(self) -> None:
        """Note whether numbers have been drawn during setup."""
        self.draws_during_setup = any(
            generator.bit_generator.state != super(_RecordedStreams, self).__call__(name).bit_generator.state
            for name, generator in self.generators
        )

    def change(self) -> None:
        """Skip numbers of the changed stream; numbers drawn before stay the same."""
        self.is_changed = True
        for name, generator in self.generators:
            if name == self.changed_stream:
                _advance(generator)

    def states(self) -> dict[str, int]:
        """Return the state of each stream."""
        return {name: generator.bit_generator.state["state"]["state"] for name, generator in self.generators}

    def align(self) -> None:
        """Set all streams to one position, so that the number of earlier draws has no effect.

        The position is not the beginning of the stream, where the scheduler would draw the same machines as
        at the start of the run.
        """
        for name, generator in self.generators:
            _advance(fresh_generator := super().__call__(name))
            generator.bit_generator.state = fresh_generator.bit_generator.state


def _align_nodes(policy: Policy) -> None:
    """Set the streams of all nodes to one position, if the policy has node programs."""
    if isinstance(policy, Adapter):
        for node in range(policy.layout.nodes):
            policy.core.view_of(node).random.drawn = _STREAM_OFFSET


class _RunRecorder:
    """Recorder of the messages and random streams of one run."""

    def __init__(self) -> None:
        self.actions: ActionRecorder
        self.streams: _RecordedStreams
        #: Kind of message -> delay (ns) that the network does not determine.
        self.delays: dict[str, int] = {}
        self.policy: Policy

    def __repr__(self) -> str:
        return "<recorder>"


class _ObservingScheduler(Scheduler, frozen=True, kw_only=True):
    """Scheduler that runs another scheduler and records its messages.

    Parameters
    ----------
    inner
        The other scheduler.
    changed_stream
        The random stream that draws other numbers.
    change_at
        The time (ns) from which on it does; None for the begin of the run.
    align_at
        The time (ns) at which all streams are set to one position; None for never.
    recorder
        The recorder of the run.
    """

    # the inner scheduler has run the scenario before, so it supports all features of the scenario
    unequal = fluctuating = owners = constraints = moves_data = dependencies = True
    job_times = JOB_TIMES

    inner: Scheduler
    changed_stream: str | None
    change_at: int | None
    align_at: int | None
    # The result describes the fields of its scheduler, so the record must not be a list here.
    recorder: _RunRecorder

    def start(self, run: Run) -> Policy:
        recorder, network = self.recorder, run.network
        recorder.actions = ActionRecorder(network)
        run.streams = recorder.streams = _RecordedStreams(run.streams, self.changed_stream)
        policy = recorder.policy = self.inner.start(run)
        recorder.delays = {name: nanoseconds(delay) for name, delay in network.delays.items()}
        recorder.streams.begin()
        if self.change_at is None:
            recorder.streams.change()
        else:
            run.engine.on(
                "change stream", lambda _: recorder.streams.change(), priority=_LAST_PRIORITY, phase=TIMER
            )
            run.engine.at(self.change_at, "change stream")
        if self.align_at is not None:

            def align(_: list[int]) -> None:
                recorder.streams.align()
                _align_nodes(policy)

            run.engine.on("align streams", align, priority=_LAST_PRIORITY, phase=TIMER)
            run.engine.at(self.align_at, "align streams")
        return policy


class _ObservingJobScheduler(_ObservingScheduler, frozen=True, kw_only=True):
    """`_ObservingScheduler` for rigid jobs."""

    rigid = True


def observe(
    scenario: Scenario,
    scheduler: Scheduler,
    stream: str | None = None,
    align_at: int | None = None,
    change_at: int | None = None,
) -> ObservedRun:
    """Run `scenario`, and return the messages and task starts of each machine with the result.

    Parameters
    ----------
    stream
        The random stream that draws other numbers; None for no change.
    align_at
        The time (ns) at which all streams are set to one position; None for never.
    change_at
        The time (ns) from which on the stream draws other numbers; None for the begin of the run.

    Raises
    ------
    ConformanceError
        If the run raises an error; it breaks the invariant "runs".
    """
    recorder = _RunRecorder()
    kind = _ObservingJobScheduler if scheduler.rigid else _ObservingScheduler
    observed = kind(
        inner=scheduler, recorder=recorder, changed_stream=stream, align_at=align_at, change_at=change_at
    )
    with report_errors(scenario, scheduler):
        result = simulate(
            scenario,
            observed,
            record=("schedule", "messages"),
            cohort_limit=_UNLIMITED_COHORT,
            **LIMITS,
        )
    result.scheduler = describe(scheduler)  # by whose parameters the result is valid
    arrivals = result.tables.get("arrivals")
    # once all tasks have arrived, a run may end before its last messages are delivered
    last = (
        arrivals["time"].max()
        if arrivals is not None and len(arrivals)
        else result.provenance["clock_seconds"]
    )
    delayed_messages = recorder.actions.delayed_messages(recorder.delays)
    kinds: Mapping[str, Message] = scheduler.messages if isinstance(scheduler, NodeScheduler) else {}
    message_fault = (
        _early_message(delayed_messages, nanoseconds(scenario.network.latency))
        or _small_message(result, recorder.actions.field_counts())
        or _small_large_values(kinds)
    )
    return ObservedRun(
        recorder.actions.log(_starts(result)),
        nanoseconds(float(last)),
        result,
        release_machines(scheduler, scenario.platform.nodes)[result.applications["submitter"]],
        [name for name, kind in kinds.items() if kind.moves_tasks],
        delayed_messages,
        recorder.streams.states(),
        recorder.streams.draws_during_setup,
        message_fault,
        _board_age(recorder.policy, scheduler),
    )


def _board_age(policy: Policy, scheduler: Scheduler) -> int | None:
    """Return the age (ns) of what nodes see on their board; None if there is none, 0 if nodes add to it."""
    if not isinstance(scheduler, BoardScheduler) or not isinstance(policy, Adapter):
        return None
    return 0 if policy.core.getstate()["additions"] else nanoseconds(scheduler.age)


def _starts(result: Result) -> tuple[Integers, Integers, Integers]:
    """Return the time (ns), the machine and the application of the start of each task."""
    table = result.tables["schedule"]
    start, end = (np.rint(table[name] * NS).astype(np.int64) for name in ("start", "end"))
    # count tasks, not rows: it is not up to the machine whether consecutive tasks share a row
    is_whole = result.scenario.fluctuation is None
    count = table["tasks"] if is_whole else np.ones(len(table), np.int64)
    index = np.arange(count.sum()) - (np.cumsum(count) - count).repeat(count)
    times = start.repeat(count) + index * ((end - start) // count).repeat(count)
    return times, table["machine"].repeat(count), table["application"].repeat(count)


def _early_message(delayed_messages: Integers, latency: int) -> str | None:
    """Describe the first message to another machine that takes less than `latency` ns; None if none does."""
    for at, u, v, delay in delayed_messages[delayed_messages[:, 3] < latency][:1].tolist():
        return (
            f"a message sent at {at / NS} s from machine {u} to machine {v} takes {delay / NS} s, "
            "less than the latency"
        )
    return None


def _small_message(result: Result, fields: dict[str, int]) -> str | None:
    """Return a description of a kind of message with fewer bytes than fields; None if there is none."""
    log = result.tables["message_log"]
    for kind, count in fields.items():
        sizes = log["bytes"][log["kind"] == kind]
        if len(sizes) and sizes.min() < count and kind not in result.provenance["message_log"]["delays"]:
            return f"a message {kind} of {sizes.min()} bytes has {count} fields"
    return None


def _small_large_values(kinds: Mapping[str, Message]) -> str | None:
    """Return a description of a kind of message that has fewer bytes than fields for some values; else None.

    Only kinds whose size is a function of the fields are checked, with values that small runs do not have.
    """
    for name, kind in kinds.items():
        if not callable(kind.nbytes) or kind.delay is not None or kind.arrays:
            continue
        for value in _LARGE_VALUES:
            fields = {field: int(value) if of is int else float(value) for field, of in kind.fields.items()}
            try:
                size = kind.nbytes(**fields)
            except Exception:  # the function may not support such values
                continue
            if size < len(fields):
                return f"a message {name} with {fields} has {len(fields)} fields and {size} bytes"
    return None
