"""C-level declarations of views."""

from gridcore.nodes.node_actions cimport NodeActions

cdef object new_view(NodeActions core, int node)
