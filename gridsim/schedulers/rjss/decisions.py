"""Records of the decisions of RJSS and its competitors, from a log of probes, answers and moves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.random_walk.state import FITS, MOVES, OTHER_JOBS, OWN_JOBS, PROBE_COLUMNS, SLOW, STAYS
from gridsim.results.decisions import Decisions, DecisionTexts
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NS
from gridsim.support.state import Stateful

_TURNAROUND = "a turnaround of", "s"
STAY: DecisionTexts = {"stayed": ("kept it, after {among} answers", *_TURNAROUND)}
#: Texts of the decisions (`Scheduler.decision_words`).
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
#: Texts of the decisions in runs with owner absences.
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


class SearchLog(Stateful):
    """The log of the nodes' probes, answers and moves, as in `gridcore.random_walk.walk.JobWalks.probe_rows`.

    Its true values, such as the time at which a node is really free, are not visible to other nodes.

    Parameters
    ----------
    limit
        Maximum number of rows; 0 for no log.

    Attributes
    ----------
    rows
        The rows, each with the columns `PROBE_COLUMNS`.
    pending
        Job -> its row that has no answer yet.
    left_out
        Number of rows omitted because of the limit.
    """

    STATE = ("rows", "pending", "left_out")

    def __init__(self, limit: int) -> None:
        self.limit, self.left_out = limit, 0
        self.rows: list[list[int]] = []
        self.pending: dict[int, int] = {}

    def add_question(self, adapter: Any, node: int, job: int, verdict: int) -> None:
        """Log that `node` was asked about `job`, with its verdict."""
        program = adapter.nodes[node]
        count = {OWN_JOBS: program.released, OTHER_JOBS: program.scheduled}.get(verdict, 0)
        row = dict(node=node, asked=adapter.core.now, verdict=verdict, free=program.free, count=count)
        if self._add(job=job, heard=-1, home_free=-1, true_free=-1, **row):
            self.pending[job] = len(self.rows) - 1

    def add_answer(self, adapter: Any, home: int, job: int) -> None:
        """Log the arrival of the answer about `job` at its home."""
        if (row := self.pending.pop(job, None)) is not None:
            answer = dict(zip(PROBE_COLUMNS, self.rows[row], strict=True))
            free, true_free = (adapter.nodes[node].free for node in (home, answer["node"]))
            answer |= {"heard": adapter.core.now, "home_free": free, "true_free": true_free}
            self.rows[row] = [answer[name] for name in PROBE_COLUMNS]

    def add_choice(self, adapter: Any, home: int, job: int, node: int, free: int) -> None:
        """Log that `job` moves to `node`, which by its home's knowledge is free at `free`, or stays (-1)."""
        now, home_free = adapter.core.now, adapter.nodes[home].free
        verdict, true_free = (STAYS, -1) if node < 0 else (MOVES, adapter.nodes[node].free)
        row = dict(heard=now, home_free=home_free, verdict=verdict, true_free=true_free)
        self._add(job=job, node=node, asked=-1, free=free, count=0, **row)

    def _add(self, **row: int) -> bool:
        """Add a row, and return whether there was room for it."""
        if len(self.rows) == self.limit:
            self.left_out += 1
            return False
        self.rows.append([row[name] for name in PROBE_COLUMNS])
        return True

    def columns(self) -> dict[str, Integers]:
        """Return the rows as int64 columns."""
        rows: Any = np.array(self.rows, np.int64).reshape(-1, len(PROBE_COLUMNS)).T
        return dict(zip(PROBE_COLUMNS, rows, strict=True))


class LoggedSearches:
    """Rows of a search log, each with its job, its nodes and their predicted turnarounds.

    Parameters
    ----------
    environment
        The `gridsim.schedulers.rjss.environment.RjssEnvironment` of the finished run.
    probes
        Columns of `gridcore.random_walk.walk.JobWalks.probe_rows`.
    """

    def __init__(self, environment: Any, probes: dict[str, Integers]) -> None:
        self.probes, self.job, self.node = probes, probes["job"], probes["node"]
        tasks, jobs = environment.tasks, environment.tasks.applications
        self.speeds: Floats = environment.run.speeds
        self.is_printed = environment.parameters.turnaround == "printed"
        self.application = tasks.numbers[self.job]
        self.task = self.job - tasks.offsets[self.application]
        self.home: Integers = jobs.submitter[self.job]
        self.work: Floats = jobs.size[self.job]
        data = np.zeros(len(self.job)) if jobs.data is None else jobs.data[self.job]
        carried = np.rint(data / environment.bandwidth * 1e9).astype(np.int64)
        #: Travel time of each job to another machine, ns.
        self.way: Integers = environment.latency + carried

    def turnaround_at_home(self) -> Integers:
        """Return the turnaround of each job at home, ns, as `gridcore.random_walk.walk` computes it."""
        waits: Integers = np.maximum(0, self.probes["home_free"] - self.probes["heard"])
        return waits if self.is_printed else waits + self._run_times(self.home)

    def turnaround_away(self, free: Integers) -> Integers:
        """Return the turnaround of each job at its probed node, ns, if that node is free at `free` ns."""
        waits: Integers = np.maximum(0, free - (self.probes["heard"] + self.way))
        return waits + self.way if self.is_printed else waits + self._run_times(self.node) + 2 * self.way

    def _run_times(self, nodes: Integers) -> Integers:
        return np.rint(self.work / self.speeds[nodes] * 1e9).astype(np.int64)


def note_walks(decisions: Decisions, environment: Any, probes: dict[str, Integers], left_out: int) -> None:
    """Record the decisions in the log `probes` of a finished run, and count the `left_out` decisions.

    Parameters
    ----------
    probes
        Columns like those of `gridcore.random_walk.walk.JobWalks.probe_rows`.
    """
    searches, parameters = LoggedSearches(environment, probes), environment.parameters
    speeds = searches.speeds
    verdict, home, saw = (
        probes["verdict"],
        searches.turnaround_at_home() / NS,
        searches.turnaround_away(probes["free"]) / NS,
    )
    ends = verdict >= MOVES
    age = (probes["heard"] - _question_times(probes, len(speeds))) / NS
    stays = verdict == STAYS
    best = np.full(int(searches.job.max(initial=-1)) + 1, np.inf)
    fits = verdict == FITS
    np.minimum.at(best, searches.job[fits], saw[fits])
    limit = np.where(stays, best[searches.job], home)
    limit[np.isinf(limit)] = np.nan
    answers = np.bincount(searches.job[~ends], minlength=len(best))[searches.job]
    fastest = parameters.pick == "fastest"
    action = np.where(saw < home, "earlier", "later").astype("U8")
    action[verdict == MOVES], action[stays] = "fastest" if fastest else "moved", "stayed"
    columns: dict[str, NDArray[Any]] = {
        "action": action,
        "time": probes["heard"],
        "application": searches.application,
        "task": searches.task,
        "decider": searches.home,
        "machine": np.where(stays, searches.home, searches.node),
        "tasks": np.ones_like(searches.job),
        "among": np.where(ends, answers, -1),
        "saw": np.where(stays, home, saw),
        "limit": limit,
        "true": np.where(stays, home, searches.turnaround_away(probes["true_free"]) / NS),
        "age": np.where(stays, 0.0, age),
    }
    if fastest:
        _set_speeds(columns, action == "fastest", speeds[searches.node], speeds[searches.home])
    # a rejected node has a second row with the reason, right after the first
    repeats = np.repeat(np.arange(len(action)), 1 + np.isin(verdict, list(_CAUSES)))
    columns = {name: column[repeats] for name, column in columns.items()}
    second = np.append(False, repeats[1:] == repeats[:-1])
    for cause, name in _CAUSES.items():
        rows = second & (verdict[repeats] == cause)
        columns["action"][rows] = name
        if cause == SLOW:
            _set_speeds(
                columns, rows, speeds[searches.node][repeats], np.full(len(rows), parameters.least_speed)
            )
        else:
            expected, most = _expected_jobs(environment, searches, cause)
            columns["saw"][rows], columns["limit"][rows], columns["true"][rows] = (
                expected[repeats][rows],
                most,
                np.nan,
            )
    decisions.record(**columns)
    decisions.dropped += left_out


def _question_times(probes: dict[str, Integers], nodes: int) -> Integers:
    """Return the time at which each node was probed, ns; for a job that moves, its new node."""
    times = probes["asked"].copy()
    moves = probes["verdict"] == MOVES
    key = probes["job"] * nodes + probes["node"]
    asked_rows = np.flatnonzero(times >= 0)
    asked_rows = asked_rows[np.argsort(key[asked_rows], kind="stable")]
    times[moves] = times[asked_rows[np.searchsorted(key[asked_rows], key[moves])]]
    return times


def _set_speeds(
    columns: dict[str, NDArray[Any]], rows: NDArray[np.bool_], speed: Floats, limit: Floats
) -> None:
    """Set the compared values of these rows to speeds, which are also the true values."""
    for name, column in (("saw", speed), ("limit", limit), ("true", speed)):
        columns[name][rows] = column[rows]


def _expected_jobs(environment: Any, searches: LoggedSearches, cause: int) -> tuple[Floats, float]:
    """Return the expected jobs that excluded nodes, as in `gridcore.random_walk.walk`, and their limit."""
    parameters = environment.parameters
    seconds, elapsed, count = searches.way / 1e9, searches.probes["asked"] / 1e9, searches.probes["count"]
    # at time 0 a rate is infinite, and its product with a time of 0 is NaN
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(count > 0, count / elapsed, 0.0) / environment.cores[searches.node]
        if cause == OTHER_JOBS:
            return rate * seconds, parameters.remote_threshold
        stated_rates = environment.rates[searches.node]
        expected = np.where(np.isnan(stated_rates), rate, stated_rates) * seconds
        none = np.exp(-expected)
        one = np.where(np.isinf(expected), 0.0, expected * none)
    return (1.0 - none if parameters.rule == "at-least-one" else one), parameters.local_threshold
