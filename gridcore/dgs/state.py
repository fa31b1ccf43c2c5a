"""The numbers under which nodes reserve slots for attempts to place jobs."""

from __future__ import annotations

from gridcore.common.arrays import Integers

#: Mask of the job in an entry of `claimed`; the higher bits are the attempt.
_JOB = 2**32 - 1


def claimed(job: int, attempt: int) -> int:
    """Return the number under which nodes reserve slots for one attempt to place a job.

    It includes the attempt, since a cancellation must not release the reservation of a later attempt that
    begins at the same slot.
    """
    return (attempt << 32) | job


def claimant(claims: Integers) -> tuple[Integers, Integers]:
    """Return the job and the attempt of each number that `claimed` returned."""
    return claims & _JOB, claims >> 32
