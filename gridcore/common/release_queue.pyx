"""The releases of applications, some of which follow the ends of others.

An application is released at its stated release, or, if it has predecessors, as soon as all of them have ended and its
think time has passed since the last end, but not before its stated release.  Times are int64 nanoseconds.  Whoever runs
the applications says when they end: a kernel by `end_one`, Python by `end`.

The reference implementation is `tests.reference.release_queue`.
"""

from libc.stdlib cimport free

from gridcore.common.arguments cimport _Guard, check_lengths, check_offsets, guard, indices
from gridcore.common.heap cimport Entry, heap_pop, heap_push
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.common.memory cimport reallocate

import numpy as np

from gridcore.common.state import ArrayEntry, INSTANT, read, read_only

__all__ = ["ReleaseQueue"]


cdef class ReleaseQueue:
    """The applications that are still to be released, in order of release, ties by number.

    An object supports one thread at a time.

    Parameters
    ----------
    release
        int64[n], ns, the stated release of each application.
    predecessors, offsets
        int64[sum], the applications that must have ended before each one is released, and int64[n + 1]: those of
        application i are at ``offsets[i]`` to ``offsets[i + 1]``.  Applications that wait for each other in a circle are
        never released.
    think
        int64[n], ns, the time from the last end of its predecessors to the release of each application.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    def __cinit__(self, release: ArrayLike, predecessors: ArrayLike, offsets: ArrayLike, think: ArrayLike):
        cdef Py_ssize_t k
        self.at = np.array(indices(release, "release", 0, LATEST + 1))
        self.applications = n = self.at.shape[0]
        if n >= 2**31 - 1:
            raise ValueError(f"release must have fewer than {2**31 - 1} entries, got {n}")
        numbers = indices(predecessors, "predecessors", 0, n)
        begins = indices(offsets, "offsets", 0, 2**62)
        check_lengths(n + 1, len(begins), "release and one more", "offsets")
        check_offsets(begins, len(numbers))
        self.think = indices(think, "think", 0, LATEST + 1)
        check_lengths(n, self.think.shape[0], "release", "think")
        self.is_skipped = np.zeros(n, np.uint8)
        counts = np.diff(begins)
        order = np.argsort(numbers, kind="stable")
        self.successors = np.repeat(np.arange(n, dtype=np.int32), counts)[order]
        self.offsets = np.append(0, np.cumsum(np.bincount(numbers, minlength=n))).astype(np.int64)
        self.open = counts.astype(np.int32)
        self.status = np.zeros(n, np.int8)
        self.seconds = np.asarray(self.at) / 1e9
        self.due = <Entry*> reallocate(NULL, (n + 1) * sizeof(Entry))
        for k in range(n):
            if self.open[k] == 0:
                self._push(k)

    def __dealloc__(self):
        free(self.due)

    # -- for kernels ----------------------------------------------------------------------------------------

    cdef void _push(self, Py_ssize_t application) noexcept nogil:
        cdef Entry entry
        entry.at, entry.number = self.at[application], application
        self.status[application] = DUE
        heap_push(self.due, self.n_due, entry)
        self.n_due += 1

    cdef long long first(self) noexcept nogil:
        """Return the next release that is known, ns; NEVER if none is."""
        return self.due[0].at if self.n_due else NEVER

    cdef Py_ssize_t take_one(self, long long now) noexcept nogil:
        """Release the next application that is due by `now`, ns, and return it; -1 if none is.

        Applications that are skipped end at their release and are not returned.
        """
        cdef Py_ssize_t application
        while self.n_due and self.due[0].at <= now:
            application = self.due[0].number
            heap_pop(self.due, self.n_due)
            self.n_due -= 1
            self.status[application] = RELEASED
            self.seconds[application] = self.at[application] / 1e9
            if not self.is_skipped[application]:
                return application
            self.end_one(application, self.at[application])
        return -1

    cdef void end_one(self, Py_ssize_t application, long long now) noexcept nogil:
        """Handle the end of a released application at `now`, ns; a second end has no effect."""
        cdef Py_ssize_t k, after
        if self.status[application] != RELEASED:
            return
        self.status[application] = OVER
        for k in range(self.offsets[application], self.offsets[application + 1]):
            after = self.successors[k]
            self.at[after] = max(self.at[after], min(LATEST, now + self.think[after]))
            self.open[after] -= 1
            if self.open[after] == 0 and self.status[after] == HELD:
                self._push(after)

    # -- for Python -----------------------------------------------------------------------------------------

    @property
    def release(self) -> NDArray[np.int64]:
        """Release of each application, ns, read-only; a lower bound until it is released."""
        return read_only({"at": np.asarray(self.at)})["at"]

    @property
    def release_seconds(self) -> NDArray[np.float64]:
        """Release of each application, s, read-only; the stated one until it is released."""
        return read_only({"seconds": np.asarray(self.seconds)})["seconds"]

    def skip(self, applications: ArrayLike) -> None:
        """Let `applications`, int64[k], end when they are released, without being taken; they are not in the state.

        Raises
        ------
        ValueError
            If an application is invalid.
        """
        cdef _Guard access = guard(&self.in_call)
        np.asarray(self.is_skipped)[indices(applications, "applications", 0, self.applications)] = 1

    def next_release(self) -> int:
        """Return the next release that is known, ns; 2**63 - 1 if none is."""
        cdef _Guard access = guard(&self.in_call)
        return self.first()

    def take(self, long long now) -> list[int]:
        """Release the applications that are due by `now`, ns, and return them in order of release."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t application
        released = []
        while (application := self.take_one(now)) >= 0:
            released.append(application)
        return released

    def end(self, applications: ArrayLike, long long now) -> None:
        """Handle the ends of released `applications`, int64[k], at `now`, ns; a second end has no effect.

        Raises
        ------
        ValueError
            If an argument is invalid.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] ids = indices(applications, "applications", 0, self.applications)
        cdef Py_ssize_t k
        if not 0 <= now <= 2 * LATEST:
            raise ValueError(f"now must be in 0..{2 * LATEST} ns, got {now}")
        for k in range(ids.shape[0]):
            self.end_one(ids[k], now)

    def close(self, long long now) -> None:
        """End all released applications at `now`, ns, and those after them at their releases: nothing runs any more."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        for k in range(self.applications):
            self.end_one(k, now)
        while (k := self.take_one(NEVER)) >= 0:
            self.end_one(k, self.at[k])

    def getstate(self) -> dict[str, Any]:
        """Return the changes since construction, as described in `gridcore.common.state`."""
        cdef _Guard access = guard(&self.in_call)
        return read_only({"status": np.asarray(self.status), "open": np.asarray(self.open), "at": np.asarray(self.at)})

    def setstate(self, state):
        """Restore a state of `getstate` of a queue with the same arguments.

        Raises
        ------
        ValueError
            If the state is invalid.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        n = self.applications
        entries = read(state, {"status": ArrayEntry(np.int8, (n,), (0, OVER + 1)),
                               "open": ArrayEntry(np.int32, (n,)), "at": ArrayEntry(np.int64, (n,), INSTANT)})
        for name, column in (("status", self.status), ("open", self.open), ("at", self.at)):
            np.asarray(column)[...] = entries[name]
        is_known = np.asarray(self.status) >= RELEASED
        np.asarray(self.seconds)[is_known] = np.asarray(self.at)[is_known] / 1e9
        self.n_due = 0
        for k in range(n):
            if self.status[k] == DUE:
                self._push(k)
