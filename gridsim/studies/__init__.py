"""Many runs: comparisons, replications, sweeps and ladders."""
