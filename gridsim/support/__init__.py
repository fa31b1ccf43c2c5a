"""Helpers that do not depend on the grid model: arguments, files, memory, states, text, time."""
