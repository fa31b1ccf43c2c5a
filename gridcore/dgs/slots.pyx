"""Reservations of nodes in slots of equal length, and the earliest start of a job on several nodes at once.

A node does one job at a time; its reservations [start, end) are kept in order and may lie any number of slots
ahead.  What a reader sees of a node may be stale: the reservations as they were at an instant `as_of` (ns), with
those released since and without those made since.

The earliest start is exact.  Each candidate has intervals of starts that fit it.  No start before the n-th smallest
of the beginnings of their first intervals can fit n candidates.  From there on, the beginnings and ends of intervals
are counted in a window of slots; if no start in it fits, the same is done from the end of the window on.

Source: Vasilakos, Sacha and Pierre, DGS_ASAP: ``Search`` in its three steps.  The reference implementation is
`tests.reference.slots`.
"""

from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memmove, memset

from gridcore.common.arguments cimport _Guard, guard, indices, integers, plain
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.common.memory cimport reallocate, prefetch, prefetch_at
from gridcore.dgs.released cimport Gone, released_forget, released_keep, released_seen

import numpy as np

from gridcore.common.state import ANY, INSTANT, TableEntry, read, refuse, read_only

__all__ = ["SlotSchedules"]

_SPAN = {"node": (0, "nodes"), "start": INSTANT, "end": INSTANT}
_STATE = {
    "reservations": TableEntry({**_SPAN, "since": ANY, "job": ANY}), "gone": TableEntry({**_SPAN, "dropped": ANY, "job": ANY}),
}

# The largest slot and the largest number of slots, so that sums of two cannot overflow.

cdef inline long long instant(const long long[::1] as_of, Py_ssize_t k) noexcept nogil:
    return NEVER - 1 if as_of is None else as_of[k]


cdef long long smallest(long long* values, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """Return the k-th smallest (from 0) of n values, which are reordered (Hoare's quickselect)."""
    cdef Py_ssize_t low = 0, high = n - 1, i, j
    cdef long long pivot, moved
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                moved = values[i]
                values[i] = values[j]
                values[j] = moved
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]


cdef class SlotSchedules:
    """The reservations of `nodes` nodes.

    An object is for one thread at a time.

    Parameters
    ----------
    stale
        Keep released reservations, for readers that see a node as it was; `forget` drops them.

    Raises
    ------
    ValueError naming the argument, its index and value.
    """

    def __cinit__(self, nodes: SupportsIndex, *, bint stale=False):
        if isinstance(nodes, bool) or not isinstance(nodes, int | np.integer) or not 0 <= nodes < 2**31:
            raise ValueError(f"nodes must be in 0..{2**31 - 1}, got {nodes!r}")
        self.nodes, self.stale = nodes, stale
        self.node = <Node*> calloc(self.nodes + 1, sizeof(Node))
        self.met = <int*> calloc(self.nodes + 1, sizeof(int))
        if self.node == NULL or self.met == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t u
        if self.node != NULL:
            for u in range(self.nodes):
                free(self.node[u].row)
                free(self.node[u].note)
                free(self.node[u].released.item)
        free(self.node)
        free(self.met)
        free(self.fit)
        free(self.reach)
        free(self.low)
        free(self.chosen)

    # -- reservations ---------------------------------------------------------------------------------------

    def reserve(self, nodes: ArrayLike, starts: ArrayLike, slots: ArrayLike, jobs: ArrayLike, long long now) -> Bools:
        """Reserve ``nodes[k]`` from slot ``starts[k]`` on for ``slots[k]`` slots, one after the other, at `now` ns.

        All are int64[k].  Returns bool[k]: whether the node was free then; if it was not, nothing is reserved.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] u = self._nodes(nodes), at = self._slots(starts, "starts", 0)
        cdef const long long[::1] length = self._slots(slots, "slots", 1), of = integers(jobs, "jobs")
        cdef Py_ssize_t k
        self._same(u.shape[0], at.shape[0], length.shape[0], of.shape[0])
        done = np.zeros(u.shape[0], np.bool_)
        cdef unsigned char[::1] out = done.view(np.uint8)
        for k in range(u.shape[0]):
            out[k] = self._reserve(&self.node[u[k]], at[k], at[k] + length[k], of[k], now)
        return done

    cdef bint _reserve(self, Node* node, long long start, long long end, long long job, long long now) except -1:
        cdef Py_ssize_t k = self._after(node, start)
        if k < node.n and node.row[k].start < end:
            return False
        if node.n == node.room:
            self._make_room(node, &k)
        memmove(&node.row[k + 1], &node.row[k], (node.n - k) * sizeof(Span))
        memmove(&node.note[k + 1], &node.note[k], (node.n - k) * sizeof(Note))
        node.row[k].start, node.row[k].end, node.note[k].made, node.note[k].job = start, end, now, job
        node.latest = max(node.latest, now)
        node.n += 1
        return True

    cdef int _make_room(self, Node* node, Py_ssize_t* k) except -1:
        """Make room for one more reservation: in place of forgotten ones, or in a longer row.  Adjusts index `k`."""
        cdef Py_ssize_t room
        if 2 * node.first > node.room:
            memmove(node.row, &node.row[node.first], (node.n - node.first) * sizeof(Span))
            memmove(node.note, &node.note[node.first], (node.n - node.first) * sizeof(Note))
            k[0] -= node.first
            node.n -= node.first
            node.first = 0
            return 0
        room = node.room + node.room // 2 + 4
        if room > 2147483647:
            raise MemoryError(f"more than {2**31 - 1} reservations of a node")
        node.row = <Span*> reallocate(node.row, room * sizeof(Span))
        node.note = <Note*> reallocate(node.note, room * sizeof(Note))
        node.room = <int> room
        return 0

    cdef Py_ssize_t _after(self, const Node* node, long long slot) noexcept nogil:
        """Return the index of the first reservation that ends after `slot`."""
        cdef Py_ssize_t low = node.first, n = node.n - node.first, half
        # a binary search without branches, which could not be predicted
        while n > 0:
            half = (n + 1) // 2
            low += half if node.row[low + half - 1].end <= slot else 0
            n -= half
        return low

    cdef Py_ssize_t _from(self, Node* node, long long slot) noexcept nogil:
        """The same as `_after`, faster for successive searches from about the same slot on."""
        cdef Py_ssize_t low = min(max(node.first, node.now), node.n), step
        for step in range(4):
            if low > node.first and node.row[low - 1].end > slot:
                low -= 1
            elif low < node.n and node.row[low].end <= slot:
                low += 1
            else:
                node.now = <int> low
                return low
        low = self._after(node, slot)
        node.now = <int> low
        return low

    def release(self, nodes: ArrayLike, starts: ArrayLike, long long now, *, ends: ArrayLike | None = None,
                jobs: ArrayLike | None = None) -> Bools:
        """Take back at `now` ns the reservations of ``nodes[k]`` that begin at slot ``starts[k]`` (int64[k]).

        Returns bool[k]: whether there was such a reservation that ended after ``ends[k]``.

        Parameters
        ----------
        ends
            int64[k], the slots from which on they are taken back, for jobs that end early; default: all of
            it.
        jobs
            int64[k], the jobs that they must belong to; default: any job.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] u = self._nodes(nodes), at = self._slots(starts, "starts", 0)
        cdef const long long[::1] to = self._slots(starts if ends is None else ends, "starts" if ends is None else "ends", 0)
        cdef const long long[::1] of = None if jobs is None else integers(jobs, "jobs")
        cdef Py_ssize_t k
        self._same(u.shape[0], at.shape[0], to.shape[0], at.shape[0] if of is None else of.shape[0])
        for k in range(u.shape[0]):
            if to[k] < at[k]:
                raise ValueError(f"ends[{k}] must not be before starts[{k}], {at[k]}, got {to[k]}")
        done = np.zeros(u.shape[0], np.bool_)
        cdef unsigned char[::1] out = done.view(np.uint8)
        for k in range(u.shape[0]):
            out[k] = self._release(&self.node[u[k]], at[k], to[k], -1 if of is None else of[k], of is None, now)
        return done

    cdef bint _release(self, Node* node, long long start, long long end, long long job, bint anybody, long long now) except -1:
        """Take back, from slot `end` on, the reservation that begins at `start`; return whether there was one.

        It must be of `job`, unless `anybody`.
        """
        cdef Py_ssize_t i = self._after(node, start)
        if i == node.n or node.row[i].start != start or node.row[i].end <= end:
            return False
        if not anybody and node.note[i].job != job:
            return False
        job = node.note[i].job
        self._drop(node, i, now)
        if end > start:
            self._reserve(node, start, end, job, now)
        return True

    def extend(self, Py_ssize_t node, long long start, long long end, long long job,
               long long now) -> tuple[Integers, Integers] | None:
        """Let the reservation of `node` for `job` that begins at slot `start` end at slot `end`, which is later.

        Those that this meets are taken back at `now` ns.  Returns their (jobs, starts), int64[m], in order of time;
        None if there is no such reservation that ends before `end`.
        """
        cdef _Guard alone = guard(&self.occupied)
        self._nodes([node])
        self._slots([start, end], "start and end", 0)
        cdef Node* of = &self.node[node]
        cdef Py_ssize_t k, i = self._ending(of, start, end, job)
        if i < 0:
            return None
        met = [(of.note[k].job, of.row[k].start) for k in range(i + 1, self._until(of, i, end))]
        self._extend(of, i, end, now)
        return tuple(np.ascontiguousarray(column) for column in np.array(met, np.int64).reshape(-1, 2).T)

    cdef Py_ssize_t _ending(self, const Node* node, long long start, long long end, long long job) noexcept nogil:
        """Return the index of the reservation for `job` that begins at `start` and ends before `end`; -1 for none."""
        cdef Py_ssize_t i = self._after(node, start)
        if i == node.n or node.row[i].start != start or node.note[i].job != job or node.row[i].end >= end:
            return -1
        return i

    cdef Py_ssize_t _until(self, const Node* node, Py_ssize_t i, long long end) noexcept nogil:
        """Return the index of the first reservation behind the i-th that begins at `end` or later."""
        cdef Py_ssize_t k = i + 1
        while k < node.n and node.row[k].start < end:
            k += 1
        return k

    cdef int _extend(self, Node* node, Py_ssize_t i, long long end, long long now) except -1:
        """Let the i-th reservation end at `end`, and drop those that this meets."""
        cdef long long start = node.row[i].start, job = node.note[i].job
        cdef Py_ssize_t met = self._until(node, i, end) - i - 1
        while met > 0:
            self._drop(node, i + met, now)
            met -= 1
        self._drop(node, i, now)
        self._reserve(node, start, end, job, now)
        return 0

    cdef int _drop(self, Node* node, Py_ssize_t i, long long now) except -1:
        """Remove the i-th reservation, and keep it in `released` if the schedules are stale."""
        cdef Gone gone
        if self.stale:
            gone.start, gone.end, gone.made = node.row[i].start, node.row[i].end, node.note[i].made
            gone.dropped = now
            released_keep(&node.released, &gone)
        node.n -= 1
        memmove(&node.row[i], &node.row[i + 1], (node.n - i) * sizeof(Span))
        memmove(&node.note[i], &node.note[i + 1], (node.n - i) * sizeof(Note))
        return 0

    def lose(self, nodes: ArrayLike, long long slot, long long now) -> tuple[Integers, Integers, Integers, Integers]:
        """Take back at `now` ns all reservations of `nodes` (int64[k]) that end after `slot`.

        Returns (nodes, jobs, starts, ends), int64[m], in the order of `nodes` and then of time.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] u = self._nodes(nodes)
        cdef Py_ssize_t k, i
        cdef Node* node
        lost = []
        for k in range(u.shape[0]):
            node = &self.node[u[k]]
            i = self._after(node, slot)
            while i < node.n:
                lost.append((u[k], node.note[i].job, node.row[i].start, node.row[i].end))
                self._drop(node, i, now)
        return tuple(np.ascontiguousarray(column) for column in np.array(lost, np.int64).reshape(-1, 4).T)

    def forget(self, long long slot, long long before):
        """Drop what no reader needs any more: slots before `slot`, and reservations released by `before` ns."""
        cdef _Guard alone = guard(&self.occupied)
        cdef Py_ssize_t u
        cdef Node* node
        with nogil:
            for u in range(self.nodes):
                node = &self.node[u]
                node.first = <int> self._after(node, slot)
                released_forget(&node.released, slot, before)

    def reservations(self, Py_ssize_t node) -> tuple[Integers, Integers, Integers]:
        """Return (starts, ends, jobs), int64[m], of the reservations of `node`, in order."""
        cdef _Guard alone = guard(&self.occupied)
        if not 0 <= node < self.nodes:
            raise ValueError(f"node must be in 0..{self.nodes - 1}, got {node}")
        cdef const Node* of = &self.node[node]
        rows = [(of.row[k].start, of.row[k].end, of.note[k].job) for k in range(of.first, of.n)]
        return tuple(np.ascontiguousarray(column) for column in np.array(rows, np.int64).reshape(-1, 3).T)

    # -- searching for free slots ---------------------------------------------------------------------------

    def is_free(self, nodes: ArrayLike, long long start, long long slots, as_of: ArrayLike | None = None) -> Bools:
        """Return bool[k]: which of `nodes` (int64[k]) are free in [start, start + slots).

        Parameters
        ----------
        as_of
            int64[k] ns (or one instant for all), when each was seen; None for now.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] u = self._nodes(nodes), seen = self._as_of(as_of, u.shape[0], "nodes")
        cdef Py_ssize_t k
        self._check_job(1, slots, start)
        free_ = np.zeros(u.shape[0], np.bool_)
        cdef unsigned char[::1] out = free_.view(np.uint8)
        with nogil:
            for k in range(u.shape[0]):
                out[k] = self._free(&self.node[u[k]], instant(seen, k), start, slots)
        return free_

    cdef inline bint _all_seen(self, const Node* node, long long as_of) noexcept nogil:
        """Return whether a reader that saw the node at `as_of` knows all its reservations."""
        return not self.stale or node.latest <= as_of

    cdef bint _free(self, const Node* node, long long as_of, long long start, long long slots) noexcept nogil:
        """Return whether nothing is reserved in [start, start + slots), as seen at `as_of`."""
        cdef Py_ssize_t k = self._after(node, start), j
        cdef bint all_seen = self._all_seen(node, as_of)
        while k < node.n and node.row[k].start - start < slots:
            if all_seen or node.note[k].made <= as_of:
                return False
            k += 1
        j = released_seen(&node.released, as_of)
        while j >= 0 and node.released.item[j].latest > as_of:
            if (node.released.item[j].dropped > as_of and node.released.item[j].end > start
                    and node.released.item[j].start - start < slots):
                return False
            j -= 1
        return True

    def earliest_start(self, candidates: ArrayLike, long long n_nodes, long long slots, long long not_before,
                       as_of: ArrayLike | None = None) -> tuple[int, Integers] | None:
        """Find the first slot, not before `not_before`, from which on `n_nodes` of `candidates` are free for `slots`.

        Returns (start, int64[n_nodes]): the slot and the first candidates that are free then, in their order.
        Returns None if there are fewer than `n_nodes` candidates.

        Parameters
        ----------
        candidates
            int64[k], different nodes.
        as_of
            As for `is_free`.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] u = self._nodes(candidates), seen = self._as_of(as_of, u.shape[0], "candidates")
        cdef Py_ssize_t k
        cdef long long start
        self._check_job(n_nodes, slots, not_before)
        self._begin()
        for k in range(u.shape[0]):
            if not self._meet(<int> u[k], instant(seen, k), True):
                raise ValueError(f"candidates[{k}] must be different from those before it, got {u[k]}")
        if n_nodes > self.n_fit:
            return None
        chosen = np.empty(n_nodes, np.int64)
        cdef long long[::1] out = chosen
        with nogil:
            for k in range(self.n_fit):
                self._fetch(k + AHEAD)
                self._next(&self.fit[k], not_before, slots)
            start = self._earliest(n_nodes, slots)
            self._choose(n_nodes, start, slots, &out[0])
        return start, chosen

    def search(self, views: NDArray[np.int32], searchers: ArrayLike, n_nodes: ArrayLike, slots: ArrayLike,
               not_before: ArrayLike, *, exclude: ArrayLike = -1, bint itself=False, long long hops=2,
               bint wide=False, away: Bools | None = None, suited: Bools | None = None, as_of: ArrayLike | None = None,
               long long every=0, long long until=0) -> tuple[Integers, Integers, Integers, Integers, Integers]:
        """Search, from each of `searchers` (int64[k]), for `n_nodes` nodes for `slots` slots from `not_before` on.

        Each searcher (1) looks for nodes that are free at once among its neighbours.  (2) If there are too few, it
        opens the candidates one by one, up to `hops` hops; the neighbours of an opened node become candidates.
        (3) If there are still too few, it takes the earliest start among all candidates reached.  `exclude` is
        never a candidate.  The searcher is a candidate only with `itself`, and if some view reached has it.

        Returns (starts, offsets, chosen, reached, opened).  starts, reached (number of candidates) and opened
        (number of nodes opened) are int64[k]; a start is -1 if there is none.  The nodes chosen by search i are
        ``chosen[offsets[i]:offsets[i + 1]]``.

        Parameters
        ----------
        n_nodes, slots, not_before, exclude
            One value for all searchers, or int64[k], one for each.
        itself
            Whether the searcher may be a candidate.  It sees its own schedule as it is now, and is not
            opened, because its neighbours are candidates already.
        views
            int32[nodes, degree], the neighbours of each node; -1 for none.
        wide
            With fewer candidates than nodes wanted, continue hop by hop beyond `hops`.
        away
            bool[nodes], the nodes known to be down, which are neither candidates nor opened; None for none.
        suited
            bool[nodes], the nodes that may be candidates; others are opened all the same.  None for all.
        as_of
            int64[nodes] ns (or one instant for all), when each node last saw its neighbours; None for now. A
            candidate is seen as the node that led to it first has seen it.
        every
            ns; if it is given, `as_of` is when each node sees its neighbours for the first time, and it sees
            them again every `every` ns, up to `until` (ns).  Before the first time it takes them to be empty.
        """
        cdef _Guard alone = guard(&self.occupied)
        if isinstance(views, np.ndarray) and not views.flags.aligned:
            views = views.copy()
        cdef const int[:, :] known = views
        cdef const long long[::1] u = self._nodes(searchers)
        cdef const long long[::1] wanted = self._each(n_nodes, "n_nodes", u.shape[0])
        cdef const long long[::1] length = self._each(slots, "slots", u.shape[0])
        cdef const long long[::1] since = self._each(not_before, "not_before", u.shape[0])
        cdef const long long[::1] without = self._each(exclude, "exclude", u.shape[0])
        cdef Py_ssize_t i, k, n_chosen = 0
        cdef Quest quest
        for i in range(u.shape[0]):
            self._check_job(wanted[i], length[i], since[i])
        if known is None:
            raise TypeError("views must be int32[nodes, degree], got None")
        if known.shape[0] != self.nodes:
            raise ValueError(f"views must have {self.nodes} rows, got {known.shape[0]}")
        if hops < 1:
            raise ValueError(f"hops must be >= 1, got {hops}")
        if every < 0:
            raise ValueError(f"every must be >= 0 ns, got {every}")
        if every and as_of is None:
            raise ValueError("as_of must be given with every, got None")
        if isinstance(as_of, int | np.integer):
            if not self.stale:
                self._as_of(as_of, 0, "")
            quest.seen, as_of = as_of, None
        else:
            quest.seen = NEVER - 1
        cdef const long long[::1] seen = self._as_of(as_of, self.nodes, "the schedules")
        cdef const unsigned char[::1] gone = self._flags(away, "away")
        cdef unsigned char[::1] fitting = None if suited is None else np.array(self._flags(suited, "suited"))
        quest.suited = NULL if fitting is None or not self.nodes else &fitting[0]
        quest.hops, quest.wide, quest.every, quest.until, quest.itself = hops, wide, every, until, itself
        starts, offsets = np.full(u.shape[0], -1, np.int64), np.zeros(u.shape[0] + 1, np.int64)
        reached, opened = np.zeros(u.shape[0], np.int64), np.zeros(u.shape[0], np.int64)
        cdef long long[::1] start_of = starts, reached_of = reached, opened_of = opened, end_of = offsets
        with nogil:
            for i in range(u.shape[0]):
                quest.n_nodes, quest.slots, quest.not_before, quest.exclude = wanted[i], length[i], since[i], without[i]
                start_of[i] = self._search(&quest, known, gone, seen, u[i], &opened_of[i])
                reached_of[i] = self.n_fit
                if start_of[i] >= 0:
                    if n_chosen + wanted[i] > self.room_chosen:
                        self.chosen = <long long*> reallocate(self.chosen, 2 * (n_chosen + wanted[i]) * sizeof(long long))
                        self.room_chosen = 2 * (n_chosen + wanted[i])
                    self._choose(wanted[i], start_of[i], length[i], &self.chosen[n_chosen])
                    n_chosen += wanted[i]
                end_of[i + 1] = n_chosen
        chosen = np.empty(n_chosen, np.int64)
        cdef long long[::1] out = chosen
        for k in range(n_chosen):
            out[k] = self.chosen[k]
        return starts, offsets, chosen, reached, opened

    cdef long long _search(self, const Quest* quest, const int[:, :] views, const unsigned char[::1] gone,
                           const long long[::1] seen, Py_ssize_t searcher, long long* opened) except -2 nogil:
        cdef Py_ssize_t k = 0, end, hop = 1
        cdef long long free_now = 0
        self._begin()
        # nodes that must not become candidates count as met
        if not quest.itself:
            self.met[searcher] = self.searches
        if 0 <= quest.exclude < self.nodes:
            self.met[quest.exclude] = self.searches
        self._open(quest, views, gone, seen, searcher, searcher, &free_now)
        self.n_own, self.own_free = self.n_fit, free_now
        if free_now >= quest.n_nodes:
            return quest.not_before
        while k < self.n_reach:
            # one hop further: open the nodes of the last hop
            if not (hop < quest.hops or (quest.wide and self.n_fit < quest.n_nodes)):
                break
            end = self.n_reach
            while k < end:
                k += 1
                if self.reach[k - 1] == searcher:
                    continue  # its neighbours are candidates already
                opened[0] += 1
                self._open(quest, views, gone, seen, searcher, self.reach[k - 1], &free_now)
                if free_now >= quest.n_nodes:
                    return quest.not_before
            hop += 1
        if self.n_fit < quest.n_nodes:
            return -1
        return self._earliest(quest.n_nodes, quest.slots)

    cdef int _open(self, const Quest* quest, const int[:, :] views, const unsigned char[::1] gone,
                   const long long[::1] seen, Py_ssize_t searcher, Py_ssize_t who, long long* free_now) except -1 nogil:
        """Add the neighbours of `who` to the candidates of `searcher`, which sees itself as it is now.

        Adds to `free_now` how many of them are free at once.
        """
        cdef Py_ssize_t j, n = self.n_fit
        cdef int other
        cdef long long at = quest.seen if seen is None else seen[who]
        if quest.every:
            # the last time, up to `until`, at which `who` has seen its neighbours
            at = at + (quest.until - at) // quest.every * quest.every if quest.until >= at else -1
        for j in range(views.shape[1]):
            other = views[who, j]
            if other < 0:
                continue
            if other >= self.nodes:
                with gil:
                    raise ValueError(f"views[{who}, {j}] must be below {self.nodes}, got {other}")
            if gone is None or not gone[other]:
                if self._meet(other, NEVER - 1 if other == searcher else at,
                              quest.suited == NULL or quest.suited[other]):
                    prefetch(&self.node[other])
        for j in range(n, self.n_fit):
            self._fetch(j)
        for j in range(n, self.n_fit):
            self._next(&self.fit[j], quest.not_before, quest.slots)
            free_now[0] += self.fit[j].low == quest.not_before
        return 0

    cdef void _begin(self) noexcept nogil:
        """Begin a new search: no node has been met."""
        cdef Py_ssize_t u
        self.n_fit = self.n_reach = 0
        self.searches += 1
        if self.searches == 2147483647:
            self.searches = 1
            for u in range(self.nodes):
                self.met[u] = 0

    cdef int _meet(self, int who, long long as_of, bint suits) except -1 nogil:
        """Reach a node, which becomes a candidate if it suits the job; False if it has been met before."""
        if self.met[who] == self.searches:
            return False
        self.met[who] = self.searches
        self._fit_room(self.n_reach + 1)
        self.reach[self.n_reach] = who
        self.n_reach += 1
        if not suits:
            return True
        self.fit[self.n_fit].node, self.fit[self.n_fit].as_of, self.fit[self.n_fit].row = who, as_of, 0
        self.n_fit += 1
        return True

    cdef inline int _fit_room(self, Py_ssize_t n) except -1 nogil:
        """Make room for `n` nodes."""
        cdef Py_ssize_t room = 2 * n + 64
        if n > self.room_fit:
            self.fit = <Fit*> reallocate(self.fit, room * sizeof(Fit))
            self.low = <long long*> reallocate(self.low, room * sizeof(long long))
            self.reach = <int*> reallocate(self.reach, room * sizeof(int))
            self.room_fit = room
        return 0

    cdef inline void _fetch(self, Py_ssize_t k) noexcept nogil:
        """Prefetch the reservations of candidate k, and the node of a later candidate."""
        cdef const Node* node
        if k + AHEAD < self.n_fit:
            prefetch(&self.node[self.fit[k + AHEAD].node])
        if k < self.n_fit:
            node = &self.node[self.fit[k].node]
            k = max(self.fit[k].row, node.now)
            prefetch_at(node.row, k * sizeof(Span))
            prefetch_at(node.row, (k + 4) * sizeof(Span))

    cdef void _next(self, Fit* fit, long long since, long long slots) noexcept nogil:
        """Find the next interval of starts, from `since` on, that fit; `since` never decreases during a search."""
        cdef Node* node = &self.node[fit.node]
        cdef const Span* row = node.row
        cdef Py_ssize_t k = fit.row, n = node.n, last = released_seen(&node.released, fit.as_of), j
        cdef long long at = since
        cdef bint again = True, all_seen = self._all_seen(node, fit.as_of)
        if k == 0:
            k = self._from(node, since)
        while again:
            while k < n and row[k].end <= at:
                k += 1
            # the first gap between the reservations that are in force
            if not all_seen:
                while k < n and (node.note[k].made > fit.as_of or row[k].start - at < slots):
                    if node.note[k].made <= fit.as_of:
                        at = max(at, row[k].end)
                    k += 1
            elif k < n and row[k].start - at < slots:
                k += 1
                while k < n and row[k].start - row[k - 1].end < slots:
                    k += 1
                at = max(at, row[k - 1].end)
            fit.high = row[k].start - slots if k < n else NEVER
            # reservations released since the node was seen count, too
            again = False
            j = last
            while j >= 0 and node.released.item[j].latest > fit.as_of:
                if node.released.item[j].dropped > fit.as_of and node.released.item[j].end > at:
                    if node.released.item[j].start < at + slots:
                        at = node.released.item[j].end
                        again = True
                    else:
                        fit.high = min(fit.high, node.released.item[j].start - slots)
                j -= 1
        fit.low, fit.row = at, <int> k

    cdef long long _earliest(self, long long n_nodes, long long slots) noexcept nogil:
        """Return the first start that fits `n_nodes` candidates.

        `_next` must have been called for each candidate, and there must be at least `n_nodes` of them.
        """
        cdef Py_ssize_t k, j
        cdef long long at, end, fits = 0
        cdef Fit* fit
        while True:
            for k in range(self.n_fit):
                self.low[k] = self.fit[k].low
            at = smallest(self.low, self.n_fit, n_nodes - 1)
            # often it fits those whose intervals have begun by then; else count
            fits = 0
            for k in range(self.n_fit):
                fits += self.fit[k].low <= at <= self.fit[k].high
            if fits >= n_nodes:
                return at
            end = at + WINDOW
            memset(self.change, 0, sizeof(self.change))
            for k in range(self.n_fit):
                fit = &self.fit[k]
                self._fetch(k + AHEAD)
                if fit.high < at:
                    self._next(fit, max(at, fit.low), slots)
                j = released_seen(&self.node[fit.node].released, fit.as_of)
                if fit.low < end and (j < 0 or self.node[fit.node].released.item[j].latest <= fit.as_of):
                    self._sweep(fit, at, slots)
                    continue
                while fit.low < end:
                    self.change[max(fit.low - at, 0)] += 1
                    if fit.high >= end:
                        break
                    self.change[fit.high + 1 - at] -= 1
                    self._next(fit, fit.high + 1, slots)
            fits = 0
            for k in range(WINDOW):
                fits += self.change[k]
                if fits >= n_nodes:
                    return at + k
            for k in range(self.n_fit):
                if self.fit[k].low < end:
                    self.fit[k].low = end

    cdef long long _true_start(self, const Seen* seen, Py_ssize_t n, const int* chosen, long long n_nodes,
                               long long slots, long long since, long long start) except -1:
        """Return the first slot, from `since` on, from which `n_nodes` of `n` different nodes really are free.

        Parameters
        ----------
        start, chosen
            That slot as far as the reader knew, and the nodes that seemed to be free.
        """
        cdef Py_ssize_t k, j, fits = 0
        cdef bint changed = False, dropped = not self.stale
        cdef const Node* node
        for k in range(n if self.stale else 0):
            if k + AHEAD < n:
                prefetch(&self.node[seen[k + AHEAD].node])
            node = &self.node[seen[k].node]
            # what is of the same instant may have come later
            changed |= node.latest >= seen[k].as_of
            j = released_seen(&node.released, seen[k].as_of)
            while j >= 0 and node.released.item[j].latest >= seen[k].as_of:
                dropped |= node.released.item[j].dropped >= seen[k].as_of and node.released.item[j].end > since
                j -= 1
        if not dropped:
            # what has been reserved since makes no earlier start possible
            k = 0
            while changed and k < n_nodes and self._free(&self.node[chosen[k]], NEVER - 1, start, slots):
                k += 1
            if not changed or k == n_nodes:
                return start
            since = start
        if n < n_nodes:
            raise ValueError(f"there must be {n_nodes} candidates, got {n}")
        self._begin()
        self._fit_room(n)
        self.n_fit = n
        for k in range(n):
            self.fit[k].node, self.fit[k].as_of, self.fit[k].row = seen[k].node, NEVER - 1, 0
        for k in range(n):
            self._fetch(k + AHEAD)
            self._next(&self.fit[k], since, slots)
            fits += self.fit[k].low == since
            if fits == n_nodes:
                return since
        return self._earliest(n_nodes, slots)

    cdef void _sweep(self, Fit* fit, long long at, long long slots) noexcept nogil:
        """Count the starts of a candidate in the window at `at`, gap by gap.

        A branch on whether the job fits a gap could not be predicted, so there is none.
        """
        cdef const Node* node = &self.node[fit.node]
        cdef const Note* note = NULL if self._all_seen(node, fit.as_of) else node.note
        cdef Py_ssize_t k = fit.row
        cdef long long low = max(fit.low - at, 0), high = WINDOW
        cdef bint fits, seen = True
        while low < WINDOW:
            high = NEVER
            if k < node.n:
                high = node.row[k].start - slots - at
                seen = note == NULL or note[k].made <= fit.as_of
            if high >= WINDOW - 1:
                # the gap reaches beyond the window; its end is unknown (-1) if the next reservation is not seen
                self.change[low] += 1
                fit.high = high + at if seen and high != NEVER else NEVER if seen else -1
                break
            fits = seen & (high >= low)
            self.change[low] += fits
            self.change[max(high + 1, 0)] -= fits
            low = max(low, node.row[k].end - at) if seen else low
            k += 1
            fit.high = -1
        fit.low, fit.row = low + at, <int> k

    cdef void _choose(self, long long n_nodes, long long start, long long slots, long long* out) noexcept nogil:
        """Write the first `n_nodes` candidates that fit `start` to `out`."""
        cdef Py_ssize_t k = 0, n = 0
        while n < n_nodes:
            self._fetch(k + AHEAD)
            if self._free(&self.node[self.fit[k].node], self.fit[k].as_of, start, slots):
                out[n] = self.fit[k].node
                n += 1
            k += 1

    # -- arguments ------------------------------------------------------------------------------------------

    cdef const long long[::1] _nodes(self, nodes):
        return indices(nodes, "nodes", 0, self.nodes)

    cdef const unsigned char[::1] _flags(self, value, str name):
        """Return bool[nodes] as bytes; None for None."""
        if value is None:
            return None
        value = plain(value)
        if not isinstance(value, np.ndarray) or value.dtype != np.bool_ or value.shape != (self.nodes,):
            got = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
            raise ValueError(f"{name} must be bool[{self.nodes}], got {got}")
        return np.ascontiguousarray(value).view(np.uint8)

    cdef const long long[::1] _slots(self, values, str name, long long least):
        return indices(values, name, least, LATEST)

    cdef const long long[::1] _each(self, value, str name, Py_ssize_t n):
        """Return `n` values from one value for all, or from an array of one for each."""
        if isinstance(value, int | np.integer):
            return np.full(n, value, np.int64)
        cdef const long long[::1] each = integers(value, name)
        if each.shape[0] != n:
            raise ValueError(f"{name} must have an entry for each of searchers, {n}, got {each.shape[0]}")
        return each

    cdef int _same(self, Py_ssize_t a, Py_ssize_t b, Py_ssize_t c, Py_ssize_t d) except -1:
        if not a == b == c == d:
            raise ValueError(f"all arguments must be equally long, got {a}, {b}, {c}, {d}")
        return 0

    cdef const long long[::1] _as_of(self, as_of, Py_ssize_t n, str what):
        if as_of is None:
            return None
        if not self.stale:
            raise ValueError("as_of must be None for schedules that are not kept as they were (stale=True)")
        if isinstance(as_of, int | np.integer):
            return np.full(n, as_of, np.int64)
        cdef const long long[::1] seen = integers(as_of, "as_of")
        if seen.shape[0] != n:
            raise ValueError(f"as_of must have an entry for each of {what}, {n}, got {seen.shape[0]}")
        return seen

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
        """Return all reservations, those kept after release, too; see `gridcore.common.state`."""
        cdef _Guard alone = guard(&self.occupied)
        cdef Py_ssize_t u, k, n = 0, m = 0
        for u in range(self.nodes):
            n += self.node[u].n - self.node[u].first
            m += self.node[u].released.n
        rows, gone = np.empty((n, 5), np.int64), np.empty((m, 5), np.int64)
        cdef long long[:, ::1] out = rows, left = gone
        n = m = 0
        for u in range(self.nodes):
            for k in range(self.node[u].first, self.node[u].n):
                out[n, 0] = u
                memcpy(&out[n, 1], &self.node[u].row[k], sizeof(Span))
                memcpy(&out[n, 3], &self.node[u].note[k], sizeof(Note))
                n += 1
            for k in range(self.node[u].released.n):
                left[m, 0] = u
                memcpy(&left[m, 1], &self.node[u].released.item[k], 4 * sizeof(long long))
                m += 1
        return read_only({"reservations": rows, "gone": gone})

    def setstate(self, state):
        """Continue from a state that `getstate` returned for as many nodes.

        Raises ValueError for a state that does not fit.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef Py_ssize_t u, k
        cdef Gone gone
        given = read(state, _STATE, nodes=self.nodes)
        for name, rows in given.items():
            refuse(name, rows[:, 1] >= rows[:, 2], "from a slot to a later one")
        for u in range(self.nodes):
            self.node[u].first = self.node[u].n = self.node[u].released.n = self.node[u].now = 0
            self.node[u].latest = 0
        cdef const long long[:, ::1] rows_ = given["reservations"], left = given["gone"]
        for k in range(rows_.shape[0]):
            if not self._reserve(&self.node[rows_[k, 0]], rows_[k, 1], rows_[k, 2], rows_[k, 4], rows_[k, 3]):
                raise ValueError(f"state['reservations'][{k}] must not overlap another one of its node")
        for k in range(left.shape[0]):
            memcpy(&gone, &left[k, 1], 4 * sizeof(long long))
            released_keep(&self.node[left[k, 0]].released, &gone)
