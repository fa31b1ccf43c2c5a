"""The slot schedule of one machine."""

from __future__ import annotations

from gridcore.dgs.slots import SlotSchedules
from gridsim.scheduling.local.slots import OwnSlots


def test_a_machine_reserves_and_releases_its_own_slots() -> None:
    schedules, freed = SlotSchedules(3), list[tuple[int, int, int]]()
    own = OwnSlots(schedules, 1, lambda: 7, lambda *what: freed.append(what))
    assert own.reserve(5, 10, 4) and not own.reserve(6, 13, 1) and own.reserve(6, 14, 2)
    assert (own.free_from(0, 10), own.free_from(0, 11), own.free_from(12, 1)) == (0, 16, 16)
    assert not own.release(6, 10, 10)  # that is of another job
    assert own.release(5, 10, 12)  # from slot 12 on
    assert [column.tolist() for column in schedules.reservations(1)] == [[10, 14], [12, 16], [5, 6]]
    assert own.free_from(10, 2) == 12 and not own.release(5, 10, 12)
    assert freed == [(6, 1, 10), (5, 1, 10), (5, 1, 10)]
    assert all(not len(schedules.reservations(other)[0]) for other in (0, 2))
