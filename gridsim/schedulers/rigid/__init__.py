"""Central schedulers of rigid jobs."""
