"""Faulty node programs with roles, requests or boards, each with one fault."""

from __future__ import annotations

import math
import os
from typing import Annotated, Any, ClassVar

import numpy as np
from planted import Fault

import gridsim as gs
from gridsim.scheduling.contract import Run

# -- roles: distributors, masters of groups, and workers ---------------------------------------------------


class Distributor(gs.NodeProgram):
    """Node that spreads the tasks of each application over the masters."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        masters = self.masters(view)
        for k in range(min(tasks, len(masters))):
            share = tasks // len(masters) + (k < tasks % len(masters))
            view.send(masters[k], "share", application=application.number, tasks=share)

    def masters(self, view: Any) -> Any:
        """Return the masters that get tasks."""
        return view.role("master")


class Master(gs.NodeProgram):
    """Node that gives the tasks of a queue to the idle workers of its group."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.waiting = gs.Fifo(application=int, tasks=int)
        self.idle: Any = gs.IntSet()

    def on_share(self, view: Any, message: Any) -> None:
        self.waiting.push(message.application, message.tasks)
        self.serve(view)

    def on_free(self, view: Any, message: Any) -> None:
        self.idle.add(message.sender)
        self.serve(view)

    def serve(self, view: Any) -> None:
        while self.idle and self.waiting:
            application, tasks = self.waiting.pop()
            view.send(self.idle.pop(), "task", application=application, tasks=1)
            if tasks > 1:
                self.waiting.push(application, tasks - 1)
        view.cancel("stuck")
        if self.waiting:
            view.timer(self.parameters.patience, "stuck")

    def on_stuck(self, view: Any) -> None:
        masters = view.role("master")
        while self.waiting:
            application, tasks = self.waiting.pop()
            view.send(masters[(view.rank + 1) % len(masters)], "share", application=application, tasks=tasks)


class Worker(gs.NodeProgram):
    """Node that runs one task at a time, and reports to its master when it is idle."""

    def on_start(self, view: Any) -> None:
        self.on_idle(view)

    def on_task(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)

    def on_idle(self, view: Any) -> None:
        view.send(view.role("master")[view.rank // self.parameters.size], "free")


class Groups(gs.NodeScheduler, frozen=True, kw_only=True):
    """Scheduler with a distributor, and a master for each group of workers."""

    name = "groups"
    node_forms = ("interpreted",)
    roles: ClassVar[dict[str, gs.Role]] = {}
    messages: ClassVar[dict[str, gs.Message]] = {
        "share": gs.Message(170, moves_tasks=True, application=int, tasks=int),
        "task": gs.Message(170, moves_tasks=True, application=int, tasks=int),
        "free": gs.Message(40),
    }

    size: Annotated[int, gs.Limits(low=1, unit="machines")] = 3
    patience: Annotated[float, gs.Limits(above=0, unit="s")] = 300.0


def roles(
    distributor: type[gs.NodeProgram] = Distributor,
    master: type[gs.NodeProgram] = Master,
    worker: type[gs.NodeProgram] = Worker,
    count: Any = lambda groups, machines: -(-machines // groups.size),
) -> dict[str, gs.Role]:
    """Return the roles of `Groups` with these classes, and this number of masters."""
    return {
        "distributor": gs.Role(distributor, count=2, server=True, releases=True),
        "master": gs.Role(master, count=count, server=True),
        "worker": gs.Role(worker),
    }


Groups.roles = roles()


class SharedIdleMaster(Master):
    """Master whose set of idle workers is one of the class, which all masters share."""

    shared: ClassVar[Any] = set()

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.shared.clear()
        self.idle = self.shared


class PlainSetMaster(Master):
    """Master that takes idle workers from a Python set, in the order of its hash table."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.idle = set()


class PatientMaster(Master):
    """Master that waits for its own workers, even if all have failed."""

    def on_stuck(self, view: Any) -> None:
        view.timer(self.parameters.patience, "stuck")


class SilentWorker(Worker):
    """Worker that reports to its master at the start of the run, but not after a failure."""

    def on_start(self, view: Any) -> None:
        if view.now == 0.0:
            self.on_idle(view)


class FirstWorkerMaster(Master):
    """Master that knows its workers by number, and so counts a whole group where one is smaller."""

    def on_share(self, view: Any, message: Any) -> None:
        if not self.idle and view.now > 1000.0:
            workers, first = view.role("worker"), view.rank * self.parameters.size
            self.idle.add(workers[0] + first + message.tasks % self.parameters.size)
        super().on_share(view, message)


class ForesightDistributor(Distributor):
    """Distributor that uses one master if another application is released within a minute."""

    def masters(self, view: Any) -> Any:
        release = FutureRoles.release
        is_upcoming = ((release > view.now) & (release < view.now + 60.0)).any()
        return super().masters(view)[: 1 if is_upcoming else None]


class PeekingDistributor(Distributor):
    """Distributor that reads the queues of masters in their objects, and uses the shortest."""

    queues: ClassVar[dict[int, Any]] = {}

    def masters(self, view: Any) -> Any:
        masters = super().masters(view)
        lengths = {node: len(self.queues[node].waiting) for node in masters if node in self.queues}
        return sorted(masters, key=lambda node: (lengths.get(node, 0), node))[:2]


class PeekedMaster(Master):
    """Master whose object the distributors know."""

    def on_start(self, view: Any) -> None:
        PeekingDistributor.queues[view.node] = self


class SharedIdle(Groups, frozen=True, kw_only=True):
    roles = roles(master=SharedIdleMaster)


class PlainSet(Groups, frozen=True, kw_only=True):
    roles = roles(master=PlainSetMaster)


class Patient(Groups, frozen=True, kw_only=True):
    roles = roles(master=PatientMaster)


class SilentRestart(Groups, frozen=True, kw_only=True):
    roles = roles(worker=SilentWorker, master=PatientMaster)


class FirstWorker(Groups, frozen=True, kw_only=True):
    roles = roles(master=FirstWorkerMaster)


class PeekingRoles(Groups, frozen=True, kw_only=True):
    roles = roles(PeekingDistributor, PeekedMaster)


class MastersOfProcessors(Groups, frozen=True, kw_only=True):
    """Scheduler with a master for each processor of the computer that simulates it."""

    roles = roles(count=lambda groups, machines: max(-(-machines // groups.size), os.cpu_count() or 1))


class FutureRoles(Groups, frozen=True, kw_only=True):
    """Scheduler that shows the releases of a run to its distributors."""

    release: ClassVar[Any] = np.zeros(0)
    roles = roles(ForesightDistributor)

    def start(self, run: Run) -> gs.Policy:
        FutureRoles.release = run.applications.release
        return super().start(run)


# -- requests: shares go to the one of two machines that has less work ------------------------------------


class ChoicesNode(gs.NodeProgram):
    """Node that asks two random machines for their work, and gives a share to the one with less."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.shares = gs.IntMap(application=int, tasks=int, missing=int, best=int, work=float)
        self.count = 0

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        parts = min(tasks, self.parameters.shares)
        for k in range(parts):
            share = tasks // parts + (k < tasks % parts)
            self.shares[self.count] = application.number, share, 2, -1, math.inf
            for _ in range(2):
                self.ask(view, view.random.integers(view.machines), self.count)
            self.count += 1

    def ask(self, view: Any, place: int, share: int) -> None:
        view.request(place, "probe", timeout=self.parameters.timeout, share=share)

    def on_probe(self, view: Any, message: Any) -> None:
        view.reply(message, "answer", share=message.share, work=view.work)

    def on_answer(self, view: Any, message: Any) -> None:
        self.compare(view, message.share, message.sender, message.work)

    def on_timeout(self, view: Any, request: Any) -> None:
        self.compare(view, request.share, -1, math.inf)

    def compare(self, view: Any, share: int, place: int, work: float) -> None:
        application, tasks, missing, best, least = self.shares.pop(share)
        if work < least:
            best, least = place, work
        if missing == 2:
            self.shares[share] = application, tasks, 1, best, least
        elif best in (-1, view.node):
            view.enqueue(application, tasks)
        else:
            view.send(best, "share", application=application, tasks=tasks)

    def on_share(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)


class Choices(gs.NodeScheduler, frozen=True, kw_only=True):
    """Scheduler of `ChoicesNode`."""

    name = "choices"
    policy = ChoicesNode
    node_forms = ("interpreted",)
    messages: ClassVar[dict[str, gs.Message]] = {
        "probe": gs.Message(64, answer="answer", share=int),
        "answer": gs.Message(72, share=int, work=float),
        "share": gs.Message(170, moves_tasks=True, application=int, tasks=int),
    }

    shares: Annotated[int, gs.Limits(low=1)] = 8
    timeout: Annotated[float, gs.Limits(above=0, unit="s")] = 6.0


class LostRequestNode(ChoicesNode):
    """Node that does nothing about a request without an answer."""

    def on_timeout(self, view: Any, request: Any) -> None:
        pass


class RepeatingNode(ChoicesNode):
    """Node that asks a machine again until it answers."""

    def on_timeout(self, view: Any, request: Any) -> None:
        self.ask(view, request.to, request.share)


class ByteNode(ChoicesNode):
    """Node that numbers its shares in a byte, and overwrites those that wait with the same number."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.count %= 256
        super().on_release(view, application, tasks)


class SmallTableNode(ChoicesNode):
    """Node that keeps the times of requests in a table, as if requests were numbered from 1 on."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.sent = np.zeros(2**20)

    def ask(self, view: Any, place: int, share: int) -> None:
        number = view.request(place, "probe", timeout=self.parameters.timeout, share=share)
        self.sent[number] = view.now


class DiskNode(ChoicesNode):
    """Node with its shares on disk, which it asks for after a failure, although they are submitted again."""

    stable_storage = ("shares", "count")

    def on_start(self, view: Any) -> None:
        for share in range(self.count):
            if share in self.shares:
                self.ask(view, view.node, share)


class CallbackNode(ChoicesNode):
    """Node that keeps a function for each request, which a checkpoint does not."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.callbacks: dict[int, Any] = {}

    def ask(self, view: Any, place: int, share: int) -> None:
        number = view.request(place, "probe", timeout=self.parameters.timeout, share=share)
        self.callbacks[number] = lambda view, work: self.compare(view, share, place, work)

    def on_answer(self, view: Any, message: Any) -> None:
        self.callbacks.pop(message.request)(view, message.work)

    def on_timeout(self, view: Any, request: Any) -> None:
        self.callbacks.pop(request.number)(view, math.inf)


class StealingNode(gs.NodeProgram):
    """Node that asks a neighbour for half of its tasks while it is idle."""

    def on_start(self, view: Any) -> None:
        self.ask(view)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)

    def on_idle(self, view: Any) -> None:
        self.ask(view)

    def on_retry(self, view: Any) -> None:
        if view.work == 0.0:
            self.ask(view)

    def ask(self, view: Any) -> None:
        view.cancel("retry")
        if view.neighbours:
            view.request(view.random.choice(view.neighbours), "steal", timeout=6.0)

    def on_steal(self, view: Any, message: Any) -> None:
        for application, tasks in view.queued[-1:]:
            taken = view.take(application, (tasks + 1) // 2)
            view.reply(message, "loot", application=application, tasks=taken)
            return
        view.reply(message, "nothing")

    def on_loot(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)

    def on_nothing(self, view: Any, message: Any) -> None:
        view.timer(60.0, "retry")

    def on_timeout(self, view: Any, request: Any) -> None:
        view.timer(60.0, "retry")


class Stealing(gs.NodeScheduler, frozen=True, kw_only=True):
    """Scheduler of `StealingNode`."""

    name = "stealing"
    policy = StealingNode
    node_forms = ("interpreted",)
    messages: ClassVar[dict[str, gs.Message]] = {
        "steal": gs.Message(64, answer=("loot", "nothing")),
        "loot": gs.Message(170, moves_tasks=True, application=int, tasks=int),
        "nothing": gs.Message(40),
    }

    degree: Annotated[int, gs.Limits(low=1)] = 3


class LateLootNode(StealingNode):
    """Node that ignores answers after the timeout, although they bring tasks."""

    def on_loot(self, view: Any, message: Any) -> None:
        if message.request:
            super().on_loot(view, message)


class DoubleLootNode(StealingNode):
    """Node that answers twice with the same tasks if it has many."""

    def on_steal(self, view: Any, message: Any) -> None:
        queued = view.queued[-1:]
        super().on_steal(view, message)
        for application, tasks in queued:
            if tasks > 20:
                view.reply(message, "loot", application=application, tasks=(tasks + 1) // 2)


class LostRequest(Choices, frozen=True, kw_only=True):
    policy = LostRequestNode


class RepeatedRequest(Choices, frozen=True, kw_only=True):
    policy = RepeatingNode


class ByteNumbers(Choices, frozen=True, kw_only=True):
    policy = ByteNode


class SmallTable(Choices, frozen=True, kw_only=True):
    policy = SmallTableNode


class SharesOnDisk(Choices, frozen=True, kw_only=True):
    policy = DiskNode


class Callbacks(Choices, frozen=True, kw_only=True):
    policy = CallbackNode


class LateLoot(Stealing, frozen=True, kw_only=True):
    policy = LateLootNode


class DoubleLoot(Stealing, frozen=True, kw_only=True):
    policy = DoubleLootNode


# -- boards: tasks go where the board shows the fewest -----------------------------------------------------


class ShortestNode(gs.NodeProgram):
    """Node that places each task where the board shows the fewest tasks."""

    def on_start(self, view: Any) -> None:
        view.publish(view.tasks)

    def on_end(self, view: Any) -> None:
        view.publish(view.tasks)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        shares, seen = np.zeros(view.machines, np.int64), self.seen(view)
        for _ in range(tasks):
            place = int(np.argmin(seen))
            seen[place] += 1.0
            shares[place] += 1
        self.give(view, application.number, shares)

    def seen(self, view: Any) -> Any:
        """Return the numbers on the board, to be changed."""
        return view.board.values.copy()

    def give(self, view: Any, application: int, shares: Any) -> None:
        """Send each machine its share."""
        for place in np.flatnonzero(shares).tolist():
            view.send(place, "share", application=application, tasks=int(shares[place]))

    def on_share(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)
        view.publish(view.tasks)


class Shortest(gs.BoardScheduler, frozen=True, kw_only=True):
    """Scheduler of `ShortestNode`."""

    name = "shortest"
    policy = ShortestNode
    node_forms = ("interpreted",)
    watch = "completion"
    messages: ClassVar[dict[str, gs.Message]] = {
        "share": gs.Message(170, moves_tasks=True, application=int, tasks=int)
    }


class KeptBoardNode(ShortestNode):
    """Node that keeps the array of the board, which changes with the next access."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.values = np.zeros(0)

    def seen(self, view: Any) -> Any:
        if not len(self.values):
            self.values = view.board.values
        return self.values.copy()


class WritableBoardNode(ShortestNode):
    """Node that writes its shares to the array of the board."""

    def seen(self, view: Any) -> Any:
        values = view.board.values
        values.flags.writeable = True
        return values


class WeightsNode(ShortestNode):
    """Node that weights machines by what the board shows, which is infinite for failed ones."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        load = view.board.values / view.board.values.sum() if view.board.values.any() else np.zeros(1)
        shares = np.zeros(view.machines, np.int64)
        for k in range(tasks):
            shares[(k + int(load[0] * tasks)) % view.machines] += 1
        self.give(view, application.number, shares)


class RoundedSharesNode(ShortestNode):
    """Node that rounds the shares of a large application, so that their sum may differ from its tasks."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        if tasks < 3 * view.machines:
            super().on_release(view, application, tasks)
            return
        weights = 1.0 / (1.0 + view.board.values)
        self.give(view, application.number, np.rint(tasks * weights / weights.sum()).astype(np.int64))


class OldBoardNode(ShortestNode):
    """Node that uses the board as it last saw it if that was within a minute, even before a failure."""

    last: ClassVar[dict[int, tuple[float, Any]]] = {}

    def seen(self, view: Any) -> Any:
        at, values = self.last.get(view.node, (-math.inf, None))
        if not at <= view.now < at + 60.0:
            values = super().seen(view)
            self.last[view.node] = view.now, values
        return values.copy()


class KeptBoard(Shortest, frozen=True, kw_only=True):
    policy = KeptBoardNode


class WritableBoard(Shortest, frozen=True, kw_only=True):
    policy = WritableBoardNode


class InfiniteWeights(Shortest, frozen=True, kw_only=True):
    policy = WeightsNode


class RoundedShares(Shortest, frozen=True, kw_only=True):
    policy = RoundedSharesNode


class OldBoard(Shortest, frozen=True, kw_only=True):
    policy = OldBoardNode


# -- applications that follow others ------------------------------------------------------------------------


class NewestOnlyNode(ChoicesNode):
    """Node that takes an application with a lower number than the last one for a repeated submission."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.last = -1

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        if application.number > self.last:
            self.last = application.number
            super().on_release(view, application, tasks)

    def on_lost(self, view: Any, application: Any, tasks: int) -> None:
        super().on_release(view, application, tasks)


class NewestOnly(Choices, frozen=True, kw_only=True):
    policy = NewestOnlyNode


_KINDS: dict[tuple[str, str], dict[type[gs.Scheduler], tuple[str, ...]]] = {
    ("knows without a message", "roles"): {
        SharedIdle: ("isolated", "resumed", "locality", "repeatable"),
        PeekingRoles: ("isolated", "resumed", "locality", "repeatable"),
        FutureRoles: ("isolated", "resumed", "locality", "foresight", "runs"),
    },
    ("depends on an order", "roles"): {PlainSet: ("resumed", "forms")},
    ("depends on its surroundings", "roles"): {MastersOfProcessors: ("hash seed",)},
    ("loses or repeats tasks", "roles"): {
        Patient: ("runs", "locality"),
        SilentRestart: ("runs", "locality"),
        FirstWorker: ("runs", "locality"),
    },
    ("loses or repeats tasks", "requests"): {
        LostRequest: ("runs", "locality"),
        RepeatedRequest: ("runs", "locality"),
        SmallTable: ("runs", "locality"),
        ByteNumbers: ("runs", "locality"),
        SharesOnDisk: ("runs", "locality"),
        LateLoot: ("runs", "locality"),
        DoubleLoot: ("runs", "locality"),
    },
    ("forgets in a checkpoint", "requests"): {Callbacks: ("resumed", "runs")},
    ("changes what it is given", "boards"): {
        WritableBoard: ("runs", "forms", "resumed"),
        KeptBoard: ("resumed", "forms"),
    },
    ("loses or repeats tasks", "boards"): {
        InfiniteWeights: ("runs",),
        RoundedShares: ("runs",),
    },
    ("remembers beyond the run", "boards"): {
        OldBoard: ("repeatable", "isolated", "resumed", "forms", "runs"),
    },
    ("ignores what must end before", "after"): {NewestOnly: ("runs", "locality")},
}

PLANTED_ROLES = {
    scheduler.__name__: Fault(scheduler, kind, tier, laws)
    for (kind, tier), schedulers in _KINDS.items()
    for scheduler, laws in schedulers.items()
}
