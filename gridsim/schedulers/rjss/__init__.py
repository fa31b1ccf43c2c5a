"""RJSS and its rivals: jobs that move to a machine found by random probes or walks."""
