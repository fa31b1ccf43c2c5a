"""Reproductions of published results: comparisons of the values in a paper with those measured here."""
