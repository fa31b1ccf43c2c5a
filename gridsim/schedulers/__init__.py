"""The built-in schedulers, by class and by name; importing this package registers the names.

This is the only list of them that is written by hand.  A class is imported at its first use, since a run
needs only one of them.
"""

# ``python docs/tables.py`` writes `__init__.pyi`, by which the classes are loaded, from the names below.

from __future__ import annotations

import lazy_loader

from gridsim.schedulers.wqr.policies import POLICIES
from gridsim.scheduling.registry import register_builtin

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register_builtin("fair-tree", "fair_tree.scheduler:FairTree")
register_builtin("fair-tree-root", "fair_tree.scheduler:FairTree", bound=0.0)
register_builtin("ideal-tree", "centralized.ideal_tree:IdealTree")
register_builtin("dgs-asap", "dgs.scheduler:DgsAsap")
register_builtin("dgs-acap", "dgs.scheduler:DgsAcap")
register_builtin("zorilla", "coallocation.zorilla:Zorilla")
register_builtin("metascheduler", "coallocation.sites:Metascheduler")
register_builtin("asap", "rigid.asap:Asap")
register_builtin("backfill", "rigid.batch_queue:BatchQueue")
register_builtin("backfill-fcfs", "rigid.batch_queue:BatchQueue", backfill="none")
register_builtin("backfill-conservative", "rigid.batch_queue:BatchQueue", backfill="conservative")
register_builtin("backfill-sjf", "rigid.batch_queue:BatchQueue", order="sjf")
register_builtin("mincent", "centralized.pull:MinCent")
register_builtin("mincent-once", "centralized.pull:MinCent", mode="once")
register_builtin("fcfs", "centralized.pull:Fcfs")
register_builtin("fcfs-pull", "centralized.pull:Fcfs", mode="pull")
register_builtin("fcfs-random", "centralized.pull:Fcfs", mode="random")
register_builtin("shortest-bag-first", "centralized.pull:ShortestBagFirst")
register_builtin("rjss", "rjss.scheduler:Rjss")
register_builtin("rjss-best", "rjss.scheduler:Rjss", pick="best")
register_builtin("resource-exclusion", "rjss.scheduler:ResourceExclusion")
register_builtin("resource-exclusion-fastest", "rjss.scheduler:ResourceExclusion", reading="fastest")
register_builtin("no-migration", "rjss.scheduler:NoMigration")
register_builtin("mct", "centralized.heuristics:Mct")
register_builtin("met", "centralized.heuristics:Met")
register_builtin("olb", "centralized.heuristics:Olb")
register_builtin("switching", "centralized.heuristics:SwitchingAlgorithm")
register_builtin("k-percent-best", "centralized.heuristics:KPercentBest")
register_builtin("min-min", "centralized.heuristics:MinMin")
register_builtin("max-min", "centralized.heuristics:MaxMin")
register_builtin("sufferage", "centralized.heuristics:Sufferage")
register_builtin("random", "classics.scheduler:Random")
register_builtin("round-robin", "classics.scheduler:RoundRobin")
register_builtin("power-of-d", "classics.scheduler:PowerOfD")
register_builtin("join-shortest-queue", "classics.scheduler:JoinShortestQueue")
register_builtin("least-work", "classics.scheduler:LeastWork")
register_builtin("join-idle-queue", "classics.scheduler:JoinIdleQueue")
register_builtin("work-stealing", "classics.scheduler:WorkStealing")
register_builtin("sparrow", "probes.sparrow:Sparrow")
register_builtin("hawk", "probes.hawk:Hawk")
register_builtin("eagle", "probes.eagle:Eagle")
register_builtin("lwl", "probes.hawk:Lwl")
register_builtin("dlwl", "probes.eagle:Dlwl")
register_builtin("dodoor", "probes.dodoor:Dodoor")
register_builtin("market", "market.scheduler:Market")
register_builtin("steady-state", "steady_state.scheduler:SteadyState")
register_builtin("bandwidth-centric", "steady_state.scheduler:BandwidthCentric")
register_builtin("expanding-ring", "search.scheduler:ExpandingRing")
register_builtin("random-walk-search", "search.scheduler:RandomWalkSearch")
register_builtin("advertisement", "search.scheduler:Advertisement")
register_builtin("rendezvous", "search.scheduler:Rendezvous")
for _name, (_order, _choice) in POLICIES.items():
    register_builtin(_name, "wqr.scheduler:WqrFt", task_order=_order, machine_choice=_choice)
register_builtin("wave", "wave.scheduler:Wave")
for _mode in ("migration-immediate", "wave-immediate", "migration-linger", "wave-linger"):
    register_builtin(_mode, "wave.scheduler:Wave", mode=_mode)
