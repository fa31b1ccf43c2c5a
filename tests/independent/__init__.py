"""Simulators that were written from the documentation alone, and comparisons with them."""
