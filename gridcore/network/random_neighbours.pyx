"""Random neighbours of each node, drawn as numpy's `Generator.choice` without replacement draws them.

The numbers are drawn here, so that they do not depend on the version of numpy, and since a call of numpy for each node
takes longer than its draw.  The bit generator remains numpy's.
The reference implementation is `tests.reference.random_neighbours`.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, qsort

from gridcore.common.memory cimport reallocate

import numpy as np
from numpy.typing import NDArray

__all__ = ["random_neighbours"]

# numpy/random/bitgen.h
ctypedef struct BitGenerator:
    void* state
    uint64_t (*next_uint64)(void*) noexcept nogil
    uint32_t (*next_uint32)(void*) noexcept nogil
    double (*next_double)(void*) noexcept nogil
    uint64_t (*next_raw)(void*) noexcept nogil

cdef enum:
    SHUFFLE_FROM = 10_000               # populations above this may be shuffled
    SHUFFLE_PART = 50                   # they are if more than one in this many numbers is drawn
    MAX_POPULATION = 0x7FFFFFFF

cdef long long EMPTY = -1               # an unused entry of the set of drawn numbers


cdef inline long long number_up_to(BitGenerator* bits, uint32_t last) noexcept nogil:
    """Return a number in 0..last, by the method of Lemire (2019)."""
    cdef uint32_t count = last + 1, threshold
    cdef uint64_t product
    if last == 0:
        return 0
    product = <uint64_t> bits.next_uint32(bits.state) * count
    if <uint32_t> product < count:
        threshold = <uint32_t> -count % count
        while <uint32_t> product < threshold:
            product = <uint64_t> bits.next_uint32(bits.state) * count
    return <long long> (product >> 32)


cdef inline void shuffle(BitGenerator* bits, long long* numbers, Py_ssize_t count, Py_ssize_t first) noexcept nogil:
    """Shuffle the numbers from place `first` on, from the last one backwards."""
    cdef Py_ssize_t k, j
    for k in range(count - 1, first - 1, -1):
        j = number_up_to(bits, <uint32_t> k)
        numbers[j], numbers[k] = numbers[k], numbers[j]


cdef inline void draw(BitGenerator* bits, long long* drawn, Py_ssize_t population, Py_ssize_t count, long long* places,
                      uint64_t mask) noexcept nogil:
    """Draw `count` of the numbers 0..population - 1; `places` has mask + 1 entries, a set by open addressing."""
    cdef Py_ssize_t j
    cdef uint64_t place
    cdef long long number
    for place in range(mask + 1):
        places[place] = EMPTY
    for j in range(population - count, population):  # Floyd's method
        number = number_up_to(bits, <uint32_t> j)
        place = number & mask
        while places[place] != EMPTY and places[place] != number:
            place = (place + 1) & mask
        if places[place] != EMPTY:
            number = j
            place = number & mask
            while places[place] != EMPTY:
                place = (place + 1) & mask
        places[place] = number
        drawn[j - population + count] = number
    shuffle(bits, drawn, count, 1)


cdef int ascending(const void* a, const void* b) noexcept nogil:
    cdef long long x = (<const long long*> a)[0], y = (<const long long*> b)[0]
    return (x > y) - (x < y)


def random_neighbours(nodes: int, degree: int, stream: np.random.Generator, first: int, end: int) -> NDArray[np.int64]:
    """Draw neighbours of each node among the nodes `first` to `end` - 1, uniformly without replacement.

    Parameters
    ----------
    nodes
        Number of nodes.
    degree
        Number of neighbours of each node, at most the number of other nodes among which they are drawn.
    stream
        Source of the random bits; must not be used by another thread meanwhile.

    Returns
    -------
    int64[nodes, degree]
        The neighbours of each node, ascending; the node itself is not among them.

    Raises
    ------
    TypeError
        If `stream` is not a generator of numpy.
    ValueError
        If a number is out of range.
    """
    if not isinstance(stream, np.random.Generator):
        raise TypeError(f"stream must be a numpy.random.Generator, got {stream!r}")
    cdef Py_ssize_t n = nodes, count = degree, low = first, high = end, u, k, population
    if not 0 <= low < high <= MAX_POPULATION:
        raise ValueError(f"first and end must be in 0 <= first < end <= {MAX_POPULATION}, got {first} and {end}")
    if not 0 <= n <= MAX_POPULATION:
        raise ValueError(f"nodes must be in 0..{MAX_POPULATION}, got {nodes}")
    if not 0 <= count < high - low:
        raise ValueError(f"degree must be in 0..{high - low - 1}, got {degree}")
    cdef object generator = stream.bit_generator
    cdef BitGenerator* bits = <BitGenerator*> PyCapsule_GetPointer(generator.capsule, "BitGenerator")
    cdef long long[:, ::1] neighbours = np.empty((n, count), np.int64)
    cdef long long* places = NULL
    cdef long long* row
    cdef uint64_t mask = 1
    if n == 0 or count == 0:
        return np.asarray(neighbours)
    while mask < <uint64_t> (1.2 * count):
        mask = 2 * mask + 1
    cdef Py_ssize_t size = mask + 1
    if high - low > SHUFFLE_FROM and count > (high - low - 1) // SHUFFLE_PART:
        size = max(size, high - low)
    places = <long long*> reallocate(NULL, size * sizeof(long long))
    try:
        with generator.lock, nogil:
            for u in range(n):
                row = &neighbours[u, 0]
                population = high - low - (low <= u < high)
                if population > SHUFFLE_FROM and count > population // SHUFFLE_PART:
                    for k in range(population):
                        places[k] = k
                    shuffle(bits, places, population, max(population - count, 1))
                    for k in range(count):
                        row[k] = places[population - count + k]
                else:
                    draw(bits, row, population, count, places, mask)
                qsort(row, count, sizeof(long long), ascending)
                for k in range(count):
                    row[k] += low + (low <= u < high and row[k] + low >= u)
    finally:
        free(places)
    return np.asarray(neighbours)
