"""Experiments on mapping heuristics, searches for idle hosts, wave scheduling, probes and other systems."""
