"""Competitors of DGS_ASAP: schedulers of rigid jobs that search for currently free machines."""
