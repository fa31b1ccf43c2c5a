"""The data of the compiled protocol of DGS_ASAP: settings, tables of jobs and nodes, and negotiations under way.

This module constructs them, stores them in a checkpoint and restores them; `gridcore.dgs.protocol` changes them.
"""

from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from gridcore.common.arguments cimport _Guard, guard, indices, plain
from gridcore.common.instants cimport LATEST
from gridcore.common.memory cimport reallocate
from gridcore.common.pending cimport pending_clear, pending_free, pending_push, pending_read
from gridcore.dgs.decision_log cimport Decision, decisions_free
from gridcore.dgs.outbox cimport Row, delayed_add, delayed_clear, delayed_free
from gridcore.dgs.overlay cimport Views
from gridcore.dgs.slots cimport SlotSchedules
from gridcore.network.links cimport Links

import numpy as np

from gridcore.common.state import ANY, INSTANT, ArrayEntry, NumberEntry, TableEntry, read, read_only
from gridcore.dgs.state import DECISION, check_ending, check_search_records, check_negotiations

__all__ = ["ANSWER", "BROKEN", "CANCEL", "CANCELLED", "COMMIT", "COMMITTING", "DISPLACED", "DONE", "FAILED", "NEW",
           "Negotiations", "PLACED", "REPLY", "REQUEST", "SEARCHING", "WAITING"]


_HEAD = [("node", "i8"), ("sender", "i8"), ("application", "i8")]
#: Record types of messages, in order of priority.  Each begins with receiver, sender and job.
CANCEL = np.dtype([*_HEAD, ("attempt", "i8"), ("start", "i8")])
REQUEST = np.dtype([*_HEAD, ("search", "i8")])
ANSWER = np.dtype([*_HEAD, ("search", "i8"), ("start", "i8")])
COMMIT = np.dtype([*_HEAD, ("attempt", "i8"), ("start", "i8")])
REPLY = np.dtype([*_HEAD, ("attempt", "i8"), ("start", "i8"), ("taken", "i8")])
DISPLACED = np.dtype([*_HEAD, ("attempt", "i8")])
_RECORDS = CANCEL, REQUEST, ANSWER, COMMIT, REPLY, DISPLACED
# Exchanges of schedules are counted by kind: pushed, pulled, polled, opened and shuffled.
cdef Py_ssize_t _EXCHANGE_KINDS = 5

_NODES_OF = ArrayEntry(np.int64, limits=(0, "nodes"))
_STATE = {
    "talks": TableEntry({
        "job": (0, "jobs"), "start": (-1, "slots"), "asked": (0, "up_to_forward"), "missing": ANY, "answers": ANY,
        "found": ANY, "taken": ANY, "current": ANY, "hope": ANY, "pooled": ANY, "hit": ANY, "due": ANY,
        "tardy": (-1, "slots"),
    }),
    "answers": ArrayEntry(np.int64, (None, 2), (-1, "slots")),
    "found": ArrayEntry(np.int64, (None, 2), (0, "places")), "taken": _NODES_OF, "pool": _NODES_OF,
    "looked": TableEntry({"time": (-1, LATEST + 1), "slot": (0, "slots"), "count": (0, "up_to_nodes")}),
    "candidates": TableEntry({"node": (0, "nodes"), "as_of": (-1, None)}), "left": NumberEntry(),
    "thinking": ArrayEntry(np.int64, limits=INSTANT),
    "thoughts": TableEntry({"node": (0, "nodes"), "searcher": (0, "nodes"), "job": (0, "jobs"), "search": (-1, LATEST + 1),
                      "start": (-1, "slots")}, "thinking"),
    "ending": TableEntry({"at": INSTANT, "job": (0, "jobs")}), "overdue": TableEntry({"at": INSTANT, "job": (0, "may_be_overdue")}),
    "completed": NumberEntry(0, "up_to_jobs"), "given_up": NumberEntry(0, "up_to_jobs"), "reported_end": NumberEntry(-1),
    "extended": NumberEntry(), "displaced": NumberEntry(),
}
_JOBS = ("phase", "tasks", "length", "lasts", "submitter", "attempt", "searches", "in_vain", "conflicts", "late",
         "reached", "resubmitted", "first_start", "end", "done", "group", "earliest", "latest", "held")
_NODES = ("received", "changes", "busy", "tasks", "first", "up", "away")
_NUMBERS = ("slot", "one_way", "latency", "at_least", "opening", "period", "width", "forward", "hops", "rounds",
            "tries", "patience", "detection", "log")
_FLAGS = ("wide", "others", "keep", "push", "pull", "poll", "stale", "record", "faults")
# The largest value of a setting; sums of settings up to it do not overflow.
cdef long long _LONGEST = 10**17


cdef int _check_keys(str name, dict values, tuple keys) except -1:
    for key in keys:
        if key not in values:
            raise ValueError(f"{name} must have an entry {key!r}")
    return 0


cdef str _array_type(values):
    return f"{values.dtype}{list(values.shape)}" if isinstance(values, np.ndarray) else type(values).__name__


cdef class Negotiations:
    """The negotiations about the jobs of a run; base class of `gridcore.dgs.protocol.DgsProtocol`."""

    def __cinit__(self, SlotSchedules schedules, Views views, Links links, *, kinds: list[tuple[int, int]], dict jobs,
                  dict nodes, counts: Integers, dict settings, suitable: Bools | None = None,
                  on_decisions: Callable[[NDArray[Any], int], None] | None = None):
        cdef Py_ssize_t k
        for name, argument in (("schedules", schedules), ("views", views), ("links", links), ("jobs", jobs),
                               ("nodes", nodes), ("settings", settings)):
            if argument is None:
                raise TypeError(f"{name} must not be None")
        _check_keys("jobs", jobs, _JOBS)
        _check_keys("settings", settings, (*_NUMBERS, *_FLAGS, "seed"))
        self.schedules, self.views, self.links = schedules, views, links
        self.nodes = schedules.nodes
        self.jobs = len(jobs["tasks"])
        if links.machine_of.shape[0] != self.nodes:
            raise ValueError(f"links must have {self.nodes} nodes, got {links.machine_of.shape[0]}")
        if views.nodes != self.nodes:
            raise ValueError(f"views must have {self.nodes} nodes, got {views.nodes}")
        if len(kinds) != KINDS:
            raise ValueError(f"kinds must be {KINDS} pairs, got {len(kinds)}")
        self.number[DISPLACED_KIND] = -1
        for k, (number, nbytes) in enumerate(kinds):
            if number == -1 and k == DISPLACED_KIND:
                continue
            if not 0 <= number < links.kinds or links.deferred[number] or links.width[number] != _RECORDS[k].itemsize:
                raise ValueError(f"kinds[{k}] must be a kind of {_RECORDS[k].itemsize} bytes that is not deferred, "
                                 f"got {number}")
            self.number[k], self.nbytes[k], self.span[k] = number, nbytes, links._transmission_time(nbytes)
            self.fields[k] = _RECORDS[k].itemsize // 8
            links.inner[number] = True
        for name in _NUMBERS:
            low = 1 if name in ("slot", "hops", "rounds") or (name == "period" and settings["poll"]) else 0
            if not low <= settings[name] <= _LONGEST:
                raise ValueError(f"settings[{name!r}] must be in {low}..{_LONGEST}, got {settings[name]!r}")
        self.slot, self.one_way, self.latency = settings["slot"], settings["one_way"], settings["latency"]
        self.at_least, self.opening, self.period = settings["at_least"], settings["opening"], settings["period"]
        self.width, self.seed, self.forward = settings["width"], settings["seed"], settings["forward"]
        self.hops, self.rounds, self.tries = settings["hops"], settings["rounds"], settings["tries"]
        self.wide, self.exclude_home, self.keep_slots = settings["wide"], settings["others"], settings["keep"]
        self.push, self.pull = settings["push"], settings["pull"]
        self.poll, self.stale, self.record = settings["poll"], settings["stale"], settings["record"]
        self.faults, self.patience = settings["faults"], settings["patience"]
        self.detection, self.log.left = settings["detection"], settings["log"]
        self.logs_decisions, self.on_decisions = on_decisions is not None, on_decisions
        self.reported_end = -1
        self.suitable = None
        if suitable is not None:
            suitable = plain(suitable)
            if not (isinstance(suitable, np.ndarray) and suitable.dtype == np.bool_ and suitable.ndim == 2
                    and suitable.shape[0] and suitable.shape[1] == self.nodes):
                raise ValueError(f"suitable must be bool[groups, {self.nodes}], got {_array_type(suitable)}")
            self.suitable = np.array(suitable, order="C").view(np.uint8)
        self.bind(jobs, nodes, counts)
        self.negotiation = <Negotiation**> calloc(self.jobs + 1, sizeof(Negotiation*))
        self.selection = <long long*> reallocate(NULL, (self.nodes + 1) * sizeof(long long))
        if self.negotiation == NULL:
            raise MemoryError
        self._waiting, self._rejections, self._cancellations, self._displacements = [], [], [], []

    def bind(self, dict jobs, dict nodes, counts: Integers):
        """Use these arrays, which are shared with the policy, from now on."""
        cdef _Guard access = self._guard()
        def column(values, name, n, dtype=np.int64):
            values = plain(values)
            if not (isinstance(values, np.ndarray) and values.dtype == dtype and values.shape == (n,)):
                raise ValueError(f"{name} must be {np.dtype(dtype)}[{n}], got {_array_type(values)}")
            return values
        _check_keys("jobs", jobs, _JOBS)
        _check_keys("nodes", nodes, _NODES)
        per_job = {name: column(values, name, self.jobs, np.int8 if name == "phase" else np.int64)
              for name, values in jobs.items()}
        per_node = {name: column(values, name, self.nodes, np.bool_ if name in ("up", "away") else np.int64)
              for name, values in nodes.items()}
        counts = column(counts, "counts", _EXCHANGE_KINDS)
        indices(per_job["tasks"], "tasks", 1, 2**31)
        indices(per_job["length"], "length", 1, LATEST // self.slot + 1)
        indices(per_job["lasts"], "lasts", 0, LATEST + 1)
        indices(per_job["earliest"], "earliest", 0, LATEST // self.slot + 1)
        if self.negotiation != NULL:
            # negotiations and runs in progress depend on these arrays
            for name, bound in (("tasks", self.tasks), ("length", self.length), ("lasts", self.run_time),
                              ("submitter", self.submitter), ("group", self.group), ("earliest", self.earliest),
                              ("latest", self.latest)):
                if not np.array_equal(per_job[name], bound):
                    raise ValueError(f"jobs[{name!r}] must equal the array of the first bind: negotiations depend on it")
        submitter = indices(per_job["submitter"], "submitter", 0, self.nodes)
        indices(per_job["group"], "group", 0, 1 if self.suitable is None else self.suitable.shape[0])
        self.phase = per_job["phase"]
        self.tasks, self.length, self.run_time = per_job["tasks"].copy(), per_job["length"].copy(), per_job["lasts"].copy()
        self.submitter = submitter
        self.attempt, self.searches, self.failed_searches = per_job["attempt"], per_job["searches"], per_job["in_vain"]
        self.conflicts, self.late_answers, self.most_candidates = per_job["conflicts"], per_job["late"], per_job["reached"]
        self.resubmitted, self.first_start = per_job["resubmitted"], per_job["first_start"]
        self.end, self.done, self.group = per_job["end"], per_job["done"], per_job["group"].copy()
        self.earliest, self.latest, self.reserved_slots = per_job["earliest"].copy(), per_job["latest"].copy(), per_job["held"]
        self.received, self.changes, self.busy_time, self.tasks_done = per_node["received"], per_node["changes"], per_node["busy"], per_node["tasks"]
        self.first_poll, self.up = per_node["first"], per_node["up"].view(np.uint8)
        self.known_down = per_node["away"].view(np.uint8) if self.faults else None
        self.counts = counts

    def __dealloc__(self):
        cdef Py_ssize_t k
        if self.negotiation != NULL:
            for k in range(self.jobs):
                negotiation_drop(&self.negotiation[k])
        free(self.negotiation)
        for k in range(KINDS):
            free(self.out[k].row)
        free(self.row)
        free(self.spare)
        free(self.selection)
        free(self.observations)
        decisions_free(&self.log)
        delayed_free(&self.delayed_answers)
        pending_free(&self.run_ends)
        pending_free(&self.wait_ends)
        pending_free(&self.reservation_ends)

    cdef _Guard _guard(self):
        return guard(&self.in_call, guard(&self.schedules.in_call, guard(&self.views.in_call, guard(&self.links.in_call))))

    cdef int _room_for(self, Py_ssize_t n) except -1 nogil:
        if n > self.room:
            self.row = <Row*> reallocate(self.row, 2 * n * sizeof(Row))
            self.spare = <Row*> reallocate(self.spare, 2 * n * sizeof(Row))
            self.room = 2 * n
        return 0

    cdef int _check(self, Py_ssize_t job) except -1:
        if not 0 <= job < self.jobs:
            raise ValueError(f"job must be in 0..{self.jobs - 1}, got {job}")
        return 0

    cdef Py_ssize_t _home(self, Py_ssize_t job) noexcept nogil:
        """Return the scheduling node of a job, or the next node that is up in its place; -1 if none is up."""
        cdef Py_ssize_t k, node = self.submitter[job]
        for k in range(self.nodes if self.faults else 0):
            if self.up[node]:
                return node
            node = node + 1 if node + 1 < self.nodes else 0
        return -1 if self.faults else node

    cdef int _watch(self, Py_ssize_t job) except -1:
        """Schedule the end of the reservations of a job if it is placed and runs longer than they last."""
        cdef long long ends
        if self.phase[job] != PLACED or self.negotiation[job] == NULL:
            return 0
        ends = (self.negotiation[job].start + self.reserved_slots[job]) * self.slot
        if ends < self.negotiation[job].start * self.slot + self.run_time[job]:
            pending_push(&self.reservation_ends, ends, job, <int> job)
        return 0

    cdef long long _slot_at(self, long long time) noexcept nogil:
        return (time + self.slot - 1) // self.slot

    # -- results for the policy ----------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether all jobs are done, rejected or cancelled."""
        return self.completed + self.rejected == self.jobs

    @property
    def last_reported_end(self) -> int:
        """The last instant (ns) that `advance` returned for the end of a job or of a wait."""
        return self.reported_end

    def read_outcomes(self) -> tuple[list[int], list[tuple[int, str]]]:
        """Return (jobs that must wait, [(rejected job, reason), ...]) since the last call.

        The reason is "too_large", "too_late" (for the deadline), or "" if all searches for the job failed.
        """
        cdef _Guard access = self._guard()
        result = self._waiting, self._rejections
        self._waiting, self._rejections = [], []
        return result

    def cancellations(self) -> list[tuple[int, int, int, int]]:
        """Return the cancellations since the last call that may have stopped a run: [(job, node, attempt, ns), ...].

        They are in order, and concern jobs that lost a machine or were cancelled by their users.
        """
        cdef _Guard access = self._guard()
        result, self._cancellations = self._cancellations, []
        return result

    def displacements(self) -> list[tuple[int, int]]:
        """Return the displaced placements since the last call: [(job, attempt), ...], in order.

        For each, a message to the scheduling node is under way, and may be lost.  Empty without failures.
        """
        cdef _Guard access = self._guard()
        result, self._displacements = self._displacements, []
        return result

    cdef int _check_placed(self, Py_ssize_t job) except -1:
        if not 0 <= job < self.jobs or self.negotiation[job] == NULL or self.phase[job] not in (PLACED, BROKEN, DONE):
            raise ValueError(f"job must be a placed job, got {job}")
        return 0

    def start_of(self, Py_ssize_t job) -> int:
        """Return the slot in which a placed job starts or has started."""
        cdef _Guard access = self._guard()
        self._check_placed(job)
        return self.negotiation[job].start

    def machines_of(self, Py_ssize_t job) -> Integers:
        """Return int64[tasks]: the machines on which a placed job runs or has run."""
        cdef _Guard access = self._guard()
        self._check_placed(job)
        return np.array([self.negotiation[job].pool[k] for k in range(self.negotiation[job].n_nodes)], np.int64)

    def hand_over(self):
        """Pass the decisions in the log to `on_decisions`."""
        cdef _Guard access = self._guard()
        self._hand_over()

    cdef int _hand_over(self) except -1:
        cdef Decision[:] rows
        cdef Py_ssize_t n = self.log.n
        cdef long long lost = self.log.lost
        if not n and not lost:
            return 0
        decisions = np.empty(n, DECISION)
        if n:
            rows = decisions
            memcpy(&rows[0], self.log.row, n * sizeof(Decision))
        self.log.n = self.log.lost = 0
        self.on_decisions(decisions, lost)
        return 0

    # -- checkpoints ----------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the negotiations, searches and runs under way; see `gridcore.common.state`.

        Raises RuntimeError if `read_outcomes`, `cancellations`, `displacements` or `flush` has anything left to do.
        """
        cdef _Guard access = self._guard()
        cdef Py_ssize_t job, k
        cdef TableRows rows
        cdef const Row* row
        self._hand_over()
        for k in range(KINDS):
            if self.out[k].n or self._waiting or self._rejections or self._cancellations or self._displacements:
                raise RuntimeError(
                    "getstate requires earlier calls of read_outcomes, cancellations, displacements and flush")
        memset(&rows, 0, sizeof(rows))
        for job in range(self.jobs):
            if self.negotiation[job] != NULL:
                negotiation_count(self.negotiation[job], &rows)
        cdef long long[:, ::1] negotiations = np.empty((rows.negotiations, 13), np.int64)
        cdef long long[:, ::1] answers = np.empty((rows.answers, 2), np.int64)
        cdef long long[:, ::1] results = np.empty((rows.results, 2), np.int64)
        cdef long long[::1] reserved = np.empty(rows.reserved, np.int64), pool = np.empty(rows.pool, np.int64)
        cdef long long[:, ::1] search_records = np.empty((rows.results if self.logs_decisions else 0, 3), np.int64)
        cdef long long[:, ::1] candidates = np.empty((rows.candidates, 2), np.int64)
        memset(&rows, 0, sizeof(rows))
        for job in range(self.jobs):
            if self.negotiation[job] != NULL:
                negotiation_copy(self.negotiation[job], job, negotiations, answers, results, reserved, pool, search_records,
                                 candidates, &rows)
        # columns: time, number and slot
        delayed = np.empty((self.delayed_answers.due.n + self.delayed_answers.due.n_ring, 3), np.int64)
        ending = np.empty((self.run_ends.n + self.run_ends.n_ring, 3), np.int64)
        pending_read(&self.delayed_answers.due, delayed)
        overdue = np.empty((self.wait_ends.n + self.wait_ends.n_ring, 3), np.int64)
        pending_read(&self.run_ends, ending)
        pending_read(&self.wait_ends, overdue)
        delayed = delayed[[self.delayed_answers.row[k].node >= 0 for k in delayed[:, 2].tolist()]]
        delayed = delayed[np.argsort(delayed[:, 1])]
        answer_rows = []
        for k in delayed[:, 2].tolist():
            row = &self.delayed_answers.row[k]
            answer_rows.append((row.node, row.sender, row.job, row.a, row.b))
        return read_only({
            "talks": np.asarray(negotiations), "answers": np.asarray(answers), "found": np.asarray(results),
            "taken": np.asarray(reserved), "pool": np.asarray(pool), "looked": np.asarray(search_records),
            "candidates": np.asarray(candidates), "thinking": delayed[:, 0].copy(),
            "thoughts": np.array(answer_rows, np.int64).reshape(-1, 5),
            "ending": ending[np.lexsort((ending[:, 1], ending[:, 0]))][:, :2].copy(),
            "overdue": overdue[np.lexsort((overdue[:, 1], overdue[:, 0]))][:, :2].copy(),
            "completed": self.completed, "given_up": self.rejected, "reported_end": self.reported_end,
            "left": self.log.left, "extended": self.extended, "displaced": self.displaced,
        })

    def setstate(self, state):
        """Continue from a state that `getstate` returned.

        Before, restore the arrays of the policy (`bind`) and the other kernels.  Raises ValueError if the state is
        invalid.
        """
        cdef _Guard access = self._guard()
        cdef Py_ssize_t job, k
        cdef TableRows rows
        cdef Row answer
        cdef long long latest = LATEST // self.slot
        phase = np.asarray(self.phase)
        entries = read(state, _STATE, nodes=self.nodes, jobs=self.jobs, slots=latest + 1, up_to_jobs=self.jobs + 1,
                       up_to_nodes=self.nodes + 1, up_to_forward=self.forward + 1,
                       places=max(self.nodes, self.forward + 1), may_be_overdue=self.jobs if self.faults else 0)
        has_lost_runs = self.faults or self.number[DISPLACED_KIND] >= 0 or (phase == CANCELLED).any()
        check_ending(entries["ending"], phase == PLACED, has_lost_runs)
        has_record = (np.asarray(self.resubmitted) > 0) | self.record
        placed = (phase == PLACED) | (phase == BROKEN) | ((phase == DONE) & has_record)
        check_negotiations(entries, phase == SEARCHING, phase == COMMITTING, placed, np.asarray(self.tasks))
        check_search_records(entries["looked"], entries["candidates"],
                             len(entries["found"]) if self.logs_decisions else 0)
        cdef const long long[:, ::1] search_records = entries["looked"], candidates = entries["candidates"]
        cdef const long long[:, ::1] negotiations = entries["talks"], answers = entries["answers"], results = entries["found"]
        cdef const long long[::1] reserved = entries["taken"], pool = entries["pool"], times = entries["thinking"]
        cdef const long long[:, ::1] answer_rows = entries["thoughts"], ending = entries["ending"], overdue = entries["overdue"]
        for job in range(self.jobs):
            negotiation_drop(&self.negotiation[job])
        memset(&rows, 0, sizeof(rows))
        for k in range(negotiations.shape[0]):
            job = negotiations[k, 0]
            negotiation_fill(&self.negotiation[job], self.tasks[job], negotiations, answers, results, reserved, pool,
                             search_records, candidates, self.logs_decisions, &rows)
        delayed_clear(&self.delayed_answers)
        for k in range(times.shape[0]):
            answer.node, answer.sender, answer.job = answer_rows[k, 0], answer_rows[k, 1], answer_rows[k, 2]
            answer.a, answer.b, answer.c = answer_rows[k, 3], answer_rows[k, 4], 0
            delayed_add(&self.delayed_answers, times[k], &answer)
        pending_clear(&self.run_ends)
        for k in range(ending.shape[0]):
            pending_push(&self.run_ends, ending[k, 0], ending[k, 1], <int> ending[k, 1])
        pending_clear(&self.wait_ends)
        for k in range(overdue.shape[0]):
            pending_push(&self.wait_ends, overdue[k, 0], overdue[k, 1], <int> overdue[k, 1])
        pending_clear(&self.reservation_ends)
        for job in range(self.jobs):
            self._watch(job)
        self.extended, self.displaced = entries["extended"], entries["displaced"]
        self.completed, self.rejected, self.reported_end = entries["completed"], entries["given_up"], entries["reported_end"]
        self.log.n, self.log.lost, self.log.left = 0, 0, entries["left"]
        self._waiting, self._rejections, self._cancellations, self._displacements = [], [], [], []
