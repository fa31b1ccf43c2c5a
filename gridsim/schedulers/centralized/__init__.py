"""Schedulers that know the whole grid: the baselines and the classic mapping heuristics."""
