"""The negotiations of DGS_ASAP about jobs: the knowledge of the scheduling nodes, which survives failures."""

from libc.stdlib cimport calloc, free

from gridcore.common.arguments cimport _Guard, guard
from gridcore.common.instants cimport LATEST

import numpy as np

from gridcore.common.state import ANY, FLAG, ArrayEntry, TableEntry, read, read_only, refuse

__all__ = ["BROKEN", "CANCELLED", "COMMITTING", "DONE", "FAILED", "NEW", "Negotiations", "PLACED", "SEARCHING",
           "WAITING"]

_COUNT = ArrayEntry(np.int64, ("jobs",), (0, LATEST))
# The columns of jobs that change during a run, by name; see `gridsim.schedulers.dgs.node.DgsRecord`.
_COLUMNS = {
    "phase": ArrayEntry(np.int8, ("jobs",), (0, CANCELLED + 1)),
    "has_lost_node": ArrayEntry(np.bool_, ("jobs",)),
    "attempt": ArrayEntry(np.int32, ("jobs",), (0, 2**30)),
    "failed_searches": ArrayEntry(np.int32, ("jobs",), (0, 2**30)),
    **dict.fromkeys(("searches", "conflicts", "late", "reached", "resubmitted"), _COUNT),
}
_STATE = {
    **_COLUMNS,
    "answers": TableEntry({"start": (-1, "slots"), "searcher": (0, "nodes")}),
    "members": ArrayEntry(np.int64, limits=(0, "nodes")),
    "negotiations": TableEntry({
        "job": (0, "jobs"), "start": (-1, "slots"), "first_late_start": (-1, "slots"), "missing": ANY,
        "answers": (0, 2**31), "reserved": (0, 2**31), "has_nodes": FLAG, "retry_may_help": FLAG,
    }),
}


cdef class Negotiations(Handlers):
    """The negotiations about the jobs of a run; base class of `gridcore.dgs.nodes.DgsNodes`.

    Parameters
    ----------
    nodes, applications
        The number of nodes, and of jobs.
    """

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *_args, **_options):
        self.columns = {name: np.zeros(applications, entry.dtype) for name, entry in _COLUMNS.items()}
        self.phase, self.has_lost_node = self.columns["phase"], self.columns["has_lost_node"].view(np.uint8)
        self.attempt, self.failed_searches = self.columns["attempt"], self.columns["failed_searches"]
        self.searches, self.conflicts = self.columns["searches"], self.columns["conflicts"]
        self.late_answers, self.most_candidates = self.columns["late"], self.columns["reached"]
        self.resubmitted, self.n_unfinished = self.columns["resubmitted"], applications
        self.negotiation = <Negotiation**> calloc(applications + 1, sizeof(Negotiation*))
        if self.negotiation == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t k
        if self.negotiation != NULL:
            for k in range(self.applications):
                negotiation_drop(&self.negotiation[k])
        free(self.negotiation)

    def machines_of(self, Py_ssize_t job) -> Integers:
        """Return the machines of the allocation of a job that is being tried or was reserved."""
        cdef const Negotiation* negotiation = self._find(job)
        cdef Py_ssize_t k
        if negotiation == NULL or negotiation.nodes == NULL:
            return np.zeros(0, np.int64)
        return np.array([negotiation.nodes[k] for k in range(negotiation.n_nodes)], np.int64)

    def negotiation_of(self, Py_ssize_t job) -> dict[str, Any]:
        """Return the knowledge of the scheduling node of a job: start, missing, taken and answers.

        Answers are in the order in which it tries them: (start, order of arrival, searcher, 0, nodes).
        """
        cdef const Negotiation* negotiation = self._find(job)
        cdef const Answer* answer
        cdef Py_ssize_t k, i
        if negotiation == NULL:
            return {"start": -1, "missing": 0, "taken": [], "answers": []}
        answers = []
        for k in range(negotiation.n_answers):
            answer = &negotiation.answers[k]
            if answer.start >= 0:
                nodes = np.array([answer.nodes[i] for i in range(negotiation.n_nodes)], np.int64)
                answers.append((answer.start, k, answer.searcher, 0.0, nodes))
        return {"start": negotiation.start, "missing": negotiation.missing,
                "taken": [negotiation.reserved[k] for k in range(negotiation.n_reserved)],
                "answers": sorted(answers)}

    cdef Negotiation* _find(self, Py_ssize_t job) except? NULL:
        """Return the negotiation about a job; NULL if there is none."""
        if not 0 <= job < self.applications:
            raise ValueError(f"job must be in 0..{self.applications - 1}, got {job}")
        return self.negotiation[job]

    # -- checkpoints --------------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since construction, as described in `gridcore.common.state`.

        ``members`` has the nodes of each negotiation in turn: of its allocation, of its answers, and those that have
        committed.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const Negotiation* negotiation
        cdef const Answer* answer
        cdef Py_ssize_t job, k, i
        rows, answers, members = [], [], []
        for job in range(self.applications):
            negotiation = self.negotiation[job]
            if negotiation == NULL:
                continue
            rows.append((job, negotiation.start, negotiation.first_late_start, negotiation.missing,
                         negotiation.n_answers, negotiation.n_reserved, negotiation.nodes != NULL,
                         negotiation.retry_may_help))
            if negotiation.nodes != NULL:
                members += [negotiation.nodes[i] for i in range(negotiation.n_nodes)]
            for k in range(negotiation.n_answers):
                answer = &negotiation.answers[k]
                answers.append((answer.start, answer.searcher))
                if answer.start >= 0:
                    members += [answer.nodes[i] for i in range(negotiation.n_nodes)]
            members += [negotiation.reserved[i] for i in range(negotiation.n_reserved)]
        return read_only({
            **self.columns, "answers": np.array(answers, np.int64).reshape(-1, 2),
            "members": np.array(members, np.int64), "negotiations": np.array(rows, np.int64).reshape(-1, 8),
        })

    def setstate(self, state):
        """Restore a state of `getstate` of an object with the same arguments; raise ValueError if it is invalid."""
        cdef _Guard access = guard(&self.in_call)
        cdef Negotiation* negotiation
        cdef Answer* answer
        cdef Py_ssize_t k, n, job, at = 0, answers_at = 0
        entries = read(state, _STATE, nodes=self.nodes, jobs=self.applications, slots=LATEST // self.slot + 1)
        self._check_lengths(entries["negotiations"], entries["answers"], entries["members"])
        cdef const long long[:, ::1] rows = entries["negotiations"], answers = entries["answers"]
        cdef const long long[::1] members = entries["members"]
        for name, column in self.columns.items():
            column[:] = entries[name]
        self.n_unfinished = int(np.isin(self.columns["phase"], (DONE, FAILED, CANCELLED), invert=True).sum())
        for job in range(self.applications):
            negotiation_drop(&self.negotiation[job])
        for k in range(rows.shape[0]):
            job = rows[k, 0]
            negotiation = negotiation_open(&self.negotiation[job], self.tasks[job])
            negotiation.start, negotiation.first_late_start, negotiation.missing = rows[k, 1], rows[k, 2], rows[k, 3]
            negotiation.retry_may_help = rows[k, 7] != 0
            if rows[k, 6]:
                negotiation.nodes = negotiation_nodes(negotiation)
                negotiation.reserved = negotiation_nodes(negotiation)
                at = read_members(members, at, negotiation.nodes, negotiation.n_nodes)
            for n in range(rows[k, 4]):
                answer = negotiation_answer(negotiation, answers[answers_at, 0], answers[answers_at, 1])
                answers_at += 1
                if answer.start >= 0:
                    at = read_members(members, at, answer.nodes, negotiation.n_nodes)
            negotiation.n_reserved = <int> rows[k, 5]
            at = read_members(members, at, negotiation.reserved, negotiation.n_reserved)

    cdef int _check_lengths(self, rows, answers, members) except -1:
        """Raise ValueError unless `answers` and `members` have as many rows as the negotiations in `rows` need."""
        tasks, n_answers, n_reserved = np.asarray(self.tasks)[rows[:, 0]], rows[:, 4], rows[:, 5]
        refuse("negotiations", n_reserved > tasks * rows[:, 6], "without more reserved nodes than requested ones")
        if n_answers.sum() != len(answers):
            raise ValueError(f"state['answers'] must have {n_answers.sum()} rows, got {len(answers)}")
        of_answers = np.repeat(tasks, n_answers)[answers[:, 0] >= 0].sum()
        expected = (tasks * rows[:, 6] + n_reserved).sum() + of_answers
        if expected != len(members):
            raise ValueError(f"state['members'] must have {expected} nodes, got {len(members)}")
        return 0


cdef Py_ssize_t read_members(const long long[::1] members, Py_ssize_t at, int* nodes, Py_ssize_t n) noexcept nogil:
    """Copy `n` nodes from index `at` of a state to `nodes`; return the index after the last copied node."""
    cdef Py_ssize_t k
    for k in range(n):
        nodes[k] = <int> members[at + k]
    return at + n
