"""Results as traces for https://ui.perfetto.dev and chrome://tracing.

The format is the Trace Event Format of Chrome, JSON: complete events (X), async ones (b, e), instants (i),
flows (s, f), counters (C) and metadata (M), with times in us.  A flow begins and ends in a slice of its
thread, so machines have a further thread of thin slices, in which they send and receive.  Slices of a thread
must not overlap, so machines have a thread per core.
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
from gridsim.results.metrics.series import chosen_machines, core_lanes, machine_cores
from gridsim.results.result import Result
from gridsim.results.table import Table
from gridsim.support.arrays import Integers
from gridsim.support.files import StrPath, atomic_file

#: Machines per process of the trace; viewers fold the tracks of a process.
BLOCK = 100
#: Process id of applications and counters; those of machines follow.
_GRID_PID = 1
#: Thread id of the first core of machine 0.  The ids of the other cores follow, then that of the messages of
#: machine 0, and the other machines.  Thread ids are larger than all process ids.
_FIRST_THREAD = 1_000_000
#: Maximum duration of a slice that sends or receives, ns.
_MAX_THIN_SLICE = 1_000_000
#: Reserved colours of chrome://tracing, for applications in turn; "terrible" is for interrupted tasks.
_COLOURS = (
    "thread_state_running", "rail_response", "thread_state_runnable", "rail_animation", "startup",
    "thread_state_iowait", "olive", "rail_idle", "vsync_highlight_color", "rail_load", "good", "yellow",
)  # fmt: skip


def to_perfetto(result: Result, path: StrPath, *, machines: slice | Sequence[int] | None = None) -> int:
    """Write a recorded result as a trace for https://ui.perfetto.dev or chrome://tracing.

    Cores of machines are threads, in processes of `BLOCK` machines.  Slices in them are rows of the table
    ``schedule`` and the outages of the machine.  Applications are async slices from release to finish.
    Counters show the numbers of applications in the system and of busy machines.  Flows are the delivered
    messages if the run recorded them (``message_log``; a long run has only the first ones, see
    `Result.left_out`).  Otherwise flows lead from the release of each application, at its submitter, to the
    pieces of it that ran.  Servers (`Result.servers`) that send or receive messages are threads of a further
    process.

    Parameters
    ----------
    path
        Path of the trace, which is gzipped if the path ends in ``.gz``.
    machines
        The machines in the trace, a slice or numbers; None for all.  Servers are always included.  Flows are
        those between two of these; applications and counters cover only tasks that ran on these machines.

    Returns
    -------
    int
        The number of events.

    Raises
    ------
    ScenarioError
        If the result has no recorded schedule, or a machine does not exist.
    OSError
        If the file cannot be written, or a failure trace cannot be read.
    """
    check_recorded(result, "to_perfetto")
    is_selected = np.zeros(len(result.machines), np.bool_)
    is_selected[chosen_machines(machines, len(result.machines))] = True
    trace = _Trace(result, is_selected)
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
        compressed = gzip.GzipFile("", "wb", compresslevel=3, fileobj=file, mtime=0) if zipped else None
        with compressed or nullcontext(file) as stream:
            stream.write(f'{{"displayTimeUnit":"ms","otherData":{head},"traceEvents":[\n'.encode())
            while batch := list(islice(events, 10_000)):
                stream.write((",\n" * (count > 0) + ",\n".join(batch)).encode())
                count += len(batch)
            stream.write(b"\n]}\n")
    return count


class _Trace:
    """The events of a result, as lines of JSON."""

    def __init__(self, result: Result, is_selected: NDArray[np.bool_]) -> None:
        self.result, self.is_selected = result, is_selected
        self.log = result.tables.get("message_log")
        schedule = result.tables["schedule"]
        rows = np.flatnonzero(is_selected[schedule["machine"]])
        self.pieces = Table({name: column[rows] for name, column in schedule.items()})
        self.lanes = core_lanes(result, dict(self.pieces.items()))
        # servers have threads for messages only
        self.cores: list[int] = [*machine_cores(result).tolist(), *([0] * result.servers)]
        threads = np.array(self.cores) + 1
        self.first_thread: list[int] = (np.cumsum(threads) - threads).tolist()
        self.start, self.end = _nanoseconds(self.pieces["start"]), _nanoseconds(self.pieces["end"])
        table = result.applications
        self.release, self.finish = _nanoseconds(table["release"]), _nanoseconds(table["finish"])
        self.has_run = np.ones(len(table), np.bool_)
        if not is_selected.all():
            self.has_run = np.bincount(self.pieces["application"], minlength=len(table)) > 0
        self.names = [_application_name(i) for i in range(len(table))]
        self.end_of_run = max(int(self.end.max(initial=0)), int(self.finish.max(initial=0)))
        self.outages = self._outage_times()

    def events(self) -> Iterator[str]:
        """Yield all events; a slice precedes the flows that begin or end in it."""
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
        yield from _process(_GRID_PID, "applications", 0)
        machines = np.flatnonzero(self.is_selected)
        for block in np.unique(machines // BLOCK).tolist():
            last = min(len(self.is_selected), (block + 1) * BLOCK) - 1
            yield from _process(_GRID_PID + 1 + block, f"machines {block * BLOCK}-{last}", block + 1)
        for u in machines.tolist():
            for core in range(self.cores[u]):
                name = f"machine {u}" + (f", core {core}" if self.cores[u] > 1 else "")
                yield from self._thread(u, core, name)
            yield from self._thread(u, self.cores[u], f"machine {u}: messages")
        servers = self._servers()
        if servers:
            yield from _process(
                self._process_of(servers[0]), "servers", self._process_of(servers[0]) - _GRID_PID
            )
        for u in servers:
            yield from self._thread(u, self.cores[u], f"server {u - len(self.is_selected)}: messages")

    def _servers(self) -> list[int]:
        """Return the numbers of the servers in the log of messages, ascending."""
        if self.log is None:
            return []
        endpoints = np.concatenate((self.log["sender"], self.log["receiver"]))
        servers: list[int] = np.unique(endpoints[endpoints >= len(self.is_selected)]).tolist()
        return servers

    def _is_in_trace(self, machine: Integers) -> NDArray[np.bool_]:
        """Return a mask of the machines that are in the trace; servers always are."""
        server = machine >= len(self.is_selected)
        mask: NDArray[np.bool_] = server | self.is_selected[np.where(server, 0, machine)]
        return mask

    def _process_of(self, u: int) -> int:
        """Return the process of a machine, or of the servers."""
        return (
            _GRID_PID + 1 + (u // BLOCK if u < len(self.is_selected) else -(-len(self.is_selected) // BLOCK))
        )

    def _place(self, u: int, thread: int = 0) -> str:
        return f'"pid":{self._process_of(u)},"tid":{_FIRST_THREAD + self.first_thread[u] + thread}'

    def _message_place(self, u: int) -> str:
        return self._place(u, self.cores[u])

    def _thread(self, u: int, thread: int, name: str) -> Iterator[str]:
        place, order = self._place(u, thread), self.first_thread[u] + thread
        yield f'{{"ph":"M","name":"thread_name",{place},"args":{{"name":"{name}"}}}}'
        yield f'{{"ph":"M","name":"thread_sort_index",{place},"args":{{"sort_index":{order}}}}}'

    # -- applications -------------------------------------------------------------------------------------

    def _applications(self) -> Iterator[str]:
        table, jobs = self.result.applications, self.result.jobs_of_log
        for i in np.flatnonzero(self.has_run).tolist():
            begin, end = self.release[i], max(self.release[i], self.finish[i])  # a rejected job has no finish
            # viewers show the slice in this process if its id is local to the process
            name, local_id = self.names[i], f'{{"local":{i}}}'
            head = f'"cat":"application","name":"{name}","id2":{local_id},"pid":{_GRID_PID},"tid":{_GRID_PID}'
            args = {
                "application": i,
                **({} if jobs is None else {"job": int(jobs[i])}),
                "tasks": int(table["tasks"][i]),
                "size": _finite(table["size"][i]),
                "submitter": int(table["submitter"][i]),
                "stretch": _finite(table["stretch"][i]),
                **({"rejected": True} if self.finish[i] < 0 else {}),
            }
            details = json.dumps(args, separators=(",", ":"))
            yield f'{{"ph":"b",{head},"ts":{_micros(begin)},"args":{details}}}'
            yield f'{{"ph":"e",{head},"ts":{_micros(end)}}}'

    def _counters(self) -> Iterator[str]:
        completed = self.has_run & (self.finish >= 0)
        for name, unit, begin, end in (
            ("applications in the system", "applications", self.release[completed], self.finish[completed]),
            ("machines busy", "machines", self.start, self.end),
        ):
            time, index = np.unique(np.concatenate((begin, end)), return_inverse=True)
            change = np.repeat((1, -1), len(begin))
            level = np.bincount(index.ravel(), change, len(time)).astype(np.int64)
            changes = np.flatnonzero(level)  # simultaneous begins and ends may leave the count unchanged
            for instant, value in zip(
                time[changes].tolist(), np.cumsum(level)[changes].tolist(), strict=True
            ):
                yield (
                    f'{{"ph":"C","name":"{name}","pid":{_GRID_PID},"tid":{_GRID_PID},"ts":{_micros(instant)},'
                    f'"args":{{"{unit}":{value}}}}}'
                )

    # -- machines -----------------------------------------------------------------------------------------

    def _outage_times(self) -> dict[int, tuple[Integers, Integers]]:
        """Return machine -> times of its failures and recoveries until the end of the run, ns."""
        faults = self.result.scenario.faults
        if faults is None:
            return {}
        self.result.check_faults()
        outages = {}
        machines = len(self.is_selected)
        for u, down, up in faults.outages(machines, self.end_of_run / 1e9):
            if self.is_selected[u]:
                begins = _nanoseconds(down)
                ends = _nanoseconds(np.minimum(up, self.end_of_run / 1e9))
                in_run = begins < self.end_of_run
                outages[u] = begins[in_run], np.maximum(begins, ends)[in_run]
        return outages

    def _outages(self) -> Iterator[str]:
        for u, (begins, ends) in self.outages.items():
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
                place = f'"cat":"failure",{self._place(u)},"ts":{_micros(begin)}'
                if end > begin:
                    yield f'{{"ph":"X","name":"down",{place},"dur":{_micros(end - begin)},"cname":"grey"}}'
                else:
                    yield f'{{"ph":"i","s":"t","name":"reset",{place}}}'

    def _pieces(self) -> Iterator[str]:
        pieces, table = self.pieces, self.result.applications
        tails = [
            f'"task size (Mflop)":{json.dumps(_finite(size))},"stretch":{json.dumps(_finite(stretch))}'
            for size, stretch in zip(table["task_size"].tolist(), table["stretch"].tolist(), strict=True)
        ]
        task_numbers = pieces["task"].tolist() if "task" in pieces else None
        names = "machine", "application", "tasks", "completed"
        columns = [*(pieces[name] for name in names), self.start, self.end]
        rows, first, count = self.lanes
        threads = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
        rows = np.repeat(rows, count)
        values = (column[rows].tolist() for column in columns)
        for k, core, u, i, tasks, completed, start, end in zip(
            rows.tolist(), threads.tolist(), *values, strict=True
        ):
            colour = _COLOURS[i % len(_COLOURS)]
            details = "" if task_numbers is None else f',"task":{task_numbers[k]}'
            if not completed:
                colour, details = "terrible", f'{details},"cut off":"{self._cause(u, end)}"'
            yield (
                f'{{"ph":"X","cat":"tasks","name":"{self.names[i]}",{self._place(u, core)},'
                f'"ts":{_micros(start)},"dur":{_micros(end - start)},"cname":"{colour}",'
                f'"args":{{"application":{i},"tasks":{tasks},"completed":{completed},{tails[i]}{details}}}}}'
            )

    def _cause(self, u: int, end: int) -> str:
        begins = self.outages[u][0] if u in self.outages else ()
        if end in begins:
            return "the machine failed"
        return "another machine of it failed" if self.result.rigid else "another copy was faster"

    # -- flows --------------------------------------------------------------------------------------------

    def _messages(self, log: Table) -> Iterator[str]:
        """Yield a slice per machine and instant at which it sends or receives, and the flows of messages."""
        kinds, kind = np.unique(log["kind"], return_inverse=True)
        names = [json.dumps(name) for name in kinds.tolist()]
        sender, receiver, kind = log["sender"], log["receiver"], kind.ravel()
        sent, delivered = _nanoseconds(log["sent"]), _nanoseconds(log["delivered"])
        is_sent, is_received = self._is_in_trace(sender), self._is_in_trace(receiver) & (delivered >= 0)
        yield from self._thin_slices(
            np.concatenate((sender[is_sent], receiver[is_received])),
            np.concatenate((sent[is_sent], delivered[is_received])),
            np.concatenate((kind[is_sent], kind[is_received])),
            np.repeat((0, 1), (is_sent.sum(), is_received.sum())),
            names,
        )
        shown_rows = np.flatnonzero(is_sent & is_received)
        columns = (column[shown_rows].tolist() for column in (sender, receiver, sent, delivered, kind))
        for number, u, v, begin, end, kind_index in zip(shown_rows.tolist(), *columns, strict=True):
            head = f'"cat":"message","name":{names[kind_index]},"id":{number}'
            yield f'{{"ph":"s",{head},{self._message_place(u)},"ts":{_micros(begin)}}}'
            yield f'{{"ph":"f","bp":"e",{head},{self._message_place(v)},"ts":{_micros(end)}}}'

    def _releases(self) -> Iterator[str]:
        """Yield slices at the place and time of each release, and flows from them to the pieces that ran."""
        submitter, application = self.result.applications["submitter"], self.pieces["application"]
        has_release = self.has_run & (submitter >= 0)
        has_release[has_release] = self.is_selected[submitter[has_release]]
        applications = np.flatnonzero(has_release)
        names = ['"release"']
        yield from self._thin_slices(
            submitter[applications],
            self.release[applications],
            np.zeros(len(applications), np.int64),
            np.zeros(len(applications)),
            names,
        )
        parts, first, _ = self.lanes
        cores = first[np.unique(parts, return_index=True)[1]]
        rows = np.flatnonzero(has_release[application])
        columns = (
            column[rows].tolist() for column in (application, self.pieces["machine"], self.start, cores)
        )
        for number, i, u, start, core in zip(rows.tolist(), *columns, strict=True):
            head = f'"cat":"release","name":"release","id":{number}'
            begin = _micros(int(self.release[i]))
            yield f'{{"ph":"s",{head},{self._message_place(int(submitter[i]))},"ts":{begin}}}'
            yield f'{{"ph":"f","bp":"e",{head},{self._place(u, core)},"ts":{_micros(start)}}}'

    def _thin_slices(
        self, machine: Integers, time: Integers, kind: Integers, received: NDArray[Any], names: list[str]
    ) -> Iterator[str]:
        """Yield a slice per machine and instant, which ends before the next slice of the machine."""
        if not len(machine):
            return
        order = np.lexsort((time, machine))
        u, instant, kinds, arrivals = (column[order] for column in (machine, time, kind, received))
        first = np.flatnonzero(np.append(True, (np.diff(u) != 0) | (np.diff(instant) != 0)))
        count = np.diff(np.append(first, len(u)))
        received_count = np.add.reduceat(arrivals, first).astype(np.int64)
        is_single_kind = np.minimum.reduceat(kinds, first) == np.maximum.reduceat(kinds, first)
        u, instant, kinds = u[first], instant[first], kinds[first]
        gap = np.append(np.where(np.diff(u) == 0, np.diff(instant), _MAX_THIN_SLICE), _MAX_THIN_SLICE)
        columns = (
            u,
            instant,
            np.minimum(gap, _MAX_THIN_SLICE),
            np.where(is_single_kind, kinds, -1),
            count - received_count,
            received_count,
        )
        for v, begin, duration, kind_index, sent, arrived in zip(*(c.tolist() for c in columns), strict=True):
            name = names[kind_index] if kind_index >= 0 else '"messages"'
            yield (
                f'{{"ph":"X","cat":"message","name":{name},{self._message_place(v)},"ts":{_micros(begin)},'
                f'"dur":{_micros(duration)},"args":{{"sent":{sent},"received":{arrived}}}}}'
            )


def _nanoseconds(seconds: NDArray[np.float64]) -> Integers:
    """Return times in ns as int64, with -1 for NaN."""
    result: Integers = np.rint(np.where(np.isnan(seconds), -1e-9, seconds) * 1e9).astype(np.int64)
    return result


def _micros(ns: int) -> str:
    quotient, remainder = divmod(int(ns), 1000)
    return f"{quotient}.{remainder:03d}" if remainder else f"{quotient}"


def _application_name(i: int) -> str:
    """Return the name of an application: its number and a letter.

    Some viewers ignore digits when they choose a colour by the name; the letter gives different colours.
    """
    return f"application {i} {chr(ord('a') + i % 26)}"


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _process(pid: int, name: str, order: int) -> Iterator[str]:
    yield f'{{"ph":"M","name":"process_name","pid":{pid},"args":{{"name":"{name}"}}}}'
    yield f'{{"ph":"M","name":"process_sort_index","pid":{pid},"args":{{"sort_index":{order}}}}}'
