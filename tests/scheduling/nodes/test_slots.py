"""The slot schedule of one machine."""

from __future__ import annotations

from gridcore.dgs.slots import SlotSchedules
from gridcore.dgs.state import claimant
from gridsim.scheduling.nodes.slots import MachineSlots


def test_a_machine_reserves_and_releases_its_own_slots() -> None:
    schedules, freed = SlotSchedules(3), list[tuple[int, int, int]]()
    own = MachineSlots(schedules, 1, lambda: 7, lambda *what: freed.append(what))
    assert own.reserve(5, 1, 10, 4) and not own.reserve(6, 1, 13, 1) and own.reserve(6, 1, 14, 2)
    assert not own.release(6, 1, 10, 10)  # the reservation belongs to another job
    assert not own.release(5, 2, 10, 12)  # the reservation belongs to another attempt of the job
    assert own.release(5, 1, 10, 12)  # releases slots from 12 on
    starts, ends, claims = schedules.reservations(1)
    assert (starts.tolist(), ends.tolist()) == ([10, 14], [12, 16])
    assert [item.tolist() for item in claimant(claims)] == [[5, 6], [1, 1]]
    assert not own.release(5, 1, 10, 12)
    assert freed == [(6, 1, 1), (5, 1, 2), (5, 1, 1), (5, 1, 1)]
    assert all(not len(schedules.reservations(other)[0]) for other in (0, 2))
