"""The command line: `gridsim` and its commands."""
