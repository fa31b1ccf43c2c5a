"""Tables of decimal numbers in text, such as job logs, as arrays."""

from cpython.unicode cimport PyUnicode_AsUTF8AndSize

import numpy as np

__all__ = ["decimal_numbers"]

# Any number of up to this many digits fits in 64 bits.
cdef int _DIGITS = 18
# A fraction is the quotient of two numbers that floats represent exactly: digits up to this one, and a power of ten.
cdef long long _LARGEST_EXACT = 1LL << 53
cdef double[19] _POWERS
for _k in range(19):
    _POWERS[_k] = float(10**_k)


def decimal_numbers(str text: str, Py_ssize_t columns: int) -> "NDArray[np.float64] | None":
    """Parse the first `columns` words of each line as decimal numbers.

    Parameters
    ----------
    text
        Lines, separated by newlines; words are separated by blanks and tabs.
    columns
        The number of words to read in each line, at least 1; the rest of the line is ignored.

    Returns
    -------
    float64[lines, columns], the numbers closest to those in the text; None if a line has fewer than `columns` words,
    or one of them is not a number of digits with an optional sign and at most one point.  Whole numbers may have 18
    digits; the digits of other numbers must be those of a whole number up to 2**53.
    """
    cdef Py_ssize_t size, row = 0, max_rows = text.count("\n") + 1
    cdef const char* at = PyUnicode_AsUTF8AndSize(text, &size)
    cdef const char* end = at + size
    if columns < 1:
        raise ValueError(f"columns must be at least 1, got {columns}")
    # each number takes at least a digit and a separator; so a short text cannot make this allocate much memory
    if max_rows * columns > (size + 1) // 2:
        return None
    cdef double[:, ::1] rows = np.empty((max_rows, columns), np.float64)
    with nogil:
        while row < max_rows:
            at = read_line(at, end, &rows[row, 0], columns)
            if at == NULL:
                break
            row += 1
    return np.asarray(rows) if row == max_rows else None


cdef inline bint is_blank(char c) noexcept nogil:
    return c == c' ' or c == c'\t'


cdef const char* read_line(const char* at, const char* end, double* numbers, Py_ssize_t columns) noexcept nogil:
    """Read the numbers of a line; return the start of the next line, or NULL if this line is invalid."""
    cdef Py_ssize_t k
    cdef long long digits
    cdef bint negative
    cdef int count, decimals
    cdef double value
    for k in range(columns):
        while at < end and is_blank(at[0]):
            at += 1
        negative = at < end and at[0] == c'-'
        if negative or (at < end and at[0] == c'+'):
            at += 1
        digits = count = decimals = 0
        while at < end and c'0' <= at[0] <= c'9':
            digits = 10 * digits + (at[0] - c'0')
            count += 1
            if count > _DIGITS:
                return NULL
            at += 1
        if at < end and at[0] == c'.':
            at += 1
            while at < end and c'0' <= at[0] <= c'9':
                digits = 10 * digits + (at[0] - c'0')
                count += 1
                decimals += 1
                if count > _DIGITS:
                    return NULL
                at += 1
            if digits > _LARGEST_EXACT:
                return NULL
        # the number must end here: "1x" is not a number
        if count == 0 or (at < end and not (is_blank(at[0]) or at[0] == c'\n')):
            return NULL
        value = <double>digits
        if decimals:
            value /= _POWERS[decimals]
        numbers[k] = 0.0 - value if negative else value  # not -0.0
    while at < end and at[0] != c'\n':
        if at[0] == c'\r':  # the caller determines whether this ends a line
            return NULL
        at += 1
    return at + 1
