"""Commands of `gridsim`, one module per command."""
