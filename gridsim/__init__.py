"""gridsim: a simulator of decentralized grid scheduling.

    import gridsim as gs

    scenario = gs.Scenario(gs.Platform.desktop_grid(100, seed=1), gs.Workload.bags(20, seed=1))
    print(gs.compare(scenario, ["fair-tree", "mincent", "fcfs"]))

A scenario: Scenario, Platform, Workload, Network, Faults, Fluctuation, Zones; distributions of task sizes
Exponential, LogNormal, LogUniform, Normal; machines that differ, DrawnAttributes and ListedAttributes, and
what jobs want of them, Constraints.

Running: simulate, emulate, resume, compare, replicate, sweep, ladder, replication; Sweep, Store.

Results: Result, Table, Comparison, Replicates, SweepResult, Ladder, Estimate, write_report; bounds Bound,
fluid_bound, discrete_bound, offered_load; other formats to_batsim, to_swf, to_perfetto, result_from_log,
check_same_jobs.  Charts are in `gridsim.plots`.

Schedulers of bags: FairTree, IdealTree, MinCent, Fcfs; Sparrow, Hawk, Eagle, Lwl, Dlwl; Random, RoundRobin,
PowerOfD, JoinShortestQueue, LeastWork, JoinIdleQueue, WorkStealing; Market; SteadyState, BandwidthCentric;
Mct, Met, Olb, SwitchingAlgorithm, KPercentBest, MinMin, MaxMin, Sufferage; ExpandingRing, RandomWalkSearch,
Advertisement, Rendezvous; WqrFt, Wave; Rjss, ResourceExclusion, NoMigration.  Of rigid jobs: DgsAsap,
DgsAcap, Zorilla, Metascheduler, Asap, Backfill.

Mapping of independent tasks: map_tasks, TaskMapping, expected_times, BRAUN_CLASSES; map_arrivals, affinity,
Affinity.  Throughput of a master and its workers: optimal_throughput, Throughput.

A scheduler of your own: NodeScheduler, NodeProgram, Message, array, BoardScheduler; Scheduler, Policy, Run,
Outcome, Applications; register.

Errors and warnings: GridSimError, ScenarioError, SchedulerError, TraceFormatError, CompileError,
InvariantViolation; ModelWarning, TraceWarning, CheckpointWarning, PluginWarning.

Names are imported when they are first used, so that ``import gridsim`` costs nothing.
"""

# The public names are those of `__init__.pyi`.

from __future__ import annotations

from importlib import import_module
from typing import Any

import lazy_loader

#: Modules for users that are imported when they are first used, too.
_MODULES = ("plots", "testing", "theory", "traces")

_attribute, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from gridsim.support.provenance import VERSION

        return VERSION
    if name in _MODULES:
        return import_module(f"gridsim.{name}")
    if name not in __all__:
        from gridsim.support.arguments import hint

        where = [] if name.startswith("_") else [m for m in _MODULES if name in __getattr__(m).__all__]
        said = f"; it is in gridsim.{where[0]}" if where else hint(__all__, name)
        raise AttributeError(f"module 'gridsim' has no attribute {name!r}{said}")
    return _attribute(name)


def __dir__() -> list[str]:
    return sorted(__all__)
