"""Simulators that were written from the documentation, and comparisons with them."""
