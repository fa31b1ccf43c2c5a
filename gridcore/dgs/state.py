"""Checks of the state of negotiations about rigid jobs, as described in `gridcore.common.state`.

The kernel calls these functions before it changes anything.  Each raises ValueError naming the invalid entry.
"""

from __future__ import annotations

import numpy as np

from gridcore.common.arrays import Bools, Integers
from gridcore.common.state import refuse

#: The actions of decisions; `gridsim.schedulers.dgs.decisions` describes them.
ACTIONS = (
    "asked", "opened", "answered", "unreached", "dropped", "chose", "refused", "refused-late", "released",
    "placed", "searched-again", "waited", "waited-for-room", "waited-for-machines", "gave-up-too-large",
    "gave-up", "overdue", "missed", "gave-up-too-late", "called-off",
    "extended", "displaced",
)  # fmt: skip
#: A row of the log of decisions; `action` is an index into `ACTIONS`.  If a job waits before it searches
#: again, `saw` is the number of its searches, from which the policy computes the wait.
DECISION = np.dtype(
    [(name, "i8") for name in ("time", "application", "action", "decider", "machine", "tasks", "among")]
    + [(name, "f8") for name in ("saw", "limit", "true", "age")]
)

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


def check_ending(ending: Integers, placed: Bools, has_lost_runs: bool) -> None:
    """Check the scheduled ends of runs, rows of (instant, job).

    Parameters
    ----------
    placed
        Which jobs are placed.
    has_lost_runs
        Whether there may also be rows of runs that were lost, displaced or cancelled.
    """
    jobs = np.sort(ending[:, 1])
    if has_lost_runs:
        jobs = np.unique(jobs[placed[jobs]])
    if not np.array_equal(jobs, np.flatnonzero(placed)):
        raise ValueError("state['ending'] must have each placed job exactly once")


def check_negotiations(
    tables: dict[str, Integers],
    searching: Bools,
    committing: Bools,
    placed: Bools,
    nodes: Integers,
) -> None:
    """Check the tables of `gridcore/dgs/negotiations.pxd`.

    Parameters
    ----------
    searching, committing, placed
        Which jobs are in these phases.
    nodes
        The number of nodes that each job requests.
    """
    talks, answers, results = (tables[name] for name in ("talks", "answers", "found"))
    job, start, n_asked, missing, n_answers, n_results, n_reserved, current, _, has_pool, _, _, _ = talks.T
    refuse("talks", np.diff(job, prepend=-1) <= 0, "in ascending order of jobs")
    has_answers = _in(n_answers, 0, n_results) & (n_results <= n_asked)
    is_searching = has_answers & _in(missing, 1, n_asked - n_answers) & (n_reserved == 0)
    is_committing = has_answers & _in(current, 0, n_results - 1) & (has_pool != 0)
    is_committing &= (n_reserved >= 0) & _in(missing, 1, nodes[job] - n_reserved)
    is_placed = (has_pool != 0) & (start >= 0) & ~talks[:, 2:8].any(axis=1)
    is_valid = (searching[job] & is_searching) | (committing[job] & is_committing) | (placed[job] & is_placed)
    refuse("talks", ~is_valid, "consistent with the phase of its job")
    n_pool = np.where(has_pool != 0, nodes[job] * np.where(n_asked > 0, n_results, 1), 0)
    for name, count in (
        ("answers", n_answers),
        ("found", n_results),
        ("taken", n_reserved),
        ("pool", n_pool),
    ):
        refuse("talks", np.cumsum(count) > len(tables[name]), f"covered by the rows of state[{name!r}]")
    of = np.repeat(np.arange(len(talks)), n_answers)
    place = answers[: len(of), 1]
    is_unknown = (place < 0) | (place >= n_results[of]) | ((answers[: len(of), 0] >= 0) & (has_pool[of] == 0))
    refuse("answers", is_unknown, "the answer of a search in state['found']")
    of = np.repeat(np.arange(len(talks)), n_results)
    places = np.arange(len(of)) - (np.cumsum(n_results) - n_results)[of]
    refuse("found", results[: len(of), 1] != places, "numbered in order within its job")
    has_no_row = searching | committing | placed
    has_no_row[job] = False
    for k in np.flatnonzero(has_no_row)[:1]:
        raise ValueError(f"state['talks'] must have a row for job {k}, which is placed or being placed")


def check_search_records(records: Integers, candidates: Integers, rows: int) -> None:
    """Check that each of `rows` searches has a record, and that no candidates of a record are missing."""
    if len(records) != rows:
        raise ValueError(f"state['looked'] must have {rows} rows, one for each search, got {len(records)}")
    if int(records[:, 2].sum()) != len(candidates):
        raise ValueError(f"state['candidates'] must have {records[:, 2].sum()} rows, got {len(candidates)}")


def _in(values: Integers, low: int | Integers, high: int | Integers) -> Bools:
    return (values >= low) & (values <= high)
