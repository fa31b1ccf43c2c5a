"""Decentralized schedulers written from the point of view of one node."""
