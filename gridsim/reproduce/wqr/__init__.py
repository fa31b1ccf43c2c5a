"""The experiments of Arora et al. on work queues with replication and checkpoints."""
