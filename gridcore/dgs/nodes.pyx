"""DGS_ASAP in compiled form.

`DgsNodes` has the handlers of the node program of the same scheduler, `gridsim.schedulers.dgs.node.DgsNode`, and what
its nodes know of jobs.  The message core calls them; slot schedules and the views of the overlay are kernels of their
own.
"""

from libc.stdlib cimport free, qsort

from gridcore.common.release_queue cimport ReleaseQueue
from gridcore.common.arguments cimport _Guard, guard, plain
from gridcore.common.instants cimport LATEST, NEVER, later_by
from gridcore.dgs.decision_log cimport DgsDecisionLog
from gridcore.dgs.negotiations cimport (
    BROKEN, CANCELLED, COMMITTING, DONE, PLACED, SEARCHING, WAITING, Answer, Negotiation, Negotiations, claim,
    first_answer, negotiation_answer, negotiation_drop, negotiation_drop_answers, negotiation_open, negotiation_try,
)
from gridcore.dgs.overlay cimport Views
from gridcore.dgs.slots cimport Node, SearchQuery, SlotSchedules
from gridcore.nodes.handlers cimport put
from gridcore.nodes.kinds cimport MessageKind
from gridcore.nodes.node_actions cimport NodeActions
from gridcore.nodes.payloads cimport INT64, Payload, new_payload
from gridcore.nodes.roles cimport EVENTS, ON_RELEASE

import numpy as np

__all__ = ["DgsNodes"]

# The timers of jobs, in the order in which timers of one instant fire.
cdef enum:
    FINISH, RETRY, OVERDUE, TIMERS


cdef int ascending(const void* x, const void* y) noexcept nogil:
    cdef int a = (<const int*> x)[0], b = (<const int*> y)[0]
    return -1 if a < b else a > b


cdef class DgsNodes(Negotiations):
    """The nodes of DGS_ASAP in compiled form.

    Parameters
    ----------
    nodes, applications
        The number of nodes, and of jobs.
    schedules, views
        The slot schedules of the machines, and the overlay.
    jobs
        Name -> int64[jobs], which must not change: tasks, length (slots), run_time (ns), submitter, group (or None),
        earliest and latest (the slots between which each job may start).
    settings
        Slot, one_way, latency, at_least, opening, period, patience (ns); forward, hops, rounds, tries, width, seed;
        wide, others, keep, push, pull, poll, stale, record, faults (0 or 1), which
        `gridsim.schedulers.dgs.compiled.CompiledDgs` explains.
    suitable
        bool[groups, nodes], the nodes that may run the jobs of each group; None: all nodes may run all jobs.
    adapter
        The `CompiledDgs` of the run, which does what is rare.
    log
        The record of decisions; None if decisions are not recorded.
    """

    cdef SlotSchedules schedules
    cdef Views views
    cdef object adapter
    cdef public ReleaseQueue releases   #: the releases to which ends of jobs are reported, or None
    cdef DgsDecisionLog log
    cdef long long[::1] as_of           # scratch
    # numbers of the kinds of messages; -1: no job outlives its reservations
    cdef int cancel_kind, request_kind, answer_kind, commit_kind, reply_kind, displaced_kind
    cdef MessageKind found_kind
    cdef list kinds
    # per job
    cdef const long long[::1] length, run_time, submitter, group, earliest, latest
    cdef unsigned char[:, ::1] suitable  # by group of jobs and node; None if all nodes suit all jobs
    # shared with the adapter, see `share`
    cdef long long[::1] received, changes, busy_time, tasks_done, first_poll, first_start, end, done, counts
    cdef const unsigned char[::1] up, known_down    # `known_down` is None if machines do not fail
    # settings
    cdef long long one_way, latency, at_least, opening, period, width, patience, forward, hops, rounds, tries
    cdef unsigned long long seed
    cdef bint wide, exclude_home, keep_slots, push, pull, poll, stale, faults, record
    cdef long long next_forget          # ns, when past reservations are removed next

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, SlotSchedules schedules, Views views, *, dict jobs,
                  dict settings, suitable: Bools | None, adapter, log: DgsDecisionLog | None):
        if schedules is None or views is None:
            raise TypeError(f"schedules and views must not be None, got {schedules!r} and {views!r}")
        if schedules.nodes != nodes or views.nodes != nodes:
            raise ValueError(f"schedules and views must have {nodes} nodes, got {schedules.nodes} and {views.nodes}")
        self.schedules, self.views, self.adapter, self.log = schedules, views, adapter, log
        self.holds_tasks, self.n_timers = False, TIMERS
        self.slot, self.one_way, self.latency = settings["slot"], settings["one_way"], settings["latency"]
        self.at_least, self.opening, self.period = settings["at_least"], settings["opening"], settings["period"]
        self.width, self.seed, self.forward = settings["width"], settings["seed"], settings["forward"]
        self.hops, self.rounds, self.tries = settings["hops"], settings["rounds"], settings["tries"]
        self.wide, self.exclude_home, self.keep_slots = settings["wide"], settings["others"], settings["keep"]
        self.push, self.pull, self.poll = settings["push"], settings["pull"], settings["poll"]
        self.stale, self.faults, self.patience = settings["stale"], settings["faults"], settings["patience"]
        self.record, self.as_of = settings["record"], np.empty(0, np.int64)
        if self.slot < 1 or self.rounds < 1 or (self.poll and self.period < 1):
            raise ValueError(f"slot, rounds and period must be at least 1, "
                             f"got {self.slot}, {self.rounds}, {self.period}")
        self.suitable = None if suitable is None else np.array(suitable, np.bool_, order="C").view(np.uint8)
        self._set_jobs(jobs)

    cdef int _set_jobs(self, dict jobs) except -1:
        """Check and set the columns that do not change."""
        cdef Py_ssize_t groups = 1 if self.suitable is None else self.suitable.shape[0]
        limits = {"tasks": (1, 2**31), "length": (1, LATEST // self.slot + 1), "run_time": (0, LATEST + 1),
                  "submitter": (0, self.nodes), "group": (0, groups), "earliest": (0, LATEST // self.slot + 1)}
        for name, (low, end) in limits.items():
            column = plain(jobs[name])
            if column is not None and not (len(column) == self.applications
                                           and (not len(column) or low <= column.min() <= column.max() < end)):
                raise ValueError(f"jobs[{name!r}] must have {self.applications} entries in {low}..{end - 1}, "
                                 f"got {len(column)} in {column.min(initial=end)}..{column.max(initial=low)}")
        if len(jobs["latest"]) != self.applications:
            raise ValueError(f"jobs['latest'] must have {self.applications} entries, got {len(jobs['latest'])}")
        if self.suitable is not None and (jobs["group"] is None or self.suitable.shape[1] != self.nodes):
            raise ValueError(f"suitable must be bool[groups, {self.nodes}] and requires jobs['group'], "
                             f"got shape {np.shape(self.suitable)}")
        self.tasks, self.length, self.run_time = jobs["tasks"], jobs["length"], jobs["run_time"]
        self.submitter, self.group = jobs["submitter"], jobs["group"]
        self.earliest, self.latest = jobs["earliest"], jobs["latest"]
        return 0

    def share(self, dict jobs, dict nodes, counts: Integers):
        """Use these arrays, which are shared with the adapter, from now on.

        Parameters
        ----------
        jobs
            Name -> int64[jobs]: first_start, end (ns) and done.
        nodes
            Name -> array over all nodes: received, changes, busy (ns), tasks, first (ns, first poll; int64); up, away
            (whether the failure of the node has been detected; bool).
        counts
            int64[5], the number of exchanged schedules: pushed, pulled, polled, opened and shuffled.
        """
        arrays = {"counts": counts, **{f"jobs[{name!r}]": array for name, array in jobs.items()},
                  **{f"nodes[{name!r}]": array for name, array in nodes.items()}}
        for name, array in arrays.items():
            array = plain(array)
            n = 5 if name == "counts" else self.applications if name.startswith("jobs") else self.nodes
            if array.shape != (n,):
                raise ValueError(f"{name} must have the shape ({n},), got {array.shape}")
        self.first_start, self.end, self.done = jobs["first_start"], jobs["end"], jobs["done"]
        self.received, self.changes, self.busy_time = nodes["received"], nodes["changes"], nodes["busy"]
        self.tasks_done, self.first_poll, self.up = nodes["tasks"], nodes["first"], nodes["up"].view(np.uint8)
        self.known_down = nodes["away"].view(np.uint8) if self.faults else None
        self.counts = counts

    cdef int _bind(self, NodeActions core) except -1:
        numbers = {name: (<MessageKind> kind).number for name, kind in core.by_name.items()}
        self.cancel_kind, self.request_kind, self.answer_kind = numbers["cancel"], numbers["request"], numbers["answer"]
        self.commit_kind, self.reply_kind = numbers["commit"], numbers["reply"]
        self.displaced_kind, self.found_kind = numbers.get("displaced", -1), core.by_name["found"]
        self.kinds = core.kinds
        return 0

    # -- calls of the core ----------------------------------------------------------------------------------

    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1:
        cdef long long start
        # a state from a file may have any values here
        start = -1 if kind == self.request_kind or kind == self.displaced_kind else row[4]
        if not (0 <= row[2] < self.applications and -1 <= start <= LATEST // self.slot):
            raise ValueError(f"messages in links must be about jobs below {self.applications} and slots up to "
                             f"{LATEST // self.slot}, got job {row[2]} and slot {start}")
        self.in_call = True
        try:
            if kind == self.reply_kind:
                return self._handle_reply(core, node, row)
            if kind == self.commit_kind:
                return self._handle_commit(core, node, row)
            if kind == self.request_kind:
                return self._handle_request(core, node, row)
            if kind == self.answer_kind:
                return self._handle_answer(core, row)
            if kind == self.cancel_kind:
                return self._handle_cancel(core, node, row)
            return self._search_displaced(core, row[2], row[3])
        finally:
            self.in_call = False

    cdef int _event(self, NodeActions core, Py_ssize_t event, Py_ssize_t node, const long long* arguments) except -1:
        self.in_call = True
        try:
            if event == ON_RELEASE:
                return self._search(core, arguments[0])
            if event == EVENTS + self.found_kind.local_number:
                # a state from a file may have any values here
                if not (0 <= arguments[2] < self.nodes and 0 <= arguments[3] < self.applications):
                    raise ValueError(f"local messages must be for nodes below {self.nodes} and jobs below "
                                     f"{self.applications}, got {arguments[2]} and {arguments[3]}")
                return self._answer(core, node, arguments[2], &arguments[3])
            return 0
        finally:
            self.in_call = False

    cdef int _fire(self, NodeActions core, int name, Py_ssize_t job) except -1:
        self.in_call = True
        try:
            if name == FINISH:
                return self._finish(core, job)
            if name == RETRY:
                return self._search(core, job) if self.phase[job] == WAITING else 0
            return self._end_wait(core, job)
        finally:
            self.in_call = False

    cdef int _forget(self, Py_ssize_t node) except -1:
        return 0                        # failures erase reservations, which `schedules` has

    # -- calls of the adapter -------------------------------------------------------------------------------

    def on_release(self, NodeActions core, Py_ssize_t node, Py_ssize_t job, tasks):
        """Schedule a job that is submitted while no machine is up."""
        cdef _Guard access = self._guard(job, core)
        self._search(core, job)

    def on_job_lost(self, NodeActions core, Py_ssize_t node, Py_ssize_t job):
        """Handle the detected failure of a node of the job: start the job again on other nodes."""
        cdef _Guard access = self._guard(job, core)
        cdef Negotiation* negotiation = self.negotiation[job]
        if negotiation == NULL:
            return
        if self.phase[job] == BROKEN:
            self.resubmitted[job] += negotiation.n_nodes
            if self.log is not None:
                self.log.misses(self._record(job))
            self._start_again(core, job)
        elif self.phase[job] == COMMITTING and self.has_lost_node[job]:
            self._abort(core, job)

    def on_job_displaced(self, NodeActions core, Py_ssize_t node, Py_ssize_t job, long long attempt):
        """Search again for a job that is displaced in its present attempt, unless the job is over."""
        cdef _Guard access = self._guard(job, core)
        self._search_displaced(core, job, attempt)

    def on_job_cancelled(self, NodeActions core, Py_ssize_t node, Py_ssize_t job):
        """Cancel a job, as its user wants: its nodes release the rest of its slots."""
        cdef _Guard access = self._guard(job, core)
        cdef Negotiation* negotiation = self.negotiation[job]
        cdef int* nodes = NULL
        cdef Py_ssize_t n = 0
        if negotiation != NULL and self.phase[job] == COMMITTING:
            n = self._holders(negotiation, &nodes)
        elif negotiation != NULL and negotiation.nodes != NULL and self.phase[job] in (PLACED, BROKEN):
            nodes, n = negotiation.nodes, negotiation.n_nodes
            qsort(nodes, n, sizeof(int), ascending)
        if self.log is not None:
            self.log.cancels(self._record(job), n)
        self._cancel(core, job, nodes, n)
        self.n_unfinished -= 1
        self.adapter.cancel_job(job)
        negotiation_drop(&self.negotiation[job])

    def on_job_outlives(self, NodeActions core, Py_ssize_t node, Py_ssize_t job, long long instant):
        """Extend the slots of a job that continues at `node` until `instant` ns; notify the jobs that it displaces."""
        cdef _Guard access = self._guard(job, core)
        cdef Negotiation* negotiation = self.negotiation[job]
        cdef Node* schedule = &self.schedules.node[core._checked_node(node)]
        cdef long long end = instant // self.slot, claim_number
        cdef Py_ssize_t other_job, home, until, k, i = -1
        cdef long long* row
        if negotiation != NULL:
            i = self.schedules._extendable(schedule, negotiation.start, end, claim(job, self.attempt[job]))
        if i < 0:
            return
        until = self.schedules._first_beyond(schedule, i, end)
        if self.log is not None:
            self.log.extends(node, job, end, until - i - 1)
        self.adapter.runs.extended += 1
        displaced = [schedule.info[k].job for k in range(i + 1, until)]
        self.schedules._extend(schedule, i, end, core.now)
        for claim_number in displaced:
            other_job = <Py_ssize_t> (claim_number & 0xFFFFFFFF)
            if not 0 <= other_job < self.applications:
                raise ValueError(f"schedules must have reservations for jobs below {self.applications}, "
                                 f"got {other_job}")
            home = self._home(other_job)
            if home >= 0 and self.displaced_kind >= 0:
                row = put(core, self.displaced_kind, home, node)
                row[0], row[1] = other_job, claim_number >> 32
            self.adapter.displace(other_job, node, claim_number >> 32)
        self._publish(node)

    cdef _Guard _guard(self, Py_ssize_t job, NodeActions core):
        if core is None or core.kinds is not self.kinds:  # `_bind` looked up the numbers of its kinds
            raise ValueError(f"core must be the message core of these nodes, got {core!r}")
        self._find(job)
        return guard(&self.in_call)

    cdef object _record(self, Py_ssize_t job):
        return self.adapter.records[job]

    # -- the scheduling node: Figure 2 ------------------------------------------------------------------------

    cdef Py_ssize_t _home(self, Py_ssize_t job) noexcept nogil:
        """Return the scheduling node of a job, or the next node that is up in its place; -1 if none is up."""
        cdef Py_ssize_t k, node = self.submitter[job]
        for k in range(self.nodes if self.faults else 0):
            if self.up[node]:
                return node
            node = node + 1 if node + 1 < self.nodes else 0
        return -1 if self.faults else node

    cdef long long _slot_at(self, long long time) noexcept nogil:
        """Return the first slot that begins at `time` ns or later."""
        return (time + self.slot - 1) // self.slot

    cdef int _search(self, NodeActions core, Py_ssize_t job) except -1:
        """Request a search from random neighbours (step 1)."""
        cdef Py_ssize_t k, n, home = self._home(job)
        cdef long long* row
        cdef long long first = max(self.earliest[job], self._slot_at(core.now))
        if first > self.latest[job]:
            return self._reject_late(core, job, first)
        if self.failed_searches[job] >= self.tries:
            if self.log is not None:
                self.log.failed_searches("gave-up", self._record(job), self.tries)
            return self._reject(job, "")
        if home < 0:
            return self._wait(core, job, "waited-for-machines")
        if core.now >= self.next_forget:
            self.next_forget = self.adapter.forget()
        self.searches[job] += 1
        self.failed_searches[job] += 1
        self.phase[job], self.has_lost_node[job] = SEARCHING, False
        n = self.views._pick(home, job, self.searches[job], self.forward, self.seed, self.known_down)
        negotiation_open(&self.negotiation[job], self.tasks[job]).missing = n
        self._limit_wait(core, job)
        if self.log is not None:
            self.log._ask(core.now, job, home, self.views.entry[0], n, self._count_known(home))
        for k in range(n):
            row = put(core, self.request_kind, self.views.entry[0, k], home)
            row[0], row[1], row[2], row[3] = job, self.searches[job], self.submitter[job], self.tasks[job]
            row[4], row[5] = self.length[job], -1 if self.group is None else self.group[job]
            row[6], row[7] = self.earliest[job], self.latest[job]
        return 0 if n else self._choose(core, job)

    cdef int _reject_late(self, NodeActions core, Py_ssize_t job, long long start) except -1:
        """Reject a job whose first possible `start` is too late for its deadline."""
        if self.log is not None:
            self.log.too_late(self._record(job), start)
        return self._reject(job, "too_late")

    cdef int _reject(self, Py_ssize_t job, str reason) except -1:
        self.n_unfinished -= 1
        self.adapter.reject(job, reason)
        negotiation_drop(&self.negotiation[job])
        return 0

    cdef int _wait(self, NodeActions core, Py_ssize_t job, str action) except -1:
        """Search again after a while."""
        cdef long long until = core.now + <long long> self.adapter.pause(job, self.searches[job])
        self.phase[job] = WAITING
        if self.log is not None:
            self.log.waits(action, self._record(job), until)
        negotiation_drop(&self.negotiation[job])
        return core._set_application_timer(job, RETRY, until)

    cdef int _limit_wait(self, NodeActions core, Py_ssize_t job) except -1:
        """Limit the wait for answers or replies if machines may fail, since messages may then be lost."""
        return core._set_application_timer(job, OVERDUE, core.now + self.patience) if self.faults else 0

    cdef int _end_wait(self, NodeActions core, Py_ssize_t job) except -1:
        """End the wait for answers or replies that have not arrived in time."""
        if self.negotiation[job] == NULL or self.phase[job] not in (SEARCHING, COMMITTING):
            return 0
        if self.log is not None:
            self.log.overdue(self._record(job))
        if self.phase[job] == COMMITTING:
            return self._abort(core, job)
        self.negotiation[job].retry_may_help = True
        return self._choose(core, job)

    cdef int _handle_answer(self, NodeActions core, const long long* row) except -1:
        """Step 2: receive the allocation that a neighbour has found."""
        cdef Payload nodes = core.payloads._take(row[6])
        cdef Py_ssize_t job = row[2]
        cdef long long start = row[4]
        cdef Negotiation* negotiation = self.negotiation[job]
        # a state from a file may have an answer twice
        if (row[3] != self.searches[job] or self.phase[job] != SEARCHING or negotiation == NULL
                or negotiation.missing <= 0):
            return 0
        if start > self.latest[job]:
            if negotiation.first_late_start < 0 or start < negotiation.first_late_start:
                negotiation.first_late_start = start
        elif start >= 0:
            self._add_answer(negotiation, start, row[1], nodes)
            negotiation.retry_may_help = True
        negotiation.missing -= 1
        return 0 if negotiation.missing else self._choose(core, job)

    cdef int _add_answer(self, Negotiation* negotiation, long long start, Py_ssize_t searcher, Payload nodes) except -1:
        cdef const long long* node = <const long long*> nodes.contents.data
        cdef Answer* answer
        cdef Py_ssize_t k
        cdef Py_ssize_t nbytes = negotiation.n_nodes * <Py_ssize_t> sizeof(long long)
        cdef bint is_valid = nodes.element == INT64 and nodes.nbytes == nbytes
        # a state from a file may have any values here
        for k in range(negotiation.n_nodes if is_valid else 0):
            is_valid &= 0 <= node[k] < self.nodes
        if not is_valid:
            raise ValueError(f"the payload of an answer must be {negotiation.n_nodes} nodes in 0..{self.nodes - 1}, "
                             f"got {nodes.nbytes} bytes with another content")
        answer = negotiation_answer(negotiation, start, searcher)
        for k in range(negotiation.n_nodes):
            answer.nodes[k] = <int> node[k]
        return 0

    cdef int _choose(self, NodeActions core, Py_ssize_t job) except -1:
        """Step 3: confirm the allocation that starts first; without one search again, wait, or reject the job."""
        cdef Negotiation* negotiation = self.negotiation[job]
        cdef Answer* best
        if self._home(job) < 0:
            return self._wait(core, job, "waited-for-machines")
        while True:
            best = first_answer(negotiation)
            if best == NULL or best.start * self.slot >= core.now + self.one_way:
                break
            self._log_choice(core, job, "dropped", best)
            self.late_answers[job] += 1  # a commit would arrive too late
            best.start = -1
            free(best.nodes)
            best.nodes = NULL
        if best != NULL:
            self._log_choice(core, job, "chose", best)
            return self._confirm(core, job, best)
        if not negotiation.retry_may_help:
            if negotiation.first_late_start >= 0:
                return self._reject_late(core, job, negotiation.first_late_start)
            if self.faults and self.wide:
                return self._wait(core, job, "waited-for-room")  # machines may recover
            if self.log is not None:
                self.log.too_large(self._record(job))
            return self._reject(job, "too_large")
        if self.failed_searches[job] % self.rounds == 0:
            return self._wait(core, job, "waited")
        if self.log is not None:
            self.log.failed_searches("searched-again", self._record(job), self.rounds)
        return self._search(core, job)

    cdef int _confirm(self, NodeActions core, Py_ssize_t job, Answer* answer) except -1:
        """Ask the nodes of an allocation to commit to the job."""
        cdef Negotiation* negotiation = self.negotiation[job]
        cdef Py_ssize_t k, home = self._home(job)
        cdef long long* row
        negotiation_try(negotiation, answer)
        self.attempt[job] += 1
        self.phase[job], self.has_lost_node[job] = COMMITTING, False
        self._limit_wait(core, job)
        for k in range(negotiation.n_nodes):
            row = put(core, self.commit_kind, negotiation.nodes[k], home)
            row[0], row[1], row[2], row[3] = job, self.attempt[job], negotiation.start, self.length[job]
        return 0

    cdef int _handle_reply(self, NodeActions core, Py_ssize_t node, const long long* row) except -1:
        """Place the job if all nodes have committed to it; if one has refused, release the others."""
        cdef Py_ssize_t job = row[2]
        cdef bint has_committed = row[5] != 0
        cdef Negotiation* negotiation = self.negotiation[job]
        cdef long long* undone
        if (row[3] != self.attempt[job] or self.phase[job] != COMMITTING or negotiation == NULL
                or negotiation.nodes == NULL or negotiation.missing <= 0):
            if has_committed:  # the reply belongs to an attempt that was aborted
                undone = put(core, self.cancel_kind, row[1], node)
                undone[0], undone[1], undone[2] = job, row[3], row[4]
            return 0
        if has_committed and negotiation.n_reserved < negotiation.n_nodes:
            negotiation.reserved[negotiation.n_reserved] = <int> row[1]
            negotiation.n_reserved += 1
        negotiation.missing -= 1
        if negotiation.missing:
            return 0
        if negotiation.n_reserved < negotiation.n_nodes:
            return self._abort(core, job)
        return self._place(core, job)

    cdef int _place(self, NodeActions core, Py_ssize_t job) except -1:
        cdef Negotiation* negotiation = self.negotiation[job]
        cdef long long end
        if self.log is not None:
            self.log._place(core.now, job, self._in_charge(job), negotiation.n_nodes, negotiation.start,
                            self.has_lost_node[job])
        self.failed_searches[job] = 0
        negotiation_drop_answers(negotiation)
        self.phase[job] = BROKEN if self.has_lost_node[job] else PLACED
        if self.phase[job] == BROKEN:
            return 0                    # the failure of the machine is detected later
        if self.run_time[job] > self.length[job] * self.slot:
            self.adapter.outlives(job)
        end = negotiation.start * self.slot + self.run_time[job]
        return core._set_application_timer(job, FINISH, max(end, core.now))

    cdef int _abort(self, NodeActions core, Py_ssize_t job) except -1:
        """Release the nodes that have committed, and try the next best allocation."""
        cdef int* nodes = NULL
        cdef Py_ssize_t n
        if self.log is not None:
            self.log.releases(self._record(job))
        self.conflicts[job] += 1
        n = self._holders(self.negotiation[job], &nodes)
        self._cancel(core, job, nodes, n)
        self.attempt[job] += 1          # replies that are still to come belong to the old attempt
        return self._choose(core, job)

    cdef Py_ssize_t _holders(self, Negotiation* negotiation, int** nodes) noexcept nogil:
        """Return the number of nodes that may hold slots for an attempt, and the nodes; failures may have lost replies."""
        cdef Py_ssize_t n = negotiation.n_reserved
        nodes[0] = negotiation.reserved
        if self.faults and negotiation.missing and negotiation.nodes != NULL:
            nodes[0], n = negotiation.nodes, negotiation.n_nodes
        qsort(nodes[0], n, sizeof(int), ascending)
        return n

    cdef int _cancel(self, NodeActions core, Py_ssize_t job, const int* nodes, Py_ssize_t n) except -1:
        """Cancel the job at `n` nodes; if all nodes of the grid are down, do nothing, since they have lost the job."""
        cdef Py_ssize_t k, home = self._home(job)
        cdef long long* row
        for k in range(n if home >= 0 else 0):
            row = put(core, self.cancel_kind, nodes[k], home)
            row[0], row[1], row[2] = job, self.attempt[job], self.negotiation[job].start
        return 0

    cdef int _start_again(self, NodeActions core, Py_ssize_t job) except -1:
        """Release the nodes of a job that was placed, and search again."""
        cdef Negotiation* negotiation = self.negotiation[job]
        self._cancel(core, job, negotiation.nodes, negotiation.n_nodes if negotiation.nodes != NULL else 0)
        return self._search(core, job)

    cdef int _search_displaced(self, NodeActions core, Py_ssize_t job, long long attempt) except -1:
        """Find other nodes for `job` if `attempt`, in which a machine has displaced it, is still its current one."""
        if self.negotiation[job] == NULL or attempt != self.attempt[job]:
            return 0
        if self.phase[job] == COMMITTING:
            return self._abort(core, job)
        if self.phase[job] != BROKEN:
            return 0
        self.adapter.runs.displaced += 1
        if self.log is not None:
            self.log.moves(self._record(job))
        return self._start_again(core, job)

    cdef int _finish(self, NodeActions core, Py_ssize_t job) except -1:
        """End a job on all its machines."""
        cdef Negotiation* negotiation = self.negotiation[job]
        cdef Py_ssize_t k
        cdef long long start, end
        # the timer may belong to a lost run
        if self.phase[job] != PLACED or negotiation == NULL or negotiation.nodes == NULL:
            return 0
        start = negotiation.start * self.slot
        end = start + self.run_time[job]
        if end > core.now:
            return 0
        self.phase[job] = DONE
        if self.first_start[job] < 0:
            self.first_start[job] = start
        self.end[job], self.done[job] = end, negotiation.n_nodes
        for k in range(negotiation.n_nodes):
            self.busy_time[negotiation.nodes[k]] += end - start
            self.tasks_done[negotiation.nodes[k]] += 1
            if not self.keep_slots:
                self._release(core, negotiation.nodes[k], job, self.attempt[job], negotiation.start)
        if self.record or self.resubmitted[job]:
            self.adapter.record_run(job)
        negotiation_drop(&self.negotiation[job])
        if self.releases is not None and job < self.releases.applications:
            self.releases.end_one(job, end)
        self.n_unfinished -= 1
        if self.n_unfinished == 0:
            self.adapter.end_if_over()
        return 0

    # -- a neighbour that searches: Figure 3 ------------------------------------------------------------------

    cdef int _handle_request(self, NodeActions core, Py_ssize_t node, const long long* row) except -1:
        """Search, and answer after the time that the search takes."""
        cdef Py_ssize_t job = row[2]
        cdef SearchQuery query
        cdef long long[6] answer            # job, search, start, apart, and the number of the array of nodes
        cdef long long* fields
        cdef long long start, n_opened, wait, ready = core.now + 4 * self.one_way
        cdef Payload nodes
        cdef Py_ssize_t k
        query.n_nodes, query.slots, query.include_searcher = self.tasks[job], self.length[job], not self.exclude_home
        query.exclude = self.submitter[job] if self.exclude_home else -1
        query.hops, query.wide, query.poll_period, query.until = self.hops, self.wide, 0, 0
        query.as_of = NEVER - 1
        query.suitable = NULL if self.suitable is None else &self.suitable[self.group[job], 0]
        if self.poll:
            query.poll_period, query.until = self.period, core.now - self.latency
        elif self.stale and self.push:
            query.as_of = core.now - self.latency
        query.not_before = max(self.earliest[job], self._slot_at(ready + self.at_least))
        while True:
            n_opened = 0
            start = self.schedules._search(&query, self.views.view, self.known_down,
                                           self.first_poll if self.poll else None, node, &n_opened)
            # opening neighbours takes time, so this start may be too early by then
            wait = self.at_least + n_opened * self.opening
            if start < 0 or start * self.slot >= ready + wait:
                break
            query.not_before = self._slot_at(ready + wait)
        self.received[node] += (n_opened + self.pull) * self.width
        self.counts[1 if self.pull else 3] += (n_opened + self.pull) * self.width
        self.most_candidates[job] = max(self.most_candidates[job], self.schedules.n_candidates)
        nodes = new_payload(INT64, 1, query.n_nodes if start >= 0 else 0, 1)
        if start >= 0:
            self.schedules._choose(query.n_nodes, start, query.slots, <long long*> nodes.contents.data)
        if self.log is not None:
            self._log_search(core, node, row, query.not_before, n_opened, self._slot_at(ready + wait))
        answer[0], answer[1], answer[2], answer[3], answer[4] = job, row[3], start, 0, core.payloads._store(nodes)
        if wait == 0:
            return self._answer(core, node, row[1], answer)
        fields = core.local._add(later_by(core.now, wait / 1e9), node, self.found_kind.local_number)
        fields[0] = row[1]
        for k in range(5):
            fields[k + 1] = answer[k]
        return 0

    cdef int _answer(self, NodeActions core, Py_ssize_t node, Py_ssize_t client, const long long* answer) except -1:
        """Send the scheduling node the allocation that was found."""
        cdef long long* row
        cdef Py_ssize_t k
        if self.log is not None:
            if self._is_awaited(answer[0], answer[1]):
                self.log._answer(core.now, node, client, answer[0], self.tasks[answer[0]], self.length[answer[0]],
                                 answer[2])
        row = put(core, self.answer_kind, client, node)
        for k in range(5):
            row[k] = answer[k]
        return 0

    # -- a host -----------------------------------------------------------------------------------------------

    cdef int _handle_commit(self, NodeActions core, Py_ssize_t node, const long long* row) except -1:
        """Commit to a job if its start is not past and its slots are free; else refuse."""
        cdef long long start = row[4], end = start + self.length[row[2]]
        cdef bint is_timely = start * self.slot >= core.now
        cdef bint commits = is_timely and self.schedules._reserve(
            &self.schedules.node[node], start, end, claim(row[2], row[3]), core.now)
        cdef long long* reply
        if commits:
            self._publish(node)
        elif self.log is not None:
            self.log._refuse("refused" if is_timely else "refused-late", core.now, node, row[1], row[2],
                             self.length[row[2]], start)
        reply = put(core, self.reply_kind, row[1], node)
        reply[0], reply[1], reply[2], reply[3] = row[2], row[3], start, commits
        return 0

    cdef int _handle_cancel(self, NodeActions core, Py_ssize_t node, const long long* row) except -1:
        """Release the slots of a job that its scheduling node cancels; if the machine still runs the job, it stops."""
        self._release(core, node, row[2], row[3], row[4])
        if (self.phase[row[2]] == CANCELLED
                or (self.faults and (self.resubmitted[row[2]] or self.phase[row[2]] == BROKEN))):
            self.adapter.stop(row[2], node, row[3])
        return 0

    cdef int _release(self, NodeActions core, Py_ssize_t node, Py_ssize_t job, long long attempt,
                      long long start) except -1:
        """Release the rest of the slots of an attempt that starts in slot `start`."""
        if self.schedules._release(&self.schedules.node[node], start, max(start, self._slot_at(core.now)),
                                   claim(job, attempt), False, core.now):
            self._publish(node)
        return 0

    cdef int _publish(self, Py_ssize_t node) except -1:
        """Send the changed schedule of a node to all that know it, with push."""
        if self.push:
            self.changes[node] += 1
        return 0

    # -- decisions ----------------------------------------------------------------------------------------------

    cdef Py_ssize_t _in_charge(self, Py_ssize_t job) noexcept nogil:
        """Return the node that decides about a job; its scheduling node if no node is up."""
        cdef Py_ssize_t home = self._home(job)
        return self.submitter[job] if home < 0 else home

    cdef Py_ssize_t _count_known(self, Py_ssize_t node) noexcept nogil:
        """Return the number of neighbours of a node whose failure is not known."""
        cdef Py_ssize_t k, n = 0
        cdef int other
        for k in range(self.views.view.shape[1]):
            other = self.views.view[node, k]
            n += other >= 0 and (self.known_down is None or not self.known_down[other])
        return n

    cdef bint _is_awaited(self, Py_ssize_t job, long long search) noexcept nogil:
        """Return whether the scheduling node still has a use for answers of this search."""
        return search == self.searches[job] and (self.phase[job] == SEARCHING or self.phase[job] == COMMITTING)

    cdef int _log_choice(self, NodeActions core, Py_ssize_t job, str action, const Answer* best) except -1:
        """Log that the first answer is chosen or dropped, if decisions are recorded."""
        cdef const Negotiation* negotiation = self.negotiation[job]
        cdef Py_ssize_t k, n_answers = 0
        if self.log is None:
            return 0
        for k in range(negotiation.n_answers):
            n_answers += negotiation.answers[k].start >= 0
        return self.log._choose(action, core.now, job, self._in_charge(job), self.length[job], best.start,
                                best.searcher, <int[:negotiation.n_nodes]> best.nodes, n_answers)

    cdef int _log_search(self, NodeActions core, Py_ssize_t node, const long long* row, long long first,
                         long long n_opened, long long left) except -1:
        """Log a search that considered starts from slot `first` on; slot `left` leaves time for all messages."""
        cdef Py_ssize_t k, n = self.schedules.n_candidates, job = row[2]
        if not self._is_awaited(job, row[3]):
            return 0
        nodes = np.empty(n, np.int32)
        cdef int[::1] out = nodes
        if self.as_of.shape[0] < n:
            self.as_of = np.empty(2 * n, np.int64)
        for k in range(n):
            # the searcher knows its own present schedule
            out[k] = self.schedules.candidates[k].node
            self.as_of[k] = min(self.schedules.candidates[k].as_of, core.now)
        return self.log._look(core.now, node, row[1], job, self.tasks[job], self.length[job], nodes, self.as_of[:n],
                              self.schedules.n_own, n_opened, first, left)
