"""Algorithms for optimal or good schedules: bounds, throughput, mappings."""
