"""The board: numbers that nodes have published, as all nodes see them, some time later."""

from libc.math cimport INFINITY, exp, log1p, sqrt
from libc.stdlib cimport free

cimport cython

from gridcore.common.arguments cimport indices
from gridcore.common.memory cimport grown
from gridcore.common.pending cimport (
    Event,
    Pending,
    pending_clear,
    pending_first,
    pending_free,
    pending_pop,
    pending_push,
    pending_read,
)
from gridcore.nodes.random_stream cimport RandomStream

import numpy as np

from gridcore.common.state import FLAG, INSTANT, LATEST, Array, Number, Rows, read, read_only

__all__ = ["REFRESHES", "Board"]

#: When the board shows what has been published.
REFRESHES = ("continuous", "periodic", "individual")
# A time may be the sum of two; the last two columns are for what nobody sees yet.
_STATE = {
    "published": Number(0, LATEST + 1), "errors": Number(0, LATEST + 1),
    "board": Rows({"since": (0, 2 * LATEST + 1), "node": (0, "nodes"), "falling": FLAG, "due": (0, 2 * LATEST + 1),
                   "number": INSTANT}),
    "board_values": Array(np.float64, ("board", 2)),
}

cdef enum:
    CONTINUOUS, PERIODIC, INDIVIDUAL


@cython.final
@cython.auto_pickle(False)
cdef class Board:
    """Shows each node's published number to all nodes, up to `age` old.

    What is published waits in one queue until it is due, and is shown before the next look at the board: so the ways
    of refreshing differ only in when it is due.

    Raises ValueError for arguments that are out of range.

    Parameters
    ----------
    up
        bool[nodes], whether each has something to show, 0, when the run begins; of the others the board shows
        inf.
    age
        ns.
    refresh
        ``"continuous"``, each number is shown after exactly `age`; ``"periodic"``, all at the next multiple
        of `age`; ``"individual"``, that of a node at the next of its own instants, which are `age` apart.
    error
        Standard deviation of the factor by which what is shown differs from what was published, lognormal
        with mean 1; each number that is published has its own.
    phase
        int64[nodes], 0..`age`, ns, the first instant of each node; read where `refresh` is ``"individual"``.
    seed
        0..2**64 - 1, of the errors.
    of_applications
        Whether the numbers are of applications, and not of nodes, as they are called below.
    """

    def __cinit__(self, up: ArrayLike, *, long long age, str refresh, double error, phase: NDArray[Any], seed: int,
                  bint of_applications=False):
        cdef Py_ssize_t k
        up = np.asarray(up, bool)
        self.nodes, self.of_applications = len(up), of_applications
        if not 0 <= age <= LATEST:
            raise ValueError(f"age must be in 0..{LATEST} ns, got {age}")
        if refresh not in REFRESHES:
            raise ValueError(f"refresh must be one of {', '.join(REFRESHES)}, got {refresh!r}")
        if not 0 <= error < INFINITY:
            raise ValueError(f"error must be finite and at least 0, got {error!r}")
        self.age, self.refresh = age, REFRESHES.index(refresh) if age else CONTINUOUS
        self.sigma, self.errors = sqrt(log1p(error * error)), RandomStream(seed, 0)
        self.phase = indices(phase, "phase", 0, age + 1)
        if self.phase.shape[0] != self.nodes:
            raise ValueError(f"phase must have {self.nodes} entries, got {self.phase.shape[0]}")
        self.given = np.where(up, 0.0, INFINITY)
        self.shown = self.given
        self.given.flags.writeable = False
        self.at = <Published*> grown(NULL, max(1, self.nodes) * sizeof(Published))
        for k in range(self.nodes):
            self.at[k].value, self.at[k].factor, self.at[k].since = self.shown[k], 1.0, 0
            self.at[k].node, self.at[k].falling = <int> k, False
        self.read_at = -1

    def __dealloc__(self):
        pending_free(&self.pending)
        free(self.waiting)
        free(self.unused)
        free(self.at)

    def publish(self, node: int, value: float, falling: bool, now: int):
        """Let `node` publish `value` at `now` ns; `falling`: it falls by 1 each second, down to 0."""
        if not 0 <= node < self.nodes:
            raise ValueError(f"node must be in 0..{self.nodes - 1}, got {node}")
        self._publish(node, value, falling, now)

    def read(self, now: int) -> Floats:
        """Return what the board shows at `now` ns, which must not be before what has been read: float64[nodes].

        It is the board's own memory, which the next look at the board changes.
        """
        self._read(now)
        return self.given

    cdef int _publish(self, Py_ssize_t node, double value, bint falling, long long now) except -1:
        cdef Published new
        cdef long long due = now + self.age, late
        new.value, new.factor, new.since, new.node, new.falling = value, 1.0, now, <int> node, falling
        if self.sigma > 0 and value < INFINITY:
            new.factor = exp(self.sigma * self.errors._normal() - self.sigma * self.sigma / 2)
        if self.refresh != CONTINUOUS:
            late = now - self._true_at(node, now)
            due = now + self.age - late if late else now
        self.published += 1
        return self._add(&new, due, self.published)

    cdef long long _true_at(self, Py_ssize_t node, long long now) noexcept:
        """When what the board shows of `node` at `now` was so, ns; before the first refresh that is before 0."""
        cdef long long phase = self.phase[node] if self.refresh == INDIVIDUAL else 0
        if self.refresh == CONTINUOUS:
            return now - self.age
        if now < phase:
            return phase - self.age
        return now - (now - phase) % self.age

    cdef int _add(self, const Published* new, long long due, long long sequence) except -1:
        """Let `new` be shown at `due`."""
        cdef int slot, more
        if self.n_unused == 0:
            more = 2 * self.room + 64
            self.waiting = <Published*> grown(self.waiting, more * sizeof(Published))
            self.unused = <int*> grown(self.unused, more * sizeof(int))
            for slot in range(self.room, more):
                self.unused[slot - self.room] = slot
            self.n_unused, self.room = more - self.room, more
        self.n_unused -= 1
        slot = self.unused[self.n_unused]
        self.waiting[slot] = new[0]
        self.read_at = -1
        return pending_push(&self.pending, due, sequence, slot)

    cdef int _show(self, const Published* new) except -1:
        cdef Published* at = &self.at[new.node]
        self.n_falling += new.falling - at.falling
        at[0] = new[0]
        self.shown[new.node] = new.value * new.factor
        return 0

    cdef double* _read(self, long long now) except NULL:
        """What the board shows at `now`, which must not be before what has been read; there must be nodes."""
        cdef const Event* first
        cdef const Published* at
        cdef Py_ssize_t k
        cdef int slot
        if self.read_at == now:
            return &self.shown[0]
        while True:
            first = pending_first(&self.pending)
            if first == NULL or first.time > now:
                break
            slot = pending_pop(&self.pending).slot
            self._show(&self.waiting[slot])
            self.unused[self.n_unused] = slot
            self.n_unused += 1
        for k in range(self.nodes if self.n_falling else 0):
            at = &self.at[k]
            if at.falling:
                self.shown[k] = max(0.0, at.value - (self._true_at(k, now) - at.since) / 1e9) * at.factor
        self.read_at = now
        return &self.shown[0]

    # -- checkpoints ----------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """What has changed since the board was made; see `gridcore.common.state`."""
        return read_only(self._entries())

    def setstate(self, state):
        """Go on from what `getstate` of a board made with the same arguments gave; raises ValueError."""
        self._set(state)

    cdef dict _entries(self):
        """Entries of a state: rows of (since, node, falling[, due, number]) and of (value, factor)."""
        cdef Py_ssize_t k, n = self.pending.n + self.pending.n_run
        cdef const Published* each
        events = np.empty((n, 3), np.int64)
        cdef long long[:, ::1] rows = events
        pending_read(&self.pending, rows)
        whole, real = np.zeros((self.nodes + n, 5), np.int64), np.zeros((self.nodes + n, 2))
        for k in range(self.nodes + n):
            each = &self.at[k] if k < self.nodes else &self.waiting[rows[k - self.nodes, 2]]
            whole[k, :3] = each.since, each.node, each.falling
            if k >= self.nodes:
                whole[k, 3:] = events[k - self.nodes, :2]
            real[k] = each.value, each.factor
        return {"published": self.published, "board": whole, "board_values": real, "errors": int(self.errors.drawn)}

    cdef int _set(self, state) except -1:
        """Go on from a state; raises ValueError."""
        cdef Py_ssize_t k
        cdef Published new
        given = read(state, _STATE, nodes=self.nodes)
        whole, real = given["board"], given["board_values"]
        if len(whole) < self.nodes or (whole[:self.nodes, 1] != np.arange(self.nodes)).any():
            raise ValueError(f"state['board'] must have rows for {self.nodes} nodes, in order, then others of them")
        pending_clear(&self.pending)
        self.n_unused = self.room = 0
        self.published, self.errors.drawn = given["published"], given["errors"]
        for k in range(len(whole)):
            new.since, new.node, new.falling = whole[k, 0], whole[k, 1], whole[k, 2]
            new.value, new.factor = real[k]
            if k < self.nodes:
                self._show(&new)
            else:
                self._add(&new, whole[k, 3], whole[k, 4])
        self.read_at = -1
        return 0
