"""Task queues of machines: earliest deadline first, the minimum stretch, and the availability of a queue."""
