"""Experiments on mapping heuristics, searches for idle hosts, tasks that follow the night, and probes."""
