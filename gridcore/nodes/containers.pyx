"""Containers of node programs, whose memory grows and shrinks with their contents: queues, heaps, maps and sets.

The rows of interpreted and compiled nodes are in the same memory, `gridcore.nodes.rows`.
"""

cimport cython
from libc.string cimport memcpy, memset

from gridcore.common.scalars cimport integer, real
from gridcore.nodes.node_memory cimport MemoryObject, RecordMemory
from gridcore.nodes.rows cimport (
    Head, block_rows, heap_at, heap_pop, heap_push, map_at, map_discard, map_find, map_get, map_next, map_pop,
    map_put, map_remove, iteration_error, queue_at, queue_delete, queue_pop, queue_push, rows_clear,
)

import numpy as np

from gridcore.common.state import ArrayEntry, read

__all__ = [
    "Container", "Fifo", "Heap", "IntMap", "IntSet", "KeyedContainer", "RowType", "rebuild",
]

cdef enum:
    MAX_COLUMNS = 16
cdef dict row_types = {}

#: The rows of the containers of all nodes, node by node.
_STATE = {
    "rows": ArrayEntry(np.int64, (None, "words")), "counts": ArrayEntry(np.int64, ("nodes",), total="rows"),
}


@cython.final
@cython.auto_pickle(False)
cdef class RowType:
    """The columns of the rows of a container; containers with equal columns share them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.column_names

    @property
    def kinds(self) -> tuple[type, ...]:
        """The type of each column, ``int`` or ``float``."""
        return self.column_types

    def __init__(self, names: tuple[str, ...], kinds: tuple[type, ...], bint has_key):
        cdef Py_ssize_t k
        self.column_names, self.column_types, self.has_key = names, kinds, has_key
        self.words = len(names) + has_key
        for k in range(len(names)):
            if kinds[k] is float:
                self.reals |= 1LL << (k + has_key)

    cdef object _value(self, const long long* row, Py_ssize_t word):
        return (<const double*> row)[word] if self.reals >> word & 1 else row[word]

    cdef object _values(self, const long long* row):
        """Return the values of a row without its key: the value itself if there is one column, else a tuple."""
        cdef Py_ssize_t k, first = self.has_key
        if self.words == first + 1:
            return self._value(row, first)
        return tuple([self._value(row, k) for k in range(first, self.words)])

    cdef int _fill(self, long long* row, tuple values, str call) except -1:
        """Write values to a row, after its key."""
        cdef Py_ssize_t k
        cdef object value
        if len(values) != len(self.column_names):
            names = ", ".join(self.column_names)
            raise TypeError(f"{call} requires {len(self.column_names)} values ({names}), got {len(values)}")
        for k in range(len(values)):
            value = values[k]
            if self.column_types[k] is float:
                (<double*> row)[k + self.has_key] = value if type(value) is float else real(value, self.column_names[k])
            else:
                row[k + self.has_key] = integer(value, self.column_names[k])
        return 0


cdef RowType row_type_of(dict columns, str owner, bint has_key):
    """Return the `RowType` for the keyword arguments of a container."""
    key = (tuple(columns.items()), has_key)
    try:
        return row_types[key]
    except (KeyError, TypeError):       # TypeError: the kind is not hashable
        pass
    for name, kind in columns.items():
        if kind is not int and kind is not float:
            raise TypeError(f"column {name} of {owner} must be int or float, got {kind!r}")
    if not (1 <= len(columns) <= MAX_COLUMNS or owner == "IntSet"):
        raise TypeError(f"{owner} must have 1..{MAX_COLUMNS} columns, such as {owner}(application=int), got {len(columns)}")
    made = row_types[key] = RowType(tuple(columns), tuple(columns.values()), has_key)
    return made


cdef class Container(MemoryObject):
    """Base class of the containers.

    Rows are copied in and out: nothing refers into a container.
    """

    @property
    def words(self) -> int:
        """The number of words of a `Head`."""
        return sizeof(Head) // 8

    def __dealloc__(self):
        rows_clear(&self.head)

    def __bool__(self):
        return self.head.n > 0

    def __iter__(self) -> Iterator[Any]:
        return ContainerIterator(self)

    def __reduce__(self):
        return rebuild, (type(self), self._columns(), self.rows())

    def __sizeof__(self):
        return object.__sizeof__(self) + (0 if self.head.block == NULL else 64 << self.head.block.kind)

    def __repr__(self):
        columns = ", ".join(f"{name}={kind.__name__}" for name, kind in self._columns().items())
        return f"{type(self).__name__}({columns})[{', '.join(self._texts())}]"

    def clear(self):
        """Remove all rows."""
        rows_clear(&self.head)

    def rows(self) -> Integers:
        """Return the rows: int64[rows, words], floats as their bits; those of a map begin with the key."""
        cdef Py_ssize_t k
        cdef long long at = -1
        rows = np.empty((len(self), self.columns.words), np.int64)
        cdef long long[:, ::1] out = rows
        for k in range(out.shape[0]):
            at = self._next(at + 1)
            memcpy(&out[k, 0], self._row(at), 8 * self.columns.words)
        return rows

    cdef list _texts(self):
        return [repr(row) for row in self]

    cdef long long _next(self, long long at) noexcept:
        """Return the number of the first row in use from number `at` on; -1 if there is none."""
        return at if at < self.head.n else -1

    cdef const long long* _row(self, long long at) except NULL:
        """Return row number `at`, which is in use."""
        return block_rows(self.head.block) + at * self.columns.words

    cdef object _item(self, const long long* row):
        """Return what iteration yields for a row."""
        return self.columns._values(row)

    cdef int _append(self, const long long* row) except -1:
        """Add a row of `rows`."""
        raise NotImplementedError

    cdef int _copy_to(self, void* place) except -1:
        cdef Container copy
        if self.head.n:
            copy = rebuild(type(self), self._columns(), self.rows())
            copy._move_to(place)
        return 0

    cdef int _move_to(self, void* place) except -1:
        """Make an empty head in a record the head of this container, which is then empty."""
        (<Head*> place)[0] = self.head
        memset(&self.head, 0, sizeof(Head))
        return 0

    cdef int _clear_at(self, void* place) except -1:
        return rows_clear(<Head*> place)

    cdef MemoryObject _copy_of(self, void* place):
        return rebuild(type(self), self._columns(), self._rows_at(place))

    cdef _rows_at(self, void* place):
        """Return the rows of a container with these columns, whose head is in a record."""
        cdef Container view = rebuild(type(self), self._columns(), None)
        view.head = (<Head*> place)[0]
        try:
            return view.rows()
        finally:
            memset(&view.head, 0, sizeof(Head))

    cdef dict _state_of(self, RecordMemory memory, Py_ssize_t offset):
        """Return ``counts``, int64[nodes], and ``rows``, int64[rows, words], of all nodes."""
        parts = [self._rows_at(memory._place(node, offset)) for node in range(memory.nodes)]
        return {"counts": np.array([len(part) for part in parts], np.int64),
                "rows": np.concatenate([np.empty((0, self.columns.words), np.int64), *parts])}

    cdef int _set_state_of(self, RecordMemory memory, Py_ssize_t offset, state) except -1:
        cdef Py_ssize_t node, first = 0
        cdef Container container
        entries = read(state, _STATE, nodes=memory.nodes, words=self.columns.words)
        counts, rows = entries["counts"], entries["rows"]
        for node in range(memory.nodes):
            rows_clear(<Head*> memory._place(node, offset))
            if counts[node]:
                container = rebuild(type(self), self._columns(), rows[first : first + counts[node]])
                container._move_to(memory._place(node, offset))
            first += counts[node]
        return 0

    def _columns(self) -> dict[str, type]:
        return dict(zip(self.columns.names, self.columns.kinds))


def rebuild(kind: type[Container], columns: dict[str, type], rows: Integers | None) -> Container:
    """Return a container of a kind with these columns and the rows that `Container.rows` returned; None for no rows.

    Raises ValueError for other rows.
    """
    cdef Container container = kind(**columns)
    cdef const long long[:, ::1] source
    cdef Py_ssize_t k
    if rows is None or not len(rows):
        return container
    source = np.ascontiguousarray(rows, np.int64)
    if source.shape[1] != container.columns.words:
        raise ValueError(f"rows must have {container.columns.words} words each, got {source.shape[1]}")
    if container.columns.has_key and (np.asarray(source)[:, 0] == -(2**63)).any():
        raise ValueError("keys must be above -2**63, got -2**63")
    for k in range(source.shape[0]):
        container._append(&source[k, 0])
    return container


@cython.final
@cython.auto_pickle(False)
cdef class ContainerIterator:
    """Iterator over the rows of a container, which must not change meanwhile.

    Parameters
    ----------
    has_pairs
        Whether it yields the key and the value of each row, of a map.
    """
    cdef Container container
    cdef Head head                      # head of the container when the iteration began
    cdef long long at
    cdef bint has_pairs

    def __init__(self, Container container, bint has_pairs=False):
        self.container, self.head, self.at, self.has_pairs = container, container.head, 0, has_pairs

    def __iter__(self):
        return self

    def __next__(self):
        cdef Container container = self.container
        cdef const long long* row
        if not (self.head.block == container.head.block and self.head.first == container.head.first
                and self.head.n == container.head.n):
            iteration_error()
        self.at = container._next(self.at)
        if self.at < 0:
            self.at = self.head.n
            raise StopIteration
        row = container._row(self.at)
        self.at += 1
        return (row[0], container.columns._values(row)) if self.has_pairs else container._item(row)


@cython.final
@cython.no_gc
@cython.auto_pickle(False)
cdef class Fifo(Container):
    """Queue of rows of numbers, first in, first out.

    Parameters
    ----------
    **columns
        Name -> ``int`` or ``float``: the values of a row.

    Examples
    --------
    >>> queue = Fifo(application=int, tasks=int)
    >>> queue.push(3, 10)
    >>> queue[0] = 3, queue[0][1] - 1
    >>> queue[0], len(queue), queue.pop()
    ((3, 9), 1, (3, 9))
    """

    def __cinit__(self, **columns: type):
        self.columns = row_type_of(columns, "Fifo", False)

    def __len__(self) -> int:
        return self.head.n

    def push(self, *row: float):
        """Append a row, a value for each column.

        Raises
        ------
        TypeError
            If the number of values or the type of a value is wrong.
        OverflowError
            If a whole number needs more than 64 bits.
        """
        cdef long long[MAX_COLUMNS] words
        self.columns._fill(words, row, "Fifo.push")
        memcpy(queue_push(&self.head, self.columns.words), words, 8 * self.columns.words)

    def pop(self) -> Any:
        """Remove the first row and return it: a number if there is one column, else a tuple.

        Raises IndexError if the queue is empty.
        """
        cdef long long[MAX_COLUMNS] words
        queue_pop(&self.head, words, self.columns.words)
        return self.columns._values(words)

    def __getitem__(self, k: int) -> Any:
        return self.columns._values(queue_at(&self.head, integer(k, "index"), self.columns.words))

    def __setitem__(self, k: int, row: Any) -> None:
        cdef long long[MAX_COLUMNS] words
        self.columns._fill(words, row if isinstance(row, tuple) else (row,), "a row of a Fifo")
        memcpy(queue_at(&self.head, integer(k, "index"), self.columns.words), words, 8 * self.columns.words)

    def __delitem__(self, k: int) -> None:
        queue_delete(&self.head, integer(k, "index"), self.columns.words)

    cdef const long long* _row(self, long long at) except NULL:
        return queue_at(&self.head, at, self.columns.words)

    cdef int _append(self, const long long* row) except -1:
        memcpy(queue_push(&self.head, self.columns.words), row, 8 * self.columns.words)
        return 0


@cython.final
@cython.no_gc
@cython.auto_pickle(False)
cdef class Heap(Container):
    """Priority queue of rows of numbers: the least row first, compared column by column.

    Parameters
    ----------
    **columns
        Name -> ``int`` or ``float``: the values of a row.

    Examples
    --------
    >>> heap = Heap(time=float, node=int)
    >>> heap.push(2.0, 7); heap.push(1.0, 9)
    >>> heap[0], heap.pop(), len(heap)
    ((1.0, 9), (1.0, 9), 1)
    """

    def __cinit__(self, **columns: type):
        self.columns = row_type_of(columns, "Heap", False)

    def __len__(self) -> int:
        return self.head.n

    def __iter__(self) -> NoReturn:
        raise TypeError("a Heap does not support iteration: its rows are not in order")

    def push(self, *row: float):
        """Add a row, a value for each column.

        Raises
        ------
        TypeError
            If the number of values or the type of a value is wrong.
        ValueError
            If a value is NaN.
        OverflowError
            If a whole number needs more than 64 bits.
        """
        cdef long long[MAX_COLUMNS] words
        self.columns._fill(words, row, "Heap.push")
        self._append(words)

    def pop(self) -> Any:
        """Remove the least row and return it: a number if there is one column, else a tuple.

        Raises IndexError if the heap is empty.
        """
        cdef long long[MAX_COLUMNS] words
        heap_pop(&self.head, words, self.columns.words, self.columns.reals)
        return self.columns._values(words)

    def __getitem__(self, k: int) -> Any:
        return self.columns._values(heap_at(&self.head, integer(k, "index")))

    cdef list _texts(self):
        return [repr(row) for row in sorted(self.columns._values(self._row(k)) for k in range(self.head.n))]

    cdef int _append(self, const long long* row) except -1:
        return heap_push(&self.head, row, self.columns.words, self.columns.reals)


cdef class KeyedContainer(Container):
    """Base class of containers with keys, in the order of insertion."""

    def __len__(self) -> int:
        return self.head.first

    def __contains__(self, key: object) -> bool:
        return map_find(&self.head, integer(key, "key"), self.columns.words) != NULL

    cdef long long _next(self, long long at) noexcept:
        return map_next(&self.head, at, self.columns.words)

    cdef object _item(self, const long long* row):
        return row[0]

    cdef object _key_at(self, long long k):
        """Return key number `k` in the order of insertion, counted from the end if it is negative."""
        return map_at(&self.head, k, self.columns.words)[0]

    cdef int _append(self, const long long* row) except -1:
        memcpy(map_put(&self.head, row[0], self.columns.words), row, 8 * self.columns.words)
        return 0


@cython.final
@cython.no_gc
@cython.auto_pickle(False)
cdef class IntSet(KeyedContainer):
    """Set of whole numbers above -2**63, in the order of insertion.

    Examples
    --------
    >>> idle = IntSet()
    >>> idle.add(7); idle.add(3); idle.add(7)
    >>> 3 in idle, list(idle), idle.pop()
    (True, [7, 3], 7)
    """

    def __cinit__(self, **columns: type):
        if columns:                     # without parameters, Cython would ignore all arguments
            raise TypeError(f"IntSet does not support columns, got {', '.join(columns)}")
        self.columns = row_type_of(columns, "IntSet", True)

    def add(self, key: int):
        """Add a number at the end, unless the set has it already."""
        map_put(&self.head, integer(key, "key"), 1)

    def discard(self, key: int):
        """Remove a number if the set has it."""
        map_discard(&self.head, integer(key, "key"), 1)

    def remove(self, key: int):
        """Remove a number; raise KeyError if the set does not have it."""
        map_remove(&self.head, integer(key, "key"), 1)

    def pop(self) -> int:
        """Remove the number that was added first and return it; raise KeyError if the set is empty."""
        cdef long long[1] words
        map_pop(&self.head, words, 1)
        return words[0]

    def __getitem__(self, k: int) -> int:
        return self._key_at(integer(k, "index"))


_NO_DEFAULT = object()


@cython.final
@cython.no_gc
@cython.auto_pickle(False)
cdef class IntMap(KeyedContainer):
    """Map from whole numbers above -2**63 to numbers or rows of numbers, in the order of insertion.

    Parameters
    ----------
    **columns
        Name -> ``int`` or ``float``: the values of a key.  With one column the value is a number, else a tuple.

    Examples
    --------
    >>> debts = IntMap(tasks=int)
    >>> debts[7] = 10
    >>> debts[7], debts.get(3, 0), list(debts), debts.pop(7)
    (10, 0, [7], 10)
    >>> debts[3] = 2
    >>> for node, tasks in debts.items():
    ...     print(node, tasks)
    3 2
    """

    def __cinit__(self, **columns: type):
        self.columns = row_type_of(columns, "IntMap", True)

    def __getitem__(self, key: int) -> Any:
        return self.columns._values(map_get(&self.head, integer(key, "key"), self.columns.words))

    def __setitem__(self, key: int, value: Any) -> None:
        cdef long long[MAX_COLUMNS + 1] words
        cdef bint is_row = isinstance(value, tuple)
        self.columns._fill(words, value if is_row else (value,), "a value of an IntMap")
        words[0] = integer(key, "key")
        self._append(words)

    def __delitem__(self, key: int) -> None:
        map_remove(&self.head, integer(key, "key"), self.columns.words)

    def items(self) -> Iterator[tuple[int, Any]]:
        """Return an iterator over pairs of a key and its value, during which the map must not change."""
        return ContainerIterator(self, True)

    def get(self, key: int, default: Any) -> Any:
        """Return the value of a key; `default` if there is none."""
        cdef const long long* row = map_find(&self.head, integer(key, "key"), self.columns.words)
        return default if row == NULL else self.columns._values(row)

    def pop(self, key: int, default: Any = _NO_DEFAULT) -> Any:
        """Remove a key and return its value; for a missing key, return `default`, or raise KeyError without one."""
        if default is not _NO_DEFAULT and key not in self:
            return default
        value = self[key]
        del self[key]
        return value

    cdef list _texts(self):
        return [f"{key}: {self[key]!r}" for key in self]
