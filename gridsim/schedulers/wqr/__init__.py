"""WQR-FT: a work queue with replication and checkpoints, and the information that it may use."""
