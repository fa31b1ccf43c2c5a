"""gridsim: a simulator of decentralized grid scheduling.

    import gridsim as gs

    scenario = gs.Scenario(gs.Platform.desktop_grid(100, seed=1), gs.Workload.bags(20, seed=1))
    print(gs.compare(scenario, ["fair-tree", "mincent", "fcfs"]))

Scenarios: Scenario, Platform, Workload, Network, Faults, Fluctuation, Zones; distributions of task sizes
Exponential, LogNormal, LogUniform, Normal; attributes of machines DrawnAttributes, ListedAttributes, Power,
and requirements of jobs Constraints.

Runs: simulate, emulate, resume, compare, replicate, sweep, ladder, replication; Sweep, Store, Observe.

Results: Result, Table, Study, Comparison, Replicates, SweepResult, Ladder, Estimate, write_report; bounds
Bound, fluid_bound, discrete_bound, offered_load; other formats export, to_batsim, to_swf,
to_perfetto, result_from_log, check_same_jobs.  Charts are in `gridsim.plots`.

Schedulers of bags: FairTree; IdealTree, MinCent, Fcfs, ShortestBagFirst, Mct, Met, Olb, SwitchingAlgorithm,
KPercentBest, MinMin, MaxMin, Sufferage; Rjss, ResourceExclusion, NoMigration; Random, RoundRobin, PowerOfD,
JoinShortestQueue, LeastWork, JoinIdleQueue, WorkStealing; Sparrow, Hawk, Eagle, Lwl, Dlwl, Dodoor; Market;
SteadyState, BandwidthCentric; ExpandingRing, RandomWalkSearch, Advertisement, Rendezvous; WqrFt; Wave.
Schedulers of rigid jobs: DgsAsap, DgsAcap; Zorilla, Metascheduler; Asap, BatchQueue.

Mapping of independent tasks: map_tasks, TaskMapping, expected_times, BRAUN_CLASSES; map_arrivals, affinity,
Affinity.  Throughput of a master and its workers: optimal_throughput, Throughput.

Your own schedulers: NodeScheduler, NodeProgram, Role, Layout, Message, array, Sent, Fifo, Heap, IntMap,
IntSet, SharedArray, BoardScheduler, Limits; RigidNodeScheduler, JobRecord, JobPhase, JobTimer, Environment;
JobScheduler, JobPolicy, JobView, Job, AvailabilityProfile;
Scheduler, Policy, Run, Outcome, Applications; register.

Errors and warnings: GridSimError, ScenarioError, SchedulerError, TraceFormatError, CompileError,
InvariantViolation; ModelWarning, MetricWarning, SchedulerWarning, TraceWarning, CheckpointWarning,
ExecutorWarning, PluginWarning.

Names are imported at their first use, so that ``import gridsim`` is fast.
"""

# `lazy_loader` reads the public names from `__init__.pyi`.

from __future__ import annotations

from importlib import import_module
from typing import Any

import lazy_loader

#: Public modules, which are imported when they are first used.
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

        modules = [] if name.startswith("_") else [m for m in _MODULES if name in __getattr__(m).__all__]
        suggestion = f"; it is in gridsim.{modules[0]}" if modules else hint(__all__, name)
        raise AttributeError(f"module 'gridsim' has no attribute {name!r}{suggestion}")
    return _attribute(name)


def __dir__() -> list[str]:
    return sorted(__all__)
