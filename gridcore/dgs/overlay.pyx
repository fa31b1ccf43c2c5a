"""The views of nodes in an overlay that is shuffled by its nodes (CYCLON) or constant.

The view of a node has up to `degree` other nodes, each with an age in cycles.  In a cycle every node, in order of
number, adds one cycle to the ages of its entries and exchanges entries with q, the node of its oldest entry.  It
sends q up to ``shuffle`` entries, of which one is for the node itself and none for q, and receives up to as many.
Both put the entries that are new to them into empty places first, and then in place of the entries that they sent,
beginning with the entry of q.  So views keep their size; afterwards q knows the node, and the node no longer knows q.
If q is down, its entry is dropped.  Ages are at most 255.

Source: Voulgaris, Gavidia and van Steen, "CYCLON: Inexpensive membership management for unstructured P2P
overlays" (enhanced shuffling, and joining by random walks); here an exchange takes no time.  The reference
implementation is `tests.reference.overlay`.
"""

cimport cython

from gridcore.common.arguments cimport _Guard, guard, indices, integers, plain

import numpy as np

from gridcore.common.state import ArrayEntry, read, read_only

__all__ = ["Views"]

_STATE = {
    "views": ArrayEntry(np.int32, ("nodes", "degree"), (-1, "nodes")), "ages": ArrayEntry(np.uint8, ("nodes", "degree")),
    "chance": ArrayEntry(np.uint64, (1,)),
}

detect(1)


def _vector_level(int limit) -> int:
    """Limit the instruction set of this module (0 plain C, 1 AVX-512) and return the one in use, for tests."""
    return detect(limit)


@cython.auto_pickle(False)
cdef class Views:
    """Views of `nodes` nodes, each of `degree` other nodes (all others if there are fewer), drawn at random.

    Parameters
    ----------
    shuffle
        Entries that a node sends in an exchange, 1..degree.
    seed
        Seed of the first views, the exchanges and the walks, 0..2**64 - 1.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """

    def __cinit__(self, nodes: SupportsIndex, degree: SupportsIndex, *, shuffle: SupportsIndex = 8,
                  seed: SupportsIndex = 0):
        cdef Py_ssize_t u
        cdef int candidate
        for name, value, low, high in (
            ("nodes", nodes, 1, 2**31 - 1), ("degree", degree, 1, 2**15), ("shuffle", shuffle, 1, degree),
            ("seed", seed, 0, 2**64 - 1),
        ):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
                raise ValueError(f"{name} must be in {low}..{high}, got {value!r}")
        self.nodes, self.degree, self.shuffle, self.table.random_state = nodes, degree, shuffle, seed
        self._allocate()
        if self.nodes - 1 <= 2 * self.degree:
            self._draw_views()
            return
        for u in range(self.nodes):
            while self.count[u] < self.degree:
                candidate = <int> below(&self.table, self.nodes)
                if candidate != u and not knows(&self.table, u, candidate):
                    self.view[u, self.count[u]] = candidate
                    self.count[u] += 1

    cdef int _allocate(self) except -1:
        """Allocate empty views: one record of whole cache lines for each node."""
        cdef Py_ssize_t count_at = (5 * self.degree + 3) // 4 * 4, stride = (count_at + 4 + 63) // 64 * 64
        block = np.zeros(self.nodes * stride + 64, np.uint8)
        block = block[-block.ctypes.data % 64:][:self.nodes * stride]
        self.view = np.ndarray((self.nodes, self.degree), np.int32, block, strides=(stride, 4))
        self.age = np.ndarray((self.nodes, self.degree), np.uint8, block, 4 * self.degree, strides=(stride, 1))
        self.count = np.ndarray(self.nodes, np.int32, block, count_at, strides=(stride,))
        self.entry, self.entry_age = np.zeros((2, self.degree), np.int32), np.zeros((2, self.degree), np.uint8)
        self.draws = np.zeros(2 * self.degree + 16, np.int32)
        self.view[:, :] = -1
        self.table.records, self.table.nodes, self.table.stride = <unsigned char*> &self.view[0, 0], self.nodes, stride
        self.table.age_at, self.table.count_at = 4 * self.degree, count_at
        self.table.degree, self.table.shuffle = <int> self.degree, <int> self.shuffle
        self.table.entry, self.table.entry_age = &self.entry[0, 0], &self.entry_age[0, 0]
        self.table.draws = &self.draws[0]
        return 0

    cdef int _draw_views(self) except -1:
        """Draw the first views by a partial shuffle of all other nodes, which is fast even for large views."""
        cdef Py_ssize_t u, k, j, n_others = self.nodes - 1
        cdef int card
        cdef int[::1] cards = np.empty(n_others, np.int32)
        for u in range(self.nodes):
            for k in range(n_others):
                cards[k] = <int> (k + (k >= u))
            for k in range(min(self.degree, n_others)):
                j = k + below(&self.table, n_others - k)
                card = cards[j]
                cards[j] = cards[k]
                self.view[u, k] = card
                self.count[u] += 1
        return 0

    # -- the views ------------------------------------------------------------------------------------------

    @property
    def views(self) -> NDArray[np.int32]:
        """int32[nodes, degree], read-only and always up to date: the nodes that each node knows, followed by -1."""
        return self._read_only_view(np.asarray(self.view))

    @property
    def ages(self) -> NDArray[np.uint8]:
        """uint8[nodes, degree], read-only and always up to date: the age of each entry in cycles."""
        return self._read_only_view(np.asarray(self.age))

    cdef object _read_only_view(self, array):
        view = array.view()
        view.flags.writeable = False
        return view

    def in_degree(self) -> Integers:
        """Return int64[nodes]: the number of nodes that know each node."""
        cdef _Guard access = guard(&self.in_call)
        known = np.asarray(self.view)
        return np.bincount(known[known >= 0], minlength=self.nodes)

    def pick(self, nodes: ArrayLike, first: ArrayLike, second: ArrayLike, Py_ssize_t count, *,
             unsigned long long seed=0, known_down: Bools | None = None) -> tuple[Integers, Integers]:
        """Draw uniformly up to `count` different nodes from the view of each of `nodes` (int64[k]).

        Returns (offsets, picks): the nodes drawn for ``nodes[i]`` are ``picks[offsets[i]:offsets[i + 1]]``.

        Parameters
        ----------
        first, second
            int64[k]; the draw for entry k depends on these two and on `seed` only.
        known_down
            bool[nodes], the nodes that must not be drawn; None for none.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef const long long[::1] a = integers(first, "first"), b = integers(second, "second")
        cdef const unsigned char[::1] down_flags = self._node_flags(known_down, "known_down")
        cdef Py_ssize_t i, k, n, m = 0
        if not u.shape[0] == a.shape[0] == b.shape[0]:
            raise ValueError(f"nodes, first and second must be equally long, got {u.shape[0]}, {a.shape[0]}, {b.shape[0]}")
        if count < 0:
            raise ValueError(f"count must be >= 0, got {count}")
        offsets, picks = np.zeros(u.shape[0] + 1, np.int64), np.empty(u.shape[0] * min(count, self.degree), np.int64)
        cdef long long[::1] end_of = offsets, out = picks
        with nogil:
            for i in range(u.shape[0]):
                n = self._pick(u[i], a[i], b[i], count, seed, down_flags)
                for k in range(n):
                    out[m] = self.entry[0, k]
                    m += 1
                end_of[i + 1] = m
        return offsets, picks[:m]

    cdef Py_ssize_t _pick(self, Py_ssize_t node, long long first, long long second, Py_ssize_t count,
                          unsigned long long seed, const unsigned char[::1] known_down) noexcept nogil:
        """Draw up to `count` nodes from the view of `node` into the front of `entry`; return their number."""
        cdef unsigned long long state = self.table.random_state
        cdef Py_ssize_t k, j, n = 0
        cdef int card
        cdef int* cards = &self.entry[0, 0]
        # the state of the stream depends only on seed, `first` and `second`
        self.table.random_state = seed
        self.table.random_state = next_number(&self.table) ^ <unsigned long long> first
        self.table.random_state = next_number(&self.table) ^ <unsigned long long> second
        for k in range(self.count[node]):
            card = self.view[node, k]
            if known_down is None or not known_down[card]:
                cards[n] = card
                n += 1
        n, count = min(n, count), n
        for k in range(n):
            j = k + <Py_ssize_t> below(&self.table, count - k)
            cards[k], cards[j] = cards[j], cards[k]
        self.table.random_state = state
        return n

    # -- shuffling ------------------------------------------------------------------------------------------

    def cycle(self, up: Bools | None = None) -> tuple[int, int, int]:
        """Run a cycle: every node exchanges entries with the node of its oldest entry.

        Returns (exchanges, entries dropped because their node was down, entries that were new to their receiver).

        Parameters
        ----------
        up
            bool[nodes], the nodes that are up; None for all.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const unsigned char[::1] is_up = self._node_flags(up)
        cdef long long[3] counts
        cdef const unsigned char* up_flags = NULL
        counts[0] = counts[1] = counts[2] = 0
        if is_up is not None:
            up_flags = &is_up[0]
        with nogil:
            cycle(&self.table, up_flags, counts)
        return counts[0], counts[1], counts[2]

    # -- nodes that leave and join --------------------------------------------------------------------------

    def leave(self, nodes: ArrayLike):
        """Empty the views of `nodes` (int64[k]); other nodes drop entries for them when they next contact them."""
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] node_ids = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k, j
        for k in range(node_ids.shape[0]):
            for j in range(self.degree):
                self.view[node_ids[k], j], self.age[node_ids[k], j] = -1, 0
            self.count[node_ids[k]] = 0

    def join(self, Py_ssize_t node, Py_ssize_t introducer, *, Py_ssize_t steps=5, up: Bools | None = None):
        """Add `node`, whose view is empty, through `introducer` by `degree` random walks of `steps` steps.

        At the node where a walk ends, an entry for `node` replaces an entry drawn at random, and `node` gets the
        replaced entry.  If the view there has an empty place or already has `node`, nothing is replaced, and `node`
        gets an entry for that node instead.  A walk skips steps to `node` and to nodes that are down (`up` as
        for `cycle`).
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const unsigned char[::1] is_up = self._node_flags(up)
        cdef Py_ssize_t walk, step, at, k
        cdef int neighbour
        for name, value in (("node", node), ("introducer", introducer)):
            if not 0 <= value < self.nodes:
                raise ValueError(f"{name} must be in 0..{self.nodes - 1}, got {value}")
        if node == introducer:
            raise ValueError(f"introducer must differ from node, {node}, got {introducer}")
        if self.count[node]:
            raise ValueError(f"node must have an empty view, got {node}, which knows {self.count[node]} nodes")
        if not 0 <= steps <= 2**16:
            raise ValueError(f"steps must be in 0..{2**16}, got {steps}")
        for walk in range(self.degree):
            at = introducer
            for step in range(steps):
                if self.count[at] == 0:
                    break
                neighbour = self.view[at, below(&self.table, self.count[at])]
                if neighbour != node and (is_up is None or is_up[neighbour]):
                    at = neighbour
            neighbour = <int> at
            if not knows(&self.table, at, <int> node):
                k = self.count[at]
                if k == self.degree:
                    k = below(&self.table, k)
                    neighbour = self.view[at, k]
                else:
                    self.count[at] += 1
                self.view[at, k], self.age[at, k] = <int> node, 0
            if neighbour != node and not knows(&self.table, node, neighbour):
                self.view[node, self.count[node]], self.age[node, self.count[node]] = neighbour, 0
                self.count[node] += 1

    cdef const unsigned char[::1] _node_flags(self, up, str name="up"):
        if up is None:
            return None
        up = plain(up)
        if not isinstance(up, np.ndarray) or up.dtype != np.bool_ or up.shape != (self.nodes,):
            got = f"{up.dtype}{list(up.shape)}" if isinstance(up, np.ndarray) else type(up).__name__
            raise ValueError(f"{name} must be bool[{self.nodes}], got {got}")
        return np.ascontiguousarray(up).view(np.uint8)

    # -- checkpoints ----------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the views and the state of the random stream; see `gridcore.common.state`."""
        cdef _Guard access = guard(&self.in_call)
        return read_only({"views": np.ascontiguousarray(self.view), "ages": np.ascontiguousarray(self.age),
                      "chance": np.array([self.table.random_state], np.uint64)})

    def setstate(self, state):
        """Restore a state of `getstate` of as many nodes of the same degree; raise ValueError if it is invalid."""
        cdef _Guard access = guard(&self.in_call)
        entries = read(state, _STATE, nodes=self.nodes, degree=self.degree)
        view = entries["views"]
        count = (view >= 0).sum(axis=1)
        if (view[np.arange(self.degree) < count[:, None]] < 0).any():
            raise ValueError("state['views'] must have all nodes of a row before the first -1")
        for memory, values in ((self.view, view), (self.age, entries["ages"]), (self.count, count)):
            np.asarray(memory)[:] = values
        self.table.random_state = int(entries["chance"][0])
