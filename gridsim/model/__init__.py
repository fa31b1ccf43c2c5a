"""The input of a run: platform, network, workload, faults, and the scenario that combines them."""
