"""Checks of the state of a queue of rigid jobs, as described in `gridcore.common.state`.

The kernel calls these functions before it changes anything.  Each raises ValueError naming the invalid entry.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.common.arrays import Bools, Integers


def check_coming(coming: Integers, now: int, to_come: Bools, submitted: Bools) -> None:
    """Check the jobs that are to be submitted later, and their instants, against the status of each job."""
    coming_jobs, submitted_jobs = coming[:, 0], np.flatnonzero(submitted)
    if not (
        np.array_equal(coming_jobs, np.flatnonzero(to_come))
        and (len(coming_jobs) == 0 or len(submitted_jobs) == 0 or submitted_jobs.max() < coming_jobs.min())
        and (np.diff(coming[:, 1]) >= 0).all()
        and (coming[:, 1] >= now).all()
    ):
        raise ValueError(
            "state['coming'] must list all jobs that are not yet submitted, in order, with ascending "
            f"instants of at least {now} ns"
        )


def check_running(
    job_on: NDArray[np.int32],
    down: NDArray[np.int8],
    running: Bools,
    nodes: NDArray[Any],
    start: Integers,
    length: Integers,
    now: int,
) -> None:
    """Check the job on each machine (-1: none) and the starts of running jobs."""
    if not np.array_equal(
        np.bincount(job_on[job_on >= 0], minlength=len(nodes)), np.where(running, nodes, 0)
    ):
        raise ValueError("state['on'] must have each running job on the number of machines that it requests")
    if (down[job_on >= 0] != 0).any():
        raise ValueError("state['on'] must have no job on machines that are down")
    starts = start[running]
    if not ((starts >= 0) & (starts <= now) & (starts + length[running] > now)).all():
        raise ValueError(
            f"state['start'] of running jobs must be in 0..{now} ns, and each must end after {now} ns"
        )


def check_log(
    runs: Integers, masks: NDArray[np.uint64], words: Integers, nodes: NDArray[Any], machines: int
) -> None:
    """Check the log of runs, in the form of `run_log.pxd`; `words` have been checked already."""
    job, _, _, _, parts = runs.T
    if parts.max(initial=0) > len(masks) or parts.sum() != len(masks):
        raise ValueError("state['runs'] must have as many parts in total as state['masks'] has entries")
    inside = np.full((machines + 63) // 64, 2**64 - 1, np.uint64)
    if machines % 64:
        inside[-1] = 2 ** (machines % 64) - 1
    counts = np.bitwise_count(masks).astype(np.int64)
    if (masks & ~inside[words]).any() or (
        len(runs) and not np.array_equal(np.add.reduceat(counts, np.cumsum(parts) - parts), nodes[job])
    ):
        raise ValueError("state['masks'] must have as many machines for each run as its job requests")
