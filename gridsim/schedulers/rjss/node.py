"""RJSS and its competitors as a node program: the state and behaviour of a node of a volunteer grid.

After the paper on the "reliable node job scheduling strategy" (RJSS).  A job is released at its home node.
The dispatcher of the home probes other nodes for it, one after the other (section 6.1).  It handles jobs that
are released there, and results of jobs that have run there, first come, first served (sections 7.1 and 7.2).
`gridcore.random_walk.walk` is the compiled form, for all nodes of a grid.

Names of the paper: jobs are released at a node l at the rate lambda_l, and jobs of other nodes are scheduled
there at the rate Q_l(t); L is the travel time of a job to another node; T_remote and T_local are the
turnarounds that are compared.  Run times of jobs are known exactly, and so are the times at which nodes are
free.  A node with several cores has one queue, and is free for a job as soon as one core is.  Its rates are
per core.  Without an overlay, the nodes to probe are drawn uniformly, without replacement.
docs/background/rjss.md lists additions to the paper and interpretations of it.  Times are whole nanoseconds.
"""

from __future__ import annotations

import heapq
import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from gridcore.common.state import LATEST
from gridcore.random_walk.state import FITS, OTHER_JOBS, OWN_JOBS, SLOW
from gridsim.model.applications import Application
from gridsim.scheduling.nodes.program import Message, NodeProgram, View
from gridsim.support.clock import NS

#: Table for the result, with a row for each job whose result has returned to its home; times are ns.
TABLES: dict[str, dict[str, type]] = {
    "jobs": {"application": int, "probes": int, "predicted": int, "returned": int}
}


def _data(*, data: int, **_: int) -> int:
    """Return the size of a job or a result, bytes."""
    return data


def messages(packet: int, probe_time: int) -> dict[str, Message]:
    """Return the kinds of messages.

    Parameters
    ----------
    packet
        Size of a probe and of its answer, bytes.
    probe_time
        Time from a probe to its answer, ns.
    """
    probe_delay, answer_delay = Fraction(probe_time // 2, NS), Fraction(probe_time - probe_time // 2, NS)
    return {
        # A probe for a job of node `home`, and its answer: packets that do not queue at interfaces.  The
        # paper's answer has T_remote.  Here it has `free` and `speed` instead, since T_remote depends on when
        # the job would leave, which only the home knows (`remote_turnaround`).
        "probe": Message(packet, delay=probe_delay, application=int, home=int),
        "load": Message(packet, delay=answer_delay, application=int, free=int, speed=float, fits=int),
        # a job, and its result, which has the same size; both queue at interfaces
        "job": Message(_data, moves_tasks=True, application=int, tasks=int, data=int),
        "result": Message(_data, application=int, data=int),
        # The paper assumes that a node knows at once which jobs have been scheduled there (the sum in Q_l is
        # over scheduled jobs, not over arrived ones), so this message takes no time and is not counted.
        "scheduled": Message(0, delay=0.0, counted=False, application=int),
        # on an overlay: "walk" continues a walk from a node; "passed" reports a node visited before
        "walk": Message(0, delay=0.0, counted=False, application=int, home=int, step=int),
        "passed": Message(0, delay=answer_delay, counted=False, application=int),
    }


class RjssNode(NodeProgram):
    """One node; `View.environment` is a `gridsim.schedulers.rjss.environment.RjssView`."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.free = 0  # time at which a core can start a job after all jobs in the queue of this node
        self.core_ends: list[int] = []  # heap of the times at which the cores will have run these jobs
        self.released = self.scheduled = 0  # jobs released here, and jobs of other nodes scheduled here
        # searches of this node by job: position of the walk, steps left and made, random numbers drawn, nodes
        # probed, and the best of them (number, time at which it is free, speed)
        self.searches: dict[int, SimpleNamespace] = {}
        self.line: list[tuple[int, bool]] = []  # jobs that wait for the dispatcher, and whether they have run
        self.homes: dict[int, int] = {}  # job in the queue of this node -> its home
        self.placed: dict[int, tuple[int, int]] = {}  # own job -> probed nodes, predicted wait
        self.seen: set[int] = set()  # jobs whose walk has visited this node

    def on_start(self, view: View) -> None:
        """Count the cores, which are idle."""
        self.core_ends = [0] * view.cores

    # -- the dispatcher -------------------------------------------------------------------------------------

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """Pass a job that is released here to the dispatcher, which finds a node for it."""
        self.released += 1
        self.dispatch(view, application.number, False)

    def on_done(self, view: View, application: Application) -> None:
        """Pass a job that has run here to the dispatcher, which returns its result."""
        self.dispatch(view, application.number, True)

    def dispatch(self, view: View, job: int, ran: bool) -> None:
        """Begin the search for a node for `job`, or return its result; wait if the dispatcher is busy."""
        if self.searches and self.parameters.dispatcher == "queue" and view.environment.probe_time > 0:
            self.line.append((job, ran))
        elif not ran:
            self.search(view, job)
        elif (home := self.homes.pop(job)) == view.node:
            self.record_return(view, job)
        else:
            view.send(home, "result", application=job, data=view.application(job).data)

    def search(self, view: View, job: int, drawn: int = 0) -> None:
        """Begin the search for a node for `job`, whose earlier searches have drawn `drawn` random numbers."""
        others, steps = view.machines - 1, math.ceil(self.parameters.k * view.machines)
        if self.parameters.overlay is None or not others:
            steps = min(steps, others)  # each node is probed at most once
        self.searches[job] = SimpleNamespace(
            at=view.node, left=steps, made=0, drawn=drawn, asked={view.node}, best=None
        )
        self.continue_search(view, job)

    def continue_search(self, view: View, job: int) -> None:
        """Probe the next node for `job`, or decide."""
        search = self.searches[job]
        if not search.left or (self.parameters.pick == "first" and self.is_found(view, job)):
            self.decide(view, job)
            return
        search.left -= 1
        search.made += 1
        if self.parameters.overlay is not None:
            step = search.made - 1
            view.send(search.at, "walk", application=job, home=view.node, step=step)
            return
        while (node := self.draw(view, job)) in search.asked:
            pass
        search.asked.add(node)
        self.ask(view, job, node)

    def ask(self, view: View, job: int, node: int) -> None:
        """Probe `node` for `job`."""
        view.send(node, "probe", application=job, home=view.node)

    def is_found(self, view: View, job: int) -> bool:
        """Return whether a good enough node for `job` has been found."""
        return self.searches[job].best is not None

    def draw(self, view: View, job: int) -> int:
        """Draw one of the other nodes."""
        search = self.searches[job]
        node: int = view.environment.draw(job, search.drawn, view.machines - 1)
        search.drawn += 1
        return node + (node >= view.node)

    def decide(self, view: View, job: int) -> None:
        """Move `job` to the best probed node if that is better than this one; otherwise keep it here."""
        search = self.searches.pop(job)
        best, now = search.best, view.now_ns
        if best is not None and self.parameters.pick == "fastest":
            is_better = best[2] > view.speed
        else:
            is_better = best is not None and self.remote_turnaround(
                view, job, best, now
            ) < self.local_turnaround(view, job)
        node, free = best[:2] if is_better else (-1, -1)
        if view.environment.has_log:
            view.environment.log_choice(job, node, free)
        if is_better:
            self.placed[job] = search.made, max(0, free - (now + self.way(view, job)))
            view.send(node, "scheduled", application=job)
            view.send(node, "job", application=job, tasks=1, data=view.application(job).data)
        else:
            self.placed[job] = search.made, -1
            self.queue(view, job, view.node)
        while self.line and not self.searches:
            self.dispatch(view, *self.line.pop(0))

    def on_result(self, view: View, message: Any) -> None:
        """Receive the result of a job that has run on another node."""
        self.record_return(view, message.application)

    def record_return(self, view: View, job: int) -> None:
        """Record that the result of `job` has returned to its home."""
        probes, predicted = self.placed.pop(job)
        view.note("jobs", application=job, probes=probes, predicted=predicted, returned=view.now_ns)

    # -- probes and answers ---------------------------------------------------------------------------------

    def on_walk(self, view: View, message: Any) -> None:
        """Forward a walk to a random neighbour."""
        job, neighbours = message.application, view.environment.neighbours
        neighbour = neighbours[view.environment.draw(job, message.step, len(neighbours))]
        view.send(neighbour, "probe", application=job, home=message.home)

    def on_probe(self, view: View, message: Any) -> None:
        """Answer a probe with the time at which this node is free, unless the walk has been here before."""
        job, home = message.application, message.home
        if self.parameters.overlay is not None:
            if home == view.node or job in self.seen:
                view.send(home, "passed", application=job)
                return
            self.seen.add(job)
        verdict = self.judge(view, self.way(view, job))
        if view.environment.has_log:
            view.environment.log_question(job, verdict)
        fits = int(verdict == FITS)
        view.send(home, "load", application=job, free=self.free, speed=view.speed, fits=fits)

    def on_load(self, view: View, message: Any) -> None:
        """Compare the answering node with the best one so far."""
        job, search = message.application, self.searches[message.application]
        search.at, seen = message.sender, (message.sender, message.free, message.speed)
        if view.environment.has_log:
            view.environment.log_answer(job)
        if message.fits and self.is_better(view, job, seen, search.best):
            search.best = seen
        self.continue_search(view, job)

    def on_passed(self, view: View, message: Any) -> None:
        """Continue a walk from a node that it had visited before."""
        self.searches[message.application].at = message.sender
        self.continue_search(view, message.application)

    def on_scheduled(self, view: View, message: Any) -> None:
        """Count a job that another node has scheduled here (Q_l)."""
        self.scheduled += 1

    # -- the rule -------------------------------------------------------------------------------------------

    def judge(self, view: View, way: int) -> int:
        """Return `FITS`, or the reason to reject a job that travels here for `way` ns.

        The probed node applies the thresholds, which all nodes share, and answers with the result.
        """
        seconds, elapsed, rule, rate = way / NS, view.now, self.parameters.rule, view.environment.rate
        if view.speed < self.parameters.least_speed:
            return SLOW
        if rule == "none":
            return FITS
        expected = 0.0  # lambda_l L
        if seconds > 0 and not math.isnan(rate):
            expected = rate * seconds
        elif seconds > 0 and self.released:
            expected = math.inf if elapsed == 0 else self.released / elapsed * seconds / view.cores
        if rule == "at-least-one":
            probability = 1.0 - math.exp(-expected)
        else:  # exactly one
            probability = expected * math.exp(-expected) if expected < math.inf else 0.0
        if not probability < self.parameters.local_threshold:
            return OWN_JOBS
        threshold = self.parameters.remote_threshold
        if self.scheduled == 0 or threshold == math.inf:
            return FITS if threshold > 0 else OTHER_JOBS
        # Q_l L < threshold
        return FITS if self.scheduled * seconds < threshold * elapsed * view.cores else OTHER_JOBS

    def is_better(self, view: View, job: int, seen: tuple[int, int, float], best: Any) -> bool:
        """Return whether the latest node beats this one (pick "first") or the best earlier node."""
        pick, now = self.parameters.pick, view.now_ns
        if pick == "first":
            return self.remote_turnaround(view, job, seen, now) < self.local_turnaround(view, job)
        if best is None:
            return True
        if pick == "fastest":
            return bool(seen[2] > best[2])
        # the job leaves when all nodes have answered
        leaves = now + self.searches[job].left * view.environment.probe_time
        return self.remote_turnaround(view, job, seen, leaves) < self.remote_turnaround(
            view, job, best, leaves
        )

    def remote_turnaround(self, view: View, job: int, node: tuple[int, int, float], leaves: int) -> int:
        """Return T_remote of `job` if it leaves at `leaves` for `node` (number, free time, speed).

        The wait w begins when the job arrives.  So in the paper's formula, w + L is the time until the node
        is free, if that is longer than L.
        """
        way = self.way(view, job)
        waits = max(0, node[1] - (leaves + way))
        if self.parameters.turnaround == "printed":
            return waits + way
        return waits + self.run_time(view, job, node[2]) + 2 * way

    def local_turnaround(self, view: View, job: int) -> int:
        """Return T_local of `job` on this node."""
        waits = max(0, self.free - view.now_ns)
        return waits + (
            0 if self.parameters.turnaround == "printed" else self.run_time(view, job, view.speed)
        )

    def way(self, view: View, job: int) -> int:
        """Return the travel time L of `job` to another node."""
        way: int = view.environment.travel_time(view.application(job).data)
        return way

    def run_time(self, view: View, job: int, speed: float) -> int:
        """Return the run time of `job` at `speed`."""
        length: int = round(min(view.application(job).size / speed * NS, LATEST))
        return length

    # -- first come, first served ---------------------------------------------------------------------------

    def on_job(self, view: View, message: Any) -> None:
        """Queue a job of another node."""
        self.queue(view, message.application, message.sender)

    def queue(self, view: View, job: int, home: int) -> None:
        """Run `job` after all other jobs in the queue of this node."""
        self.homes[job] = home
        self.reserve(view, job)
        view.enqueue(job, 1)

    def reserve(self, view: View, job: int) -> None:
        """Add the run time of `job` to the core that is free first."""
        start = max(view.now_ns, self.free)
        heapq.heapreplace(self.core_ends, start + self.run_time(view, job, view.speed))
        self.free = self.core_ends[0]
