"""Runs a scheduler on a scenario: set-up, checks, checkpoints, and the tables of the result."""
