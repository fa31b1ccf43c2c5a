"""What a state of a queue of rigid jobs must be like; see `gridcore.common.state`.

A kernel gives its arrays to these before it changes anything.  Each raises ValueError naming the entry of the
state that cannot be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.common.arrays import Bools, Integers


def check_coming(coming: Integers, now: int, to_come: Bools, submitted: Bools) -> None:
    """Jobs to come and when; which they are, and which have been submitted, by the status of each job."""
    later, known = coming[:, 0], np.flatnonzero(submitted)
    if not (
        np.array_equal(later, np.flatnonzero(to_come))
        and (len(later) == 0 or len(known) == 0 or known.max() < later.min())
        and (np.diff(coming[:, 1]) >= 0).all()
        and (coming[:, 1] >= now).all()
    ):
        raise ValueError(f"state['coming'] must be all that are to come, in order and not before {now} ns")


def check_running(
    on: NDArray[np.int32],
    down: NDArray[np.int8],
    running: Bools,
    nodes: NDArray[Any],
    start: Integers,
    length: Integers,
    now: int,
) -> None:
    """The job `on` each machine (-1: none), and the `start` of those `running`."""
    if not np.array_equal(np.bincount(on[on >= 0], minlength=len(nodes)), np.where(running, nodes, 0)):
        raise ValueError("state['on'] must have as many machines of each running job as it wants")
    if (down[on >= 0] != 0).any():
        raise ValueError("state['on'] must have no job on machines that are down")
    begun = start[running]
    if not ((begun >= 0) & (begun <= now) & (begun + length[running] > now)).all():
        raise ValueError(f"state['start'] of running jobs must be up to {now} ns, and their ends later")


def check_log(
    runs: Integers, masks: NDArray[np.uint64], words: Integers, nodes: NDArray[Any], machines: int
) -> None:
    """Runs that are over, as `run_log.pxd` has them; the words are known to be of the machines."""
    job, _, _, _, parts = runs.T
    if parts.max(initial=0) > len(masks) or parts.sum() != len(masks):
        raise ValueError("state['runs'] must have all of the masks")
    inside = np.full((machines + 63) // 64, 2**64 - 1, np.uint64)
    if machines % 64:
        inside[-1] = 2 ** (machines % 64) - 1
    counts = np.bitwise_count(masks).astype(np.int64)
    if (masks & ~inside[words]).any() or (
        len(runs) and not np.array_equal(np.add.reduceat(counts, np.cumsum(parts) - parts), nodes[job])
    ):
        raise ValueError("state['masks'] must be of as many machines as the jobs want")
