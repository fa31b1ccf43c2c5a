"""RJSS and its rivals: schedulers whose jobs move to a machine found by random probes or walks."""
