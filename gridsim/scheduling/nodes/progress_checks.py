"""Checks that a run of node programs makes progress: errors about runs that never end, and warnings."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Any

from gridsim.errors import SchedulerError, SchedulerWarning, warn
from gridsim.scheduling.nodes.handler_errors import handler_text
from gridsim.support.clock import NS

__all__ = ["ProgressChecks", "event_text"]

#: Number of events without a queued or running task after which a run counts as endless: a constant, plus a
#: number per node, plus a number per task.
PATIENCE, PATIENCE_PER_NODE, PATIENCE_PER_TASK = 500_000, 1_000, 10
#: With `to_the_end`, factor on that number for events after the last task.
PATIENCE_TO_THE_END = 20
#: The clock crawls if there are more events per node and simulated second than the first number.  At most the
#: second number of nodes count, since a few nodes may act while all others wait.
CRAWLING_PER_SECOND, CRAWLING_NODES = 1e6, 1_000
#: A run has far more messages than tasks if it exceeds all of these numbers: in total, per task, and per
#: machine and simulated second, with a minimum number of seconds.
MANY_MESSAGES, MANY_PER_TASK, MANY_PER_SECOND, FIRST_SECONDS = 1_000_000, 100, 10, 10.0


class ProgressChecks:
    """The checks of a run: of its messages, and of its progress if its programs put tasks into queues.

    Parameters
    ----------
    adapter
        The `gridsim.scheduling.nodes.adapter.Adapter` that runs the nodes.

    Attributes
    ----------
    workload_tasks
        Number of tasks of the workload; `Adapter.total_tasks` is 0 for programs that use no queues.
    patience
        Number of events without progress after which a run counts as endless.
    failure_count
        Number of failures of machines so far, which count as events.
    """

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self.workload_tasks = int(adapter.run.applications.tasks.sum())
        # sufficient for an instant at which all tasks are submitted and all nodes request tasks
        self.window = PATIENCE + PATIENCE_PER_NODE * adapter.layout.nodes
        self.window += PATIENCE_PER_TASK * adapter.total_tasks
        self.patience: float = max(adapter.run.patience, self.window)
        self.failure_count = 0
        #: the numbers of tasks queued and done, and the number of events, at the last progress
        self.progress, self.progress_at = (0, 0), 0
        #: these numbers and the time (ns) at the beginning of the current window of `_warn_of_crawl`
        self.clock: tuple[tuple[int, int], int, int] = (0, 0), 0, 0
        #: the counts of events in the middle of that window; None before that
        self.clock_counts: dict[tuple[str, str], int] | None = None
        self.has_warned_of_storm = self.has_warned_of_crawl = False

    def check(self) -> None:
        """Raise SchedulerError if no task has been queued or run for `patience` events.

        There is no error while machines have queued tasks, or before the last release.  After the last task,
        a run with `to_the_end` may have many more events.
        """
        adapter = self.adapter
        progress = adapter.queues.enqueued, adapter.queues.tasks_done
        self._warn_of_storm()
        if adapter.total_tasks:
            self._warn_of_crawl(progress)
        events = adapter.core.events + self.failure_count
        is_complete = progress[1] >= adapter.total_tasks
        has_releases = adapter.now < adapter.run.applications.release_ns.max()
        patience = self.patience
        if is_complete:
            patience = PATIENCE_TO_THE_END * patience if adapter.total_tasks else math.inf
        if progress != self.progress or progress[0] > progress[1] or has_releases:
            self.progress, self.progress_at = progress, events
        elif events - self.progress_at > patience:
            hint = (
                "all tasks are done; omit to_the_end, or stop acting" if is_complete else adapter.unplaced()
            )
            raise SchedulerError(
                f"t = {adapter.now / NS} s: {adapter.parameters.name} seems never to end: no task was queued "
                f"or run in the last {events - self.progress_at} events"
                f"{self._most_frequent()}; {hint}; a higher events_limit allows for more"
            )

    def _most_frequent(
        self,
        sorts: Container[str] = ("message", "timer", "event"),
        old_counts: Mapping[tuple[str, str], int] = MappingProxyType({}),
    ) -> str:
        """Return a text about the most frequent event of some sorts so far, with a node and the handler.

        The text is "" if nodes have handled no such event.

        Parameters
        ----------
        old_counts
            (sort, name) -> number of earlier events, which are subtracted.
        """
        rows = [row for row in self.adapter.core.activity() if row[0] in sorts]
        rows.sort(key=lambda row: old_counts.get(row[:2], 0) - row[3])
        for sort, name, handler, _, node in rows[:1]:
            place = handler_text(self.adapter.class_of(node), handler)
            return f", most of them {event_text(sort, name)} (now at node {node}, {place})"
        return ""

    def _warn_of_storm(self) -> None:
        """Issue a warning, once, if nodes have sent far more messages than the workload has tasks."""
        run, tasks = self.adapter.run, self.workload_tasks
        sent = int(run.network.links.sent.sum())
        if sent <= MANY_MESSAGES or self.has_warned_of_storm:
            return
        machines, seconds = len(run.speeds), self.adapter.now / NS
        if sent > max(MANY_PER_TASK * tasks, MANY_PER_SECOND * machines * (seconds + FIRST_SECONDS)):
            self.has_warned_of_storm = True
            warn(
                f"t = {seconds:g} s: {self.adapter.parameters.name} has sent {sent:,} messages for "
                f"{tasks:,} tasks{self._most_frequent(['message'])}",
                SchedulerWarning,
            )

    def _warn_of_crawl(self, progress: tuple[int, int]) -> None:
        """Issue a warning, once, if the clock hardly advances for many events without progress.

        If the clock stands still, the core raises `endless_error`.
        """
        core, now, (last_progress, begin, start) = self.adapter.core, self.adapter.now, self.clock
        events, seconds = core.events - begin, (now - start) / NS
        if self.has_warned_of_crawl:
            return
        if progress == last_progress and events <= self.window:
            if self.clock_counts is None and events > self.window / 2:
                self.clock_counts = {(sort, name): count for sort, name, _, count, _ in core.activity()}
            return
        rate = CRAWLING_PER_SECOND * min(self.adapter.layout.nodes, CRAWLING_NODES)
        if progress == last_progress and 0.0 < seconds < events / rate:
            self.has_warned_of_crawl = True
            warn(
                f"t = {now / NS:g} s: {self.adapter.parameters.name}: the simulated time hardly advances: "
                f"the last {events:,} events took {seconds:.3g} s"
                f"{self._most_frequent(old_counts=self.clock_counts or {})}",
                SchedulerWarning,
            )
        self.clock, self.clock_counts = (progress, core.events, now), None

    def endless_error(
        self, events: int, count: int, sort: str, name: str, handler: str, node: int
    ) -> SchedulerError:
        """Return the error about an instant at which nodes act endlessly.

        Parameters
        ----------
        events, count
            The number of events at this instant, and the number of the latest events of the most frequent
            sort.
        sort, name, handler, node
            The most frequent sort of event, its name and handler, and a node that handled one.
        """
        remedy = {
            "timer": "set it with a time > 0",
            "message": "send it only in answer to new information",
            "event": "call view.act with a time > 0" if name == "on_act" else "enqueue a task, or do nothing",
        }[sort]
        adapter = self.adapter
        holders = adapter.unplaced()
        return SchedulerError(
            f"t = {adapter.now / NS} s: the simulated time does not advance: {events:,} events at this "
            f"instant, most of the latest ({count:,}) are {event_text(sort, name)}, now at node {node} "
            f"({handler_text(adapter.class_of(node), handler)}); {remedy}{f'; {holders}' if holders else ''}"
        )


def event_text(sort: str, name: str) -> str:
    """Return a description of a sort of event."""
    return {"message": f"messages {name!r}", "timer": f"timers {name!r}", "event": f"calls of {name}"}[sort]
