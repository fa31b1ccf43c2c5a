"""Releases of applications in a run, which may follow the ends of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gridcore.common.release_queue import ReleaseQueue
from gridsim.engine.engine import Engine
from gridsim.model.applications import Applications
from gridsim.support.clock import NEVER, NS
from gridsim.support.state import Stateful


class Releases(Stateful):
    """Handler of releases, which passes them to the policy and counts them for the progress bar.

    If applications are released after others have ended, it is a source of the engine, unless the policy
    takes the releases itself.

    Parameters
    ----------
    applications
        The applications with their stated releases.

    Attributes
    ----------
    queue
        The releases, if some follow the ends of other applications; else None.
    """

    STATE = ("count", "queue")

    def __init__(self, applications: Applications) -> None:
        self.count = 0
        self.submit: Callable[[list[int]], None] | None
        self.queue: ReleaseQueue | None = None
        if applications.predecessors is not None:
            assert applications.predecessor_offsets is not None and applications.think_time is not None
            self.queue = ReleaseQueue(
                applications.release_ns,
                applications.predecessors,
                applications.predecessor_offsets,
                np.rint(applications.think_time * NS).astype(np.int64),
            )

    def actual(self, applications: Applications) -> Applications:
        """Return the applications with releases that change when they happen, if they follow ends."""
        if self.queue is None:
            return applications
        return replace(applications, release=self.queue.release_seconds, release_ns=self.queue.release)

    def release(self, applications: list[int]) -> None:
        self.count = applications[-1] + 1 if self.queue is None else self.count + len(applications)
        if self.submit is not None:
            self.submit(applications)

    def advance(self, limit: int) -> int:
        """Return the next release that is known, ns; NEVER if it is after `limit`."""
        assert self.queue is not None
        due = self.queue.next_release()
        return due if due <= limit else NEVER

    def collect(self, engine: Engine, time: int) -> None:
        assert self.queue is not None
        for application in self.queue.take(time):
            engine.at(time, "release", application)

    def close(self, now: int) -> None:
        """Release the applications that are not released by the end of the run, `now` (ns)."""
        if self.queue is not None:
            self.queue.close(now)
