"""Algorithms for optimal schedules and heuristics: bounds, throughput, mappings."""
