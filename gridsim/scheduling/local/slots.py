"""The slot schedule of one machine, as its node sees it (`View.slots`): for schedulers of rigid jobs."""

from __future__ import annotations

from collections.abc import Callable

from gridcore.dgs.slots import SlotSchedules
from gridcore.dgs.state import claimed


class OwnSlots:
    """The slots that one machine has reserved for jobs; it does one job at a time.

    schedules : the schedules of all machines, of which this is one.
    machine : its number.
    clock : callable that returns the time, ns.
    freed : called with (application, machine, attempt) when the machine takes back a reservation or tries to.
    """

    def __init__(
        self,
        schedules: SlotSchedules,
        machine: int,
        clock: Callable[[], int],
        freed: Callable[[int, int, int], None],
    ) -> None:
        self._schedules, self._machine, self._clock, self._freed = schedules, [machine], clock, freed

    def reserve(self, application: int, attempt: int, start: int, slots: int) -> bool:
        """Reserve `slots` slots from `start` on; return False, and reserve nothing, if they are not free.

        attempt : which attempt to place the job this is.
        """
        now, whose = self._clock(), [claimed(application, attempt)]
        return bool(self._schedules.reserve(self._machine, [start], [slots], whose, now)[0])

    def release(self, application: int, attempt: int, start: int, since: int) -> bool:
        """Take back, from slot `since` on, what was reserved from `start` on in an attempt to place a job.

        If the machine works on the job, it stops.  Returns whether there was anything to take back.
        """
        now, whose = self._clock(), [claimed(application, attempt)]
        done = self._schedules.release(self._machine, [start], now, ends=[since], jobs=whose)
        self._freed(application, self._machine[0], attempt)
        return bool(done[0])
