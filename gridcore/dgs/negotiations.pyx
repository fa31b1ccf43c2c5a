"""What the compiled protocol of DGS_ASAP knows: its settings, the tables of jobs and nodes, and what is under way.

`gridcore.dgs.protocol` says what becomes of it; here is how it is made, kept in a checkpoint, and read from one.
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
from gridcore.dgs.talks cimport Tables, Talk, talk_copy, talk_count, talk_drop, talk_fill
from gridcore.network.links cimport Links

import numpy as np

from gridcore.common.state import ANY, INSTANT, ArrayEntry, NumberEntry, TableEntry, read, read_only
from gridcore.dgs.state import DECISION, check_ending, check_looked, check_talks

__all__ = ["ANSWER", "BROKEN", "CANCEL", "CANCELLED", "COMMIT", "COMMITTING", "DISPLACED", "DONE", "FAILED", "NEW",
           "Negotiations", "PLACED", "REPLY", "REQUEST", "SEARCHING", "WAITING"]


_HEAD = [("node", "i8"), ("sender", "i8"), ("application", "i8")]
#: Record types of the messages, in the order of their priorities.  Each begins with receiver, sender and job.
CANCEL = np.dtype([*_HEAD, ("attempt", "i8"), ("start", "i8")])
REQUEST = np.dtype([*_HEAD, ("search", "i8")])
ANSWER = np.dtype([*_HEAD, ("search", "i8"), ("start", "i8")])
COMMIT = np.dtype([*_HEAD, ("attempt", "i8"), ("start", "i8")])
REPLY = np.dtype([*_HEAD, ("attempt", "i8"), ("start", "i8"), ("taken", "i8")])
DISPLACED = np.dtype([*_HEAD, ("attempt", "i8")])
_RECORDS = CANCEL, REQUEST, ANSWER, COMMIT, REPLY, DISPLACED
# The kinds of schedules that are counted: pushed, pulled, polled, opened and shuffled.
cdef Py_ssize_t _COUNTED = 5

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
# The largest value of a setting, so that sums of settings do not overflow.
cdef long long _LONGEST = 10**17


cdef int _check_names(str what, dict given, tuple names) except -1:
    for name in names:
        if name not in given:
            raise ValueError(f"{what} must have {name}")
    return 0


cdef class Negotiations:
    """The negotiations about the jobs of a run; `gridcore.dgs.protocol.DgsProtocol` starts and moves them."""

    def __cinit__(self, SlotSchedules schedules, Views views, Links links, *, kinds: list[tuple[int, int]], dict jobs,
                  dict nodes, counts: Integers, dict settings, suited: Bools | None = None,
                  decided: Callable[[NDArray[Any], int], None] | None = None):
        cdef Py_ssize_t k
        for name, given in (("schedules", schedules), ("views", views), ("links", links), ("jobs", jobs),
                            ("nodes", nodes), ("settings", settings)):
            if given is None:
                raise TypeError(f"{name} must be given, got None")
        _check_names("jobs", jobs, _JOBS)
        _check_names("settings", settings, (*_NUMBERS, *_FLAGS, "seed"))
        self.schedules, self.views, self.links = schedules, views, links
        self.nodes = schedules.nodes
        self.jobs = len(jobs["tasks"])
        if links.machine_of.shape[0] != self.nodes:
            raise ValueError(f"links must have {self.nodes} nodes, got {links.machine_of.shape[0]}")
        if views.nodes != self.nodes:
            raise ValueError(f"views must be of {self.nodes} nodes, got {views.nodes}")
        if len(kinds) != KINDS:
            raise ValueError(f"kinds must be {KINDS} pairs, got {len(kinds)}")
        self.number[DISPLACED_KIND] = -1
        for k, (number, nbytes) in enumerate(kinds):
            if number == -1 and k == DISPLACED_KIND:
                continue
            if not 0 <= number < links.kinds or links.deferred[number] or links.width[number] != _RECORDS[k].itemsize:
                raise ValueError(f"kinds[{k}] must be a kind of such messages, got {number}")
            self.number[k], self.nbytes[k], self.span[k] = number, nbytes, links._length(nbytes)
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
        self.wide, self.others, self.keep = settings["wide"], settings["others"], settings["keep"]
        self.push, self.pull = settings["push"], settings["pull"]
        self.poll, self.stale, self.record = settings["poll"], settings["stale"], settings["record"]
        self.faults, self.patience = settings["faults"], settings["patience"]
        self.detection, self.log.left = settings["detection"], settings["log"]
        self.recorded, self.decided = decided is not None, decided
        self.reported_end = -1
        self.suited = None
        if suited is not None:
            suited = plain(suited)
            if not (isinstance(suited, np.ndarray) and suited.dtype == np.bool_ and suited.ndim == 2
                    and suited.shape[0] and suited.shape[1] == self.nodes):
                raise ValueError(f"suited must be bool[groups, {self.nodes}]")
            self.suited = np.array(suited, order="C").view(np.uint8)
        self.bind(jobs, nodes, counts)
        self.talk = <Talk**> calloc(self.jobs + 1, sizeof(Talk*))
        self.chosen = <long long*> reallocate(NULL, (self.nodes + 1) * sizeof(long long))
        if self.talk == NULL:
            raise MemoryError
        self._waiting, self._given_up, self._stopped, self._moved = [], [], [], []

    def bind(self, dict jobs, dict nodes, counts: Integers):
        """Replace the arrays that are shared with the policy."""
        cdef _Guard alone = self._guard()
        def column(values, name, n, dtype=np.int64):
            values = plain(values)
            if not (isinstance(values, np.ndarray) and values.dtype == dtype and values.shape == (n,)):
                raise ValueError(f"{name} must be {np.dtype(dtype)}[{n}], shared with the policy")
            return values
        _check_names("jobs", jobs, _JOBS)
        _check_names("nodes", nodes, _NODES)
        of = {name: column(values, name, self.jobs, np.int8 if name == "phase" else np.int64)
              for name, values in jobs.items()}
        at = {name: column(values, name, self.nodes, np.bool_ if name in ("up", "away") else np.int64)
              for name, values in nodes.items()}
        counts = column(counts, "counts", _COUNTED)
        indices(of["tasks"], "tasks", 1, 2**31)
        indices(of["length"], "length", 1, LATEST // self.slot + 1)
        indices(of["lasts"], "lasts", 0, LATEST + 1)
        indices(of["earliest"], "earliest", 0, LATEST // self.slot + 1)
        if self.talk != NULL:
            # the negotiations and runs under way depend on these
            for name, had in (("tasks", self.tasks), ("length", self.length), ("lasts", self.lasts),
                              ("submitter", self.submitter), ("group", self.group), ("earliest", self.earliest),
                              ("latest", self.latest)):
                if not np.array_equal(of[name], had):
                    raise ValueError(f"{name} must be as it was")
        submitter = indices(of["submitter"], "submitter", 0, self.nodes)
        indices(of["group"], "group", 0, 1 if self.suited is None else self.suited.shape[0])
        self.phase = of["phase"]
        self.tasks, self.length, self.lasts = of["tasks"].copy(), of["length"].copy(), of["lasts"].copy()
        self.submitter = submitter
        self.attempt, self.searches, self.in_vain = of["attempt"], of["searches"], of["in_vain"]
        self.conflicts, self.late, self.reached = of["conflicts"], of["late"], of["reached"]
        self.resubmitted, self.first_start = of["resubmitted"], of["first_start"]
        self.end, self.done, self.group = of["end"], of["done"], of["group"].copy()
        self.earliest, self.latest, self.held = of["earliest"].copy(), of["latest"].copy(), of["held"]
        self.received, self.changes, self.busy, self.done_by = at["received"], at["changes"], at["busy"], at["tasks"]
        self.first, self.up = at["first"], at["up"].view(np.uint8)
        self.gone = at["away"].view(np.uint8) if self.faults else None
        self.counts = counts

    def __dealloc__(self):
        cdef Py_ssize_t k
        if self.talk != NULL:
            for k in range(self.jobs):
                talk_drop(&self.talk[k])
        free(self.talk)
        for k in range(KINDS):
            free(self.out[k].row)
        free(self.row)
        free(self.spare)
        free(self.chosen)
        free(self.seen)
        decisions_free(&self.log)
        delayed_free(&self.thinking)
        pending_free(&self.ending)
        pending_free(&self.overdue)
        pending_free(&self.outliving)

    cdef _Guard _guard(self):
        return guard(&self.occupied, guard(&self.schedules.occupied, guard(&self.views.occupied, guard(&self.links.occupied))))

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
        """Return the scheduling node of a job, or the next node that is up and acts for it; -1 if none is."""
        cdef Py_ssize_t k, node = self.submitter[job]
        for k in range(self.nodes if self.faults else 0):
            if self.up[node]:
                return node
            node = node + 1 if node + 1 < self.nodes else 0
        return -1 if self.faults else node

    cdef int _watch(self, Py_ssize_t job) except -1:
        """Remember when what a job has reserved ends, if it is placed and will outlive that."""
        cdef long long ends
        if self.phase[job] != PLACED or self.talk[job] == NULL:
            return 0
        ends = (self.talk[job].start + self.held[job]) * self.slot
        if ends < self.talk[job].start * self.slot + self.lasts[job]:
            pending_push(&self.outliving, ends, job, <int> job)
        return 0

    cdef long long _slot_at(self, long long time) noexcept nogil:
        return (time + self.slot - 1) // self.slot

    # -- what the policy asks for --------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether all jobs are done or were rejected."""
        return self.completed + self.given_up == self.jobs

    @property
    def ending_now(self) -> int:
        """The last instant (ns) that `advance` returned because jobs or waits end at it."""
        return self.reported_end

    def read_outcomes(self) -> tuple[list[int], list[tuple[int, str]]]:
        """Return (jobs that must wait, [(rejected job, why), ...]) since the last call.

        why : "too_large", "too_late" (for its deadline), or empty if all its searches were in vain.
        """
        cdef _Guard alone = self._guard()
        result = self._waiting, self._given_up
        self._waiting, self._given_up = [], []
        return result

    def stopped(self) -> list[tuple[int, int, int, int]]:
        """Return what cancellations may have stopped since the last call: [(job, node, attempt, ns), ...].

        These are cancellations of jobs that have lost a machine, in order.
        """
        cdef _Guard alone = self._guard()
        result, self._stopped = self._stopped, []
        return result

    def moved(self) -> list[tuple[int, int]]:
        """Return what machines have displaced since the last call: [(job, attempt), ...], in order.

        The scheduling node of each is sent a message; where machines fail, it may not come.  Empty without failures.
        """
        cdef _Guard alone = self._guard()
        result, self._moved = self._moved, []
        return result

    cdef int _check_placed(self, Py_ssize_t job) except -1:
        if not 0 <= job < self.jobs or self.talk[job] == NULL or self.phase[job] not in (PLACED, BROKEN, DONE):
            raise ValueError(f"job must be one that was placed, got {job}")
        return 0

    def start_of(self, Py_ssize_t job) -> int:
        """Return the slot in which a placed job starts or has started."""
        cdef _Guard alone = self._guard()
        self._check_placed(job)
        return self.talk[job].start

    def machines_of(self, Py_ssize_t job) -> Integers:
        """Return int64[tasks]: the machines on which a placed job runs or has run."""
        cdef _Guard alone = self._guard()
        self._check_placed(job)
        return np.array([self.talk[job].pool[k] for k in range(self.talk[job].n_nodes)], np.int64)

    def hand_over(self):
        """Give the decisions that are still in the log to the policy (`decided`)."""
        cdef _Guard alone = self._guard()
        self._hand_over()

    cdef int _hand_over(self) except -1:
        """Give the decisions in the log to the policy."""
        cdef Decision[:] rows
        cdef Py_ssize_t n = self.log.n
        cdef long long lost = self.log.lost
        if not n and not lost:
            return 0
        found = np.empty(n, DECISION)
        if n:
            rows = found
            memcpy(&rows[0], self.log.row, n * sizeof(Decision))
        self.log.n = self.log.lost = 0
        self.decided(found, lost)
        return 0

    # -- checkpoints ----------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the negotiations, searches and runs under way; see `gridcore.common.state`.

        `read_outcomes`, `stopped`, `moved` and `flush` must have been called before: RuntimeError if anything is left for them.
        """
        cdef _Guard alone = self._guard()
        cdef Py_ssize_t job, k
        cdef Tables rows
        self._hand_over()
        for k in range(KINDS):
            if self.out[k].n or self._waiting or self._given_up or self._stopped or self._moved:
                raise RuntimeError("the state of a flow can be read between two instants only")
        memset(&rows, 0, sizeof(rows))
        for job in range(self.jobs):
            if self.talk[job] != NULL:
                talk_count(self.talk[job], &rows)
        cdef long long[:, ::1] talks = np.empty((rows.talks, 13), np.int64)
        cdef long long[:, ::1] answers = np.empty((rows.answers, 2), np.int64)
        cdef long long[:, ::1] found = np.empty((rows.found, 2), np.int64)
        cdef long long[::1] taken = np.empty(rows.taken, np.int64), pool = np.empty(rows.pool, np.int64)
        cdef long long[:, ::1] looked = np.empty((rows.found if self.recorded else 0, 3), np.int64)
        cdef long long[:, ::1] candidates = np.empty((rows.candidates, 2), np.int64)
        memset(&rows, 0, sizeof(rows))
        for job in range(self.jobs):
            if self.talk[job] != NULL:
                talk_copy(self.talk[job], job, talks, answers, found, taken, pool, looked, candidates, &rows)
        # columns: time, number and slot
        thinking = np.empty((self.thinking.due.n + self.thinking.due.n_run, 3), np.int64)
        ending = np.empty((self.ending.n + self.ending.n_run, 3), np.int64)
        pending_read(&self.thinking.due, thinking)
        overdue = np.empty((self.overdue.n + self.overdue.n_run, 3), np.int64)
        pending_read(&self.ending, ending)
        pending_read(&self.overdue, overdue)
        thinking = thinking[[self.thinking.row[k].node >= 0 for k in thinking[:, 2].tolist()]]
        thinking = thinking[np.argsort(thinking[:, 1])]
        thoughts = [(self.thinking.row[k].node, self.thinking.row[k].sender, self.thinking.row[k].job,
                     self.thinking.row[k].a, self.thinking.row[k].b) for k in thinking[:, 2].tolist()]
        return read_only({
            "talks": np.asarray(talks), "answers": np.asarray(answers), "found": np.asarray(found),
            "taken": np.asarray(taken), "pool": np.asarray(pool), "looked": np.asarray(looked),
            "candidates": np.asarray(candidates), "thinking": thinking[:, 0].copy(),
            "thoughts": np.array(thoughts, np.int64).reshape(-1, 5),
            "ending": ending[np.lexsort((ending[:, 1], ending[:, 0]))][:, :2].copy(),
            "overdue": overdue[np.lexsort((overdue[:, 1], overdue[:, 0]))][:, :2].copy(),
            "completed": self.completed, "given_up": self.given_up, "reported_end": self.reported_end,
            "left": self.log.left, "extended": self.extended, "displaced": self.displaced,
        })

    def setstate(self, state):
        """Continue from a state that `getstate` returned.

        The policy's arrays (`bind`) and the other kernels must have been restored before.  Raises ValueError for
        a state that does not fit.
        """
        cdef _Guard alone = self._guard()
        cdef Py_ssize_t job, k
        cdef Tables rows
        cdef Row thought
        cdef long long latest = LATEST // self.slot
        phase = np.asarray(self.phase)
        given = read(state, _STATE, nodes=self.nodes, jobs=self.jobs, slots=latest + 1, up_to_jobs=self.jobs + 1,
                     up_to_nodes=self.nodes + 1, up_to_forward=self.forward + 1, places=max(self.nodes, self.forward + 1),
                     may_be_overdue=self.jobs if self.faults else 0)
        lost = self.faults or self.number[DISPLACED_KIND] >= 0 or (phase == CANCELLED).any()
        check_ending(given["ending"], phase == PLACED, lost)
        kept = np.asarray(self.resubmitted) > 0
        placed = (phase == PLACED) | (phase == BROKEN) | ((phase == DONE) & (kept | self.record))
        check_talks(given, phase == SEARCHING, phase == COMMITTING, placed, np.asarray(self.tasks))
        check_looked(given["looked"], given["candidates"], len(given["found"]) if self.recorded else 0)
        cdef const long long[:, ::1] looked = given["looked"], candidates = given["candidates"]
        cdef const long long[:, ::1] talks = given["talks"], answers = given["answers"], found = given["found"]
        cdef const long long[::1] taken = given["taken"], pool = given["pool"], times = given["thinking"]
        cdef const long long[:, ::1] thoughts = given["thoughts"], ending = given["ending"], overdue = given["overdue"]
        for job in range(self.jobs):
            talk_drop(&self.talk[job])
        memset(&rows, 0, sizeof(rows))
        for k in range(talks.shape[0]):
            job = talks[k, 0]
            talk_fill(&self.talk[job], self.tasks[job], talks, answers, found, taken, pool, looked, candidates,
                      self.recorded, &rows)
        delayed_clear(&self.thinking)
        for k in range(times.shape[0]):
            thought.node, thought.sender, thought.job = thoughts[k, 0], thoughts[k, 1], thoughts[k, 2]
            thought.a, thought.b, thought.c = thoughts[k, 3], thoughts[k, 4], 0
            delayed_add(&self.thinking, times[k], &thought)
        pending_clear(&self.ending)
        for k in range(ending.shape[0]):
            pending_push(&self.ending, ending[k, 0], ending[k, 1], <int> ending[k, 1])
        pending_clear(&self.overdue)
        for k in range(overdue.shape[0]):
            pending_push(&self.overdue, overdue[k, 0], overdue[k, 1], <int> overdue[k, 1])
        pending_clear(&self.outliving)
        for job in range(self.jobs):
            self._watch(job)
        self.extended, self.displaced = given["extended"], given["displaced"]
        self.completed, self.given_up, self.reported_end = given["completed"], given["given_up"], given["reported_end"]
        self.log.n, self.log.lost, self.log.left = 0, 0, given["left"]
        self._waiting, self._given_up, self._stopped, self._moved = [], [], [], []
