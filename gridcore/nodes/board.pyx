"""The board: numbers that nodes publish, and that all nodes see after a delay."""

from libc.math cimport INFINITY, exp, log1p, sqrt
from libc.stdlib cimport free

cimport cython

from gridcore.common.arguments cimport indices
from gridcore.common.memory cimport reallocate
from gridcore.common.pending cimport (
    Event, Pending, pending_clear, pending_first, pending_free, pending_pop, pending_push, pending_read,
)
from gridcore.nodes.random_stream cimport RandomStream

import numpy as np

from gridcore.common.state import FLAG, INSTANT, LATEST, ArrayEntry, NumberEntry, TableEntry, read, read_only

__all__ = ["REFRESHES", "Board"]

#: Rules that determine when the board shows a published number.
REFRESHES = ("continuous", "periodic", "individual")
# Instants may be the sum of two times, hence 2 * LATEST.  Columns due and number: only if not shown yet.
_STATE = {
    "published": NumberEntry(0, LATEST + 1), "errors": NumberEntry(0, LATEST + 1),
    "board": TableEntry({
        "since": (0, 2 * LATEST + 1), "node": (0, "nodes"), "falling": FLAG, "due": (0, 2 * LATEST + 1),
        "number": INSTANT,
    }),
    "board_values": ArrayEntry(np.float64, ("board", 2)),
}

cdef enum:
    CONTINUOUS, PERIODIC, INDIVIDUAL


@cython.final
@cython.auto_pickle(False)
cdef class Board:
    """A board that shows the published number of each node to all nodes with a delay of at most `age` ns.

    Publications wait in one queue until they are due, and are applied before the next read of the board; the rules of
    `refresh` only differ in when a publication is due.

    Parameters
    ----------
    up
        bool[nodes], the nodes for which the board shows 0 at the beginning of the run; it shows inf for others.
    age
        The largest delay, ns.
    refresh
        ``"continuous"``: each number is shown after exactly `age`; ``"periodic"``: at the next multiple of `age`;
        ``"individual"``: at the next instant of its node, whose instants are `age` apart.
    error
        Standard deviation of the ratio of the shown to the published number; the ratio is lognormal with mean 1 and
        drawn for each publication.
    phase
        int64[nodes], 0..`age`, ns, the first instant of each node; used only if `refresh` is ``"individual"``.
    seed
        0..2**64 - 1, the seed of the errors.
    is_per_application
        Whether the board has a number for each application instead of each node.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """

    def __cinit__(self, up: ArrayLike, *, long long age, str refresh, double error, phase: NDArray[Any], seed: int,
                  bint is_per_application=False):
        cdef Py_ssize_t k
        up = np.asarray(up, bool)
        self.nodes, self.is_per_application = len(up), is_per_application
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
        self.read_only_values = np.where(up, 0.0, INFINITY)
        self.values = self.read_only_values
        self.read_only_values.flags.writeable = False
        self.at = <Publication*> reallocate(NULL, max(1, self.nodes) * sizeof(Publication))
        for k in range(self.nodes):
            self.at[k].value, self.at[k].factor, self.at[k].since = self.values[k], 1.0, 0
            self.at[k].node, self.at[k].falling = <int> k, False
        self.read_at = -1

    def __dealloc__(self):
        pending_free(&self.pending)
        free(self.waiting)
        free(self.unused)
        free(self.at)

    def publish(self, node: int, value: float, falling: bool, now: int):
        """Publish `value` for `node` at `now` ns; a `falling` value decreases by 1 each second, down to 0."""
        if not 0 <= node < self.nodes:
            raise ValueError(f"node must be in 0..{self.nodes - 1}, got {node}")
        self._publish(node, value, falling, now)

    def read(self, now: int) -> Floats:
        """Return the shown numbers at `now` ns, float64[nodes]; `now` must not be before the last read.

        The array is the memory of the board, which the next read changes.
        """
        self._read(now)
        return self.read_only_values

    cdef int _publish(self, Py_ssize_t node, double value, bint falling, long long now) except -1:
        cdef Publication new
        cdef long long due = now + self.age, age
        new.value, new.factor, new.since, new.node, new.falling = value, 1.0, now, <int> node, falling
        if self.sigma > 0 and value < INFINITY:
            new.factor = exp(self.sigma * self.errors._normal() - self.sigma * self.sigma / 2)
        if self.refresh != CONTINUOUS:
            age = now - self._shown_as_of(node, now)
            due = now + self.age - age if age else now
        self.n_publications += 1
        return self._add(&new, due, self.n_publications)

    cdef long long _shown_as_of(self, Py_ssize_t node, long long now) noexcept:
        """Return the instant (ns) of the knowledge about `node` shown at `now`; negative before the first refresh."""
        cdef long long phase = self.phase[node] if self.refresh == INDIVIDUAL else 0
        if self.refresh == CONTINUOUS:
            return now - self.age
        if now < phase:
            return phase - self.age
        return now - (now - phase) % self.age

    cdef int _add(self, const Publication* new, long long due, long long sequence) except -1:
        """Show `new` from `due` ns on."""
        cdef int slot, room
        if self.n_unused == 0:
            room = 2 * self.room + 64
            self.waiting = <Publication*> reallocate(self.waiting, room * sizeof(Publication))
            self.unused = <int*> reallocate(self.unused, room * sizeof(int))
            for slot in range(self.room, room):
                self.unused[slot - self.room] = slot
            self.n_unused, self.room = room - self.room, room
        self.n_unused -= 1
        slot = self.unused[self.n_unused]
        self.waiting[slot] = new[0]
        self.read_at = -1
        return pending_push(&self.pending, due, sequence, slot)

    cdef int _show(self, const Publication* new) except -1:
        cdef Publication* at = &self.at[new.node]
        self.n_falling += new.falling - at.falling
        at[0] = new[0]
        self.values[new.node] = new.value * new.factor
        return 0

    cdef double* _read(self, long long now) except NULL:
        """Return the shown numbers at `now` ns, which must not be before the last read; requires at least one node."""
        cdef const Event* first
        cdef const Publication* at
        cdef Py_ssize_t k
        cdef int slot
        if self.read_at == now:
            return &self.values[0]
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
                self.values[k] = max(0.0, at.value - (self._shown_as_of(k, now) - at.since) / 1e9) * at.factor
        self.read_at = now
        return &self.values[0]

    # -- checkpoints ----------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since construction, as described in `gridcore.common.state`."""
        return read_only(self._entries())

    def setstate(self, state):
        """Restore a state of `getstate` of a board with the same arguments; raise ValueError if it is invalid."""
        self._set(state)

    cdef dict _entries(self):
        """Return the entries of a state: rows of (since, node, falling[, due, number]) and of (value, factor)."""
        cdef Py_ssize_t k, n = self.pending.n + self.pending.n_ring
        cdef const Publication* publication
        events = np.empty((n, 3), np.int64)
        cdef long long[:, ::1] rows = events
        pending_read(&self.pending, rows)
        integers, floats = np.zeros((self.nodes + n, 5), np.int64), np.zeros((self.nodes + n, 2))
        for k in range(self.nodes + n):
            publication = &self.at[k] if k < self.nodes else &self.waiting[rows[k - self.nodes, 2]]
            integers[k, :3] = publication.since, publication.node, publication.falling
            if k >= self.nodes:
                integers[k, 3:] = events[k - self.nodes, :2]
            floats[k] = publication.value, publication.factor
        return {"published": self.n_publications, "board": integers, "board_values": floats,
                "errors": int(self.errors.drawn)}

    cdef int _set(self, state) except -1:
        """Restore a state; raise ValueError if it is invalid."""
        cdef Py_ssize_t k
        cdef Publication new
        entries = read(state, _STATE, nodes=self.nodes)
        integers, floats = entries["board"], entries["board_values"]
        if len(integers) < self.nodes or (integers[:self.nodes, 1] != np.arange(self.nodes)).any():
            raise ValueError(f"state['board'] must begin with a row for each of {self.nodes} nodes, in order")
        pending_clear(&self.pending)
        self.n_unused = self.room = 0
        self.n_publications, self.errors.drawn = entries["published"], entries["errors"]
        for k in range(len(integers)):
            new.since, new.node, new.falling = integers[k, 0], integers[k, 1], integers[k, 2]
            new.value, new.factor = floats[k]
            if k < self.nodes:
                self._show(&new)
            else:
                self._add(&new, integers[k, 3], integers[k, 4])
        self.read_at = -1
        return 0
