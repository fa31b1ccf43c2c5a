"""Tables of whole numbers in text, such as job logs, as arrays."""

from cpython.unicode cimport PyUnicode_AsUTF8AndSize

import numpy as np

__all__ = ["whole_numbers"]

# Digits of a number that certainly fits in 64 bits.
cdef int _DIGITS = 18


def whole_numbers(str text: str, Py_ssize_t columns: int) -> "NDArray[np.int64] | None":
    """Return the first numbers of each line.

    Parameters
    ----------
    text
        Lines, separated by newlines; words are separated by blanks and tabs.
    columns
        How many numbers are read of a line, at least 1; what follows them is ignored.

    Returns
    -------
    int64[lines, columns]; None if a line has fewer words, or a word that is not a whole number of at most 18
    digits, without or with a sign, or anything else that is no such line, such as an empty one.
    """
    cdef Py_ssize_t size, row = 0, most = text.count("\n") + 1
    cdef const char* at = PyUnicode_AsUTF8AndSize(text, &size)
    cdef const char* end = at + size
    if columns < 1:
        raise ValueError(f"columns must be at least 1, got {columns}")
    # a number has at least one digit and a separator: text of few bytes cannot ask for much memory
    if most * columns > (size + 1) // 2:
        return None
    cdef long long[:, ::1] found = np.empty((most, columns), np.int64)
    with nogil:
        while row < most:
            at = read_line(at, end, &found[row, 0], columns)
            if at == NULL:
                break
            row += 1
    return np.asarray(found) if row == most else None


cdef inline bint blank(char c) noexcept nogil:
    return c == c' ' or c == c'\t'


cdef const char* read_line(const char* at, const char* end, long long* found, Py_ssize_t columns) noexcept nogil:
    """Read the numbers of a line; return where the next one begins, or NULL if it is not as it should be."""
    cdef Py_ssize_t k
    cdef long long value
    cdef bint negative
    cdef int digits
    for k in range(columns):
        while at < end and blank(at[0]):
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
        # a word ends here: "1.5" and "1x" are no whole numbers
        if digits == 0 or (at < end and not (blank(at[0]) or at[0] == c'\n')):
            return NULL
        found[k] = -value if negative else value
    while at < end and at[0] != c'\n':
        if at[0] == c'\r':  # whose meaning is not decided here
            return NULL
        at += 1
    return at + 1
