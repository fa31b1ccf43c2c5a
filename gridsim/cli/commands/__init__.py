"""One module a command of `gridsim`."""
