"""RJSS and resource exclusion with owner absences, as a node program.

A `VolunteerNode` is an `RjssNode` with an owner.  While the owner is there the node runs no job, but it can
be reached: its dispatcher works.  The differences from `gridsim.schedulers.rjss.node` are:

- The answer of a node has a prediction of the return of its owner, and the rule prefers nodes where the job
  would end before that.  The node predicts it from the owner's past absences.
- When the owner returns, the jobs on the node leave.  This node or the home of the job searches for another
  node, and the job continues with its completed work or begins anew.
- A job that finds no node while the owner is there waits, and the search is repeated at intervals.

Times are whole nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gridcore.common.state import LATEST
from gridcore.random_walk.state import FITS
from gridsim.model.applications import Application
from gridsim.schedulers.rjss.node import RjssNode, messages
from gridsim.scheduling.availability_prediction import add_up_time, predicted_end
from gridsim.scheduling.nodes.program import Message, View
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.support.state import kept_in_checkpoints

#: Tables for the result: a row for each run of a job on a node (`completed` is 0 if the owner returned), and
#: a row for each job whose result has returned.  Times are ns.
TABLES: dict[str, dict[str, type]] = {
    "runs": {
        **dict.fromkeys(("machine", "application", "start", "end", "completed"), int),
        "begin": float,  # work done in earlier runs, Mflop
        **dict.fromkeys(("arrived", "probes", "predicted"), int),
    },
    "results": {"application": int, "returned": int},
}
#: A probed node: its number, the time at which it is free, its speed, the predicted return of its owner, and
#: the arrival time of its answer.
Offer = tuple[int, int, float, int, int]


def volunteer_messages(packet: int, probe_time: int) -> dict[str, Message]:
    """Return the kinds of messages, with the arguments of `gridsim.schedulers.rjss.node.messages`."""

    def data(*, data: int, **_: int) -> int:
        return data

    kinds = messages(packet, probe_time)
    probe_delay, answer_delay = (Fraction(kinds[name].delay or 0, NS) for name in ("probe", "load"))
    job: dict[str, Any] = dict(application=int, home=int, done=float, probes=int, drawn=int, data=int)
    return {
        **kinds,
        # way: the travel time of the job.  anyone: whether a node with any load and speed fits, since an
        # earlier search has found none
        "probe": Message(packet, delay=probe_delay, application=int, home=int, way=int, anyone=int),
        "load": Message(
            packet, delay=answer_delay, application=int, free=int, speed=float, fits=int, until=int
        ),
        # a job that moves, with its completed work
        "job": Message(data, predicted=int, **job),
        # a job that has to return home because of an owner, or only the news that it must begin again
        "evicted": Message(data, **job),
    }


@kept_in_checkpoints
@dataclass(eq=False, slots=True)
class Job:
    """A job on a node.

    Parameters
    ----------
    home
        The node to which its result goes.
    done
        Completed work, Mflop.
    probes, drawn
        Number of nodes probed for it so far, and of random numbers drawn.
    anyone
        Whether its next search accepts a node with any load and speed.
    predicted, arrived
        Predicted wait at this node, and arrival in its queue, ns.
    """

    home: int
    done: float = 0.0
    probes: int = 0
    drawn: int = 0
    anyone: bool = False
    predicted: int = 0
    arrived: int = 0


class VolunteerNode(RjssNode):
    """One node; `View.environment` is a `gridsim.schedulers.rjss.volunteers.VolunteerView`."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.owner = False  # whether the owner is there
        self.left_at = 0  # time at which the owner left
        self.absences: list[int] = []  # durations of the owner's latest absences
        self.absence_count = 0
        self.jobs: dict[int, Job] = {}
        self.waiting: list[int] = []  # jobs in the queue
        self.running: dict[int, tuple[int, int]] = {}  # running job -> beginning and end of its run
        self.parked: dict[int, int] = {}  # job without a node -> time of its next search
        self.peak = 0

    # -- the owner ----------------------------------------------------------------------------------------

    def on_start(self, view: View) -> None:
        """Count the cores, and check whether the owner is there when the run begins."""
        super().on_start(view)
        self.owner = view.environment.has_owner

    def on_owner_back(self, view: View) -> None:
        """Evict all jobs; the running ones keep their completed work unless they must begin again."""
        if self.owner:
            return
        self.owner = True
        if view.now_ns > self.left_at:
            add_up_time(self.absences, self.absence_count, view.now_ns - self.left_at)
            self.absence_count += 1
        leaving = [*self.running, *self.waiting]
        if self.running:
            view.cancel("ran")
        for job, (start, _) in self.running.items():
            if view.now_ns > start:
                self.interrupt(view, job)
        self.running, self.waiting = {}, []
        self.clear_cores(view)
        for job in leaving:
            self.evict(view, job)

    def on_owner_gone(self, view: View) -> None:
        """Run jobs again, beginning with the jobs that have found no node."""
        self.owner, self.left_at = False, view.now_ns
        self.clear_cores(view)
        for job in list(self.parked):
            self.search_deferred(view, job)

    def clear_cores(self, view: View) -> None:
        """Count all cores as free from now on."""
        self.free = view.now_ns
        self.core_ends = [self.free] * view.cores

    def interrupt(self, view: View, number: int) -> None:
        """Stop a running job."""
        job = self.jobs[number]
        self.note_run(view, number, completed=0)
        work = view.application(number).size
        done = job.done + (view.now_ns - self.running[number][0]) / NS * view.speed
        keeps_work = self.parameters.on_return != "restart"
        job.done = min(done, math.nextafter(work, 0.0)) if keeps_work else 0.0

    def evict(self, view: View, number: int) -> None:
        """Search for another node for a job, or send it to its home, which does so."""
        job = self.jobs[number]
        self.homes.pop(number, None)
        view.decide("evicted", number, node=view.node)
        if job.home == view.node or self.parameters.on_return == "migrate":
            self.dispatch(view, number, False)
            return
        home = self.parameters.on_return == "home"
        data = self.job_bytes(view, number) if home else self.parameters.load_packet
        self.send_job(view, job.home, "evicted", number, data)

    def on_evicted(self, view: View, message: Any) -> None:
        """Search again for a node for a job of this node."""
        self.receive_job(message)
        self.dispatch(view, message.application, False)

    def until(self, view: View) -> int:
        """Return the predicted time of the owner's return, ns."""
        if self.parameters.predictor == "none":
            return NEVER
        if self.parameters.predictor == "exact":
            return int(view.environment.owner_returns)
        return predicted_end(self.parameters.predictor, view.now_ns, self.left_at, self.absences)

    # -- the dispatcher -----------------------------------------------------------------------------------

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """Create the record of a released job, and pass the job to the dispatcher."""
        self.jobs[application.number] = Job(view.node)
        super().on_release(view, application, tasks)

    def search(self, view: View, job: int, drawn: int = 0) -> None:
        """Begin the search for a node for `job`, which may probe nodes of earlier searches again."""
        super().search(view, job, self.jobs[job].drawn)

    def ask(self, view: View, job: int, node: int) -> None:
        """Probe `node` for `job`."""
        about = {"way": self.way(view, job), "anyone": int(self.jobs[job].anyone)}
        view.send(node, "probe", application=job, home=view.node, **about)

    def is_found(self, view: View, job: int) -> bool:
        """Return whether a search for the first good enough node for `job` may end.

        With ``prefer="completion"`` the first node that is better than this one ends the search.  With
        ``"stay"`` the job must also end there before the predicted return of the owner.
        """
        best = self.searches[job].best
        return best is not None and self.rank(view, job, best, view.now_ns)[0] == 0

    def decide(self, view: View, number: int) -> None:
        """Move a job to the best probed node if that is better than this one; otherwise keep it here."""
        search, job, now = self.searches.pop(number), self.jobs[number], view.now_ns
        best = search.best
        job.probes += search.made
        job.drawn = search.drawn
        if best is not None and self.rank(view, number, best, now) < self.rank_here(view, number):
            node, free, speed, until, answered = best
            way = self.way(view, number)
            job.predicted = max(0, free - (now + way))
            takes = way + job.predicted + self.run_time(view, number, speed)
            probe_time = view.environment.probe_time
            age = now - answered + probe_time - probe_time // 2
            self.note_choice(view, "sent", number, node, search.made, until, takes, age)
            view.send(node, "scheduled", application=number)
            self.send_job(view, node, "job", number, self.job_bytes(view, number), predicted=job.predicted)
        elif self.owner:
            self.defer(view, number, search.made)
        else:
            job.predicted = max(0, self.free - now)
            takes = job.predicted + self.run_time(view, number, view.speed)
            self.note_choice(view, "kept", number, view.node, search.made, self.until(view), takes, 0)
            self.queue(view, number, job.home)
        while self.line and not self.searches:
            self.dispatch(view, *self.line.pop(0))

    def defer(self, view: View, job: int, asked: int) -> None:
        """Defer a job that has found no node; its next search excludes no node."""
        view.decide("parked", job, node=view.node, among=asked)
        self.jobs[job].anyone = True
        self.parked[job] = retry_at = view.now_ns + nanoseconds(self.parameters.retry)
        if retry_at <= LATEST:
            view.at(retry_at, "retry", job=job)

    def on_retry(self, view: View, job: int) -> None:
        """Search for a node for a deferred job, unless a search has begun since."""
        if self.parked.get(job) == view.now_ns:
            self.search_deferred(view, job)

    def search_deferred(self, view: View, job: int) -> None:
        """Search for a node for a deferred job."""
        del self.parked[job]
        self.dispatch(view, job, False)

    def record_return(self, view: View, job: int) -> None:
        """Record that the result of `job` has returned, and end the run if it was the last result."""
        view.note("results", application=job, returned=view.now_ns)
        view.environment.end_if_over()

    # -- probes and answers -------------------------------------------------------------------------------

    def on_probe(self, view: View, message: Any) -> None:
        """Answer a probe with the times at which this node is free and its owner is predicted to return."""
        job = message.application
        fits = int(not self.owner and (message.anyone == 1 or self.judge(view, message.way) == FITS))
        about = {"free": self.free, "speed": view.speed, "until": self.until(view)}
        view.send(message.home, "load", application=job, fits=fits, **about)

    def on_load(self, view: View, message: Any) -> None:
        """Compare the answering node with the best one so far."""
        job, search = message.application, self.searches[message.application]
        if message.fits:
            offer = message.sender, message.free, message.speed, message.until, view.now_ns
            first = self.parameters.pick == "first"
            leaves = view.now_ns + (0 if first else search.left * view.environment.probe_time)
            rank = self.rank(view, job, offer, leaves)
            if (not first or rank < self.rank_here(view, job)) and (
                search.best is None or rank < self.rank(view, job, search.best, leaves)
            ):
                search.best = offer
        self.continue_search(view, job)

    # -- the rule -----------------------------------------------------------------------------------------

    def rank(self, view: View, job: int, offer: Offer, leaves: int) -> tuple[int, int, float]:
        """Return the sort key of a node (the best has the lowest) for `job`, if it leaves at `leaves`."""
        node, free, speed, until, _ = offer
        ends = max(free, leaves + self.way(view, job)) + self.run_time(view, job, speed)
        return_travel_time = self.return_travel_time(view, job, node)
        return self._rank(view, ends, until, leaves, ends - leaves + return_travel_time, speed)

    def rank_here(self, view: View, job: int) -> tuple[int, int, float]:
        """Return the sort key of this node, which is the highest while its owner is there."""
        if self.owner:
            return 2, 0, 0.0
        now = view.now_ns
        ends = max(self.free, now) + self.run_time(view, job, view.speed)
        turnaround = ends - now + self.return_travel_time(view, job, view.node)
        return self._rank(view, ends, self.until(view), now, turnaround, view.speed)

    def _rank(
        self, view: View, ends: int, until: int, leaves: int, turnaround: int, speed: float
    ) -> tuple[int, int, float]:
        """Return the sort key of a node where a job ends at `ends` unless the owner returns before `until`.

        Parameters
        ----------
        turnaround
            The time from `leaves` until the result would be back.
        """
        late, fastest = max(0, ends - until), self.parameters.pick == "fastest"
        if self.parameters.prefer == "stay":
            return int(late > 0), late, -speed if fastest else turnaround
        interruption = 0
        if late and self.parameters.on_return == "restart":
            interruption = max(0, until - leaves)  # the work done until then is lost
        elif late:
            interruption = view.environment.travel_time(self.parameters.state)
        return 0, 0, -speed if fastest else turnaround + interruption

    def way(self, view: View, job: int) -> int:
        """Return the travel time of `job` to another node, with its state once it has begun."""
        way: int = view.environment.travel_time(self.job_bytes(view, job))
        return way

    def return_travel_time(self, view: View, job: int, node: int) -> int:
        """Return the travel time of the result of `job` from a node to the job's home."""
        return 0 if node == self.jobs[job].home else super().way(view, job)

    def run_time(self, view: View, job: int, speed: float) -> int:
        """Return the run time of the rest of `job` at `speed`."""
        left = view.application(job).size - self.jobs[job].done
        return max(1, int(round(min(left / speed * NS, LATEST))))

    def job_bytes(self, view: View, job: int) -> int:
        """Return the size of `job`, with its state once it has begun, bytes."""
        state = self.parameters.state if self.jobs[job].done > 0.0 else 0
        return int(view.application(job).data) + state

    # -- first come, first served -------------------------------------------------------------------------

    def on_job(self, view: View, message: Any) -> None:
        """Queue a job of another node, unless the owner has returned in the meantime."""
        job = self.receive_job(message)
        job.predicted = message.predicted
        if self.owner:
            self.evict(view, message.application)
        else:
            self.queue(view, message.application, job.home)

    def receive_job(self, message: Any) -> Job:
        """Store and return the record of a job that arrives in a message."""
        job = Job(message.home, message.done, message.probes, message.drawn)
        self.jobs[message.application] = job
        return job

    def send_job(self, view: View, to: int, kind: str, number: int, data: int, **more: int) -> None:
        """Send a job to another node, and delete its record here."""
        job = self.jobs.pop(number)
        about = {"home": job.home, "done": job.done, "probes": job.probes, "drawn": job.drawn}
        view.send(to, kind, application=number, data=data, **about, **more)

    def queue(self, view: View, job: int, home: int) -> None:
        """Run `job` after all other jobs in the queue of this node."""
        self.homes[job], self.jobs[job].arrived = home, view.now_ns
        self.jobs[job].anyone = False
        self.reserve(view, job)
        self.waiting.append(job)
        self.run_next(view)
        self.peak = max(self.peak, len(self.waiting))

    def run_next(self, view: View) -> None:
        """Run the next job of the queue, if a core is idle."""
        if len(self.running) == view.cores or not self.waiting:
            return
        job, now = self.waiting.pop(0), view.now_ns
        self.running[job] = now, now + self.run_time(view, job, view.speed)
        view.at(min(self.running[job][1], LATEST), "ran", job=job)

    def on_ran(self, view: View, job: int) -> None:
        """Pass the job that has run to the dispatcher, which returns its result, and run the next job."""
        ends = self.running[job][1]
        if view.now_ns < ends:
            raise OverflowError(f"job {job} ends at {ends} ns, after the last instant")
        self.note_run(view, job, completed=1)
        del self.jobs[job], self.running[job]
        self.run_next(view)
        self.dispatch(view, job, True)

    # -- for the result -----------------------------------------------------------------------------------

    def note_run(self, view: View, number: int, completed: int) -> None:
        """Record that a running job has ended or been interrupted."""
        job = self.jobs[number]
        row: Mapping[str, Any] = {
            "machine": view.node,
            "application": number,
            "start": self.running[number][0],
            "end": view.now_ns,
            "completed": completed,
            "begin": job.done,
            "arrived": job.arrived,
            "probes": job.probes,
            "predicted": job.predicted,
        }
        view.note("runs", **row)

    def note_choice(
        self, view: View, action: str, job: int, node: int, asked: int, until: int, takes: int, age: int
    ) -> None:
        """Record the node for a job, the expected absence of the owner, and the run time of the job."""
        stay = math.inf if until == NEVER else (until - view.now_ns) / NS
        view.decide(action, job, node=node, among=asked, saw=stay, limit=takes / NS, age=age / NS)
