"""Which task it is that waits or runs, where tasks of one application have sizes of their own.

A queue counts the tasks of an application.  A task gets its place when it is queued: the first task of the
application without a place, those that have lost one (withdrawn, or lost in a failure) before those that never had
one, the last lost first.  On one machine, tasks of an application start in the order in which they were queued.
So schedulers hand out tasks without knowing which, and no size is used twice.
"""

cimport cython

import numpy as np

from gridcore.common.state import Array, read

__all__ = ["TaskNumbers"]

_STATE = {
    "running_task": Array(np.int32, ("machines",), (-1, "tasks")), "fresh": Array(np.int32, ("applications",), (0, None)),
    "queued_tasks": Array(np.int32, limits=(0, "tasks")), "returned_tasks": Array(np.int32, limits=(0, "tasks")),
}


@cython.final
@cython.auto_pickle(False)
cdef class TaskNumbers:
    """The numbers of the tasks of all applications, on `machines` machines."""

    def __cinit__(self, Py_ssize_t machines):
        self.size = np.zeros(0)
        self.offset = np.zeros(1, np.int64)
        self.fresh = self.free = self.returned = self.after = np.zeros(0, np.int32)
        self.head = np.full(machines, -1, np.int32)
        self.tail = np.full(machines, -1, np.int32)
        self.running = np.full(machines, -1, np.int32)

    cdef int add(self, const double[::1] sizes, const long long[::1] tasks) except -1:
        """Append applications of so many tasks; sizes : Mflop, one application after another."""
        cdef Py_ssize_t k = tasks.shape[0]
        counts = np.asarray(tasks)
        if k and counts.min() < 0:
            raise ValueError(f"tasks[{int(counts.argmin())}] must be >= 0, got {counts.min()}")
        if counts.sum() != sizes.shape[0]:
            raise ValueError(f"sizes must have an entry for each of {counts.sum()} tasks, got {sizes.shape[0]}")
        if self.offset[self.applications] + counts.sum() >= 2**31:
            raise OverflowError(f"there can be {2**31 - 1} tasks with sizes of their own, "
                                f"got {self.offset[self.applications] + counts.sum()}")
        self.offset = np.concatenate((self.offset, self.offset[self.applications] + np.cumsum(counts)))
        self.size = np.concatenate((self.size, sizes))
        self.largest = max(self.largest, np.max(sizes, initial=0.0))
        self.fresh = np.concatenate((self.fresh, np.zeros(k, np.int32)))
        self.free = np.concatenate((self.free, counts.astype(np.int32)))
        self.returned = np.concatenate((self.returned, np.full(k, -1, np.int32)))
        self.after = np.concatenate((self.after, np.full(sizes.shape[0], -1, np.int32)))
        self.applications += k
        return 0

    cdef int bind(self, Py_ssize_t machine, Py_ssize_t application) noexcept nogil:
        """Give a task of `application`, of which one must be free, the last place on `machine`; return it."""
        cdef int task = self.returned[application]
        if task >= 0:
            self.returned[application] = self.after[task]
        else:
            task = <int> (self.offset[application] + self.fresh[application])
            self.fresh[application] += 1
        self.free[application] -= 1
        self._append(machine, task)
        return task

    cdef void _append(self, Py_ssize_t machine, int task) noexcept nogil:
        self.after[task] = -1
        if self.head[machine] < 0:
            self.head[machine] = task
        else:
            self.after[self.tail[machine]] = task
        self.tail[machine] = task

    cdef bint _is_of(self, int task, Py_ssize_t application) noexcept nogil:
        return self.offset[application] <= task < self.offset[application + 1]

    cdef int first(self, Py_ssize_t machine, Py_ssize_t application) noexcept nogil:
        """Return the task of `application` that starts next on `machine`, where one must wait."""
        cdef int task = self.head[machine]
        while not self._is_of(task, application):
            task = self.after[task]
        return task

    cdef int begin(self, Py_ssize_t machine, Py_ssize_t application) noexcept nogil:
        """Take that task out of the queue; it runs."""
        cdef int task = self.head[machine], before = -1
        while not self._is_of(task, application):
            before, task = task, self.after[task]
        self._cut(machine, before, task)
        self.running[machine] = task
        return task

    cdef void _cut(self, Py_ssize_t machine, int before, int task) noexcept nogil:
        """Take `task`, which comes after `before` (-1: first), out of the queue of `machine`."""
        if before < 0:
            self.head[machine] = self.after[task]
        else:
            self.after[before] = self.after[task]
        if self.tail[machine] == task:
            self.tail[machine] = before

    cdef int release_last(self, Py_ssize_t machine, Py_ssize_t application) noexcept nogil:
        """Take the task of `application` that came last to `machine`, where one must wait, out of the queue; return it."""
        cdef int task = self.head[machine], before = -1, found = -1, previous = -1
        while task >= 0:
            if self._is_of(task, application):
                found, previous = task, before
            before, task = task, self.after[task]
        self._cut(machine, previous, found)
        self._release(found, application)
        return found

    cdef void _release(self, int task, Py_ssize_t application) noexcept nogil:
        self.after[task] = self.returned[application]
        self.returned[application] = task
        self.free[application] += 1

    cdef void release_all(self, Py_ssize_t machine) noexcept nogil:
        """Take all tasks from `machine`, the running one too."""
        cdef int task = self.running[machine], following
        if task >= 0:
            self._release(task, self.application_of(task))
        task = self.head[machine]
        while task >= 0:
            following = self.after[task]
            self._release(task, self.application_of(task))
            task = following
        self.running[machine] = self.head[machine] = self.tail[machine] = -1

    cdef Py_ssize_t application_of(self, int task) noexcept nogil:
        """Return the application of a task."""
        cdef Py_ssize_t low = 0, high = self.applications, middle
        while low + 1 < high:  # it begins at or after offset[low], and before offset[high]
            middle = (low + high) // 2
            if self.offset[middle] <= task:
                low = middle
            else:
                high = middle
        while self.offset[low + 1] <= task:  # past applications without tasks
            low += 1
        return low

    cdef dict getstate(self):
        """Return the tasks in queues, machine after machine in order, those that run, and those returned."""
        cdef Py_ssize_t k
        cdef int task
        queued, returned = [], []
        for k in range(self.head.shape[0]):
            task = self.head[k]
            while task >= 0:
                queued.append(task)
                task = self.after[task]
        for k in range(self.applications):
            task = self.returned[k]
            while task >= 0:
                returned.append(task)
                task = self.after[task]
        return {"queued_tasks": np.array(queued, np.int32), "returned_tasks": np.array(returned, np.int32),
                "running_task": np.array(self.running), "fresh": np.array(self.fresh)}

    cdef int setstate(self, state, waiting) except -1:
        """Restore what `getstate` returned; waiting : int64[k, 3], machine, application, tasks of all queues.

        Raises ValueError for a state in which a task would be twice, or not be where tasks of its application are.
        """
        cdef Py_ssize_t k, machine = 0, at = 0
        cdef int task
        cdef long long tasks = self.size.shape[0]
        given = read(state, _STATE, machines=self.head.shape[0], applications=self.applications, tasks=tasks)
        running, fresh, queued, returned = (given[name] for name in _STATE)
        offset = np.asarray(self.offset)
        if (fresh > np.diff(offset)).any():
            raise ValueError("state['fresh'] must be at most the tasks of each application")
        placed = np.concatenate((queued, returned, running[running >= 0])).astype(np.int64)
        which = np.searchsorted(offset, placed, side="right") - 1
        if len(np.unique(placed)) != len(placed) or (placed - offset[which] >= fresh[which]).any():
            raise ValueError("state['queued_tasks'], state['returned_tasks'] and state['running_task'] must have "
                             "each task once, of those that state['fresh'] counts")
        counts = np.zeros(self.head.shape[0], np.int64)
        np.add.at(counts, waiting[:, 0], waiting[:, 2])
        if counts.sum() != len(queued):
            raise ValueError(f"state['queued_tasks'] must have the {counts.sum()} tasks that wait, got {len(queued)}")
        of = np.repeat(np.arange(len(counts)), counts)
        pairs = np.unique(np.stack((of, which[:len(queued)])), axis=1, return_counts=True)
        kept = np.unique(waiting[:, :2].T, axis=1, return_inverse=True)
        total = np.zeros(kept[0].shape[1], np.int64)
        np.add.at(total, kept[1].reshape(-1), waiting[:, 2])
        if pairs[0].shape != kept[0].shape or (pairs[0] != kept[0]).any() or (pairs[1] != total).any():
            raise ValueError("state['queued_tasks'] must have as many tasks of each application as wait on the machine")
        self.fresh, self.running = fresh.copy(), running.copy()
        self.free = (np.diff(offset) - fresh).astype(np.int32)
        self.returned = np.full(self.applications, -1, np.int32)
        self.head = np.full(len(counts), -1, np.int32)
        self.tail = np.full(len(counts), -1, np.int32)
        for k in range(len(queued)):
            self._append(of[k], queued[k])
        for k in reversed(range(len(returned))):
            task = returned[k]
            self._release(task, self.application_of(task))
        return 0
