"""Reservations of nodes in slots of equal length, and the earliest start of a job on several nodes at once.

A node runs one job at a time.  Its reservations [start, end) are in order of time and may be any number of slots
ahead.  A reader may have a stale view of a node: the reservations as they were at an instant `as_of` (ns), with
those released since and without those made since.

The earliest start is exact.  Each candidate has intervals of starts at which it is free for long enough.  No start
before the n-th smallest beginning of a first interval can suit n candidates.  From there on, beginnings and ends of
intervals are counted in a window of slots; if no start in it suits n candidates, the next window is searched.

Source: Vasilakos, Sacha and Pierre, DGS_ASAP: ``Search`` in its three steps.  The reference implementation is
`tests.reference.slots`.
"""

from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memmove, memset

cimport cython

from gridcore.common.arguments cimport _Guard, guard, indices, integers, plain
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.common.memory cimport reallocate, prefetch, prefetch_at
from gridcore.dgs.released cimport ReleasedReservation, released_forget, released_add, released_last_made

import numpy as np

from gridcore.common.state import ANY, INSTANT, TableEntry, read, refuse, read_only

__all__ = ["SlotSchedules"]

_SPAN = {"node": (0, "nodes"), "start": INSTANT, "end": INSTANT}
_STATE = {
    "reservations": TableEntry({**_SPAN, "since": ANY, "job": ANY}), "gone": TableEntry({**_SPAN, "dropped": ANY, "job": ANY}),
}

cdef inline long long instant_of(const long long[::1] as_of, Py_ssize_t k) noexcept nogil:
    return NEVER - 1 if as_of is None else as_of[k]


cdef long long smallest(long long* values, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """Return the k-th smallest (from 0) of n values, which are reordered (Hoare's quickselect)."""
    cdef Py_ssize_t low = 0, high = n - 1, i, j
    cdef long long pivot, swap
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                swap = values[i]
                values[i] = values[j]
                values[j] = swap
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]


@cython.final
cdef class SlotSchedules:
    """The reservations of `nodes` nodes.

    An object supports one thread at a time.

    Parameters
    ----------
    stale
        Whether to store released reservations, for readers with older knowledge of a node; `forget` drops them.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    def __cinit__(self, nodes: SupportsIndex, *, bint stale=False):
        if isinstance(nodes, bool) or not isinstance(nodes, int | np.integer) or not 0 <= nodes < 2**31:
            raise ValueError(f"nodes must be in 0..{2**31 - 1}, got {nodes!r}")
        self.nodes, self.stale = nodes, stale
        self.node = <Node*> calloc(self.nodes + 1, sizeof(Node))
        self.last_search = <int*> calloc(self.nodes + 1, sizeof(int))
        if self.node == NULL or self.last_search == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t u
        if self.node != NULL:
            for u in range(self.nodes):
                free(self.node[u].row)
                free(self.node[u].info)
                free(self.node[u].gap)
                free(self.node[u].released.item)
        free(self.node)
        free(self.last_search)
        free(self.candidates)
        free(self.visited)
        free(self.low)
        free(self.selection)

    # -- reservations ---------------------------------------------------------------------------------------

    def reserve(self, nodes: ArrayLike, starts: ArrayLike, slots: ArrayLike, jobs: ArrayLike, long long now) -> Bools:
        """Reserve ``nodes[k]`` from slot ``starts[k]`` on for ``slots[k]`` slots at `now` ns, in order of k.

        All arrays are int64[k].  Returns bool[k], whether the node was free in these slots; if not, it is not reserved.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = self._nodes(nodes), at = self._slots(starts, "starts", 0)
        cdef const long long[::1] length = self._slots(slots, "slots", 1), of = integers(jobs, "jobs")
        cdef Py_ssize_t k
        self._check_lengths(u.shape[0], at.shape[0], length.shape[0], of.shape[0])
        done = np.zeros(u.shape[0], np.bool_)
        cdef unsigned char[::1] out = done.view(np.uint8)
        for k in range(u.shape[0]):
            out[k] = self._reserve(&self.node[u[k]], at[k], at[k] + length[k], of[k], now)
        return done

    cdef bint _reserve(self, Node* node, long long start, long long end, long long job, long long now) except -1:
        cdef Py_ssize_t k = self._first_after(node, start)
        if k < node.n and node.row[k].start < end:
            return False
        if node.n == node.capacity:
            self._make_room(node, &k)
        memmove(&node.row[k + 1], &node.row[k], (node.n - k) * sizeof(Span))
        memmove(&node.info[k + 1], &node.info[k], (node.n - k) * sizeof(ReservationInfo))
        memmove(&node.gap[k + 1], &node.gap[k], (node.n - k) * sizeof(unsigned short))
        node.row[k].start, node.row[k].end, node.info[k].made_at, node.info[k].job = start, end, now, job
        node.latest = max(node.latest, now)
        node.n += 1
        self._set_gap(node, k)
        self._set_gap(node, k + 1)
        return True

    cdef int _make_room(self, Node* node, Py_ssize_t* k) except -1:
        """Make room for a reservation by removing forgotten reservations or enlarging the row; adjust index `k`."""
        cdef Py_ssize_t capacity
        if 2 * node.first > node.capacity:
            memmove(node.row, &node.row[node.first], (node.n - node.first) * sizeof(Span))
            memmove(node.info, &node.info[node.first], (node.n - node.first) * sizeof(ReservationInfo))
            memmove(node.gap, &node.gap[node.first], (node.n - node.first) * sizeof(unsigned short))
            k[0] -= node.first
            node.n -= node.first
            node.first = 0
            return 0
        capacity = node.capacity + node.capacity // 2 + 4
        if capacity > 2147483647:
            raise MemoryError(f"a node must have at most {2**31 - 1} reservations")
        node.row = <Span*> reallocate(node.row, capacity * sizeof(Span))
        node.info = <ReservationInfo*> reallocate(node.info, capacity * sizeof(ReservationInfo))
        node.gap = <unsigned short*> reallocate(node.gap, (capacity + GAP_PADDING) * sizeof(unsigned short))
        memset(&node.gap[node.capacity], 0, (capacity + GAP_PADDING - node.capacity) * sizeof(unsigned short))
        node.capacity = <int> capacity
        return 0

    cdef inline void _set_gap(self, Node* node, Py_ssize_t k) noexcept nogil:
        """Set the length of the gap before the k-th reservation, if there are both."""
        if 0 < k < node.n:
            node.gap[k] = <unsigned short> min(node.row[k].start - node.row[k - 1].end, <long long> LONGEST_GAP)

    cdef inline Py_ssize_t _next_gap(self, const Node* node, Py_ssize_t k, long long slots) noexcept nogil:
        """Return the first reservation from the k-th on (k > 0) with a gap of at least `slots` before it; `n` for none."""
        cdef unsigned short least = <unsigned short> min(slots, <long long> LONGEST_GAP)
        k = first_gap(node.gap, k, node.n, least)
        while slots > LONGEST_GAP and k < node.n and node.row[k].start - node.row[k - 1].end < slots:
            k = first_gap(node.gap, k + 1, node.n, least)
        return k

    cdef Py_ssize_t _first_after(self, const Node* node, long long slot) noexcept nogil:
        """Return the index of the first reservation that ends after `slot`."""
        cdef Py_ssize_t low = node.first, n = node.n - node.first, half
        # a binary search without branches, since the processor could not predict them
        while n > 0:
            half = (n + 1) >> 1
            low += half if node.row[low + half - 1].end <= slot else 0
            n -= half
        return low

    cdef Py_ssize_t _first_after_hint(self, Node* node, long long slot) noexcept nogil:
        """Return the result of `_first_after`; this is faster if successive calls have nearby slots."""
        cdef Py_ssize_t low = min(max(node.first, node.hint), node.n), step
        for step in range(4):
            if low > node.first and node.row[low - 1].end > slot:
                low -= 1
            elif low < node.n and node.row[low].end <= slot:
                low += 1
            else:
                node.hint = <int> low
                return low
        low = self._first_after(node, slot)
        node.hint = <int> low
        return low

    def release(self, nodes: ArrayLike, starts: ArrayLike, long long now, *, ends: ArrayLike | None = None,
                jobs: ArrayLike | None = None) -> Bools:
        """Release at `now` ns the reservations of ``nodes[k]`` that begin at slot ``starts[k]`` (int64[k]).

        Returns bool[k]: whether there was such a reservation that ended after ``ends[k]``.

        Parameters
        ----------
        ends
            int64[k], the first slot to release of each reservation, if jobs end early; by default all its slots.
        jobs
            int64[k], the job to which each reservation must belong; by default any job.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = self._nodes(nodes), at = self._slots(starts, "starts", 0)
        cdef const long long[::1] to = self._slots(starts if ends is None else ends, "starts" if ends is None else "ends", 0)
        cdef const long long[::1] of = None if jobs is None else integers(jobs, "jobs")
        cdef Py_ssize_t k
        self._check_lengths(u.shape[0], at.shape[0], to.shape[0], at.shape[0] if of is None else of.shape[0])
        for k in range(u.shape[0]):
            if to[k] < at[k]:
                raise ValueError(f"ends[{k}] must be at least starts[{k}], {at[k]}, got {to[k]}")
        done = np.zeros(u.shape[0], np.bool_)
        cdef unsigned char[::1] out = done.view(np.uint8)
        for k in range(u.shape[0]):
            out[k] = self._release(&self.node[u[k]], at[k], to[k], -1 if of is None else of[k], of is None, now)
        return done

    cdef bint _release(self, Node* node, long long start, long long end, long long job, bint any_job, long long now) except -1:
        """Release, from slot `end` on, the reservation that begins at `start`; return whether there was one.

        Unless `any_job`, it must belong to `job`.
        """
        cdef Py_ssize_t i = self._first_after(node, start)
        if i == node.n or node.row[i].start != start or node.row[i].end <= end:
            return False
        if not any_job and node.info[i].job != job:
            return False
        job = node.info[i].job
        self._drop(node, i, now)
        if end > start:
            self._reserve(node, start, end, job, now)
        return True

    def extend(self, Py_ssize_t node, long long start, long long end, long long job,
               long long now) -> tuple[Integers, Integers] | None:
        """Extend to slot `end` the reservation of `node` for `job` that begins at slot `start`.

        Reservations that overlap it are released at `now` ns.  Returns their (jobs, starts), int64[m], in order of
        time; None if there is no such reservation that ends before `end`.
        """
        cdef _Guard access = guard(&self.in_call)
        self._nodes([node])
        self._slots([start, end], "start and end", 0)
        cdef Node* of = &self.node[node]
        cdef Py_ssize_t k, i = self._extendable(of, start, end, job)
        if i < 0:
            return None
        displaced = [(of.info[k].job, of.row[k].start) for k in range(i + 1, self._first_beyond(of, i, end))]
        self._extend(of, i, end, now)
        return tuple(np.ascontiguousarray(column) for column in np.array(displaced, np.int64).reshape(-1, 2).T)

    cdef Py_ssize_t _extendable(self, const Node* node, long long start, long long end, long long job) noexcept nogil:
        """Return the index of the reservation for `job` that begins at `start` and ends before `end`; -1 for none."""
        cdef Py_ssize_t i = self._first_after(node, start)
        if i == node.n or node.row[i].start != start or node.info[i].job != job or node.row[i].end >= end:
            return -1
        return i

    cdef Py_ssize_t _first_beyond(self, const Node* node, Py_ssize_t i, long long end) noexcept nogil:
        """Return the index of the first reservation after the i-th that begins at `end` or later."""
        cdef Py_ssize_t k = i + 1
        while k < node.n and node.row[k].start < end:
            k += 1
        return k

    cdef int _extend(self, Node* node, Py_ssize_t i, long long end, long long now) except -1:
        """Extend the i-th reservation to `end`, and drop reservations that overlap it."""
        cdef long long start = node.row[i].start, job = node.info[i].job
        cdef Py_ssize_t n_displaced = self._first_beyond(node, i, end) - i - 1
        while n_displaced > 0:
            self._drop(node, i + n_displaced, now)
            n_displaced -= 1
        self._drop(node, i, now)
        self._reserve(node, start, end, job, now)
        return 0

    cdef int _drop(self, Node* node, Py_ssize_t i, long long now) except -1:
        """Remove the i-th reservation, and add it to `released` if the schedules are stale."""
        cdef ReleasedReservation entry
        if self.stale:
            entry.start, entry.end, entry.made_at = node.row[i].start, node.row[i].end, node.info[i].made_at
            entry.released_at = now
            released_add(&node.released, &entry)
        node.n -= 1
        memmove(&node.row[i], &node.row[i + 1], (node.n - i) * sizeof(Span))
        memmove(&node.info[i], &node.info[i + 1], (node.n - i) * sizeof(ReservationInfo))
        memmove(&node.gap[i], &node.gap[i + 1], (node.n - i) * sizeof(unsigned short))
        self._set_gap(node, i)
        return 0

    def lose(self, nodes: ArrayLike, long long slot, long long now) -> tuple[Integers, Integers, Integers, Integers]:
        """Release at `now` ns all reservations of `nodes` (int64[k]) that end after `slot`.

        Returns (nodes, jobs, starts, ends), int64[m], in the order of `nodes` and then of time.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = self._nodes(nodes)
        cdef Py_ssize_t k, i
        cdef Node* node
        lost = []
        for k in range(u.shape[0]):
            node = &self.node[u[k]]
            i = self._first_after(node, slot)
            while i < node.n:
                lost.append((u[k], node.info[i].job, node.row[i].start, node.row[i].end))
                self._drop(node, i, now)
        return tuple(np.ascontiguousarray(column) for column in np.array(lost, np.int64).reshape(-1, 4).T)

    def forget(self, long long slot, long long released_by):
        """Drop the reservations that end by `slot`, and those that were released by `released_by` ns."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t u
        cdef Node* node
        with nogil:
            for u in range(self.nodes):
                node = &self.node[u]
                node.first = <int> self._first_after(node, slot)
                released_forget(&node.released, slot, released_by)

    def reservations(self, Py_ssize_t node) -> tuple[Integers, Integers, Integers]:
        """Return (starts, ends, jobs), int64[m], of the reservations of `node`, in order."""
        cdef _Guard access = guard(&self.in_call)
        if not 0 <= node < self.nodes:
            raise ValueError(f"node must be in 0..{self.nodes - 1}, got {node}")
        cdef const Node* of = &self.node[node]
        rows = [(of.row[k].start, of.row[k].end, of.info[k].job) for k in range(of.first, of.n)]
        return tuple(np.ascontiguousarray(column) for column in np.array(rows, np.int64).reshape(-1, 3).T)

    # -- searching for free slots ---------------------------------------------------------------------------

    def is_free(self, nodes: ArrayLike, long long start, long long slots, as_of: ArrayLike | None = None, *,
                own_job: int | None = None) -> Bools:
        """Return bool[k]: which of `nodes` (int64[k]) are free in [start, start + slots).

        Parameters
        ----------
        as_of
            int64[k] ns (or one instant for all), when each node was seen; None for now.
        own_job
            Job whose reservations count as free; None for no job.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = self._nodes(nodes), instants = self._as_of(as_of, u.shape[0], "node")
        cdef Py_ssize_t k
        self._check_job(1, slots, start)
        is_free_array = np.zeros(u.shape[0], np.bool_)
        cdef unsigned char[::1] out = is_free_array.view(np.uint8)
        self._set_own_job(own_job)
        with nogil:
            for k in range(u.shape[0]):
                out[k] = self._is_free(&self.node[u[k]], instant_of(instants, k), start, slots)
        self.has_own_job = False
        return is_free_array

    cdef int _set_own_job(self, job) except -1:
        """Let the reservations of `job` count as free, unless it is None, until `has_own_job` is unset."""
        self.own_job = 0 if job is None else job
        self.has_own_job = job is not None
        return 0

    cdef inline bint _counts_all(self, const Node* node, long long as_of) noexcept nogil:
        """Return whether all reservations of the node count for a reader with data from `as_of` ns."""
        return (not self.stale or node.latest <= as_of) and not self.has_own_job

    cdef inline bint _counts(self, const ReservationInfo* info, long long as_of) noexcept nogil:
        """Return whether a reader with data from `as_of` ns knows a reservation, which is not that of its own job."""
        return info.made_at <= as_of and not (self.has_own_job and info.job == self.own_job)

    cdef bint _is_free(self, const Node* node, long long as_of, long long start, long long slots) noexcept nogil:
        """Return whether the node, as seen at `as_of`, is free in [start, start + slots)."""
        cdef Py_ssize_t k = self._first_after(node, start), j
        cdef bint counts_all = self._counts_all(node, as_of)
        while k < node.n and node.row[k].start - start < slots:
            if counts_all or self._counts(&node.info[k], as_of):
                return False
            k += 1
        j = released_last_made(&node.released, as_of)
        while j >= 0 and node.released.item[j].last_release > as_of:
            if (node.released.item[j].released_at > as_of and node.released.item[j].end > start
                    and node.released.item[j].start - start < slots):
                return False
            j -= 1
        return True

    def earliest_start(self, candidates: ArrayLike, long long n_nodes, long long slots, long long not_before,
                       as_of: ArrayLike | None = None, *, own_job: int | None = None) -> tuple[int, Integers] | None:
        """Find the first slot, not before `not_before`, from which on `n_nodes` of `candidates` are free for `slots`.

        Returns (start, int64[n_nodes]): the slot and the first candidates that are free then, in their order.
        Returns None if there are fewer than `n_nodes` candidates.

        Parameters
        ----------
        candidates
            int64[k], different nodes.
        as_of, own_job
            As for `is_free`.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = self._nodes(candidates), instants = self._as_of(as_of, u.shape[0], "candidate")
        cdef Py_ssize_t k
        cdef long long start
        self._check_job(n_nodes, slots, not_before)
        self._begin_search()
        self._make_room_for(u.shape[0])
        for k in range(u.shape[0]):
            if not self._visit(<int> u[k], instant_of(instants, k), True):
                raise ValueError(f"candidates[{k}] must differ from the candidates before it, got {u[k]}")
        if n_nodes > self.n_candidates:
            return None
        picks = np.empty(n_nodes, np.int64)
        cdef long long[::1] out = picks
        self._set_own_job(own_job)
        with nogil:
            start = self._first_start(n_nodes, slots, not_before)
            self._choose(n_nodes, start, slots, &out[0])
        self.has_own_job = False
        return start, picks

    cdef long long _first_start(self, long long n_nodes, long long slots, long long not_before) noexcept nogil:
        """Return the first start, not before `not_before`, that suits `n_nodes` of the visited candidates; -1 for none."""
        cdef Py_ssize_t k
        if n_nodes > self.n_candidates:
            return -1
        for k in range(self.n_candidates):
            self._prefetch(k + AHEAD)
            self._next_interval(&self.candidates[k], not_before, slots)
        return self._earliest_start(n_nodes, slots)

    def search(self, views: NDArray[np.int32], searchers: ArrayLike, n_nodes: ArrayLike, slots: ArrayLike,
               not_before: ArrayLike, *, exclude: ArrayLike = -1, bint include_searcher=False, long long hops=2,
               bint wide=False, known_down: Bools | None = None, suitable: Bools | None = None,
               as_of: ArrayLike | None = None, long long poll_period=0, long long until=0) -> tuple[Integers, Integers, Integers, Integers, Integers]:
        """Search, from each of `searchers` (int64[k]), for `n_nodes` nodes for `slots` slots from `not_before` on.

        Each searcher (1) looks for nodes that are free at `not_before` among its neighbours.  (2) If there are too few,
        it opens the candidates one by one, up to `hops` hops; the neighbours of an opened node become candidates.
        (3) If there are still too few, it takes the earliest start among all candidates reached.  `exclude` is never a
        candidate.  The searcher is a candidate only with `include_searcher`, and if an opened node has it as neighbour.

        Returns (starts, offsets, picks, n_reached, n_opened).  starts, n_reached (candidates) and n_opened (nodes) are
        int64[k]; a start is -1 if there is none.  The nodes picked by search i are
        ``picks[offsets[i]:offsets[i + 1]]``.

        Parameters
        ----------
        n_nodes, slots, not_before, exclude
            One value for all searchers, or int64[k], one for each.
        include_searcher
            Whether the searcher may be a candidate.  It sees its own schedule as it is now, and is not opened,
            because its neighbours are candidates already.
        views
            int32[nodes, degree], the neighbours of each node; -1 for none.
        wide
            Whether to continue hop by hop beyond `hops` while there are fewer than `n_nodes` candidates.
        known_down
            bool[nodes], the nodes known to be down, which are neither candidates nor opened; None for none.
        suitable
            bool[nodes], the nodes that may be candidates; other nodes are opened nevertheless.  None for all.
        as_of
            int64[nodes] ns (or one instant for all), when each node last saw its neighbours; None for now.  A
            candidate is seen as of the time at which the node that first led to it saw its neighbours.
        poll_period
            ns; if it is not 0, each node sees its neighbours first at `as_of` and then every `poll_period` ns, up to
            `until` (ns).  Before that, it assumes that their schedules are empty.
        """
        cdef _Guard access = guard(&self.in_call)
        if isinstance(views, np.ndarray) and not views.flags.aligned:
            views = views.copy()
        cdef const int[:, :] view_rows = views
        cdef const long long[::1] u = self._nodes(searchers)
        cdef const long long[::1] node_counts = self._per_searcher(n_nodes, "n_nodes", u.shape[0])
        cdef const long long[::1] length = self._per_searcher(slots, "slots", u.shape[0])
        cdef const long long[::1] since = self._per_searcher(not_before, "not_before", u.shape[0])
        cdef const long long[::1] exclusions = self._per_searcher(exclude, "exclude", u.shape[0])
        cdef Py_ssize_t i, k, n_selected = 0, capacity
        cdef SearchQuery query
        for i in range(u.shape[0]):
            self._check_job(node_counts[i], length[i], since[i])
        if view_rows is None:
            raise TypeError("views must be int32[nodes, degree], got None")
        if view_rows.shape[0] != self.nodes:
            raise ValueError(f"views must have {self.nodes} rows, got {view_rows.shape[0]}")
        if hops < 1:
            raise ValueError(f"hops must be >= 1, got {hops}")
        if poll_period < 0:
            raise ValueError(f"poll_period must be >= 0 ns, got {poll_period}")
        if poll_period and as_of is None:
            raise ValueError("poll_period requires as_of")
        if isinstance(as_of, int | np.integer):
            if not self.stale:
                self._as_of(as_of, 0, "node")
            query.as_of, as_of = as_of, None
        else:
            query.as_of = NEVER - 1
        cdef const long long[::1] instants = self._as_of(as_of, self.nodes, "node")
        cdef const unsigned char[::1] down_flags = self._flags(known_down, "known_down")
        cdef unsigned char[::1] suitable_flags = None
        if suitable is not None:
            suitable_flags = np.array(self._flags(suitable, "suitable"))
        query.suitable = NULL if suitable_flags is None or not self.nodes else &suitable_flags[0]
        query.hops, query.wide, query.include_searcher = hops, wide, include_searcher
        query.poll_period, query.until = poll_period, until
        starts, offsets = np.full(u.shape[0], -1, np.int64), np.zeros(u.shape[0] + 1, np.int64)
        n_reached, n_opened = np.zeros(u.shape[0], np.int64), np.zeros(u.shape[0], np.int64)
        cdef long long[::1] start_of = starts, reached_of = n_reached, opened_out = n_opened, end_of = offsets
        with nogil:
            for i in range(u.shape[0]):
                query.n_nodes, query.slots = node_counts[i], length[i]
                query.not_before, query.exclude = since[i], exclusions[i]
                start_of[i] = self._search(&query, view_rows, down_flags, instants, u[i], &opened_out[i])
                reached_of[i] = self.n_candidates
                if start_of[i] >= 0:
                    if n_selected + node_counts[i] > self.room_selection:
                        capacity = 2 * (n_selected + node_counts[i])
                        self.selection = <long long*> reallocate(self.selection, capacity * sizeof(long long))
                        self.room_selection = capacity
                    self._choose(node_counts[i], start_of[i], length[i], &self.selection[n_selected])
                    n_selected += node_counts[i]
                end_of[i + 1] = n_selected
        picks = np.empty(n_selected, np.int64)
        cdef long long[::1] out = picks
        for k in range(n_selected):
            out[k] = self.selection[k]
        return starts, offsets, picks, n_reached, n_opened

    cdef long long _search(self, const SearchQuery* query, const int[:, :] views, const unsigned char[::1] known_down,
                           const long long[::1] instants, Py_ssize_t searcher, long long* n_opened) except -2 nogil:
        cdef Py_ssize_t k = 0, end, hop = 1
        cdef long long free_now = 0
        self._begin_search()
        # nodes that must not become candidates are marked as visited
        if not query.include_searcher:
            self.last_search[searcher] = self.searches
        if 0 <= query.exclude < self.nodes:
            self.last_search[query.exclude] = self.searches
        self._open(query, views, known_down, instants, searcher, searcher, &free_now)
        self.n_own = self.n_candidates
        if free_now >= query.n_nodes:
            return query.not_before
        while k < self.n_visited:
            # one hop further: visit the neighbours of the nodes of the last hop
            if not (hop < query.hops or (query.wide and self.n_candidates < query.n_nodes)):
                break
            end = self.n_visited
            while k < end:
                k += 1
                if self.visited[k - 1] == searcher:
                    continue  # its neighbours already are candidates
                n_opened[0] += 1
                self._open(query, views, known_down, instants, searcher, self.visited[k - 1], &free_now)
                if free_now >= query.n_nodes:
                    return query.not_before
            hop += 1
        if self.n_candidates < query.n_nodes:
            return -1
        return self._earliest_start(query.n_nodes, query.slots)

    cdef int _open(self, const SearchQuery* query, const int[:, :] views, const unsigned char[::1] known_down,
                   const long long[::1] instants, Py_ssize_t searcher, Py_ssize_t u,
                   long long* free_now) except -1 nogil:
        """Add the neighbours of node `u` to the candidates of `searcher`.

        The number of those that are free at `not_before` is added to `free_now`.  The searcher knows its own present
        schedule.
        """
        cdef Py_ssize_t j, n = self.n_candidates
        cdef int neighbour
        cdef long long at = query.as_of if instants is None else instants[u]
        if query.poll_period:
            # the last instant up to `until` at which `u` polled its neighbours
            at = at + (query.until - at) // query.poll_period * query.poll_period if query.until >= at else -1
        self._make_room_for(self.n_visited + views.shape[1])
        for j in range(views.shape[1]):
            neighbour = views[u, j]
            if neighbour < 0:
                continue
            if neighbour >= self.nodes:
                with gil:
                    raise ValueError(f"views[{u}, {j}] must be below {self.nodes}, got {neighbour}")
            if known_down is None or not known_down[neighbour]:
                if self._visit(neighbour, NEVER - 1 if neighbour == searcher else at,
                              query.suitable == NULL or query.suitable[neighbour]):
                    prefetch(&self.node[neighbour])
        for j in range(n, self.n_candidates):
            self._prefetch(j)
        for j in range(n, self.n_candidates):
            self._next_interval(&self.candidates[j], query.not_before, query.slots)
            free_now[0] += self.candidates[j].low == query.not_before
        return 0

    cdef void _begin_search(self) noexcept nogil:
        """Begin a new search: mark all nodes as not visited."""
        cdef Py_ssize_t u
        self.n_candidates = self.n_visited = 0
        self.has_counted = False
        self.searches += 1
        if self.searches == 2147483647:
            self.searches = 1
            for u in range(self.nodes):
                self.last_search[u] = 0

    cdef inline bint _visit(self, int u, long long as_of, bint suits) noexcept nogil:
        """Visit node `u`, which becomes a candidate if it `suits` the job; return False if it was visited before.

        Call `_make_room_for` before.
        """
        cdef Candidate* candidate
        if self.last_search[u] == self.searches:
            return False
        self.last_search[u] = self.searches
        self.visited[self.n_visited] = u
        self.n_visited += 1
        if not suits:
            return True
        candidate = &self.candidates[self.n_candidates]
        candidate.node, candidate.as_of, candidate.row = u, as_of, 0
        self.n_candidates += 1
        return True

    cdef inline int _make_room_for(self, Py_ssize_t n) except -1 nogil:
        """Make room for `n` visited nodes and candidates."""
        cdef Py_ssize_t capacity = 2 * n + 64
        if n > self.room_candidates:
            self.candidates = <Candidate*> reallocate(self.candidates, capacity * sizeof(Candidate))
            self.low = <long long*> reallocate(self.low, capacity * sizeof(long long))
            self.visited = <int*> reallocate(self.visited, capacity * sizeof(int))
            self.room_candidates = capacity
        return 0

    cdef inline void _prefetch(self, Py_ssize_t k) noexcept nogil:
        """Prefetch the reservations of candidate k, and the node of a later candidate."""
        cdef const Node* node
        if k + AHEAD < self.n_candidates:
            prefetch(&self.node[self.candidates[k + AHEAD].node])
        if k < self.n_candidates:
            node = &self.node[self.candidates[k].node]
            k = max(self.candidates[k].row, node.hint)
            prefetch_at(node.row, k * sizeof(Span))
            prefetch_at(node.row, (k + 4) * sizeof(Span))

    cdef void _next_interval(self, Candidate* candidate, long long since, long long slots) noexcept nogil:
        """Find the next interval of possible starts from `since` on, which must not decrease during a search."""
        cdef Node* node = &self.node[candidate.node]
        cdef const Span* row = node.row
        cdef Py_ssize_t k = candidate.row, n = node.n, last = released_last_made(&node.released, candidate.as_of), j
        cdef long long at = since
        cdef bint repeat = True, counts_all = self._counts_all(node, candidate.as_of)
        if k == 0:
            k = self._first_after_hint(node, since)
        while repeat:
            while k < n and row[k].end <= at:
                k += 1
            # find the first long enough gap between the reservations that count
            if counts_all:
                if k < n and row[k].start - at < slots:
                    k = self._next_gap(node, k + 1, slots)
                    at = row[k - 1].end
            else:
                while k < n and (not self._counts(&node.info[k], candidate.as_of) or row[k].start - at < slots):
                    if self._counts(&node.info[k], candidate.as_of):
                        at = max(at, row[k].end)
                    k += 1
            candidate.high = row[k].start - slots if k < n else NEVER
            # the reader does not know that these reservations have been released
            repeat = False
            j = last
            while j >= 0 and node.released.item[j].last_release > candidate.as_of:
                if node.released.item[j].released_at > candidate.as_of and node.released.item[j].end > at:
                    if node.released.item[j].start < at + slots:
                        at = node.released.item[j].end
                        repeat = True
                    else:
                        candidate.high = min(candidate.high, node.released.item[j].start - slots)
                j -= 1
        candidate.low, candidate.row = at, <int> k

    cdef long long _earliest_start(self, long long n_nodes, long long slots) noexcept nogil:
        """Return the first start that suits `n_nodes` candidates.

        Call `_next_interval` for each candidate first; there must be at least `n_nodes` candidates.
        """
        cdef Py_ssize_t k, j
        cdef long long at, end, fits = 0
        cdef Candidate* candidate
        while True:
            for k in range(self.n_candidates):
                self.low[k] = self.candidates[k].low
            at = smallest(self.low, self.n_candidates, n_nodes - 1)
            # fast path: count the candidates whose interval contains `at`; often they suffice
            fits = 0
            for k in range(self.n_candidates):
                fits += self.candidates[k].low <= at <= self.candidates[k].high
            if fits >= n_nodes:
                return at
            end = at + WINDOW
            memset(self.fits_change, 0, sizeof(self.fits_change))
            for k in range(self.n_candidates):
                candidate = &self.candidates[k]
                self._prefetch(k + AHEAD)
                if candidate.high < at:
                    self._next_interval(candidate, max(at, candidate.low), slots)
                j = released_last_made(&self.node[candidate.node].released, candidate.as_of)
                if candidate.low < end and (
                        j < 0 or self.node[candidate.node].released.item[j].last_release <= candidate.as_of):
                    self._count_starts(candidate, at, slots)
                    continue
                while candidate.low < end:
                    self.fits_change[max(candidate.low - at, 0)] += 1
                    if candidate.high >= end:
                        break
                    self.fits_change[candidate.high + 1 - at] -= 1
                    self._next_interval(candidate, candidate.high + 1, slots)
            fits = 0
            for k in range(WINDOW):
                fits += self.fits_change[k]
                if fits >= n_nodes:
                    self.has_counted = True
                    return at + k
            for k in range(self.n_candidates):
                if self.candidates[k].low < end:
                    self.candidates[k].low = end

    cdef void _count_starts(self, Candidate* candidate, long long at, long long slots) noexcept nogil:
        """Add the possible starts of a candidate to the window at `at`, gap by gap."""
        cdef const Node* node = &self.node[candidate.node]
        cdef const ReservationInfo* info = NULL if self._counts_all(node, candidate.as_of) else node.info
        cdef const Span* row = node.row
        cdef Py_ssize_t k = candidate.row, n = node.n
        cdef long long low = max(candidate.low, at), high, end = at + WINDOW
        while True:
            if info != NULL:
                while k < n and low < end and (row[k].start - low < slots or not self._counts(&info[k], candidate.as_of)):
                    if self._counts(&info[k], candidate.as_of):
                        low = max(low, row[k].end)
                    k += 1
            elif k < n and row[k].start - low < slots:
                k = self._next_gap(node, k + 1, slots)
                low = row[k - 1].end
            if low >= end:
                high = -1               # it may be unknown
                break
            high = row[k].start - slots if k < n else NEVER
            self.fits_change[low - at] += 1
            if high >= end - 1:
                break
            self.fits_change[high + 1 - at] -= 1
            low = row[k].end
            k += 1
        candidate.low, candidate.high, candidate.row = low, high, <int> k

    cdef void _choose(self, long long n_nodes, long long start, long long slots, long long* out) noexcept nogil:
        """Write the first `n_nodes` candidates that are free from `start`, the result of the search, on to `out`."""
        cdef Py_ssize_t k = 0, n = 0
        cdef const Candidate* candidate
        while n < n_nodes:
            candidate = &self.candidates[k]
            self._prefetch(k + AHEAD)
            # most intervals contain `start`, or begin after it and are then the first, unless starts were counted
            if (candidate.low <= start <= candidate.high or (candidate.low <= start or self.has_counted)
                    and self._is_free(&self.node[candidate.node], candidate.as_of, start, slots)):
                out[n] = candidate.node
                n += 1
            k += 1

    # -- arguments ------------------------------------------------------------------------------------------

    cdef const long long[::1] _nodes(self, nodes):
        return indices(nodes, "nodes", 0, self.nodes)

    cdef const unsigned char[::1] _flags(self, value, str name):
        """Return `value`, bool[nodes], as bytes; None if it is None."""
        if value is None:
            return None
        value = plain(value)
        if not isinstance(value, np.ndarray) or value.dtype != np.bool_ or value.shape != (self.nodes,):
            got = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
            raise ValueError(f"{name} must be bool[{self.nodes}], got {got}")
        return np.ascontiguousarray(value).view(np.uint8)

    cdef const long long[::1] _slots(self, values, str name, long long least):
        return indices(values, name, least, LATEST)

    cdef const long long[::1] _per_searcher(self, value, str name, Py_ssize_t n):
        """Return int64[n] from one value for all searchers, or from an array of one value for each."""
        if isinstance(value, int | np.integer):
            return np.full(n, value, np.int64)
        cdef const long long[::1] items = integers(value, name)
        if items.shape[0] != n:
            raise ValueError(f"{name} must have {n} entries, one for each searcher, got {items.shape[0]}")
        return items

    cdef int _check_lengths(self, Py_ssize_t a, Py_ssize_t b, Py_ssize_t c, Py_ssize_t d) except -1:
        if not a == b == c == d:
            raise ValueError(f"nodes and the arrays with it must be equally long, got {a}, {b}, {c}, {d}")
        return 0

    cdef const long long[::1] _as_of(self, as_of, Py_ssize_t n, str item):
        if as_of is None:
            return None
        if not self.stale:
            raise ValueError("as_of requires stale=True")
        if isinstance(as_of, int | np.integer):
            return np.full(n, as_of, np.int64)
        cdef const long long[::1] instants = integers(as_of, "as_of")
        if instants.shape[0] != n:
            raise ValueError(f"as_of must have {n} entries, one for each {item}, got {instants.shape[0]}")
        return instants

    cdef int _check_job(self, long long n_nodes, long long slots, long long not_before) except -1:
        if n_nodes < 1:
            raise ValueError(f"n_nodes must be >= 1, got {n_nodes}")
        if not 1 <= slots < LATEST:
            raise ValueError(f"slots must be in 1..{LATEST - 1}, got {slots}")
        if not 0 <= not_before < LATEST:
            raise ValueError(f"not_before must be in 0..{LATEST - 1}, got {not_before}")
        return 0

    # -- checkpoints ----------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return all reservations, including released ones; see `gridcore.common.state`."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t u, k, n = 0, m = 0
        for u in range(self.nodes):
            n += self.node[u].n - self.node[u].first
            m += self.node[u].released.n
        rows, released = np.empty((n, 5), np.int64), np.empty((m, 5), np.int64)
        cdef long long[:, ::1] out = rows, released_out = released
        n = m = 0
        for u in range(self.nodes):
            for k in range(self.node[u].first, self.node[u].n):
                out[n, 0] = u
                memcpy(&out[n, 1], &self.node[u].row[k], sizeof(Span))
                memcpy(&out[n, 3], &self.node[u].info[k], sizeof(ReservationInfo))
                n += 1
            for k in range(self.node[u].released.n):
                released_out[m, 0] = u
                memcpy(&released_out[m, 1], &self.node[u].released.item[k], 4 * sizeof(long long))
                m += 1
        return read_only({"reservations": rows, "gone": released})

    def setstate(self, state):
        """Restore a state of `getstate` of schedules of as many nodes; raise ValueError if it is invalid."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t u, k
        cdef const long long* row
        cdef ReleasedReservation entry
        entries = read(state, _STATE, nodes=self.nodes)
        for name, rows in entries.items():
            refuse(name, rows[:, 1] >= rows[:, 2], "a reservation that ends after its start")
        for u in range(self.nodes):
            self.node[u].first = self.node[u].n = self.node[u].released.n = self.node[u].hint = 0
            self.node[u].latest = 0
        cdef const long long[:, ::1] reservation_rows = entries["reservations"], released_rows = entries["gone"]
        for k in range(reservation_rows.shape[0]):
            row = &reservation_rows[k, 0]
            if not self._reserve(&self.node[row[0]], row[1], row[2], row[4], row[3]):
                raise ValueError(f"state['reservations'][{k}] must not overlap another reservation of its node")
        for k in range(released_rows.shape[0]):
            memcpy(&entry, &released_rows[k, 1], 4 * sizeof(long long))
            released_add(&self.node[released_rows[k, 0]].released, &entry)
