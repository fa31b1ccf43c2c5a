"""Jobs that move to a node found by random probes (RJSS)."""
