"""What a state of negotiations about rigid jobs must be like; see `gridcore.common.state`.

A kernel gives its arrays to these before it changes anything.  Each raises ValueError naming the entry of the
state that cannot be.
"""

from __future__ import annotations

import numpy as np

from gridcore.common.arrays import Bools, Integers
from gridcore.common.state import refuse

#: What is decided, as `gridsim.schedulers.dgs.decisions` puts it into words.
ACTIONS = (
    "asked", "opened", "answered", "unreached", "dropped", "chose", "refused", "refused-late", "released",
    "placed", "searched-again", "waited", "waited-for-room", "waited-for-machines", "gave-up-too-large",
    "gave-up", "overdue", "missed", "gave-up-too-late", "called-off",
    "extended", "displaced",
)  # fmt: skip
#: A row of the log of decisions; an action is its place in `ACTIONS`.  What a job waits for that is to search
#: again is left to the policy: such a row has the number of its searches in `saw`.
DECISION = np.dtype(
    [(name, "i8") for name in ("time", "application", "action", "decider", "machine", "tasks", "among")]
    + [(name, "f8") for name in ("saw", "limit", "true", "age")]
)

#: Of a number for which slots are reserved, the bits that are the job; the higher ones are the attempt.
_JOB = 2**32 - 1


def claimed(job: int, attempt: int) -> int:
    """Return the number for which nodes reserve slots, by which `SlotSchedules` knows the attempt, too.

    A cancellation must not release what a later attempt has reserved from the same slot on.
    """
    return (attempt << 32) | job


def claimant(claims: Integers) -> tuple[Integers, Integers]:
    """Return the jobs and the attempts of numbers that `claimed` gave."""
    return claims & _JOB, claims >> 32


def check_ending(ending: Integers, placed: Bools, lost: bool) -> None:
    """Rows of instant and job; with `lost` also of runs that were lost, displaced or cancelled."""
    jobs = np.sort(ending[:, 1])
    if lost:
        jobs = np.unique(jobs[placed[jobs]])
    if not np.array_equal(jobs, np.flatnonzero(placed)):
        raise ValueError("state['ending'] must have each job that is placed once")


def check_talks(
    tables: dict[str, Integers],
    searching: Bools,
    committing: Bools,
    placed: Bools,
    nodes: Integers,
) -> None:
    """The tables of `gridcore/dgs/talks.pxd`.

    By job: which of them are in which phase, and the `nodes` that it wants.
    """
    talks, answers, found = (tables[name] for name in ("talks", "answers", "found"))
    job, start, asked, missing, n_answers, n_found, n_taken, current, _, pooled, _, _, _ = talks.T
    refuse("talks", np.diff(job, prepend=-1) <= 0, "of a job after the one before it")
    had = _in(n_answers, 0, n_found) & (n_found <= asked)
    asks = had & _in(missing, 1, asked - n_answers) & (n_taken == 0)
    tries = had & _in(current, 0, n_found - 1) & (pooled != 0)
    tries &= (n_taken >= 0) & _in(missing, 1, nodes[job] - n_taken)
    runs = (pooled != 0) & (start >= 0) & ~talks[:, 2:8].any(axis=1)
    sound = (searching[job] & asks) | (committing[job] & tries) | (placed[job] & runs)
    refuse("talks", ~sound, "of what a job in its phase does")
    n_pool = np.where(pooled != 0, nodes[job] * np.where(asked > 0, n_found, 1), 0)
    for name, held in (("answers", n_answers), ("found", n_found), ("taken", n_taken), ("pool", n_pool)):
        refuse("talks", np.cumsum(held) > len(tables[name]), f"of no more rows than state[{name!r}] has")
    of = np.repeat(np.arange(len(talks)), n_answers)
    place = answers[: len(of), 1]
    unknown = (place < 0) | (place >= n_found[of]) | ((answers[: len(of), 0] >= 0) & (pooled[of] == 0))
    refuse("answers", unknown, "of a search that has been found")
    of = np.repeat(np.arange(len(talks)), n_found)
    places = np.arange(len(of)) - (np.cumsum(n_found) - n_found)[of]
    refuse("found", found[: len(of), 1] != places, "at its place")
    without = searching | committing | placed
    without[job] = False
    for k in np.flatnonzero(without)[:1]:
        raise ValueError(f"state['talks'] must have job {k}, which has begun")


def check_looked(looked: Integers, candidates: Integers, rows: int) -> None:
    """Rows with a number of candidates, one for each of `rows` searches, and these candidates."""
    if len(looked) != rows:
        raise ValueError(f"state['looked'] must have {rows} rows, one for each search, got {len(looked)}")
    if int(looked[:, 2].sum()) != len(candidates):
        raise ValueError(f"state['candidates'] must have {looked[:, 2].sum()} rows, got {len(candidates)}")


def _in(values: Integers, low: int | Integers, high: int | Integers) -> Bools:
    return (values >= low) & (values <= high)
