"""C-level declarations of compiled handlers: their arguments, and the functions that they call."""

from cpython.ref cimport PyObject

from gridcore.nodes.node_actions cimport NodeActions
from gridcore.nodes.payloads cimport Contents, StridedArray
from gridcore.nodes.rows cimport Head
from gridcore.queues.availability cimport Grid

# The first argument of compiled handlers: fields of 64 bits each, in the order of `CONTEXT`.
cdef struct Context:
    PyObject* core
    const long long* now                # ns
    long long nodes, machines
    const long long* machine_of         # per node
    const long long* neighbours         # of all nodes, one node after another
    const long long* neighbour_offsets  # [nodes + 1]: the first neighbour of each node
    const long long* roles              # [roles, 2]: the first node, and the one after the last
    const double* speed                 # per machine
    const char* parameters
    const long long* tasks              # per application, as the next three
    const double* task_size
    const double* size
    const double* release               # s
    long long board_rows                # number of nodes or applications on the board
    long long place                     # where a method ended with an error, as `place_number` numbers lines; 0: nowhere
    long long* (*send)(PyObject*, long long, long long, long long) except NULL
    int (*finish_send)(PyObject*, long long, long long, const long long*) except -1
    int (*fail_size)(PyObject*, long long, long long) except -1
    long long (*request)(PyObject*, long long, long long, long long*, double) except -1
    int (*later)(PyObject*, long long, long long, double, const long long*) except -1
    int (*enqueue)(PyObject*, long long, long long, long long) except -1
    long long (*waiting)(PyObject*, long long) except -1
    double (*work)(PyObject*, long long) except -1.0
    double (*minimum_stretch)(PyObject*, long long) except -1.0
    int (*timer)(PyObject*, long long, long long, double, double) except -1
    int (*timer_at)(PyObject*, long long, long long, long long, double) except -1
    int (*timer_fields)(PyObject*, long long, long long, double, const long long*) except -1
    int (*timer_fields_at)(PyObject*, long long, long long, long long, const long long*) except -1
    int (*cancel)(PyObject*, long long, long long, long long, const long long*) except -1
    int (*act)(PyObject*, long long, double) except -1
    int (*check_known)(PyObject*, long long, long long) except -1
    int (*draw)(PyObject*, long long, long long, double, double, double*) except -1
    int (*integer)(PyObject*, long long, long long, long long, long long*) except -1
    int (*integers)(PyObject*, long long, long long, long long, long long, long long*) except -1
    int (*permute)(PyObject*, long long, long long, long long*) except -1
    long long (*held)(PyObject*, long long, long long) except -1
    long long (*take)(PyObject*, long long, long long, long long) except -1
    long long (*queued)(PyObject*, long long, long long*) except -1
    long long (*completed)(PyObject*, long long, long long*) except -1
    int (*note)(PyObject*, long long, long long, const long long*) except -1
    int (*decide)(PyObject*, long long, long long, const long long*) except -1
    int (*publish)(PyObject*, long long, long long, long long, double, long long) except -1
    int (*check_board)(PyObject*, long long) except -1
    double* (*board)(PyObject*, long long) except NULL
    int (*board_number)(PyObject*, long long, long long, double*) except -1
    int (*board_least)(PyObject*, long long, long long, long long, long long*) except -1
    int (*board_add)(PyObject*, long long, long long, long long, double, long long) except -1
    long long (*tasks_at)(PyObject*, long long) except -1
    long long (*running)(PyObject*, long long) except -1
    long long (*cores)(PyObject*, long long) except -1
    Contents* (*store)(PyObject*, long long, long long, long long, long long*, const StridedArray*) except NULL
    int (*set_array)(PyObject*, PyObject**, const StridedArray*) except -1
    const Contents* (*shared_array)(PyObject**) noexcept
    int (*sample)(PyObject*, long long, const Grid*, long long, long long, unsigned int*) except -1
    int (*slots)(PyObject*, long long, long long, long long, long long, long long, long long) except -1
    int (*extend_slots)(PyObject*, long long, long long, long long, long long, long long, Head*) except -1
    # containers, `gridcore.nodes.rows`
    long long* (*queue_push)(Head*, long long) except NULL
    int (*queue_pop)(Head*, long long*, long long) except -1
    long long* (*queue_at)(Head*, long long, long long) except NULL
    int (*queue_delete)(Head*, long long, long long) except -1
    int (*heap_push)(Head*, const long long*, long long, long long) except -1
    int (*heap_pop)(Head*, long long*, long long, long long) except -1
    long long* (*heap_at)(Head*, long long) except NULL
    long long* (*map_find)(const Head*, long long, long long) noexcept
    long long* (*map_get)(const Head*, long long, long long) except NULL
    long long* (*map_put)(Head*, long long, long long) except NULL
    long long (*map_discard)(Head*, long long, long long) noexcept
    int (*map_remove)(Head*, long long, long long) except -1
    long long* (*map_at)(const Head*, long long, long long) except NULL
    long long (*map_next)(const Head*, long long, long long) noexcept
    int (*map_pop)(Head*, long long*, long long) except -1
    int (*rows_clear)(Head*) noexcept
    int (*iteration_error)() except -1


# (context, node, record of the message or arguments of the event, state of the node)
ctypedef int (*Handler)(Context*, long long, const long long*, char*) except -1

cdef int fill_context(Context* c, NodeActions core, const long long[::1] tasks) except -1
