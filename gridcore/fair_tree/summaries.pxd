"""C-level declarations of the summaries kernel."""

from gridcore.queues.availability cimport Grid

cdef double quotient_up(double value, double by) noexcept nogil
cdef void add_cells(const unsigned int* a, const unsigned int* b, unsigned int* out, Py_ssize_t n) noexcept nogil
    # Writes the saturating sum. out may be a or b.
cdef bint add_narrow_cells(const unsigned short* a, const unsigned short* b, unsigned short* out,
                           Py_ssize_t n) noexcept nogil
    # Returns False if a cell of the sum does not fit into 16 bits.
cdef bint narrow_cells(const unsigned int* a, unsigned short* out, Py_ssize_t n) noexcept nogil
    # Returns False if a cell does not fit into 16 bits.
cdef void widen_cells(const unsigned short* a, unsigned int* out, Py_ssize_t n) noexcept nogil
cdef void debit_cells(const unsigned int* values, Py_ssize_t zeros, unsigned int* out, const Grid* g,
                      const unsigned int* drops, const double* limits) noexcept nogil
    # Subtracts drops[a] from `values`, clears the rows with a size above limits[S], and takes the monotone
    # closure. The first `zeros` cells, of whole stretches, are 0, and are neither read nor written.
    # drops: nA entries. limits: nS entries. out must not be `values`.
cdef void debit_narrow_cells(const unsigned short* values, Py_ssize_t zeros, unsigned short* out, const Grid* g,
                             const unsigned int* drops, const double* limits) noexcept nogil
    # The same with cells of 16 bits.
