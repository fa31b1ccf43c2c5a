"""Schedulers of bags at one master with narrow links, by a linear program or by local rules."""
