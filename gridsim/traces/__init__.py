"""Readers of real traces (job logs, availability, host speeds), and bags and rigid jobs derived from logs."""

from __future__ import annotations

from gridsim.traces.availability import AvailabilityTrace
from gridsim.traces.avt import read_avt
from gridsim.traces.bags import Bags, bags_of_tasks, derive_bags
from gridsim.traces.conversion import convert
from gridsim.traces.formats import TraceFormat
from gridsim.traces.fta import read_fta
from gridsim.traces.gwf import read_gwf
from gridsim.traces.hosts import HostSpeeds, read_host_speeds
from gridsim.traces.info import (
    availability_files,
    availability_places,
    format_of_name,
    read_availability,
    read_bags,
    read_jobs,
)
from gridsim.traces.jobs import JOB_DTYPE, JobLog
from gridsim.traces.nodes import NodeSizes, read_nodes
from gridsim.traces.rigid import RigidJobs, derive_jobs
from gridsim.traces.swf import SWF_FIELDS, SwfLog, read_swf
from gridsim.traces.tr import TaskLog, read_tr

__all__ = [
    "JOB_DTYPE",
    "SWF_FIELDS",
    "AvailabilityTrace",
    "Bags",
    "HostSpeeds",
    "JobLog",
    "NodeSizes",
    "RigidJobs",
    "SwfLog",
    "TaskLog",
    "TraceFormat",
    "availability_files",
    "availability_places",
    "bags_of_tasks",
    "convert",
    "derive_bags",
    "derive_jobs",
    "format_of_name",
    "read_availability",
    "read_avt",
    "read_bags",
    "read_fta",
    "read_gwf",
    "read_host_speeds",
    "read_jobs",
    "read_nodes",
    "read_swf",
    "read_tr",
]
