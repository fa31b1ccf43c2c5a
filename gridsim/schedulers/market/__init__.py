"""A market: machines bid for tasks, and pay a penalty for those that end too late."""
