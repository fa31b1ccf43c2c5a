"""A market: machines bid for tasks, and pay a penalty for late tasks."""
