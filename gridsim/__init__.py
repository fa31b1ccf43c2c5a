"""gridsim: a simulator of decentralized grid scheduling.

The names below are imported when they are first used, so that ``import gridsim`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gridsim.bags import LogUniform, Normal
    from gridsim.bounds import Bound, discrete_bound, fluid_bound
    from gridsim.errors import (
        CheckpointWarning,
        GridSimError,
        InvariantViolation,
        ModelWarning,
        ScenarioError,
        SchedulerError,
        TraceFormatError,
        TraceWarning,
    )
    from gridsim.estimates import Estimate
    from gridsim.experiment import Comparison, compare
    from gridsim.faults import Faults
    from gridsim.fluctuation import Fluctuation
    from gridsim.interchange import check_same_jobs, result_from_log, to_batsim, to_swf
    from gridsim.ladders import Ladder, ladder
    from gridsim.local import LocalPolicy, LocalScheduler, Message
    from gridsim.matrices import BRAUN_CLASSES, TaskMapping, expected_times, map_tasks
    from gridsim.model import Applications
    from gridsim.network import Network
    from gridsim.perfetto import to_perfetto
    from gridsim.platform import Platform
    from gridsim.records import Table
    from gridsim.replication import Replicates, replicate
    from gridsim.report import write_report
    from gridsim.results import Result
    from gridsim.resumption import resume
    from gridsim.scenario import Scenario
    from gridsim.scheduler import Outcome, Policy, Run, Scheduler, register
    from gridsim.schedulers import (
        Advertisement,
        Asap,
        Backfill,
        DgsAsap,
        ExpandingRing,
        FairTree,
        Fcfs,
        IdealTree,
        KPercentBest,
        MaxMin,
        Mct,
        Met,
        MinCent,
        MinMin,
        NoMigration,
        Olb,
        RandomWalkSearch,
        Rendezvous,
        ResourceExclusion,
        Rjss,
        Sufferage,
        SwitchingAlgorithm,
        Wave,
        WqrFt,
    )
    from gridsim.seeding import replica
    from gridsim.simulation import simulate
    from gridsim.store import Store
    from gridsim.sweep_results import SweepResult
    from gridsim.sweeps import Sweep, sweep
    from gridsim.workload import Workload, offered_load
    from gridsim.zones import Zones

    __version__: str

__all__ = [
    "Advertisement",
    "Applications",
    "Asap",
    "BRAUN_CLASSES",
    "Backfill",
    "Bound",
    "CheckpointWarning",
    "Comparison",
    "DgsAsap",
    "Estimate",
    "ExpandingRing",
    "FairTree",
    "Faults",
    "Fcfs",
    "Fluctuation",
    "GridSimError",
    "IdealTree",
    "InvariantViolation",
    "KPercentBest",
    "Ladder",
    "LocalPolicy",
    "LocalScheduler",
    "LogUniform",
    "MaxMin",
    "Mct",
    "Message",
    "Met",
    "MinCent",
    "MinMin",
    "ModelWarning",
    "Network",
    "NoMigration",
    "Normal",
    "Olb",
    "Outcome",
    "Platform",
    "Policy",
    "RandomWalkSearch",
    "Rendezvous",
    "Replicates",
    "ResourceExclusion",
    "Result",
    "Rjss",
    "Run",
    "Scenario",
    "ScenarioError",
    "Scheduler",
    "SchedulerError",
    "Store",
    "Sufferage",
    "Sweep",
    "SweepResult",
    "SwitchingAlgorithm",
    "Table",
    "TaskMapping",
    "TraceFormatError",
    "TraceWarning",
    "Wave",
    "Workload",
    "WqrFt",
    "Zones",
    "__version__",
    "check_same_jobs",
    "compare",
    "discrete_bound",
    "expected_times",
    "fluid_bound",
    "ladder",
    "map_tasks",
    "offered_load",
    "register",
    "replica",
    "replicate",
    "result_from_log",
    "resume",
    "simulate",
    "sweep",
    "to_batsim",
    "to_perfetto",
    "to_swf",
    "write_report",
]

_HOMES = {
    "bags": ("LogUniform", "Normal"),
    "bounds": ("Bound", "discrete_bound", "fluid_bound"),
    "errors": (
        "CheckpointWarning",
        "GridSimError",
        "InvariantViolation",
        "ModelWarning",
        "ScenarioError",
        "SchedulerError",
        "TraceFormatError",
        "TraceWarning",
    ),
    "matrices": ("BRAUN_CLASSES", "TaskMapping", "expected_times", "map_tasks"),
    "experiment": ("Comparison", "compare"),
    "perfetto": ("to_perfetto",),
    "interchange": ("check_same_jobs", "result_from_log", "to_batsim", "to_swf"),
    "local": ("LocalPolicy", "LocalScheduler", "Message"),
    "network": ("Network",),
    "platform": ("Platform",),
    "records": ("Table",),
    "estimates": ("Estimate",),
    "ladders": ("Ladder", "ladder"),
    "replication": ("Replicates", "replicate"),
    "report": ("write_report",),
    "seeding": ("replica",),
    "store": ("Store",),
    "sweep_results": ("SweepResult",),
    "sweeps": ("Sweep", "sweep"),
    "results": ("Result",),
    "resumption": ("resume",),
    "faults": ("Faults",),
    "fluctuation": ("Fluctuation",),
    "scenario": ("Scenario",),
    "model": ("Applications",),
    "scheduler": ("Outcome", "Policy", "Run", "Scheduler", "register"),
    "schedulers": (
        "Advertisement",
        "Asap",
        "Backfill",
        "DgsAsap",
        "ExpandingRing",
        "FairTree",
        "Fcfs",
        "IdealTree",
        "KPercentBest",
        "MaxMin",
        "Mct",
        "Met",
        "MinCent",
        "MinMin",
        "NoMigration",
        "Olb",
        "RandomWalkSearch",
        "Rendezvous",
        "ResourceExclusion",
        "Rjss",
        "Sufferage",
        "SwitchingAlgorithm",
        "Wave",
        "WqrFt",
    ),
    "simulation": ("simulate",),
    "workload": ("Workload", "offered_load"),
    "zones": ("Zones",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from gridsim.provenance import version

        value: Any = version()
    elif name in _HOME_OF:
        value = getattr(import_module(f"gridsim.{_HOME_OF[name]}"), name)
    else:
        raise AttributeError(f"module 'gridsim' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
