"""RJSS and its rivals as a node program: the state and the behaviour of a node of a volunteer grid.

After the paper on the "reliable node job scheduling strategy" (RJSS).  A job is released at its home node.
The dispatcher of the home asks other nodes about it, one after the other (section 6.1), and handles jobs that
are released there, and results of jobs that have run there, first come, first served (sections 7.1 and 7.2).
`gridcore.random_walk.walk` is the same system compiled, for all nodes of a grid.

Names of the paper: jobs are released at a node l at the rate lambda_l, and jobs of other nodes are scheduled
there at the rate Q_l(t); L is how long a job is on its way to another node; T_remote and T_local are the
turnarounds that are compared.  The run time of a job, and so when a node is free, is exact.  Without an
overlay the nodes that are asked are drawn uniformly, without replacement.  Where the program goes beyond the
paper, or reads it in one of several ways, docs/background/rjss.md says so.  Times are whole nanoseconds.
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from gridcore.common.state import LATEST
from gridcore.random_walk.state import FITS, OTHER_JOBS, OWN_JOBS, SLOW
from gridsim.model.applications import Application
from gridsim.scheduling.nodes.program import Message, NodeProgram, View
from gridsim.support.clock import NS

#: Rows for the result, one for each job that is back at its home; times are ns.
TABLES: dict[str, dict[str, type]] = {
    "jobs": {"application": int, "probes": int, "predicted": int, "returned": int}
}


def _data(*, data: int, **_: int) -> int:
    """Return the bytes of a job or a result."""
    return data


def messages(packet: int, probe_time: int) -> dict[str, Message]:
    """Return the kinds of messages.

    Parameters
    ----------
    packet
        Bytes of a question and of its answer.
    probe_time
        ns from a question to its answer.
    """
    there, back = Fraction(probe_time // 2, NS), Fraction(probe_time - probe_time // 2, NS)
    return {
        # a question about a job of node `home`, and its answer: packets that are not held up at interfaces.
        # The paper's answer has T_remote; here it has `free` and `speed` instead, since T_remote depends on
        # when the job would leave, which only the home knows (`remote`).
        "probe": Message(packet, delay=there, application=int, home=int),
        "load": Message(packet, delay=back, application=int, free=int, speed=float, fits=int),
        # a job, and its result, which has the same size; both queue at interfaces
        "job": Message(_data, moves_tasks=True, application=int, tasks=int, data=int),
        "result": Message(_data, application=int, data=int),
        # the paper assumes that a node knows without a message, which nobody counts, that a job has been
        # scheduled there (the sum in Q_l is over scheduled jobs, not over jobs that have arrived)
        "scheduled": Message(0, delay=0.0, counted=False, application=int),
        # on an overlay: a walk is to go on from a node; a walk came to a node that the sender knows
        "walk": Message(0, delay=0.0, counted=False, application=int, home=int, step=int),
        "passed": Message(0, delay=back, counted=False, application=int),
    }


class RjssNode(NodeProgram):
    """One node; `View.environment` is a `gridsim.schedulers.rjss.environment.RjssView`."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.free = 0  # when all jobs in the queue of this node will have run
        self.released = self.scheduled = 0  # jobs released here, and jobs of other nodes scheduled here
        # of jobs for which this node looks for a node: where its walk is, steps left and made, numbers drawn,
        # nodes asked, and the best of them (number, when free, speed)
        self.searches: dict[int, SimpleNamespace] = {}
        self.line: list[tuple[int, bool]] = []  # what waits for the dispatcher: a job, and whether it has run
        self.homes: dict[int, int] = {}  # of the jobs in the queue of this node
        self.placed: dict[int, tuple[int, int]] = {}  # of own jobs: nodes asked, wait predicted where it went
        self.seen: set[int] = set()  # jobs whose walk has come here

    # -- the dispatcher -------------------------------------------------------------------------------------

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """Let the dispatcher look for a node for a job that is released here."""
        self.released += 1
        self.dispatch(view, application.number, False)

    def on_done(self, view: View, application: Application) -> None:
        """Let the dispatcher return the result of a job that has run here."""
        self.dispatch(view, application.number, True)

    def dispatch(self, view: View, job: int, ran: bool) -> None:
        """Look for a node for `job`, or return its result, once the dispatcher is free."""
        if self.searches and self.parameters.dispatcher == "queue" and view.environment.probe_time > 0:
            self.line.append((job, ran))
        elif not ran:
            self.search(view, job)
        elif (home := self.homes.pop(job)) == view.node:
            self.back(view, job)
        else:
            view.send(home, "result", application=job, data=view.application(job).data)

    def search(self, view: View, job: int, drawn: int = 0) -> None:
        """Begin to look for a node for `job`, whose earlier searches have drawn `drawn` numbers."""
        others, steps = view.machines - 1, math.ceil(self.parameters.k * view.machines)
        if self.parameters.overlay is None or not others:
            steps = min(steps, others)  # each node is asked at most once
        self.searches[job] = SimpleNamespace(
            at=view.node, left=steps, made=0, drawn=drawn, asked={view.node}, best=None
        )
        self.go_on(view, job)

    def go_on(self, view: View, job: int) -> None:
        """Ask the next node about `job`, or decide."""
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
        """Ask `node` about `job`."""
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
        """Move `job` to the best probed node if that is better than this one, else keep it here."""
        search = self.searches.pop(job)
        best, now = search.best, view.now_ns
        if best is not None and self.parameters.pick == "fastest":
            better = best[2] > view.speed
        else:
            better = best is not None and self.remote(view, job, best, now) < self.local(view, job)
        node, free = best[:2] if better else (-1, -1)
        if view.environment.has_log:
            view.environment.log_choice(job, node, free)
        if better:
            self.placed[job] = search.made, max(0, free - (now + self.way(view, job)))
            view.send(node, "scheduled", application=job)
            view.send(node, "job", application=job, tasks=1, data=view.application(job).data)
        else:
            self.placed[job] = search.made, -1
            self.queue(view, job, view.node)
        while self.line and not self.searches:
            self.dispatch(view, *self.line.pop(0))

    def on_result(self, view: View, message: Any) -> None:
        """Take the result of a job that has run on another node."""
        self.back(view, message.application)

    def back(self, view: View, job: int) -> None:
        """Note that the result of `job` is at its home."""
        probes, predicted = self.placed.pop(job)
        view.note("jobs", application=job, probes=probes, predicted=predicted, returned=view.now_ns)

    # -- questions and answers ------------------------------------------------------------------------------

    def on_walk(self, view: View, message: Any) -> None:
        """Let a walk go on to a neighbour."""
        job, neighbours = message.application, view.environment.neighbours
        to = neighbours[view.environment.draw(job, message.step, len(neighbours))]
        view.send(to, "probe", application=job, home=message.home)

    def on_probe(self, view: View, message: Any) -> None:
        """Answer when this node will be free, unless the walk has been here before."""
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
        self.go_on(view, job)

    def on_passed(self, view: View, message: Any) -> None:
        """Let a walk go on to a neighbour of a node that was asked before."""
        self.searches[message.application].at = message.sender
        self.go_on(view, message.application)

    def on_scheduled(self, view: View, message: Any) -> None:
        """Count a job that another node has scheduled here (Q_l)."""
        self.scheduled += 1

    # -- the rule -------------------------------------------------------------------------------------------

    def judge(self, view: View, way: int) -> int:
        """Return `FITS` if few enough jobs are expected here while a job is on its way for `way`, or why not.

        The node that is asked applies the thresholds, which all nodes share, and answers with the result.
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
            expected = math.inf if elapsed == 0 else self.released / elapsed * seconds
        if rule == "at-least-one":
            probability = 1.0 - math.exp(-expected)
        else:  # exactly one
            probability = expected * math.exp(-expected) if expected < math.inf else 0.0
        if not probability < self.parameters.local_threshold:
            return OWN_JOBS
        threshold = self.parameters.remote_threshold
        if self.scheduled == 0 or threshold == math.inf:
            return FITS if threshold > 0 else OTHER_JOBS
        return FITS if self.scheduled * seconds < threshold * elapsed else OTHER_JOBS  # Q_l L < threshold

    def is_better(self, view: View, job: int, seen: tuple[int, int, float], best: Any) -> bool:
        """Return whether the latest node beats this one (pick "first") or the best earlier one."""
        pick, now = self.parameters.pick, view.now_ns
        if pick == "first":
            return self.remote(view, job, seen, now) < self.local(view, job)
        if best is None:
            return True
        if pick == "fastest":
            return bool(seen[2] > best[2])
        leaves = now + self.searches[job].left * view.environment.probe_time  # when all have answered
        return self.remote(view, job, seen, leaves) < self.remote(view, job, best, leaves)

    def remote(self, view: View, job: int, node: tuple[int, int, float], leaves: int) -> int:
        """Return T_remote of `job` on a node (number, when free, speed) for which it leaves at `leaves`.

        The wait w begins when the job arrives.  So as printed, w + L is the time until the node is free, if
        that is longer than L.
        """
        way = self.way(view, job)
        waits = max(0, node[1] - (leaves + way))
        if self.parameters.turnaround == "printed":
            return waits + way
        return waits + self.lasts(view, job, node[2]) + 2 * way

    def local(self, view: View, job: int) -> int:
        """Return T_local of `job` on this node."""
        waits = max(0, self.free - view.now_ns)
        return waits + (0 if self.parameters.turnaround == "printed" else self.lasts(view, job, view.speed))

    def way(self, view: View, job: int) -> int:
        """Return L, the time for which `job` is on its way to another node."""
        way: int = view.environment.travel_time(view.application(job).data)
        return way

    def lasts(self, view: View, job: int, speed: float) -> int:
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
        self.free = max(view.now_ns, self.free) + self.lasts(view, job, view.speed)
        view.enqueue(job, 1)
