"""Reproductions of published results: each compares what a paper reports with what is measured here."""
