"""Compiled forms of the probe-based schedulers."""
