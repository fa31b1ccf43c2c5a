"""Metrics of schedules, lower bounds, and estimates over replications."""
