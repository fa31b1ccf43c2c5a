"""Compiled kernels for decentralized grid scheduling; reference implementation are in `tests.reference`.

Units: seconds, Mflop, Mflop/s, bytes, bytes/s; instants of the bulk kernels are int64 nanoseconds.
"""

from importlib.util import find_spec

if find_spec("gridcore.queues.edf") is None:
    raise ImportError(
        "gridcore is not compiled in this folder: it is the source tree. Start Python in another folder, "
        "or compile in place with `pip install -e .`"
    )

from gridcore.centralized.earliest_ends import EarliestEnds, bind_earliest
from gridcore.centralized.mapping import map_batch, map_in_turn
from gridcore.centralized.pull_queue import PullQueue
from gridcore.common.state import NEVER
from gridcore.dgs.overlay import Views
from gridcore.dgs.protocol import JobFlow
from gridcore.dgs.slots import SlotSchedules
from gridcore.fair_tree.protocol import TreeFlow
from gridcore.fair_tree.summaries import (
    aggregate,
    aggregate_into,
    debit,
    debit_drop,
    lookup,
    lowest_stretch,
    split,
)
from gridcore.fair_tree.summary_tree import SummaryTree
from gridcore.network.links import Links
from gridcore.nodes.message_core import NodeCore
from gridcore.nodes.random_stream import RandomStream
from gridcore.nodes.view import View
from gridcore.queues.availability import available_tasks, gap, sample_availability, sample_availability_batch
from gridcore.queues.data_queues import DataQueues
from gridcore.queues.edf import meets_deadlines, optimal_stretch, project_queues
from gridcore.queues.summary_grid import SummaryGrid
from gridcore.queues.task_queues import TaskQueues
from gridcore.random_walk.walk import JobWalks
from gridcore.rigid_queue.backfill import BackfillQueue
from gridcore.work_queue.dispatch import WorkQueue

__all__ = [
    "NEVER",
    "BackfillQueue",
    "DataQueues",
    "EarliestEnds",
    "JobFlow",
    "JobWalks",
    "Links",
    "NodeCore",
    "PullQueue",
    "RandomStream",
    "SlotSchedules",
    "SummaryGrid",
    "SummaryTree",
    "TaskQueues",
    "TreeFlow",
    "View",
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
