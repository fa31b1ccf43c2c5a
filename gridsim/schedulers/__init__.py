"""The schedulers that come with gridsim, by class and by name; importing this registers the names."""

from __future__ import annotations

from gridsim.scheduler import register
from gridsim.schedulers.backfill import Backfill
from gridsim.schedulers.central import Fcfs, MinCent
from gridsim.schedulers.dgs_asap import DgsAsap
from gridsim.schedulers.fair_tree import FairTree
from gridsim.schedulers.rigid_central import Asap
from gridsim.schedulers.wave import MODES, Wave
from gridsim.schedulers.wqr import WqrFt
from gridsim.schedulers.wqr_choices import POLICIES

__all__ = ["Asap", "Backfill", "DgsAsap", "FairTree", "Fcfs", "MODES", "MinCent", "Wave", "WqrFt"]

register("fair-tree", FairTree)
register("dgs-asap", DgsAsap)
register("asap", Asap)
register("backfill", Backfill)
register("backfill-fcfs", Backfill, mode="fcfs")
register("mincent", MinCent)
register("mincent-once", MinCent, mode="once")
register("fcfs", Fcfs)
register("fcfs-pull", Fcfs, mode="pull")
register("fcfs-random", Fcfs, mode="random")
for _name, (_order, _choice) in POLICIES.items():
    register(_name, WqrFt, task_order=_order, machine_choice=_choice)
register("wave", Wave)
for _mode in MODES:
    register(_mode, Wave, mode=_mode)
