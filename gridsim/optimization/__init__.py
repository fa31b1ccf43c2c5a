"""Algorithms for optimal or good values of what schedulers compute: bounds, throughput, mappings."""
