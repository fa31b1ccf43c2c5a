"""The arrays in messages, kept by number until their message has arrived."""

cimport cython

from gridcore.nodes.state import payload_entries, read_payloads

__all__ = ["Payloads"]


@cython.final
@cython.auto_pickle(False)
cdef class Payloads:
    """The arrays of messages under way."""

    def __cinit__(self):
        self.arrays, self.unused = [], []

    def store(self, array: NDArray[Any]) -> int:
        """Keep an array until its message arrives or is dropped, and return its number."""
        return self._store(array)

    def fetch(self, number: int) -> NDArray[Any]:
        """Remove and return an array; raise ValueError if there is none of this number."""
        return self._fetch(number)

    def getstate(self) -> dict[str, Any]:
        """Return the arrays as entries of a state."""
        return payload_entries(self.arrays)

    def setstate(self, state):
        """Restore a state of `getstate`; raise ValueError if it is invalid."""
        self._read(state)

    cdef long long _store(self, array) except -1:
        """Keep an array until its message arrives or is dropped, and return its number."""
        cdef long long number
        if self.unused:
            number = self.unused.pop()
            self.arrays[number] = array
            return number
        self.arrays.append(array)
        return len(self.arrays) - 1

    cdef object _fetch(self, long long number):
        """Remove and return an array."""
        # a message in a state from a file may have any number
        if not 0 <= number < len(self.arrays) or self.arrays[number] is None:
            raise ValueError(f"a message must refer to a stored array, got array {number}")
        array = self.arrays[number]
        self.arrays[number] = None
        self.unused.append(number)
        return array

    cdef int _read(self, state) except -1:
        """Read the arrays of a state from the entries that `gridcore.nodes.state.payload_entries` returned."""
        self.arrays, self.unused = read_payloads(state)
        return 0
