"""Reference implementation of `gridcore.random_walk.walk`: a list instead of a heap."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcore.common.arrays import Integers
from gridcore.common.state import LATEST, NEVER
from gridcore.random_walk.state import (
    FITS,
    JOB,
    JOB_COLUMNS,
    LOAD,
    LOOKS,
    MOVES,
    NODE_COLUMNS,
    OTHER_JOBS,
    OWN_JOBS,
    PROBE,
    RECORD,
    RESULT,
    SLOW,
    STAYS,
    check_arguments,
)
from tests.reference.links import Links

__all__ = ["RECORD", "JobWalks"]


@dataclass(eq=False)
class Search:
    """A job's search for a node: the rest of its walk, and the best node so far with the end of its queue."""

    job: int
    walk: Iterator[tuple[int, bool]]
    at: int  # the current node of the walk
    left: int  # remaining steps
    last_answer: tuple[int, int] | None = None  # the answer in flight, if it is better
    best: tuple[int, int] | None = None
    time: int = 0  # of the next event
    is_probing: bool = True  # whether that event is a probe, else an answer
    row: dict[str, int] | None = None  # the row of the log whose answer is in flight


@dataclass
class Node:
    """A node: the end of its queue, and its counters."""

    speed: float
    rate: float
    free: int = 0
    busy: int = 0
    done: int = 0
    own: int = 0
    remote: int = 0
    peak: int = 0
    starts: list[int] = field(default_factory=list)  # of waiting jobs


class JobWalks:
    """See `gridcore.random_walk.walk.JobWalks`."""

    def __init__(
        self,
        links: Links,
        speed: ArrayLike,
        *,
        kinds: ArrayLike,
        release: ArrayLike,
        node: ArrayLike,
        work: ArrayLike,
        data: ArrayLike,
        rate: ArrayLike,
        probes: int,
        pick: str = "first",
        rule: str = "exactly-one",
        local_threshold: float = 0.5,
        remote_threshold: float = 1.0,
        min_speed: float = 0.0,
        printed: bool = False,
        probe_time: int = 0,
        queued: bool = True,
        packet: int = 100,
        seed: int = 0,
        neighbours: NDArray[np.int32] | None = None,
        log: int = 0,
    ) -> None:
        arrays = check_arguments(
            speed=speed,
            kinds=kinds,
            release=release,
            node=node,
            work=work,
            data=data,
            rate=rate,
            probes=probes,
            pick=pick,
            rule=rule,
            local_threshold=local_threshold,
            remote_threshold=remote_threshold,
            min_speed=min_speed,
            probe_time=probe_time,
            packet=packet,
            neighbours=neighbours,
            log=log,
            widths=links._width,
        )
        self._links = links
        self._kinds: list[int] = arrays["kinds"].tolist()
        if len(links._machine_of) != len(arrays["speed"]):
            raise ValueError(f"links must have {len(arrays['speed'])} nodes, got {len(links._machine_of)}")
        speeds, rates = arrays["speed"].tolist(), arrays["rate"].tolist()
        self._nodes = [Node(s, r) for s, r in zip(speeds, rates, strict=True)]
        self._release: list[int] = arrays["release"].tolist()
        self._home: list[int] = arrays["node"].tolist()
        self._work: list[float] = arrays["work"].tolist()
        self._data: list[int] = arrays["data"].tolist()
        self._probes, self._pick, self._rule = probes, pick, rule
        self._local, self._remote, self._min_speed = local_threshold, remote_threshold, min_speed
        self._printed, self._probe_time, self._packet = printed, probe_time, packet
        self._seed, self._neighbours = seed, neighbours
        self._next = 0  # the next job to release
        self._searches: list[Search] = []  # searches in progress, in order
        self._queued = queued and probe_time > 0 and self._steps() > 0
        self._busy_dispatchers: set[int] = set()  # nodes whose dispatcher is searching
        self._lines: dict[int, list[int]] = {}  # jobs that wait for each dispatcher
        self._ending: list[tuple[int, int]] = []  # end and job; the result is sent at the end
        count = len(self._release)
        self._jobs = {name: np.full(count, -1, dtype) for name, dtype in JOB_COLUMNS.items()}
        self._jobs["probes"][:] = 0
        self._log: list[dict[str, int]] = []
        self._log_limit, self.unlogged = log, 0

    # -- time -----------------------------------------------------------------------------------------------

    def advance(self, limit: int) -> int:
        """Run up to and including `limit` ns; return `NEVER`, since the caller handles no events."""
        while True:
            due = [search.time for search in self._searches] + [end for end, _ in self._ending]
            due += self._release[self._next : self._next + 1]
            next_event = min(due, default=NEVER)
            now = min(self._links.advance(min(limit, next_event)), next_event)
            if now > limit or now == NEVER:
                return NEVER
            self._arrive(now)
            for end, job in sorted(search for search in self._ending if search[0] == now):
                self._ending.remove((end, job))
                self._dispatch(job, int(self._jobs["machine"][job]), now)
            while due_now := [search for search in self._searches if search.time == now]:
                self._searches.remove(due_now[0])
                self._continue_search(due_now[0], now)
            while self._next < len(self._release) and self._release[self._next] == now:
                self._release_job(self._next, now)
                self._next += 1

    def _arrive(self, now: int) -> None:
        """Handle jobs that have arrived at a node, then results that have returned."""
        arrived = {kind: records.view(RECORD)["job"].ravel() for kind, records in self._links.collect(now)}
        for job in arrived.get(self._kinds[JOB], np.zeros(0, np.int64)).tolist():
            self._queue(job, int(self._jobs["machine"][job]), now)
        for job in arrived.get(self._kinds[RESULT], np.zeros(0, np.int64)).tolist():
            self._jobs["returned"][job] = now

    # -- the search for a node ------------------------------------------------------------------------------

    def _release_job(self, job: int, now: int) -> None:
        home = self._home[job]
        self._nodes[home].own += 1
        if self._probe_time and self._steps():
            self._dispatch(job, home, now)
            return
        search = Search(job, self._walk(job), home, self._steps())
        if not search.left:
            self._place(search, now)
        while search.left and not self._ask(search, now):
            pass

    def _steps(self) -> int:
        """Return the maximum number of steps of a search."""
        if self._neighbours is None:
            return min(self._probes, len(self._nodes) - 1)
        return self._probes if self._neighbours.shape[1] else 0

    def _dispatch(self, job: int, u: int, now: int) -> None:
        """Begin the search for `job`, or send its result from `u`, when the dispatcher is free."""
        if u in self._busy_dispatchers:
            self._lines.setdefault(u, []).append(job)
        elif self._jobs["machine"][job] < 0:
            if now > LATEST:
                raise OverflowError(f"node {u} would decide on jobs until after {LATEST} ns")
            if self._queued:
                self._busy_dispatchers.add(u)
            self._wait(Search(job, self._walk(job), u, self._steps()), now + self._probe_time // 2)
        elif u == self._home[job]:
            self._jobs["returned"][job] = now
        else:
            self._send(RESULT, u, self._home[job], job, now)

    def _continue_search(self, search: Search, now: int) -> None:
        home = self._home[search.job]
        if search.is_probing:
            self._probe(search, now)
            search.is_probing = False
            self._wait(search, now + self._probe_time - self._probe_time // 2)
        elif not self._answer(search, now):
            search.is_probing = True
            self._wait(search, now + self._probe_time // 2)
        else:
            # the dispatcher continues with its line, up to the next job
            self._busy_dispatchers.discard(home)
            while home not in self._busy_dispatchers and self._lines.get(home):
                self._dispatch(self._lines[home].pop(0), home, now)

    def _wait(self, search: Search, time: int) -> None:
        search.time = time
        self._searches.append(search)

    def _ask(self, search: Search, now: int) -> bool:
        """Make a step that takes no time; return whether the search is over."""
        self._probe(search, now)
        return self._answer(search, now)

    def _probe(self, search: Search, now: int) -> None:
        """Make the next step: a probe arrives at a node, which answers unless it has answered before."""
        u, new = next(search.walk)
        half = self._probe_time // 2
        previous = search.at if self._neighbours is not None else self._home[search.job]
        self._count(PROBE, previous, u, search.job, now - half, now)
        self._jobs["probes"][search.job] += 1
        search.at, search.last_answer, search.row = u, None, None
        search.left -= 1
        if new:
            self._count(LOAD, u, self._home[search.job], search.job, now, now + self._probe_time - half)
            verdict = self._verdict(u, search.job, now)
            if verdict == FITS:
                search.last_answer = u, self._nodes[u].free
            node = self._nodes[u]
            count = {OWN_JOBS: node.own, OTHER_JOBS: node.remote}.get(verdict, 0)
            search.row = self._log_row(
                job=search.job, node=u, asked=now, verdict=verdict, free=node.free, count=count
            )

    def _answer(self, search: Search, now: int) -> bool:
        """Handle an answer; return whether the search is over."""
        job, last_answer, best = search.job, search.last_answer, search.best
        if search.row is not None:
            self._log_truth(search.row, now)
        leaves = now + search.left * self._probe_time  # after all answers
        if last_answer is not None and self._pick == "first":
            if self._turnaround(job, *last_answer, now) < self._at_home(job, now):
                self._move(job, *last_answer, now)
                return True
        elif last_answer is not None and self._pick == "fastest":
            if best is None or self._nodes[last_answer[0]].speed > self._nodes[best[0]].speed:
                search.best = last_answer
        elif last_answer is not None and (
            best is None or self._turnaround(job, *last_answer, leaves) < self._turnaround(job, *best, leaves)
        ):
            search.best = last_answer
        if search.left == 0:
            self._place(search, now)
        return search.left == 0

    def _place(self, search: Search, now: int) -> None:
        """End the walk: the job moves to the best node if that is better than its own."""
        job, best = search.job, search.best
        home = self._home[job]
        if best is not None and self._pick == "fastest":
            better = self._nodes[best[0]].speed > self._nodes[home].speed
        else:
            better = best is not None and self._turnaround(job, *best, now) < self._at_home(job, now)
        if best is not None and better:
            self._move(job, *best, now)
        else:
            self._log_truth(self._log_row(job=job, verdict=STAYS), now)
            self._queue(job, home, now)

    def _move(self, job: int, u: int, free: int, now: int) -> None:
        self._log_truth(self._log_row(job=job, node=u, verdict=MOVES, free=free), now)
        self._nodes[u].remote += 1
        self._jobs["machine"][job] = u
        self._jobs["predicted"][job] = max(0, free - (now + self._latency(job)))
        self._send(JOB, self._home[job], u, job, now)

    # -- what is compared -----------------------------------------------------------------------------------

    def _latency(self, job: int) -> int:
        return self._links._latency + round(self._data[job] / self._links._bandwidth * 1e9)

    def _run_time(self, job: int, u: int) -> int:
        return round(min(self._work[job] / self._nodes[u].speed * 1e9, LATEST))

    def _at_home(self, job: int, now: int) -> int:
        home = self._home[job]
        wait = max(0, self._nodes[home].free - now)
        return wait if self._printed else wait + self._run_time(job, home)

    def _turnaround(self, job: int, u: int, free: int, leaves: int) -> int:
        """Return the turnaround of a job that `leaves` for `u`, which will be `free`, without arrivals."""
        latency = self._latency(job)
        wait = max(0, free - (leaves + latency))
        return wait + latency if self._printed else wait + self._run_time(job, u) + 2 * latency

    def _verdict(self, u: int, job: int, now: int) -> int:
        """Return the verdict on `u`: is it fast enough, with few enough arrivals meanwhile?"""
        node = self._nodes[u]
        if node.speed < self._min_speed:
            return SLOW
        if self._rule == "none":
            return FITS
        seconds, elapsed_time = self._latency(job) / 1e9, now / 1e9
        expected_jobs = 0.0
        if seconds > 0 and not math.isnan(node.rate):
            expected_jobs = node.rate * seconds
        elif seconds > 0 and node.own:
            expected_jobs = math.inf if elapsed_time == 0 else node.own / elapsed_time * seconds
        if self._rule == "at-least-one":
            probability = 1.0 - math.exp(-expected_jobs)
        else:
            probability = expected_jobs * math.exp(-expected_jobs) if expected_jobs < math.inf else 0.0
        if not probability < self._local:
            return OWN_JOBS
        if node.remote == 0 or self._remote == math.inf:
            return FITS if self._remote > 0 else OTHER_JOBS
        return FITS if node.remote * seconds < self._remote * elapsed_time else OTHER_JOBS

    def _walk(self, job: int) -> Iterator[tuple[int, bool]]:
        """Yield the node of each step, and whether it has not been asked before."""
        home, count = self._home[job], len(self._nodes)
        stream = _Stream(_splitmix((self._seed + (job + 1) * _GOLDEN) & _MASK))
        probed, u = {home}, home
        while self._neighbours is not None:
            u = int(self._neighbours[u, stream.draw_below(self._neighbours.shape[1])])
            yield u, u not in probed
            probed.add(u)
        while True:
            u = stream.draw_below(count - 1)
            u += u >= home
            if u not in probed:
                yield u, True
                probed.add(u)

    # -- what is logged, if it is ---------------------------------------------------------------------------

    def _log_row(self, **row: int) -> dict[str, int] | None:
        """Add a row to the log and return it; None if the log is full."""
        if len(self._log) == self._log_limit:
            self.unlogged += self._log_limit > 0
            return None
        self._log.append({**dict.fromkeys(LOOKS, -1), "count": 0, **row})
        return self._log[-1]

    def _log_truth(self, row: dict[str, int] | None, now: int) -> None:
        """Log the true values at the answer or the end of the search."""
        if row is not None:
            row["heard"], row["home_free"] = now, self._nodes[self._home[row["job"]]].free
            if row["node"] >= 0:
                row["true_free"] = self._nodes[row["node"]].free

    # -- what is sent ---------------------------------------------------------------------------------------

    def _send(self, kind: int, sender: int, node: int, job: int, now: int) -> None:
        record = np.array([(node, sender, job)], RECORD).view(np.uint8).reshape(1, -1)
        self._links.send(now, self._kinds[kind], record, self._data[job])

    def _count(self, kind: int, source: int, target: int, job: int, sent: int, delivered: int) -> None:
        """Count and log a packet of load, which does not wait at interfaces."""
        number, links = self._kinds[kind], self._links
        record = np.array([(target, source, job)], RECORD).view(np.uint8)
        links._log(number, record, sent, delivered, self._packet)
        links.sent[number] += 1
        links.delivered[number] += 1
        links.traffic[number] += self._packet
        links.by_level[:, number, 0] += 1, self._packet
        links.bytes_out[source] += self._packet
        links.bytes_in[target] += self._packet

    # -- first come, first served ---------------------------------------------------------------------------

    def _queue(self, job: int, u: int, now: int) -> None:
        node, jobs = self._nodes[u], self._jobs
        start = max(now, node.free)
        end = start + self._run_time(job, u)
        if end > LATEST:
            raise OverflowError(f"node {u} would be busy until after {LATEST} ns")
        jobs["machine"][job], jobs["arrived"][job], jobs["start"][job], jobs["end"][job] = u, now, start, end
        node.free = end
        node.busy += end - start
        node.done += 1
        node.starts = [instant for instant in [*node.starts, start] if instant > now]
        node.peak = max(node.peak, len(node.starts))
        if u == self._home[job] and not self._queued:
            jobs["returned"][job] = end
        else:
            self._ending.append((end, job))

    # -- reports --------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Do nothing: the counters of the links are always up to date here."""

    def jobs(self) -> dict[str, NDArray[Any]]:
        """See `gridcore.random_walk.walk.JobWalks.jobs`."""
        return dict(self._jobs)

    def looks(self) -> dict[str, Integers]:
        """See `gridcore.random_walk.walk.JobWalks.looks`."""
        return {name: np.array([row[name] for row in self._log], np.int64) for name in LOOKS}

    def totals(self) -> dict[str, Integers]:
        """See `gridcore.random_walk.walk.JobWalks.totals`."""
        return {
            name: np.array([getattr(node, name) for node in self._nodes], np.int64) for name in NODE_COLUMNS
        }


_MASK, _GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15


def _splitmix(x: int) -> int:
    """Return SplitMix64 (Steele, Lea and Flood 2014) of a state."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


class _Stream:
    def __init__(self, state: int) -> None:
        self._state = state

    def draw_below(self, n: int) -> int:
        self._state = (self._state + _GOLDEN) & _MASK
        return (_splitmix(self._state) >> 32) * n >> 32
