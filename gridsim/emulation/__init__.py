"""Emulation: runs node programs in several processes that send messages over sockets of this machine."""
