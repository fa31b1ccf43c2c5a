"""The random stream of a node: counter-based, so that its whole state is how many numbers have been drawn.

The methods are named as those of `numpy.random.Generator` and take the same arguments; they give other numbers.
The stream with a key gives the sequence of SplitMix64 (Steele, Lea and Flood 2014) that starts there; the keys of
the nodes are hashes of the seed and the node.  The reference implementation is `tests.reference.random_stream`.
"""

from libc.math cimport INFINITY, cos, isfinite, log1p, sqrt

cimport cython

from gridcore.nodes.random_stream cimport stream_bits, stream_key

import numpy as np

from gridcore.common.state import Number, read

__all__ = ["RandomStream"]

cdef double _TWO_PI = 6.283185307179586


cdef int _check_finite(double value, str name, double low) except -1:
    if not isfinite(value) or value < low:
        rule = "finite" if low == -INFINITY else f"finite and at least {low:g}"
        raise ValueError(f"{name} must be {rule}, got {value!r}")
    return 0


cdef int _check_scaled(int kind, double factor, double shift) except -1:
    """Check the scale of an exponential, both numbers of a normal distribution, and the limits of a uniform one."""
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
        raise ValueError(f"low must be less than high, got {low} and {high}")
    return 0


@cython.auto_pickle(False)
cdef class RandomStream:
    """Random numbers of one node.

    Parameters
    ----------
    seed
        0..2**64 - 1, of all nodes.
    node
        The number of the node.
    drawn
        How many numbers of 64 bits have been drawn before.
    """

    def __cinit__(self, unsigned long long seed, unsigned long long node, unsigned long long drawn=0):
        self.key, self.drawn = stream_key(seed, node), drawn

    def getstate(self):
        """What has changed since the stream was made; see `gridcore.common.state`."""
        return {"drawn": int(self.drawn)}

    def setstate(self, state):
        """Go on from what `getstate` of a stream made with the same arguments gave; raises ValueError."""
        self.drawn = read(state, {"drawn": Number()})["drawn"]

    cdef unsigned long long _bits(self) noexcept:
        cdef unsigned long long bits = stream_bits(self.key, self.drawn)
        self.drawn += 1
        return bits

    cdef double _random(self) noexcept:
        return (self._bits() >> 11) * (1.0 / 9007199254740992.0)

    cdef double _normal(self) noexcept:
        """By the transform of Box and Muller (1958), of which one of the two numbers is used."""
        cdef double radius = sqrt(-2.0 * log1p(-self._random()))
        return radius * cos(_TWO_PI * self._random())

    cdef unsigned long long _below(self, unsigned long long count) noexcept:
        """A whole number in 0..count - 1: the lowest bits that can be it, drawn until they are."""
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
        """Return a number in [0, 1), or float64 of the shape `size`."""
        return self._floats(size, 0, 1.0, 0.0)

    def uniform(self, double low=0.0, double high=1.0, size=None):
        """Return a number in [`low`, `high`), or float64 of the shape `size`.

        Raises ValueError for limits that are not finite.
        """
        return self._floats(size, 3, high, low)

    def exponential(self, double scale=1.0, size=None):
        """Return an exponentially distributed number of mean `scale`, or float64 of the shape `size`.

        Raises ValueError for a scale that is negative or not finite.
        """
        return self._floats(size, 1, scale, 0.0)

    def normal(self, double loc=0.0, double scale=1.0, size=None):
        """Return a normally distributed number, mean `loc`, deviation `scale`, or float64 of the shape `size`.

        Raises ValueError for a scale that is negative, or numbers that are not finite.
        """
        return self._floats(size, 2, scale, loc)

    cdef object _floats(self, size, int kind, double factor, double shift):
        cdef double[::1] out
        cdef Py_ssize_t k
        if size is None:
            return self._scaled(kind, factor, shift)
        _check_scaled(kind, factor, shift)
        result = np.empty(size)
        out = result.reshape(-1)
        for k in range(out.shape[0]):
            out[k] = self._scaled(kind, factor, shift)
        return result

    cdef double _scaled(self, int kind, double factor, double shift) except? -1.0:
        """One number of `kind`: 0, in [0, 1); 1, exponential; 2, normal; 3, uniform from `shift` to `factor`."""
        _check_scaled(kind, factor, shift)
        if kind == 3:
            factor -= shift
        return shift + factor * self._float(kind)

    cdef double _float(self, int kind) noexcept:
        if kind == 2:
            return self._normal()
        return -log1p(-self._random()) if kind == 1 else self._random()

    def integers(self, low, high=None, size=None):
        """Return a whole number in `low`..`high` - 1 (with one limit: 0..`low` - 1), or int64 of the shape `size`.

        Raises ValueError if there is no such number.
        """
        cdef long long first = 0 if high is None else low, beyond = low if high is None else high
        cdef long long[::1] out
        cdef Py_ssize_t k
        if size is None:
            return self._integer(first, beyond)
        _check_limits(first, beyond)
        result = np.empty(size, np.int64)
        out = result.reshape(-1)
        for k in range(out.shape[0]):
            out[k] = self._integer(first, beyond)
        return result

    cdef long long _integer(self, long long low, long long high) except? -1:
        _check_limits(low, high)
        return <long long> (<unsigned long long> low + self._below(<unsigned long long> high - <unsigned long long> low))

    def permutation(self, x):
        """Return the numbers 0..`x` - 1, or a copy of the sequence `x`, in random order, as an array."""
        found = np.arange(x) if isinstance(x, int) else np.array(x)
        return found[self._shuffled(len(found), len(found))]

    def choice(self, a, size=None, replace=True):
        """Return one of the numbers 0..`a` - 1 or of the sequence `a`, or an array of `size` of them.

        Parameters
        ----------
        replace
            Whether one may be chosen several times.

        Raises
        ------
        ValueError
            If there is nothing to choose from, or less than `size` without replacement.
        """
        of = range(a) if isinstance(a, int) else a
        cdef Py_ssize_t count = len(of)
        if count == 0:
            raise ValueError("a must have something to choose from, got nothing")
        if size is None:
            return of[self._below(count)]
        if not isinstance(size, int) or size < 0:
            raise ValueError(f"size must be a whole number of at least 0, got {size!r}")
        if not replace and size > count:
            raise ValueError(f"size must be at most {count} without replacement, got {size}")
        which = self.integers(0, count, size) if replace else self._shuffled(count, size)
        return np.asarray(of)[which]

    cdef object _shuffled(self, Py_ssize_t count, Py_ssize_t wanted):
        """int64[wanted]: the first places of 0..count - 1 in random order (Fisher and Yates)."""
        result = np.arange(count)
        cdef long long[::1] out = result
        cdef Py_ssize_t k, other
        for k in range(wanted):
            other = k + <Py_ssize_t> self._below(count - k)
            out[k], out[other] = out[other], out[k]
        return result[:wanted]
