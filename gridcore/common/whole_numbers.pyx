"""Tables of whole numbers in text, such as job logs, as arrays."""

from cpython.unicode cimport PyUnicode_AsUTF8AndSize

import numpy as np

__all__ = ["whole_numbers"]

# Any number of up to this many digits fits in 64 bits.
cdef int _DIGITS = 18


def whole_numbers(str text: str, Py_ssize_t columns: int) -> "NDArray[np.int64] | None":
    """Parse the first `columns` words of each line as whole numbers.

    Parameters
    ----------
    text
        Lines, separated by newlines; words are separated by blanks and tabs.
    columns
        The number of words to read in each line, at least 1; the rest of the line is ignored.

    Returns
    -------
    int64[lines, columns]; None if a line has fewer than `columns` words, or one of them is not a whole number of at
    most 18 digits with an optional sign.
    """
    cdef Py_ssize_t size, row = 0, max_rows = text.count("\n") + 1
    cdef const char* at = PyUnicode_AsUTF8AndSize(text, &size)
    cdef const char* end = at + size
    if columns < 1:
        raise ValueError(f"columns must be at least 1, got {columns}")
    # each number takes at least a digit and a separator; so a short text cannot make this allocate much memory
    if max_rows * columns > (size + 1) // 2:
        return None
    cdef long long[:, ::1] rows = np.empty((max_rows, columns), np.int64)
    with nogil:
        while row < max_rows:
            at = read_line(at, end, &rows[row, 0], columns)
            if at == NULL:
                break
            row += 1
    return np.asarray(rows) if row == max_rows else None


cdef inline bint is_blank(char c) noexcept nogil:
    return c == c' ' or c == c'\t'


cdef const char* read_line(const char* at, const char* end, long long* numbers, Py_ssize_t columns) noexcept nogil:
    """Read the numbers of a line; return the start of the next line, or NULL if this line is invalid."""
    cdef Py_ssize_t k
    cdef long long value
    cdef bint negative
    cdef int digits
    for k in range(columns):
        while at < end and is_blank(at[0]):
            at += 1
        negative = at < end and at[0] == c'-'
        if negative or (at < end and at[0] == c'+'):
            at += 1
        value = digits = 0
        while at < end and c'0' <= at[0] <= c'9':
            value = 10 * value + (at[0] - c'0')
            digits += 1
            if digits > _DIGITS:
                return NULL
            at += 1
        # the number must end here: "1.5" and "1x" are not whole numbers
        if digits == 0 or (at < end and not (is_blank(at[0]) or at[0] == c'\n')):
            return NULL
        numbers[k] = -value if negative else value
    while at < end and at[0] != c'\n':
        if at[0] == c'\r':  # the caller determines whether this ends a line
            return NULL
        at += 1
    return at + 1
