"""Calls of methods, and new objects, without a tuple of arguments: for the message core."""

from cpython.ref cimport PyObject

cdef extern from *:
    """
    #define MAX_FIELDS 62  /* gridcore.nodes.kinds.MAX_TIMER_FIELDS */
    static inline PyObject *gridcore_call(PyObject *name, PyObject *self, PyObject *a, PyObject *b, PyObject *c)
    {
        PyObject *arguments[5] = {NULL, self, a, b, c};
        size_t n = c != NULL ? 4 : b != NULL ? 3 : 2;
        return PyObject_VectorcallMethod(name, arguments + 1, n | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    static inline PyObject *gridcore_call_fields(PyObject *name, PyObject *self, PyObject *view,
                                                 const long long *fields, const char *codes, int n)
    {
        PyObject *arguments[3 + MAX_FIELDS] = {NULL, self, view}, *result = NULL;
        int k;
        for (k = 0; k < n; k++) {
            arguments[3 + k] = codes[k] == 1 ? PyFloat_FromDouble(((const double *) fields)[k])
                                             : PyLong_FromLongLong(fields[k]);
            if (arguments[3 + k] == NULL)
                goto end;
        }
        result = PyObject_VectorcallMethod(name, arguments + 1, (2 + n) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    end:
        while (k-- > 0)
            Py_DECREF(arguments[3 + k]);
        return result;
    }
    static inline PyObject *gridcore_new(PyObject *type) { return PyType_GenericAlloc((PyTypeObject *) type, 0); }
    """
    object call "gridcore_call"(object name, object self, object a, PyObject* b, PyObject* c)
    object call_fields "gridcore_call_fields"(object name, object self, object view, const long long* fields,
                                              const char* codes, int n)
    object new_object "gridcore_new"(object type)
