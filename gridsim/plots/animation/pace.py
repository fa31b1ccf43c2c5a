"""The pace of an animation: simulated time over the time of playing, slower while messages travel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gridsim.plots.animation.scenes import Messages, Scene
from gridsim.support.arrays import Floats

#: Seconds of playing for all time in which no message travels, and for the travel of a typical message.
_CALM_SECONDS, _TRAVEL_SECONDS = 15.0, 0.7
#: Largest number of seconds of playing in which messages travel, and its largest share of a fixed duration.
_MAX_TRAVEL_SECONDS, _MAX_TRAVEL_SHARE = 45.0, 0.7
#: With more separate times in which messages travel, the pace is constant.
_MAX_PARTS = 2000


@dataclass(frozen=True)
class Pace:
    """A piecewise linear map between playing time and simulated time.

    Parameters
    ----------
    play, time
        float[knots] each, s, ascending.
    """

    play: Floats
    time: Floats

    @property
    def seconds(self) -> float:
        """Duration of playing, s."""
        return float(self.play[-1])

    def times(self, play: ArrayLike) -> Floats:
        """Return the simulated times (s) at playing times (s)."""
        return np.interp(np.asarray(play, np.float64), self.play, self.time)

    def plays(self, time: ArrayLike) -> Floats:
        """Return the playing times (s) of simulated times (s)."""
        return np.interp(np.asarray(time, np.float64), self.time, self.play)


def pace_of(scene: Scene, seconds: float | None) -> Pace:
    """Return the pace of an animation of `seconds`, or of a duration that fits its messages.

    Messages about applications travel slowly enough to be followed, or all messages if none is about an
    application, unless there are too many of them.
    """
    span = scene.end - scene.begin
    constant = _CALM_SECONDS if seconds is None else seconds
    linear = Pace(np.array([0.0, constant]), np.array([scene.begin, scene.end]))
    if scene.messages is None:
        return linear
    low, high = _travel_times(scene.messages, scene.end)
    moving = float((high - low).sum())
    if not len(low) or len(low) > _MAX_PARTS or moving <= 0 or moving >= span:
        return linear
    travel = (scene.messages.until - scene.messages.sent)[scene.messages.is_followed]
    slow = moving / float(np.median(travel)) * _TRAVEL_SECONDS if np.median(travel) > 0 else 0.0
    slow = min(slow, _MAX_TRAVEL_SECONDS if seconds is None else _MAX_TRAVEL_SHARE * seconds)
    calm = constant if seconds is None else seconds - slow
    if slow / moving <= calm / (span - moving):  # messages already travel slowly
        return linear
    times = np.concatenate(([scene.begin], np.stack((low, high), axis=1).ravel(), [scene.end]))
    rate = np.full(len(times) - 1, calm / (span - moving))
    rate[1::2] = slow / moving
    play = np.concatenate(([0.0], np.cumsum(np.diff(times) * rate)))
    is_kept = np.append(True, np.diff(play) > 0)
    return Pace(play[is_kept], times[is_kept])


def _travel_times(messages: Messages, end: float) -> tuple[Floats, Floats]:
    """Return the beginnings and ends of the times in which messages travel, s, disjoint and ascending."""
    rows = np.flatnonzero(messages.is_followed)
    low, high = messages.sent[rows], np.minimum(messages.until[rows], end)
    latest = np.maximum.accumulate(high)
    is_first = np.append(True, low[1:] > latest[:-1])
    first = np.flatnonzero(is_first)
    return low[first], latest[np.append(first[1:], len(low)) - 1]
