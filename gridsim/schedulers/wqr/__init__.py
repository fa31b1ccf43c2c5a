"""WQR-FT: a work queue with replication and checkpoints, and what it may know of machines."""
