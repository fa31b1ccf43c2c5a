"""The slot schedule of one machine, which `View.slots` gives to its node in schedulers of rigid jobs."""

from __future__ import annotations

from collections.abc import Callable

from gridcore.dgs.slots import SlotSchedules
from gridcore.dgs.state import claimant, claimed


class MachineSlots:
    """The slots that one machine has reserved for jobs; a slot has at most one job.

    Parameters
    ----------
    schedules
        The schedules of all machines.
    machine
        The number of this machine.
    clock
        Function that returns the simulated time, ns.
    on_release
        Function that is called with (application, machine, attempt) after each call of `release`.
    on_change
        Function that is called after each change with the name of the method, the machine and the arguments.
    """

    def __init__(
        self,
        schedules: SlotSchedules,
        machine: int,
        clock: Callable[[], int],
        on_release: Callable[[int, int, int], None],
        on_change: Callable[..., None] | None = None,
    ) -> None:
        self._schedules, self._machine, self._clock = schedules, [machine], clock
        self._on_release, self._on_change = on_release, on_change

    def _report_change(self, method: str, *arguments: int) -> None:
        if self._on_change is not None:
            self._on_change(method, self._machine[0], *arguments)

    def reserve(self, application: int, attempt: int, start: int, slots: int) -> bool:
        """Reserve `slots` slots for a job, from slot `start` on.

        Parameters
        ----------
        attempt
            The number of the attempt to place the job.

        Returns
        -------
        bool
            Whether all of the slots were free; otherwise nothing is reserved.
        """
        now, keys = self._clock(), [claimed(application, attempt)]
        is_reserved = bool(self._schedules.reserve(self._machine, [start], [slots], keys, now)[0])
        if is_reserved:
            self._report_change("reserve", application, attempt, start, slots)
        return is_reserved

    def holds(self, application: int, attempt: int, start: int) -> bool:
        """Return whether an attempt to place a job has a reservation from slot `start` on."""
        starts, _, keys = self._schedules.reservations(self._machine[0])
        return bool(((starts == start) & (keys == claimed(application, attempt))).any())

    def extend(self, application: int, attempt: int, start: int, end: int) -> list[tuple[int, int]] | None:
        """Extend the reservation that an attempt made from slot `start` on, so that it ends at slot `end`.

        Returns
        -------
        list of (application, attempt)
            The reservations that are released for it, in order of time; None if the attempt has no
            reservation from `start` on.
        """
        now, key = self._clock(), claimed(application, attempt)
        released = self._schedules.extend(self._machine[0], start, end, key, now)
        if released is None:
            return None
        self._report_change("extend", application, attempt, start, end)
        jobs, attempts = claimant(released[0])
        return list(zip(jobs.tolist(), attempts.tolist(), strict=True))

    def release(self, application: int, attempt: int, start: int, since: int) -> bool:
        """Release the reservation that an attempt made from slot `start` on, beginning with slot `since`.

        If the machine is running the job, it stops.

        Returns
        -------
        bool
            Whether there was such a reservation.
        """
        now, keys = self._clock(), [claimed(application, attempt)]
        is_released = bool(self._schedules.release(self._machine, [start], now, ends=[since], jobs=keys)[0])
        if is_released:
            self._report_change("release", application, attempt, start, since)
        self._on_release(application, self._machine[0], attempt)
        return is_released
