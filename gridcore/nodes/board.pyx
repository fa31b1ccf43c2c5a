"""The board: numbers that nodes publish, and that all nodes see after a delay."""

from libc.math cimport INFINITY, exp, fabs, log1p, sqrt
from libc.stdlib cimport free
from libc.string cimport memcpy

cimport cython

from gridcore.common.arguments cimport indices
from gridcore.common.instants cimport NEVER, later_by
from gridcore.common.memory cimport reallocate
from gridcore.common.heap cimport Event, heap_pop, heap_push
from gridcore.common.pending cimport (
    pending_clear, pending_count, pending_first, pending_free, pending_pop, pending_push, pending_read,
)
from gridcore.nodes.random_stream cimport RandomStream

import numpy as np

from gridcore.common.names import listed
from gridcore.common.state import FLAG, INSTANT, LATEST, ArrayEntry, NumberEntry, TableEntry, read, read_only

__all__ = ["REFRESHES", "Board"]

#: Rules that determine when the board shows a published number.
REFRESHES = ("continuous", "periodic", "individual", "decisions")
# Instants may be the sum of two times, hence 2 * LATEST.
_SINCE, _PLACE = (0, 2 * LATEST + 1), {"node": (0, "nodes"), "column": (0, "columns")}
_STATE = {
    "published": NumberEntry(0, LATEST + 1), "errors": NumberEntry(0, LATEST + 1),
    "additions": NumberEntry(0, LATEST + 1), "refreshes": NumberEntry(0, LATEST + 1),
    "refreshed_at": NumberEntry(0, LATEST + 1),
    "shown": TableEntry({"since": _SINCE, "falling": FLAG}, "numbers"),
    "shown_values": ArrayEntry(np.float64, ("shown", 2)),
    "changed": TableEntry({"since": _SINCE, **_PLACE}), "changed_values": ArrayEntry(np.float64, ("changed",)),
    "waiting": TableEntry({
        "since": _SINCE, **_PLACE, "falling": FLAG, "changed": FLAG, "due": _SINCE, "number": INSTANT,
    }),
    "waiting_values": ArrayEntry(np.float64, ("waiting", 2)),
}

cdef enum:
    CONTINUOUS, PERIODIC, INDIVIDUAL, DECISIONS

cdef long long OUTDATED = -NEVER        # `Match.until` before all instants
# A bound of the rounding errors of two shown numbers, in multiples of the published numbers.
cdef double ROUNDING = 4e-15


@cython.final
@cython.auto_pickle(False)
cdef class Board:
    """A board that shows the published numbers of each node to all nodes with a delay of at most `age` ns.

    Publications wait in one queue until they are due, and are applied before the next read of the board; the rules of
    `refresh` only differ in when a publication is due.

    Parameters
    ----------
    up
        bool[nodes], the nodes for which the board shows 0 at the beginning of the run; it shows inf for others.
    numbers
        The names of the numbers of a node; empty for one number without a name.
    age
        The largest delay, ns; not used if `refresh` is ``"decisions"``.
    refresh
        ``"continuous"``: each number is shown after exactly `age`; ``"periodic"``: at the next multiple of `age`;
        ``"individual"``: at the next instant of its node, whose instants are `age` apart; ``"decisions"``: after the
        next multiple of `batch` additions.
    batch
        Number of additions between two refreshes; used only if `refresh` is ``"decisions"``.
    error
        Standard deviation of the ratio of the shown to the published number; the ratio is lognormal with mean 1 and
        drawn for each publication.
    phase
        int64[nodes], 0..`age`, ns, the first instant of each node; used only if `refresh` is ``"individual"``.
    seed
        0..2**64 - 1, the seed of the errors.
    is_per_application
        Whether the board has numbers for each application instead of each node.

    Attributes
    ----------
    numbers
        The names of the numbers; ``("values",)`` for one number without a name.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    The least numbers are found by a tournament: a binary tree with the nodes as leaves, whose inner nodes have the
    winner of their subtree, and the last instant at which it is certainly still the winner although numbers fall
    (a kinetic tournament; Basch, Guibas and Hershberger 1999).  A new number only invalidates the path to the root,
    and the next search repairs what is invalid.
    """

    def __cinit__(self, up: ArrayLike, *, numbers: Sequence[str] = (), long long age, str refresh, long long batch=1,
                  double error, phase: NDArray[Any], seed: int, bint is_per_application=False):
        cdef Py_ssize_t k, column
        cdef Publication* at
        cdef double[::1] values
        up = np.asarray(up, bool)
        self.nodes, self.is_per_application = len(up), is_per_application
        self.numbers = tuple(numbers) or ("values",)
        if len(self.numbers) > 1000:
            raise ValueError(f"numbers must be at most 1000 names, got {len(self.numbers)}")
        if not 0 <= age <= LATEST:
            raise ValueError(f"age must be in 0..{LATEST} ns, got {age}")
        if refresh not in REFRESHES:
            raise ValueError(f"refresh must be one of {', '.join(REFRESHES)}, got {refresh!r}")
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        if not 0 <= error < INFINITY:
            raise ValueError(f"error must be finite and at least 0, got {error!r}")
        self.age, self.refresh, self.batch = age, REFRESHES.index(refresh), batch
        if age == 0 and self.refresh != DECISIONS:
            self.refresh = CONTINUOUS
        self.sigma, self.errors = sqrt(log1p(error * error)), RandomStream(seed, 0)
        self.phase = indices(phase, "phase", 0, age + 1)
        if self.phase.shape[0] != self.nodes:
            raise ValueError(f"phase must have {self.nodes} entries, got {self.phase.shape[0]}")
        self.arrays = []
        self.columns = <Column*> reallocate(NULL, len(self.numbers) * sizeof(Column))
        for column in range(len(self.numbers)):
            array = np.where(up, 0.0, INFINITY)
            values = array
            array.flags.writeable = False
            self.arrays.append(array)
            at = <Publication*> reallocate(NULL, self.nodes * sizeof(Publication))
            self.columns[column].values = &values[0] if self.nodes else NULL
            self.columns[column].at, self.columns[column].changes, self.columns[column].tree = at, NULL, NULL
            self.columns[column].n_falling, self.columns[column].read_at = 0, -1
            self.n_columns += 1
            for k in range(self.nodes):
                at[k].value, at[k].factor, at[k].since, at[k].node = values[k], 1.0, 0, <int> k
                at[k].column, at[k].falling, at[k].changed = <short> column, False, False

    def __dealloc__(self):
        cdef Py_ssize_t column
        pending_free(&self.pending)
        free(self.candidate)
        free(self.waiting)
        free(self.unused)
        for column in range(self.n_columns):
            free(self.columns[column].at)
            free(self.columns[column].changes)
            free(self.columns[column].tree)
        free(self.columns)

    # -- use from Python --------------------------------------------------------------------------------------

    def column(self, name: str | None = None) -> int:
        """Return the index of the number `name`; None stands for the only number.

        Raises
        ------
        ValueError
            If the board has no such number, or `name` is None and it has several.
        """
        return self._column(name)

    def changes(self, value: float | None, numbers: dict[str, float]) -> list[tuple[int, float]]:
        """Return (column, number) pairs, in the order of the columns, for the arguments of a call.

        Parameters
        ----------
        value
            The only number of a board; None to give numbers by name.
        numbers
            Name -> number.

        Raises
        ------
        ValueError
            If there is no number, or a name is unknown.
        """
        if value is not None:
            if numbers:
                raise ValueError(f"numbers must be passed by name, got {value!r} without a name")
            return [(self._column(None), value)]
        if not numbers:
            raise ValueError(f"at least one number must be given by its name: {', '.join(self.numbers)}")
        return sorted((self._column(name), number) for name, number in numbers.items())

    def publications(self, value: float | None, numbers: dict[str, float],
                     falling: bool | tuple[str, ...]) -> list[tuple[int, float, bool]]:
        """Return (column, number, whether it falls) for the arguments of `View.publish`.

        Parameters
        ----------
        value, numbers
            As for `changes`.
        falling
            Whether all numbers fall, or the names of those that do.

        Raises
        ------
        ValueError
            As for `changes`, or if `falling` has the name of a number that is not given.
        """
        changes = self.changes(value, numbers)
        if not isinstance(falling, (str, tuple, list, set, frozenset)):
            return [(column, number, bool(falling)) for column, number in changes]
        if isinstance(falling, str) or not set(falling) <= {self.numbers[column] for column, _ in changes}:
            raise ValueError(f"falling must be True, False or a tuple of the names of given numbers, got {falling!r}")
        return [(column, number, self.numbers[column] in falling) for column, number in changes]

    def publish(self, node: int, value: float, falling: bool, now: int, column: int = 0):
        """Publish `value` for `node` at `now` ns; a `falling` value decreases by 1 each second, down to 0."""
        self._check(node, column)
        self._publish(node, column, value, falling, now)

    def fail(self, node: int, now: int):
        """Publish inf for all numbers of `node` at `now` ns."""
        self._check(node, 0)
        self._fail(node, now)

    def add(self, node: int, delta: float, now: int, column: int = 0, is_last: bool = True):
        """Add to a shown number of `node` at `now` ns; the change lasts until the next update or refresh.

        Parameters
        ----------
        delta
            The difference, finite.
        is_last
            Whether this ends an addition; numbers that are changed before belong to the same one (`batch`).
        """
        self._check(node, column)
        if not fabs(delta) < INFINITY:
            raise ValueError(f"delta must be finite, got {delta!r}")
        self._change(node, column, delta, now, is_last)

    def read(self, now: int, column: int = 0) -> Floats:
        """Return the shown numbers at `now` ns, float64[nodes]; `now` must not be before the last read.

        The array is the memory of the board, which the next read changes.
        """
        if self.nodes:
            self._check(0, column)
            self._read(column, now)
        return self.arrays[column]

    def number(self, node: int, now: int, column: int = 0) -> float:
        """Return the shown number of `node` at `now` ns; raise IndexError if there is no such node."""
        if self.nodes:
            self._check(0, column)
        return self._number(node, column, now)

    def least(self, k: int, now: int, column: int = 0) -> tuple[int, ...]:
        """Return the min(k, nodes) nodes with the least shown numbers at `now` ns, ascending; ties by node.

        It takes O(k log nodes) steps on average, since numbers that fall are compared again only when their order may
        have changed.
        """
        cdef long long[::1] nodes
        if k < 0:
            raise ValueError(f"k must be at least 0, got {k}")
        result = np.empty(min(k, self.nodes), np.int64)
        nodes = result
        if nodes.shape[0] == 0:
            return ()
        self._check(0, column)
        self._least(column, nodes.shape[0], now, &nodes[0])
        return tuple(result.tolist())

    cdef int _check(self, node, column) except -1:
        if not 0 <= node < self.nodes:
            raise ValueError(f"node must be in 0..{self.nodes - 1}, got {node}")
        if not 0 <= column < self.n_columns:
            raise ValueError(f"column must be in 0..{self.n_columns - 1}, got {column}")
        return 0

    # -- publications -----------------------------------------------------------------------------------------

    cdef Py_ssize_t _column(self, name) except -1:
        if name is None:
            if self.n_columns > 1:
                raise ValueError(f"a board with several numbers requires a name: {', '.join(self.numbers)}")
            return 0
        if name not in self.numbers:
            raise ValueError(f"the board has no number {name!r}; {listed(self.numbers, name)}")
        return self.numbers.index(name)

    cdef int _publish(self, Py_ssize_t node, Py_ssize_t column, double value, bint falling, long long now) except -1:
        cdef Publication new
        if falling:
            value, falling = max(0.0, value), value < INFINITY
        new.value, new.factor, new.since, new.node, new.falling = value, 1.0, now, <int> node, falling
        new.column, new.changed = <short> column, False
        if self.sigma > 0 and value < INFINITY:
            new.factor = exp(self.sigma * self.errors._normal() - self.sigma * self.sigma / 2)
        self.n_publications += 1
        return self._add(&new, self._due(node, now), self.n_publications)

    cdef int _fail(self, Py_ssize_t node, long long now) except -1:
        cdef Py_ssize_t column
        for column in range(self.n_columns):
            self._publish(node, column, INFINITY, False, now)
        return 0

    cdef long long _due(self, Py_ssize_t node, long long now) noexcept:
        """Return when a number that is published at `now` is shown: an instant (ns), or the number of a refresh."""
        cdef long long age
        if self.refresh == CONTINUOUS:
            return now + self.age
        if self.refresh == DECISIONS:
            return self.n_refreshes + 1
        age = now - self._shown_as_of(node, now)
        return now + self.age - age if age else now

    cdef long long _shown_as_of(self, Py_ssize_t node, long long now) noexcept:
        """Return the instant (ns) of the knowledge about `node` shown at `now`; negative before the first refresh."""
        cdef long long phase = self.phase[node] if self.refresh == INDIVIDUAL else 0
        if self.refresh == CONTINUOUS:
            return now - self.age
        if self.refresh == DECISIONS:
            return self.refreshed_at
        if now < phase:
            return phase - self.age
        return now - (now - phase) % self.age

    cdef int _add(self, const Publication* new, long long due, long long sequence) except -1:
        """Publish `new` from `due` on, an instant that `_due` has returned."""
        cdef int slot, capacity
        if self.n_unused == 0:
            capacity = 2 * self.capacity + 64
            self.waiting = <Publication*> reallocate(self.waiting, capacity * sizeof(Publication))
            self.unused = <int*> reallocate(self.unused, capacity * sizeof(int))
            for slot in range(self.capacity, capacity):
                self.unused[slot - self.capacity] = slot
            self.n_unused, self.capacity = capacity - self.capacity, capacity
        self.n_unused -= 1
        slot = self.unused[self.n_unused]
        self.waiting[slot] = new[0]
        return pending_push(&self.pending, due, sequence, slot)

    cdef int _show(self, Column* column, Py_ssize_t node) except -1:
        """Show a number of a node that has changed, and invalidate the results of the tournament that depend on it."""
        cdef const Publication* at = _current(column, node)
        cdef Py_ssize_t k
        column.read_at = -1
        column.values[node] = at.value * at.factor
        if column.tree != NULL:
            k = (self.nodes + node) // 2
            while k > 0 and column.tree[k].until != OUTDATED:
                column.tree[k].until = OUTDATED
                k //= 2
        return 0

    cdef int _apply(self, long long now) except -1:
        """Make the publications visible that are due."""
        cdef long long due = self.n_refreshes if self.refresh == DECISIONS else now
        cdef const Event* first = pending_first(&self.pending)
        cdef const Publication* new
        cdef Publication* at
        cdef Column* column
        cdef int slot
        while first != NULL and first.time <= due:
            slot = pending_pop(&self.pending).slot
            new = &self.waiting[slot]
            column = &self.columns[new.column]
            at = &column.at[new.node]
            if new.changed:             # `new` only ends a change by additions
                at.changed = False
            else:
                column.n_falling += <int> new.falling - <int> at.falling
                at[0] = new[0]
            self._show(column, new.node)
            self.unused[self.n_unused] = slot
            self.n_unused += 1
            first = pending_first(&self.pending)
        return 0

    # -- additions --------------------------------------------------------------------------------------------

    cdef int _change(self, Py_ssize_t node, Py_ssize_t column, double delta, long long now, bint is_last) except -1:
        """Add `delta` to a shown number, until the next refresh or, without refreshes, the next number of the node."""
        cdef Column* c = &self.columns[column]
        cdef Publication* at = &c.at[node]
        cdef Publication new
        self._apply(now)
        if c.changes == NULL:
            c.changes = <Publication*> reallocate(NULL, self.nodes * sizeof(Publication))
        new = at[0]
        new.value, new.factor, new.changed = self._shown(c, node, now) + delta, 1.0, True
        if new.falling:
            new.since, new.value = self._shown_as_of(node, now), max(0.0, new.value)
        if self.refresh != CONTINUOUS and not at.changed:
            self._add(&new, self._next_refresh(node, now), 0)
        c.changes[node], at.changed = new, True
        self._show(c, node)
        return self._end_addition(now) if is_last else 0

    cdef long long _next_refresh(self, Py_ssize_t node, long long now) noexcept:
        """Return the next instant (ns), or the number of the refresh, at which all numbers of `node` are replaced."""
        return self.n_refreshes + 1 if self.refresh == DECISIONS else self._shown_as_of(node, now) + self.age

    cdef int _end_addition(self, long long now) except -1:
        """Count an addition, and refresh the board after each `batch` of them."""
        cdef Py_ssize_t column
        self.n_additions += 1
        if self.refresh == DECISIONS and self.n_additions % self.batch == 0:
            self.n_refreshes += 1
            self.refreshed_at = now
            for column in range(self.n_columns):
                self.columns[column].read_at = -1
        return 0

    # -- reading ----------------------------------------------------------------------------------------------

    cdef double _shown(self, const Column* column, Py_ssize_t node, long long now) noexcept:
        """Return the shown number of a node, after `_apply`."""
        cdef const Publication* at = _current(column, node)
        if not at.falling:
            return column.values[node]
        return max(0.0, at.value - (self._shown_as_of(node, now) - at.since) / 1e9) * at.factor

    cdef double* _read(self, Py_ssize_t column, long long now) except NULL:
        """Return the shown numbers at `now` ns, which must not be before the last read; requires at least one node."""
        cdef Column* c = &self.columns[column]
        cdef Py_ssize_t k
        self._apply(now)
        if c.read_at != now:
            for k in range(self.nodes if c.n_falling else 0):
                c.values[k] = self._shown(c, k, now)
            c.read_at = now
        return c.values

    cdef double _number(self, Py_ssize_t node, Py_ssize_t column, long long now) except? -1.0:
        if not 0 <= node < self.nodes:
            raise IndexError(f"the index of the board must be in 0..{self.nodes - 1}, got {node}")
        self._apply(now)
        return self._shown(&self.columns[column], node, now)

    # -- the least numbers ------------------------------------------------------------------------------------

    cdef Py_ssize_t _least(self, Py_ssize_t column, Py_ssize_t k, long long now, long long* nodes) except -1:
        """Write the min(k, nodes) nodes with the least shown numbers to `nodes`, and return their number."""
        cdef Column* c = &self.columns[column]
        cdef long long clock = self._clock(now)
        cdef Py_ssize_t n, at
        cdef Event event
        k = min(k, self.nodes)
        if k <= 0:
            return 0
        self._apply(now)
        if c.tree == NULL:
            c.tree = <Match*> reallocate(NULL, self.nodes * sizeof(Match))
            for at in range(self.nodes):
                c.tree[at].until = OUTDATED
        nodes[0] = self._winner(c, 1, now, clock)
        if k == 1:
            return 1
        # The next node won a subtree that is a sibling of the path of a node found before.
        self.n_candidates, event.slot = 0, 1
        for n in range(1, k):
            at = self.nodes + nodes[n - 1]
            while at != event.slot:
                self._add_candidate(c, at ^ 1, now, clock)
                at //= 2
            event = self.candidate[0]
            heap_pop(self.candidate, self.n_candidates)
            self.n_candidates -= 1
            nodes[n] = event.sequence
        return k

    cdef int _add_candidate(self, Column* column, Py_ssize_t at, long long now, long long clock) except -1:
        cdef Py_ssize_t node = self._winner(column, at, now, clock)
        cdef Event new
        if self.n_candidates == self.candidate_capacity:
            self.candidate = <Event*> reallocate(self.candidate, (2 * self.n_candidates + 16) * sizeof(Event))
            self.candidate_capacity = 2 * self.n_candidates + 16
        new.time, new.sequence, new.slot = _ordered(self._shown(column, node, now)), node, <int> at
        heap_push(self.candidate, self.n_candidates, new)
        self.n_candidates += 1
        return 0

    cdef Py_ssize_t _winner(self, Column* column, Py_ssize_t at, long long now, long long clock) noexcept:
        """Return the node with the least number below `at`, and repair the tree there."""
        cdef Match* match
        cdef Py_ssize_t first, second, child
        cdef double least, other
        if at >= self.nodes:
            return at - self.nodes
        match = &column.tree[at]
        if match.until >= clock:
            return match.winner
        first, second = self._winner(column, 2 * at, now, clock), self._winner(column, 2 * at + 1, now, clock)
        least, other = self._shown(column, first, now), self._shown(column, second, now)
        if other < least or (other == least and second < first):
            first, second, least, other = second, first, other, least
        match.winner = <int> first
        match.until = self._certain_until(_current(column, first), _current(column, second), least, other,
                                          now, clock)
        for child in range(2 * at, min(2 * at + 2, self.nodes)):
            match.until = min(match.until, column.tree[child].until)
        return first

    cdef long long _clock(self, long long now) noexcept:
        """Return the instant as of which falling numbers are shown, or `now` if it differs between nodes, ns."""
        return now if self.refresh == INDIVIDUAL else self._shown_as_of(0, now)

    cdef long long _certain_until(self, const Publication* first, const Publication* second, double least,
                                  double other, long long now, long long clock) noexcept:
        """Return an instant of `_clock` until which the shown number of `first` certainly precedes the number of `second`.

        At present they are `least` and `other`.  No number rises, so the order changes only if `second` falls.
        """
        cdef bint both_fall = first.falling and least > 0.0
        cdef double slack, rate = second.factor
        cdef long long start = clock, until
        if not second.falling or other <= 0.0:
            return NEVER
        slack = other - least - ROUNDING * (second.value * second.factor
                                            + (first.value * first.factor if both_fall else fabs(least)))
        if self.refresh == INDIVIDUAL:  # `second` falls in steps, and stays above the line through its last step
            start = self._shown_as_of(second.node, now)
            return max(clock, start + self.age - 1, _almost(start, slack / rate))
        if both_fall:
            rate -= first.factor
        if rate > 0.0:
            until = _almost(clock, slack / rate)
        elif slack > 0.0 or (first.value == second.value and first.since == second.since
                             and first.factor == second.factor):
            until = NEVER
        else:                           # rounding may change their order at any time
            until = clock
        if second.node < first.node:    # `second` wins as soon as both have reached 0
            until = min(until, _almost(second.since, second.value))
        return max(clock, until)

    # -- checkpoints ----------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since construction, as described in `gridcore.common.state`."""
        return read_only(self._entries())

    def setstate(self, state):
        """Restore a state of `getstate` of a board with the same arguments; raise ValueError if it is invalid."""
        self._set(state)

    cdef dict _entries(self):
        """Return the entries of a state: numbers that are shown, changed by additions, and waiting, by column and node.

        Each number has a value and a factor; that of a changed one is 1.
        """
        cdef Py_ssize_t k, n = pending_count(&self.pending), n_shown = self.n_columns * self.nodes
        cdef const Publication* publication
        events = np.empty((n, 3), np.int64)
        cdef long long[:, ::1] rows = events
        pending_read(&self.pending, rows)
        events[:] = events[np.argsort(events[:, 1], kind="stable")]
        shown_rows, shown_numbers = np.empty((n_shown, 2), np.int64), np.empty((n_shown, 2))
        waiting_rows, waiting_numbers = np.empty((n, 7), np.int64), np.empty((n, 2))
        cdef long long[:, ::1] shown = shown_rows, waiting = waiting_rows
        cdef double[:, ::1] shown_values = shown_numbers, waiting_values = waiting_numbers
        changes, values = [], []
        for k in range(n_shown):
            publication = &self.columns[k // self.nodes].at[k % self.nodes]
            shown[k, 0], shown[k, 1] = publication.since, publication.falling
            shown_values[k, 0], shown_values[k, 1] = publication.value, publication.factor
            if publication.changed:
                publication = &self.columns[k // self.nodes].changes[k % self.nodes]
                changes.append((publication.since, publication.node, publication.column))
                values.append(publication.value)
        for k in range(n):
            publication = &self.waiting[rows[k, 2]]
            waiting[k, 0], waiting[k, 1], waiting[k, 2] = publication.since, publication.node, publication.column
            waiting[k, 3], waiting[k, 4] = publication.falling, publication.changed
            waiting[k, 5], waiting[k, 6] = rows[k, 0], rows[k, 1]
            waiting_values[k, 0], waiting_values[k, 1] = publication.value, publication.factor
        return {"published": self.n_publications, "shown": shown_rows, "shown_values": shown_numbers,
                "changed": np.array(changes, np.int64).reshape(-1, 3), "changed_values": np.array(values, np.float64),
                "waiting": waiting_rows, "waiting_values": waiting_numbers,
                "errors": int(self.errors.drawn), "additions": self.n_additions, "refreshes": self.n_refreshes,
                "refreshed_at": self.refreshed_at}

    cdef int _set(self, state) except -1:
        """Restore a state; raise ValueError if it is invalid."""
        cdef Py_ssize_t k, n_shown = self.n_columns * self.nodes
        cdef Publication new
        cdef Column* column
        entries = read(state, _STATE, nodes=self.nodes, columns=self.n_columns, numbers=n_shown)
        cdef const long long[:, ::1] shown = entries["shown"], changes = entries["changed"], waiting = entries["waiting"]
        cdef const double[:, ::1] shown_values = entries["shown_values"], waiting_values = entries["waiting_values"]
        cdef const double[::1] changed_values = entries["changed_values"]
        pending_clear(&self.pending)
        self.n_unused = self.capacity = 0
        self.n_publications, self.errors.drawn = entries["published"], entries["errors"]
        self.n_additions, self.n_refreshes = entries["additions"], entries["refreshes"]
        self.refreshed_at = entries["refreshed_at"]
        for k in range(n_shown):
            column = &self.columns[k // self.nodes]
            new.node, new.column, new.changed = <int> (k % self.nodes), <short> (k // self.nodes), False
            new.since, new.falling = shown[k, 0], shown[k, 1]
            new.value, new.factor = shown_values[k, 0], shown_values[k, 1]
            column.n_falling += <int> new.falling - <int> column.at[new.node].falling
            column.at[new.node] = new
            column.values[new.node] = new.value * new.factor
        for k in range(changes.shape[0]):
            column = &self.columns[changes[k, 2]]
            if column.changes == NULL:
                column.changes = <Publication*> reallocate(NULL, self.nodes * sizeof(Publication))
            column.at[changes[k, 1]].changed = True
            new = column.at[changes[k, 1]]
            new.value, new.factor, new.since = changed_values[k], 1.0, changes[k, 0]
            column.changes[new.node] = new
            column.values[new.node] = new.value
        for k in range(waiting.shape[0]):
            new.since, new.node, new.column = waiting[k, 0], <int> waiting[k, 1], <short> waiting[k, 2]
            new.falling, new.changed = waiting[k, 3], waiting[k, 4]
            new.value, new.factor = waiting_values[k, 0], waiting_values[k, 1]
            self._add(&new, waiting[k, 5], waiting[k, 6])
        for k in range(self.n_columns):
            self.columns[k].read_at = -1
            free(self.columns[k].tree)  # its results may be from a later time
            self.columns[k].tree = NULL
        return 0


cdef inline const Publication* _current(const Column* column, Py_ssize_t node) noexcept:
    """Return the shown number of a node, with the additions since it was shown."""
    return &column.changes[node] if column.at[node].changed else &column.at[node]


cdef long long _almost(long long start, double seconds) noexcept:
    """Return an instant (ns) shortly before `start` + `seconds`."""
    return later_by(start, seconds * (1.0 - 1e-13)) - 1 if seconds > 0.0 else start - 1


cdef long long _ordered(double value) noexcept:
    """Return an integer for `value`, so that integers are in the order of their numbers."""
    cdef long long bits
    value += 0.0                        # -0.0 becomes 0.0
    memcpy(&bits, &value, sizeof(double))
    return bits if bits >= 0 else bits ^ NEVER
