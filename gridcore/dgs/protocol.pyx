"""The compiled protocol of DGS_ASAP: searches, answers, commits and ends of jobs, without Python handlers.

`JobFlow` ties the slot schedules, the overlay's views and the links together.  It runs everything that happens
between two instants at which the caller must act: requests that arrive, searches that take time, allocations that
are tried one after the other, waits that are limited, and jobs that end.  The caller tells it which machines fail
(`fail`), what jobs lose by that (`hit`), and when their scheduling nodes learn of it (`missed`).  It has no reference
implementation of its own: it is tested by the digest, which is the same in a run of the node program.
"""

from libc.stdlib cimport qsort

from gridcore.common.arguments cimport _Held, check_instant, indices
from gridcore.common.pending cimport Event, pending_first, pending_pop, pending_push
from gridcore.dgs.negotiations cimport (ANSWER_KIND, BROKEN, CANCEL_KIND, COMMIT_KIND, COMMITTING, DONE, FAILED, KINDS,
                                        NEW, PLACED, REPLY_KIND, REQUEST_KIND, SEARCHING, WAITING, _Negotiations)
from gridcore.dgs.outbox cimport (Outbox, Row, delayed_add, delayed_drop, delayed_first, delayed_take, outbox_add,
                                  sort_rows)
from gridcore.dgs.slots cimport Quest
from gridcore.dgs.talks cimport Talk, talk_drop, talk_open, talk_place, talk_pool, talk_taken

import numpy as np

from gridcore.common.state import LATEST

__all__ = ["JobFlow"]

cdef long long _NEVER = 9223372036854775807
cdef long long _LATEST = LATEST
# The largest instant that a caller may give, ns.
cdef long long _LAST = 8 * 10**17


cdef int ascending(const void* x, const void* y) noexcept nogil:
    cdef int a = (<const int*> x)[0], b = (<const int*> y)[0]
    return -1 if a < b else a > b


cdef class JobFlow(_Negotiations):
    """Runs the negotiations about jobs over `links`.

    schedules, views, links : the objects that the policy uses, too.
    kinds : for cancel, request, answer, commit and reply: (number in `links`, bytes of a message).
    jobs : name -> array over all jobs, shared with the policy: phase (int8); tasks, length (slots), lasts (ns),
        submitter, attempt, searches, in_vain, conflicts, late, reached, resubmitted, first_start, end (ns),
        done (int64).
    nodes : name -> array over all nodes, shared: received, changes, busy (ns), tasks, first (ns, first poll; int64);
        up, away (whether it is known to have failed; bool).
    counts : int64[5], number of schedules exchanged by kind, shared.
    settings : slot, one_way, latency, at_least, opening, period, patience (ns); forward, hops, rounds, tries, width,
        seed; wide, others, push, pull, poll, stale, record, faults (0 or 1).  With others, neither the searcher nor
        the scheduling node is a candidate.  With record, `machines_of` also works for all jobs that are done,
        otherwise only for those that were submitted again.  With faults, machines may fail.

    Raises ValueError for arrays that do not fit.
    """
    # -- messages that are sent -----------------------------------------------------------------------------

    cdef Row* _out(self, int kind, long long node, long long sender, long long job) except NULL nogil:
        return outbox_add(&self.out[kind], node, sender, job)

    def flush(self, long long now):
        """Send the messages of the wave that is over, by kind, then by sender, then in the sender's own order."""
        cdef _Held alone = self._hold()
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

    def search(self, jobs, long long now):
        """Begin a search for each of `jobs` (int64[k]): its scheduling node asks some neighbours at `now` ns.

        The requests are sent by `flush`.
        """
        cdef _Held alone = self._hold()
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

    cdef Py_ssize_t _home(self, Py_ssize_t job) noexcept nogil:
        """Return the scheduling node of a job, or the next node that is up and acts for it; -1 if none is."""
        cdef Py_ssize_t k, node = self.submitter[job]
        for k in range(self.nodes if self.faults else 0):
            if self.up[node]:
                return node
            node = node + 1 if node + 1 < self.nodes else 0
        return -1 if self.faults else node

    cdef int _search(self, Py_ssize_t job, long long now) except -1:
        cdef Py_ssize_t k, n, home = self._home(job)
        cdef Row* row
        if self.in_vain[job] >= self.tries:
            return self._give_up(job, False)
        if home < 0:
            return self._wait(job)
        self.searches[job] += 1
        self.in_vain[job] += 1
        self.phase[job] = SEARCHING
        n = self.views._pick(home, job, self.searches[job], self.forward, self.seed, self.gone)
        talk_open(&self.talk[job], self.tasks[job], n)
        self._limit_wait(job, now)
        for k in range(n):
            row = self._out(REQUEST_KIND, self.views.entry[0, k], home, job)
            row.a = self.searches[job]
        if n == 0:
            self._choose(job, now)
        return 0

    cdef int _give_up(self, Py_ssize_t job, bint too_large) except -1:
        self.phase[job] = FAILED
        self.given_up += 1
        talk_drop(&self.talk[job])
        self._given_up.append((job, bool(too_large)))
        return 0

    cdef int _wait(self, Py_ssize_t job) except -1:
        self.phase[job] = WAITING
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
            return self._wait(job)
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
        elif not talk.hope and self.faults and self.wide:
            self._wait(job)  # machines may recover
        elif not talk.hope:
            self._give_up(job, True)
        elif self.in_vain[job] % self.rounds == 0:
            self._wait(job)
        else:
            self._search(job, now)
        return 0

    cdef int _abort(self, Py_ssize_t job, long long now) except -1:
        cdef Talk* talk = self.talk[job]
        self.conflicts[job] += 1
        self.attempt[job] += 1
        qsort(talk.taken, talk.n_taken, sizeof(int), ascending)
        self._cancel(job, talk.taken, talk.n_taken)
        return self._choose(job, now)

    cdef int _cancel(self, Py_ssize_t job, const int* nodes, Py_ssize_t n) except -1:
        """Cancel the job at `n` nodes.  If no node is up, nobody does: nodes that are down have lost it."""
        cdef Py_ssize_t k, home = self._home(job)
        for k in range(n if home >= 0 else 0):
            self._out(CANCEL_KIND, nodes[k], home, job).a = self.talk[job].start
        return 0

    cdef int _place(self, Py_ssize_t job, long long now) except -1:
        cdef Talk* talk = self.talk[job]
        cdef bint hit = talk.hit
        talk_place(talk)
        self.phase[job] = BROKEN if hit else PLACED
        self.in_vain[job] = 0
        if hit:
            return 0  # a machine has failed since, which is detected later
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

    # -- failures -------------------------------------------------------------------------------------------

    def fail(self, nodes):
        """Drop the searches of `nodes` (int64[k]), which fail now."""
        cdef _Held alone = self._hold()
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k
        for k in range(u.shape[0]):
            delayed_drop(&self.thinking, u[k])

    def hit(self, Py_ssize_t job, long long node, long long start):
        """Learn that `node` has failed, which had a job in its schedule from slot `start` on.

        Returns what follows of it: NEW for nothing; COMMITTING if the job is being placed there, and no other
        machine of this allocation has failed before; BROKEN if it was placed there and has lost the machine.
        """
        cdef _Held alone = self._hold()
        cdef Py_ssize_t k
        self._check(job)
        cdef Talk* talk = self.talk[job]
        if talk == NULL or talk.start != start:
            return NEW
        if self.phase[job] == PLACED:
            self.phase[job] = BROKEN
            return BROKEN
        if self.phase[job] == COMMITTING and not talk.hit:
            for k in range(talk.n_nodes):
                if talk.pool[talk.current * <Py_ssize_t> talk.n_nodes + k] == node:
                    talk.hit = True
                    return COMMITTING
        return NEW

    def missed(self, Py_ssize_t job, long long now):
        """Let the scheduling node of a job learn at `now` ns that a machine has failed: it starts the job again."""
        cdef _Held alone = self._hold()
        self._check(job)
        check_instant(now, "now", _LAST)
        cdef Talk* talk = self.talk[job]
        if talk == NULL:
            return
        if self.phase[job] == BROKEN:
            self.resubmitted[job] += talk.n_nodes
            self._cancel(job, talk.pool, talk.n_nodes)
            self._search(job, now)
        elif self.phase[job] == COMMITTING and talk.hit:
            self._abort(job, now)

    def stopped(self):
        """Return what cancellations may have stopped since the last call: [(job, node, start in slots, ns), ...].

        These are cancellations of jobs that have lost a machine, in order.
        """
        cdef _Held alone = self._hold()
        result, self._stopped = self._stopped, []
        return result

    cdef int _check(self, Py_ssize_t job) except -1:
        if not 0 <= job < self.jobs:
            raise ValueError(f"job must be in 0..{self.jobs - 1}, got {job}")
        return 0

    # -- messages that arrive -------------------------------------------------------------------------------

    cdef Py_ssize_t _take(self, int kind, long long now) except -1:
        """Put the messages of `kind` that arrive now into `row`, ordered by receiver; return how many there are."""
        cdef Py_ssize_t k, n = self.links._take(self.number[kind], now)
        cdef const Row* record
        cdef long long start
        cdef int fields = self.fields[kind]
        self.links._by_node(n)
        self._room_for(n)
        for k in range(n):
            record = <const Row*> (self.links.data + self.links.due[k].slot * self.links.stride)
            self.row[k].node, self.row[k].sender, self.row[k].job = record.node, record.sender, record.job
            self.row[k].a = record.a
            if fields > 4:
                self.row[k].b = record.b
            if fields > 5:
                self.row[k].c = record.c
            self.links._give_back(self.links.due[k].slot)
            # a state that was read from a file may have any values here
            start = self.row[k].a if kind == CANCEL_KIND else -1 if kind == REQUEST_KIND else self.row[k].b
            if not (0 <= self.row[k].job < self.jobs and -1 <= start <= _LATEST // self.slot):
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
        return total > 0

    cdef int _cancelled(self, const Row* row, long long now) except -1:
        cdef long long end = row.a if row.a * self.slot >= now else self._slot_at(now)
        if self.schedules._release(&self.schedules.node[row.node], row.a, end, row.job, False, now) and self.push:
            self.changes[row.node] += 1
        if self.faults and (self.resubmitted[row.job] or self.phase[row.job] == BROKEN):
            self._stopped.append((row.job, row.node, row.a, now))
        return 0

    cdef long long _slot_at(self, long long time) noexcept nogil:
        return (time + self.slot - 1) // self.slot

    cdef int _requested(self, const Row* row, long long now) except -1:
        cdef Py_ssize_t k, job = row.job, n = self.tasks[job]
        cdef Talk* talk
        cdef Row* answer
        cdef Quest quest
        cdef Row thought
        cdef int* nodes
        cdef long long start, opened, wait, got, ready = now + 4 * self.one_way
        quest.n_nodes, quest.slots, quest.itself = n, self.length[job], not self.others
        quest.exclude = self.submitter[job] if self.others else -1
        quest.hops, quest.wide, quest.every, quest.until = self.hops, self.wide, 0, 0
        quest.seen = _NEVER - 1
        if self.poll:
            quest.every, quest.until = self.period, now - self.latency
        elif self.stale and self.push:
            quest.seen = now - self.latency
        quest.not_before = self._slot_at(ready + self.at_least)
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
        talk = self.talk[job]
        if (talk != NULL and self.phase[job] == SEARCHING and self.searches[job] == row.a
                and talk.n_found < talk.asked):
            talk.found[talk.n_found].searcher, talk.found[talk.n_found].place = <int> row.node, talk.n_found
            talk.n_found += 1
            if start >= 0:
                nodes = talk_pool(talk) + (talk.n_found - 1) * n
                self.schedules._choose(n, start, self.length[job], self.chosen)
                for k in range(n):
                    nodes[k] = <int> self.chosen[k]
        if wait == 0:
            answer = self._out(ANSWER_KIND, row.sender, row.node, job)
            answer.a, answer.b = row.a, start
            return 0
        thought = row[0]
        thought.b = start
        return delayed_add(&self.thinking, now + wait, &thought)

    cdef bint _think(self, long long now) except -1:
        """Answer for the searches that are finished by now; False if there are none."""
        cdef Row* answer
        cdef const Row* row
        cdef bint any_ = False
        while True:
            row = delayed_take(&self.thinking, now)
            if row == NULL:
                return any_
            # the order does not matter here: `_flush` sorts by sender
            answer = self._out(ANSWER_KIND, row.sender, row.node, row.job)
            answer.a, answer.b = row.a, row.b
            any_ = True

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
            if row.b >= 0:
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
                and self.schedules._reserve(&self.schedules.node[row.node], row.b, end, row.job, now)):
            reply.c = 1
            if self.push:
                self.changes[row.node] += 1
        return 0

    cdef int _replied(self, const Row* row, long long now) except -1:
        cdef Py_ssize_t job = row.job
        cdef Talk* talk = self.talk[job]
        cdef Row* cancel
        if row.a != self.attempt[job] or self.phase[job] != COMMITTING or talk == NULL or talk.missing <= 0:
            if row.c == 1:
                cancel = self._out(CANCEL_KIND, row.sender, row.node, job)
                cancel.a = row.b
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

    # -- jobs that end --------------------------------------------------------------------------------------

    def finish(self, long long now):
        """End the jobs whose runs end by `now` ns, on all their machines."""
        cdef _Held alone = self._hold()
        self._finish_all(now)

    def end_waits(self, long long now):
        """End the waits for answers or replies that were to end by `now` ns; messages are sent by `flush`."""
        cdef _Held alone = self._hold()
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
        cdef long long to = max(self._slot_at(now), talk.start)
        self.phase[job] = DONE
        self.completed += 1
        if self.first_start[job] < 0:
            self.first_start[job] = start
        self.end[job], self.done[job] = end, talk.n_nodes
        for k in range(talk.n_nodes):
            self.busy[talk.pool[k]] += end - start
            self.done_by[talk.pool[k]] += 1
            if (self.schedules._release(&self.schedules.node[talk.pool[k]], talk.start, to, job, False, now)
                    and self.push):
                self.changes[talk.pool[k]] += 1
        if not self.record and self.resubmitted[job] == 0:
            talk_drop(&self.talk[job])
        return 0

    def machines_of(self, Py_ssize_t job):
        """Return int64[tasks]: the machines on which a placed job runs or has run."""
        cdef _Held alone = self._hold()
        if not 0 <= job < self.jobs or self.talk[job] == NULL or self.phase[job] not in (PLACED, BROKEN, DONE):
            raise ValueError(f"job must be one that was placed, got {job}")
        return np.array([self.talk[job].pool[k] for k in range(self.talk[job].n_nodes)], np.int64)

    # -- time -----------------------------------------------------------------------------------------------

    def advance(self, long long limit):
        """Run up to `limit` ns; return the first instant <= limit at which the caller must act, else 2**63 - 1.

        Messages that arrive at `limit` are handled here, because they come before everything else at an instant.
        Jobs and waits that end at `limit` are left to the caller, which calls `finish`, then `end_waits`.  In any
        case it calls `flush`: messages that take no time are handled only when it has acted.
        """
        cdef _Held alone = self._hold()
        cdef long long at, ends
        cdef const Event* first
        cdef bint any_
        while True:
            first = pending_first(&self.ending)
            ends = _NEVER if first == NULL else first.time
            first = self._first_overdue()
            ends = ends if first == NULL else min(ends, first.time)
            first = delayed_first(&self.thinking)
            at = _NEVER if first == NULL else first.time
            at = min(self.links._advance(min(limit, min(at, ends))), at)
            if min(at, ends) > limit or min(at, ends) == _NEVER:
                return _NEVER
            if ends < at:
                if ends == limit:
                    if self.told_end == limit:
                        return _NEVER
                    self.told_end = limit
                    return limit
                self._finish_all(ends)
                if not self.over:
                    self._overdue_all(ends)
                if self.over or self._waiting or self._given_up:
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
            # the caller must act: for waiting or rejected jobs, or for messages that are not handled here
            if self._waiting or self._given_up or not any_:
                return at

    @property
    def over(self):
        """Whether all jobs are done or were rejected."""
        return self.completed + self.given_up == self.jobs

    @property
    def ending_now(self):
        """The last instant (ns) that `advance` returned because jobs or waits end at it."""
        return self.told_end

    def told(self):
        """Return (jobs that must wait, [(rejected job, whether it is too large), ...]) since the last call."""
        cdef _Held alone = self._hold()
        result = self._waiting, self._given_up
        self._waiting, self._given_up = [], []
        return result
