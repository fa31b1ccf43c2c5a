"""What each machine sends and starts in a run, and where two runs differ first."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsim.engine import TIMER
from gridsim.model.applications import JOB_TIMES
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.scheduling.contract import Policy, Run, Scheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.clock import NS, nanoseconds
from gridsim.support.random_streams import Streams
from gridsim.testing.run_limits import MOST_EVENTS

#: A cohort limit above the size of any cohort: cohorts stay whole, but are handled in Python.
_ALL = 2**40
#: How many numbers further a changed stream begins.
_FURTHER = 12_345
#: The priority of what comes after all other timers of an instant.
_LAST = 999


@dataclass(frozen=True)
class Seen:
    """What each machine sends and starts in a run, by time (ns), until when (ns), and the run's result.

    Parameters
    ----------
    quick
        (ns, sender, receiver, ns that it takes) of messages with their own delay.
    streams
        Names of the random streams that the scheduler uses.
    seeded
        Whether it drew from them to set up the run, as for the seed of a generator of its own.
    unsound
        A message that is faster than the network, or has fewer bytes than fields; None: there is none.
    """

    rows: list[tuple[Any, ...]]
    end: int
    result: Result
    quick: list[tuple[int, int, int, int]]
    streams: list[str]
    seeded: bool
    unsound: str | None


def _go_on(stream: np.random.Generator) -> None:
    """Let a stream go on elsewhere."""
    stream.bit_generator.advance(_FURTHER)  # type: ignore[attr-defined]  # PCG64 has it, its base class has not


class _Tapped(Streams):
    """Streams that are recorded, one of which goes on elsewhere once the run has begun.

    Attributes
    ----------
    seeded
        Whether a number was drawn before.
    """

    def __init__(self, streams: Streams, names: list[str], other: str | None) -> None:
        super().__init__(streams.seed)
        self.names, self.other = names, other
        self.made: list[tuple[str, np.random.Generator]] = []
        self.begun = self.seeded = False

    def __call__(self, name: str) -> np.random.Generator:
        """Return the generator; see `Streams`."""
        if name not in self.names:
            self.names.append(name)
        found = super().__call__(name)
        self.made.append((name, found))
        if name == self.other and self.begun:
            _go_on(found)
        return found

    def begin(self) -> None:
        """Let the changed stream go on elsewhere: what was drawn to set up the run stays the same."""
        self.begun = True
        for name, each in self.made:
            self.seeded |= each.bit_generator.state != super().__call__(name).bit_generator.state
            if name == self.other:
                _go_on(each)

    def anew(self, _: list[int]) -> None:
        """Let all streams go on from one place, so that it no longer matters how much has been drawn.

        It is not their beginning, from which the same machines would be drawn as when the run began.
        """
        for name, each in self.made:
            _go_on(there := super().__call__(name))
            each.bit_generator.state = there.bit_generator.state


class _Observed(Scheduler, frozen=True, kw_only=True):
    """A scheduler that runs another one and records its messages.

    Parameters
    ----------
    inner
        The other scheduler.
    seen
        The decisions; rows are appended to it.
    quick, streams
        See `Seen`.
    other
        The random stream that is changed.
    fields
        Kind of message -> how many fields it has.
    """

    # the inner scheduler has run the scenario, so it supports it
    unequal = fluctuating = owners = constraints = moves_data = True
    job_times = JOB_TIMES

    inner: Scheduler
    seen: list[tuple[Any, ...]]
    quick: list[tuple[int, int, int, int]]
    streams: list[str]
    fields: dict[str, int]
    other: str | None
    anew: int | None
    tapped: list[_Tapped]

    def start(self, run: Run) -> Policy:
        network = run.network
        delays: dict[str, int] = {}

        def look(now: int, name: str, rows: Any, source: Any, opaque: tuple[str, ...]) -> None:
            for row, machine in zip(rows, source.tolist(), strict=True):
                values = {key: row[key].item() for key in rows.dtype.names if key not in opaque}
                told = tuple((key, each if each == each else None) for key, each in values.items())  # NaN
                self.seen.append((now, machine, f"sends {name}", told))
            self.fields[name] = len(
                [key for key in rows.dtype.names if key not in ("node", "sender", *opaque)]
            )
            if name in delays:
                target = network.machine_of[rows["node"]].tolist()
                self.quick.extend(
                    (now, u, v, delays[name]) for u, v in zip(source.tolist(), target, strict=True) if u != v
                )

        network.observe(look)
        run.streams = tapped = _Tapped(run.streams, self.streams, self.other)
        policy = self.inner.start(run)
        delays.update({name: nanoseconds(delay) for name, delay in network.delays.items()})
        tapped.begin()
        self.tapped.append(tapped)
        if self.anew is not None:
            run.engine.on("streams go on", tapped.anew, priority=_LAST, phase=TIMER)
            run.engine.at(self.anew, "streams go on")
        return policy


class _ObservedJobs(_Observed, frozen=True, kw_only=True):
    """The same for a scheduler of rigid jobs."""

    rigid = True


def observe(
    scenario: Scenario, scheduler: Scheduler, stream: str | None = None, anew: int | None = None
) -> Seen:
    """Run `scenario`.

    Parameters
    ----------
    stream
        The random stream that draws other numbers.
    anew
        When all go on from one place (ns), or None.
    """
    tapped: list[_Tapped] = []
    seen: list[tuple[Any, ...]] = []
    quick: list[tuple[int, int, int, int]] = []
    streams: list[str] = []
    fields: dict[str, int] = {}
    kind = _ObservedJobs if scheduler.rigid else _Observed
    observed = kind(
        inner=scheduler,
        seen=seen,
        quick=quick,
        streams=streams,
        fields=fields,
        other=stream,
        anew=anew,
        tapped=tapped,
    )
    result = simulate(
        scenario,
        observed,
        record=("schedule", "messages"),
        cohort_limit=_ALL,
        events_limit=MOST_EVENTS,
        time_limit=1e7,
    )
    table = result.tables["schedule"]
    start, end = (np.rint(table[name] * NS).astype(np.int64) for name in ("start", "end"))
    # tasks that run one after another may be one row or several, which no machine decides
    count = table["tasks"] if scenario.fluctuation is None else np.ones(len(table), np.int64)
    rows = zip(*(each.tolist() for each in (start, (end - start) // count, count)), strict=True)
    for (at, lasts, tasks), machine, application in zip(
        rows, table["machine"].tolist(), table["application"].tolist(), strict=True
    ):
        for k in range(tasks):
            seen.append((at + k * lasts, machine, "starts", (("application", application),)))
    came = result.tables.get("arrivals")
    # when all tasks are where they will run, a run may end without the rest of its messages
    last = came["time"].max() if came is not None and len(came) else result.provenance["clock_seconds"]
    unsound = _faster(quick, nanoseconds(scenario.network.latency)) or _thin(result, fields)
    return Seen(
        seen, nanoseconds(float(last)), result, sorted(set(quick)), streams, tapped[0].seeded, unsound
    )


def _faster(quick: list[tuple[int, int, int, int]], latency: int) -> str | None:
    """Return the first message to another machine that takes less than `latency` ns."""
    for at, u, v, lasts in quick:
        if lasts < latency:
            return (
                f"machine {u} reaches machine {v} in {lasts / NS} s at {at / NS} s, faster than the network"
            )
    return None


def _thin(result: Result, fields: dict[str, int]) -> str | None:
    """Return a kind of message that is too small for what it carries, a byte for each of `fields`."""
    log = result.tables["message_log"]
    for kind, count in fields.items():
        mine = log["bytes"][log["kind"] == kind]
        if len(mine) and mine.min() < count and kind not in result.provenance["message_log"]["delays"]:
            return f"a {kind} of {mine.min()} bytes carries {count} numbers"
    return None


def _alike(a: tuple[Any, ...] | None, b: tuple[Any, ...] | None, missing: tuple[int, ...]) -> bool:
    """Return whether two rows are the same, except for numbers of applications after the `missing` ones."""
    if a is None or b is None or not missing or a[:3] != b[:3]:
        return a == b
    return all(
        one == other or (name == of and other == one - bisect_left(missing, one) and one not in missing)
        for (name, one), (of, other) in zip(a[3], b[3], strict=True)
    )


def first_apart(
    one: Seen, other: Seen, known: list[int], missing: tuple[int, ...] = ()
) -> tuple[tuple[Any, ...], str] | None:
    """Return the first row that only one run has, of those before `known` (ns) of their machine."""
    here, there = ([row for row in seen.rows if row[0] < known[row[1]]] for seen in (one, other))
    for a, b in zip([*here, None], [*there, None], strict=False):
        if not _alike(a, b, missing):
            row, verb = (a, "not") if b is None or (a is not None and a[:3] <= b[:3]) else (b, "only then")
            assert row is not None
            return row, verb
    return None
