"""The experiments on RJSS: jobs that look for a machine by random walks."""
