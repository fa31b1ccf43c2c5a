"""What knows nothing of grids: arguments, files, memory, states, text, time."""
