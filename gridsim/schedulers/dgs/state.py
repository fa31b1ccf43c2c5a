"""What the parts of a DGS_ASAP negotiation share: the state of its nodes, and what they do for each other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gridcore.dgs.protocol import JobFlow
from gridcore.dgs.slots import SlotSchedules
from gridsim.schedulers.dgs.neighbourhood import Neighbourhood
from gridsim.schedulers.rigid.runs import Runs
from gridsim.scheduling.contract import Run
from gridsim.support.arrays import Integers


class Parameters(Protocol):
    """What the parts need of `gridsim.DgsAsap`."""

    @property
    def candidates(self) -> str: ...
    @property
    def hops(self) -> int: ...
    @property
    def wide(self) -> str: ...
    @property
    def detection(self) -> float: ...


class Shared(Protocol):
    """The negotiation, as its parts see it.

    slot, one_way : ns of a slot, and that a message takes.  length : int64[jobs], slots that each reserves.
    phase, searches, in_vain, reached : of each job.  talks : of jobs that are being placed.
    flow : what handles messages in place of the parts, or None.  log : what notes decisions, or None.
    """

    @property
    def parameters(self) -> Parameters: ...

    run: Run
    slot: int
    one_way: int
    length: Integers
    schedules: SlotSchedules
    neighbourhood: Neighbourhood
    runs: Runs
    phase: NDArray[np.int8]
    searches: Integers
    in_vain: Integers
    reached: Integers
    talks: dict[int, SimpleNamespace]
    flow: JobFlow | None
    log: Any
    failures: Any

    def slot_at(self, time: Any) -> Any:
        """The first slot that begins at `time` ns or later."""

    def home(self, job: int) -> int:
        """Who acts for the scheduling node of a job; -1 for nobody."""

    def start_again(self, job: int) -> None:
        """The scheduling node hears that a machine of `job` has failed."""

    def over(self) -> None:
        """End the run if all jobs are done or have been rejected."""
