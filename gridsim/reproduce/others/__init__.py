"""Experiments on mapping heuristics, search for idle hosts, and tasks that follow the night."""
