"""Execution of the runs of a study: in processes, each run once, with their records kept in a store."""
