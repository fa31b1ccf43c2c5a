"""The classic mapping heuristics on matrices of expected times to compute (etc).

They are those of M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen and R. F. Freund, "Dynamic mapping of a class of
independent tasks onto heterogeneous computing systems", JPDC 59 (1999).  Immediate heuristics map tasks in turn;
batch heuristics choose among all tasks.  The unit of time is the caller's; ready times never decrease.

A row may stand for several equal tasks.  Each row has a heap of completion times, of which only the entries at the
top are updated: completion times only grow, so stale entries are lower bounds.

The reference implementation is `tests.reference.mapping`.
"""

from libc.math cimport INFINITY, isfinite
from libc.stdlib cimport free, malloc

from gridcore.common.arguments cimport check_lengths, indices, plain

import numpy as np

__all__ = ["map_batch", "map_in_turn"]

_IN_TURN = ("mct", "met", "olb", "switching", "kpb")
_BATCH = ("min-min", "max-min", "sufferage")
cdef enum:
    MCT, MET, OLB, SWITCHING, KPB
cdef enum:
    MIN_MIN, MAX_MIN, SUFFERAGE


cdef struct MachineEntry:
    double time                                # ready time or completion time, s
    int machine
    int column                                 # the column of `etc` that holds the machine's times


cdef struct Columns:                           # the machines of each column, and the first to be ready
    MachineEntry* machines                     # a heap by ready time per column c: begin[c] .. begin[c + 1] - 1
    Py_ssize_t* begin
    double* first_ready                        # by column: ready time of its first machine; infinite if it has none
    double* second_ready                       # by column: ready time of its second machine
    int* first_machine                         # by column: its first machine


# --- arguments ------------------------------------------------------------------------------------

cdef int rule_of(object rule, tuple known) except -1:
    if rule not in known:
        raise ValueError(f"rule must be one of {', '.join(known)}, got {rule!r}")
    return known.index(rule)


cdef const double[:, ::1] matrix(object values):
    array = np.require(values, np.float64, ("C", "A"))
    if array.ndim != 2:
        raise ValueError(f"etc must have two dimensions, got {array.ndim}")
    cdef const double[:, ::1] entries = array
    cdef Py_ssize_t i, u
    for i in range(entries.shape[0]):
        for u in range(entries.shape[1]):
            if not 0.0 < entries[i, u] < INFINITY:
                raise ValueError(f"etc[{i}, {u}] must be finite and > 0, got {entries[i, u]!r}")
    return entries


cdef double[::1] ready_times(object values, Py_ssize_t machines, str counterpart):
    cdef Py_ssize_t u
    values = plain(values)
    if not isinstance(values, np.ndarray) or values.dtype != np.float64:
        raise TypeError(f"ready must be a float64 array, which is changed in place, got {getattr(values, 'dtype', type(values).__name__)}")
    if values.ndim != 1:
        raise ValueError(f"ready must have one dimension, got {values.ndim}")
    if not values.flags.carray:  # contiguous, writable and aligned
        raise ValueError("ready must be contiguous, aligned and writable, since it is changed in place")
    cdef double[::1] ready = values
    check_lengths(machines, ready.shape[0], counterpart, "ready")
    for u in range(machines):
        if not isfinite(ready[u]) or ready[u] < 0.0:
            raise ValueError(f"ready[{u}] must be finite and >= 0, got {ready[u]!r}")
    return ready


cdef long long total_of(const long long[::1] counts, Py_ssize_t rows, Py_ssize_t machines) except -1:
    cdef Py_ssize_t i
    cdef long long total = 0
    check_lengths(rows, counts.shape[0], "etc", "counts")
    for i in range(rows):
        if counts[i] > 0x7fffffffffff - total:
            raise ValueError(f"the sum of counts must be below 2**47, got at least {total + counts[i]}")
        total += counts[i]
    if total and not machines:
        raise ValueError(f"ready must have at least one entry to map {total} tasks, got none")
    return total


# --- heaps of machines ----------------------------------------------------------------------------

cdef inline bint precedes(MachineEntry a, MachineEntry b) noexcept nogil:
    return a.time < b.time or (a.time == b.time and a.machine < b.machine)


cdef inline void sink(MachineEntry* heap, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    cdef MachineEntry moved = heap[k]
    cdef Py_ssize_t child = 2 * k + 1
    while child < n:
        if child + 1 < n and precedes(heap[child + 1], heap[child]):
            child += 1
        if not precedes(heap[child], moved):
            break
        heap[k] = heap[child]
        k, child = child, 2 * child + 1
    heap[k] = moved


cdef inline double completion(const double* at, const double* etc, int column) noexcept nogil:
    """Return the completion time of a task of row `etc` in `column`; its ready time if `etc` is NULL."""
    return at[column] + etc[column] if etc != NULL else at[column]


cdef inline void rebuild(MachineEntry* heap, Py_ssize_t n, const double* at, const double* etc) noexcept nogil:
    """Update the times of all entries, and restore the heap."""
    cdef Py_ssize_t k
    for k in range(n):
        heap[k].time = completion(at, etc, heap[k].column)
    for k in range(n // 2 - 1, -1, -1):
        sink(heap, n, k)


cdef inline void fill(MachineEntry* heap, Py_ssize_t n, const double* at, const int* first_machine,
                      const double* etc) noexcept nogil:
    """Make a heap of all columns.

    Parameters
    ----------
    first_machine
        The first machine of each column; NULL if columns are machines.
    """
    cdef Py_ssize_t u
    for u in range(n):
        heap[u].machine = first_machine[u] if first_machine != NULL else <int> u
        heap[u].column = <int> u
    rebuild(heap, n, at, etc)


cdef inline void settle(MachineEntry* heap, Py_ssize_t n, Py_ssize_t k, const double* at, const int* first_machine,
                        const double* etc) noexcept nogil:
    """Update entries until entry k is the earliest of its subtree at the current ready times."""
    cdef double end
    cdef int c
    while k < n:
        c = heap[k].column
        end = completion(at, etc, c)
        if end == heap[k].time and (first_machine == NULL or first_machine[c] == heap[k].machine):
            return
        heap[k].time = end
        if first_machine != NULL:
            heap[k].machine = first_machine[c]
        sink(heap, n, k)


cdef inline double second_best(MachineEntry* heap, Py_ssize_t n, const Columns* machine_columns,
                               const double* etc) noexcept nogil:
    """Return the second earliest completion time of a heap with a settled top; infinite if n is 1."""
    cdef double second = machine_columns.second_ready[heap[0].column] + etc[heap[0].column]
    settle(heap, n, 1, machine_columns.first_ready, machine_columns.first_machine, etc)
    settle(heap, n, 2, machine_columns.first_ready, machine_columns.first_machine, etc)
    if n > 1 and heap[1].time < second:
        second = heap[1].time
    if n > 2 and heap[2].time < second:
        second = heap[2].time
    return second


cdef inline void refresh_column(Columns* machine_columns, Py_ssize_t c) noexcept nogil:
    """Update `first_ready`, `first_machine` and `second_ready` of column c, whose heap has changed."""
    cdef MachineEntry* heap = machine_columns.machines + machine_columns.begin[c]
    cdef Py_ssize_t n = machine_columns.begin[c + 1] - machine_columns.begin[c]
    machine_columns.first_ready[c] = heap[0].time if n > 0 else INFINITY
    machine_columns.first_machine[c] = heap[0].machine if n > 0 else 0x7fffffff
    machine_columns.second_ready[c] = heap[1].time if n > 1 else INFINITY
    if n > 2 and heap[2].time < machine_columns.second_ready[c]:
        machine_columns.second_ready[c] = heap[2].time


cdef inline int assign(Columns* machine_columns, Py_ssize_t c, double length, double* ready) noexcept nogil:
    """Assign a task of duration `length` to the first machine of column c; return that machine."""
    cdef MachineEntry* heap = machine_columns.machines + machine_columns.begin[c]
    cdef int u = heap[0].machine
    ready[u] += length
    heap[0].time = ready[u]
    sink(heap, machine_columns.begin[c + 1] - machine_columns.begin[c], 0)
    refresh_column(machine_columns, c)
    return u


cdef void build_columns(Columns* machine_columns, Py_ssize_t columns, const long long[::1] kind,
                 const double[::1] ready) noexcept nogil:
    """Make the heap of each column."""
    cdef Py_ssize_t n = kind.shape[0], c, u, k, size
    cdef MachineEntry* heap
    for c in range(columns + 1):
        machine_columns.begin[c] = 0
    for u in range(n):
        machine_columns.begin[kind[u] + 1] += 1
    for c in range(columns):
        machine_columns.begin[c + 1] += machine_columns.begin[c]
    # here begin[c] is the index for the next machine of column c; the loop below restores it
    for u in range(n):
        k = machine_columns.begin[kind[u]]
        machine_columns.machines[k].time, machine_columns.machines[k].machine = ready[u], <int> u
        machine_columns.machines[k].column = <int> kind[u]
        machine_columns.begin[kind[u]] += 1
    for c in range(columns, 0, -1):
        machine_columns.begin[c] = machine_columns.begin[c - 1]
    machine_columns.begin[0] = 0
    for c in range(columns):
        heap = machine_columns.machines + machine_columns.begin[c]
        size = machine_columns.begin[c + 1] - machine_columns.begin[c]
        for k in range(size // 2 - 1, -1, -1):
            sink(heap, size, k)
        refresh_column(machine_columns, c)


# --- tasks in turn --------------------------------------------------------------------------------

def map_in_turn(etc: ArrayLike, counts: ArrayLike, ready: Floats,
                rule: Literal["mct", "met", "olb", "switching", "kpb"], *, double percent=20.0, double low=0.6,
                double high=0.9, bint uses_met=False) -> tuple[Integers, bool]:
    """Map tasks one by one in the order of rows, without regard to later tasks.

    The balance is computed from the given ready times.  Late in a run, absolute ready times are all large and their
    balance is near 1 for any load, so pass the remaining times instead.

    Returns (machine, uses_met): int64[tasks], and whether "switching" ends with "met".
    Time O(machines) for each row, and O(log(machines)) for each of its tasks.

    Parameters
    ----------
    etc
        float64[rows, machines] > 0, the expected time of a task of each row on each machine.
    counts
        int64[rows] >= 0, how many equal tasks a row stands for.
    ready
        float64[machines] >= 0, when each machine will have completed its tasks; changed in place.
    rule
        Which machine gets a task (ties: the lowest index), "mct": the one that would complete it first, ready
        + etc; "met": the one with the least etc, whatever its load; "olb": the one that is ready first,
        whatever its etc; "kpb": "mct" among the ceil(percent *
        machines / 100) (to a billionth) that take the least time; "switching": "mct" until the balance
        min(ready) / max(ready) is `high` or more, then "met" until it is `low` or less, and so on.  While
        max(ready) is 0, the rule does not change.
    percent
        > 0 and <= 100; 100 is "mct", 100 / machines is "met".
    low, high
        0 <= low < high <= 1.
    uses_met
        Whether "switching" begins with "met".

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If `ready` is not a float64 array.
    """
    cdef const double[:, ::1] e = matrix(etc)
    cdef Py_ssize_t rows = e.shape[0], n = e.shape[1], n_fastest
    cdef const long long[::1] c = indices(counts, "counts", 0, 0x800000000000)
    cdef double[::1] r = ready_times(ready, n, "a row of etc")
    cdef long long total = total_of(c, rows, n)
    cdef int rule_index = rule_of(rule, _IN_TURN)
    if not 0.0 < percent <= 100.0:
        raise ValueError(f"percent must be > 0 and <= 100, got {percent!r}")
    if not 0.0 <= low < high <= 1.0:
        raise ValueError(f"low and high must satisfy 0 <= low < high <= 1, got {low!r} and {high!r}")
    machine = np.zeros(total, np.int64)
    cdef long long[::1] out = machine
    if total == 0:
        return machine, bool(uses_met)
    n_fastest = max(1, int(np.ceil(percent * n / 100.0 - 1e-9)))
    cdef MachineEntry* heaps = <MachineEntry*> malloc(2 * n * sizeof(MachineEntry))
    if heaps == NULL:
        raise MemoryError
    with nogil:
        uses_met = assign_in_turn(e, c, &r[0], rule_index, n_fastest, low, high, uses_met, out, heaps)
    free(heaps)
    return machine, bool(uses_met)


cdef bint assign_in_turn(const double[:, ::1] e, const long long[::1] counts, double* ready, int rule,
                         Py_ssize_t n_fastest, double low, double high, bint uses_met, long long[::1] out,
                         MachineEntry* heaps) noexcept nogil:
    cdef Py_ssize_t rows = e.shape[0], n = e.shape[1], i, k, u, fastest, m
    cdef long long task, at = 0
    cdef const double* etc
    cdef MachineEntry* idle = heaps            # a heap of all machines by ready time
    cdef MachineEntry* heap                    # a heap of the m machines to choose from, by completion time
    cdef MachineEntry first
    cdef double latest = 0.0
    if rule == OLB or rule == SWITCHING:
        fill(idle, n, ready, NULL, NULL)
        for u in range(n):
            latest = max(latest, ready[u])
    for i in range(rows):
        if counts[i] == 0:
            continue
        etc, heap, m, fastest = &e[i, 0], heaps + n, n, 0
        for u in range(1, n):
            if etc[u] < etc[fastest]:
                fastest = u
        if rule == KPB and n_fastest < n:
            for u in range(n):
                heap[u].time, heap[u].machine, heap[u].column = etc[u], <int> u, <int> u
            for k in range(n // 2 - 1, -1, -1):
                sink(heap, n, k)
            # each pop moves the fastest machine that is left to the end of the heap
            for k in range(n - 1, n - 1 - n_fastest, -1):
                first, heap[0] = heap[0], heap[k]
                heap[k] = first
                sink(heap, k, 0)
            heap, m = heap + n - n_fastest, n_fastest
            rebuild(heap, m, ready, etc)
        elif rule == MCT or rule == SWITCHING or rule == KPB:
            fill(heap, n, ready, NULL, etc)
        for task in range(counts[i]):
            if rule == SWITCHING and latest > 0.0:
                settle(idle, n, 0, ready, NULL, NULL)
                if uses_met:
                    uses_met = idle[0].time / latest > low
                else:
                    uses_met = idle[0].time / latest >= high
            if rule == MET or (rule == SWITCHING and uses_met):
                u = fastest
            elif rule == OLB:
                settle(idle, n, 0, ready, NULL, NULL)
                u = idle[0].machine
            else:
                settle(heap, m, 0, ready, NULL, etc)
                u = heap[0].machine
            ready[u] += etc[u]
            latest = max(latest, ready[u])
            out[at] = u
            at += 1
    return uses_met


# --- tasks in batches -----------------------------------------------------------------------------

def map_batch(etc: ArrayLike, counts: ArrayLike, ready: Floats, rule: Literal["min-min", "max-min", "sufferage"], *,
              kind: ArrayLike | None = None) -> tuple[Integers, Integers]:
    """Map all tasks; each assignment chooses among all remaining tasks.

    Returns (row, machine) int64[tasks] in the order of assignment; assignments of one pass are ordered by column.
    Takes rows * columns * 16 bytes of memory.  An assignment, or a pass of sufferage, takes O(rows), and mostly
    O(log(columns)) for each row that had the same best machine.

    Parameters
    ----------
    etc, counts, ready
        The arguments of `map_in_turn`.
    rule
        Which task goes to which machine.  The best time of a task is the earliest at which a machine would
        complete it, and its best machine is that machine. "min-min": the task whose best time is the earliest
        goes to its best machine; "max-min": the task whose best time is the latest goes to its best machine;
        "sufferage": in passes, as published.  In the order of rows each task claims its best machine.  If the
        machine is claimed in this pass already, the task with the greater sufferage (second best time less
        best) gets the claim, and the earlier claim stays if both are equal; the other task waits for the next
        pass.  At the end of a pass the claims become assignments.  With one machine all tasks have equal
        sufferage. Ties go to the lowest row and the lowest machine.
    kind
        int64[machines], the column of etc with a machine's times, where many machines have the same times;
        None: machine u has column u.  Of the machines of a kind, the one that is ready first is taken.  Ties
        between kinds are resolved as between machines if times are added without rounding, like whole numbers.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If `ready` is not a float64 array.
    """
    cdef const double[:, ::1] e = matrix(etc)
    cdef Py_ssize_t rows = e.shape[0], columns = e.shape[1], n, i, n_rows
    cdef const long long[::1] c = indices(counts, "counts", 0, 0x800000000000)
    cdef const long long[::1] kinds = indices(np.arange(columns) if kind is None else kind,
                                              "kind", 0, columns)
    n = kinds.shape[0]
    cdef double[::1] r = ready_times(ready, n, "a row of etc" if kind is None else "kind")
    cdef long long total = total_of(c, rows, n)
    cdef int rule_index = rule_of(rule, _BATCH)
    assignments = np.zeros((2, total), np.int64)
    cdef long long[:, ::1] out = assignments
    if total == 0:
        return assignments[0], assignments[1]
    if n > 0x7ffffffe:
        raise ValueError(f"ready must have fewer than 2**31 - 1 entries, got {n}")
    left_array = np.array(c)
    cdef long long[::1] left = left_array
    cdef long long[::1] row = np.flatnonzero(left_array)                 # rows that have unmapped tasks
    n_rows = row.shape[0]
    cdef long long[::1] best = np.full(n_rows, -1, np.int64)             # column with the best time of the row
    cdef double[::1] time = np.zeros(n_rows)                             # best time, or sufferage, of a task of the row
    cdef long long[::1] claim = np.full(columns, -1, np.int64)
    cdef double[::1] at = np.zeros(columns), second = np.zeros(columns)
    cdef int[::1] first_machine = np.zeros(columns, np.intc)
    cdef Py_ssize_t[::1] begin = np.zeros(columns + 1, np.intp)
    cdef MachineEntry** heap = <MachineEntry**> malloc(rows * sizeof(MachineEntry*))
    cdef MachineEntry* entries = <MachineEntry*> malloc((n + n_rows * columns) * sizeof(MachineEntry))
    if heap == NULL or entries == NULL:
        free(heap)
        free(entries)
        raise MemoryError
    cdef Columns machine_columns
    machine_columns.machines, machine_columns.begin = entries, &begin[0]
    machine_columns.first_ready, machine_columns.second_ready = &at[0], &second[0]
    machine_columns.first_machine = &first_machine[0]
    with nogil:
        build_columns(&machine_columns, columns, kinds, r)
        for i in range(n_rows):
            heap[row[i]] = entries + n + i * columns
            fill(heap[row[i]], columns, machine_columns.first_ready, machine_columns.first_machine, &e[row[i], 0])
        if rule_index == SUFFERAGE:
            assign_by_sufferage(e, &r[0], left, row, best, time, claim, heap, &machine_columns, out)
        else:
            assign_by_time(e, &r[0], left, row, best, time, rule_index == MIN_MIN, heap, &machine_columns, out)
    free(heap)
    free(entries)
    return assignments[0], assignments[1]


cdef void assign_by_time(const double[:, ::1] e, double* ready, long long[::1] left, long long[::1] row,
                         long long[::1] best, double[::1] time, bint earliest, MachineEntry** heap,
                         Columns* machine_columns,
                         long long[:, ::1] out) noexcept nogil:
    cdef Py_ssize_t n = e.shape[1], n_rows = row.shape[0], k, n_left, best_row
    cdef long long i, at, total = out.shape[1], last = -1
    for at in range(total):
        n_left = 0
        best_row = -1
        for k in range(n_rows):
            i = row[k]
            if left[i] == 0:
                continue
            if best[k] == last:
                settle(heap[i], n, 0, machine_columns.first_ready, machine_columns.first_machine, &e[i, 0])
                best[k], time[k] = heap[i][0].column, heap[i][0].time
            row[n_left], best[n_left], time[n_left] = i, best[k], time[k]
            if best_row < 0 or (time[n_left] < time[best_row] if earliest else time[n_left] > time[best_row]):
                best_row = n_left
            n_left += 1
        n_rows = n_left
        i, last = row[best_row], best[best_row]
        left[i] -= 1
        out[0, at] = i
        out[1, at] = assign(machine_columns, last, e[i, last], ready)


cdef void assign_by_sufferage(const double[:, ::1] e, double* ready, long long[::1] left, long long[::1] row,
                              long long[::1] best, double[::1] time, long long[::1] claim, MachineEntry** heap,
                              Columns* machine_columns, long long[:, ::1] out) noexcept nogil:
    cdef Py_ssize_t n = e.shape[1], n_rows = row.shape[0], k, n_left, u
    cdef long long i, at = 0, total = out.shape[1]
    while at < total:
        n_left = 0
        for k in range(n_rows):
            i = row[k]
            if left[i] == 0:
                continue
            settle(heap[i], n, 0, machine_columns.first_ready, machine_columns.first_machine, &e[i, 0])
            u = heap[i][0].column              # the claim is on the first machine of this column
            row[n_left], best[n_left] = i, u
            time[n_left] = second_best(heap[i], n, machine_columns, &e[i, 0]) - heap[i][0].time
            # one claim per row is enough: its other tasks have no greater sufferage
            if claim[u] < 0 or time[claim[u]] < time[n_left]:
                claim[u] = n_left
            n_left += 1
        n_rows = n_left
        for u in range(n):
            if claim[u] >= 0:
                i = row[claim[u]]
                left[i] -= 1
                out[0, at] = i
                out[1, at] = assign(machine_columns, u, e[i, u], ready)
                at += 1
                claim[u] = -1
