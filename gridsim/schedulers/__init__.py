"""The built-in schedulers, by class and by name; importing this package registers the names.

A class is imported at its first use, since a run needs only one of them.
"""

# `__init__.pyi` lists the classes, which are loaded lazily.

from __future__ import annotations

import lazy_loader

from gridsim.schedulers.wqr.policies import POLICIES
from gridsim.scheduling.registry import register_builtin

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register_builtin("fair-tree", "FairTree")
register_builtin("fair-tree-root", "FairTree", bound=0.0)
register_builtin("ideal-tree", "IdealTree")
register_builtin("dgs-asap", "DgsAsap")
register_builtin("dgs-acap", "DgsAcap")
register_builtin("zorilla", "Zorilla")
register_builtin("metascheduler", "Metascheduler")
register_builtin("asap", "Asap")
register_builtin("backfill", "Backfill")
register_builtin("backfill-fcfs", "Backfill", mode="fcfs")
register_builtin("mincent", "MinCent")
register_builtin("mincent-once", "MinCent", mode="once")
register_builtin("fcfs", "Fcfs")
register_builtin("fcfs-pull", "Fcfs", mode="pull")
register_builtin("fcfs-random", "Fcfs", mode="random")
register_builtin("rjss", "Rjss")
register_builtin("rjss-best", "Rjss", pick="best")
register_builtin("resource-exclusion", "ResourceExclusion")
register_builtin("resource-exclusion-fastest", "ResourceExclusion", reading="fastest")
register_builtin("no-migration", "NoMigration")
register_builtin("mct", "Mct")
register_builtin("met", "Met")
register_builtin("olb", "Olb")
register_builtin("switching", "SwitchingAlgorithm")
register_builtin("k-percent-best", "KPercentBest")
register_builtin("min-min", "MinMin")
register_builtin("max-min", "MaxMin")
register_builtin("sufferage", "Sufferage")
register_builtin("random", "Random")
register_builtin("round-robin", "RoundRobin")
register_builtin("power-of-d", "PowerOfD")
register_builtin("join-shortest-queue", "JoinShortestQueue")
register_builtin("least-work", "LeastWork")
register_builtin("join-idle-queue", "JoinIdleQueue")
register_builtin("work-stealing", "WorkStealing")
register_builtin("sparrow", "Sparrow")
register_builtin("hawk", "Hawk")
register_builtin("eagle", "Eagle")
register_builtin("lwl", "Lwl")
register_builtin("dlwl", "Dlwl")
register_builtin("market", "Market")
register_builtin("steady-state", "SteadyState")
register_builtin("bandwidth-centric", "BandwidthCentric")
register_builtin("expanding-ring", "ExpandingRing")
register_builtin("random-walk-search", "RandomWalkSearch")
register_builtin("advertisement", "Advertisement")
register_builtin("rendezvous", "Rendezvous")
for _name, (_order, _choice) in POLICIES.items():
    register_builtin(_name, "WqrFt", task_order=_order, machine_choice=_choice)
register_builtin("wave", "Wave")
for _mode in ("migration-immediate", "wave-immediate", "migration-linger", "wave-linger"):
    register_builtin(_mode, "Wave", mode=_mode)
