"""Metrics of schedules, and estimates over replications."""
