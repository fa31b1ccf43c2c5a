"""The fair tree: bags of tasks, routed by summaries of availability."""
