"""Records the decisions of RJSS and its rivals, from the log of `gridcore.random_walk.walk`."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gridcore.random_walk.state import FITS, MOVES, OTHER_JOBS, OWN_JOBS, SLOW, STAYS
from gridsim.results.decisions import Decisions, DecisionTexts
from gridsim.scheduling.contract import Run
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NS, nanoseconds

_TURNAROUND = "a turnaround of", "s"
STAY: DecisionTexts = {"stayed": ("kept it, after {among} answers", *_TURNAROUND)}
#: See `gridsim.scheduling.contract.Scheduler.decision_words`.
WORDS: DecisionTexts = {
    "earlier": ("heard from machine {machine}, from where it would be back earlier", *_TURNAROUND),
    "later": ("heard from machine {machine}, from where it would not be back earlier", *_TURNAROUND),
    "slow": ("passed over machine {machine}, which is slow", "a speed of", "Mflop/s"),
    "own": ("passed over machine {machine}, where a job of its own may come first", "a chance of", ""),
    "others": ("passed over machine {machine}, to which others send too many", "jobs on the way:", ""),
    "moved": ("sent it to machine {machine}, after {among} answers", *_TURNAROUND),
    "fastest": ("sent it to machine {machine}, the fastest of {among}", "a speed of", "Mflop/s"),
    **STAY,
}
#: The same, where owners come and go.
VOLUNTEER_WORDS: DecisionTexts = {
    "sent": (
        "sent it to machine {machine}, after {among} answers, where it takes {limit:.4g} s",
        "an owner away for",
        "s",
    ),
    "kept": ("kept it, after {among} answers, for {limit:.4g} s", "an owner away for", "s"),
    "parked": ("let it wait for a place, as the owner is there, after {among} answers", "", ""),
    "evicted": ("took it from machine {machine}, whose owner is back", "", ""),
}
_CAUSES = {SLOW: "slow", OWN_JOBS: "own", OTHER_JOBS: "others"}


class Walked(Protocol):
    """The jobs of a finished run, as far as `note_walks` needs them."""

    run: Run
    application: Integers | None
    pick: str
    rule: str
    printed: bool
    rates: Floats
    min_speed: float
    local_threshold: float
    remote_threshold: float


class Heard:
    """The rows of a log, with the job and the nodes of each row and the turnarounds that it implies.

    Parameters
    ----------
    of
        Jobs of the finished run.
    looks
        Columns of `gridcore.random_walk.walk.JobWalks.looks`.
    """

    def __init__(self, of: Walked, looks: dict[str, Integers]) -> None:
        self.of, self.looks = of, looks
        run, self.job, self.node = of.run, looks["job"], looks["node"]
        network, applications = run.network.network, run.applications
        which = np.arange(len(applications)) if of.application is None else of.application
        self.application = which[self.job]
        self.task = self.job - applications.offsets[self.application]
        self.home = applications.submitter[self.application]
        self.work = applications.sizes()[self.job]
        data = np.zeros(len(applications)) if applications.data is None else applications.data
        carried = np.rint(data[self.application] / network.bandwidth * 1e9).astype(np.int64)
        #: ns that each job takes to travel to another machine.
        self.way = nanoseconds(network.latency) + carried

    def at_home(self) -> Integers:
        """Return the ns until the job would be done at home, as `gridcore.random_walk.walk` computes it."""
        waits: Integers = np.maximum(0, self.looks["home_free"] - self.looks["heard"])
        return waits if self.of.printed else waits + self._lasts(self.home)

    def there(self, free: Integers) -> Integers:
        """Return the ns until the result would be back from the node asked, if that is free at `free` ns."""
        waits: Integers = np.maximum(0, free - (self.looks["heard"] + self.way))
        return waits + self.way if self.of.printed else waits + self._lasts(self.node) + 2 * self.way

    def _lasts(self, nodes: Integers) -> Integers:
        return np.rint(self.work / self.of.run.speeds[nodes] * 1e9).astype(np.int64)


def note_walks(decisions: Decisions, of: Walked, looks: dict[str, Integers], unlogged: int) -> None:
    """Record the decisions in the log `looks` of a finished run, and count the `unlogged` ones.

    Parameters
    ----------
    looks
        Columns as those of `gridcore.random_walk.walk.JobWalks.looks`.
    """
    heard = Heard(of, looks)
    looks, speeds = heard.looks, of.run.speeds
    verdict, home, saw = looks["verdict"], heard.at_home() / NS, heard.there(looks["free"]) / NS
    ends = verdict >= MOVES
    age = (looks["heard"] - _asked(looks, len(speeds))) / NS
    stays = verdict == STAYS
    best = np.full(int(heard.job.max(initial=-1)) + 1, np.inf)
    fits = verdict == FITS
    np.minimum.at(best, heard.job[fits], saw[fits])
    limit = np.where(stays, best[heard.job], home)
    limit[np.isinf(limit)] = np.nan
    answers = np.bincount(heard.job[~ends], minlength=len(best))[heard.job]
    fastest = of.pick == "fastest"
    action = np.where(saw < home, "earlier", "later").astype("U8")
    action[verdict == MOVES], action[stays] = "fastest" if fastest else "moved", "stayed"
    said: dict[str, NDArray[Any]] = {
        "action": action,
        "time": looks["heard"],
        "application": heard.application,
        "task": heard.task,
        "decider": heard.home,
        "machine": np.where(stays, heard.home, heard.node),
        "tasks": np.ones_like(heard.job),
        "among": np.where(ends, answers, -1),
        "saw": np.where(stays, home, saw),
        "limit": limit,
        "true": np.where(stays, home, heard.there(looks["true_free"]) / NS),
        "age": np.where(stays, 0.0, age),
    }
    if fastest:
        _of_speed(said, action == "fastest", speeds[heard.node], speeds[heard.home])
    # a node that was passed over gets a second row, right after the first, which says why
    again = np.repeat(np.arange(len(action)), 1 + np.isin(verdict, list(_CAUSES)))
    said = {name: column[again] for name, column in said.items()}
    second = np.append(False, again[1:] == again[:-1])
    for cause, name in _CAUSES.items():
        rows = second & (verdict[again] == cause)
        said["action"][rows] = name
        if cause == SLOW:
            _of_speed(said, rows, speeds[heard.node][again], np.full(len(rows), of.min_speed))
        else:
            expected, most = _expected(of, heard, cause)
            said["saw"][rows], said["limit"][rows], said["true"][rows] = expected[again][rows], most, np.nan
    decisions.record(**said)
    decisions.dropped += unlogged


def _asked(looks: dict[str, Integers], nodes: int) -> Integers:
    """Return when each node was asked, ns; for a job that moves, when the node that it moves to was."""
    asked = looks["asked"].copy()
    moves = looks["verdict"] == MOVES
    key = looks["job"] * nodes + looks["node"]
    first = np.flatnonzero(asked >= 0)
    first = first[np.argsort(key[first], kind="stable")]
    asked[moves] = asked[first[np.searchsorted(key[first], key[moves])]]
    return asked


def _of_speed(said: dict[str, NDArray[Any]], rows: NDArray[np.bool_], speed: Floats, limit: Floats) -> None:
    """Set the values compared in these rows to speeds; true values are the same, as speeds do not change."""
    for name, column in (("saw", speed), ("limit", limit), ("true", speed)):
        said[name][rows] = column[rows]


def _expected(of: Walked, heard: Heard, cause: int) -> tuple[Floats, float]:
    """Return what ruled nodes out, as in `gridcore.random_walk.walk`, and the threshold it must be below."""
    seconds, elapsed, count = heard.way / 1e9, heard.looks["asked"] / 1e9, heard.looks["count"]
    # at time 0 a rate is infinite, and its product with a time of 0 is nan
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(count > 0, count / elapsed, 0.0)
        if cause == OTHER_JOBS:
            return rate * seconds, of.remote_threshold
        known = of.rates[heard.node]
        expected = np.where(np.isnan(known), rate, known) * seconds
        none = np.exp(-expected)
        one = np.where(np.isinf(expected), 0.0, expected * none)
    return (1.0 - none if of.rule == "at-least-one" else one), of.local_threshold
