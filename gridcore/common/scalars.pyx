"""Conversion of single numbers of any type to 64 bits, with errors that name them."""

import numbers
import operator

import numpy as np

__all__ = ["integer", "real"]

cdef object LOWEST = -(2**63), HIGHEST = 2**63 - 1


cpdef long long integer(object value, object name) except? -1:
    """Return a whole number, such as an ``int`` or a NumPy integer.

    Raises
    ------
    TypeError, OverflowError
        If `value` is not a whole number, or needs more than 64 bits.
    """
    number = value
    if type(number) is not int:
        if isinstance(number, np.bool_):
            number = bool(number)
        try:
            number = operator.index(number)
        except TypeError:
            raise TypeError(f"{name} must be a whole number of 64 bits, got {value!r}") from None
    if not LOWEST <= number <= HIGHEST:
        raise OverflowError(f"{name} must be a whole number of 64 bits, got {value!r}")
    return number


cpdef double real(object value, object name) except? -1.0:
    """Return a real number.

    Raises
    ------
    TypeError, OverflowError
        If `value` is not a real number, or is out of the range of a float.
    """
    if not isinstance(value, (numbers.Real, np.bool_)):
        raise TypeError(f"{name} must be a number in the range of a float, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise OverflowError(f"{name} must be a number in the range of a float, got {value!r}") from None
