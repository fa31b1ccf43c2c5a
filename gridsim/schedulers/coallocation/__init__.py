"""Rivals of DGS_ASAP: schedulers of rigid jobs that look for machines that are free at the moment."""
