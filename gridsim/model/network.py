"""The network model: what a message costs on its way from one machine to another."""

from __future__ import annotations

from typing import Literal

import msgspec

from gridsim.errors import ScenarioError
from gridsim.support.arguments import flag, normalise, one_of, real

#: Bytes of a task; so that their sum over all tasks is a number.
_LARGEST = 1e15


class Network(msgspec.Struct, frozen=True, kw_only=True):
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

    latency: float = 0.050
    jitter: float = 0.0
    bandwidth: float = 125_000.0
    interfaces: Literal["fifo", "equal"] = "fifo"
    task_data: float = 0.0
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
        latency = real("network.latency", self.latency, low=0, unit="s")
        jitter = real("network.jitter", self.jitter, low=0, unit="s")
        if jitter > latency:
            raise ScenarioError(f"network.jitter must be in 0..latency, {latency!r} s, got {jitter!r}")
        task_data = real("network.task_data", self.task_data, low=0, unit="bytes")
        if task_data > _LARGEST:
            raise ScenarioError(f"network.task_data must be in 0..{_LARGEST:g} bytes, got {task_data!r}")
        normalise(
            self,
            latency=latency,
            jitter=jitter,
            bandwidth=real("network.bandwidth", self.bandwidth, above=0, unit="bytes/s", finite=False),
            interfaces=one_of("network.interfaces", self.interfaces, ("fifo", "equal")),
            task_data=task_data,
            record_use=flag("network.record_use", self.record_use),
        )
