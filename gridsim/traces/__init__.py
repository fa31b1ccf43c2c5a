"""Readers of real traces: job logs, availability, host speeds, and bags of tasks derived from them."""

from __future__ import annotations

from gridsim.traces.availability import AvailabilityTrace
from gridsim.traces.avt import read_avt
from gridsim.traces.bags import Bags, derive_bags
from gridsim.traces.fta import read_fta
from gridsim.traces.hosts import HostSpeeds, read_host_speeds
from gridsim.traces.info import read_availability
from gridsim.traces.swf import JOB_DTYPE, SWF_FIELDS, SwfLog, read_swf

__all__ = [
    "JOB_DTYPE",
    "SWF_FIELDS",
    "AvailabilityTrace",
    "Bags",
    "HostSpeeds",
    "SwfLog",
    "derive_bags",
    "read_availability",
    "read_avt",
    "read_fta",
    "read_host_speeds",
    "read_swf",
]
