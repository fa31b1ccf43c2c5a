"""What a run is about: platform, network, workload, faults, and the scenario that has them all."""
