"""Rigid jobs in one queue, in several orders, with and without backfilling."""
