"""The compiled work queue of WQR-FT, which behaves like the node programs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gridcore.work_queue.dispatch import WorkQueue
from gridsim.engine.engine import Engine
from gridsim.schedulers.wqr.decisions import QueueNotes
from gridsim.schedulers.wqr.outcome import check_waiting, outcome_of
from gridsim.schedulers.wqr.rules import Predictions, Rules, too_long
from gridsim.schedulers.wqr.selections import chosen_machine, chosen_task, sequence
from gridsim.scheduling.contract import Outcome, Policy, Run
from gridsim.support.clock import NEVER


class CompiledWorkQueue(Policy):
    """The policy of `WqrFt` with a compiled kernel, an event source that runs between releases."""

    takes_blocks: ClassVar[bool] = True
    STATE: ClassVar[tuple[str, ...]] = ("queue", "order_chance", "predictions", "notes")

    def __init__(self, parameters: Any, run: Run) -> None:
        self.run, self.parameters = run, parameters
        applications, feed = run.applications, run.feed
        self.offsets, self.sizes = applications.offsets, applications.sizes()
        self.order_chance = run.streams("wqr.order")
        self.predictions = Predictions(parameters.prediction_error, run.streams("wqr.prediction"))
        self.rules = rules = Rules.of(parameters, run)
        self.is_over = False
        machines, pace = len(run.speeds), {}
        if run.load_profile is not None:
            pace = {
                name: getattr(run.load_profile, name)
                for name in ("period", "phase", "factors", "series", "first")
            }
        never = np.full(machines, NEVER, np.int64)
        self.notes: QueueNotes | None = None
        if run.decisions is not None:
            self.notes = QueueNotes(run.decisions, never if feed is None else feed.first)
        first = never if feed is None else self.predictions.of(0, feed.first)
        self.queue = WorkQueue(
            run.speeds,
            applications.tasks,
            self.sizes,
            first,
            bag_order=parameters.bag_order,
            order="ask" if callable(rules.order) else rules.order,
            choice="ask" if callable(rules.choice) else rules.choice,
            max_replicas=parameters.max_replicas,
            min_speed=rules.min_speed,
            interval=rules.interval,
            checkpoint=rules.checkpoint,
            restore=rules.restore,
            local=parameters.checkpoint_store == "local",
            printed=parameters.as_printed,
            prediction={"exact": "told"}.get(parameters.predictor, parameters.predictor),
            faults=feed is not None,
            seed=int(run.streams("wqr.replicas").integers(2**63)),
            log=run.record,
            step=self.notes is not None,
            releases=run.releases,
            **pace,
        )
        run.engine.add_source(self)

    # -- events -----------------------------------------------------------------------------------------

    def on_release(self, applications: list[int]) -> None:
        """Run all events before now, then submit the tasks of `applications`."""
        self._advance(self.run.engine.now)
        for i in applications:
            if self.rules.order in ("small", "great"):
                self.queue.submit(i)
            else:
                sizes = self.sizes[self.offsets[i] : self.offsets[i + 1]]
                self.queue.submit(i, sequence(self.rules.order, sizes, self.order_chance))

    def advance(self, limit: int) -> int:
        """Run up to `limit` ns, and return when the run or, if some follow others, an application ends.

        The run ends with the last task, or if no machine will ever be up again.
        """
        if self.run.releases is not None:
            limit = min(limit, self.run.releases.next_release())
        return self.queue.now if self._advance(limit) != "reached" else NEVER

    def is_exhausted(self) -> bool:
        """Return whether the run has ended by now; `advance` runs only the events before its limit."""
        self._advance(self.run.engine.now + 1)
        return self.is_over

    def collect(self, engine: Engine, time: int) -> None:
        """Stop the engine if the run has ended; after the end of an application, others may be released."""
        if self.is_over:
            engine.stop()

    def _advance(self, until: int) -> str:
        """Run the events before `until` ns; return the reason of the stop.

        It is "reached", "ended" (applications ended at this instant), "done" or "over".
        """
        while True:
            try:
                reason = self.queue.run(until)
            except OverflowError as error:
                raise too_long(self.parameters, self.rules) from error
            if reason == "blocks":
                self._feed()
            elif reason == "decide":
                self._decide()
            else:
                self.is_over = reason in ("done", "over")
                return reason

    def _feed(self) -> None:
        feed = self.run.feed
        assert feed is not None
        block = feed.take()
        if block is None:
            empty = np.zeros(0, np.int64)
            self.queue.feed(empty, empty, empty.astype(np.bool_), empty)
        else:
            if self.notes is not None:
                self.notes.feed(block)
            self.queue.feed(block.time, block.machine, block.up, self.predictions.of(block.time, block.until))

    # -- single decisions, for user functions or the record of decisions ---------------------------------

    def _decide(self) -> None:
        queue, now, order, choice = self.queue, self.queue.now, self.rules.order, self.rules.choice
        if not callable(order):
            application, task = queue.pick_task()
        else:
            application, numbers, residual = queue.candidates()
            task = chosen_task(order, numbers, residual, application, now, self.order_chance)
        if not callable(choice):
            machine = queue.pick_machine(application, task)
        else:
            free, until = queue.idle_machines()
            lasts = queue.lasts(application, task, free)
            machine = chosen_machine(choice, now, free, self.run.speeds[free], until, lasts)
        if self.notes is not None:
            self.notes.decided(queue, application, task, machine)
        if machine < 0:
            queue.wait()
            return
        try:
            queue.assign(application, task, machine)
        except OverflowError as error:
            raise too_long(self.parameters, self.rules) from error

    # -- the end ----------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """Return the outcome.

        Raises
        ------
        ScenarioError
            If with `as_printed` tasks wait for machine 0 forever.
        """
        check_waiting(self.parameters, self.run, self.rules, self.queue.left)
        return outcome_of(self.run, self.rules, self.queue.totals(), self.queue.copies())
