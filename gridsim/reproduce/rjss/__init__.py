"""The experiments on RJSS, in which jobs search for a machine by random walks."""
