"""A metascheduler over sites: it sends each job to the site with the best prospects by its last report.

After what KOALA (Mohamed and Epema) and GridWay (Huedo, Montero and Llorente) have in common, reduced to
rigid jobs.  docs/background/dgs_asap.md names the source of each rule.

Nodes 0..m - 1 are the machines.  Behind them come the front-ends of the sites and the metascheduler, each on
a further machine, which never fails.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.applications import Application, Applications
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.coallocation.claims import MESSAGES, SMALL, ClaimingNode, ClaimRecord
from gridsim.scheduling.contract import DecisionVerb, Foreseen, Policy, Run
from gridsim.scheduling.nodes.program import Message, View, array
from gridsim.scheduling.nodes.rigid_jobs import RigidNodeScheduler
from gridsim.scheduling.nodes.roles import Role
from gridsim.support.arrays import Floats
from gridsim.support.clock import NS, nanoseconds
from gridsim.support.parameters import Limits

#: The longest time, s, since times are added up in int64 nanoseconds.
_LONGEST = 1e8

_SENT = "sent {tasks} tasks to the front on machine {machine}"
WORDS: DecisionTexts = {
    "sent-by-most-idle": (f"{_SENT}, of {{among}}", "idle machines there:", ""),
    "sent-by-least-work": (f"{_SENT}, of {{among}}", "work per machine there:", "s"),
    "kept-at-home": (f"{_SENT} at its home", "idle machines there:", ""),
    "gave-to-site": (
        "gave {tasks} waiting tasks to the front on machine {machine}",
        "idle machines there:",
        "",
    ),
    "gathers": ("asked several sites for {tasks} machines", "idle machines:", ""),
    "too-wide": ("rejected {tasks} tasks", "machines of the largest site:", ""),
    "placed": ("placed {tasks} tasks: all machines had agreed", "a start at", "s"),
}


class SiteRecord(ClaimRecord):
    """The record of a job.

    Attributes
    ----------
    site
        The site at which it waits or runs; -1 for none, or several.
    moved
        How often it has left a site.
    """

    def __init__(self, number: int, submitter: int, tasks: int, length: int) -> None:
        super().__init__(number, submitter, tasks, length)
        self.site, self.moved = -1, 0


def count_move(job: Any) -> None:
    """Count that a job has left a site."""
    job.moved += 1


@lru_cache(maxsize=16)
def blocks_of_sites(sizes: tuple[int, ...]) -> tuple[range, ...]:
    """Return the machines of each site, blocks of consecutive machines."""
    ends = tuple(accumulate(sizes))
    return tuple(range(end - size, end) for end, size in zip(ends, sizes, strict=True))


@lru_cache(maxsize=16)
def last_machines(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the last machine of each site."""
    return tuple(end - 1 for end in accumulate(sizes))


class MachineNode(ClaimingNode):
    """A machine of a site."""

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """Pass a job that is submitted here on to the metascheduler."""
        job, (meta,) = view.jobs[application.number], view.role("meta")
        view.send(meta, "submit", application=job.number, tasks=job.tasks, length=job.length)

    def site(self, view: View) -> int:
        """Return the site of this machine."""
        return bisect_right(last_machines(self.parameters.sizes), view.rank - 1)

    def on_job_end(self, view: View, application: Application) -> None:
        """Report to the site that the job here has ended."""
        view.send(view.role("front")[self.site(view)], "over", application=application.number)


class MetaNode(ClaimingNode):
    """The metascheduler.

    Attributes
    ----------
    sizes
        Machines of each site.
    idle, load
        Of each site, machines that nobody uses, and s of work per machine, as far as it knows: what the site
        last reported and, with ``count_sent``, what it has sent there since then.
    wide
        Jobs that fit no site, in the order in which they came.  The first is tried after each round of
        reports.
    open_requests
        Number of sites that have not answered a request for machines for the first of them.
    gathered_nodes
        Machines that sites have set aside for it.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.sizes, self.idle, self.load = list[int](), list[int](), list[float]()
        self.wide: list[int] = []
        self.reports = self.open_requests = 0
        self.gathered_nodes: list[int] = []

    def on_start(self, view: View) -> None:
        """Start to ask the sites for reports."""
        self.sizes = list(self.parameters.sizes)
        self.idle, self.load = list(self.sizes), [0.0] * len(self.sizes)
        view.timer(self.parameters.period, "poll")

    def on_timer(self, view: View, name: str) -> None:
        """Ask the sites for reports."""
        view.timer(self.parameters.period, "poll")
        for front in view.role("front"):
            view.send(front, "poll")

    def on_report(self, view: View, message: Any) -> None:
        """Store the report of a site."""
        site = view.role("front").index(message.sender)
        self.idle[site], self.load[site] = message.idle, message.load
        self.reports += 1
        if self.reports % len(self.idle) == 0:
            self.try_wide(view)

    # -- jobs that fit a site -------------------------------------------------------------------------------

    def on_submit(self, view: View, message: Any) -> None:
        """Send a job to the best site, or keep it if it fits none."""
        job = view.jobs[message.application]
        if max(self.sizes) >= message.tasks:
            self.dispatch(view, job, -1)
        elif self.parameters.wide == "reject":
            view.decide("too-wide", job.number, tasks=job.tasks, saw=max(self.sizes))
            view.jobs.reject(job, "too_large")
        else:
            self.wide.append(job.number)
            if len(self.wide) == 1:
                self.try_wide(view)

    def dispatch(self, view: View, job: Any, left: int) -> None:
        """Send a job to a site; it returns to `left`, its previous site, only if it fits on no other site."""
        sizes, of = self.sizes, self.parameters
        fits = [k for k in range(len(sizes)) if sizes[k] >= job.tasks]
        candidates = [k for k in fits if k != left] or fits
        home, by = bisect_right(last_machines(of.sizes), job.submitter - 1), of.choose
        if of.home != "ignored" and home in candidates:
            if of.home == "first" or self.idle[home] >= job.tasks:
                candidates = [home]
            elif startable := [k for k in candidates if self.idle[k] >= job.tasks]:
                candidates = startable
            else:
                by = "least-work"
                least = min(self.load[k] for k in candidates)
                candidates = [home] if self.load[home] <= least else candidates
        if by == "most-idle":
            site = min(candidates, key=lambda k: (-self.idle[k], self.load[k], k))
        else:
            site = min(candidates, key=lambda k: (self.load[k], -self.idle[k], k))
        front, among = view.role("front")[site], len(candidates)
        if candidates == [home] and of.home != "ignored":
            saw = float(self.idle[site])
            view.decide("kept-at-home", job.number, node=front, tasks=job.tasks, saw=saw)
        else:
            saw = float(self.idle[site]) if by == "most-idle" else self.load[site]
            view.decide(f"sent-by-{by}", job.number, node=front, tasks=job.tasks, among=among, saw=saw)
        if of.count_sent:
            length = view.jobs.length_on(job.length, blocks_of_sites(of.sizes)[site][0])
            self.idle[site] -= job.tasks
            self.load[site] += job.tasks * length / NS / sizes[site]
        job.site = site
        job_fields = {"application": job.number, "tasks": job.tasks, "length": job.length}
        view.send(front, "dispatch", **job_fields)

    def on_return(self, view: View, message: Any) -> None:
        """Send a job that has waited too long at a site to another site."""
        job = view.jobs[message.application]
        count_move(job)
        self.dispatch(view, job, view.role("front").index(message.sender))

    # -- jobs that are wider than any site ------------------------------------------------------------------

    def try_wide(self, view: View) -> None:
        """Ask the sites with the most idle machines to reserve machines, if the total seems sufficient."""
        if not self.wide or self.open_requests or self.gathered_nodes:
            return
        job = view.jobs[self.wide[0]]
        if sum(max(0, each) for each in self.idle) < job.tasks:
            return
        view.decide("gathers", job.number, tasks=job.tasks, saw=sum(max(0, each) for each in self.idle))
        left, counts = job.tasks, dict[int, int]()
        for site in sorted(range(len(self.idle)), key=lambda k: (-self.idle[k], k)):
            count = min(left, self.idle[site])
            if count <= 0:
                break
            left -= count
            counts[site] = count
        blocks = blocks_of_sites(self.parameters.sizes)
        length = max(view.jobs.length_on(job.length, blocks[site][0]) for site in counts)
        self.open_requests = len(counts)
        for site, count in counts.items():
            fields = {"application": job.number, "tasks": count, "length": length}
            view.send(view.role("front")[site], "gather", **fields)

    def on_gathered(self, view: View, message: Any) -> None:
        """Claim the machines for a wide job once all sites have answered, or release them."""
        job = view.jobs[message.application]
        self.open_requests -= 1
        self.gathered_nodes += message.nodes.tolist()
        self.idle[view.role("front").index(message.sender)] = message.idle
        if self.open_requests:
            return
        if len(self.gathered_nodes) == job.tasks:
            self.wide.pop(0)
            self.claim(view, job, self.gathered_nodes)
        else:
            blocks = blocks_of_sites(self.parameters.sizes)
            for front, machines in zip(view.role("front"), blocks, strict=True):
                if any(node in machines for node in self.gathered_nodes):
                    view.send(front, "back", application=job.number)
        self.gathered_nodes = []


class FrontNode(ClaimingNode):
    """The front-end of a site, which has its queue.

    Attributes
    ----------
    free
        Machines that run nothing, ascending.
    queue
        [job, machines, ns that it is expected to run, since when it has waited here (ns)], in order.
    running
        Job -> [when it is expected to end (ns), its machines here, how many of them still run it].
    last_asked
        The site that was last asked for a waiting job.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.free, self.size, self.last_asked = list[int](), 0, 0
        self.queue: list[list[int]] = []
        self.running: dict[int, list[Any]] = {}

    def on_start(self, view: View) -> None:
        """Take the machines of this site."""
        self.free = list(blocks_of_sites(self.parameters.sizes)[view.rank])
        self.size, self.last_asked = len(self.free), view.rank
        if self.parameters.pull < math.inf and len(view.role("front")) > 1:
            view.timer(self.parameters.pull, "balance")

    def on_balance(self, view: View) -> None:
        """Ask the next site for waiting jobs if there are idle machines and an empty queue here."""
        view.timer(self.parameters.pull, "balance")
        if self.queue or not self.free:
            return
        fronts = view.role("front")
        self.last_asked = (self.last_asked + 1) % len(fronts)
        if self.last_asked == view.rank:
            self.last_asked = (self.last_asked + 1) % len(fronts)
        view.send(fronts[self.last_asked], "pull", idle=len(self.free))

    def on_pull(self, view: View, message: Any) -> None:
        """Give waiting jobs to a site that has idle machines for them, in the order of the queue."""
        idle, k = message.idle, 0
        while k < len(self.queue) and idle:
            if self.queue[k][1] > idle:
                k += 1
                continue
            number, tasks, *_ = self.queue.pop(k)
            job = view.jobs[number]
            job.site = view.role("front").index(message.sender)
            count_move(job)
            view.decide("gave-to-site", number, node=message.sender, tasks=tasks, saw=float(idle))
            idle -= tasks
            fields = {"application": number, "tasks": tasks, "length": job.length}
            view.send(message.sender, "dispatch", **fields)
            view.act()

    def on_poll(self, view: View, message: Any) -> None:
        """Report to the metascheduler."""
        now = view.now_ns
        work = sum(tasks * length for _, tasks, length, _ in self.queue)
        work += sum(len(nodes) * max(0, end - now) for end, nodes, _ in self.running.values())
        view.send(message.sender, "report", idle=len(self.free), load=work / NS / self.size)

    def on_dispatch(self, view: View, message: Any) -> None:
        """Queue a job."""
        machine = blocks_of_sites(self.parameters.sizes)[view.rank][0]
        length = view.jobs.length_on(message.length, machine)
        self.queue.append([message.application, message.tasks, length, view.now_ns])
        view.act()
        suspension = self.parameters.suspension
        if suspension < math.inf:
            view.timer(suspension, "suspended", job=message.application)

    def on_suspended(self, view: View, job: int) -> None:
        """Send a job that has waited too long back to the metascheduler."""
        since = view.now_ns - nanoseconds(self.parameters.suspension)
        for entry in self.queue:
            if entry[0] == job and entry[3] <= since:
                self.queue.remove(entry)
                view.send(view.role("meta")[0], "return", application=entry[0])
                view.act()
                return

    def on_over(self, view: View, message: Any) -> None:
        """Record that a machine has ended a job, whose machines are all freed at the last such report."""
        entry = self.running[message.application]
        entry[2] -= 1
        if not entry[2]:
            self.give_back(view, message.application)

    def on_gather(self, view: View, message: Any) -> None:
        """Set aside machines that are idle now for a wide job."""
        nodes, self.free = self.free[: message.tasks], self.free[message.tasks :]
        if nodes:
            self.running[message.application] = [view.now_ns + message.length, nodes, len(nodes)]
        fields: dict[str, Any] = {"nodes": np.array(nodes, np.int64), "idle": len(self.free)}
        view.send(message.sender, "gathered", application=message.application, **fields)

    def on_back(self, view: View, message: Any) -> None:
        """Take back machines that were set aside."""
        self.give_back(view, message.application)

    def give_back(self, view: View, job: int) -> None:
        """Use the machines of a job for other jobs."""
        self.free = sorted(self.free + self.running.pop(job)[1])
        view.act()

    # -- the queue ------------------------------------------------------------------------------------------

    def on_act(self, view: View) -> None:
        """Start jobs at the head of the queue that fit and, with EASY, later jobs that do not delay them."""
        while self.queue and self.queue[0][1] <= len(self.free):
            self.begin(view, 0)
        if self.parameters.queue == "fcfs" or not self.queue or not self.free:
            return
        now = view.now_ns
        reserved, spare = self.reservation(now)
        k = 1
        while k < len(self.queue):
            _, tasks, length, _ = self.queue[k]
            in_time = now + length <= reserved
            if tasks <= len(self.free) and (in_time or tasks <= spare):
                self.begin(view, k)
                spare -= 0 if in_time else tasks
            else:
                k += 1

    def reservation(self, now: int) -> tuple[int, int]:
        """Return when the first job is expected to fit, and how many machines are left over at that time."""
        free, at = len(self.free), now
        for end, nodes, _ in sorted(self.running.values(), key=lambda entry: int(entry[0])):
            if (
                free >= self.queue[0][1] and end > at
            ):  # jobs that end at one instant free their machines together
                break
            free, at = free + len(nodes), max(now, end)
        return at, free - self.queue[0][1]

    def begin(self, view: View, k: int) -> None:
        """Start the k-th job of the queue on the free machines with the lowest numbers."""
        number, tasks, length, _ = self.queue.pop(k)
        nodes, self.free = self.free[:tasks], self.free[tasks:]
        self.running[number] = [view.now_ns + length, nodes, tasks]
        self.claim(view, view.jobs[number], nodes)


class Metascheduler(RigidNodeScheduler, frozen=True, kw_only=True):
    """One scheduler over sites with queues, after KOALA (Mohamed and Epema) and GridWay (Huedo et al.).

    The sites are those of the platform (`Platform.sites`) or, if it has none, blocks of consecutive machines.
    Each job goes through the metascheduler to one site, and waits there in its queue.  Machines never fail.

    Parameters
    ----------
    sites
        Number of sites, as equal as possible, of a platform without sites.
    sizes
        Machines of each site; None for the sites of the platform or, if it has none, for `sites`.
    queue
        What the front-end of each site runs: ``"easy"``, EASY backfilling; ``"fcfs"``, first come, first
        served.
    estimate
        What front-ends take as the run time: ``"requested"``, what the user asked for; ``"run"``, the run
        time itself.  A job that outlives its estimate is expected to end now, at any time.
    period
        S between two rounds in which the metascheduler asks the sites for reports.
    choose
        The site that a job goes to, of those that are large enough: ``"most-idle"``, that with the most idle
        machines (worst fit), and of these that with the least work per machine; ``"least-work"``, the
        reverse.
    home
        The home site of a job, from a machine of which it is submitted.  ``"ignored"``: it is a site like the
        others.  ``"preferred"``: the job goes there unless it would probably wait there for longer: if it
        can start at once at other sites only, it goes to the best of these, and if nowhere, to the site with
        the least work per machine.  ``"first"``: the job goes there if it fits, and leaves it only by
        `suspension` and `pull`; without these, each site is by itself.
    pull
        S between two requests of a site with an empty queue and idle machines to another site, in turn, for
        waiting jobs that fit there; inf for never.
    count_sent
        Whether the metascheduler counts what it has sent to a site since its last report.
    suspension
        s of waiting at a site after which a job goes to another one (to the same if no other is large
        enough), at the end of the queue there; inf for never.
    wide
        Jobs that are larger than any site: ``"coallocate"``, they wait at the metascheduler, in order, until
        it gets enough idle machines of several sites at once; ``"reject"``.
    """

    name: ClassVar[str] = "metascheduler"
    failures: ClassVar[bool] = False
    unequal_speeds: ClassVar[bool] = True
    roles: ClassVar[dict[str, Role]] = {
        "machine": Role(MachineNode),
        "front": Role(
            FrontNode, count=lambda scheduler, machines: len(scheduler.site_sizes(machines)), server=True
        ),
        "meta": Role(MetaNode, count=1, server=True),
    }
    record = SiteRecord
    columns = ("conflicts", "late", "site", "moved")
    rejections = ("too_large",)
    messages: ClassVar[dict[str, Message]] = {
        **MESSAGES,
        "over": Message(SMALL, application=int),
        "poll": Message(SMALL),
        "pull": Message(SMALL, idle=int),
        "report": Message(SMALL, idle=int, load=float),
        "submit": Message(SMALL, application=int, tasks=int, length=int),
        "return": Message(SMALL, application=int),
        "dispatch": Message(SMALL, application=int, tasks=int, length=int),
        "back": Message(SMALL, application=int),
        "gather": Message(SMALL, application=int, tasks=int, length=int),
        "gathered": Message(
            lambda application, nodes, idle: SMALL + 8 * len(nodes),
            application=int,
            nodes=array(int),
            idle=int,
        ),
    }
    timers = ("poll",)
    decision_words: ClassVar[DecisionTexts] = WORDS
    decision_verbs: ClassVar[Mapping[str, DecisionVerb]] = {"gathers": "mentions"}

    sites: Annotated[int, Limits(low=1, high=2**20)] = 10
    sizes: tuple[Annotated[int, Limits(low=1)], ...] | None = None
    queue: Literal["easy", "fcfs"] = "easy"
    estimate: Literal["requested", "run"] = "requested"
    period: Annotated[float, Limits(low=1e-3, high=_LONGEST, unit="s")] = 300.0
    choose: Literal["most-idle", "least-work"] = "most-idle"
    home: Literal["ignored", "preferred", "first"] = "ignored"
    pull: Annotated[float, Limits(low=1e-3, unit="s", finite=False)] = math.inf
    count_sent: bool = True
    suspension: Annotated[float, Limits(low=1e-3, unit="s", finite=False)] = math.inf
    wide: Literal["coallocate", "reject"] = "coallocate"

    @property
    def may_reject(self) -> bool:  # type: ignore[override]
        """Whether the scheduler rejects jobs that are larger than any site."""
        return self.wide == "reject"

    @property
    def foresees(self) -> tuple[Foreseen, ...]:
        """The parts of the future that it knows: run times, unless users' estimates count."""
        return ("run times",) if self.estimate == "run" else ()

    def messages_of(self, run: Run) -> Mapping[str, Message]:
        """Return the kinds of messages of a run; requests for jobs only if sites make any."""
        return {k: kind for k, kind in self.messages.items() if k != "pull" or self.pull < math.inf}

    def site_sizes(self, machines: int) -> tuple[int, ...]:
        """Return the number of machines of each site of a platform that states no sites."""
        if self.sizes is None:
            size, larger = divmod(machines, min(self.sites, machines))
            return (size + 1,) * larger + (size,) * (min(self.sites, machines) - larger)
        if sum(self.sizes) != machines:
            raise ScenarioError(
                f"{self.name}.sizes must add up to {machines}, the number of machines, got {sum(self.sizes)}"
            )
        return self.sizes

    def explicit(self, speeds: Floats, applications: Applications) -> Metascheduler:
        """Return this scheduler with the number of machines of each site."""
        sizes = self.site_sizes(len(speeds))
        if self.sizes is None and applications.machine_site is not None:
            sizes = tuple(np.bincount(applications.machine_site).tolist())
        return msgspec.structs.replace(self, sizes=sizes)

    def start(self, run: Run) -> Policy:
        """Make the policy that runs the nodes, with the sites of the platform."""
        return self.explicit(run.speeds, run.applications).start_nodes(run)
