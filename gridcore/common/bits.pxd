"""Single bits of a word."""

cdef extern from "bits.h":
    int count_bits "gridcore_count"(unsigned long long x) noexcept nogil
    int lowest_bit "gridcore_lowest"(unsigned long long x) noexcept nogil
    int highest_bit "gridcore_highest"(unsigned long long x) noexcept nogil
