"""Checks of arguments, and a guard against concurrent use, for all kernels.

The reference implementation is `tests.reference.arguments`.
"""

from libc.math cimport isfinite, isnan

cimport cython

import numpy as np

cdef tuple RULES = (
    "must be finite",
    "must be finite and >= 0",
    "must be finite and > 0",
    "must be a number or +inf",
)


cdef object refuse(str name, Py_ssize_t index, str rule, double value):
    """Return the ValueError for one bad value; index -1 means a scalar."""
    where = name if index < 0 else f"{name}[{index}]"
    return ValueError(f"{where} {rule}, got {value!r}")


cdef inline bint violates(double value, int rule) noexcept nogil:
    if rule == NUMBER:
        return isnan(value) or (not isfinite(value) and value < 0.0)
    return not isfinite(value) or (rule == NOT_NEGATIVE and value < 0.0) or (rule == POSITIVE and value <= 0.0)


cdef const double[::1] doubles(object values, str name):
    """Return `values` as a contiguous float64 vector, copied only if needed."""
    array = np.asarray(values)
    if array.dtype != np.float64 or not array.flags.c_contiguous or not array.flags.aligned:
        if array.dtype.kind not in "fiu":
            raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
        array = np.require(array, np.float64, ("C", "A"))
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim}")
    return array


cdef object doubles_copy(object values, str name):
    """Return `doubles(values)` as a copy that the caller cannot change."""
    return np.array(doubles(values, name))


cdef object plain(object values):
    """Return a plain ndarray on the memory of an array, since a subclass may report wrong attributes."""
    return np.asarray(values) if isinstance(values, np.ndarray) else values


cdef object integers(object values, str name):
    """Return a copy of `values` as an int64 vector; the caller cannot change it after the check."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim}")
    return array.astype(np.longlong, order="C")


cdef object indices(object values, str name, long long low, long long high):
    """Return `integers(values)`; raise ValueError unless each is in low..high - 1."""
    array = integers(values, name)
    cdef const long long[::1] entries = array
    cdef Py_ssize_t k
    for k in range(entries.shape[0]):
        if not low <= entries[k] < high:
            raise ValueError(f"{name}[{k}] must be in {low}..{high - 1}, got {entries[k]}")
    return array


cdef long long[::1] writable(object values, str name):
    """Return `values`; raise TypeError or ValueError unless it is an int64 vector that can be written in place."""
    values = plain(values)
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:
        raise TypeError(f"{name} must be an int64 array, which is changed in place, got {getattr(values, 'dtype', type(values).__name__)}")
    if values.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {values.ndim}")
    if not values.flags.carray:  # contiguous, writable and aligned
        raise ValueError(f"{name} must be contiguous, aligned and writable, since it is changed in place")
    return values


cdef int check_entry(double value, str name, Py_ssize_t index, int rule) except -1:
    if violates(value, rule):
        raise refuse(name, index, <str>RULES[rule], value)
    return 0


cdef int check_scalar(double value, str name, int rule) except -1:
    return check_entry(value, name, -1, rule)


cdef int check_array(const double[::1] values, str name, int rule) except -1:
    cdef Py_ssize_t i
    for i in range(values.shape[0]):
        check_entry(values[i], name, i, rule)
    return 0


cdef int check_instant(long long value, str name, long long margin=0) except -1:
    """Raise ValueError unless `value` is an instant (ns) with at least `margin` more ns after it."""
    cdef long long end = 9223372036854775807  # a C variable, because Cython would use Python integers for the constant
    end -= margin
    if not 0 <= value < end:
        raise ValueError(f"{name} must be in 0..{end - 1} ns, got {value}")
    return 0


cdef int check_lengths(Py_ssize_t n, Py_ssize_t m, str first, str second) except -1:
    if n != m:
        raise ValueError(f"{second} must have as many entries as {first}, got {m} and {n}")
    return 0


cdef int check_offsets(const long long[::1] offsets, Py_ssize_t entries) except -1:
    cdef Py_ssize_t i
    if offsets.shape[0] == 0 or offsets[0] != 0:
        raise ValueError(f"offsets must start with 0, got {offsets[0] if offsets.shape[0] else 'no entries'}")
    for i in range(1, offsets.shape[0]):
        if offsets[i] < offsets[i - 1]:
            raise ValueError(f"offsets[{i}] must be >= offsets[{i - 1}], got {offsets[i]} and {offsets[i - 1]}")
    if offsets[offsets.shape[0] - 1] != entries:
        raise ValueError(f"offsets must end with {entries}, the number of entries, got {offsets[offsets.shape[0] - 1]}")
    return 0


# --- one thread at a time -------------------------------------------------------------------------

@cython.final
@cython.freelist(32)
@cython.no_gc
@cython.auto_pickle(False)
cdef class _Guard:
    def __dealloc__(self):
        if self.in_call != NULL:
            self.in_call[0] = False


cdef _Guard guard(bint* in_call, _Guard inner=None):
    """Mark an object and its `inner` objects as in use until the result is deleted.

    Each public method of a kernel with a state begins with this call.  Otherwise another thread or a callback
    could reallocate its memory while a method has released the GIL or calls Python.

    Raises
    ------
    RuntimeError
        If the object is in use.
    """
    if in_call[0]:
        raise RuntimeError("this object is in use by another call; make one call at a time, from one thread")
    cdef _Guard result = _Guard.__new__(_Guard)
    result.in_call, result.inner = in_call, inner
    in_call[0] = True
    return result
