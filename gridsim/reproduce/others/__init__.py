"""Experiments on mapping heuristics, on the search for idle hosts, and on tasks that follow the night."""
