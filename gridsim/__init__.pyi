# The public names, and where they are: the one list of them, which `gridsim/__init__.py` reads.

from .emulation.emulate import emulate as emulate
from .errors import (
    CheckpointWarning as CheckpointWarning,
)
from .errors import (
    CompileError as CompileError,
)
from .errors import (
    ExecutorWarning as ExecutorWarning,
)
from .errors import (
    GridSimError as GridSimError,
)
from .errors import (
    InvariantViolation as InvariantViolation,
)
from .errors import (
    MetricWarning as MetricWarning,
)
from .errors import (
    ModelWarning as ModelWarning,
)
from .errors import (
    PluginWarning as PluginWarning,
)
from .errors import (
    ScenarioError as ScenarioError,
)
from .errors import (
    SchedulerError as SchedulerError,
)
from .errors import (
    SchedulerWarning as SchedulerWarning,
)
from .errors import (
    TraceFormatError as TraceFormatError,
)
from .errors import (
    TraceWarning as TraceWarning,
)
from .model.applications import Applications as Applications
from .model.attributes import (
    Constraints as Constraints,
)
from .model.attributes import (
    DrawnAttributes as DrawnAttributes,
)
from .model.attributes import (
    ListedAttributes as ListedAttributes,
)
from .model.background_load import Fluctuation as Fluctuation
from .model.bag_workloads import (
    Exponential as Exponential,
)
from .model.bag_workloads import (
    LogNormal as LogNormal,
)
from .model.bag_workloads import (
    LogUniform as LogUniform,
)
from .model.bag_workloads import (
    Normal as Normal,
)
from .model.faults import Faults as Faults
from .model.network import Network as Network
from .model.platform import Platform as Platform
from .model.power import Power as Power
from .model.scenario import Scenario as Scenario
from .model.time_zones import Zones as Zones
from .model.workload import Workload as Workload
from .optimization.affinity import (
    Affinity as Affinity,
)
from .optimization.affinity import (
    affinity as affinity,
)
from .optimization.affinity import (
    map_arrivals as map_arrivals,
)
from .optimization.bounds import (
    Bound as Bound,
)
from .optimization.bounds import (
    discrete_bound as discrete_bound,
)
from .optimization.bounds import (
    fluid_bound as fluid_bound,
)
from .optimization.mapping_matrices import (
    BRAUN_CLASSES as BRAUN_CLASSES,
)
from .optimization.mapping_matrices import (
    TaskMapping as TaskMapping,
)
from .optimization.mapping_matrices import (
    expected_times as expected_times,
)
from .optimization.mapping_matrices import (
    map_tasks as map_tasks,
)
from .optimization.throughput import (
    Throughput as Throughput,
)
from .optimization.throughput import (
    optimal_throughput as optimal_throughput,
)
from .report import write_report as write_report
from .results.comparability import check_same_jobs as check_same_jobs
from .results.formats.job_logs import (
    result_from_log as result_from_log,
)
from .results.formats.job_logs import (
    to_batsim as to_batsim,
)
from .results.formats.job_logs import (
    to_swf as to_swf,
)
from .results.formats.perfetto import to_perfetto as to_perfetto
from .results.formats.registry import export as export
from .results.metrics.estimates import Estimate as Estimate
from .results.metrics.formulas import offered_load as offered_load
from .results.result import Result as Result
from .results.table import Table as Table
from .schedulers import (
    Advertisement as Advertisement,
)
from .schedulers import (
    Asap as Asap,
)
from .schedulers import (
    BandwidthCentric as BandwidthCentric,
)
from .schedulers import (
    BatchQueue as BatchQueue,
)
from .schedulers import (
    DgsAcap as DgsAcap,
)
from .schedulers import (
    DgsAsap as DgsAsap,
)
from .schedulers import (
    Dlwl as Dlwl,
)
from .schedulers import (
    Dodoor as Dodoor,
)
from .schedulers import (
    Eagle as Eagle,
)
from .schedulers import (
    ExpandingRing as ExpandingRing,
)
from .schedulers import (
    FairTree as FairTree,
)
from .schedulers import (
    Fcfs as Fcfs,
)
from .schedulers import (
    Hawk as Hawk,
)
from .schedulers import (
    IdealTree as IdealTree,
)
from .schedulers import (
    JoinIdleQueue as JoinIdleQueue,
)
from .schedulers import (
    JoinShortestQueue as JoinShortestQueue,
)
from .schedulers import (
    KPercentBest as KPercentBest,
)
from .schedulers import (
    LeastWork as LeastWork,
)
from .schedulers import (
    Lwl as Lwl,
)
from .schedulers import (
    Market as Market,
)
from .schedulers import (
    MaxMin as MaxMin,
)
from .schedulers import (
    Mct as Mct,
)
from .schedulers import (
    Met as Met,
)
from .schedulers import (
    Metascheduler as Metascheduler,
)
from .schedulers import (
    MinCent as MinCent,
)
from .schedulers import (
    MinMin as MinMin,
)
from .schedulers import (
    NoMigration as NoMigration,
)
from .schedulers import (
    Olb as Olb,
)
from .schedulers import (
    PowerOfD as PowerOfD,
)
from .schedulers import (
    Random as Random,
)
from .schedulers import (
    RandomWalkSearch as RandomWalkSearch,
)
from .schedulers import (
    Rendezvous as Rendezvous,
)
from .schedulers import (
    ResourceExclusion as ResourceExclusion,
)
from .schedulers import (
    Rjss as Rjss,
)
from .schedulers import (
    RoundRobin as RoundRobin,
)
from .schedulers import (
    ShortestBagFirst as ShortestBagFirst,
)
from .schedulers import (
    Sparrow as Sparrow,
)
from .schedulers import (
    SteadyState as SteadyState,
)
from .schedulers import (
    Sufferage as Sufferage,
)
from .schedulers import (
    SwitchingAlgorithm as SwitchingAlgorithm,
)
from .schedulers import (
    Wave as Wave,
)
from .schedulers import (
    WorkStealing as WorkStealing,
)
from .schedulers import (
    WqrFt as WqrFt,
)
from .schedulers import (
    Zorilla as Zorilla,
)
from .scheduling.contract import Outcome as Outcome
from .scheduling.contract import Policy as Policy
from .scheduling.contract import Run as Run
from .scheduling.contract import Scheduler as Scheduler
from .scheduling.jobs import AvailabilityProfile as AvailabilityProfile
from .scheduling.jobs import Job as Job
from .scheduling.jobs import JobPolicy as JobPolicy
from .scheduling.jobs import JobScheduler as JobScheduler
from .scheduling.jobs import JobView as JobView
from .scheduling.nodes.adapter import (
    Fifo as Fifo,
)
from .scheduling.nodes.adapter import (
    Heap as Heap,
)
from .scheduling.nodes.adapter import (
    IntMap as IntMap,
)
from .scheduling.nodes.adapter import (
    IntSet as IntSet,
)
from .scheduling.nodes.adapter import (
    Layout as Layout,
)
from .scheduling.nodes.adapter import (
    Message as Message,
)
from .scheduling.nodes.adapter import (
    NodeProgram as NodeProgram,
)
from .scheduling.nodes.adapter import (
    NodeScheduler as NodeScheduler,
)
from .scheduling.nodes.adapter import (
    Role as Role,
)
from .scheduling.nodes.adapter import (
    SharedArray as SharedArray,
)
from .scheduling.nodes.adapter import (
    array as array,
)
from .scheduling.nodes.board import (
    BoardScheduler as BoardScheduler,
)
from .scheduling.nodes.diary import Sent as Sent
from .scheduling.nodes.environment import Environment as Environment
from .scheduling.nodes.observe import Observe as Observe
from .scheduling.nodes.rigid_jobs import (
    JobPhase as JobPhase,
)
from .scheduling.nodes.rigid_jobs import (
    JobRecord as JobRecord,
)
from .scheduling.nodes.rigid_jobs import (
    JobTimer as JobTimer,
)
from .scheduling.nodes.rigid_jobs import (
    RigidNodeScheduler as RigidNodeScheduler,
)
from .scheduling.registry import register as register
from .simulation.resume import resume as resume
from .simulation.simulate import simulate as simulate
from .studies.compare import Comparison as Comparison
from .studies.compare import compare as compare
from .studies.execution.store import Store as Store
from .studies.ladder import Ladder as Ladder
from .studies.ladder import ladder as ladder
from .studies.replicate import replicate as replicate
from .studies.replicate import replication as replication
from .studies.replicate_result import Replicates as Replicates
from .studies.study import Study as Study
from .studies.sweep import Sweep as Sweep
from .studies.sweep import sweep as sweep
from .studies.sweep_result import SweepResult as SweepResult
from .support.parameters import Limits as Limits

__version__: str
