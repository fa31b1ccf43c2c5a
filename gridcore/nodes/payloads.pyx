"""The arrays in messages: kept here until their message has arrived, which has their numbers."""

cimport cython

from gridcore.nodes.state import read_payloads

__all__ = ["Payloads"]


@cython.final
@cython.auto_pickle(False)
cdef class Payloads:
    """Arrays of messages that have been sent and have not arrived."""

    def __cinit__(self):
        self.arrays, self.unused = [], []

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
        """Return an array that has been kept, and keep it no longer."""
        # a state that was read from a file may name any
        if not 0 <= number < len(self.arrays) or self.arrays[number] is None:
            raise ValueError(f"a message has the array {number}, which is not there")
        array = self.arrays[number]
        self.arrays[number] = None
        self.unused.append(number)
        return array

    cdef int _read(self, state) except -1:
        """Keep the arrays of a state, see `gridcore.nodes.state.payload_entries`."""
        self.arrays, self.unused = read_payloads(state)
        return 0
