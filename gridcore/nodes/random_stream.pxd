"""C-level declarations of the random streams of nodes, and the hash from which numbers are drawn."""

cdef extern from *:
    """
    /* SplitMix64 (Steele, Lea and Flood 2014): a bijection of 64 bits. */
    static inline unsigned long long gridcore_mix(unsigned long long x)
    {
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
        return x ^ (x >> 31);
    }
    """
    unsigned long long mix "gridcore_mix"(unsigned long long x) noexcept nogil


cdef inline unsigned long long stream_key(unsigned long long seed, unsigned long long node) noexcept nogil:
    return mix(seed ^ mix((node + 1) * <unsigned long long> 0x9E3779B97F4A7C15))


cdef inline unsigned long long stream_bits(unsigned long long key, unsigned long long number) noexcept nogil:
    """Return draw `number`, from 0, of the stream with this key."""
    return mix(key + (number + 1) * <unsigned long long> 0x9E3779B97F4A7C15)


cdef class RandomStream:
    cdef unsigned long long key
    cdef public unsigned long long drawn    # number of 64-bit numbers drawn so far

    cdef unsigned long long _bits(self) noexcept
    cdef double _random(self) noexcept
    cdef double _normal(self) noexcept
    cdef double _variate(self, int kind, double factor, double shift) except? -1.0
    cdef double _float(self, int kind) noexcept
    cdef unsigned long long _integer_below(self, unsigned long long count) noexcept
    cdef long long _integer(self, long long low, long long high) except? -1
    cdef object _floats(self, size, int kind, double factor, double shift)
    cdef object _random_places(self, Py_ssize_t count, Py_ssize_t n_places)
