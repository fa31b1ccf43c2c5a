"""Results of runs: tables, metrics, result files and other formats."""
