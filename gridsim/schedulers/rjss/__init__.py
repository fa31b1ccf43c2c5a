"""RJSS and its competitors: schedulers whose jobs move to a machine found by random probes or walks."""
