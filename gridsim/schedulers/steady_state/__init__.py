"""Bags at one master over links of limited bandwidth: by a linear program, and by local rules."""
