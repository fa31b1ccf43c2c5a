"""Code shared by kernels: checks of arguments, memory, bits, heaps, queues of events, and states."""
