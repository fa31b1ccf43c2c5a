"""Network model: the time that a message takes from one machine to another."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from gridsim.errors import ScenarioError
from gridsim.support.arguments import real
from gridsim.support.parameters import CheckedStruct, Limits

#: Largest number of bytes of a task's data, so that the sum over all tasks is finite.
_MAX_TASK_DATA = 1e15


class Network(CheckedStruct, frozen=True, kw_only=True):
    """Latency and network interfaces, the same for every machine.

    Messages between two nodes of one machine take no time and are not counted.  A message must take less than
    1100 s of transmission.

    Parameters
    ----------
    latency
        Latency of a message, s, the same for every pair of machines.
    jitter
        Largest deviation of the latency of a message, s.  The latency of each message is uniform in
        latency - jitter .. latency + jitter, drawn with the run's seed.  Messages with different delays
        cannot be handled together, which makes runs slower.
    bandwidth
        Bytes/s of each machine, up and down; ``inf`` for no transmission time.
    interfaces
        Sharing of a machine's link: ``"fifo"``, one message after another, or ``"equal"``, without queues.
        With ``"fifo"`` each machine sends, and receives, one message after another.  A message starts when
        the sender's interface is free, and its first byte arrives `latency` later.  It is delivered when the
        receiver's interface is free and has received all bytes.  With ``"equal"`` messages do not queue, and
        each takes latency + bytes / bandwidth; this is the fast mode for large runs.
    task_data
        Bytes that a machine fetches for each task it starts, from a repository of unlimited bandwidth.  They
        are counted separately, and delay neither tasks nor messages.
    record_use
        Record how much of its interfaces each machine uses, from the first to the last release (8 bytes of
        memory per machine and second).
    """

    part: ClassVar[str] = "network"

    latency: Annotated[float, Limits(low=0, unit="s")] = 0.050
    jitter: Annotated[float, Limits(low=0, unit="s")] = 0.0
    bandwidth: Annotated[float, Limits(low=1e-6, unit="bytes/s", finite=False)] = 125_000.0
    interfaces: Literal["fifo", "equal"] = "fifo"
    task_data: Annotated[float, Limits(low=0, high=_MAX_TASK_DATA, unit="bytes")] = 0.0
    record_use: bool = False

    @classmethod
    def star(
        cls,
        distance: float = 50_000.0,
        congestion: float = 0.1,
        bandwidth: float = 125_000.0,
        velocity: float = 2e8,
    ) -> Network:
        """Connect all machines to one provider at equal distance (RJSS paper, section 2.2).

        A message of b bytes takes congestion + 2 distance / velocity + b / bandwidth, which is inferred: the
        paper's formula cannot be read.  Messages do not queue.

        Parameters
        ----------
        distance
            Distance from a machine to the provider, m.
        congestion
            Delay of every message, s.
        bandwidth
            Bytes/s.  The paper states none; the default is 1 Mbit/s.
        velocity
            Speed of signals, m/s.
        """
        distance = real("network.distance", distance, low=0, unit="m")
        congestion = real("network.congestion", congestion, low=0, unit="s")
        velocity = real("network.velocity", velocity, above=0, unit="m/s", finite=False)
        return cls(latency=congestion + 2 * distance / velocity, bandwidth=bandwidth, interfaces="equal")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.jitter > self.latency:
            raise ScenarioError(
                f"network.jitter must be at most network.latency, {self.latency!r} s, got {self.jitter!r}"
            )
