"""The random stream of a node: counter-based, so that its state is the number of draws.

The methods have the names and arguments of those of `numpy.random.Generator`; their numbers differ.  The stream of a
key is the sequence of SplitMix64 (Steele, Lea and Flood 2014) that starts at the key; the keys of nodes are hashes
of the seed and the node.  The reference implementation is `tests.reference.random_stream`.
"""

from libc.math cimport INFINITY, cos, isfinite, log1p, sqrt

cimport cython

from gridcore.nodes.containers cimport IntMap
from gridcore.nodes.random_stream cimport stream_bits, stream_key

import numpy as np

from gridcore.common.state import NumberEntry, read

__all__ = ["RandomStream"]

cdef double _TWO_PI = 6.283185307179586


cdef int _check_finite(double value, str name, double low) except -1:
    if not isfinite(value) or value < low:
        rule = "finite" if low == -INFINITY else f"finite and at least {low:g}"
        raise ValueError(f"{name} must be {rule}, got {value!r}")
    return 0


cdef int _check_parameters(int kind, double factor, double shift) except -1:
    """Check the parameters of an exponential, a normal or a uniform distribution."""
    if kind == 3:
        _check_finite(shift, "low", -INFINITY)
        return _check_finite(factor, "high", -INFINITY)
    if kind == 2:
        _check_finite(shift, "loc", -INFINITY)
    if kind > 0:
        _check_finite(factor, "scale", 0.0)
    return 0


cdef int _check_limits(long long low, long long high) except -1:
    if low >= high:
        raise ValueError(f"low must be below high, got {low} and {high}")
    return 0


@cython.auto_pickle(False)
cdef class RandomStream:
    """Random numbers of one node.

    Parameters
    ----------
    seed
        0..2**64 - 1, the seed of all nodes.
    node
        The number of the node.
    drawn
        The number of 64-bit draws so far.
    """

    def __cinit__(self, unsigned long long seed, unsigned long long node, unsigned long long drawn=0):
        self.key, self.drawn = stream_key(seed, node), drawn

    def getstate(self):
        """Return the changes since construction, as described in `gridcore.common.state`."""
        return {"drawn": int(self.drawn)}

    def setstate(self, state):
        """Restore a state of `getstate` of a stream with the same arguments; raise ValueError if it is invalid."""
        self.drawn = read(state, {"drawn": NumberEntry()})["drawn"]

    cdef unsigned long long _bits(self) noexcept:
        cdef unsigned long long bits = stream_bits(self.key, self.drawn)
        self.drawn += 1
        return bits

    cdef double _random(self) noexcept:
        return (self._bits() >> 11) * (1.0 / 9007199254740992.0)

    cdef double _normal(self) noexcept:
        """Draw a standard normal number, one of the two of the transform of Box and Muller (1958)."""
        cdef double radius = sqrt(-2.0 * log1p(-self._random()))
        return radius * cos(_TWO_PI * self._random())

    cdef unsigned long long _integer_below(self, unsigned long long count) noexcept:
        """Draw a whole number in 0..count - 1 by rejection, from as few bits as suffice."""
        cdef unsigned long long mask = count - 1, bits
        mask |= mask >> 1
        mask |= mask >> 2
        mask |= mask >> 4
        mask |= mask >> 8
        mask |= mask >> 16
        mask |= mask >> 32
        while True:
            bits = self._bits() & mask
            if bits < count:
                return bits

    def random(self, size=None):
        """Draw a number uniformly from [0, 1), or a float64 array of shape `size`."""
        return self._floats(size, 0, 1.0, 0.0)

    def uniform(self, double low=0.0, double high=1.0, size=None):
        """Draw a number uniformly from [`low`, `high`), or a float64 array of shape `size`.

        Raises
        ------
        ValueError
            If a limit is not finite.
        """
        return self._floats(size, 3, high, low)

    def exponential(self, double scale=1.0, size=None):
        """Draw an exponential number with mean `scale`, or a float64 array of shape `size`.

        Raises
        ------
        ValueError
            If `scale` is negative or not finite.
        """
        return self._floats(size, 1, scale, 0.0)

    def normal(self, double loc=0.0, double scale=1.0, size=None):
        """Draw a normal number with mean `loc` and standard deviation `scale`, or a float64 array of shape `size`.

        Raises
        ------
        ValueError
            If `scale` is negative, or a parameter is not finite.
        """
        return self._floats(size, 2, scale, loc)

    cdef object _floats(self, size, int kind, double factor, double shift):
        cdef double[::1] out
        cdef Py_ssize_t k
        if size is None:
            return self._variate(kind, factor, shift)
        _check_parameters(kind, factor, shift)
        result = np.empty(size)
        out = result.reshape(-1)
        for k in range(out.shape[0]):
            out[k] = self._variate(kind, factor, shift)
        return result

    cdef double _variate(self, int kind, double factor, double shift) except? -1.0:
        """Draw a number of `kind`: 0, in [0, 1); 1, exponential; 2, normal; 3, uniform from `shift` to `factor`."""
        _check_parameters(kind, factor, shift)
        if kind == 3:
            factor -= shift
        return shift + factor * self._float(kind)

    cdef double _float(self, int kind) noexcept:
        if kind == 2:
            return self._normal()
        return -log1p(-self._random()) if kind == 1 else self._random()

    def integers(self, low, high=None, size=None):
        """Draw an integer uniformly from `low`..`high` - 1, or an int64 array of shape `size`.

        If `high` is None, the range is 0..`low` - 1.

        Raises
        ------
        ValueError
            If the range is empty.
        """
        cdef long long first = 0 if high is None else low, end = low if high is None else high
        cdef long long[::1] out
        cdef Py_ssize_t k
        if size is None:
            return self._integer(first, end)
        _check_limits(first, end)
        result = np.empty(size, np.int64)
        out = result.reshape(-1)
        for k in range(out.shape[0]):
            out[k] = self._integer(first, end)
        return result

    cdef long long _integer(self, long long low, long long high) except? -1:
        _check_limits(low, high)
        return <long long> (<unsigned long long> low + self._integer_below(<unsigned long long> high - <unsigned long long> low))

    def permutation(self, x):
        """Return an array of 0..`x` - 1, or of the elements of the sequence `x`, in random order."""
        if isinstance(x, int):
            return self._random_places(max(x, 0), max(x, 0))
        result = np.array(x)
        return result[self._random_places(len(result), len(result))]

    def choice(self, a, size=None, replace=True):
        """Draw an element of the sequence `a`, or of 0..`a` - 1 if `a` is a number; with `size`, an array of elements.

        The elements of an `IntMap` are its keys.

        Parameters
        ----------
        replace
            Whether an element may be chosen several times.

        Raises
        ------
        ValueError
            If `a` is empty, or has fewer than `size` elements without replacement.
        """
        options = range(a) if isinstance(a, int) else a
        cdef Py_ssize_t count = len(options)
        if count == 0:
            raise ValueError("a must have at least one element, got none")
        if size is None and type(a) is IntMap:
            return (<IntMap> a)._key_at(self._integer_below(count))
        if size is None:
            return options[self._integer_below(count)]
        if not isinstance(size, int) or size < 0:
            raise ValueError(f"size must be a whole number of at least 0, got {size!r}")
        if not replace and size > count:
            raise ValueError(f"size must be at most {count} without replacement, got {size}")
        places = self.integers(0, count, size) if replace else self._random_places(count, size)
        return np.asarray(options)[places]

    cdef object _random_places(self, Py_ssize_t count, Py_ssize_t n_places):
        """Draw `n_places` different numbers of 0..count - 1 in random order, int64 (Fisher and Yates)."""
        result = np.arange(count)
        cdef long long[::1] out = result
        cdef Py_ssize_t k, place
        if out.shape[0] != count:  # numpy rounds the largest numbers, and returns an empty array
            raise ValueError(f"a must fit into memory, got {count} elements")
        for k in range(n_places):
            place = k + <Py_ssize_t> self._integer_below(count - k)
            out[k], out[place] = out[place], out[k]
        return result[:n_places]
