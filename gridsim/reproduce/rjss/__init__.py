"""The experiments on RJSS, in which jobs look for a machine by random walks."""
