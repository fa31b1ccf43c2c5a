"""One queue of rigid jobs for the whole grid, or for each partition, as in the batch systems of sites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gridcore.rigid_queue.batch_queue import JobQueue
from gridcore.rigid_queue.shared_queue import SharedQueue
from gridsim.errors import ScenarioError, SchedulerWarning, warn
from gridsim.model.capacity import MachineCapacity, whole_bytes
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.rigid.decisions import WORDS, Replay, record_starts
from gridsim.scheduling.contract import Foreseen, Policy, Run, Scheduler
from gridsim.scheduling.jobs import JobQueuePolicy
from gridsim.support.arguments import hint
from gridsim.support.arrays import Floats, Integers, apportion, first_true
from gridsim.support.clock import NS
from gridsim.support.parameters import MACHINES_OR_CORES, Limits
from gridsim.support.text import number_text

_Weight = Annotated[float, Limits(low=0)]
_Limit = Annotated[int, Limits(low=0, unit=MACHINES_OR_CORES)]
_Size = Annotated[int, Limits(low=1, unit="machines")]
_Number = Annotated[int, Limits(low=0)]
_ORDERS = {
    "fcfs": "first come, first served",
    "lcfs": "last come, first served",
    "sjf": "shortest job first",
    "saf": "smallest area first",
    "largest": "largest job first",
    "f1": "the order F1",
    "wfp": "the order WFP",
    "unicef": "the order UNICEF",
    "multifactor": "multifactor priorities",
}
_BACKFILLING = {
    "none": "without backfilling",
    "easy": "with EASY backfilling",
    "conservative": "with conservative backfilling",
}


class BatchQueue(Scheduler, frozen=True, kw_only=True):
    """The queue of a batch system, with EASY, conservative or no backfilling, in one of several orders.

    Jobs start at any instant and not in slots.  Of the free machines, those with the lowest numbers are
    used.  Jobs share machines with several cores or GPUs: EASY then reserves cores, memory and GPUs of
    certain machines, and limits, shares and sizes are in cores.  Failures are known at once, and a job that
    loses a machine returns to its place in the queue.  The scheduler has perfect information, without
    latency and without messages.

    Parameters
    ----------
    backfill
        Jobs that may start before their turn.  ``"none"``: no job.  ``"easy"``: if a job does not fit when
        its turn comes, it gets a reservation at the earliest instant at which it fits by the estimates, and
        later jobs that do not delay it start before it (EASY, Lifka 1995).  ``"conservative"``: every job
        gets a reservation when it is submitted, and later ones do not delay it; whenever a job ends before
        its estimate, each waiting job in turn moves to an earlier start if there is one.
    order
        Order of the queue.  ``"fcfs"``: by release; ``"lcfs"``: the last released first; ``"sjf"``: the
        shortest estimate first; ``"saf"``: the smallest area first, which is machines times estimate;
        ``"largest"``: the most machines first; ``"f1"``: the least log10(estimate) * machines + 870 *
        log10(release) first (s; Carastan-Santos and de Camargo 2017); ``"wfp"``: the highest (wait /
        estimate)**3 * machines first; ``"unicef"``: the highest wait / (log2(machines) * estimate) first
        (both Tang et al. 2009); ``"multifactor"``: the highest sum first of what the weights below weight.
    estimate
        Estimate of run times.  ``"requested"``: the time requested by the user; ``"run"``: the true run
        time; ``"predicted"``: the mean run time of the last two jobs of the user that have ended when the job
        is submitted, at most the requested time, which it is before there are two; it grows step by step, up
        to the requested time, while a job outlives it (Tsafrir et al. 2007).  Then, or with another estimate,
        a job that outlives its estimate is expected to end at any time.
    depth
        Number of jobs that get a reservation with ``backfill="easy"``, anew whenever the queue is examined.
    reserve
        With ``backfill="easy"``: ``"counts"``, a reservation is of a number of machines; ``"machines"``, of
        those with the lowest numbers that are free at its start, and jobs that would still run then take
        others.
    placement
        Order in which a job takes machines that jobs share, if they have room for it.  ``"first"``: the
        lowest numbers first; ``"best"``: the fewest free cores first; ``"spread"``: the most free cores
        first.
    exclusive
        Whether each job has the machines on which it runs to itself, so that a job takes whole nodes.  By
        default only jobs that are exclusive themselves do.  It requires that jobs can share machines.
    kill
        ``"at-limit"``: a job is killed when it has run for the requested time; ``"never"``: it runs to its
        end.
    user_limit
        Number of machines, or cores if jobs share machines, that the jobs of a user may have at once; further
        jobs are passed over until others have ended, and jobs that request more are rejected.  None for no
        limit.  It is not supported with ``backfill="conservative"``.
    queue_limits
        The same for the jobs of each queue, 0 for no limit: a table from names of queues, in which queues
        without a limit may be missing, or a list of all queues in ascending order of their numbers.
    partitions
        Number of machines of each partition, a table from names or a list.  Numbers that do not add up to the
        machines of the platform are scaled to these, with a warning.  Partitions have the machines from 0 on
        in the order of the table, their own reservations, and the jobs of their queues; jobs that request
        more machines are rejected.  ``"sites"``: each site of the platform is a partition with the jobs at
        home there.  Empty for one partition with all machines and jobs.
    queue_partitions
        Partition of each queue: a table from names of queues to names of partitions, or a list of the
        partitions of all queues, from 0 on.  By default it is the partition of the same name, or, if
        partitions have no names, each queue has a partition, in the same order.
    age_weight, max_age
        Weight of the time that a job has waited, as a share of `max_age` (s), at most 1.
    size_weight
        Weight of the share of all machines that a job requests.
    share_weight, half_life
        Weight of the fair share of the user: 2 ** -(use / entitlement).  Use is the share of the user in the
        machine seconds that all have used, which decay with this half-life (s); the entitlement is the same
        for all.
    priority_weight
        Weight of the priority that the user states.
    queue_priorities
        Priority of each queue, which is added to the weighted sum: a table from names of queues, in which
        those of priority 0 may be missing, or a list of all queues; empty for none.
    """

    name: ClassVar[str] = "backfill"
    decentralized: ClassVar[bool] = False
    rigid: ClassVar[bool] = True
    dependencies: ClassVar[bool] = True
    decision_words: ClassVar[DecisionTexts] = WORDS

    backfill: Literal["none", "easy", "conservative"] = "easy"
    order: Literal["fcfs", "lcfs", "sjf", "saf", "largest", "f1", "wfp", "unicef", "multifactor"] = "fcfs"
    estimate: Literal["requested", "run", "predicted"] = "requested"
    depth: Annotated[int, Limits(low=1, high=10**6)] = 1
    reserve: Literal["counts", "machines"] = "counts"
    placement: Literal["first", "best", "spread"] = "first"
    exclusive: bool = False
    kill: Literal["never", "at-limit"] = "never"
    user_limit: Annotated[int, Limits(low=1, unit=MACHINES_OR_CORES)] | None = None
    queue_limits: tuple[_Limit, ...] | dict[str, _Limit] = ()
    partitions: tuple[_Size, ...] | dict[str, _Size] | Literal["sites"] = ()
    queue_partitions: tuple[_Number, ...] | dict[str, str] = ()
    age_weight: _Weight = 1.0
    max_age: Annotated[float, Limits(above=0, unit="s")] = 604_800.0
    size_weight: _Weight = 0.0
    share_weight: _Weight = 1.0
    half_life: Annotated[float, Limits(above=0, unit="s")] = 604_800.0
    priority_weight: _Weight = 0.0
    queue_priorities: tuple[float, ...] | dict[str, float] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.backfill != "easy":
            for name, default in (("depth", 1), ("reserve", "counts")):
                if getattr(self, name) != default:
                    value = getattr(self, name)
                    raise ScenarioError(
                        f'{self.name}.{name} must be {default!r} unless backfill is "easy", got {value!r}'
                    )
        if self.exclusive and not self.can_share:
            parameter = "depth" if self.backfill == "easy" else "backfill"
            value = getattr(self, parameter)
            raise ScenarioError(f"{self.name}.exclusive does not support {parameter}={value!r}")
        if self.reserve == "machines" and self.depth > 1:
            raise ScenarioError(f'{self.name}.depth must be 1 with reserve="machines", got {self.depth}')
        for name in ("user_limit", "queue_limits"):
            if (value := getattr(self, name)) and self.backfill == "conservative":
                raise ScenarioError(
                    f'{self.name}.{name} must not be set with backfill="conservative", got {value}'
                )
        self._check_partitions()
        if self.queue_priorities and self.order != "multifactor":
            raise ScenarioError(
                f'{self.name}.queue_priorities require order="multifactor", got {self.order!r}'
            )

    def _check_partitions(self) -> None:
        """Raise ScenarioError if `queue_partitions` has a partition that does not exist."""
        path, places, partitions = f"{self.name}.queue_partitions", self.queue_partitions, self.partitions
        if places and partitions == "sites":
            raise ScenarioError(f'{path} must be empty with partitions="sites", got {places}')
        if places and isinstance(places, dict) != isinstance(partitions, dict):
            raise ScenarioError(f"{path} must be a table exactly if partitions is one, got {places}")
        if isinstance(places, dict):
            for queue, partition in places.items():
                if partition not in partitions:
                    raise ScenarioError(
                        f"{path}.{queue} must be one of {', '.join(map(str, partitions))}, got {partition!r}"
                    )
        elif places and max(places) >= len(partitions):
            raise ScenarioError(
                f"{path} must be below {len(partitions)}, the number of partitions, got {max(places)}"
            )

    @property
    def promised_order(self) -> Literal["list", "easy"] | None:
        """The order of starts that a result is checked against."""
        is_limited = self.user_limit or self.queue_limits or self.partitions
        if self.order != "fcfs" or is_limited or self.exclusive:
            return None
        if self.backfill == "none":
            return "list"
        return "easy" if self.backfill == "easy" and self.estimate != "predicted" else None

    @property
    def summary(self) -> str:
        """A sentence on the order of the queue and its backfilling."""
        sites = ", a queue for each site" if self.partitions == "sites" else ""
        nodes = ", each job alone on its machines" if self.exclusive else ""
        text = f"{_ORDERS[self.order]}, {_BACKFILLING[self.backfill]}{sites}{nodes}."
        return f"{text[0].upper()}{text[1:]}"

    @property
    def cores(self) -> bool | Literal["separate"]:  # type: ignore[override]
        """How jobs run on machines with several cores: EASY and no backfilling let them share machines."""
        return True if self.can_share else "separate"

    @property
    def can_share(self) -> bool:
        """Whether jobs can share machines."""
        return self.backfill != "conservative" and self.depth == 1

    @property
    def is_baseline(self) -> bool:
        """Whether the scheduler serves as a baseline: only EASY, the queue that sites use."""
        return self.backfill == "easy"

    @property
    def foresees(self) -> tuple[Foreseen, ...]:
        """The run times, if the estimates are the true run times and matter; else nothing."""
        uses = self.backfill != "none" or self.order not in ("fcfs", "lcfs", "largest", "multifactor")
        return ("run times",) if uses and self.estimate == "run" else ()

    def start(self, run: Run) -> Policy:
        return BatchQueuePolicy(self, run)


class BatchQueuePolicy(JobQueuePolicy):
    """The policy of `BatchQueue`, whose kernel decides which jobs start.

    If machines fail, the policy itself ends the run with the last job.
    """

    def __init__(self, parameters: BatchQueue, run: Run) -> None:
        super().__init__(parameters, run)
        tasks = run.applications.tasks
        #: Capacity of the machines if jobs share them; None if each runs one job at a time.
        self.capacity: MachineCapacity | None = None
        if run.cores is not None or run.gpus is not None:
            self.capacity = MachineCapacity.of(len(run.speeds), run.cores, run.attributes, run.gpus)
        elif parameters.exclusive:
            warn(
                f"{parameters.name}.exclusive has no effect without machines that jobs share: each machine "
                "runs one job at a time anyway; jobs share those of several cores (platform.cores, or in the "
                "shell --cores-per-node 48 --shared)",
                SchedulerWarning,
            )
        #: Whether each job is rejected: a limit or its partition has fewer machines than it requests.
        self.rejected = np.zeros(len(tasks), np.bool_)
        discipline = self._discipline()
        times = np.where(self.rejected, 1, tasks), self.durations, self.estimate
        self.queue: JobQueue | SharedQueue
        if self.capacity is None:
            self.queue = JobQueue(
                len(run.speeds), *times, **discipline, releases=run.releases, log=self.needs_log
            )
        else:
            self.queue = SharedQueue(
                self.capacity.cores, *times, **discipline, releases=run.releases, log=True
            )
        if run.releases is not None:
            run.releases.skip(np.flatnonzero(self.rejected))
        else:
            jobs = np.flatnonzero(~self.rejected)
            self.queue.submit(jobs, run.applications.release_ns[jobs])
        if run.faults:
            run.engine.add_source(self)

    def advance_queue(self, until: int) -> int:
        return self.queue.run(until) + int(self.rejected.sum())

    def _discipline(self) -> dict[str, Any]:
        """Return the arguments of the kernel that determine which jobs start, and in which order."""
        parameters, jobs = self.parameters, self.run.applications
        arguments: dict[str, Any] = {
            "predicted": parameters.estimate == "predicted",
            "limit": parameters.user_limit or 0,
        }
        if self.capacity is None:
            arguments["depth"] = 0 if parameters.backfill == "none" else parameters.depth
            arguments["conservative"] = parameters.backfill == "conservative"
            arguments["concrete"] = parameters.reserve == "machines"
        if parameters.user_limit is not None:
            self._reject_wide("user_limit", np.full(len(jobs), parameters.user_limit))
        if arguments["predicted"] or arguments["limit"] or parameters.order == "multifactor":
            if jobs.user is None:
                raise ScenarioError(
                    f"workload.user must be known for predictions, limits and shares of users "
                    f"({parameters.name}), got a workload without users"
                )
            arguments["users"] = np.unique(jobs.user, return_inverse=True)[1]
        has_sites = parameters.partitions == "sites"
        if has_sites:
            arguments |= self._sites()
        if (
            parameters.queue_limits
            or parameters.queue_priorities
            or (parameters.partitions and not has_sites)
        ):
            arguments |= self._queues()
        is_predicted = parameters.estimate == "predicted" and parameters.order in ("sjf", "saf")
        is_by_release = self.run.releases is not None and parameters.order in ("lcfs", "f1")
        if parameters.order in ("wfp", "unicef", "multifactor") or is_predicted or is_by_release:
            arguments["order"] = parameters.order
        elif parameters.order != "fcfs":
            arguments["ranks"] = np.unique(self._static_keys(), return_inverse=True)[1]
        if parameters.order == "multifactor":
            priority = np.zeros(len(jobs)) if jobs.priority is None else jobs.priority
            arguments["weights"] = {
                "age": parameters.age_weight,
                "size": parameters.size_weight,
                "share": parameters.share_weight,
                "age_limit": parameters.max_age,
                "half_life": parameters.half_life,
                "base": parameters.priority_weight * priority,
            }
            if parameters.queue_priorities:
                names, queues = jobs.members("queue")
                priorities = self._of_queues("queue_priorities", parameters.queue_priorities, names)
                arguments["weights"]["base"] += np.array(priorities, np.float64)[queues]
        return arguments if self.capacity is None else arguments | self._sharing(self.capacity)

    def _sharing(self, capacity: MachineCapacity) -> dict[str, Any]:
        """Return the arguments of the kernel about what machines have and what jobs take."""
        parameters, jobs = self.parameters, self.run.applications
        zeros, ones = np.zeros(len(jobs), np.int64), np.ones(len(jobs), np.int64)
        columns = {
            "task_cores": ones if jobs.cores is None else jobs.cores,
            "task_memory": whole_bytes(jobs.memory, len(jobs)),
            "task_gpus": zeros if jobs.gpus is None else jobs.gpus,
            "tasks_per_machine": ones if jobs.tasks_per_machine is None else jobs.tasks_per_machine,
            "exclusive": zeros if jobs.exclusive is None else jobs.exclusive,
        }
        if parameters.exclusive:
            columns["exclusive"] = ones
        for name in ("task_cores", "task_memory", "task_gpus"):  # the queue never runs rejected jobs
            columns[name] = np.where(self.rejected, int(name == "task_cores"), columns[name])
        return {
            "memory": capacity.memory,
            "gpus": capacity.gpus,
            "placement": parameters.placement,
            "backfill": parameters.backfill == "easy",
            **columns,
        }

    def _queues(self) -> dict[str, Any]:
        """Return the arguments of the kernel about queues and partitions."""
        parameters, jobs = self.parameters, self.run.applications
        if jobs.queue is None:
            raise ScenarioError(
                f"workload.queue must be known for limits, priorities and partitions of queues "
                f"({parameters.name}), got a workload without queues"
            )
        names, queues = jobs.members("queue")
        arguments: dict[str, Any] = {"queues": queues}
        labels = [f"queue {name}" for name in names]
        if parameters.queue_limits:
            limits = np.array(self._of_queues("queue_limits", parameters.queue_limits, names))
            arguments["queue_limits"] = limits
            widest = np.where(limits, limits, jobs.width.max())
            self._reject_wide("queue_limits", widest[queues], labels, queues)
        if parameters.partitions and parameters.partitions != "sites":
            sizes, partition = self._partitions(names)
            widest = self._widest(partition[queues], sizes)
            self._reject_wide("partitions", widest, labels, queues)
            arguments |= {"sizes": sizes, "partition": partition[queues]}
        return arguments

    def _sites(self) -> dict[str, Any]:
        """Return the arguments of the kernel by which each site is a partition."""
        jobs, path = self.run.applications, f"{self.parameters.name}.partitions"
        if jobs.site is None or jobs.machine_site is None:
            raise ScenarioError(
                f'{path} = "sites" requires a platform of sites, such as that of several logs'
            )
        for i in first_true(jobs.site < 0):
            raise ScenarioError(f"workload.site[{i}] must be known for {path}, got {jobs.site[i]}")
        sizes = np.bincount(jobs.machine_site)
        numbers, sites = np.unique(jobs.site, return_inverse=True)
        widest = self._widest(jobs.site, sizes)
        self._reject_wide("partitions", widest, [f"site {k}" for k in numbers.tolist()], sites)
        return {"sizes": sizes, "partition": jobs.site}

    def _widest(self, partition: Integers, sizes: Integers) -> Integers:
        """Return the machines (cores if jobs share them) of the partition of each job: int64[jobs]."""
        jobs = self.run.applications
        if self.capacity is None:
            return sizes[partition]
        room = self.capacity.room(
            partition, jobs.cores, jobs.gpus, jobs.tasks_per_machine, jobs.memory, sizes
        )
        return room * (jobs.width // jobs.tasks)

    def _partitions(self, names: list[str]) -> tuple[Integers, Integers]:
        """Return the machines of each partition, and the partition of each queue, int64."""
        parameters = self.parameters
        partitions, places = parameters.partitions, parameters.queue_partitions
        sizes = self._sizes()
        if not isinstance(partitions, dict):
            field, values = "queue_partitions", places
            if not places:
                field, values = "partitions", tuple(range(len(sizes)))
            return sizes, np.array(self._of_queues(field, values, names))
        numbers = {partition: k for k, partition in enumerate(partitions)}
        of_queue = {name: name for name in names} | dict(places or {})
        for name in names:
            if of_queue[name] not in numbers:
                raise ScenarioError(
                    f"{parameters.name}.partitions must have the name of each queue that queue_partitions "
                    f"does not have, got {', '.join(numbers)}, without {name!r}"
                )
        return sizes, np.array([numbers[of_queue[name]] for name in names])

    def _sizes(self) -> Integers:
        """Return the machines of the run that each partition has: int64[partitions]."""
        parameters, of_core = self.parameters, self.run.platform_machine
        partitions: Any = parameters.partitions
        names = list(partitions) if isinstance(partitions, dict) else range(len(partitions))
        numbers = np.array([*partitions.values()] if isinstance(partitions, dict) else partitions)
        machines = len(self.run.speeds) if of_core is None else int(of_core[-1]) + 1
        sizes = apportion(numbers, machines)
        texts = ", ".join(f"{name}={size}" for name, size in zip(names, sizes.tolist(), strict=True))
        if not sizes.all():
            raise ScenarioError(
                f"{parameters.name}.partitions must leave each a machine of the {machines} of the platform, "
                f"got {texts}"
            )
        if (sizes != numbers).any():
            warn(
                f"{parameters.name}.partitions add up to {numbers.sum()}, so they are scaled to the "
                f"{machines} machines of the platform: {texts}",
                SchedulerWarning,
            )
        return sizes if of_core is None else np.bincount(np.repeat(np.arange(len(sizes)), sizes)[of_core])

    def _of_queues(self, field: str, values: Any, names: list[str]) -> list[Any]:
        """Return the value of a parameter for each of the queues `names`, 0 if its table has none."""
        path = f"{self.parameters.name}.{field}"
        if not isinstance(values, dict):
            if len(values) != len(names):
                raise ScenarioError(
                    f"{path} must have an entry for each of the {len(names)} queues of the workload "
                    f"({', '.join(names[:9])}), got {len(values)}"
                )
            return list(values)
        listed = self.run.applications.queue_names  # some may have no jobs in the workload
        known = [*dict.fromkeys([*names, *([] if listed is None else filter(None, listed.tolist()))])]
        for queue in values:
            if queue not in known:
                raise ScenarioError(
                    f"{path} must have names of queues of the workload ({', '.join(known[:9])}), got "
                    f"{queue!r}{hint(known, queue)}"
                )
        return [values.get(name, 0) for name in names]

    def _reject_wide(
        self, field: str, widest: Integers, names: Sequence[str] = ("",), queues: Integers | int = 0
    ) -> None:
        """Reject the jobs that request more machines or cores than a parameter allows, with a warning.

        Parameters
        ----------
        widest
            Machines that the parameter allows each job, or cores if jobs share machines, int64[jobs].
        names
            Name of each group of jobs, such as a queue.
        queues
            Group of each job.

        Raises
        ------
        ScenarioError
            If it allows no job of a queue, or no job at all.
        """
        jobs, path = self.run.applications, f"{self.parameters.name}.{field}"
        queues = np.broadcast_to(queues, len(jobs))
        wide, unit = jobs.width > widest, "machines" if self.capacity is None else "cores"
        if not wide.any():
            return
        for k, name in enumerate(names):
            if wide[queues == k].all():
                noun, narrowest = f" of {name}" if name else "", jobs.width[queues == k].min()
                raise ScenarioError(
                    f"{path} must allow some jobs{noun}, which request at least {narrowest} {unit}, got "
                    f"{widest[queues == k].max()}"
                )
        self.rejected |= wide
        first = int(np.argmax(wide))
        number, remedy = str(first), ""
        if jobs.job is not None:
            number = f"{jobs.job[first]} of the log"
            if field == "user_limit":
                key = f"workload.max_nodes={widest[first]}"
                remedy = f"; {key} (in the shell --change {key}) leaves them out of all runs"
        work = jobs.width * (self.durations / NS)
        share = number_text(100.0 * work[wide].sum() / work.sum(), 2)
        warn(
            f"{path}: {wide.sum()} of {len(jobs)} jobs, {share} % of the work, request more {unit} than it "
            f"allows, rejected (the first is job {number}, which requests {jobs.width[first]}){remedy}",
            SchedulerWarning,
        )

    def _static_keys(self) -> Floats:
        """Return the keys of a static order, float64[jobs]: jobs with lower keys are first."""
        jobs, seconds = self.run.applications, self.estimate / NS
        nodes = jobs.width.astype(np.float64)
        keys: dict[str, Floats] = {
            "lcfs": -np.arange(len(jobs), dtype=np.float64),
            "sjf": seconds,
            "saf": nodes * seconds,
            "largest": -nodes,
            "f1": np.log10(seconds) * nodes + 870.0 * np.log10(np.maximum(1.0, jobs.release)),
        }
        return keys[self.parameters.order]

    def record_runs(self, runs: Integers) -> None:
        assert self.run.decisions is not None
        parameters = self.parameters
        first_rows = np.append(True, (runs[:2, 1:] != runs[:2, :-1]).any(axis=0))[: runs.shape[1]]
        jobs = self.run.applications
        runs = runs[:, first_rows]
        is_replayed = (parameters.order, parameters.reserve, parameters.depth) == ("fcfs", "counts", 1)
        is_replayed &= parameters.backfill != "conservative" and parameters.user_limit is None
        is_replayed &= not parameters.queue_limits and not parameters.partitions
        is_replayed &= self.capacity is None and self.run.releases is None
        if not is_replayed or parameters.estimate == "predicted":
            record_starts(self.run.decisions, jobs.release_ns, jobs.tasks, runs)
            return
        Replay(
            self.run.decisions,
            machines=len(self.run.speeds),
            easy=parameters.backfill == "easy",
            release=jobs.release_ns,
            estimate=self.estimate,
            tasks=jobs.tasks,
            runs=runs,
            up=self.up,
        )
