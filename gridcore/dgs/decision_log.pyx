"""The record of the decisions of DGS_ASAP: requests, searches, choices, refusals, and the true values then.

It is used only where decisions are recorded, by nodes in compiled and in interpreted form, and changes nothing of
what they do: it only reads schedules, and takes the true values from the schedules as they are now.
"""

cimport cython

from libc.math cimport NAN

from gridcore.common.instants cimport NEVER
from gridcore.dgs.negotiations cimport COMMITTING, SEARCHING
from gridcore.dgs.slots cimport Node, SlotSchedules

import numpy as np

__all__ = ["DgsDecisionLog"]


cdef Py_ssize_t checked_node(SlotSchedules schedules, Py_ssize_t node) except -1:
    if not 0 <= node < schedules.nodes:  # a state from a file may have any values here
        raise ValueError(f"answer_bases must have nodes below {schedules.nodes}, got {node}")
    return node


@cython.auto_pickle(False)
@cython.boundscheck(True)               # what is read are lists and arrays of Python
cdef class DgsDecisionLog:
    """Records the decisions of the nodes of a run.

    Parameters
    ----------
    grid
        The `gridsim.schedulers.dgs.environment.DgsEnvironment` of the run.  Its ``answer_bases`` has what answers rest
        on: job -> searcher -> (its candidates until it has answered, the oldest instant (ns) of what it knows of them,
        the slot from which on it looked).
    decisions
        The `gridsim.results.decisions.Decisions` of the run.
    """

    def __cinit__(self, grid, decisions):
        self.grid, self.schedules, self.rows = grid, grid.schedules, DecisionRows(decisions)
        self.slot, self.one_way = grid.times.slot, grid.times.one_way

    cdef double _seconds(self, long long slots) noexcept:
        """Return when a slot begins, s."""
        return <double> (slots * self.slot) / 1e9

    cdef double _age(self, long long now, long long as_of) noexcept:
        """Return the age of information from a given instant, s; before the time 0 nothing has changed."""
        return <double> (now - max(as_of, 0)) / 1e9

    cdef double _earliest(self, const int[::1] nodes, long long tasks, long long length, long long start) except -1:
        """Return the true first start, s, from slot `start` on, of `tasks` tasks on some of `nodes`."""
        cdef Py_ssize_t k
        cdef long long first
        self.schedules._check_job(tasks, length, start)
        self.schedules._begin_search()
        self.schedules._make_room_for(nodes.shape[0])
        for k in range(nodes.shape[0]):
            self.schedules._visit(checked_node(self.schedules, nodes[k]), NEVER - 1, True)
        first = self.schedules._first_start(tasks, length, start)
        if first < 0:
            raise ValueError(f"answer_bases must have nodes for {tasks} tasks, got {nodes.shape[0]}")
        return self._seconds(first)

    def note(self, action: str, job: int, decider: int, *, machine: int = -1, tasks: int = 0, among: int = -1,
             saw: float = NAN, limit: float = NAN, true: float = NAN, age: float = NAN):
        """Record a decision of `decider` on `job` now; see `gridsim.results.decisions.Decisions.record`."""
        cdef DecisionRow* row = self.rows._add(action, self.grid.now, job, decider)
        row.machine, row.tasks, row.among = machine, tasks, among
        row.saw, row.limit, row.true_value, row.age = saw, limit, true, age

    def _of_home(self, str action, job, **columns):
        """Record a decision now of the scheduling node of `job`, or of the machine that acts for it."""
        self.note(action, job.number, self.grid.in_charge(job), **columns)

    # -- the scheduling node ------------------------------------------------------------------------------------

    def asks(self, job, Py_ssize_t home, neighbours: list[int]):
        """Record that a scheduling node asks neighbours to search."""
        self._ask(self.grid.now, job.number, home, np.array(neighbours, np.int32), len(neighbours),
                  int((self.grid.overlay.known_to([home]) >= 0).sum()))

    cdef int _ask(self, long long now, Py_ssize_t job, Py_ssize_t home, const int[:] neighbours, Py_ssize_t n,
                  Py_ssize_t n_known) except -1:
        cdef Py_ssize_t k
        cdef DecisionRow* row
        self.grid.answer_bases[job] = {}
        for k in range(n):
            row = self.rows._add("asked", now, job, home)
            row.machine, row.among = neighbours[k], n_known
        return 0

    def chooses(self, str action, job):
        """Record that the first answer left is chosen (`action` ``"chose"``) or dropped (``"dropped"``)."""
        start, _, searcher, _, nodes = job.answers[0]
        self._choose(action, self.grid.now, job.number, self.grid.in_charge(job), job.length, start, searcher,
                     np.array(nodes, np.int32), len(job.answers))

    cdef int _choose(self, str action, long long now, Py_ssize_t job, Py_ssize_t decider, long long length,
                     long long start, Py_ssize_t searcher, const int[::1] nodes, Py_ssize_t n_answers) except -1:
        """Record the choice of an answer.

        The true value is the first start, from that of the answer on, at which its machines really are free together.
        If that is past, it is the first one from now on: nobody knows what was reserved before.
        """
        cdef long long present = (now + self.slot - 1) // self.slot
        cdef DecisionRow* row = self.rows._add(action, now, job, decider)
        row.machine, row.tasks, row.among = searcher, nodes.shape[0], n_answers
        row.saw, row.limit = self._seconds(start), <double> (now + self.one_way) / 1e9
        row.true_value = self._earliest(nodes, nodes.shape[0], length, max(start, present))
        row.age = self._age(now, self.grid.answer_bases[job][searcher][1])
        return 0

    def waits(self, action: str, job, long long until):
        """Record that the job waits until `until` ns."""
        self._of_home(action, job, saw=until / 1e9, age=0.0)

    def overdue(self, job):
        """Record that messages have not arrived in time, and how many."""
        self._of_home("overdue", job, saw=job.missing, true=job.missing, age=0.0)

    def failed_searches(self, action: str, job, limit: int):
        """Record how many searches in a row have failed, and the `limit` for that number."""
        self._of_home(action, job, saw=job.failed_searches, limit=limit, true=job.failed_searches, age=0.0)

    def too_large(self, job):
        """Record that `job` is rejected because no searcher reached enough machines."""
        self._of_home("gave-up-too-large", job, saw=self.grid.reach_counts[job.number], limit=job.tasks)

    def too_late(self, job, start: int):
        """Record that `job` is rejected because its first possible `start` is too late for its deadline."""
        self._of_home("gave-up-too-late", job, saw=self._seconds(start), limit=self._seconds(job.latest))

    def cancels(self, job, holding: int):
        """Record that the user of `job` cancels it, and how many machines held slots for it."""
        self._of_home("called-off", job, tasks=holding, saw=holding)

    def releases(self, job):
        """Record that an allocation failed and its machines are released."""
        n_reserved = len(job.taken)
        self._of_home("released", job, tasks=n_reserved, saw=n_reserved, limit=len(job.nodes))

    def places(self, job):
        """Record that all machines have committed, and the start that they agreed on."""
        self._place(self.grid.now, job.number, self.grid.in_charge(job), len(job.nodes), job.start, job.has_lost_node)

    cdef int _place(self, long long now, Py_ssize_t job, Py_ssize_t decider, long long tasks, long long start,
                    bint has_lost_node) except -1:
        """Record the start of a job.

        If one of its machines has failed since it committed, nobody knows that yet, and the true value is NaN.
        """
        cdef DecisionRow* row = self.rows._add("placed", now, job, decider)
        row.tasks, row.saw = tasks, self._seconds(start)
        row.true_value = NAN if has_lost_node else row.saw
        self.grid.answer_bases.pop(job, None)
        return 0

    def misses(self, job):
        """Record that the failure of a machine of `job` is detected and its tasks are started again.

        The true value is how many of its machines have failed since that failure, including it.
        """
        absences = self.grid.absences
        failed = absences.since(self.grid.now, job.nodes)
        self._of_home("missed", job, tasks=len(job.nodes), saw=1, true=failed, age=absences.detection / 1e9)

    def moves(self, job):
        """Record that a machine has displaced `job`, whose tasks are started again."""
        self._of_home("displaced", job, tasks=len(job.nodes), saw=1)

    # -- searchers ----------------------------------------------------------------------------------------------

    def _is_awaited(self, job, search: int):
        """Return whether the scheduling node still uses answers of this search."""
        return job.searches == search and job.phase in (SEARCHING, COMMITTING)

    def opens(self, Py_ssize_t searcher, message, candidates, first: int, left: int):
        """Store the basis of a searcher's answer, and record the neighbours that it opened.

        Parameters
        ----------
        message
            The request.
        candidates
            The `gridsim.schedulers.dgs.candidates.Candidates` of the search.
        first
            First slot in which the searcher looked for starts.
        left
            The first slot that leaves time for all messages after these openings.
        """
        job = self.grid.records[message.application]
        if self._is_awaited(job, message.search):
            self._look(self.grid.now, searcher, message.sender, job.number, job.tasks, job.length,
                       np.array(candidates.nodes, np.int32), np.array(candidates.as_of, np.int64), candidates.own_count,
                       candidates.opened, first, left)

    cdef int _look(self, long long now, Py_ssize_t searcher, Py_ssize_t home, Py_ssize_t job, long long tasks,
                   long long length, nodes, const long long[::1] as_of, Py_ssize_t n_own, long long n_opened,
                   long long first, long long left) except -1:
        """Store the basis of a searcher's answer, and record the openings.

        `nodes` (int32[k]) are the nodes in its basis, and `as_of` (ns) the instants of their data.
        """
        cdef const int[::1] node = nodes
        cdef long long oldest = now, oldest_own = now
        cdef Py_ssize_t k
        cdef Node* schedule
        cdef DecisionRow* row
        for k in range(node.shape[0]):
            oldest = min(oldest, as_of[k])
        if n_opened:
            row = self.rows._add("opened", now, job, searcher)
            row.machine, row.tasks, row.among, row.limit = home, n_opened, n_own, tasks
            row.saw = row.true_value = 0.0
            for k in range(n_own):
                oldest_own = min(oldest_own, as_of[k])
                schedule = &self.schedules.node[checked_node(self.schedules, node[k])]
                row.saw += self.schedules._is_free(schedule, as_of[k], first, length)
                row.true_value += self.schedules._is_free(schedule, NEVER - 1, first, length)
            row.age = self._age(now, oldest_own)
        self.grid.answer_bases[job][searcher] = nodes, oldest, max(left, first)
        return 0

    def answers(self, Py_ssize_t searcher, Py_ssize_t home, job_number: int, search: int, long long start):
        """Record that a searcher answers; -1: it has found no start."""
        job = self.grid.records[job_number]
        if self._is_awaited(job, search):
            self._answer(self.grid.now, searcher, home, job.number, job.tasks, job.length, start)

    cdef int _answer(self, long long now, Py_ssize_t searcher, Py_ssize_t home, Py_ssize_t job, long long tasks,
                     long long length, long long start) except -1:
        """Record an answer; the true value is the first start of its candidates now."""
        bases = self.grid.answer_bases[job]
        nodes, oldest, slot = bases[searcher]
        bases[searcher] = None, oldest, slot
        cdef const int[::1] node = nodes
        cdef DecisionRow* row = self.rows._add("unreached" if start < 0 else "answered", now, job, searcher)
        row.machine, row.tasks, row.age = home, tasks, self._age(now, oldest)
        if start < 0:
            row.saw, row.limit, row.true_value = node.shape[0], tasks, node.shape[0]
            return 0
        row.among, row.saw, row.limit = node.shape[0], self._seconds(start), self._seconds(slot)
        row.true_value = self._earliest(node, tasks, length, slot)
        return 0

    # -- machines that run jobs ---------------------------------------------------------------------------------

    def extends(self, node: int, job: int, end: int, displaced: int):
        """Record that a machine extends the slots of a job to slot `end`, for which others must move."""
        until = self._seconds(end)
        self.note("extended", job, node, among=displaced, saw=until, true=until, age=0.0)

    def refuses(self, str action, Py_ssize_t node, commit):
        """Record that a machine refuses to commit.

        Parameters
        ----------
        action
            ``"refused"``, where the threshold is its first free start; or ``"refused-late"``, where it is the
            present time.
        commit
            The message that asked for it.
        """
        self._refuse(action, self.grid.now, node, commit.sender, commit.application, commit.length, commit.start)

    cdef int _refuse(self, str action, long long now, Py_ssize_t node, Py_ssize_t home, Py_ssize_t job,
                     long long length, long long start) except -1:
        cdef DecisionRow* row = self.rows._add(action, now, job, node)
        row.machine, row.saw, row.age, row.limit = home, self._seconds(start), 0.0, now / 1e9
        if action == "refused":
            row.limit = self._earliest(np.array([node], np.int32), 1, length, start)
        return 0
