"""Rigid jobs that the caller starts: the kernel under batch schedulers that are written in Python.

It runs up to the next instant at which jobs end or are submitted, and leaves it to the caller which jobs start.
`StepProfile` says when how many machines will be free.

With the disciplines of `tests.reference.batch_queue`, written as programs of `gridsim.scheduling.jobs.JobPolicy`, it
starts the same jobs as `JobQueue`.
"""

from cpython.exc cimport PyErr_CheckSignals

from gridcore.common.arguments cimport _Guard, guard, indices
from gridcore.common.bits cimport lowest_bit
from gridcore.common.heap cimport heap_push
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.common.release_queue cimport ReleaseQueue
from gridcore.rigid_queue.occupancy cimport Occupancy, occupancy_take_one
from gridcore.rigid_queue.runs cimport (
    ENDED, LAST_END, NO_MEMORY, PAUSE, RUNNING, SIGNALS, WAITING, JobRuns,
)
from gridcore.rigid_queue.steps cimport (
    Profile, profile_add, profile_clear, profile_earliest, profile_free, profile_step,
)

import numpy as np

__all__ = ["StepProfile", "ManualQueue"]


cdef class ManualQueue(JobRuns):
    """Rigid jobs on `machines` identical machines, which start when the caller says so.

    Durations are at most 2**61 ns.  An object supports one thread at a time.

    Parameters
    ----------
    nodes
        int64[jobs], the number of machines that each job requests, 1..machines.
    run
        int64[jobs], ns >= 1, the run time of each job.
    estimate
        int64[jobs], ns >= 1, the estimated run time of each job, which may differ from `run`.
    sizes
        int64[partitions], the machines of each partition, whose machines have consecutive numbers; None for one.
    partition
        int64[jobs], the partition of each job.
    releases
        The submissions of all jobs, some of which follow the ends of others (`gridcore.ReleaseQueue`); None if jobs are
        submitted by `submit`.
    log
        Whether to keep every run for `starts`.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    cdef int[::1] changed                  # the jobs that have joined or ended since `advance` was called
    cdef Py_ssize_t n_changed

    def __cinit__(self, machines: SupportsIndex, nodes: ArrayLike, run: ArrayLike, estimate: ArrayLike, *,
                  sizes: ArrayLike | None=None, partition: ArrayLike | None=None,
                  ReleaseQueue releases=None, bint log=False):
        self._set_up("nodes", machines, nodes, run, estimate, sizes, partition, releases, log)
        self._set_up_machines()
        self.changed = np.zeros(2 * self.jobs, np.int32)
        self._clear()

    cdef void _join(self, int job, bint is_new) noexcept nogil:
        if is_new:
            self._note(job)

    cdef bint _after_end(self, int job) noexcept nogil:
        self._note(job)
        return True

    cdef void _note(self, int job) noexcept nogil:
        # a job joins once and ends once, so there is room
        self.changed[self.n_changed] = job
        self.n_changed += 1

    def advance(self, long long until) -> list[int] | None:
        """Run up to the next instant at which something happens, or to `until` ns if nothing does by then.

        Jobs end or are submitted then, machines have failed or recovered at the present instant, or the caller
        wanted to be woken.

        Returns the jobs that have ended (ascending) or are submitted then, or None if nothing happens by `until`.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef int reason = SIGNALS
        cdef Py_ssize_t k
        self.n_changed = 0
        if self.wake_at <= self.now:
            self.wake_at = NEVER
        while reason == SIGNALS:
            PyErr_CheckSignals()
            with nogil:
                reason = self._run(until)
        if reason == NO_MEMORY:
            raise MemoryError
        if self.wake_at <= self.now:
            self.wake_at = NEVER
        return [self.changed[k] for k in range(self.n_changed)] if reason == PAUSE else None

    def wake(self, long long at) -> None:
        """Let `advance` stop at an instant, ns, later than now; of several, the first counts.

        Raises
        ------
        ValueError
            If the instant is not later than now.
        """
        cdef _Guard access = guard(&self.in_call)
        if at <= self.now:
            raise ValueError(f"at must be > {self.now} ns, the present, got {at}")
        self.wake_at = min(self.wake_at, at)

    def estimate_job(self, Py_ssize_t job, long long estimate) -> None:
        """Set the estimate of a job that waits or runs, ns.

        Raises
        ------
        ValueError
            If the job neither waits nor runs, or the estimate is not in 1..2**61.
        """
        cdef _Guard access = guard(&self.in_call)
        if not 0 <= job < self.jobs or self.status[job] not in (WAITING, RUNNING):
            raise ValueError(f"job must be waiting or running, got {job}")
        if not 1 <= estimate <= LATEST:
            raise ValueError(f"estimate must be in 1..{LATEST} ns, got {estimate}")
        if self.status[job] == WAITING:
            self.estimate[job] = estimate
            return
        self._move_end(<int> job, estimate)

    def estimate_of(self, Py_ssize_t job) -> int:
        """Return the estimate of a job, ns."""
        cdef _Guard access = guard(&self.in_call)
        if not 0 <= job < self.jobs:
            raise ValueError(f"job must be in 0..{self.jobs - 1}, got {job}")
        return self.estimate[job]

    def start_job(self, Py_ssize_t job, machines: ArrayLike | None=None) -> None:
        """Start a waiting job now, on the free machines of its partition with the lowest numbers or on `machines`.

        Raises
        ------
        ValueError
            If the job does not wait, if too few machines are free, or if `machines` are not as many different free
            ones of its partition as it requests.
        OverflowError
            If it would end after 2**62 ns.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Occupancy* occupancy
        cdef const long long[::1] ids
        cdef Py_ssize_t k
        cdef int span = -1
        self._check(job, WAITING, "waiting")
        occupancy = &self.occupancy[self.partition[job]]
        if self.length[job] > LAST_END - self.now:
            raise OverflowError("jobs must end by 2**62 ns")
        if machines is not None:
            ids = np.sort(indices(machines, "machines", 0, self.machines))
            if ids.shape[0] != self.nodes[job]:
                raise ValueError(f"machines must be {self.nodes[job]}, as job {job} requests, got {ids.shape[0]}")
            for k in range(ids.shape[0]):
                if not (occupancy.idle[ids[k] >> 6] >> (ids[k] & 63)) & 1 or (k and ids[k] == ids[k - 1]):
                    raise ValueError(f"machines must be different and free for job {job}, got {ids[k]}")
            for k in range(ids.shape[0] - 1, -1, -1):
                occupancy_take_one(occupancy, &span, ids[k])
        elif self.nodes[job] > occupancy.n_idle:
            raise ValueError(f"job {job} must fit on the free machines, {occupancy.n_idle}, got {self.nodes[job]}")
        self._start_on(<int> job, span)

    def kill_job(self, Py_ssize_t job) -> None:
        """End a running job now, before its run time is over.

        Raises
        ------
        ValueError
            If the job does not run.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k, left = 0
        self._check(job, RUNNING, "running")
        if not self._leave(<int> job, True):
            raise MemoryError
        self.finish[job] = self.now
        self.status[job] = ENDED
        self.ended += 1
        for k in range(self.n_running):
            if self.ends[k].number != job:
                heap_push(self.ends, left, self.ends[k])
                left += 1
        self._forget_end(<int> job)
        self._handle_over(<int> job)

    def reject_job(self, Py_ssize_t job) -> None:
        """Remove a waiting job, which never runs.

        Raises
        ------
        ValueError
            If the job does not wait.
        """
        cdef _Guard access = guard(&self.in_call)
        self._check(job, WAITING, "waiting")
        self.status[job] = ENDED
        self.ended += 1
        self._handle_over(<int> job)

    cdef int _check(self, Py_ssize_t job, char status, str condition) except -1:
        if not 0 <= job < self.jobs:
            raise ValueError(f"job must be in 0..{self.jobs - 1}, got {job}")
        if self.status[job] != status:
            raise ValueError(f"job must be {condition}, got {job}, which is not")
        return 0

    def free(self, Py_ssize_t partition=0) -> int:
        """Return the number of free machines of a partition."""
        cdef _Guard access = guard(&self.in_call)
        if not 0 <= partition < self.partitions:
            raise ValueError(f"partition must be in 0..{self.partitions - 1}, got {partition}")
        return self.occupancy[partition].n_idle

    def free_machines(self) -> Integers:
        """Return the free machines of all partitions, ascending: int64[k]."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t p, k, n = 0
        cdef unsigned long long mask
        for p in range(self.partitions):
            n += self.occupancy[p].n_idle
        numbers = np.zeros(n, np.int64)
        cdef long long[::1] out = numbers
        n = 0
        for p in range(self.partitions):
            for k in range(self.occupancy[p].words):
                mask = self.occupancy[p].idle[k]
                while mask:
                    out[n] = 64 * k + lowest_bit(mask)
                    n += 1
                    mask &= mask - 1
        return numbers

    def machines_of(self, Py_ssize_t job) -> Integers:
        """Return the machines of a running job, ascending: int64[k]."""
        cdef _Guard access = guard(&self.in_call)
        cdef const Occupancy* occupancy
        cdef Py_ssize_t n = 0
        cdef int s
        cdef unsigned long long mask
        self._check(job, RUNNING, "running")
        occupancy = &self.occupancy[self.partition[job]]
        numbers = np.zeros(self.nodes[job], np.int64)
        cdef long long[::1] out = numbers
        s = self.spans[job]
        while s >= 0 and n < out.shape[0]:
            mask = occupancy.span[s].mask
            while mask and n < out.shape[0]:
                out[n] = 64 * <Py_ssize_t> occupancy.span[s].word + lowest_bit(mask)
                n += 1
                mask &= mask - 1
            s = occupancy.span[s].next
        return numbers

    def waiting_jobs(self) -> Integers:
        """Return the jobs that wait, ascending: int64[k]."""
        cdef _Guard access = guard(&self.in_call)
        return np.flatnonzero(np.asarray(self.status) == WAITING)

    def running_jobs(self) -> Integers:
        """Return the running jobs, in order of their starts and numbers: int64[k]."""
        cdef _Guard access = guard(&self.in_call)
        jobs = np.flatnonzero(np.asarray(self.status) == RUNNING)
        return jobs[np.argsort(np.asarray(self.start)[jobs], kind="stable")]

    def profile(self, Py_ssize_t partition=0) -> StepProfile:
        """Return the machines of a partition that are free now, or become free by the estimates of running jobs.

        A job that runs beyond its estimate is expected to end in 1 ns.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef StepProfile profile = StepProfile(self.now, 0)
        if not 0 <= partition < self.partitions:
            raise ValueError(f"partition must be in 0..{self.partitions - 1}, got {partition}")
        if not self._fill_profile(&profile.profile, partition):
            raise MemoryError
        return profile


cdef class StepProfile:
    """The number of free machines over time, from `now` ns on, with reservations of rigid jobs.

    An object supports one thread at a time.

    Parameters
    ----------
    now
        Instant of its beginning, ns, 0..2**62.
    free
        Number of machines that are free from then on.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    cdef bint in_call
    cdef Profile profile
    cdef readonly long long now

    def __cinit__(self, long long now, long long free):
        if not 0 <= now <= LAST_END:
            raise ValueError(f"now must be in 0..{LAST_END} ns, got {now}")
        if not 0 <= free < 2**31:
            raise ValueError(f"free must be in 0..{2**31 - 1}, got {free}")
        self.now = now
        if not profile_clear(&self.profile, now, free):
            raise MemoryError

    def __dealloc__(self):
        profile_free(&self.profile)

    def earliest(self, long long nodes, long long duration, at=None) -> int | None:
        """Return the first instant from `at` on, ns, from which `nodes` machines are free for `duration` ns.

        `at` is `now` by default.  None if there is no such instant.

        Raises
        ------
        ValueError
            If an argument is invalid.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef long long start, first = self.now if at is None else at
        self._check(nodes, duration, first)
        start = profile_earliest(&self.profile, nodes, duration, first, NEVER)
        return None if start == NEVER else start

    def reserve(self, long long nodes, long long duration, long long at) -> None:
        """Reserve `nodes` machines from `at` ns on for `duration` ns; negative `nodes` free them again.

        The number of free machines may become negative.

        Raises
        ------
        ValueError
            If an argument is invalid.
        """
        cdef _Guard access = guard(&self.in_call)
        self._check(abs(nodes), duration, at)
        if not profile_add(&self.profile, at, at + duration, -nodes):
            raise MemoryError

    def free(self, long long at) -> int:
        """Return the number of machines that are free at an instant, ns, not earlier than `now`."""
        cdef _Guard access = guard(&self.in_call)
        self._check(1, 1, at)
        return self.profile.idle[profile_step(&self.profile, at)]

    def steps(self) -> tuple[Integers, Integers]:
        """Return the instants at which the number changes (ns, ascending), and the number from each on: int64[k] each."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        rows = np.zeros((2, self.profile.n), np.int64)
        cdef long long[:, ::1] out = rows
        for k in range(self.profile.n):
            out[0, k], out[1, k] = self.profile.at[k], self.profile.idle[k]
        return rows[0], rows[1]

    cdef int _check(self, long long nodes, long long duration, long long at) except -1:
        if not 1 <= nodes < 2**31:
            raise ValueError(f"nodes must be in 1..{2**31 - 1}, got {nodes}")
        if not 1 <= duration <= LATEST:
            raise ValueError(f"duration must be in 1..{LATEST} ns, got {duration}")
        if not self.now <= at <= LAST_END:
            raise ValueError(f"at must be in {self.now}..{LAST_END} ns, got {at}")
        return 0
