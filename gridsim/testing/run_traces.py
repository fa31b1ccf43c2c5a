"""Traces of the messages and task starts of each machine in a run, and the first difference of two runs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsim.engine import TIMER
from gridsim.model.applications import JOB_TIMES
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.scheduling.contract import Policy, Run, Scheduler
from gridsim.scheduling.nodes.adapter import Message, NodeScheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arrays import Integers
from gridsim.support.clock import NS, nanoseconds
from gridsim.support.random_streams import Streams
from gridsim.testing.perturbations import release_machines
from gridsim.testing.run_limits import MAX_EVENTS

#: Cohort limit above the size of any cohort: cohorts stay whole, but are handled in Python.
_UNLIMITED_COHORT = 2**40
#: Number of draws that a changed stream skips.
_STREAM_OFFSET = 12_345
#: Priority of a timer that fires after all others of its instant.
_LAST_PRIORITY = 999


@dataclass(frozen=True)
class ObservedRun:
    """Run with the messages and task starts of each machine.

    Parameters
    ----------
    rows
        (ns, machine, action, fields) of each message sent and each task started.
    end
        The time (ns) until which runs can be compared.
    release_machine
        int64[applications], the machine whose node handles the release of each application.
    task_kinds
        The kinds of messages that hand tasks over to their receivers.
    fixed_delay_messages
        (ns, sender, receiver, delay in ns) of messages with a delay that the network does not determine.
    streams
        Names of the random streams that the scheduler uses.
    draws_during_setup
        Whether the scheduler drew from them during setup, for example to seed its own generator.
    message_fault
        Description of a message that is faster than the network or has fewer bytes than fields, or None.
    """

    rows: list[tuple[Any, ...]]
    end: int
    result: Result
    release_machine: Integers
    task_kinds: list[str]
    fixed_delay_messages: list[tuple[int, int, int, int]]
    streams: list[str]
    draws_during_setup: bool
    message_fault: str | None


def _advance(stream: np.random.Generator) -> None:
    """Skip `_STREAM_OFFSET` numbers of a stream."""
    stream.bit_generator.advance(_STREAM_OFFSET)  # type: ignore[attr-defined]  # PCG64 has it, its base class has not


class _RecordedStreams(Streams):
    """Recorded random streams, one of which draws other numbers once the run has begun.

    Attributes
    ----------
    draws_during_setup
        Whether a number was drawn before the run began.
    """

    def __init__(self, streams: Streams, names: list[str], changed_stream: str | None) -> None:
        super().__init__(streams.seed)
        self.names, self.changed_stream = names, changed_stream
        self.generators: list[tuple[str, np.random.Generator]] = []
        self.has_begun = self.draws_during_setup = False

    def __call__(self, name: str) -> np.random.Generator:
        """Return the generator of the stream `name`."""
        if name not in self.names:
            self.names.append(name)
        generator = super().__call__(name)
        self.generators.append((name, generator))
        if name == self.changed_stream and self.has_begun:
            _advance(generator)
        return generator

    def begin(self) -> None:
        """Skip numbers of the changed stream; numbers drawn during setup stay the same."""
        self.has_begun = True
        for name, generator in self.generators:
            self.draws_during_setup |= (
                generator.bit_generator.state != super().__call__(name).bit_generator.state
            )
            if name == self.changed_stream:
                _advance(generator)

    def align(self, _: list[int]) -> None:
        """Set all streams to one position, so that the number of earlier draws has no effect.

        The position is not the beginning of the stream, where the scheduler would draw the same machines as
        at the start of the run.
        """
        for name, generator in self.generators:
            _advance(fresh_generator := super().__call__(name))
            generator.bit_generator.state = fresh_generator.bit_generator.state


class _ObservingScheduler(Scheduler, frozen=True, kw_only=True):
    """Scheduler that runs another one and records its messages.

    Parameters
    ----------
    inner
        The other scheduler.
    rows, fixed_delay_messages, streams
        Lists to which the columns of `ObservedRun` are appended.
    changed_stream
        The random stream that draws other numbers.
    align_at
        The time (ns) at which all streams are set to one position; None for never.
    fields
        Kind of message -> number of its fields.
    recorded_streams
        List to which the streams of the run are appended.
    """

    # the inner scheduler has run the scenario before, so it supports whatever the scenario needs
    unequal = fluctuating = owners = constraints = moves_data = True
    job_times = JOB_TIMES

    inner: Scheduler
    rows: list[tuple[Any, ...]]
    fixed_delay_messages: list[tuple[int, int, int, int]]
    streams: list[str]
    fields: dict[str, int]
    changed_stream: str | None
    align_at: int | None
    recorded_streams: list[_RecordedStreams]

    def start(self, run: Run) -> Policy:
        network = run.network
        delays: dict[str, int] = {}

        def record_messages(now: int, name: str, rows: Any, source: Any, opaque: tuple[str, ...]) -> None:
            for row, machine in zip(rows, source.tolist(), strict=True):
                values = {key: row[key].item() for key in rows.dtype.names if key not in opaque}
                pairs = tuple((key, each if each == each else None) for key, each in values.items())  # NaN
                self.rows.append((now, machine, f"sends {name}", pairs))
            self.fields[name] = len(
                [key for key in rows.dtype.names if key not in ("node", "sender", *opaque)]
            )
            if name in delays:
                target = network.machine_of[rows["node"]].tolist()
                self.fixed_delay_messages.extend(
                    (now, u, v, delays[name]) for u, v in zip(source.tolist(), target, strict=True) if u != v
                )

        network.observe(record_messages)
        run.streams = recorded_streams = _RecordedStreams(run.streams, self.streams, self.changed_stream)
        policy = self.inner.start(run)
        delays.update({name: nanoseconds(delay) for name, delay in network.delays.items()})
        recorded_streams.begin()
        self.recorded_streams.append(recorded_streams)
        if self.align_at is not None:
            run.engine.on("align streams", recorded_streams.align, priority=_LAST_PRIORITY, phase=TIMER)
            run.engine.at(self.align_at, "align streams")
        return policy


class _ObservingJobScheduler(_ObservingScheduler, frozen=True, kw_only=True):
    """`_ObservingScheduler` for rigid jobs."""

    rigid = True


def observe(
    scenario: Scenario, scheduler: Scheduler, stream: str | None = None, align_at: int | None = None
) -> ObservedRun:
    """Run `scenario`, and return the messages and task starts of each machine with the result.

    Parameters
    ----------
    stream
        The random stream that draws other numbers; None for no change.
    align_at
        The time (ns) at which all streams are set to one position; None for never.
    """
    recorded_streams: list[_RecordedStreams] = []
    rows: list[tuple[Any, ...]] = []
    fixed_delay_messages: list[tuple[int, int, int, int]] = []
    streams: list[str] = []
    fields: dict[str, int] = {}
    kind = _ObservingJobScheduler if scheduler.rigid else _ObservingScheduler
    observed = kind(
        inner=scheduler,
        rows=rows,
        fixed_delay_messages=fixed_delay_messages,
        streams=streams,
        fields=fields,
        changed_stream=stream,
        align_at=align_at,
        recorded_streams=recorded_streams,
    )
    result = simulate(
        scenario,
        observed,
        record=("schedule", "messages"),
        cohort_limit=_UNLIMITED_COHORT,
        events_limit=MAX_EVENTS,
        time_limit=1e7,
    )
    table = result.tables["schedule"]
    start, end = (np.rint(table[name] * NS).astype(np.int64) for name in ("start", "end"))
    # count tasks, not rows: it is not up to the machine whether consecutive tasks share a row
    count = table["tasks"] if scenario.fluctuation is None else np.ones(len(table), np.int64)
    for at, duration, tasks, machine, application in zip(
        start.tolist(),
        ((end - start) // count).tolist(),
        count.tolist(),
        table["machine"].tolist(),
        table["application"].tolist(),
        strict=True,
    ):
        for k in range(tasks):
            rows.append((at + k * duration, machine, "starts", (("application", application),)))
    arrivals = result.tables.get("arrivals")
    # once all tasks have arrived, a run may end before its last messages are delivered
    last = (
        arrivals["time"].max()
        if arrivals is not None and len(arrivals)
        else result.provenance["clock_seconds"]
    )
    message_fault = _early_message(
        fixed_delay_messages, nanoseconds(scenario.network.latency)
    ) or _small_message(result, fields)
    kinds: Mapping[str, Message] = scheduler.messages if isinstance(scheduler, NodeScheduler) else {}
    return ObservedRun(
        rows,
        nanoseconds(float(last)),
        result,
        release_machines(scheduler, scenario.platform.nodes)[result.applications["submitter"]],
        [name for name, kind in kinds.items() if kind.moves_tasks],
        sorted(set(fixed_delay_messages)),
        streams,
        recorded_streams[0].draws_during_setup,
        message_fault,
    )


def _early_message(fixed_delay_messages: list[tuple[int, int, int, int]], latency: int) -> str | None:
    """Describe the first message to another machine that takes less than `latency` ns; None if none does."""
    for at, u, v, delay in fixed_delay_messages:
        if delay < latency:
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


def _are_same_rows(a: tuple[Any, ...] | None, b: tuple[Any, ...] | None, missing: tuple[int, ...]) -> bool:
    """Return whether two rows are the same, if the applications after the `missing` ones are renumbered."""
    if a is None or b is None or not missing or a[:3] != b[:3]:
        return a == b
    return all(
        value == renumbered
        or (name == column and renumbered == value - bisect_left(missing, value) and value not in missing)
        for (name, value), (column, renumbered) in zip(a[3], b[3], strict=True)
    )


def first_differing_row(
    base: ObservedRun, variant: ObservedRun, until: list[int], missing: tuple[int, ...] = ()
) -> tuple[tuple[Any, ...], str] | None:
    """Return the first row that only one run has, before `until` (ns) of its machine; else None.

    The text returned with it says whether the row is only in the run without the change, or with it.
    """
    base_rows, variant_rows = ([row for row in run.rows if row[0] < until[row[1]]] for run in (base, variant))
    for a, b in zip([*base_rows, None], [*variant_rows, None], strict=False):
        if not _are_same_rows(a, b, missing):
            row, qualifier = (
                (a, "only without the change")
                if b is None or (a is not None and a[:3] <= b[:3])
                else (b, "only with the change")
            )
            assert row is not None
            return row, qualifier
    return None
