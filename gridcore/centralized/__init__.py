"""Centralized baselines: queues that machines pull from, and mapping heuristics."""
