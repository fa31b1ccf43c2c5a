"""gridsim: a simulator of decentralized grid scheduling.

The names below are imported when they are first used, so that ``import gridsim`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from gridsim.model.applications import Applications
    from gridsim.model.bag_workloads import LogUniform, Normal
    from gridsim.model.faults import Faults
    from gridsim.model.fluctuation import Fluctuation
    from gridsim.model.network import Network
    from gridsim.model.platform import Platform
    from gridsim.model.scenario import Scenario
    from gridsim.model.time_zones import Zones
    from gridsim.model.workload import Workload
    from gridsim.report import write_report
    from gridsim.results.formats.job_logs import check_same_jobs, result_from_log, to_batsim, to_swf
    from gridsim.results.formats.perfetto import to_perfetto
    from gridsim.results.metrics.bounds import Bound, discrete_bound, fluid_bound
    from gridsim.results.metrics.estimates import Estimate
    from gridsim.results.metrics.formulas import offered_load
    from gridsim.results.metrics.mapping_matrices import (
        BRAUN_CLASSES,
        TaskMapping,
        expected_times,
        map_tasks,
    )
    from gridsim.results.result import Result
    from gridsim.results.table import Table
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
    from gridsim.scheduling.contract import Outcome, Policy, Run, Scheduler
    from gridsim.scheduling.local.adapter import LocalPolicy, LocalScheduler, Message
    from gridsim.scheduling.registry import register
    from gridsim.simulation.resume import resume
    from gridsim.simulation.simulate import simulate
    from gridsim.studies.compare import Comparison, compare
    from gridsim.studies.execution.store import Store
    from gridsim.studies.ladder import Ladder, ladder
    from gridsim.studies.replicas import replica
    from gridsim.studies.replicate import Replicates, replicate
    from gridsim.studies.sweep import Sweep, sweep
    from gridsim.studies.sweep_result import SweepResult

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
    "model.applications": ("Applications",),
    "model.bag_workloads": (
        "LogUniform",
        "Normal",
    ),
    "model.faults": ("Faults",),
    "model.fluctuation": ("Fluctuation",),
    "model.network": ("Network",),
    "model.platform": ("Platform",),
    "model.scenario": ("Scenario",),
    "model.time_zones": ("Zones",),
    "model.workload": ("Workload",),
    "report": ("write_report",),
    "results.formats.job_logs": (
        "check_same_jobs",
        "result_from_log",
        "to_batsim",
        "to_swf",
    ),
    "results.formats.perfetto": ("to_perfetto",),
    "results.metrics.bounds": (
        "Bound",
        "discrete_bound",
        "fluid_bound",
    ),
    "results.metrics.estimates": ("Estimate",),
    "results.metrics.formulas": ("offered_load",),
    "results.metrics.mapping_matrices": (
        "BRAUN_CLASSES",
        "TaskMapping",
        "expected_times",
        "map_tasks",
    ),
    "results.result": ("Result",),
    "results.table": ("Table",),
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
    "scheduling.contract": (
        "Outcome",
        "Policy",
        "Run",
        "Scheduler",
    ),
    "scheduling.local.adapter": (
        "LocalPolicy",
        "LocalScheduler",
        "Message",
    ),
    "scheduling.registry": ("register",),
    "simulation.resume": ("resume",),
    "simulation.simulate": ("simulate",),
    "studies.compare": (
        "Comparison",
        "compare",
    ),
    "studies.execution.store": ("Store",),
    "studies.ladder": (
        "Ladder",
        "ladder",
    ),
    "studies.replicas": ("replica",),
    "studies.replicate": (
        "Replicates",
        "replicate",
    ),
    "studies.sweep": (
        "Sweep",
        "sweep",
    ),
    "studies.sweep_result": ("SweepResult",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from gridsim.support.provenance import version

        value: Any = version()
    elif name in _HOME_OF:
        value = getattr(import_module(f"gridsim.{_HOME_OF[name]}"), name)
    else:
        raise AttributeError(f"module 'gridsim' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
