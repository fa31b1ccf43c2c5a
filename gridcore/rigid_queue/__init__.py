"""Rigid jobs in one queue: first come first served, and backfilling."""
