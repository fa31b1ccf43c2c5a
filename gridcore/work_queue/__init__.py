"""Work queues with replication and checkpoints (WQR-FT)."""
