"""A run: from a scenario and a scheduler to a result, with checkpoints."""
