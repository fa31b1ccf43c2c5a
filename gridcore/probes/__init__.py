"""Compiled forms of the probe-based schedulers, and the books of their central schedulers."""
