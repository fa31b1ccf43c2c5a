"""Decentralized schedulers written from the point of view of one node: the second tier of the contract.

A `LocalPolicy` is one node: it gets what is submitted there and the messages that come, and acts through its
`View`, which reaches nothing else.  `LocalScheduler` has the parameters, and says which messages there are.
An adapter makes a `Policy` of them: cohorts become calls, one a row, so that this tier is slower than the
first, and fast enough for 10,000 machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from gridsim.arguments import normalise, real, whole
from gridsim.errors import ScenarioError
from gridsim.local_adapter import Adapter
from gridsim.local_node import LocalPolicy, Message, View
from gridsim.local_truth import TruthOf
from gridsim.scheduler import Policy, Run, Scheduler

__all__ = ["LocalPolicy", "LocalScheduler", "Message", "View"]


class LocalScheduler(Scheduler, frozen=True, kw_only=True):
    """Parameters of a scheduler whose nodes are `policy` objects.

    degree : how many neighbours a node has: other machines, drawn at random once.
    detection : s until the submitter of tasks that were lost in a failure is told.

    Class variables: ``policy``, a `LocalPolicy`; ``messages``, name -> `Message`, handled at one instant in
    this order; ``timers``, their names; ``local_order``, ``"edf"`` or ``"fifo"``, of the tasks of a machine;
    ``tables``, name -> columns, ``int`` or ``float``, of what nodes note for the result (`View.note`);
    ``truths``, action -> what is true when a node decides that (`View.decide`), which no node gets to know.

    Raises ScenarioError for parameters that are out of range, or without a ``policy``.
    """

    decentralized: ClassVar[bool] = True
    policy: ClassVar[type[LocalPolicy]]
    messages: ClassVar[Mapping[str, Message]] = {}
    timers: ClassVar[tuple[str, ...]] = ()
    local_order: ClassVar[Literal["edf", "fifo"]] = "edf"
    tables: ClassVar[Mapping[str, Mapping[str, type]]] = {}
    truths: ClassVar[Mapping[str, TruthOf]] = {}

    degree: int = 8
    detection: float = 1.0

    def __post_init__(self) -> None:
        self._check_policy()
        normalise(
            self,
            degree=whole(f"{self.name}.degree", self.degree, low=1),
            detection=real(f"{self.name}.detection", self.detection, low=0, unit="s"),
        )

    @property
    def order(self) -> Literal["edf", "fifo"]:
        """See `gridsim.scheduler.Scheduler`."""
        return self.local_order

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduler.Scheduler`."""
        self._check_policy()  # which a subclass with checks of its own may have left out
        return Adapter(self, run)

    def _check_policy(self) -> None:
        policy = getattr(self, "policy", None)
        if not (isinstance(policy, type) and issubclass(policy, LocalPolicy)):
            raise ScenarioError(
                f"{type(self).__name__}.policy must be a subclass of LocalPolicy, got {policy!r}"
            )
