"""Runs node programs for real: in several processes that send messages over sockets of this machine."""
