"""The event engine: a clock, a queue of cohorts, and the transport of messages.

These names are all that a user's scheduler needs of it.
"""

from gridsim.engine.engine import ACT, DELIVERY, TIMER, Engine, Source
from gridsim.engine.transport import Transport, message
from gridsim.support.clock import NEVER, NS, nanoseconds

__all__ = [
    "ACT",
    "DELIVERY",
    "NEVER",
    "NS",
    "TIMER",
    "Engine",
    "Source",
    "Transport",
    "message",
    "nanoseconds",
]
