"""Results as traces that https://ui.perfetto.dev and chrome://tracing show.

The format is the Trace Event Format of Chrome, JSON: complete events (X), async ones (b, e), instants (i),
flows (s, f), counters (C) and metadata (M), with times in us.  A flow begins and ends in a slice of its
thread, so machines have a second thread of thin slices, in which they send and receive.
"""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.results.formats.job_logs import check_recorded
from gridsim.results.metrics.series import chosen_machines
from gridsim.results.result import Result
from gridsim.results.table import Table
from gridsim.support.arrays import Integers
from gridsim.support.files import StrPath, atomic_file

#: Machines per process of the trace; viewers fold the tracks of a process.
BLOCK = 100
#: The process with the applications and counters; those with machines follow.
_GRID = 1
#: Thread of machine u is this + 2 u, and the next one that of its messages, so that no id is also a process.
_THREADS = 1_000_000
#: Longest slice in which something is sent or received (ns).
_THIN = 1_000_000
#: Reserved colours of chrome://tracing, for applications in turn; "terrible" is for what was cut off.
_COLOURS = (
    "thread_state_running", "rail_response", "thread_state_runnable", "rail_animation", "startup",
    "thread_state_iowait", "olive", "rail_idle", "vsync_highlight_color", "rail_load", "good", "yellow",
)  # fmt: skip


def to_perfetto(result: Result, path: StrPath, *, machines: slice | Sequence[int] | None = None) -> int:
    """Write a recorded result as a trace for https://ui.perfetto.dev or chrome://tracing.

    Machines are threads, in processes of `BLOCK`.  Rows of the table ``schedule`` are slices in them, and so
    are the times in which the machine was down by the scenario's faults.  Applications are async slices from
    release to finish.  Counters show how many applications there were and how many machines were busy.  Flows
    are the delivered messages if the run recorded them (``message_log``; a long run has only the first ones,
    see `Result.left_out`).  Otherwise flows lead from the release of each application, at its submitter, to
    the pieces of it that ran.  Servers (`Result.servers`) that send or receive messages are threads of a
    further process.

    Returns the number of events.  Raises ScenarioError for a result without a recorded schedule and for
    machines that do not exist, OSError if the file cannot be written, and what `Faults.course` raises if a
    failure trace is missing.

    Parameters
    ----------
    path
        The trace is gzipped if this ends in ``.gz``.
    machines
        The machines in the trace, a slice or numbers; None for all.  Servers are always in it.  Flows are
        those between two of these; applications and counters are those of what ran on the machines.
    """
    check_recorded(result, "to_perfetto")
    chosen = np.zeros(len(result.machines), np.bool_)
    chosen[chosen_machines(machines, len(result.machines))] = True
    trace = _Trace(result, chosen)
    head = json.dumps(
        {
            "scheduler": result.scheduler["name"],
            "digest": result.digest,
            "gridcore": result.provenance.get("gridcore"),
            "messages left out": result.left_out.get("message_log", 0),
        }
    )
    events = trace.events()
    count = 0
    with atomic_file(path) as file:
        zipped = os.fspath(path).endswith(".gz")
        packed = gzip.GzipFile("", "wb", compresslevel=3, fileobj=file, mtime=0) if zipped else None
        with packed or nullcontext(file) as stream:
            stream.write(f'{{"displayTimeUnit":"ms","otherData":{head},"traceEvents":[\n'.encode())
            while batch := list(islice(events, 10_000)):
                stream.write((",\n" * (count > 0) + ",\n".join(batch)).encode())
                count += len(batch)
            stream.write(b"\n]}\n")
    return count


class _Trace:
    """The events of a result, as lines of JSON."""

    def __init__(self, result: Result, chosen: NDArray[np.bool_]) -> None:
        self.result, self.chosen = result, chosen
        self.log = result.tables.get("message_log")
        schedule = result.tables["schedule"]
        rows = np.flatnonzero(chosen[schedule["machine"]])
        self.pieces = Table({name: column[rows] for name, column in schedule.items()})
        self.start, self.end = _ns(self.pieces["start"]), _ns(self.pieces["end"])
        table = result.applications
        self.release, self.finish = _ns(table["release"]), _ns(table["finish"])
        self.ran = np.ones(len(table), np.bool_)
        if not chosen.all():
            self.ran = np.bincount(self.pieces["application"], minlength=len(table)) > 0
        self.names = [_name(i) for i in range(len(table))]
        self.over = max(int(self.end.max(initial=0)), int(self.finish.max(initial=0)))
        self.downs = self._downs()

    def events(self) -> Iterator[str]:
        """Iterate over all events; a slice comes before the flows that begin or end in it."""
        yield from self._processes()
        yield from self._applications()
        yield from self._counters()
        yield from self._outages()
        yield from self._pieces()
        if self.log is not None and len(self.log):
            yield from self._messages(self.log)
        else:
            yield from self._releases()

    # -- tracks -------------------------------------------------------------------------------------------

    def _processes(self) -> Iterator[str]:
        yield from _process(_GRID, "applications", 0)
        machines = np.flatnonzero(self.chosen)
        for block in np.unique(machines // BLOCK).tolist():
            last = min(len(self.chosen), (block + 1) * BLOCK) - 1
            yield from _process(_GRID + 1 + block, f"machines {block * BLOCK}-{last}", block + 1)
        for u in machines.tolist():
            yield from self._thread(u, 0, f"machine {u}")
            yield from self._thread(u, 1, f"machine {u}: messages")
        servers = self._servers()
        if servers:
            yield from _process(self._process_of(servers[0]), "servers", self._process_of(servers[0]) - _GRID)
        for u in servers:
            yield from self._thread(u, 1, f"server {u - len(self.chosen)}: messages")

    def _servers(self) -> list[int]:
        """Return the numbers of the servers in the log of messages, ascending."""
        if self.log is None:
            return []
        ends = np.concatenate((self.log["sender"], self.log["receiver"]))
        servers: list[int] = np.unique(ends[ends >= len(self.chosen)]).tolist()
        return servers

    def _shown(self, machine: Integers) -> NDArray[np.bool_]:
        """Return whether each machine is in the trace; servers always are."""
        server = machine >= len(self.chosen)
        shown: NDArray[np.bool_] = server | self.chosen[np.where(server, 0, machine)]
        return shown

    def _process_of(self, u: int) -> int:
        """Return the process of a machine, or of the servers."""
        return _GRID + 1 + (u // BLOCK if u < len(self.chosen) else -(-len(self.chosen) // BLOCK))

    def _place(self, u: int, thread: int = 0) -> str:
        return f'"pid":{self._process_of(u)},"tid":{_THREADS + 2 * u + thread}'

    def _thread(self, u: int, thread: int, name: str) -> Iterator[str]:
        place, order = self._place(u, thread), 2 * u + thread
        yield f'{{"ph":"M","name":"thread_name",{place},"args":{{"name":"{name}"}}}}'
        yield f'{{"ph":"M","name":"thread_sort_index",{place},"args":{{"sort_index":{order}}}}}'

    # -- applications -------------------------------------------------------------------------------------

    def _applications(self) -> Iterator[str]:
        table, jobs = self.result.applications, self.result.jobs_of_log
        for i in np.flatnonzero(self.ran).tolist():
            begin, end = self.release[i], max(self.release[i], self.finish[i])  # rejected jobs end at once
            # an id local to the process, so that viewers show the slice there
            name, own = self.names[i], f'{{"local":{i}}}'
            head = f'"cat":"application","name":"{name}","id2":{own},"pid":{_GRID},"tid":{_GRID}'
            args = {
                "application": i,
                **({} if jobs is None else {"job": int(jobs[i])}),
                "tasks": int(table["tasks"][i]),
                "size": _finite(table["size"][i]),
                "submitter": int(table["submitter"][i]),
                "stretch": _finite(table["stretch"][i]),
                **({"rejected": True} if self.finish[i] < 0 else {}),
            }
            yield f'{{"ph":"b",{head},"ts":{_us(begin)},"args":{json.dumps(args, separators=(",", ":"))}}}'
            yield f'{{"ph":"e",{head},"ts":{_us(end)}}}'

    def _counters(self) -> Iterator[str]:
        there = self.ran & (self.finish >= 0)
        for name, unit, begin, end in (
            ("applications in the system", "applications", self.release[there], self.finish[there]),
            ("machines busy", "machines", self.start, self.end),
        ):
            time, which = np.unique(np.concatenate((begin, end)), return_inverse=True)
            change = np.repeat((1, -1), len(begin))
            level = np.bincount(which.ravel(), change, len(time)).astype(np.int64)
            told = np.flatnonzero(level)  # if one ends as another begins, the count stays
            for at, value in zip(time[told].tolist(), np.cumsum(level)[told].tolist(), strict=True):
                yield (
                    f'{{"ph":"C","name":"{name}","pid":{_GRID},"tid":{_GRID},"ts":{_us(at)},'
                    f'"args":{{"{unit}":{value}}}}}'
                )

    # -- machines -----------------------------------------------------------------------------------------

    def _downs(self) -> dict[int, tuple[Integers, Integers]]:
        """Return machine -> the times at which it fails and recovers, ns, cut at the end of the run."""
        faults = self.result.scenario.faults
        if faults is None:
            return {}
        self.result.check_faults()
        found = {}
        machines = len(self.chosen)
        for u, down, up in faults.outages(machines, self.over / 1e9):
            if self.chosen[u]:
                begins = _ns(down)
                ends = _ns(np.minimum(up, self.over / 1e9))
                seen = begins < self.over
                found[u] = begins[seen], np.maximum(begins, ends)[seen]
        return found

    def _outages(self) -> Iterator[str]:
        for u, (begins, ends) in self.downs.items():
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
                place = f'"cat":"failure",{self._place(u)},"ts":{_us(begin)}'
                if end > begin:
                    yield f'{{"ph":"X","name":"down",{place},"dur":{_us(end - begin)},"cname":"grey"}}'
                else:
                    yield f'{{"ph":"i","s":"t","name":"reset",{place}}}'

    def _pieces(self) -> Iterator[str]:
        pieces, table = self.pieces, self.result.applications
        tails = [
            f'"task size (Mflop)":{json.dumps(_finite(size))},"stretch":{json.dumps(_finite(stretch))}'
            for size, stretch in zip(table["task_size"].tolist(), table["stretch"].tolist(), strict=True)
        ]
        own = pieces["task"].tolist() if "task" in pieces else None
        columns = [pieces[name].tolist() for name in ("machine", "application", "tasks", "completed")]
        times = self.start.tolist(), self.end.tolist()
        for k, (u, i, tasks, completed, start, end) in enumerate(zip(*columns, *times, strict=True)):
            colour, more = _COLOURS[i % len(_COLOURS)], "" if own is None else f',"task":{own[k]}'
            if not completed:
                colour, more = "terrible", f'{more},"cut off":"{self._cause(u, end)}"'
            yield (
                f'{{"ph":"X","cat":"tasks","name":"{self.names[i]}",{self._place(u)},"ts":{_us(start)},'
                f'"dur":{_us(end - start)},"cname":"{colour}","args":{{"application":{i},"tasks":{tasks},'
                f'"completed":{completed},{tails[i]}{more}}}}}'
            )

    def _cause(self, u: int, end: int) -> str:
        begins = self.downs[u][0] if u in self.downs else ()
        if end in begins:
            return "the machine failed"
        return "another machine of it failed" if self.result.rigid else "another copy was faster"

    # -- flows --------------------------------------------------------------------------------------------

    def _messages(self, log: Table) -> Iterator[str]:
        """Iterate over slices, one per machine and instant at which it sends or receives, and their flows."""
        kinds, kind = np.unique(log["kind"], return_inverse=True)
        names = [json.dumps(each) for each in kinds.tolist()]
        sender, receiver, kind = log["sender"], log["receiver"], kind.ravel()
        sent, delivered = _ns(log["sent"]), _ns(log["delivered"])
        out, come = self._shown(sender), self._shown(receiver) & (delivered >= 0)
        yield from self._thin(
            np.concatenate((sender[out], receiver[come])),
            np.concatenate((sent[out], delivered[come])),
            np.concatenate((kind[out], kind[come])),
            np.repeat((0, 1), (out.sum(), come.sum())),
            names,
        )
        both = np.flatnonzero(out & come)
        columns = (column[both].tolist() for column in (sender, receiver, sent, delivered, kind))
        for number, u, v, begin, end, which in zip(both.tolist(), *columns, strict=True):
            head = f'"cat":"message","name":{names[which]},"id":{number}'
            yield f'{{"ph":"s",{head},{self._place(u, 1)},"ts":{_us(begin)}}}'
            yield f'{{"ph":"f","bp":"e",{head},{self._place(v, 1)},"ts":{_us(end)}}}'

    def _releases(self) -> Iterator[str]:
        """Iterate over flows from the place and time of each release to the pieces that ran, and slices."""
        home, application = self.result.applications["submitter"], self.pieces["application"]
        known = self.ran & (home >= 0)
        known[known] = self.chosen[home[known]]
        which = np.flatnonzero(known)
        names = ['"release"']
        yield from self._thin(
            home[which], self.release[which], np.zeros(len(which), np.int64), np.zeros(len(which)), names
        )
        rows = np.flatnonzero(known[application])
        columns = (column[rows].tolist() for column in (application, self.pieces["machine"], self.start))
        for number, i, u, start in zip(rows.tolist(), *columns, strict=True):
            head = f'"cat":"release","name":"release","id":{number}'
            yield f'{{"ph":"s",{head},{self._place(int(home[i]), 1)},"ts":{_us(int(self.release[i]))}}}'
            yield f'{{"ph":"f","bp":"e",{head},{self._place(u)},"ts":{_us(start)}}}'

    def _thin(
        self, machine: Integers, time: Integers, kind: Integers, received: NDArray[Any], names: list[str]
    ) -> Iterator[str]:
        """Iterate over slices, one per machine and instant; each ends before the machine's next one."""
        if not len(machine):
            return
        order = np.lexsort((time, machine))
        u, at, what, got = (column[order] for column in (machine, time, kind, received))
        first = np.flatnonzero(np.append(True, (np.diff(u) != 0) | (np.diff(at) != 0)))
        count = np.diff(np.append(first, len(u)))
        many = np.add.reduceat(got, first).astype(np.int64)
        one = np.minimum.reduceat(what, first) == np.maximum.reduceat(what, first)
        u, at, what = u[first], at[first], what[first]
        gap = np.append(np.where(np.diff(u) == 0, np.diff(at), _THIN), _THIN)
        columns = (u, at, np.minimum(gap, _THIN), np.where(one, what, -1), count - many, many)
        for v, begin, lasts, which, out, come in zip(*(c.tolist() for c in columns), strict=True):
            name = names[which] if which >= 0 else '"messages"'
            yield (
                f'{{"ph":"X","cat":"message","name":{name},{self._place(v, 1)},"ts":{_us(begin)},'
                f'"dur":{_us(lasts)},"args":{{"sent":{out},"received":{come}}}}}'
            )


def _ns(seconds: NDArray[np.float64]) -> Integers:
    """Return ns as int64, with -1 for NaN."""
    result: Integers = np.rint(np.where(np.isnan(seconds), -1e-9, seconds) * 1e9).astype(np.int64)
    return result


def _us(ns: int) -> str:
    whole, rest = divmod(int(ns), 1000)
    return f"{whole}.{rest:03d}" if rest else f"{whole}"


def _name(i: int) -> str:
    """Return the name of an application.

    It has a letter for viewers that choose colours by the name without its digits.
    """
    return f"application {i} {chr(ord('a') + i % 26)}"


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _process(pid: int, name: str, order: int) -> Iterator[str]:
    yield f'{{"ph":"M","name":"process_name","pid":{pid},"args":{{"name":"{name}"}}}}'
    yield f'{{"ph":"M","name":"process_sort_index","pid":{pid},"args":{{"sort_index":{order}}}}}'
