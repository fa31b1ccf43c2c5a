"""The views that nodes have of one another: an overlay that shuffles itself (CYCLON), or stays as it was drawn.

A node knows up to `degree` other nodes.  Each entry of its view has an age in cycles.  In a cycle every node, in
order of number, makes its entries one cycle older and exchanges entries with q, the node of its oldest entry.  It
sends q up to ``shuffle`` entries, of which one is itself and none is q, and gets up to as many back.  Both put the
entries that are new to them into empty places first, and then in place of the entries that they sent, beginning
with the entry of q.  So views keep their size; afterwards q knows the node, and the node no longer knows q.  If q
is down, its entry is dropped.  Ages stop at 255.

Source: Voulgaris, Gavidia and van Steen, "CYCLON: Inexpensive membership management for unstructured P2P
overlays" (enhanced shuffling, and joining by random walks); an exchange takes no time here.  The reference
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


def _vector_level(int most) -> int:
    """Limit the vector level of this module to `most` and return the level in use; for tests.

    0 is plain C, 1 is AVX-512.  Each module has its own level, see `gridcore.queues.availability`.
    """
    return detect(most)



@cython.auto_pickle(False)
cdef class Views:
    """Views of `nodes` nodes: each knows `degree` others (all others if there are fewer), drawn at random.

    Parameters
    ----------
    shuffle
        Entries that a node sends in an exchange, 1..degree.
    seed
        Seed of the first views, the exchanges and the walks, 0..2**64 - 1.

    Raises
    ------
    ValueError naming the argument and its value.
    """

    def __cinit__(self, nodes: SupportsIndex, degree: SupportsIndex, *, shuffle: SupportsIndex = 8,
                  seed: SupportsIndex = 0):
        cdef Py_ssize_t u
        cdef int other
        for name, value, low, high in (
            ("nodes", nodes, 1, 2**31 - 1), ("degree", degree, 1, 2**15), ("shuffle", shuffle, 1, degree),
            ("seed", seed, 0, 2**64 - 1),
        ):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
                raise ValueError(f"{name} must be in {low}..{high}, got {value!r}")
        self.nodes, self.degree, self.shuffle, self.it.chance = nodes, degree, shuffle, seed
        self._lay()
        if self.nodes - 1 <= 2 * self.degree:
            self._deal()
            return
        for u in range(self.nodes):
            while self.count[u] < self.degree:
                other = <int> below(&self.it, self.nodes)
                if other != u and not knows(&self.it, u, other):
                    self.view[u, self.count[u]] = other
                    self.count[u] += 1

    cdef int _lay(self) except -1:
        """Allocate empty views: one record of whole cache lines for each node."""
        cdef Py_ssize_t count_at = (5 * self.degree + 3) // 4 * 4, stride = (count_at + 4 + 63) // 64 * 64
        block = np.zeros(self.nodes * stride + 64, np.uint8)
        block = block[-block.ctypes.data % 64:][:self.nodes * stride]
        self.view = np.ndarray((self.nodes, self.degree), np.int32, block, strides=(stride, 4))
        self.age = np.ndarray((self.nodes, self.degree), np.uint8, block, 4 * self.degree, strides=(stride, 1))
        self.count = np.ndarray(self.nodes, np.int32, block, count_at, strides=(stride,))
        self.entry, self.entry_age = np.zeros((2, self.degree), np.int32), np.zeros((2, self.degree), np.uint8)
        self.drawn = np.zeros(2 * self.degree + 16, np.int32)
        self.view[:, :] = -1
        self.it.records, self.it.nodes, self.it.stride = <unsigned char*> &self.view[0, 0], self.nodes, stride
        self.it.age_at, self.it.count_at = 4 * self.degree, count_at
        self.it.degree, self.it.shuffle = <int> self.degree, <int> self.shuffle
        self.it.entry, self.it.entry_age = &self.entry[0, 0], &self.entry_age[0, 0]
        self.it.drawn = &self.drawn[0]
        return 0

    cdef int _deal(self) except -1:
        """Draw the first views where a node knows nearly all others: a partial shuffle of all others."""
        cdef Py_ssize_t u, k, j, others = self.nodes - 1
        cdef int card
        cdef int[::1] cards = np.empty(others, np.int32)
        for u in range(self.nodes):
            for k in range(others):
                cards[k] = <int> (k + (k >= u))
            for k in range(min(self.degree, others)):
                j = k + below(&self.it, others - k)
                card = cards[j]
                cards[j] = cards[k]
                self.view[u, k] = card
                self.count[u] += 1
        return 0

    # -- the views ------------------------------------------------------------------------------------------

    @property
    def views(self) -> NDArray[np.int32]:
        """int32[nodes, degree], read-only and always up to date: the nodes that each node knows, then -1."""
        return self._shown(np.asarray(self.view))

    @property
    def ages(self) -> NDArray[np.uint8]:
        """uint8[nodes, degree], read-only and always up to date: the age of each entry in cycles."""
        return self._shown(np.asarray(self.age))

    cdef object _shown(self, found):
        shown = found.view()
        shown.flags.writeable = False
        return shown

    def in_degree(self) -> Integers:
        """Return int64[nodes]: how many nodes know each node."""
        cdef _Guard alone = guard(&self.occupied)
        known = np.asarray(self.view)
        return np.bincount(known[known >= 0], minlength=self.nodes)

    def pick(self, nodes: ArrayLike, first: ArrayLike, second: ArrayLike, Py_ssize_t count, *,
             unsigned long long seed=0, away: Bools | None = None) -> tuple[Integers, Integers]:
        """Draw uniformly up to `count` different nodes of those that each of `nodes` (int64[k]) knows.

        Returns (offsets, chosen): the nodes drawn for ``nodes[i]`` are ``chosen[offsets[i]:offsets[i + 1]]``.

        Parameters
        ----------
        first, second
            int64[k]; the draw for entry k depends on these two, on `seed`, and on no other number.
        away
            bool[nodes], the nodes that must not be drawn; None for none.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] u = indices(nodes, "nodes", 0, self.nodes)
        cdef const long long[::1] a = integers(first, "first"), b = integers(second, "second")
        cdef const unsigned char[::1] gone = self._there(away, "away")
        cdef Py_ssize_t i, k, n, m = 0
        if not u.shape[0] == a.shape[0] == b.shape[0]:
            raise ValueError(f"nodes, first and second must be equally long, got {u.shape[0]}, {a.shape[0]}, {b.shape[0]}")
        if count < 0:
            raise ValueError(f"count must be >= 0, got {count}")
        offsets, chosen = np.zeros(u.shape[0] + 1, np.int64), np.empty(u.shape[0] * min(count, self.degree), np.int64)
        cdef long long[::1] end_of = offsets, out = chosen
        with nogil:
            for i in range(u.shape[0]):
                n = self._pick(u[i], a[i], b[i], count, seed, gone)
                for k in range(n):
                    out[m] = self.entry[0, k]
                    m += 1
                end_of[i + 1] = m
        return offsets, chosen[:m]

    cdef Py_ssize_t _pick(self, Py_ssize_t node, long long first, long long second, Py_ssize_t count,
                          unsigned long long seed, const unsigned char[::1] gone) noexcept nogil:
        """Draw up to `count` nodes that `node` knows into the front of `entry`; return how many."""
        cdef unsigned long long state = self.it.chance
        cdef Py_ssize_t k, j, n = 0
        cdef int card
        cdef int* cards = &self.entry[0, 0]
        # one state made of three numbers: the seed, first and second
        self.it.chance = seed
        self.it.chance = following(&self.it) ^ <unsigned long long> first
        self.it.chance = following(&self.it) ^ <unsigned long long> second
        for k in range(self.count[node]):
            card = self.view[node, k]
            if gone is None or not gone[card]:
                cards[n] = card
                n += 1
        n, count = min(n, count), n
        for k in range(n):
            j = k + <Py_ssize_t> below(&self.it, count - k)
            cards[k], cards[j] = cards[j], cards[k]
        self.it.chance = state
        return n

    # -- shuffling ------------------------------------------------------------------------------------------

    def cycle(self, up: Bools | None = None) -> tuple[int, int, int]:
        """Let every node exchange entries with the node of its oldest entry.

        Returns (exchanges, entries dropped because their node was down, entries that were new to their receiver).

        Parameters
        ----------
        up
            bool[nodes], the nodes that are up; None for all.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const unsigned char[::1] there = self._there(up)
        cdef long long[3] done
        cdef const unsigned char* who = NULL
        done[0] = done[1] = done[2] = 0
        if there is not None:
            who = &there[0]
        with nogil:
            cycle(&self.it, who, done)
        return done[0], done[1], done[2]

    # -- nodes that leave and join --------------------------------------------------------------------------

    def leave(self, nodes: ArrayLike):
        """Empty the views of `nodes` (int64[k]); nodes that know them find out in their next exchange with them."""
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] gone = indices(nodes, "nodes", 0, self.nodes)
        cdef Py_ssize_t k, j
        for k in range(gone.shape[0]):
            for j in range(self.degree):
                self.view[gone[k], j], self.age[gone[k], j] = -1, 0
            self.count[gone[k]] = 0

    def join(self, Py_ssize_t node, Py_ssize_t introducer, *, Py_ssize_t steps=5, up: Bools | None = None):
        """Let `node`, whose view is empty, join through `introducer`, by `degree` random walks of `steps` steps.

        At the node where a walk ends, an entry for `node` replaces an entry drawn at random, and the replaced
        entry goes to `node`.  If that node has an empty place, or knows `node` already, nothing is replaced, and
        `node` gets an entry for that node instead.  A step that would lead to `node`, or to a node that is down
        (`up`, as for `cycle`), is not made: the walk stays where it is.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const unsigned char[::1] there = self._there(up)
        cdef Py_ssize_t walk, step, at, k
        cdef int next_
        for name, value in (("node", node), ("introducer", introducer)):
            if not 0 <= value < self.nodes:
                raise ValueError(f"{name} must be in 0..{self.nodes - 1}, got {value}")
        if node == introducer:
            raise ValueError(f"introducer must be another one than node, {node}")
        if self.count[node]:
            raise ValueError(f"node must know nobody before it joins, {node} knows {self.count[node]}")
        if not 0 <= steps <= 2**16:
            raise ValueError(f"steps must be in 0..{2**16}, got {steps}")
        for walk in range(self.degree):
            at = introducer
            for step in range(steps):
                if self.count[at] == 0:
                    break
                next_ = self.view[at, below(&self.it, self.count[at])]
                if next_ != node and (there is None or there[next_]):
                    at = next_
            next_ = <int> at
            if not knows(&self.it, at, <int> node):
                k = self.count[at]
                if k == self.degree:
                    k = below(&self.it, k)
                    next_ = self.view[at, k]
                else:
                    self.count[at] += 1
                self.view[at, k], self.age[at, k] = <int> node, 0
            if next_ != node and not knows(&self.it, node, next_):
                self.view[node, self.count[node]], self.age[node, self.count[node]] = next_, 0
                self.count[node] += 1

    cdef const unsigned char[::1] _there(self, up, str name="up"):
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
        cdef _Guard alone = guard(&self.occupied)
        return read_only({"views": np.ascontiguousarray(self.view), "ages": np.ascontiguousarray(self.age),
                      "chance": np.array([self.it.chance], np.uint64)})

    def setstate(self, state):
        """Continue from a state that `getstate` returned for as many nodes of the same degree.

        Raises ValueError for a state that does not fit.
        """
        cdef _Guard alone = guard(&self.occupied)
        given = read(state, _STATE, nodes=self.nodes, degree=self.degree)
        view = given["views"]
        count = (view >= 0).sum(axis=1)
        if (view[np.arange(self.degree) < count[:, None]] < 0).any():
            raise ValueError("state['views'] must have what is empty last")
        for mine, new in ((self.view, view), (self.age, given["ages"]), (self.count, count)):
            np.asarray(mine)[:] = new
        self.it.chance = int(given["chance"][0])
