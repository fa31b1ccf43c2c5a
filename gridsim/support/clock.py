"""Time: int64 nanoseconds, so that equal delays meet in one instant."""

from __future__ import annotations

NS = 1_000_000_000
#: No event: later than any instant that a simulation can reach.
NEVER = 2**63 - 1


def nanoseconds(seconds: float) -> int:
    """`seconds` as int64 nanoseconds, rounded once (half to even)."""
    return round(seconds * NS)
