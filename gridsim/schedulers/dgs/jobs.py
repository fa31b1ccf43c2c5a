"""What the node program of DGS_ASAP is given beside its view: the records of jobs, and who acts for them."""

from __future__ import annotations

from typing import Any, Protocol

from gridcore.dgs.slots import SlotSchedules
from gridsim.scheduling.local.policy import View

#: `gridsim.schedulers.dgs.node.Job`, which imports this module.
Job = Any


class Jobs(Protocol):
    """What a node program of rigid jobs is given beside its view.

    records : the jobs by number.  faults : whether machines may fail.
    """

    records: list[Job]
    schedules: SlotSchedules
    faults: bool
    slot: int
    one_way: int
    latency: int

    @property
    def now(self) -> int:
        """The time, also when no machine is up."""

    def home(self, job: Job) -> View | None:
        """Return the view of the node that acts for the scheduling node of `job`; None if no node is up.

        That is the scheduling node itself, or the next one that is up.
        """

    def wake(self, time: int, name: str, job: Job) -> None:
        """Call ``on_<name>(job)`` of the node that acts for the scheduling node at `time`."""

    def place(self, job: Job) -> None:
        """Let the job run on its nodes from its start on, which they do without a further message."""

    def withdraw(self, job: Job) -> None:
        """Undo `place`: the job must start again."""

    def reject(self, job: Job, *, too_large: bool = False) -> None:
        """Give the job up for good."""

    def reach(self, job: int, nodes: int) -> None:
        """Record how many nodes a search for a job has reached."""
