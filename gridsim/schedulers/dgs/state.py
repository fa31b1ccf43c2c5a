"""What the parts of a DGS_ASAP negotiation share: the state of its nodes, and methods that they all call."""

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
    """The parameters of `gridsim.DgsAsap` that the parts use."""

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

    slot, one_way : ns that a slot lasts and that a message takes.  length : int64[jobs], slots that each
        job reserves.
    phase, searches, in_vain, reached : one value for each job.  talks : the jobs that are being placed.
    flow : the compiled protocol, which replaces the parts, or None.  log : what records decisions, or None.
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
        """Return the first slot that begins at `time` ns or later."""

    def home(self, job: int) -> int:
        """Return the machine that acts for the scheduling node of `job`; -1 if none is up."""

    def start_again(self, job: int) -> None:
        """Let the scheduling node react to the failure of a machine of `job`, which is detected now."""

    def over(self) -> None:
        """End the run if all jobs are done or have been rejected."""
