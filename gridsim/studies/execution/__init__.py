"""How many runs are run: in processes, once each, and kept in a store."""
