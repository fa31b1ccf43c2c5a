"""The network model: what a message costs on its way from one machine to another."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from gridsim.errors import ScenarioError
from gridsim.support.arguments import real
from gridsim.support.parameters import Declared, Limits

#: Bytes of a task; so that their sum over all tasks is a number.
_LARGEST = 1e15


class Network(Declared, frozen=True, kw_only=True):
    """Latency and interfaces, the same for every machine.

    latency : s, the same for every pair of machines.
    jitter : s; each message has a latency of its own, uniform in latency - jitter .. latency + jitter, from
        the run's seed.  Delays that differ break up cohorts, which is slower.
    bandwidth : bytes/s of each machine, up and down; ``inf`` for no transmission time.
    interfaces : ``"fifo"``: each machine sends, and receives, one message after another; a message starts
        when the sender's interface is free, its head arrives `latency` later, and it is delivered when the
        receiver's interface, free again, has taken its bytes.  ``"equal"``: no queueing, every message
        takes its latency + bytes / bandwidth; the fast mode for scale.
    task_data : bytes that a machine fetches for each task it starts, from a repository without limits.  They
        are counted apart, and delay neither tasks nor messages.
    record_use : record how much of its interfaces each machine uses, from the first to the last release
        (8 bytes a machine and second of memory).

    Messages between two nodes of one machine take no time and are not counted.
    """

    part: ClassVar[str] = "network"

    latency: Annotated[float, Limits(low=0, unit="s")] = 0.050
    jitter: Annotated[float, Limits(low=0, unit="s")] = 0.0
    bandwidth: Annotated[float, Limits(above=0, unit="bytes/s", finite=False)] = 125_000.0
    interfaces: Literal["fifo", "equal"] = "fifo"
    task_data: Annotated[float, Limits(low=0, high=_LARGEST, unit="bytes")] = 0.0
    record_use: bool = False

    @classmethod
    def star(
        cls,
        distance: float = 50_000.0,
        congestion: float = 0.1,
        bandwidth: float = 125_000.0,
        velocity: float = 2e8,
    ) -> Network:
        """All machines equally far from one provider, through which they talk (the RJSS paper's section 2.2).

        A message of b bytes takes congestion + 2 distance / velocity + b / bandwidth, and nobody queues.

        distance : m, from a machine to the provider.
        congestion : s, the same for all.
        bandwidth : bytes/s.  The paper gives none; the default is 1 Mbit/s.
        velocity : m/s, of signals.
        """
        distance = real("network.distance", distance, low=0, unit="m")
        congestion = real("network.congestion", congestion, low=0, unit="s")
        velocity = real("network.velocity", velocity, above=0, unit="m/s", finite=False)
        return cls(latency=congestion + 2 * distance / velocity, bandwidth=bandwidth, interfaces="equal")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.jitter > self.latency:
            raise ScenarioError(
                f"network.jitter must be in 0..latency, {self.latency!r} s, got {self.jitter!r}"
            )
