"""The options of a run, which are arguments of `simulate`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, get_args

from gridsim.engine.transport import MAX_MESSAGES, MESSAGES_LIMIT
from gridsim.errors import ScenarioError
from gridsim.results.decisions import DECISIONS_LIMIT
from gridsim.scheduling.contract import NodeForm
from gridsim.scheduling.nodes.diary import DIARY_LIMIT
from gridsim.scheduling.nodes.observe import Observe, checked_nodes
from gridsim.support.arguments import entries_of, normalise, real, short_repr
from gridsim.support.parameters import CheckedStruct, Limits

#: The names of the recordings of a run.
Recording = Literal["schedule", "decisions", "messages", "events"]
Record = bool | Recording | Literal["all"] | Iterable[Recording]
_RECORDINGS: tuple[Recording, ...] = get_args(Recording)
#: The recordings that ``record="all"`` adds, without events, which take too long.
_FAST_RECORDINGS = tuple(name for name in _RECORDINGS if name != "events")
_Count = Annotated[int, Limits(low=1)]
_Processors = Annotated[int, Limits(low=1, high=1024)]


class Options(CheckedStruct, frozen=True, kw_only=True):
    """The options of a run, which are arguments of `simulate`.

    They do not change the result, but a run that exceeds a limit of time or events raises an error.

    Parameters
    ----------
    cohort_limit
        Maximum number of rows in one call of a handler; None for no limit.  The result does not depend on it.
    threads
        Number of threads that the kernels may use if many machines act at one instant, as with equal delays.
        The result does not depend on it.
    processes
        Number of processes that share the run, each with some of the machines.  Only runs of the fair tree
        without failures and without records can be shared; it pays from about 10,000 machines on.  A script
        with several processes must have its code under ``if __name__ == "__main__":``.  The result does not
        depend on it.
    nodes
        Form in which the nodes of a decentralized scheduler run.  ``"interpreted"``: its node program, whose
        handlers are Python methods; ``"compiled"``: its compiled protocol; None: the fastest one that the
        scheduler has.  ``"python"`` is for reading and debugging: a core in plain Python
        (`gridsim.scheduling.nodes.python_core`) calls the node program, so that a debugger steps through all
        of it; it takes many times longer.  The result does not depend on it.
    time_limit
        Simulated time, s, by which the run must have ended, including actions of nodes after the last task;
        None for no limit.  Only failures can make a run endless, if machines never stay up for the duration
        of a task.
    events_limit
        Approximate number of events (messages, timers and so on) after which the run is stopped, since the
        scheduler seems to be endless; None for no limit.  Compiled protocols do not count their events.
        Without it, a run of node programs is stopped after half a million events, and a thousand for each
        node, in which no task was queued or run.
    record
        The additional tables to record.  True or ``"schedule"`` adds ``schedule`` and ``arrivals``, the
        executions and arrivals of tasks.  ``"decisions"`` adds ``decisions``, for `Result.why`.
        ``"messages"`` adds ``message_log``, with one row per message between machines.  ``"events"`` adds
        ``diary``, for `Result.diary`: each handler call of the nodes `record_nodes`, with its arguments, sent
        messages, timers and changed attributes; it requires node programs.  A list of these names adds
        several; ``"all"`` adds all that the scheduler supports, except events.  The digest does not depend on
        it.
    decisions_limit
        Maximum number of recorded decisions; later ones are only counted.
    messages_limit
        Maximum number of recorded messages; later ones are only counted.
    diary_limit
        Maximum number of recorded handler calls; later ones are only counted.
    record_nodes
        The nodes of which ``record="events"`` writes the diaries; None for all.
    observe
        The attributes of nodes to sample at regular instants, for `Result.observed`; None for none.  It
        requires node programs.  The digest does not depend on it.
    """

    cohort_limit: _Count | None = None
    threads: _Processors = 1
    processes: _Processors = 1
    nodes: NodeForm | None = None
    time_limit: Annotated[float, Limits(above=0, unit="s")] | None = None
    events_limit: _Count | None = None
    record: Any = False
    decisions_limit: _Count = DECISIONS_LIMIT
    messages_limit: Annotated[int, Limits(low=1, high=MAX_MESSAGES)] = MESSAGES_LIMIT
    record_nodes: Any = None
    diary_limit: _Count = DIARY_LIMIT
    observe: Any = None

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """The names of the recordings, in the order of `Recording`."""
        if self.record == "all":
            return _FAST_RECORDINGS
        if isinstance(self.record, tuple):
            return self.record
        recording = "schedule" if self.record is True else self.record
        return tuple(name for name in _RECORDINGS if name == recording)

    def __post_init__(self) -> None:
        super().__post_init__()
        normalise(self, record=_checked_record(self.record))
        normalise(self, record_nodes=checked_nodes("record_nodes", self.record_nodes))
        if self.record_nodes is not None and "events" not in self.recordings:
            raise ScenarioError(f'record_nodes requires record="events", got record={self.record!r}')
        if isinstance(self.observe, dict):  # the value comes from a checkpoint
            normalise(self, observe=Observe(**self.observe))
        if not isinstance(self.observe, Observe | None):
            raise ScenarioError(f"observe must be an Observe, got {short_repr(self.observe)}")

    def to_plain(self) -> dict[str, Any]:
        """Return the options as plain values; raise ScenarioError if a column of `observe` is a function."""
        plain = {name: getattr(self, name) for name in self.__struct_fields__}
        return plain | {"observe": None if self.observe is None else self.observe.to_plain()}


def _checked_record(record: Any) -> Any:
    """Check the argument `record` and return it; names become a tuple in the order of `_RECORDINGS`."""
    names = (*_RECORDINGS, "all")
    if isinstance(record, Iterable) and not isinstance(record, str):
        record = tuple(entries_of(record))
        if all(name in _RECORDINGS for name in record):
            return tuple(name for name in _RECORDINGS if name in record)
    elif record in (choices := (False, True, *names)):
        return choices[choices.index(record)]
    raise ScenarioError(
        f"record must be one of False, True, {', '.join(map(repr, names))}, or several of "
        f"{', '.join(map(repr, _RECORDINGS))}, got {record!r}"
    )


def checked_limit(time_limit: Any) -> float | None:
    """Return `time_limit` as a float or None; raise ScenarioError if it is not positive."""
    return None if time_limit is None else real("time_limit", time_limit, above=0, unit="s")
