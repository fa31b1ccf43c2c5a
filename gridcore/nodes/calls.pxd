"""Calls of methods, and new objects, without a tuple of arguments: for the message core."""

from cpython.ref cimport PyObject

cdef extern from *:
    """
    static inline PyObject *gridcore_call(PyObject *name, PyObject *self, PyObject *a, PyObject *b, PyObject *c)
    {
        PyObject *arguments[5] = {NULL, self, a, b, c};
        size_t n = c != NULL ? 4 : b != NULL ? 3 : 2;
        return PyObject_VectorcallMethod(name, arguments + 1, n | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    static inline PyObject *gridcore_new(PyObject *type) { return PyType_GenericAlloc((PyTypeObject *) type, 0); }
    """
    object call "gridcore_call"(object name, object self, object a, PyObject* b, PyObject* c)
    object new_object "gridcore_new"(object type)
