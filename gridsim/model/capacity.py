"""The cores, memory and GPUs of machines that tasks share, and the tasks for which they have room.

Bytes are whole numbers, rounded down: of M bytes, c tasks of M / c bytes have room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.model.attributes import Attributes
from gridsim.support.arrays import Floats, Integers

#: Bytes of a machine whose memory is unknown.
_ASSUMED_BYTES = 2**53


class MachineCapacity(NamedTuple):
    """Cores, memory and GPUs of each machine.

    Parameters
    ----------
    cores, memory, gpus
        int64[machines]; memory is in bytes.
    """

    cores: Integers
    memory: Integers
    gpus: Integers

    @classmethod
    def of(
        cls, machines: int, cores: Integers | None, attributes: Attributes | None, gpus: Integers | None
    ) -> MachineCapacity:
        """Return the capacity of machines; by default they have one core, enough memory, and no GPUs."""
        memory = None if attributes is None else attributes.memory
        return cls(
            np.ones(machines, np.int64) if cores is None else cores,
            np.full(machines, _ASSUMED_BYTES) if memory is None else whole_bytes(memory, machines),
            np.zeros(machines, np.int64) if gpus is None else gpus,
        )

    def room(
        self,
        partition: Integers,
        cores: Integers | None,
        gpus: Integers | None,
        tasks_per_machine: Integers | None,
        memory: Floats | None,
        sizes: Integers | None = None,
    ) -> Integers:
        """Return the number of tasks for which the empty machines have room, for each job: int64[jobs].

        Parameters
        ----------
        partition
            The partition of each job, int64[jobs].
        cores, gpus, tasks_per_machine, memory
            What a task of each job takes, as in `Applications`; by default one core, one task a machine, and
            nothing else.
        sizes
            The machines of each partition, numbered from 0 on in this order; None for one partition.
        """
        ones = np.ones(len(partition), np.int64)
        needs = np.stack(
            (
                partition,
                ones if cores is None else cores,
                whole_bytes(memory, len(partition)),
                0 * ones if gpus is None else gpus,
                ones if tasks_per_machine is None else tasks_per_machine,
            )
        )
        shapes, shape_of = np.unique(needs, axis=1, return_inverse=True)
        ends = np.cumsum([len(self.cores)] if sizes is None else sizes)
        rooms = np.zeros(shapes.shape[1], np.int64)
        for k, (place, *task, limit) in enumerate(shapes.T.tolist()):
            own = slice(0 if place == 0 else ends[place - 1], ends[place])
            room = np.full(len(self.cores[own]), limit or np.iinfo(np.int64).max)
            for amount, capacity in zip(task, (self.cores, self.memory, self.gpus), strict=True):
                if amount:
                    room = np.minimum(room, capacity[own] // amount)
            rooms[k] = room.sum()
        return rooms[shape_of.ravel()]


def whole_bytes(memory: Floats | None, count: int) -> Integers:
    """Return `memory` as whole bytes, rounded down, by default 0: int64[count]."""
    return np.zeros(count, np.int64) if memory is None else np.floor(memory).astype(np.int64)


def scarce_memory(
    cores: Integers | None, attributes: Attributes | None, memory: Floats | None
) -> NDArray[np.bool_]:
    """Return the machines on which tasks may wait for memory while a core is idle: bool[machines].

    These are the machines with the memory for some task, but not for that task on each of its cores.

    Parameters
    ----------
    cores
        int64[machines], number of cores of each machine; None if each has one.
    attributes
        Attributes of the machines; None if they have none.
    memory
        float64[n], bytes that a task of each application takes; None for none.
    """
    if cores is None or attributes is None or attributes.memory is None or memory is None:
        return np.zeros(1 if cores is None else len(cores), np.bool_)
    capacity = whole_bytes(attributes.memory, len(cores))
    needs = np.sort(whole_bytes(memory, len(memory)))
    most = np.searchsorted(needs, capacity, "right")
    return np.asarray(np.searchsorted(needs, capacity // cores, "right") < most)
