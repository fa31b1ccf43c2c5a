"""Node programs that rely on an order of events that are a few ms apart, each with one fault."""

from __future__ import annotations

from typing import Any, ClassVar

import gridsim as gs


class PassingNode(gs.NodeProgram):
    """Node that gives its tasks to the next machine, and 2 ms later sends a word about them."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.give(view, application.number, tasks)
        view.timer(0.002, "later", application=application.number)

    def give(self, view: Any, application: int, tasks: int) -> None:
        view.send((view.node + 1) % view.machines, "share", application=application, tasks=tasks)

    def on_later(self, view: Any, application: int) -> None:
        view.send((view.node + 1) % view.machines, "word", application=application)

    def on_share(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)

    def on_word(self, view: Any, message: Any) -> None:
        pass

    def on_lost(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)


class Passing(gs.NodeScheduler, frozen=True, kw_only=True):
    """Scheduler of `PassingNode`, which handles all orders."""

    name = "passing"
    policy = PassingNode
    node_forms = ("interpreted",)
    messages: ClassVar[dict[str, gs.Message]] = {
        "share": gs.Message(170, moves_tasks=True, application=int, tasks=int),
        "word": gs.Message(40, application=int),
    }


class CancellingNode(PassingNode):
    """Node that cancels a share by the word, which must come after it."""

    def on_word(self, view: Any, message: Any) -> None:
        [tasks] = [tasks for application, tasks in view.queued if application == message.application]
        view.enqueue(message.application, view.take(message.application, tasks))


class MergingNode(PassingNode):
    """Node that queues a share 3 ms after it came, by when the word must have come."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.words = gs.IntSet()

    def on_word(self, view: Any, message: Any) -> None:
        self.words.add(message.application)

    def on_share(self, view: Any, message: Any) -> None:
        view.timer(0.003, "merge", application=message.application, tasks=message.tasks)

    def on_merge(self, view: Any, application: int, tasks: int) -> None:
        self.words.remove(application)
        view.enqueue(application, tasks)


class GrantingNode(PassingNode):
    """Node 0 grants claims, and expects shares in the order of the grants."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.grants = gs.Fifo(node=int)
        self.held = gs.IntMap(tasks=int)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.held[application.number] = tasks
        view.send(0, "word", application=application.number)

    def on_word(self, view: Any, message: Any) -> None:
        if view.node == 0:
            self.grants.push(message.sender)
            view.send(message.sender, "word", application=message.application)
        else:
            tasks = self.held.pop(message.application)
            view.send(0, "share", application=message.application, tasks=tasks)

    def on_share(self, view: Any, message: Any) -> None:
        if self.grants.pop() == message.sender:
            super().on_share(view, message)


class ReplyingNode(PassingNode):
    """Node that waits 102 ms for the acknowledgement of a share, which takes 100 ms."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.unacknowledged = gs.IntSet()

    def give(self, view: Any, application: int, tasks: int) -> None:
        self.unacknowledged.add(application)
        super().give(view, application, tasks)

    def on_share(self, view: Any, message: Any) -> None:
        super().on_share(view, message)
        view.send(message.sender, "word", application=message.application)

    def on_later(self, view: Any, application: int) -> None:
        view.timer(0.1, "close", application=application)

    def on_close(self, view: Any, application: int) -> None:
        if application in self.unacknowledged:
            raise RuntimeError("the request was not acknowledged")

    def on_word(self, view: Any, message: Any) -> None:
        self.unacknowledged.discard(message.application)


class LosingNode(ReplyingNode):
    """Node that expects a loss only of shares that were acknowledged."""

    def on_later(self, view: Any, application: int) -> None:
        pass

    def on_lost(self, view: Any, application: Any, tasks: int) -> None:
        if application.number not in self.unacknowledged:
            super().on_lost(view, application, tasks)


class Cancelling(Passing, frozen=True, kw_only=True):
    policy = CancellingNode


class Merging(Passing, frozen=True, kw_only=True):
    policy = MergingNode


class Granting(Passing, frozen=True, kw_only=True):
    policy = GrantingNode


class Replying(Passing, frozen=True, kw_only=True):
    policy = ReplyingNode


class Losing(Passing, frozen=True, kw_only=True):
    policy = LosingNode


#: Kind of race -> scheduler with the fault.
PLANTED_ORDERS: dict[str, gs.Scheduler] = {
    "a cancellation and the arrival": Cancelling(),
    "a timer and a message": Merging(),
    "two claims": Granting(),
    "a timeout and the acknowledgement": Replying(),
    "a failure and the arrival": Losing(),
}
