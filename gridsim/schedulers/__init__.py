"""The built-in schedulers, by class and by name; importing this package registers the names.

A class is imported at its first use, since a run needs only one of them.
"""

# `__init__.pyi` lists the classes, which are loaded lazily.

from __future__ import annotations

import lazy_loader

from gridsim.schedulers.wqr.policies import POLICIES
from gridsim.scheduling.registry import register_own

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register_own("fair-tree", "FairTree")
register_own("fair-tree-root", "FairTree", bound=0.0)
register_own("ideal-tree", "IdealTree")
register_own("dgs-asap", "DgsAsap")
register_own("dgs-acap", "DgsAcap")
register_own("zorilla", "Zorilla")
register_own("metascheduler", "Metascheduler")
register_own("asap", "Asap")
register_own("backfill", "Backfill")
register_own("backfill-fcfs", "Backfill", mode="fcfs")
register_own("mincent", "MinCent")
register_own("mincent-once", "MinCent", mode="once")
register_own("fcfs", "Fcfs")
register_own("fcfs-pull", "Fcfs", mode="pull")
register_own("fcfs-random", "Fcfs", mode="random")
register_own("rjss", "Rjss")
register_own("rjss-best", "Rjss", pick="best")
register_own("resource-exclusion", "ResourceExclusion")
register_own("resource-exclusion-fastest", "ResourceExclusion", reading="fastest")
register_own("no-migration", "NoMigration")
register_own("mct", "Mct")
register_own("met", "Met")
register_own("olb", "Olb")
register_own("switching", "SwitchingAlgorithm")
register_own("k-percent-best", "KPercentBest")
register_own("min-min", "MinMin")
register_own("max-min", "MaxMin")
register_own("sufferage", "Sufferage")
register_own("random", "Random")
register_own("round-robin", "RoundRobin")
register_own("power-of-d", "PowerOfD")
register_own("join-shortest-queue", "JoinShortestQueue")
register_own("least-work", "LeastWork")
register_own("join-idle-queue", "JoinIdleQueue")
register_own("work-stealing", "WorkStealing")
register_own("sparrow", "Sparrow")
register_own("hawk", "Hawk")
register_own("eagle", "Eagle")
register_own("lwl", "Lwl")
register_own("dlwl", "Dlwl")
register_own("market", "Market")
register_own("steady-state", "SteadyState")
register_own("bandwidth-centric", "BandwidthCentric")
register_own("expanding-ring", "ExpandingRing")
register_own("random-walk-search", "RandomWalkSearch")
register_own("advertisement", "Advertisement")
register_own("rendezvous", "Rendezvous")
for _name, (_order, _choice) in POLICIES.items():
    register_own(_name, "WqrFt", task_order=_order, machine_choice=_choice)
register_own("wave", "Wave")
for _mode in ("migration-immediate", "wave-immediate", "migration-linger", "wave-linger"):
    register_own(_mode, "Wave", mode=_mode)
