"""DGS_ASAP: rigid jobs, co-allocated by searches among the neighbours of neighbours."""
