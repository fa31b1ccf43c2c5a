"""The slot schedule of one machine, as its node sees it (`View.slots`): for schedulers of rigid jobs."""

from __future__ import annotations

from collections.abc import Callable

from gridcore.dgs.slots import SlotSchedules
from gridcore.dgs.state import claimant, claimed


class OwnSlots:
    """The slots that one machine has reserved for jobs; it does one job at a time.

    Parameters
    ----------
    schedules
        The schedules of all machines, of which this is one.
    machine
        Its number.
    clock
        Callable that returns the time, ns.
    freed
        Called with (application, machine, attempt) when the machine takes back a reservation or tries to.
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

        Parameters
        ----------
        attempt
            Which attempt to place the job this is.
        """
        now, whose = self._clock(), [claimed(application, attempt)]
        return bool(self._schedules.reserve(self._machine, [start], [slots], whose, now)[0])

    def extend(self, application: int, attempt: int, start: int, end: int) -> list[tuple[int, int]] | None:
        """Let what was reserved from `start` on in an attempt to place a job end later, at slot `end`.

        Returns (application, attempt) of what is taken back for it, in order of time; None if nothing was
        reserved.
        """
        now, whose = self._clock(), claimed(application, attempt)
        met = self._schedules.extend(self._machine[0], start, end, whose, now)
        if met is None:
            return None
        jobs, attempts = claimant(met[0])
        return list(zip(jobs.tolist(), attempts.tolist(), strict=True))

    def release(self, application: int, attempt: int, start: int, since: int) -> bool:
        """Take back, from slot `since` on, what was reserved from `start` on in an attempt to place a job.

        If the machine works on the job, it stops.  Returns whether there was anything to take back.
        """
        now, whose = self._clock(), [claimed(application, attempt)]
        done = self._schedules.release(self._machine, [start], now, ends=[since], jobs=whose)
        self._freed(application, self._machine[0], attempt)
        return bool(done[0])
