"""Studies that consist of many runs: comparisons, replications, sweeps and ladders."""
