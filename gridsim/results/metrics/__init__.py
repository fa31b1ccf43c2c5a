"""Numbers that say how good a schedule is, lower bounds, and estimates over replications."""
