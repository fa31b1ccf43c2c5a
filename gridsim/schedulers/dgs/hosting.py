"""The machines that run jobs in DGS_ASAP: each keeps its own schedule, and commits to a job or refuses."""

from __future__ import annotations

import numpy as np

from gridcore.dgs.protocol import DONE, PLACED, REPLY
from gridsim.schedulers.dgs.state import Shared
from gridsim.support.arrays import Rows


class Hosts:
    """The part of a negotiation that runs jobs."""

    def __init__(self, negotiation: Shared) -> None:
        self.of = negotiation

    def on_commits(self, rows: Rows) -> None:
        """Answer requests to commit: a machine commits if it is free and the start is not past."""
        of, now = self.of, self.of.run.engine.now
        nodes, jobs, starts = (rows[name].copy() for name in ("node", "application", "start"))
        replies = np.empty(len(rows), REPLY)
        replies["node"], replies["sender"], replies["application"] = rows["sender"], nodes, jobs
        replies["attempt"], replies["start"], replies["taken"] = rows["attempt"], starts, 0
        timely = starts * of.slot >= now
        if not timely.all():
            nodes, jobs, starts = nodes[timely], jobs[timely], starts[timely]
        taken = of.schedules.reserve(nodes, starts, of.length[jobs], jobs, now)
        replies["taken"][timely] = taken
        if of.log is not None:
            of.log.refuses("refused-late", replies[~timely])
            of.log.refuses("refused", replies[timely][~taken])
        of.neighbourhood.changed(nodes[taken])
        of.run.network.send("reply", replies)

    def on_cancels(self, rows: Rows) -> None:
        """Release reservations that scheduling nodes cancel."""
        of, now = self.of, self.of.run.engine.now
        nodes, jobs, starts = (rows[name].copy() for name in ("node", "application", "start"))
        ends = np.where(starts * of.slot >= now, starts, of.slot_at(now))
        freed = of.schedules.release(nodes, starts, now, ends=ends, jobs=jobs)
        of.neighbourhood.changed(nodes[freed])
        if of.runs.wrecks:
            for node, job, start in zip(nodes.tolist(), jobs.tolist(), starts.tolist(), strict=True):
                of.runs.stop(job, node, start * of.slot, now)

    def on_finish(self, jobs: list[int]) -> None:
        """End jobs on all their machines, and release what they had reserved beyond that."""
        of, now = self.of, self.of.run.engine.now
        if of.flow is not None:
            of.flow.finish(now)
            if of.flow.over:
                of.run.engine.stop()
            return
        for job in jobs:
            of.runs.run_out(job, now)
            if of.phase[job] != PLACED or of.runs.end_of(job) > now:
                continue
            nodes, start = of.runs.finish(job)
            of.phase[job] = DONE
            if (start // of.slot + int(of.length[job])) * of.slot - now >= of.slot:
                end = of.slot_at(now)
                starts = np.full(len(nodes), start // of.slot)
                of.schedules.release(nodes, starts, now, ends=np.full(len(nodes), end))
                of.neighbourhood.changed(nodes)
        of.over()
