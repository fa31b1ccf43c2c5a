"""What several kernels share: checks of arguments, memory, bits, heaps, queues of events, and states."""
