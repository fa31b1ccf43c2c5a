"""What a workload comes to: the applications of a run, and one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Applications:
    """The workload as a scheduler sees it: columns of length n, in order of release; index = application.

    release_ns int64 (ns); release float64 (s, exactly release_ns / 1e9); tasks int64; task_size float64
    (Mflop); size float64 (Mflop, tasks * task_size); submitter int64 (machine).
    """

    release_ns: Integers
    release: Floats
    tasks: Integers
    task_size: Floats
    size: Floats
    submitter: Integers

    def __len__(self) -> int:
        return len(self.tasks)


class Application(NamedTuple):
    """What a node knows of an application that was submitted there, or that it was told of."""

    number: int
    tasks: int
    task_size: float  # Mflop
    size: float  # Mflop
    release: float  # s
