"""Facts of a job log that are kept after it was read: its period, its names, and what its jobs state."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from gridsim.support.arrays import Floats, Integers
from gridsim.support.provenance import file_state

if TYPE_CHECKING:
    from gridsim.traces.jobs import JobLog

#: Column that groups the jobs of a log -> its field in the log, which is also its key in the header.
GROUP_FIELDS = {"user": "user", "queue": "queue", "account": "group"}


class LogFacts(NamedTuple):
    """What texts on a log need, so that they do not read it again.

    Parameters
    ----------
    state
        State of the file before the log was read.
    header
        Key -> value of the header.
    submit
        float64[n], the known submissions, ascending, s.
    has_nodes_only, has_shared_nodes
        As in `gridsim.traces.jobs.JobLog`.
    has_node_counts
        Whether the log states how many nodes jobs had.
    has_requests
        Whether a job has a requested time.
    followers
        int64, the numbers of the jobs with preceding ones.
    unfinished_jobs
        Numbers of the jobs that were waiting or running at the end of the log, as text; "" if there are none.
    """

    state: Any
    header: dict[str, str]
    submit: Floats
    has_nodes_only: bool
    has_shared_nodes: bool
    has_node_counts: bool
    has_requests: bool
    followers: Integers
    unfinished_jobs: str

    @property
    def names(self) -> dict[str, dict[int, str]]:
        """Column -> number -> name of the users, queues and accounts that the header lists."""
        from gridsim.traces.jobs import listed_names

        return {name: listed_names(self.header, field.capitalize()) for name, field in GROUP_FIELDS.items()}

    @property
    def unix_start(self) -> float:
        """The UNIX time (s) at which the clock of the log begins; NaN if the header does not state it."""
        from gridsim.traces.jobs import unix_start

        return unix_start(self.header)

    def period(self, start: float, end: float) -> tuple[float, float] | None:
        """Return the UNIX times (s) of the first and the last submission in a window; None if unknown."""
        begin, submissions = self.unix_start, self._submissions(start, end)
        if submissions is None or not math.isfinite(begin):
            return None
        first, last = submissions
        return begin + first, begin + last

    def dates(self, start: float, end: float) -> tuple[str, str] | None:
        """Return the dates of the first and the last submission in a window; None if unknown."""
        from gridsim.traces.jobs import date_at

        dates = [date_at(self.header, time) for time in self._submissions(start, end) or ()]
        known = [date.date().isoformat() for date in dates if date is not None]
        return (known[0], known[1]) if len(known) == 2 else None

    def _submissions(self, start: float, end: float) -> tuple[float, float] | None:
        """Return the first and the last submission (s) in a window; None if there is none.

        Parameters
        ----------
        start, end
            The window, s after the first submission of the log.
        """
        elapsed = self.submit - self.submit.min(initial=math.inf)
        submit = self.submit[(elapsed >= start) & (elapsed < end)]
        return (float(submit[0]), float(submit[-1])) if len(submit) else None


#: Path -> facts of the logs that were read last.
_FACTS: dict[str, LogFacts] = {}
_MAX_FACTS = 16


def read_log(path: str) -> tuple[JobLog, LogFacts]:
    """Return the job log in a file, and its facts, which are kept."""
    from gridsim.traces.info import load_jobs

    state = file_state(path)
    log = load_jobs(path)
    submit = log.jobs["submit"]
    facts = LogFacts(
        state=state,
        header=log.header,
        submit=submit[submit >= 0],
        has_nodes_only=log.has_nodes_only,
        has_shared_nodes=log.has_shared_nodes,
        has_node_counts=len(log.node_counts) > 0,
        has_requests=bool((log.jobs["req_time"] > 0).any()),
        followers=log.jobs["job"][log.jobs["preceding"] > 0],
        unfinished_jobs=" and ".join(f"{count} {kind}" for kind, count in log.unfinished_jobs.items()),
    )
    _FACTS.pop(path, None)
    _FACTS[path] = facts
    for earlier in list(_FACTS)[:-_MAX_FACTS]:
        _FACTS.pop(earlier, None)
    return log, facts


def log_facts(path: str) -> LogFacts:
    """Return the facts of a log, which is read again only if its file has changed."""
    facts = _FACTS.get(path)
    if facts is None or facts.state is None or facts.state != file_state(path):
        _, facts = read_log(path)
    return facts
