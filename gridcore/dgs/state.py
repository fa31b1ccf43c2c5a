"""What a state of negotiations about rigid jobs must be like; see `gridcore.common.state`.

A kernel gives its arrays to these before it changes anything.  Each raises ValueError naming the entry of the
state that cannot be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridcore.common.arrays import Bools, Integers

#: What is decided, as `gridsim.schedulers.dgs.decisions` puts it into words.
ACTIONS = (
    "asked", "opened", "answered", "unreached", "dropped", "chose", "refused", "refused-late", "released",
    "placed", "searched-again", "waited", "waited-for-room", "waited-for-machines", "gave-up-too-large",
    "gave-up", "overdue", "missed",
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


def check_thoughts(thoughts: Integers, nodes: int, jobs: int, latest: int) -> None:
    """Rows of scheduling node, searcher, job, search, start; nothing in them is below -1."""
    if len(thoughts) and not (
        thoughts[:, :3].min() >= 0
        and thoughts[:, :2].max() < nodes
        and thoughts[:, 2].max() < jobs
        and thoughts[:, 4].max() <= latest
    ):
        raise ValueError("state['thoughts'] must be of nodes and jobs of the run")


def check_ending(ending: Integers, placed: Bools, faults: bool) -> None:
    """Rows of instant and job; with `faults` also of runs that were lost."""
    jobs = np.sort(ending[:, 1])
    if faults:
        _check_jobs("ending", jobs, len(placed))
        jobs = np.unique(jobs[placed[jobs]])
    if not np.array_equal(jobs, np.flatnonzero(placed)):
        raise ValueError("state['ending'] must have each job that is placed once")


def check_overdue(overdue: Integers, jobs: int) -> None:
    """Rows of instant and job."""
    _check_jobs("overdue", overdue[:, 1], jobs)


def _check_jobs(name: str, jobs: Integers, below: int) -> None:
    if len(jobs) and not 0 <= jobs.min() <= jobs.max() < below:
        raise ValueError(f"state[{name!r}] must be of jobs below {below}")


def check_talks(
    tables: dict[str, Integers],
    phase: NDArray[np.int8],
    searching: Bools,
    committing: Bools,
    placed: Bools,
    nodes: Integers,
    forward: int,
    latest: int,
) -> None:
    """The tables of `gridcore/dgs/talks.pxd`.

    By job: its `phase`, which of them it is, and the `nodes` it wants.  No search asks more than `forward`
    nodes, and no start is after the slot `latest`.
    """
    talks, answers, found = (tables[name] for name in ("talks", "answers", "found"))
    job, start, asked, missing, n_answers, n_found, n_taken, current, _, pooled, _, _ = talks.T
    before = np.concatenate(([-1], job))[:-1]
    for k in _first((job <= before) | (job >= len(phase))):
        what = f"of a job in {before[k] + 1}..{len(phase) - 1}, got {job[k]}"
        raise ValueError(f"state['talks'][{k}] must be {what}")
    had = _in(n_answers, 0, n_found) & (n_found <= asked)
    asks = had & _in(missing, 1, asked - n_answers) & (n_taken == 0)
    tries = had & _in(current, 0, n_found - 1) & (pooled != 0)
    tries &= (n_taken >= 0) & _in(missing, 1, nodes[job] - n_taken)
    runs = (pooled != 0) & (start >= 0) & ~talks[:, 2:8].any(axis=1)
    sound = (searching[job] & asks) | (committing[job] & tries) | (placed[job] & runs)
    sound &= _in(asked, 0, forward) & _in(start, -1, latest)
    for k in _first(~sound):
        what = f"of a job in phase {phase[job[k]]}: {talks[k].tolist()}"
        raise ValueError(f"state['talks'][{k}] cannot be {what}")
    n_pool = np.where(pooled != 0, nodes[job] * np.where(asked > 0, n_found, 1), 0)
    for name, held in (("answers", n_answers), ("found", n_found), ("taken", n_taken), ("pool", n_pool)):
        for k in _first(np.cumsum(held) > len(tables[name])):
            raise ValueError(f"state['talks'][{k}] has more than the state has")
    of = np.repeat(np.arange(len(talks)), n_answers)
    place = answers[: len(of), 1]
    unknown = (place < 0) | (place >= n_found[of]) | ((answers[: len(of), 0] >= 0) & (pooled[of] == 0))
    for k in _first(unknown):
        raise ValueError(f"state['answers'][{k}] must be one of {n_found[of[k]]} found")
    of = np.repeat(np.arange(len(talks)), n_found)
    places = np.arange(len(of)) - (np.cumsum(n_found) - n_found)[of]
    for k in _first(found[: len(of), 1] != places):
        raise ValueError(f"state['found'][{k}] must be at place {places[k]}, got {found[k, 1]}")
    without = searching | committing | placed
    without[job] = False
    for k in _first(without):
        raise ValueError(f"state['talks'] must have job {k}, which is in phase {phase[k]}")


def check_looked(looked: Integers, candidates: Integers, rows: int, nodes: int, latest: int) -> None:
    """Rows of an instant, a slot and a number of candidates, one for each of `rows` searches.

    candidates : rows of a node, of which there are `nodes`, and an instant.  Nothing is below -1.
    """
    if len(looked) != rows:
        raise ValueError(f"state['looked'] must have {rows} rows, one for each search, got {len(looked)}")
    slot, count = looked[:, 1], looked[:, 2]
    for k in _first((slot < 0) | (slot > latest) | (count < 0) | (count > nodes)):
        raise ValueError(f"state['looked'][{k}] must be of a search, got {looked[k].tolist()}")
    if int(count.sum()) != len(candidates):
        raise ValueError(f"state['candidates'] must have {count.sum()} rows, got {len(candidates)}")
    for k in _first((candidates[:, 0] < 0) | (candidates[:, 0] >= nodes)):
        raise ValueError(f"state['candidates'][{k}] must be a node below {nodes}, got {candidates[k, 0]}")


def _in(values: Integers, low: int | Integers, high: int | Integers) -> Bools:
    return (values >= low) & (values <= high)


def _first(bad: Bools) -> list[int]:
    """Where the first one is, if there is any."""
    return [int(k) for k in np.flatnonzero(bad)[:1]]
