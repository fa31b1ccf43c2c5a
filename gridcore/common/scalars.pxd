"""C-level declarations of the conversion of single numbers."""

cpdef long long integer(object value, object name) except? -1
cpdef double real(object value, object name) except? -1.0
