"""Task queues of machines: earliest deadline first, the minimum stretch, and what a queue can still take."""
