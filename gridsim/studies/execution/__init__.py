"""Execution of the runs of a study in processes, each run once, with records in a store."""
