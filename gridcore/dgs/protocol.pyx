"""The compiled protocol of DGS_ASAP: searches, answers, commits and ends of jobs, without Python handlers.

`DgsProtocol` ties the slot schedules, the overlay's views and the links together.  It runs everything that happens
between two instants at which the caller must act: requests that arrive, searches that take time, allocations that
are tried one after the other, waits that are limited, and jobs that end.  The caller reports which machines fail
(`fail`), which jobs lose a machine (`lose_node`), and when their scheduling nodes detect it (`detect_failure`).  There
is no reference implementation: tests compare its digest with that of the node program.
"""

from libc.math cimport NAN
from libc.stdlib cimport free, qsort

from gridcore.common.arguments cimport _Guard, check_instant, indices
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.common.memory cimport reallocate
from gridcore.common.pending cimport Event, pending_first, pending_pop, pending_push
from gridcore.dgs.negotiations cimport (
    ANSWER_KIND, BROKEN, CANCEL_KIND, CANCELLED, COMMIT_KIND, COMMITTING, DISPLACED_KIND, DONE, FAILED, KINDS, NEW,
    PLACED, REPLY_KIND, REQUEST_KIND, SEARCHING, WAITING, Answer, Negotiation, Negotiations, SearchRecord, claim,
    negotiation_drop, negotiation_open, negotiation_place, negotiation_pool, negotiation_reserved,
)
from gridcore.dgs.decision_log cimport (ANSWERED, ASKED, CALLED_OFF, CHOSE, DECISIONS, DISPLACED, DROPPED, EXTENDED, GAVE_UP,
                                        MISSED, OPENED, OVERDUE, PLACES, REFUSED, REFUSED_LATE, RELEASED, SEARCHED_AGAIN, TOO_LARGE,
                                        TOO_LATE, UNREACHED, WAITED, WAITED_FOR_MACHINES, WAITED_FOR_ROOM, Decision,
                                        decisions_add)
from gridcore.dgs.outbox cimport (Outbox, Row, delayed_add, delayed_drop, delayed_first, delayed_take, outbox_add,
                                  sort_rows)
from gridcore.dgs.slots cimport Node, Observation, SearchQuery, SlotSchedules

import numpy as np


__all__ = ["DgsProtocol"]

# The latest instant that a caller may pass, ns.
cdef long long _LAST = 8 * 10**17
# Nanoseconds per second.
cdef double _NS = 1e9


cdef int ascending(const void* x, const void* y) noexcept nogil:
    cdef int a = (<const int*> x)[0], b = (<const int*> y)[0]
    return -1 if a < b else a > b


cdef class DgsProtocol(Negotiations):
    """The negotiations about jobs over `links`.

    Raises ValueError if an array has the wrong type or shape.

    Parameters
    ----------
    schedules, views, links
        Objects that are shared with the policy.
    kinds
        For cancel, request, answer, commit, reply and displaced: (number in `links`, bytes of a message).
        The number of displaced is -1 if no job outlives its reservations.
    jobs
        Name -> array over all jobs, shared with the policy: phase (int8); tasks, length (slots), lasts (ns),
        submitter, attempt, searches, in_vain, conflicts, late, reached, resubmitted, first_start, end (ns),
        done, group, earliest and latest (the slots between which each job may start), and held (the reserved
        slots of a placed job, which grow if it outlives them; int64).
    nodes
        Name -> array over all nodes, shared: received, changes, busy (ns), tasks, first (ns, first poll;
        int64); up, away (whether the failure of the node has been detected; bool).
    counts
        int64[5], number of schedules exchanged by kind, shared.
    settings
        Slot, one_way, latency, at_least, opening, period, patience, detection (ns); forward, hops, rounds,
        tries, width, seed; log, the largest number of decisions that are logged; wide, others, keep, push, pull, poll,
        stale, record, faults (0 or 1).  With others, neither the searcher nor the scheduling node is a
        candidate.  With keep, a job that ends early keeps its slots.  With record, `machines_of` works for all
        jobs that are done, otherwise only for those that were resubmitted.  With faults, machines may fail.
    suitable
        bool[groups, nodes], the nodes that may run the jobs of each group; None: all nodes may run all jobs.
    on_decisions
        A function of (rows, lost): the `gridcore.dgs.state.DECISION` records of the decisions since the last
        call, in order, and the number of further decisions that were not logged.  It is called when the log has
        many rows, by `getstate` and by `hand_over`.  None: decisions are not logged.
    """
    # -- messages that are sent -----------------------------------------------------------------------------

    cdef Row* _add_message(self, int kind, long long node, long long sender, long long job) except NULL nogil:
        return outbox_add(&self.out[kind], node, sender, job)

    def flush(self, long long now):
        """Send the messages of the last wave at `now` ns: by kind, then by sender, then in the sender's order."""
        cdef _Guard access = self._guard()
        self._flush(now)

    cdef int _flush(self, long long now) except -1:
        cdef int kind
        cdef Py_ssize_t k
        cdef Outbox* out
        for kind in range(KINDS):
            out = &self.out[kind]
            if out.n == 0:
                continue
            self._room_for(out.n)
            sort_rows(out.row, self.spare, out.n)
            for k in range(out.n):
                # a row may have more fields than the record, which is its beginning
                self.links._send(now, self.number[kind], &out.row[k], self.nbytes[kind], self.span[kind])
            out.n = 0
        return 0

    # -- the scheduling node --------------------------------------------------------------------------------

    def search(self, jobs: ArrayLike, long long now):
        """Begin a search for each of `jobs` (int64[k]): its scheduling node asks some neighbours at `now` ns.

        The requests are sent by `flush`.
        """
        cdef _Guard access = self._guard()
        cdef const long long[::1] job = indices(jobs, "jobs", 0, self.jobs)
        cdef Py_ssize_t k
        check_instant(now, "now", _LAST)
        for k in range(job.shape[0]):
            if self.phase[job[k]] not in (NEW, WAITING):
                raise ValueError(f"jobs[{k}] must be a new or waiting job, got {job[k]}")
        for k in range(job.shape[0]):
            # a job that is listed twice may already be searching
            if self.phase[job[k]] in (NEW, WAITING):
                self._search(job[k], now)

    cdef int _search(self, Py_ssize_t job, long long now) except -1:
        cdef Py_ssize_t k, n, home = self._home(job)
        cdef Row* row
        cdef long long first = max(self.earliest[job], self._slot_at(now))
        if first > self.latest[job]:
            return self._reject_late(job, first, now)
        if self.failed_searches[job] >= self.tries:
            self._log_failed_searches(GAVE_UP, job, self.tries, now)
            return self._reject(job, "")
        if home < 0:
            return self._wait(job, WAITED_FOR_MACHINES, now)
        self.searches[job] += 1
        self.failed_searches[job] += 1
        self.phase[job] = SEARCHING
        n = self.views._pick(home, job, self.searches[job], self.forward, self.seed, self.known_down)
        negotiation_open(&self.negotiation[job], self.tasks[job], n, self.logs_decisions)
        self._limit_wait(job, now)
        if self.logs_decisions:
            self._log_requests(job, home, n, now)
        for k in range(n):
            row = self._add_message(REQUEST_KIND, self.views.entry[0, k], home, job)
            row.a = self.searches[job]
        if n == 0:
            self._choose(job, now)
        return 0

    cdef int _reject_late(self, Py_ssize_t job, long long start, long long now) except -1:
        """Reject a job whose first possible `start` is too late for its deadline."""
        self._log_decision(TOO_LATE, job, self._seconds(start), self._seconds(self.latest[job]), NAN, 0, now, age=NAN)
        return self._reject(job, "too_late")

    cdef int _reject(self, Py_ssize_t job, str reason) except -1:
        self.phase[job] = FAILED
        self.rejected += 1
        negotiation_drop(&self.negotiation[job])
        self._rejections.append((job, reason))
        return 0

    cdef int _wait(self, Py_ssize_t job, int action, long long now) except -1:
        self.phase[job] = WAITING
        self._log_decision(action, job, self.searches[job], NAN, NAN, 0, now)
        negotiation_drop(&self.negotiation[job])
        self._waiting.append(job)
        return 0

    cdef int _limit_wait(self, Py_ssize_t job, long long now) except -1:
        """Limit the wait for answers or replies if machines may fail, since messages may then be lost."""
        if not self.faults:
            return 0
        self.negotiation[job].due = now + self.patience
        return pending_push(&self.wait_ends, now + self.patience, job, <int> job)

    cdef int _choose(self, Py_ssize_t job, long long now) except -1:
        """Try to reserve the nodes of the best remaining answer; without one, search again, wait, or reject the job."""
        cdef Negotiation* negotiation = self.negotiation[job]
        cdef Py_ssize_t k, best = -1, home = self._home(job)
        cdef Row* row
        cdef int* nodes
        if home < 0:
            return self._wait(job, WAITED_FOR_MACHINES, now)
        if self.logs_decisions:
            self._log_choice(job, home, now)
        for k in range(negotiation.n_answers):
            if negotiation.answer[k].start < 0:
                continue
            if negotiation.answer[k].start * self.slot < now + self.one_way:
                self.late_answers[job] += 1
                negotiation.answer[k].start = -1
            elif best < 0 or negotiation.answer[k].start < negotiation.answer[best].start:
                best = k
        if best >= 0:
            negotiation.start, negotiation.current = negotiation.answer[best].start, negotiation.answer[best].place
            negotiation.answer[best].start = -1
            negotiation.n_reserved, negotiation.missing, negotiation.lost_a_node = 0, negotiation.n_nodes, False
            negotiation_reserved(negotiation)
            self._limit_wait(job, now)
            self.attempt[job] += 1
            self.phase[job] = COMMITTING
            nodes = negotiation.pool + negotiation.current * negotiation.n_nodes
            for k in range(negotiation.n_nodes):
                row = self._add_message(COMMIT_KIND, nodes[k], home, job)
                row.a, row.b = self.attempt[job], negotiation.start
        elif not negotiation.retry_may_help and negotiation.first_late_start >= 0:
            self._reject_late(job, negotiation.first_late_start, now)
        elif not negotiation.retry_may_help and self.faults and self.wide:
            self._wait(job, WAITED_FOR_ROOM, now)  # there may be room when machines have recovered
        elif not negotiation.retry_may_help:
            self._log_decision(TOO_LARGE, job, self.most_candidates[job], self.tasks[job], NAN, 0, now, age=NAN)
            self._reject(job, "too_large")
        elif self.failed_searches[job] % self.rounds == 0:
            self._wait(job, WAITED, now)
        else:
            self._log_failed_searches(SEARCHED_AGAIN, job, self.rounds, now)
            self._search(job, now)
        return 0

    cdef int _abort(self, Py_ssize_t job, long long now) except -1:
        """Release the machines that have committed to the job, and try the next answer."""
        cdef Negotiation* negotiation = self.negotiation[job]
        self._log_decision(RELEASED, job, negotiation.n_reserved, negotiation.n_nodes, NAN, negotiation.n_reserved, now,
                           age=NAN)
        self.conflicts[job] += 1
        qsort(negotiation.reserved, negotiation.n_reserved, sizeof(int), ascending)
        self._cancel(job, negotiation.reserved, negotiation.n_reserved)
        self.attempt[job] += 1  # so that replies to the old attempt are ignored
        return self._choose(job, now)

    cdef int _cancel(self, Py_ssize_t job, const int* nodes, Py_ssize_t n) except -1:
        """Cancel the job at `n` nodes; if all nodes of the grid are down, do nothing, since they have lost the job."""
        cdef Py_ssize_t k, home = self._home(job)
        cdef Row* row
        for k in range(n if home >= 0 else 0):
            row = self._add_message(CANCEL_KIND, nodes[k], home, job)
            row.a, row.b = self.attempt[job], self.negotiation[job].start
        return 0

    cdef int _place(self, Py_ssize_t job, long long now) except -1:
        cdef Negotiation* negotiation = self.negotiation[job]
        cdef bint lost_a_node = negotiation.lost_a_node
        cdef double start = self._seconds(negotiation.start)
        self._log_decision(PLACES, job, start, NAN, NAN if lost_a_node else start, negotiation.n_nodes, now, age=NAN)
        negotiation_place(negotiation)
        self.phase[job] = BROKEN if lost_a_node else PLACED
        self.failed_searches[job], self.reserved_slots[job] = 0, self.length[job]
        if lost_a_node:
            return 0  # the failure of the machine is detected later
        self._watch(job)
        return pending_push(&self.run_ends, max(negotiation.start * self.slot + self.run_time[job], now), job,
                            <int> job)

    cdef int _end_waits(self, long long now) except -1:
        """End the waits for answers or replies that are due by `now` ns."""
        cdef const Event* first
        cdef Py_ssize_t job
        while True:
            first = self._first_wait_end()
            if first == NULL or first.time > now:
                return 0
            job = pending_pop(&self.wait_ends).slot
            self._log_decision(OVERDUE, job, self.negotiation[job].missing, NAN, self.negotiation[job].missing, 0, now)
            if self.phase[job] == SEARCHING:
                self.negotiation[job].retry_may_help = True
                self._choose(job, now)
            else:
                self._abort(job, now)

    cdef const Event* _first_wait_end(self) noexcept nogil:
        """Return the earliest end of a wait; NULL if no job waits."""
        cdef const Event* first
        cdef const Negotiation* negotiation
        while True:
            first = pending_first(&self.wait_ends)
            if first == NULL:
                return NULL
            negotiation = self.negotiation[first.slot]
            if (negotiation != NULL and negotiation.due == first.time
                    and (self.phase[first.slot] == SEARCHING or self.phase[first.slot] == COMMITTING)):
                return first
            pending_pop(&self.wait_ends)

    # -- cancellation by users -------------------------------------------------------------------------------

    def cancel(self, Py_ssize_t job, long long now):
        """Cancel a job at `now` ns on behalf of its user, unless it is over; messages are sent by `flush`.

        For a placed job, call `start_of` and `machines_of` before.
        """
        cdef _Guard access = self._guard()
        self._check(job)
        check_instant(now, "now", _LAST)
        cdef Negotiation* negotiation = self.negotiation[job]
        cdef int* nodes = NULL
        cdef Py_ssize_t n = 0
        if self.phase[job] in (DONE, FAILED, CANCELLED):
            return
        if negotiation != NULL and self.phase[job] == COMMITTING:
            nodes, n = negotiation.reserved, negotiation.n_reserved
        elif negotiation != NULL and self.phase[job] in (PLACED, BROKEN):
            nodes, n = negotiation.pool, negotiation.n_nodes
        self._log_decision(CALLED_OFF, job, n, NAN, NAN, n, now, age=NAN)
        qsort(nodes, n, sizeof(int), ascending)
        self._cancel(job, nodes, n)
        self.attempt[job] += 1  # so that replies to the old attempt are ignored
        self.phase[job] = CANCELLED
        self.rejected += 1
        negotiation_drop(&self.negotiation[job])

    # -- failures -------------------------------------------------------------------------------------------

    def fail(self, nodes: ArrayLike):
        """Drop the searches under way at `nodes` (int64[k]), which have just failed."""
        cdef _Guard access = self._guard()
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        for k in range(u.shape[0]):
            delayed_drop(&self.delayed_answers, u[k])

    def lose_node(self, Py_ssize_t job, long long attempt) -> int:
        """Record the failure of a node that had reserved slots for this attempt to place a job.

        Returns the phase that the failure affects: COMMITTING if the job is being placed there, and no other machine
        of this allocation has failed before; BROKEN if it was placed there and has lost the machine; else NEW.
        """
        cdef _Guard access = self._guard()
        self._check(job)
        return self._lose_node(job, attempt)

    cdef int _lose_node(self, Py_ssize_t job, long long attempt) except -1:
        cdef Negotiation* negotiation = self.negotiation[job]
        if negotiation == NULL or self.attempt[job] != attempt:
            return NEW
        if self.phase[job] == PLACED:
            self.phase[job] = BROKEN
            return BROKEN
        if self.phase[job] == COMMITTING and not negotiation.lost_a_node:
            negotiation.lost_a_node = True
            return COMMITTING
        return NEW

    def detect_failure(self, Py_ssize_t job, long long now, failed: float = NAN):
        """Detect at `now` ns, at the scheduling node of a job, that a machine has failed; find other nodes for the job.

        Parameters
        ----------
        failed
            The number of machines of the job that have failed so far, for the log of decisions.
        """
        cdef _Guard access = self._guard()
        self._check(job)
        check_instant(now, "now", _LAST)
        cdef Negotiation* negotiation = self.negotiation[job]
        if negotiation == NULL:
            return
        if self.phase[job] == BROKEN:
            self.resubmitted[job] += negotiation.n_nodes
            self._log_decision(MISSED, job, 1, NAN, failed, negotiation.n_nodes, now, age=self.detection / _NS)
            self._cancel(job, negotiation.pool, negotiation.n_nodes)
            self._search(job, now)
        elif self.phase[job] == COMMITTING and negotiation.lost_a_node:
            self._abort(job, now)

    # -- messages that arrive -------------------------------------------------------------------------------

    cdef Py_ssize_t _take_messages(self, int kind, long long now) except -1:
        """Copy the messages of `kind` that arrive at `now` ns into `row`, ordered by receiver; return their number."""
        cdef Py_ssize_t k, n = self.links._take(self.number[kind], now)
        cdef const Row* record
        cdef long long start
        cdef int fields = self.fields[kind]
        self.links._sort_by_node(n)
        self._room_for(n)
        for k in range(n):
            record = <const Row*> (self.links.data + self.links.due[k].slot * self.links.stride)
            self.row[k].node, self.row[k].sender, self.row[k].job = record.node, record.sender, record.job
            self.row[k].a = record.a
            if fields > 4:
                self.row[k].b = record.b
            if fields > 5:
                self.row[k].c = record.c
            self.links._free_slot(self.links.due[k].slot)
            # a state from a file may have any values here
            start = -1 if kind in (REQUEST_KIND, DISPLACED_KIND) else self.row[k].b
            if not (0 <= self.row[k].job < self.jobs and -1 <= start <= LATEST // self.slot):
                raise ValueError(f"links must have messages for jobs below {self.jobs} and slots up to "
                                 f"{LATEST // self.slot}, got job {self.row[k].job} and slot {start}")
        return n

    cdef bint _arrive(self, long long now) except -1:
        """Handle the messages that arrive now; False if there are none."""
        cdef Py_ssize_t k, n, total = 0
        n = self._take_messages(CANCEL_KIND, now)
        for k in range(n):
            self._handle_cancel(&self.row[k], now)
        total += n
        n = self._take_messages(REQUEST_KIND, now)
        for k in range(n):
            self._handle_request(&self.row[k], now)
        total += n
        n = self._take_messages(ANSWER_KIND, now)
        total += n
        self._handle_answers(n, now)
        n = self._take_messages(COMMIT_KIND, now)
        for k in range(n):
            self._handle_commit(&self.row[k], now)
        total += n
        n = self._take_messages(REPLY_KIND, now)
        for k in range(n):
            self._handle_reply(&self.row[k], now)
        total += n
        if self.number[DISPLACED_KIND] >= 0:
            n = self._take_messages(DISPLACED_KIND, now)
            for k in range(n):
                self._search_displaced(self.row[k].job, self.row[k].a, now)
            total += n
        return total > 0

    cdef int _handle_cancel(self, const Row* row, long long now) except -1:
        cdef long long end = max(row.b, self._slot_at(now)), claim_number = claim(row.job, row.a)
        if self.schedules._release(&self.schedules.node[row.node], row.b, end, claim_number, False, now) and self.push:
            self.changes[row.node] += 1
        if (self.phase[row.job] == CANCELLED
                or (self.faults and (self.resubmitted[row.job] or self.phase[row.job] == BROKEN))):
            self._cancellations.append((row.job, row.node, row.a, now))
        return 0

    cdef int _handle_request(self, const Row* row, long long now) except -1:
        cdef Py_ssize_t k, job = row.job, n = self.tasks[job]
        cdef Negotiation* negotiation
        cdef SearchQuery query
        cdef Row answer
        cdef int* nodes
        cdef long long start, n_opened, wait, got, ready = now + 4 * self.one_way
        query.n_nodes, query.slots, query.include_searcher = n, self.length[job], not self.exclude_home
        query.exclude = self.submitter[job] if self.exclude_home else -1
        query.hops, query.wide, query.poll_period, query.until = self.hops, self.wide, 0, 0
        query.as_of = NEVER - 1
        query.suitable = NULL if self.suitable is None else &self.suitable[self.group[job], 0]
        if self.poll:
            query.poll_period, query.until = self.period, now - self.latency
        elif self.stale and self.push:
            query.as_of = now - self.latency
        query.not_before = max(self.earliest[job], self._slot_at(ready + self.at_least))
        while True:
            n_opened = 0
            start = self.schedules._search(&query, self.views.view, self.known_down,
                                           self.first_poll if self.poll else None, row.node, &n_opened)
            # opening neighbours takes time, so this start may be too early by then
            wait = self.at_least + n_opened * self.opening
            if start < 0 or start * self.slot >= ready + wait:
                break
            query.not_before = max(start + 1, self._slot_at(ready + wait))
        got = n_opened * self.width + (self.width if self.pull else 0)
        self.received[row.node] += got
        self.counts[1 if self.pull else 3] += got
        self.most_candidates[job] = max(self.most_candidates[job], self.schedules.n_candidates)
        negotiation = self._current_negotiation(job, row.a)
        if negotiation != NULL and negotiation.n_results < negotiation.n_asked:
            negotiation.results[negotiation.n_results].searcher = <int> row.node
            negotiation.results[negotiation.n_results].place = negotiation.n_results
            negotiation.n_results += 1
            if start >= 0:
                nodes = negotiation_pool(negotiation) + (negotiation.n_results - 1) * n
                self.schedules._choose(n, start, self.length[job], self.selection)
                for k in range(n):
                    nodes[k] = <int> self.selection[k]
            if self.logs_decisions:
                self._log_search(row, query.not_before, n_opened, self._slot_at(ready + wait), now)
        answer.node, answer.sender, answer.job, answer.a, answer.b = row.sender, row.node, job, row.a, start
        if wait == 0:
            return self._answer(&answer, now)
        return delayed_add(&self.delayed_answers, now + wait, &answer)

    cdef Negotiation* _current_negotiation(self, Py_ssize_t job, long long search) noexcept nogil:
        """Return the negotiation about a job if `search` is its current search, else NULL."""
        if self.searches[job] == search and (self.phase[job] == SEARCHING or self.phase[job] == COMMITTING):
            return self.negotiation[job]
        return NULL

    cdef bint _send_delayed_answers(self, long long now) except -1:
        """Send the answers of searches that end by `now` ns, in the order of searchers; False if there are none."""
        cdef const Row* row
        cdef Py_ssize_t k, n = 0
        while True:
            row = delayed_take(&self.delayed_answers, now)
            if row == NULL:
                break
            self._room_for(n + 1)
            self.row[n] = row[0]
            n += 1
        sort_rows(self.row, self.spare, n)
        for k in range(n):
            self._answer(&self.row[k], now)
        return n > 0

    cdef int _answer(self, const Row* answer, long long now) except -1:
        cdef Row* row = self._add_message(ANSWER_KIND, answer.node, answer.sender, answer.job)
        row.a, row.b = answer.a, answer.b
        if self.logs_decisions:
            self._log_answer(answer, now)
        return 0

    cdef int _handle_answers(self, Py_ssize_t n, long long now) except -1:
        cdef Py_ssize_t k, i, job, complete = 0
        cdef Negotiation* negotiation
        cdef Row* row
        for k in range(n):
            row = &self.row[k]
            job = row.job
            negotiation = self.negotiation[job]
            # a state from a file may contain an answer twice
            if (self.searches[job] != row.a or self.phase[job] != SEARCHING or negotiation == NULL
                    or negotiation.missing <= 0):
                continue
            if row.b > self.latest[job]:
                if negotiation.first_late_start < 0 or row.b < negotiation.first_late_start:
                    negotiation.first_late_start = row.b
            elif row.b >= 0:
                for i in range(negotiation.n_results):
                    if negotiation.results[i].searcher == row.sender:
                        negotiation.answer[negotiation.n_answers].start = row.b
                        negotiation.answer[negotiation.n_answers].place = negotiation.results[i].place
                        negotiation.n_answers += 1
                        negotiation.retry_may_help = True
                        break
            negotiation.missing -= 1
            if negotiation.missing == 0:
                # collect the jobs that have all answers at the front of `spare`
                self.spare[complete].job = job
                complete += 1
        for k in range(complete):
            self._choose(self.spare[k].job, now)
        return 0

    cdef int _handle_commit(self, const Row* row, long long now) except -1:
        cdef Row* reply = self._add_message(REPLY_KIND, row.sender, row.node, row.job)
        cdef long long end = row.b + self.length[row.job]
        reply.a, reply.b, reply.c = row.a, row.b, 0
        if (row.b * self.slot >= now
                and self.schedules._reserve(&self.schedules.node[row.node], row.b, end, claim(row.job, row.a), now)):
            reply.c = 1
            if self.push:
                self.changes[row.node] += 1
        elif self.logs_decisions:
            self._log_refusal(row, now)
        return 0

    cdef int _handle_reply(self, const Row* row, long long now) except -1:
        cdef Py_ssize_t job = row.job
        cdef Negotiation* negotiation = self.negotiation[job]
        cdef Row* cancel
        if (row.a != self.attempt[job] or self.phase[job] != COMMITTING or negotiation == NULL
                or negotiation.missing <= 0):
            if row.c == 1:
                cancel = self._add_message(CANCEL_KIND, row.sender, row.node, job)
                cancel.a, cancel.b = row.a, row.b
            return 0
        if row.c == 1:
            negotiation.reserved[negotiation.n_reserved] = <int> row.sender
            negotiation.n_reserved += 1
        negotiation.missing -= 1
        if negotiation.missing:
            return 0
        if negotiation.n_reserved < negotiation.n_nodes:
            return self._abort(job, now)
        return self._place(job, now)

    # -- jobs that outlive their reservations ----------------------------------------------------------------

    def extend_reservations(self, long long now):
        """Extend the reservations that end by `now` ns and that their jobs outlive; messages are sent by `flush`."""
        cdef _Guard access = self._guard()
        check_instant(now, "now", _LAST)
        self._extend_all(now)

    cdef int _extend_all(self, long long now) except -1:
        cdef const Event* first
        cdef Py_ssize_t job, k
        cdef Negotiation* negotiation
        while True:
            first = self._first_reservation_end()
            if first == NULL or first.time > now:
                return 0
            job = pending_pop(&self.reservation_ends).slot
            negotiation = self.negotiation[job]
            for k in range(negotiation.n_nodes):
                self._extend(job, negotiation.pool[k], now)
            self.reserved_slots[job] = self._extended_length(job)
            self._watch(job)

    cdef const Event* _first_reservation_end(self) noexcept nogil:
        """Return the earliest end of a reservation that its job outlives; NULL if there is none."""
        cdef const Event* first
        cdef const Negotiation* negotiation
        while True:
            first = pending_first(&self.reservation_ends)
            if first == NULL:
                return NULL
            negotiation = self.negotiation[first.slot]
            if (negotiation != NULL and self.phase[first.slot] == PLACED
                    and (negotiation.start + self.reserved_slots[first.slot]) * self.slot == first.time
                    and negotiation.start * self.slot + self.run_time[first.slot] > first.time):
                return first
            pending_pop(&self.reservation_ends)

    cdef long long _extended_length(self, Py_ssize_t job) noexcept nogil:
        """Return the reserved slots of a job after its next extension: one more, then twice as many each time."""
        return 2 * self.reserved_slots[job] - self.length[job] + 1

    cdef int _extend(self, Py_ssize_t job, Py_ssize_t u, long long now) except -1:
        """Extend the reservation of node `u` for a job; notify the scheduling nodes of jobs that this displaces."""
        cdef Node* node = &self.schedules.node[u]
        cdef long long start = self.negotiation[job].start, end = start + self._extended_length(job)
        cdef long long claim_number, attempt
        cdef Py_ssize_t other_job, k, i = self.schedules._extendable(node, start, end, claim(job, self.attempt[job]))
        cdef Py_ssize_t until
        cdef Row* row
        cdef Decision* d
        if i < 0:
            return 0
        until = self.schedules._first_beyond(node, i, end)
        self.extended += 1
        if self.logs_decisions:
            decisions_add(&self.log, EXTENDED, now, job, u, &d)
            if d != NULL:
                d.saw = d.true_ = self._seconds(end)
                d.among, d.age = until - i - 1, 0
        for k in range(i + 1, until):
            claim_number = node.info[k].job
            other_job, attempt = <Py_ssize_t> (claim_number & 0xFFFFFFFF), claim_number >> 32
            if not 0 <= other_job < self.jobs:
                raise ValueError(f"schedules must have reservations for jobs below {self.jobs}, got {other_job}")
            row = self._add_message(DISPLACED_KIND, self._home(other_job), u, other_job)
            row.a = attempt
            if self._lose_node(other_job, attempt) != NEW and self.faults:
                self._displacements.append((other_job, attempt))
        self.schedules._extend(node, i, end, now)
        if self.push:
            self.changes[u] += 1
        return 0

    def search_displaced(self, Py_ssize_t job, long long attempt, long long now):
        """Find other nodes for `job` at `now` ns if `attempt`, which was displaced, is still its current attempt."""
        cdef _Guard access = self._guard()
        self._check(job)
        check_instant(now, "now", _LAST)
        self._search_displaced(job, attempt, now)

    cdef int _search_displaced(self, Py_ssize_t job, long long attempt, long long now) except -1:
        """Find other nodes for `job` if `attempt` is still its current attempt."""
        cdef Negotiation* negotiation = self.negotiation[job]
        if negotiation == NULL or attempt != self.attempt[job]:
            return 0
        if self.phase[job] == BROKEN:
            self.displaced += 1
            self._log_decision(DISPLACED, job, 1, NAN, NAN, negotiation.n_nodes, now, age=NAN)
            self._cancel(job, negotiation.pool, negotiation.n_nodes)
            self._search(job, now)
        elif self.phase[job] == COMMITTING:
            self._abort(job, now)
        return 0

    # -- jobs that end --------------------------------------------------------------------------------------

    def finish(self, long long now):
        """End the jobs that are due by `now` ns, on all their machines."""
        cdef _Guard access = self._guard()
        self._finish_all(now)

    def end_waits(self, long long now):
        """End the waits for answers or replies that are due by `now` ns; messages are sent by `flush`."""
        cdef _Guard access = self._guard()
        check_instant(now, "now", _LAST)
        self._end_waits(now)

    cdef int _finish_all(self, long long now) except -1:
        cdef const Event* first
        while True:
            first = pending_first(&self.run_ends)
            if first == NULL or first.time > now:
                return 0
            self._finish(pending_pop(&self.run_ends).slot, now)

    cdef int _finish(self, Py_ssize_t job, long long now) except -1:
        cdef Negotiation* negotiation = self.negotiation[job]
        cdef Py_ssize_t k
        # a lost run does not end the job, which may have been placed again
        if self.phase[job] != PLACED or negotiation.start * self.slot + self.run_time[job] > now:
            return 0
        cdef long long start = negotiation.start * self.slot, end = start + self.run_time[job]
        cdef long long to = max(self._slot_at(now), negotiation.start), claim_number = claim(job, self.attempt[job])
        self.phase[job] = DONE
        self.completed += 1
        if self.first_start[job] < 0:
            self.first_start[job] = start
        self.end[job], self.done[job] = end, negotiation.n_nodes
        for k in range(negotiation.n_nodes):
            self.busy_time[negotiation.pool[k]] += end - start
            self.tasks_done[negotiation.pool[k]] += 1
            if (not self.keep_slots
                    and self.schedules._release(&self.schedules.node[negotiation.pool[k]], negotiation.start, to,
                                                claim_number, False, now)
                    and self.push):
                self.changes[negotiation.pool[k]] += 1
        if not self.record and self.resubmitted[job] == 0:
            negotiation_drop(&self.negotiation[job])
        return 0

    # -- time -----------------------------------------------------------------------------------------------

    def advance(self, long long limit) -> int:
        """Run up to `limit` ns; return the first instant <= limit at which the caller must act, else 2**63 - 1.

        Messages that arrive at `limit` are handled here, since messages come first at an instant.
        Jobs, waits and reservations that end at `limit` are left to the caller, which calls `finish`, `end_waits`
        and `extend_reservations`, in this order.  The caller must always call `flush`, since messages that take no
        time are handled only after it has acted.
        """
        cdef _Guard access = self._guard()
        cdef long long at, ends
        cdef const Event* first
        cdef bint has_arrivals
        while True:
            first = pending_first(&self.run_ends)
            ends = NEVER if first == NULL else first.time
            first = self._first_wait_end()
            ends = ends if first == NULL else min(ends, first.time)
            first = self._first_reservation_end()
            ends = ends if first == NULL else min(ends, first.time)
            first = delayed_first(&self.delayed_answers)
            at = NEVER if first == NULL else first.time
            at = min(self.links._advance(min(limit, min(at, ends))), at)
            if min(at, ends) > limit or min(at, ends) == NEVER:
                return NEVER
            if ends < at:
                if ends == limit:
                    if self.reported_end == limit:
                        return NEVER
                    self.reported_end = limit
                    return limit
                self._finish_all(ends)
                if not self.is_over:
                    self._end_waits(ends)
                    self._extend_all(ends)
                self._hand_over_if_many()
                if self.is_over or self._waiting or self._rejections or self._displacements:
                    return ends
                self._flush(ends)
                continue
            has_arrivals = False
            while True:
                # searches answer only after the messages of this instant
                arrived = self._arrive(at)
                arrived = self._send_delayed_answers(at) or arrived
                if not arrived:
                    break
                has_arrivals = True
                if self.is_over:
                    break
                self._flush(at)
                self.links._advance(at)
            self._hand_over_if_many()
            # return, so that the caller handles waiting and rejected jobs, and messages of other kinds
            if self._waiting or self._rejections or not has_arrivals:
                return at

    # -- the log of decisions, see `gridsim.schedulers.dgs.decisions` ----------------------------------------

    cdef int _hand_over_if_many(self) except -1:
        if self.log.n >= DECISIONS:
            self._hand_over()
        return 0

    cdef double _seconds(self, long long slot) noexcept nogil:
        return <double> (slot * self.slot) / _NS

    cdef double _age(self, long long as_of, long long now) noexcept nogil:
        """Return the age (s) of knowledge as of `as_of` ns, at most `now`: nothing changed before the time 0."""
        return <double> (now - max(as_of, 0)) / _NS

    cdef int _log_decision(self, int action, Py_ssize_t job, double saw, double limit, double true_, long long tasks,
                      long long now, double age=0.0) except -1:
        """Log a decision of the scheduling node of `job`, or of the node that acts for it."""
        cdef Decision* d
        cdef Py_ssize_t home
        if not self.logs_decisions:
            return 0
        home = self._home(job)
        decisions_add(&self.log, action, now, job, self.submitter[job] if home < 0 else home, &d)
        if d != NULL:
            d.saw, d.limit, d.true_, d.age, d.tasks = saw, limit, true_, age, tasks
        return 0

    cdef int _log_failed_searches(self, int action, Py_ssize_t job, long long limit, long long now) except -1:
        return self._log_decision(action, job, self.failed_searches[job], limit, self.failed_searches[job], 0, now)

    cdef int _log_requests(self, Py_ssize_t job, Py_ssize_t home, Py_ssize_t n, long long now) except -1:
        """Log that a scheduling node requests a search from the `n` nodes that it has picked."""
        cdef Py_ssize_t k, known = 0
        cdef Decision* d
        cdef int other_job
        for k in range(self.views.view.shape[1]):
            other_job = self.views.view[home, k]
            known += other_job >= 0 and (self.known_down is None or not self.known_down[other_job])
        for k in range(n):
            decisions_add(&self.log, ASKED, now, job, home, &d)
            if d != NULL:
                d.machine, d.among = self.views.entry[0, k], known
        return 0

    cdef int _log_choice(self, Py_ssize_t job, Py_ssize_t home, long long now) except -1:
        """Log the answers that are dropped because a commit would arrive too late, and the chosen answer."""
        cdef Negotiation* negotiation = self.negotiation[job]
        cdef Py_ssize_t k, best, at = -1
        cdef long long left, start = -1, since = now + self.one_way
        cdef bint is_late = True
        while is_late:
            best, left = -1, 0
            for k in range(negotiation.n_answers):
                # find the next answer in order of start, then of arrival
                if negotiation.answer[k].start > start or (negotiation.answer[k].start == start >= 0 and k > at):
                    left += 1
                    if best < 0 or negotiation.answer[k].start < negotiation.answer[best].start:
                        best = k
            if best < 0:
                return 0
            start, at = negotiation.answer[best].start, best
            is_late = start * self.slot < since
            self._log_choice_among(DROPPED if is_late else CHOSE, negotiation, &negotiation.answer[best], job, home,
                                   left, now)
        return 0

    cdef int _log_choice_among(self, int action, const Negotiation* negotiation, const Answer* answer,
                               Py_ssize_t job, Py_ssize_t home, long long left, long long now) except -1:
        """Log a choice among `left` answers.

        The true value is the first slot, from the start in the answer on, from which all its machines are free.  If
        that start is past, the search begins at the present slot, since earlier reservations are not stored.
        """
        cdef const int* nodes = negotiation.pool + answer.place * <Py_ssize_t> negotiation.n_nodes
        cdef long long since = max(answer.start, self._slot_at(now))
        cdef long long as_of = negotiation.search_records[answer.place].oldest if since == answer.start else -1
        cdef Decision* d
        cdef Py_ssize_t k, n = negotiation.n_nodes
        decisions_add(&self.log, action, now, job, home, &d)
        if d == NULL:
            return 0
        d.machine, d.tasks, d.among = negotiation.results[answer.place].searcher, n, left
        d.saw, d.limit = self._seconds(answer.start), <double> (now + self.one_way) / _NS
        d.age = self._age(negotiation.search_records[answer.place].oldest, now)
        self.observations = <Observation*> reallocate(self.observations, n * sizeof(Observation))
        for k in range(n):
            self.observations[k].node, self.observations[k].as_of = nodes[k], as_of
        d.true_ = self._seconds(self.schedules._true_start(self.observations, n, nodes, n, self.length[job], since,
                                                           since))
        return 0

    cdef int _log_search(self, const Row* request, long long first, long long n_opened, long long left,
                              long long now) except -1:
        """Store the knowledge behind the answer of the last search, and log that it has opened neighbours.

        Parameters
        ----------
        first
            The first slot that the search considered.
        left
            The first slot that leaves enough time for all messages.
        """
        cdef SlotSchedules schedules = self.schedules
        cdef Negotiation* negotiation = self.negotiation[request.job]
        cdef SearchRecord* record = &negotiation.search_records[negotiation.n_results - 1]
        cdef long long oldest = now, as_of, free_ = schedules.own_free, slots = self.length[request.job]
        cdef const Node* node
        cdef Py_ssize_t k
        cdef Decision* d
        record.observations = <Observation*> reallocate(record.observations,
                                                        schedules.n_candidates * sizeof(Observation))
        record.n, record.slot, record.oldest = <int> schedules.n_candidates, max(left, first), now
        for k in range(schedules.n_candidates):
            # the searcher knows its own present schedule
            record.observations[k].node = schedules.candidates[k].node
            record.observations[k].as_of = max(min(schedules.candidates[k].as_of, now), -1)
            record.oldest = min(record.oldest, record.observations[k].as_of)
        if not n_opened:
            return 0
        decisions_add(&self.log, OPENED, now, request.job, request.node, &d)
        if d == NULL:
            return 0
        for k in range(schedules.n_own):
            node, as_of = &schedules.node[record.observations[k].node], record.observations[k].as_of
            oldest = min(oldest, as_of)
            if node.latest > as_of or node.released.n:  # its schedule may have changed since it was seen
                free_ += schedules._is_free(node, now, first, slots) - schedules._is_free(node, as_of, first, slots)
        d.machine, d.tasks, d.among = request.sender, n_opened, schedules.n_own
        d.saw, d.limit, d.true_, d.age = schedules.own_free, negotiation.n_nodes, free_, self._age(oldest, now)
        return 0

    cdef int _log_answer(self, const Row* answer, long long now) except -1:
        """Log that a searcher answers; the true value is the earliest start on its candidates at present."""
        cdef Negotiation* negotiation = self._current_negotiation(answer.job, answer.a)
        cdef SearchRecord* record
        cdef Decision* d
        cdef Py_ssize_t k = 0
        cdef long long true_
        while negotiation != NULL and k < negotiation.n_results and negotiation.results[k].searcher != answer.sender:
            k += 1
        if negotiation == NULL or k == negotiation.n_results or (answer.b >= 0 and negotiation.pool == NULL):
            return 0
        record = &negotiation.search_records[k]
        decisions_add(&self.log, ANSWERED if answer.b >= 0 else UNREACHED, now, answer.job, answer.sender, &d)
        if d != NULL:
            d.machine, d.tasks, d.age = answer.node, negotiation.n_nodes, self._age(record.oldest, now)
            if answer.b < 0:
                d.saw, d.limit, d.true_ = record.n, negotiation.n_nodes, record.n
            else:
                true_ = answer.b
                if self.stale:  # else the searcher's knowledge is up to date
                    true_ = self.schedules._true_start(
                        record.observations, record.n, negotiation.pool + k * negotiation.n_nodes,
                        negotiation.n_nodes, self.length[answer.job], record.slot, answer.b)
                d.among, d.saw, d.limit, d.true_ = record.n, self._seconds(answer.b), self._seconds(record.slot), \
                    self._seconds(true_)
        free(record.observations)
        record.observations, record.n = NULL, 0
        return 0

    cdef int _log_refusal(self, const Row* commit, long long now) except -1:
        """Log that a machine refuses a commit; the threshold is its first possible start; `now` for a late commit."""
        cdef bint timely = commit.b * self.slot >= now
        cdef Decision* d
        cdef Observation node
        node.node, node.as_of = <int> commit.node, -1
        decisions_add(&self.log, REFUSED if timely else REFUSED_LATE, now, commit.job, commit.node, &d)
        if d != NULL:
            d.machine, d.saw, d.age, d.limit = commit.sender, self._seconds(commit.b), 0, <double> now / _NS
            if timely:
                d.limit = self._seconds(self.schedules._true_start(&node, 1, &node.node, 1, self.length[commit.job],
                                                                   commit.b, commit.b))
        return 0
