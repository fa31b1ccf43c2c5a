"""The numbers of waiting and running tasks, for applications whose tasks have sizes of their own.

A queue counts the tasks of an application.  Each task that is enqueued gets the number of a task that is in no
queue: first of those that left a queue unstarted (withdrawn, or lost in a failure), the last one first, then of those
that have never been enqueued.  On one machine, tasks of an application start in the order in which they were
enqueued.  Schedulers thus place tasks without knowing their numbers, and each size is used once.
"""

cimport cython

import numpy as np

from gridcore.common.state import ArrayEntry, check_total, read

__all__ = ["TaskNumbers"]

_STATE = {
    "running_task": ArrayEntry(np.int32, ("cores",), (-1, "tasks")),
    "fresh": ArrayEntry(np.int32, ("applications",), (0, None)),
    "queued_tasks": ArrayEntry(np.int32, limits=(0, "tasks")),
    "returned_tasks": ArrayEntry(np.int32, limits=(0, "tasks")),
}


@cython.final
@cython.auto_pickle(False)
cdef class TaskNumbers:
    """The numbers and sizes of the tasks of all applications, queued on `machines` machines and run by `cores` cores."""

    def __cinit__(self, Py_ssize_t machines, Py_ssize_t cores):
        self.size = np.zeros(0)
        self.offset = np.zeros(1, np.int64)
        self.n_enqueued = self.free = self.first_returned = self.after = np.zeros(0, np.int32)
        self.head = np.full(machines, -1, np.int32)
        self.tail = np.full(machines, -1, np.int32)
        self.running = np.full(cores, -1, np.int32)

    cdef int add(self, const double[::1] sizes, const long long[::1] tasks) except -1:
        """Append applications with `tasks` tasks; `sizes` (Mflop) has the sizes of all tasks, by application."""
        cdef Py_ssize_t k = tasks.shape[0]
        counts = np.asarray(tasks)
        if k and counts.min() < 0:
            raise ValueError(f"tasks[{int(counts.argmin())}] must be >= 0, got {counts.min()}")
        if counts.sum() != sizes.shape[0]:
            raise ValueError(f"sizes must have an entry for each of {counts.sum()} tasks, got {sizes.shape[0]}")
        if self.offset[self.applications] + counts.sum() >= 2**31:
            raise OverflowError(f"tasks must add up to at most {2**31 - 1}, "
                                f"got {self.offset[self.applications] + counts.sum()}")
        self.offset = np.concatenate((self.offset, self.offset[self.applications] + np.cumsum(counts)))
        self.size = np.concatenate((self.size, sizes))
        self.largest_size = max(self.largest_size, np.max(sizes, initial=0.0))
        self.n_enqueued = np.concatenate((self.n_enqueued, np.zeros(k, np.int32)))
        self.free = np.concatenate((self.free, counts.astype(np.int32)))
        self.first_returned = np.concatenate((self.first_returned, np.full(k, -1, np.int32)))
        self.after = np.concatenate((self.after, np.full(sizes.shape[0], -1, np.int32)))
        self.applications += k
        return 0

    cdef int bind(self, Py_ssize_t machine, Py_ssize_t application) noexcept nogil:
        """Append an unqueued task of `application` to the queue of `machine`, and return it; there must be one."""
        cdef int task = self.first_returned[application]
        if task >= 0:
            self.first_returned[application] = self.after[task]
        else:
            task = <int> (self.offset[application] + self.n_enqueued[application])
            self.n_enqueued[application] += 1
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
        """Return the first waiting task of `application` on `machine`; there must be one."""
        cdef int task = self.head[machine]
        return task if self._is_of(task, application) else self.following(task, application)

    cdef int following(self, int task, Py_ssize_t application) noexcept nogil:
        """Return the waiting task of `application` that follows `task` on its machine; there must be one."""
        task = self.after[task]
        while not self._is_of(task, application):
            task = self.after[task]
        return task

    cdef int begin(self, Py_ssize_t machine, Py_ssize_t application, Py_ssize_t core) noexcept nogil:
        """Start the task that `first` returns on `core`, and return it."""
        cdef int task = self.head[machine], previous = -1
        while not self._is_of(task, application):
            previous, task = task, self.after[task]
        self._unlink(machine, previous, task)
        self.running[core] = task
        return task

    cdef void _unlink(self, Py_ssize_t machine, int previous, int task) noexcept nogil:
        """Remove `task`, which follows `previous` (-1: it is the first), from the queue of `machine`."""
        if previous < 0:
            self.head[machine] = self.after[task]
        else:
            self.after[previous] = self.after[task]
        if self.tail[machine] == task:
            self.tail[machine] = previous

    cdef int release_last(self, Py_ssize_t machine, Py_ssize_t application) noexcept nogil:
        """Remove the last task of `application` from the queue of `machine`, and return it; there must be one."""
        cdef int task = self.head[machine], previous = -1, last = -1, before_last = -1
        while task >= 0:
            if self._is_of(task, application):
                last, before_last = task, previous
            previous, task = task, self.after[task]
        self._unlink(machine, before_last, last)
        self._release(last, application)
        return last

    cdef void _release(self, int task, Py_ssize_t application) noexcept nogil:
        self.after[task] = self.first_returned[application]
        self.first_returned[application] = task
        self.free[application] += 1

    cdef void release_running(self, Py_ssize_t core) noexcept nogil:
        """Return the task that runs on `core`, which must have one, to its application."""
        self._release(self.running[core], self.application_of(self.running[core]))
        self.running[core] = -1

    cdef void release_waiting(self, Py_ssize_t machine) noexcept nogil:
        """Remove all waiting tasks from `machine`."""
        cdef int task = self.head[machine], following
        while task >= 0:
            following = self.after[task]
            self._release(task, self.application_of(task))
            task = following
        self.head[machine] = self.tail[machine] = -1

    cdef Py_ssize_t application_of(self, int task) noexcept nogil:
        """Return the application of a task."""
        cdef Py_ssize_t low = 0, high = self.applications, middle
        while low + 1 < high:  # offset[low] <= task < offset[high]
            middle = (low + high) // 2
            if self.offset[middle] <= task:
                low = middle
            else:
                high = middle
        while self.offset[low + 1] <= task:  # skip applications without tasks
            low += 1
        return low

    cdef dict getstate(self):
        """Return the queued tasks by machine, the running tasks, and the tasks returned to their application."""
        cdef Py_ssize_t k
        cdef int task
        queued, lost_tasks = [], []
        for k in range(self.head.shape[0]):
            task = self.head[k]
            while task >= 0:
                queued.append(task)
                task = self.after[task]
        for k in range(self.applications):
            task = self.first_returned[k]
            while task >= 0:
                lost_tasks.append(task)
                task = self.after[task]
        return {"queued_tasks": np.array(queued, np.int32), "returned_tasks": np.array(lost_tasks, np.int32),
                "running_task": np.array(self.running), "fresh": np.array(self.n_enqueued)}

    cdef TaskNumbers read_state(self, state, machine, application, tasks, running):
        """Read the task numbers from a state of `getstate`, of the same applications.

        Parameters
        ----------
        machine, application, tasks
            int64[k], the shares in the queues of all machines, by machine.
        running
            int32[cores], negative if a core runs no task.

        Raises
        ------
        ValueError
            If a task occurs twice, or the queued tasks are not those of the shares.
        """
        cdef Py_ssize_t k, machines = self.head.shape[0]
        cdef int task
        cdef TaskNumbers numbers = TaskNumbers(machines, self.running.shape[0])
        entries = read(state, _STATE, cores=self.running.shape[0], applications=self.applications, tasks=self.size.shape[0])
        offset, queued, returned = np.asarray(self.offset), entries["queued_tasks"], entries["returned_tasks"]
        running_task = np.where(running >= 0, entries["running_task"], -1).astype(np.int32)
        placed = np.concatenate((queued, returned, running_task[running_task >= 0])).astype(np.int64)
        if len(np.unique(placed)) < len(placed):
            values, counts = np.unique(placed, return_counts=True)
            raise ValueError("state['queued_tasks'], state['returned_tasks'] and state['running_task'] must have different "
                             f"tasks, got {values[counts > 1][0]} twice")
        check_total("the tasks in state['shares']", tasks, len(queued))
        owner, machine_of = np.searchsorted(offset, placed, side="right") - 1, np.repeat(machine, tasks)
        places = machine_of * self.applications + owner[:len(queued)]
        if (np.sort(places) != np.sort(machine_of * self.applications + np.repeat(application, tasks))).any():
            raise ValueError("state['queued_tasks'] must have as many tasks of each application as state['shares'] on each machine")
        counts = np.diff(offset)
        n_enqueued = np.minimum(entries["fresh"], counts)
        np.maximum.at(n_enqueued, owner, placed - offset[owner] + 1)
        numbers.size, numbers.largest_size, numbers.offset = self.size, self.largest_size, self.offset
        numbers.applications = self.applications
        numbers.n_enqueued, numbers.running = n_enqueued.astype(np.int32), running_task
        numbers.free = (counts - n_enqueued).astype(np.int32)
        numbers.first_returned = np.full(self.applications, -1, np.int32)
        numbers.after = np.full(self.size.shape[0], -1, np.int32)
        for k in range(len(queued)):
            numbers._append(machine_of[k], queued[k])
        for k in reversed(range(len(returned))):
            task = returned[k]
            numbers._release(task, numbers.application_of(task))
        return numbers
