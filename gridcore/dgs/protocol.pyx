"""The compiled protocol of DGS_ASAP: searches, answers, commits and ends of jobs, without Python handlers.

`DgsProtocol` ties the slot schedules, the overlay's views and the links together.  It runs everything that happens
between two instants at which the caller must act: requests that arrive, searches that take time, allocations that
are tried one after the other, waits that are limited, and jobs that end.  The caller tells it which machines fail
(`fail`), what jobs lose by that (`hit`), and when their scheduling nodes learn of it (`missed`).  It has no reference
implementation of its own: it is tested by the digest, which is the same in a run of the node program.
"""

from libc.math cimport NAN
from libc.stdlib cimport free, qsort

from gridcore.common.arguments cimport _Guard, check_instant, indices
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.common.memory cimport reallocate
from gridcore.common.pending cimport Event, pending_first, pending_pop, pending_push
from gridcore.dgs.negotiations cimport (ANSWER_KIND, BROKEN, CANCEL_KIND, CANCELLED, COMMIT_KIND, COMMITTING,
                                        DISPLACED_KIND, DONE, FAILED, KINDS, NEW, PLACED, REPLY_KIND, REQUEST_KIND, SEARCHING, WAITING,
                                        Negotiations)
from gridcore.dgs.decision_log cimport (ANSWERED, ASKED, CALLED_OFF, CHOSE, DECISIONS, DISPLACED, DROPPED, EXTENDED, GAVE_UP,
                                        MISSED, OPENED, OVERDUE, PLACES, REFUSED, REFUSED_LATE, RELEASED, SEARCHED_AGAIN, TOO_LARGE,
                                        TOO_LATE, UNREACHED, WAITED, WAITED_FOR_MACHINES, WAITED_FOR_ROOM, Decision,
                                        decisions_add)
from gridcore.dgs.outbox cimport (Outbox, Row, delayed_add, delayed_drop, delayed_first, delayed_take, outbox_add,
                                  sort_rows)
from gridcore.dgs.slots cimport Node, Quest, Seen, SlotSchedules
from gridcore.dgs.talks cimport Answer, Looked, Talk, claim, talk_drop, talk_open, talk_place, talk_pool, talk_taken

import numpy as np


__all__ = ["DgsProtocol"]

# The largest instant that a caller may give, ns.
cdef long long _LAST = 8 * 10**17
cdef double _NS = 1e9


cdef int ascending(const void* x, const void* y) noexcept nogil:
    cdef int a = (<const int*> x)[0], b = (<const int*> y)[0]
    return -1 if a < b else a > b


cdef class DgsProtocol(Negotiations):
    """Runs the negotiations about jobs over `links`.

    Raises ValueError for arrays that do not fit.

    Parameters
    ----------
    schedules, views, links
        The objects that the policy uses, too.
    kinds
        For cancel, request, answer, commit, reply and displaced: (number in `links`, bytes of a message).
        The number of displaced is -1 if no job outlives what it reserves.
    jobs
        Name -> array over all jobs, shared with the policy: phase (int8); tasks, length (slots), lasts (ns),
        submitter, attempt, searches, in_vain, conflicts, late, reached, resubmitted, first_start, end (ns),
        done, group, earliest and latest (the slots between which each job may start), and held, the slots
        that a job has reserved that is placed, which grow while it outlives them (int64).
    nodes
        Name -> array over all nodes, shared: received, changes, busy (ns), tasks, first (ns, first poll;
        int64); up, away (whether it is known to have failed; bool).
    counts
        int64[5], number of schedules exchanged by kind, shared.
    settings
        Slot, one_way, latency, at_least, opening, period, patience, detection (ns); forward, hops, rounds,
        tries, width, seed; log, the most decisions that are kept; wide, others, keep, push, pull, poll,
        stale, record, faults (0 or 1).  With others, neither the searcher nor the scheduling node is a
        candidate.  With keep, a job that ends early keeps its slots.  With record, `machines_of` also works
        for all jobs that are done, otherwise only for those that were submitted again.  With faults, machines
        may fail.
    suited
        bool[groups, nodes], the nodes that may run the jobs of each group; None: all nodes may run all jobs.
    decided
        Callable, (rows, lost), for decisions: `gridcore.dgs.state.DECISION` records that have been taken
        since the last call, in order, and how many more there have been beyond those that are kept.  It is
        called from time to time, by `getstate` and by `hand_over`.  None: they are not recorded, which
        changes nothing else.
    """
    # -- messages that are sent -----------------------------------------------------------------------------

    cdef Row* _out(self, int kind, long long node, long long sender, long long job) except NULL nogil:
        return outbox_add(&self.out[kind], node, sender, job)

    def flush(self, long long now):
        """Send the messages of the wave that is over, by kind, then by sender, then in the sender's own order."""
        cdef _Guard alone = self._guard()
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
                # a record consists of the first fields of a row
                self.links._send(now, self.number[kind], &out.row[k], self.nbytes[kind], self.span[kind])
            out.n = 0
        return 0

    # -- the scheduling node --------------------------------------------------------------------------------

    def search(self, jobs: ArrayLike, long long now):
        """Begin a search for each of `jobs` (int64[k]): its scheduling node asks some neighbours at `now` ns.

        The requests are sent by `flush`.
        """
        cdef _Guard alone = self._guard()
        cdef const long long[::1] job = indices(jobs, "jobs", 0, self.jobs)
        cdef Py_ssize_t k
        check_instant(now, "now", _LAST)
        for k in range(job.shape[0]):
            if self.phase[job[k]] not in (NEW, WAITING):
                raise ValueError(f"jobs[{k}] must be a job that is new or waits, got {job[k]}")
        for k in range(job.shape[0]):
            # a job that is named twice may be in a search already
            if self.phase[job[k]] in (NEW, WAITING):
                self._search(job[k], now)

    cdef int _search(self, Py_ssize_t job, long long now) except -1:
        cdef Py_ssize_t k, n, home = self._home(job)
        cdef Row* row
        cdef long long first = max(self.earliest[job], self._slot_at(now))
        if first > self.latest[job]:
            return self._miss(job, first, now)
        if self.in_vain[job] >= self.tries:
            self._decides_in_vain(GAVE_UP, job, self.tries, now)
            return self._give_up(job, "")
        if home < 0:
            return self._wait(job, WAITED_FOR_MACHINES, now)
        self.searches[job] += 1
        self.in_vain[job] += 1
        self.phase[job] = SEARCHING
        n = self.views._pick(home, job, self.searches[job], self.forward, self.seed, self.gone)
        talk_open(&self.talk[job], self.tasks[job], n, self.recorded)
        self._limit_wait(job, now)
        if self.recorded:
            self._decides_to_ask(job, home, n, now)
        for k in range(n):
            row = self._out(REQUEST_KIND, self.views.entry[0, k], home, job)
            row.a = self.searches[job]
        if n == 0:
            self._choose(job, now)
        return 0

    cdef int _miss(self, Py_ssize_t job, long long start, long long now) except -1:
        """Reject a job whose first possible `start` is too late for its deadline."""
        self._decides(TOO_LATE, job, self._seconds(start), self._seconds(self.latest[job]), NAN, 0, now, age=NAN)
        return self._give_up(job, "too_late")

    cdef int _give_up(self, Py_ssize_t job, str why) except -1:
        self.phase[job] = FAILED
        self.given_up += 1
        talk_drop(&self.talk[job])
        self._given_up.append((job, why))
        return 0

    cdef int _wait(self, Py_ssize_t job, int why, long long now) except -1:
        self.phase[job] = WAITING
        self._decides(why, job, self.searches[job], NAN, NAN, 0, now)
        talk_drop(&self.talk[job])
        self._waiting.append(job)
        return 0

    cdef int _limit_wait(self, Py_ssize_t job, long long now) except -1:
        """Limit the wait for answers or replies where machines fail, since they may be lost."""
        if not self.faults:
            return 0
        self.talk[job].due = now + self.patience
        return pending_push(&self.overdue, now + self.patience, job, <int> job)

    cdef int _choose(self, Py_ssize_t job, long long now) except -1:
        """Try to reserve the best answer that is left; if there is none, search again, wait, or reject the job."""
        cdef Talk* talk = self.talk[job]
        cdef Py_ssize_t k, best = -1, home = self._home(job)
        cdef Row* row
        cdef int* nodes
        if home < 0:
            return self._wait(job, WAITED_FOR_MACHINES, now)
        if self.recorded:
            self._decides_to_choose(job, home, now)
        for k in range(talk.n_answers):
            if talk.answer[k].start < 0:
                continue
            if talk.answer[k].start * self.slot < now + self.one_way:
                self.late[job] += 1
                talk.answer[k].start = -1
            elif best < 0 or talk.answer[k].start < talk.answer[best].start:
                best = k
        if best >= 0:
            talk.start, talk.current = talk.answer[best].start, talk.answer[best].place
            talk.answer[best].start = -1
            talk.n_taken, talk.missing, talk.hit = 0, talk.n_nodes, False
            talk_taken(talk)
            self._limit_wait(job, now)
            self.attempt[job] += 1
            self.phase[job] = COMMITTING
            nodes = talk.pool + talk.current * talk.n_nodes
            for k in range(talk.n_nodes):
                row = self._out(COMMIT_KIND, nodes[k], home, job)
                row.a, row.b = self.attempt[job], talk.start
        elif not talk.hope and talk.tardy >= 0:
            self._miss(job, talk.tardy, now)
        elif not talk.hope and self.faults and self.wide:
            self._wait(job, WAITED_FOR_ROOM, now)  # machines may recover
        elif not talk.hope:
            self._decides(TOO_LARGE, job, self.reached[job], self.tasks[job], NAN, 0, now, age=NAN)
            self._give_up(job, "too_large")
        elif self.in_vain[job] % self.rounds == 0:
            self._wait(job, WAITED, now)
        else:
            self._decides_in_vain(SEARCHED_AGAIN, job, self.rounds, now)
            self._search(job, now)
        return 0

    cdef int _abort(self, Py_ssize_t job, long long now) except -1:
        cdef Talk* talk = self.talk[job]
        self._decides(RELEASED, job, talk.n_taken, talk.n_nodes, NAN, talk.n_taken, now, age=NAN)
        self.conflicts[job] += 1
        qsort(talk.taken, talk.n_taken, sizeof(int), ascending)
        self._cancel(job, talk.taken, talk.n_taken)
        self.attempt[job] += 1  # replies that are still to come belong to the old attempt
        return self._choose(job, now)

    cdef int _cancel(self, Py_ssize_t job, const int* nodes, Py_ssize_t n) except -1:
        """Cancel the job at `n` nodes.  If no node is up, nobody does: nodes that are down have lost it."""
        cdef Py_ssize_t k, home = self._home(job)
        cdef Row* row
        for k in range(n if home >= 0 else 0):
            row = self._out(CANCEL_KIND, nodes[k], home, job)
            row.a, row.b = self.attempt[job], self.talk[job].start
        return 0

    cdef int _place(self, Py_ssize_t job, long long now) except -1:
        cdef Talk* talk = self.talk[job]
        cdef bint hit = talk.hit
        cdef double start = self._seconds(talk.start)
        self._decides(PLACES, job, start, NAN, NAN if hit else start, talk.n_nodes, now, age=NAN)
        talk_place(talk)
        self.phase[job] = BROKEN if hit else PLACED
        self.in_vain[job], self.held[job] = 0, self.length[job]
        if hit:
            return 0  # a machine has been lost since, which is detected later
        self._watch(job)
        return pending_push(&self.ending, max(talk.start * self.slot + self.lasts[job], now), job, <int> job)

    cdef int _overdue_all(self, long long now) except -1:
        """Wait no longer for answers or replies that have not come by now."""
        cdef const Event* first
        cdef Py_ssize_t job
        while True:
            first = self._first_overdue()
            if first == NULL or first.time > now:
                return 0
            job = pending_pop(&self.overdue).slot
            self._decides(OVERDUE, job, self.talk[job].missing, NAN, self.talk[job].missing, 0, now)
            if self.phase[job] == SEARCHING:
                self.talk[job].hope = True
                self._choose(job, now)
            else:
                self._abort(job, now)

    cdef const Event* _first_overdue(self) noexcept nogil:
        """Return the end of the first wait that is not over; NULL if there is none."""
        cdef const Event* first
        cdef const Talk* talk
        while True:
            first = pending_first(&self.overdue)
            if first == NULL:
                return NULL
            talk = self.talk[first.slot]
            if (talk != NULL and talk.due == first.time
                    and (self.phase[first.slot] == SEARCHING or self.phase[first.slot] == COMMITTING)):
                return first
            pending_pop(&self.overdue)

    # -- users who cancel -----------------------------------------------------------------------------------

    def call_off(self, Py_ssize_t job, long long now):
        """Cancel a job at `now` ns, as its user wants, unless it is over; messages are sent by `flush`.

        For a job that was placed, `start_of` and `machines_of` must be read before.
        """
        cdef _Guard alone = self._guard()
        self._check(job)
        check_instant(now, "now", _LAST)
        cdef Talk* talk = self.talk[job]
        cdef int* nodes = NULL
        cdef Py_ssize_t n = 0
        if self.phase[job] in (DONE, FAILED, CANCELLED):
            return
        if talk != NULL and self.phase[job] == COMMITTING:
            nodes, n = talk.taken, talk.n_taken
        elif talk != NULL and self.phase[job] in (PLACED, BROKEN):
            nodes, n = talk.pool, talk.n_nodes
        self._decides(CALLED_OFF, job, n, NAN, NAN, n, now, age=NAN)
        qsort(nodes, n, sizeof(int), ascending)
        self._cancel(job, nodes, n)
        self.attempt[job] += 1  # replies that are still to come belong to the old attempt
        self.phase[job] = CANCELLED
        self.given_up += 1
        talk_drop(&self.talk[job])

    # -- failures -------------------------------------------------------------------------------------------

    def fail(self, nodes: ArrayLike):
        """Drop the searches of `nodes` (int64[k]), which fail now."""
        cdef _Guard alone = self._guard()
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        for k in range(u.shape[0]):
            delayed_drop(&self.thinking, u[k])

    def hit(self, Py_ssize_t job, long long attempt) -> int:
        """Learn that a node has failed which had reserved slots for this attempt to place a job.

        Returns what follows of it: NEW for nothing; COMMITTING if the job is being placed there, and no other
        machine of this allocation has failed before; BROKEN if it was placed there and has lost the machine.
        """
        cdef _Guard alone = self._guard()
        self._check(job)
        return self._hit(job, attempt)

    cdef int _hit(self, Py_ssize_t job, long long attempt) except -1:
        cdef Talk* talk = self.talk[job]
        if talk == NULL or self.attempt[job] != attempt:
            return NEW
        if self.phase[job] == PLACED:
            self.phase[job] = BROKEN
            return BROKEN
        if self.phase[job] == COMMITTING and not talk.hit:
            talk.hit = True
            return COMMITTING
        return NEW

    def missed(self, Py_ssize_t job, long long now, failed: float = NAN):
        """Let the scheduling node of a job learn at `now` ns that a machine has failed: it starts the job again.

        Parameters
        ----------
        failed
            How many of its machines have failed meanwhile, for the record of decisions.
        """
        cdef _Guard alone = self._guard()
        self._check(job)
        check_instant(now, "now", _LAST)
        cdef Talk* talk = self.talk[job]
        if talk == NULL:
            return
        if self.phase[job] == BROKEN:
            self.resubmitted[job] += talk.n_nodes
            self._decides(MISSED, job, 1, NAN, failed, talk.n_nodes, now, age=self.detection / _NS)
            self._cancel(job, talk.pool, talk.n_nodes)
            self._search(job, now)
        elif self.phase[job] == COMMITTING and talk.hit:
            self._abort(job, now)

    # -- messages that arrive -------------------------------------------------------------------------------

    cdef Py_ssize_t _take(self, int kind, long long now) except -1:
        """Put the messages of `kind` that arrive now into `row`, ordered by receiver; return how many there are."""
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
            # a state that was read from a file may have any values here
            start = -1 if kind in (REQUEST_KIND, DISPLACED_KIND) else self.row[k].b
            if not (0 <= self.row[k].job < self.jobs and -1 <= start <= LATEST // self.slot):
                raise ValueError(f"a message for job {self.row[k].job} of {self.jobs}, slot {start}")
        return n

    cdef bint _arrive(self, long long now) except -1:
        """Handle the messages that arrive now; False if there are none."""
        cdef Py_ssize_t k, n, total = 0
        n = self._take(CANCEL_KIND, now)
        for k in range(n):
            self._cancelled(&self.row[k], now)
        total += n
        n = self._take(REQUEST_KIND, now)
        for k in range(n):
            self._requested(&self.row[k], now)
        total += n
        n = self._take(ANSWER_KIND, now)
        total += n
        self._answered(n, now)
        n = self._take(COMMIT_KIND, now)
        for k in range(n):
            self._committed(&self.row[k], now)
        total += n
        n = self._take(REPLY_KIND, now)
        for k in range(n):
            self._replied(&self.row[k], now)
        total += n
        if self.number[DISPLACED_KIND] >= 0:
            n = self._take(DISPLACED_KIND, now)
            for k in range(n):
                self._move(self.row[k].job, self.row[k].a, now)
            total += n
        return total > 0

    cdef int _cancelled(self, const Row* row, long long now) except -1:
        cdef long long end = max(row.b, self._slot_at(now)), whose = claim(row.job, row.a)
        if self.schedules._release(&self.schedules.node[row.node], row.b, end, whose, False, now) and self.push:
            self.changes[row.node] += 1
        if (self.phase[row.job] == CANCELLED
                or (self.faults and (self.resubmitted[row.job] or self.phase[row.job] == BROKEN))):
            self._stopped.append((row.job, row.node, row.a, now))
        return 0

    cdef int _requested(self, const Row* row, long long now) except -1:
        cdef Py_ssize_t k, job = row.job, n = self.tasks[job]
        cdef Talk* talk
        cdef Quest quest
        cdef Row answer
        cdef int* nodes
        cdef long long start, opened, wait, got, ready = now + 4 * self.one_way
        quest.n_nodes, quest.slots, quest.itself = n, self.length[job], not self.others
        quest.exclude = self.submitter[job] if self.others else -1
        quest.hops, quest.wide, quest.every, quest.until = self.hops, self.wide, 0, 0
        quest.seen = NEVER - 1
        quest.suited = NULL if self.suited is None else &self.suited[self.group[job], 0]
        if self.poll:
            quest.every, quest.until = self.period, now - self.latency
        elif self.stale and self.push:
            quest.seen = now - self.latency
        quest.not_before = max(self.earliest[job], self._slot_at(ready + self.at_least))
        while True:
            opened = 0
            start = self.schedules._search(&quest, self.views.view, self.gone, self.first if self.poll else None,
                                           row.node, &opened)
            # opening neighbours takes time, too
            wait = self.at_least + opened * self.opening
            if start < 0 or start * self.slot >= ready + wait:
                break
            quest.not_before = max(start + 1, self._slot_at(ready + wait))
        got = opened * self.width + (self.width if self.pull else 0)
        self.received[row.node] += got
        self.counts[1 if self.pull else 3] += got
        self.reached[job] = max(self.reached[job], self.schedules.n_fit)
        talk = self._awaited(job, row.a)
        if talk != NULL and talk.n_found < talk.asked:
            talk.found[talk.n_found].searcher, talk.found[talk.n_found].place = <int> row.node, talk.n_found
            talk.n_found += 1
            if start >= 0:
                nodes = talk_pool(talk) + (talk.n_found - 1) * n
                self.schedules._choose(n, start, self.length[job], self.chosen)
                for k in range(n):
                    nodes[k] = <int> self.chosen[k]
            if self.recorded:
                self._decides_to_open(row, quest.not_before, opened, self._slot_at(ready + wait), now)
        answer.node, answer.sender, answer.job, answer.a, answer.b = row.sender, row.node, job, row.a, start
        if wait == 0:
            return self._answer(&answer, now)
        return delayed_add(&self.thinking, now + wait, &answer)

    cdef Talk* _awaited(self, Py_ssize_t job, long long search) noexcept nogil:
        """Return the talk about a job whose scheduling node still has a use for answers of this search, or NULL."""
        if self.searches[job] == search and (self.phase[job] == SEARCHING or self.phase[job] == COMMITTING):
            return self.talk[job]
        return NULL

    cdef bint _think(self, long long now) except -1:
        """Answer for the searches that are finished by now, in the order of searchers; False if there are none."""
        cdef const Row* row
        cdef Py_ssize_t k, n = 0
        while True:
            row = delayed_take(&self.thinking, now)
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
        cdef Row* row = self._out(ANSWER_KIND, answer.node, answer.sender, answer.job)
        row.a, row.b = answer.a, answer.b
        if self.recorded:
            self._decides_to_answer(answer, now)
        return 0

    cdef int _answered(self, Py_ssize_t n, long long now) except -1:
        cdef Py_ssize_t k, i, job, complete = 0
        cdef Talk* talk
        cdef Row* row
        for k in range(n):
            row = &self.row[k]
            job = row.job
            talk = self.talk[job]
            # no searcher may answer twice: a state that was read may have the same message twice
            if (self.searches[job] != row.a or self.phase[job] != SEARCHING or talk == NULL or talk.missing <= 0):
                continue
            if row.b > self.latest[job]:
                talk.tardy = row.b if talk.tardy < 0 else min(talk.tardy, row.b)
            elif row.b >= 0:
                for i in range(talk.n_found):
                    if talk.found[i].searcher == row.sender:
                        talk.answer[talk.n_answers].start = row.b
                        talk.answer[talk.n_answers].place = talk.found[i].place
                        talk.n_answers += 1
                        talk.hope = True
                        break
            talk.missing -= 1
            if talk.missing == 0:
                # jobs with all answers are collected at the front of `spare`
                self.spare[complete].job = job
                complete += 1
        for k in range(complete):
            self._choose(self.spare[k].job, now)
        return 0

    cdef int _committed(self, const Row* row, long long now) except -1:
        cdef Row* reply = self._out(REPLY_KIND, row.sender, row.node, row.job)
        cdef long long end = row.b + self.length[row.job]
        reply.a, reply.b, reply.c = row.a, row.b, 0
        if (row.b * self.slot >= now
                and self.schedules._reserve(&self.schedules.node[row.node], row.b, end, claim(row.job, row.a), now)):
            reply.c = 1
            if self.push:
                self.changes[row.node] += 1
        elif self.recorded:
            self._decides_to_refuse(row, now)
        return 0

    cdef int _replied(self, const Row* row, long long now) except -1:
        cdef Py_ssize_t job = row.job
        cdef Talk* talk = self.talk[job]
        cdef Row* cancel
        if row.a != self.attempt[job] or self.phase[job] != COMMITTING or talk == NULL or talk.missing <= 0:
            if row.c == 1:
                cancel = self._out(CANCEL_KIND, row.sender, row.node, job)
                cancel.a, cancel.b = row.a, row.b
            return 0
        if row.c == 1:
            talk.taken[talk.n_taken] = <int> row.sender
            talk.n_taken += 1
        talk.missing -= 1
        if talk.missing:
            return 0
        if talk.n_taken < talk.n_nodes:
            return self._abort(job, now)
        return self._place(job, now)

    # -- jobs that outlive what they have reserved -----------------------------------------------------------

    def outlive(self, long long now):
        """Extend the reservations that end by `now` ns of jobs that go on; messages are sent by `flush`."""
        cdef _Guard alone = self._guard()
        check_instant(now, "now", _LAST)
        self._outlive_all(now)

    cdef int _outlive_all(self, long long now) except -1:
        cdef const Event* first
        cdef Py_ssize_t job, k
        cdef Talk* talk
        while True:
            first = self._first_outliving()
            if first == NULL or first.time > now:
                return 0
            job = pending_pop(&self.outliving).slot
            talk = self.talk[job]
            for k in range(talk.n_nodes):
                self._extend(job, talk.pool[k], now)
            self.held[job] = self._more(job)
            self._watch(job)

    cdef const Event* _first_outliving(self) noexcept nogil:
        """Return the first end of a reservation that its job outlives; NULL if there is none."""
        cdef const Event* first
        cdef const Talk* talk
        while True:
            first = pending_first(&self.outliving)
            if first == NULL:
                return NULL
            talk = self.talk[first.slot]
            if (talk != NULL and self.phase[first.slot] == PLACED
                    and (talk.start + self.held[first.slot]) * self.slot == first.time
                    and talk.start * self.slot + self.lasts[first.slot] > first.time):
                return first
            pending_pop(&self.outliving)

    cdef long long _more(self, Py_ssize_t job) noexcept nogil:
        """Return the slots of a job once it is extended: by one at first, then by twice as many each time."""
        return 2 * self.held[job] - self.length[job] + 1

    cdef int _extend(self, Py_ssize_t job, Py_ssize_t u, long long now) except -1:
        """Extend what node `u` has reserved for a job; tell the scheduling nodes of jobs that this displaces."""
        cdef Node* node = &self.schedules.node[u]
        cdef long long start = self.talk[job].start, end = start + self._more(job), whose, attempt
        cdef Py_ssize_t other, k, i = self.schedules._ending(node, start, end, claim(job, self.attempt[job]))
        cdef Py_ssize_t until
        cdef Row* row
        cdef Decision* d
        if i < 0:
            return 0
        until = self.schedules._until(node, i, end)
        self.extended += 1
        if self.recorded:
            decisions_add(&self.log, EXTENDED, now, job, u, &d)
            if d != NULL:
                d.saw = d.true_ = self._seconds(end)
                d.among, d.age = until - i - 1, 0
        for k in range(i + 1, until):
            whose = node.note[k].job
            other, attempt = <Py_ssize_t> (whose & 0xFFFFFFFF), whose >> 32
            if not 0 <= other < self.jobs:
                raise ValueError(f"a reservation for job {other} of {self.jobs}")
            row = self._out(DISPLACED_KIND, self._home(other), u, other)
            row.a = attempt
            if self._hit(other, attempt) != NEW and self.faults:
                self._moved.append((other, attempt))
        self.schedules._extend(node, i, end, now)
        if self.push:
            self.changes[u] += 1
        return 0

    def search_anew(self, Py_ssize_t job, long long attempt, long long now):
        """Let the scheduling node of a job notice at `now` ns that a machine has displaced it in this attempt."""
        cdef _Guard alone = self._guard()
        self._check(job)
        check_instant(now, "now", _LAST)
        self._move(job, attempt, now)

    cdef int _move(self, Py_ssize_t job, long long attempt, long long now) except -1:
        """Search anew for a job that is displaced in this attempt to place it, unless it is over."""
        cdef Talk* talk = self.talk[job]
        if talk == NULL or attempt != self.attempt[job]:
            return 0
        if self.phase[job] == BROKEN:
            self.displaced += 1
            self._decides(DISPLACED, job, 1, NAN, NAN, talk.n_nodes, now, age=NAN)
            self._cancel(job, talk.pool, talk.n_nodes)
            self._search(job, now)
        elif self.phase[job] == COMMITTING:
            self._abort(job, now)
        return 0

    # -- jobs that end --------------------------------------------------------------------------------------

    def finish(self, long long now):
        """End the jobs whose runs end by `now` ns, on all their machines."""
        cdef _Guard alone = self._guard()
        self._finish_all(now)

    def end_waits(self, long long now):
        """End the waits for answers or replies that were to end by `now` ns; messages are sent by `flush`."""
        cdef _Guard alone = self._guard()
        check_instant(now, "now", _LAST)
        self._overdue_all(now)

    cdef int _finish_all(self, long long now) except -1:
        cdef const Event* first
        while True:
            first = pending_first(&self.ending)
            if first == NULL or first.time > now:
                return 0
            self._finish(pending_pop(&self.ending).slot, now)

    cdef int _finish(self, Py_ssize_t job, long long now) except -1:
        cdef Talk* talk = self.talk[job]
        cdef Py_ssize_t k
        # the end of a lost run, after which the job may have been placed again, is not the end of the job
        if self.phase[job] != PLACED or talk.start * self.slot + self.lasts[job] > now:
            return 0
        cdef long long start = talk.start * self.slot, end = start + self.lasts[job]
        cdef long long to = max(self._slot_at(now), talk.start), whose = claim(job, self.attempt[job])
        self.phase[job] = DONE
        self.completed += 1
        if self.first_start[job] < 0:
            self.first_start[job] = start
        self.end[job], self.done[job] = end, talk.n_nodes
        for k in range(talk.n_nodes):
            self.busy[talk.pool[k]] += end - start
            self.done_by[talk.pool[k]] += 1
            if (not self.keep
                    and self.schedules._release(&self.schedules.node[talk.pool[k]], talk.start, to, whose, False, now)
                    and self.push):
                self.changes[talk.pool[k]] += 1
        if not self.record and self.resubmitted[job] == 0:
            talk_drop(&self.talk[job])
        return 0

    # -- time -----------------------------------------------------------------------------------------------

    def advance(self, long long limit) -> int:
        """Run up to `limit` ns; return the first instant <= limit at which the caller must act, else 2**63 - 1.

        Messages that arrive at `limit` are handled here, because they come before everything else at an instant.
        Jobs, waits and reservations that end at `limit` are left to the caller, which calls `finish`, `end_waits`
        and `outlive`, in this order.  In any case it calls `flush`: messages that take no time are handled only when it has acted.
        """
        cdef _Guard alone = self._guard()
        cdef long long at, ends
        cdef const Event* first
        cdef bint any_
        while True:
            first = pending_first(&self.ending)
            ends = NEVER if first == NULL else first.time
            first = self._first_overdue()
            ends = ends if first == NULL else min(ends, first.time)
            first = self._first_outliving()
            ends = ends if first == NULL else min(ends, first.time)
            first = delayed_first(&self.thinking)
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
                if not self.over:
                    self._overdue_all(ends)
                    self._outlive_all(ends)
                self._hand_over_many()
                if self.over or self._waiting or self._given_up or self._moved:
                    return ends
                self._flush(ends)
                continue
            any_ = False
            while True:
                # searches answer after the messages of the same instant have been handled
                arrived = self._arrive(at)
                arrived = self._think(at) or arrived
                if not arrived:
                    break
                any_ = True
                if self.over:
                    break
                self._flush(at)
                self.links._advance(at)
            self._hand_over_many()
            # the caller must act: for waiting or rejected jobs, or for messages that are not handled here
            if self._waiting or self._given_up or not any_:
                return at

    # -- the record of decisions, see `gridsim.schedulers.dgs.decisions` -------------------------------------

    cdef int _hand_over_many(self) except -1:
        if self.log.n >= DECISIONS:
            self._hand_over()
        return 0

    cdef double _seconds(self, long long slot) noexcept nogil:
        return <double> (slot * self.slot) / _NS

    cdef double _age(self, long long as_of, long long now) noexcept nogil:
        """Return the age of what was known as of `as_of` ns, s; before the time 0 nothing has changed."""
        return <double> (now - max(as_of, 0)) / _NS

    cdef int _decides(self, int action, Py_ssize_t job, double saw, double limit, double true_, long long tasks,
                      long long now, double age=0.0) except -1:
        """Record what the scheduling node of `job`, or the node that acts for it, decides now."""
        cdef Decision* d
        cdef Py_ssize_t home
        if not self.recorded:
            return 0
        home = self._home(job)
        decisions_add(&self.log, action, now, job, self.submitter[job] if home < 0 else home, &d)
        if d != NULL:
            d.saw, d.limit, d.true_, d.age, d.tasks = saw, limit, true_, age, tasks
        return 0

    cdef int _decides_in_vain(self, int action, Py_ssize_t job, long long limit, long long now) except -1:
        return self._decides(action, job, self.in_vain[job], limit, self.in_vain[job], 0, now)

    cdef int _decides_to_ask(self, Py_ssize_t job, Py_ssize_t home, Py_ssize_t n, long long now) except -1:
        """Record that a scheduling node asks the `n` nodes that it has picked to search."""
        cdef Py_ssize_t k, known = 0
        cdef Decision* d
        cdef int other
        for k in range(self.views.view.shape[1]):
            other = self.views.view[home, k]
            known += other >= 0 and (self.gone is None or not self.gone[other])
        for k in range(n):
            decisions_add(&self.log, ASKED, now, job, home, &d)
            if d != NULL:
                d.machine, d.among = self.views.entry[0, k], known
        return 0

    cdef int _decides_to_choose(self, Py_ssize_t job, Py_ssize_t home, long long now) except -1:
        """Record which answer is chosen, after those that are dropped since a commit would come too late."""
        cdef Talk* talk = self.talk[job]
        cdef Py_ssize_t k, best, at = -1
        cdef long long left, start = -1, since = now + self.one_way
        cdef bint late = True
        while late:
            best, left = -1, 0
            for k in range(talk.n_answers):
                # the next one in the order of starts, then of arrival
                if talk.answer[k].start > start or (talk.answer[k].start == start >= 0 and k > at):
                    left += 1
                    if best < 0 or talk.answer[k].start < talk.answer[best].start:
                        best = k
            if best < 0:
                return 0
            start, at = talk.answer[best].start, best
            late = start * self.slot < since
            self._decides_on(DROPPED if late else CHOSE, talk, &talk.answer[best], job, home, left, now)
        return 0

    cdef int _decides_on(self, int action, const Talk* talk, const Answer* answer, Py_ssize_t job, Py_ssize_t home,
                         long long left, long long now) except -1:
        """Record a choice among `left` answers.

        The true value is the first start, from that of the answer on, at which its machines really are free together.
        If that is past, it is the first one from now on: nobody knows what was reserved before.
        """
        cdef const int* nodes = talk.pool + answer.place * <Py_ssize_t> talk.n_nodes
        cdef long long since = max(answer.start, self._slot_at(now))
        cdef long long as_of = talk.looked[answer.place].oldest if since == answer.start else -1
        cdef Decision* d
        cdef Py_ssize_t k, n = talk.n_nodes
        decisions_add(&self.log, action, now, job, home, &d)
        if d == NULL:
            return 0
        d.machine, d.tasks, d.among = talk.found[answer.place].searcher, n, left
        d.saw, d.limit = self._seconds(answer.start), <double> (now + self.one_way) / _NS
        d.age = self._age(talk.looked[answer.place].oldest, now)
        self.seen = <Seen*> reallocate(self.seen, n * sizeof(Seen))
        for k in range(n):
            self.seen[k].node, self.seen[k].as_of = nodes[k], as_of
        d.true_ = self._seconds(self.schedules._true_start(self.seen, n, nodes, n, self.length[job], since, since))
        return 0

    cdef int _decides_to_open(self, const Row* request, long long first, long long opened, long long left,
                              long long now) except -1:
        """Remember what the answer of the last search rests on, and record that it has opened neighbours.

        Parameters
        ----------
        first
            Slot from which on it looked for starts.
        left
            The first one that leaves time for all messages.
        """
        cdef SlotSchedules schedules = self.schedules
        cdef Talk* talk = self.talk[request.job]
        cdef Looked* look = &talk.looked[talk.n_found - 1]
        cdef long long oldest = now, as_of, free_ = schedules.own_free, slots = self.length[request.job]
        cdef const Node* node
        cdef Py_ssize_t k
        cdef Decision* d
        look.seen = <Seen*> reallocate(look.seen, schedules.n_fit * sizeof(Seen))
        look.n, look.slot, look.oldest = <int> schedules.n_fit, max(left, first), now
        for k in range(schedules.n_fit):
            # the searcher knows itself as it is now
            look.seen[k].node, look.seen[k].as_of = schedules.fit[k].node, max(min(schedules.fit[k].as_of, now), -1)
            look.oldest = min(look.oldest, look.seen[k].as_of)
        if not opened:
            return 0
        decisions_add(&self.log, OPENED, now, request.job, request.node, &d)
        if d == NULL:
            return 0
        for k in range(schedules.n_own):
            node, as_of = &schedules.node[look.seen[k].node], look.seen[k].as_of
            oldest = min(oldest, as_of)
            if node.latest > as_of or node.released.n:  # it may have changed since it was seen
                free_ += schedules._free(node, now, first, slots) - schedules._free(node, as_of, first, slots)
        d.machine, d.tasks, d.among = request.sender, opened, schedules.n_own
        d.saw, d.limit, d.true_, d.age = schedules.own_free, talk.n_nodes, free_, self._age(oldest, now)
        return 0

    cdef int _decides_to_answer(self, const Row* answer, long long now) except -1:
        """Record that a searcher answers; the true value is the first start of its candidates now."""
        cdef Talk* talk = self._awaited(answer.job, answer.a)
        cdef Looked* look
        cdef Decision* d
        cdef Py_ssize_t k = 0
        cdef long long true_
        while talk != NULL and k < talk.n_found and talk.found[k].searcher != answer.sender:
            k += 1
        if talk == NULL or k == talk.n_found or (answer.b >= 0 and talk.pool == NULL):
            return 0
        look = &talk.looked[k]
        decisions_add(&self.log, ANSWERED if answer.b >= 0 else UNREACHED, now, answer.job, answer.sender, &d)
        if d != NULL:
            d.machine, d.tasks, d.age = answer.node, talk.n_nodes, self._age(look.oldest, now)
            if answer.b < 0:
                d.saw, d.limit, d.true_ = look.n, talk.n_nodes, look.n
            else:
                true_ = answer.b
                if self.stale:  # else nothing has changed since it has looked, at this instant
                    true_ = self.schedules._true_start(look.seen, look.n, talk.pool + k * talk.n_nodes, talk.n_nodes,
                                                       self.length[answer.job], look.slot, answer.b)
                d.among, d.saw, d.limit, d.true_ = look.n, self._seconds(answer.b), self._seconds(look.slot), \
                    self._seconds(true_)
        free(look.seen)
        look.seen, look.n = NULL, 0
        return 0

    cdef int _decides_to_refuse(self, const Row* commit, long long now) except -1:
        """Record that a machine refuses to commit; the threshold is its first free start, or the present time."""
        cdef bint timely = commit.b * self.slot >= now
        cdef Decision* d
        cdef Seen node
        node.node, node.as_of = <int> commit.node, -1
        decisions_add(&self.log, REFUSED if timely else REFUSED_LATE, now, commit.job, commit.node, &d)
        if d != NULL:
            d.machine, d.saw, d.age, d.limit = commit.sender, self._seconds(commit.b), 0, <double> now / _NS
            if timely:
                d.limit = self._seconds(self.schedules._true_start(&node, 1, &node.node, 1, self.length[commit.job],
                                                                   commit.b, commit.b))
        return 0
