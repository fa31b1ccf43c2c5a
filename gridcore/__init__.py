"""Compiled kernels for decentralized grid scheduling; plain-Python twins are in `gridcore.reference`.

Units: seconds, Mflop, Mflop/s, bytes, bytes/s; instants of the bulk kernels are int64 nanoseconds.
"""

from importlib.util import find_spec

if find_spec("gridcore.edf") is None:
    raise ImportError(
        "gridcore is not compiled in this folder: it is the source tree. Start Python in another folder, "
        "or compile in place with `pip install -e .`"
    )

from gridcore.availability import available_tasks, gap, sample_availability, sample_availability_batch
from gridcore.backfill import BackfillQueue
from gridcore.central import PullQueue, bind_earliest
from gridcore.dispatch import WorkQueue
from gridcore.edf import meets_deadlines, optimal_stretch, project_queues
from gridcore.flow import TreeFlow
from gridcore.grid import SummaryGrid
from gridcore.jobflow import JobFlow
from gridcore.links import Links
from gridcore.mapping import map_batch, map_in_turn
from gridcore.overlay import Views
from gridcore.queues import NEVER, TaskQueues
from gridcore.slots import SlotSchedules
from gridcore.summaries import aggregate, aggregate_into, debit, debit_drop, lookup, lowest_stretch, split
from gridcore.tree import SummaryTree
from gridcore.walk import JobWalks

__all__ = [
    "NEVER",
    "BackfillQueue",
    "JobFlow",
    "JobWalks",
    "Links",
    "PullQueue",
    "SlotSchedules",
    "SummaryGrid",
    "SummaryTree",
    "TaskQueues",
    "TreeFlow",
    "Views",
    "WorkQueue",
    "aggregate",
    "aggregate_into",
    "available_tasks",
    "bind_earliest",
    "debit",
    "debit_drop",
    "gap",
    "lookup",
    "lowest_stretch",
    "map_batch",
    "map_in_turn",
    "meets_deadlines",
    "optimal_stretch",
    "project_queues",
    "sample_availability",
    "sample_availability_batch",
    "split",
]
