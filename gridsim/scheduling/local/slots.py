"""The slot schedule of one machine, as its node sees it (`View.slots`): for schedulers of rigid jobs."""

from __future__ import annotations

from collections.abc import Callable

from gridcore.dgs.slots import SlotSchedules


class OwnSlots:
    """The slots that one machine has reserved for jobs; it does one job at a time.

    schedules : the schedules of all machines, of which this is one.
    machine : its number.
    clock : callable that returns the time, ns.
    freed : called with (application, machine, start) when the machine takes back a reservation or tries to.
    """

    def __init__(
        self,
        schedules: SlotSchedules,
        machine: int,
        clock: Callable[[], int],
        freed: Callable[[int, int, int], None],
    ) -> None:
        self._schedules, self._machine, self._clock, self._freed = schedules, [machine], clock, freed

    def free_from(self, start: int, slots: int) -> int:
        """Return the first slot, from `start` on, from which this machine is free for `slots` slots."""
        found = self._schedules.earliest_start(self._machine, 1, slots, start)
        assert found is not None  # there is one candidate, and one machine is wanted
        return int(found[0])

    def reserve(self, application: int, start: int, slots: int) -> bool:
        """Reserve `slots` slots from `start` on; return False, and reserve nothing, if they are not free."""
        now = self._clock()
        return bool(self._schedules.reserve(self._machine, [start], [slots], [application], now)[0])

    def release(self, application: int, start: int, since: int) -> bool:
        """Take back, from slot `since` on, what was reserved for `application` from `start` on.

        If the machine works on the job, it stops.  Returns whether there was anything to take back.
        """
        now = self._clock()
        done = self._schedules.release(self._machine, [start], now, ends=[since], jobs=[application])
        self._freed(application, self._machine[0], start)
        return bool(done[0])
