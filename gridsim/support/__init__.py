"""Helpers that know nothing of grids: arguments, files, memory, states, text, time."""
