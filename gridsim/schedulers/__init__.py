"""The schedulers that come with gridsim, by class and by name; importing this registers the names."""

from __future__ import annotations

from gridsim.schedulers.centralized.heuristics import (
    KPercentBest,
    MaxMin,
    Mct,
    Met,
    MinMin,
    Olb,
    Sufferage,
    SwitchingAlgorithm,
)
from gridsim.schedulers.centralized.ideal_tree import IdealTree
from gridsim.schedulers.centralized.pull import Fcfs, MinCent
from gridsim.schedulers.classics.scheduler import (
    JoinIdleQueue,
    JoinShortestQueue,
    LeastWork,
    PowerOfD,
    Random,
    RoundRobin,
    WorkStealing,
)
from gridsim.schedulers.coallocation.sites import Metascheduler
from gridsim.schedulers.coallocation.zorilla import Zorilla
from gridsim.schedulers.dgs.scheduler import DgsAcap, DgsAsap
from gridsim.schedulers.fair_tree.scheduler import FairTree
from gridsim.schedulers.market.scheduler import Market
from gridsim.schedulers.probes.eagle import Dlwl, Eagle
from gridsim.schedulers.probes.hawk import Hawk, Lwl
from gridsim.schedulers.probes.sparrow import Sparrow
from gridsim.schedulers.rigid.asap import Asap
from gridsim.schedulers.rigid.backfill import Backfill
from gridsim.schedulers.rjss.scheduler import NoMigration, ResourceExclusion, Rjss
from gridsim.schedulers.search.scheduler import (
    Advertisement,
    ExpandingRing,
    RandomWalkSearch,
    Rendezvous,
)
from gridsim.schedulers.steady_state.scheduler import BandwidthCentric, SteadyState
from gridsim.schedulers.wave.scheduler import MODES, Wave
from gridsim.schedulers.wqr.scheduler import WqrFt
from gridsim.schedulers.wqr.selections import POLICIES
from gridsim.scheduling.registry import register

__all__ = [
    "Advertisement",
    "Asap",
    "Backfill",
    "BandwidthCentric",
    "DgsAcap",
    "DgsAsap",
    "Dlwl",
    "Eagle",
    "ExpandingRing",
    "FairTree",
    "Fcfs",
    "Hawk",
    "IdealTree",
    "JoinIdleQueue",
    "JoinShortestQueue",
    "KPercentBest",
    "LeastWork",
    "Lwl",
    "MODES",
    "Market",
    "MaxMin",
    "Mct",
    "Met",
    "Metascheduler",
    "MinCent",
    "MinMin",
    "NoMigration",
    "Olb",
    "PowerOfD",
    "Random",
    "RandomWalkSearch",
    "Rendezvous",
    "ResourceExclusion",
    "Rjss",
    "RoundRobin",
    "Sparrow",
    "SteadyState",
    "Sufferage",
    "SwitchingAlgorithm",
    "Wave",
    "WorkStealing",
    "WqrFt",
    "Zorilla",
]

register("fair-tree", FairTree)
register("ideal-tree", IdealTree)
register("dgs-asap", DgsAsap)
register("dgs-acap", DgsAcap)
register("zorilla", Zorilla)
register("metascheduler", Metascheduler)
register("asap", Asap)
register("backfill", Backfill)
register("backfill-fcfs", Backfill, mode="fcfs")
register("mincent", MinCent)
register("mincent-once", MinCent, mode="once")
register("fcfs", Fcfs)
register("fcfs-pull", Fcfs, mode="pull")
register("fcfs-random", Fcfs, mode="random")
register("rjss", Rjss)
register("rjss-best", Rjss, pick="best")
register("resource-exclusion", ResourceExclusion)
register("resource-exclusion-fastest", ResourceExclusion, reading="fastest")
register("no-migration", NoMigration)
for _class in (Mct, Met, Olb, SwitchingAlgorithm, KPercentBest, MinMin, MaxMin, Sufferage):
    register(_class.name, _class)
for _classic in (Random, RoundRobin, PowerOfD, JoinShortestQueue, LeastWork, JoinIdleQueue, WorkStealing):
    register(_classic.name, _classic)
for _probing in (Sparrow, Hawk, Eagle, Lwl, Dlwl):
    register(_probing.name, _probing)
register("market", Market)
register("steady-state", SteadyState)
register("bandwidth-centric", BandwidthCentric)
register("expanding-ring", ExpandingRing)
register("random-walk-search", RandomWalkSearch)
register("advertisement", Advertisement)
register("rendezvous", Rendezvous)
for _name, (_order, _choice) in POLICIES.items():
    register(_name, WqrFt, task_order=_order, machine_choice=_choice)
register("wave", Wave)
for _mode in MODES:
    register(_mode, Wave, mode=_mode)
