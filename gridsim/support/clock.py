"""Time in int64 nanoseconds, so that events with equal delays are simultaneous."""

from __future__ import annotations

#: Nanoseconds per second.
NS = 1_000_000_000
#: Time of an event that never happens (ns), later than any instant that a simulation can reach.
NEVER = 2**63 - 1


def nanoseconds(seconds: float) -> int:
    """Return `seconds` as a whole number of nanoseconds, rounded once (half to even)."""
    return round(seconds * NS)
