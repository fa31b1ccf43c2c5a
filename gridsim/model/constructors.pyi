# Written by ``python -m tests.invariants.test_constructors``.

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from numpy.typing import NDArray

from gridsim.model.attributes import Constraints, DrawnAttributes, ListedAttributes
from gridsim.model.power import Power
from gridsim.model.background_load import Fluctuation
from gridsim.model.bag_workloads import Exponential, LogNormal, LogUniform, Normal
from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.model.time_zones import Zones
from gridsim.model.workload import Workload
from gridsim.support.parameters import CheckedStruct

_Kind = TypeVar("_Kind", bound=type)

class Constructor(NamedTuple):
    recipe: type[CheckedStruct]
    positional: str = ""

def constructors(**by_name: Constructor) -> Callable[[_Kind], _Kind]: ...

class PlatformConstructors:
    constructors: ClassVar[dict[str, Constructor]]
    @classmethod
    def desktop_grid(
        cls,
        nodes: int,
        seed: int = 1,
        low: float = 1000.0,
        high: float = 3000.0,
        step: float = 200.0,
        *,
        bandwidth: float | tuple[float, float] | Sequence[float] | None = None,
        cores: int | Iterable[int] | None = None,
        memory: float | Iterable[float] | None = None,
        gpus: int | Iterable[int] | None = None,
        attributes: DrawnAttributes | ListedAttributes | None = None,
        power: Power | None = None,
    ) -> Platform:
        """Return a platform: speeds drawn uniformly from low, low + step, ..., high (Mflop/s).

        The defaults are those of the fair tree paper.

        Parameters
        ----------
        nodes
            Number of machines.
        seed
            Seed of the draw.
        low
            Slowest speed, Mflop/s.
        high
            Fastest speed, Mflop/s.
        step
            Difference between two neighbouring speeds, Mflop/s; it must divide high - low.
        bandwidth
            Bytes/s of each machine's link to the data of tasks, up and down at once: a number for all, a list
            with one entry per machine, or a table {low = ..., high = ...} for a log-uniform draw.  By default
            data take no time.
        attributes
            Memory, disk, kind and place of each machine, `DrawnAttributes` or `ListedAttributes`; by default
            machines differ in speed only.
        cores
            Cores of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
            by default one.  Each core runs one task at a time, at the speed of the machine.
        memory
            Memory of each machine, bytes: a number for all, or a list with one entry per machine, or, of sites,
            per site.  By default it is that of `attributes`.
        gpus
            GPUs of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
            by default none.
        power
            Power of each machine, `Power`; by default the energy of a run is not counted.
        """

    @classmethod
    def pareto(
        cls,
        nodes: int,
        seed: int = 1,
        *,
        bandwidth: float | tuple[float, float] | Sequence[float] | None = None,
        cores: int | Iterable[int] | None = None,
        memory: float | Iterable[float] | None = None,
        gpus: int | Iterable[int] | None = None,
        attributes: DrawnAttributes | ListedAttributes | None = None,
        power: Power | None = None,
    ) -> Platform:
        """Return a platform: speeds drawn from 1000..2800 Mflop/s, most of them slow (mean 1244).

        The speed is 1000 + 200 (j - 1) Mflop/s with P(j) ~ 1 / (j (j + 1)) for j in 1..10.

        Parameters
        ----------
        nodes
            Number of machines.
        seed
            Seed of the draw.
        bandwidth
            Bytes/s of each machine's link to the data of tasks, up and down at once: a number for all, a list
            with one entry per machine, or a table {low = ..., high = ...} for a log-uniform draw.  By default
            data take no time.
        attributes
            Memory, disk, kind and place of each machine, `DrawnAttributes` or `ListedAttributes`; by default
            machines differ in speed only.
        cores
            Cores of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
            by default one.  Each core runs one task at a time, at the speed of the machine.
        memory
            Memory of each machine, bytes: a number for all, or a list with one entry per machine, or, of sites,
            per site.  By default it is that of `attributes`.
        gpus
            GPUs of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
            by default none.
        power
            Power of each machine, `Power`; by default the energy of a run is not counted.
        """

    @classmethod
    def normal(
        cls,
        nodes: int,
        seed: int = 1,
        mean: float = 200.0,
        variation: float = 0.2,
        *,
        bandwidth: float | tuple[float, float] | Sequence[float] | None = None,
        cores: int | Iterable[int] | None = None,
        memory: float | Iterable[float] | None = None,
        gpus: int | Iterable[int] | None = None,
        attributes: DrawnAttributes | ListedAttributes | None = None,
        power: Power | None = None,
    ) -> Platform:
        """Return a platform: normally distributed speeds (Mflop/s).

        Speeds of at most 0.01 of the mean are redrawn.

        Parameters
        ----------
        nodes
            Number of machines.
        seed
            Seed of the draw.
        mean
            Mean speed, Mflop/s; a clock of 1 MHz counts as 1 Mflop/s, as in the RJSS paper.
        variation
            Standard deviation of the speeds, relative to the mean.
        bandwidth
            Bytes/s of each machine's link to the data of tasks, up and down at once: a number for all, a list
            with one entry per machine, or a table {low = ..., high = ...} for a log-uniform draw.  By default
            data take no time.
        attributes
            Memory, disk, kind and place of each machine, `DrawnAttributes` or `ListedAttributes`; by default
            machines differ in speed only.
        cores
            Cores of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
            by default one.  Each core runs one task at a time, at the speed of the machine.
        memory
            Memory of each machine, bytes: a number for all, or a list with one entry per machine, or, of sites,
            per site.  By default it is that of `attributes`.
        gpus
            GPUs of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
            by default none.
        power
            Power of each machine, `Power`; by default the energy of a run is not counted.
        """

    @classmethod
    def from_hosts(
        cls,
        path: str | os.PathLike[str],
        nodes: int,
        seed: int = 1,
        column: str = 'gflops_core',
        *,
        bandwidth: float | tuple[float, float] | Sequence[float] | None = None,
        cores: int | Iterable[int] | None = None,
        memory: float | Iterable[float] | None = None,
        gpus: int | Iterable[int] | None = None,
        attributes: DrawnAttributes | ListedAttributes | None = None,
        power: Power | None = None,
        with_cores: bool = False,
    ) -> Platform:
        """Return a platform: speeds drawn from a table of real hosts, such as BOINC's public table of processor models.

        Rows without a speed or computers are left out, with a warning.

        Parameters
        ----------
        path
            A CSV table with a header line, the columns cpu_model and computers, and columns of speeds (Gflop/s),
            plain or gzip.
        nodes
            Number of machines.
        seed
            Seed of the draw, which is with replacement; each computer is equally likely.
        column
            Column of the speed: ``gflops_core`` for one core, ``gflops_computer`` for all cores.
        with_cores
            Whether each machine has as many cores as its host: the mean of its model (column ``avg_cores``),
            rounded.  By default machines have one core, or `cores`.
        bandwidth
            Bytes/s of each machine's link to the data of tasks, up and down at once: a number for all, a list
            with one entry per machine, or a table {low = ..., high = ...} for a log-uniform draw.  By default
            data take no time.
        attributes
            Memory, disk, kind and place of each machine, `DrawnAttributes` or `ListedAttributes`; by default
            machines differ in speed only.
        cores
            Cores of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
            by default one.  Each core runs one task at a time, at the speed of the machine.
        memory
            Memory of each machine, bytes: a number for all, or a list with one entry per machine, or, of sites,
            per site.  By default it is that of `attributes`.
        gpus
            GPUs of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
            by default none.
        power
            Power of each machine, `Power`; by default the energy of a run is not counted.

        Raises
        ------
        TraceFormatError
            If the table is invalid.
        """

    @classmethod
    def equal(
        cls,
        nodes: int,
        speed: float = 1000.0,
        attributes: DrawnAttributes | ListedAttributes | None = None,
        *,
        bandwidth: float | tuple[float, float] | Sequence[float] | None = None,
        cores: int | Iterable[int] | None = None,
        memory: float | Iterable[float] | None = None,
        gpus: int | Iterable[int] | None = None,
        power: Power | None = None,
    ) -> Platform:
        """Return a platform: machines of the same speed, as rigid jobs require.

        Parameters
        ----------
        nodes
            Number of machines.
        speed
            Speed of each machine, Mflop/s.
        bandwidth
            Bytes/s of each machine's link to the data of tasks, up and down at once: a number for all, a list
            with one entry per machine, or a table {low = ..., high = ...} for a log-uniform draw.  By default
            data take no time.
        attributes
            Memory, disk, kind and place of each machine, `DrawnAttributes` or `ListedAttributes`; by default
            machines differ in speed only.
        cores
            Cores of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
            by default one.  Each core runs one task at a time, at the speed of the machine.
        memory
            Memory of each machine, bytes: a number for all, or a list with one entry per machine, or, of sites,
            per site.  By default it is that of `attributes`.
        gpus
            GPUs of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
            by default none.
        power
            Power of each machine, `Power`; by default the energy of a run is not counted.
        """

    @classmethod
    def of(
        cls,
        speeds: float | Iterable[float] | NDArray[Any],
        *,
        bandwidth: float | tuple[float, float] | Sequence[float] | None = None,
        cores: int | Iterable[int] | None = None,
        memory: float | Iterable[float] | None = None,
        gpus: int | Iterable[int] | None = None,
        attributes: DrawnAttributes | ListedAttributes | None = None,
        power: Power | None = None,
    ) -> Platform:
        """Return a platform: a list of speeds.

        Parameters
        ----------
        speeds
            Speed, Mflop/s, one entry per machine.
        bandwidth
            Bytes/s of each machine's link to the data of tasks, up and down at once: a number for all, a list
            with one entry per machine, or a table {low = ..., high = ...} for a log-uniform draw.  By default
            data take no time.
        attributes
            Memory, disk, kind and place of each machine, `DrawnAttributes` or `ListedAttributes`; by default
            machines differ in speed only.
        cores
            Cores of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
            by default one.  Each core runs one task at a time, at the speed of the machine.
        memory
            Memory of each machine, bytes: a number for all, or a list with one entry per machine, or, of sites,
            per site.  By default it is that of `attributes`.
        gpus
            GPUs of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
            by default none.
        power
            Power of each machine, `Power`; by default the energy of a run is not counted.
        """

    @classmethod
    def sites(
        cls,
        sizes: int | Iterable[int] | NDArray[Any],
        speeds: float | Iterable[float] | NDArray[Any] | None = None,
        names: str | Iterable[str] | NDArray[Any] | None = None,
        attributes: DrawnAttributes | ListedAttributes | None = None,
        *,
        bandwidth: float | tuple[float, float] | Sequence[float] | None = None,
        cores: int | Iterable[int] | None = None,
        memory: float | Iterable[float] | None = None,
        gpus: int | Iterable[int] | None = None,
        power: Power | None = None,
    ) -> Platform:
        """Return a platform: sites, which are clusters of machines of one speed; machines are numbered site by site.

        Rigid jobs have a home site: the one at which they are submitted.  If the speeds of sites differ, a rigid
        job takes as long as on the slowest of its machines; only `Metascheduler` and `Zorilla` run such jobs,
        without failures.

        Parameters
        ----------
        sizes
            Number of machines of each site.
        speeds
            Speed of the machines of each site, Mflop/s, one entry per site; in Python, a single number in place
            of a list is that of all sites.  By default it is 1000 Mflop/s.
        names
            Name of each site, one entry per site; by default its number.
        bandwidth
            Bytes/s of each machine's link to the data of tasks, up and down at once: a number for all, a list
            with one entry per machine, or a table {low = ..., high = ...} for a log-uniform draw.  By default
            data take no time.
        attributes
            Memory, disk, kind and place of each machine, `DrawnAttributes` or `ListedAttributes`; by default
            machines differ in speed only.
        cores
            Cores of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
            by default one.  Each core runs one task at a time, at the speed of the machine.
        memory
            Memory of each machine, bytes: a number for all, or a list with one entry per machine, or, of sites,
            per site.  By default it is that of `attributes`.
        gpus
            GPUs of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
            by default none.
        power
            Power of each machine, `Power`; by default the energy of a run is not counted.
        """

class WorkloadConstructors:
    constructors: ClassVar[dict[str, Constructor]]
    @classmethod
    def bags(
        cls,
        applications: int = 100,
        interarrival: float = 10.0,
        tasks_per_node: float = 10.0,
        variation: float = 0.2,
        task_size: float | tuple[float, float] | Sequence[float] = 65536.0,
        *,
        seed: int = 1,
        tasks: float | None = None,
        spread: Normal | LogUniform | Exponential | LogNormal | None = None,
        load: float | None = None,
        input_bytes: float | tuple[float, float] | Sequence[float] | None = None,
        output_bytes: float | tuple[float, float] | Sequence[float] | None = None,
        constraints: Constraints | None = None,
    ) -> Workload:
        """Return a workload: bags of tasks submitted by a Poisson process; the first release is one gap after time 0.

        Parameters
        ----------
        applications
            Number of applications.
        interarrival
            Mean time between two releases, s (exponential); 0 to release all applications at time 0.
        tasks_per_node
            Mean number of tasks of an application, divided by the number of machines.
        tasks
            Mean number of tasks of an application on any platform, in place of tasks_per_node.
        variation
            Largest deviation of the number of tasks from the mean, as a share of the mean; the number is
            uniform on the whole numbers within it.
        task_size
            Size of a task, Mflop: a number; (low, high), in a file {low = ..., high = ...}, for a uniform draw
            per application; or a list of sizes, one of which is drawn per application, all equally likely.  The
            fair tree paper gives no size; it says that a task takes around one minute.
        seed
            Seed of independent random streams: arrivals, tasks, sizes, submitters and spread.  The submitter
            of each application is uniform over the machines.
        spread
            Distribution of task sizes within an application: `Normal`, `LogUniform`, `Exponential` or
            `LogNormal`, in a file a table of the kind ``normal``, ``log-uniform``, ``exponential`` or
            ``log-normal``.  The size of each task is task_size times a drawn factor.  None for tasks of equal
            size.
        load
            Offered load to which all releases are scaled by one factor: the submitted work over the capacity
            of the machines between the first and the last release, whether they are up or down.  None for
            releases as drawn.
        input_bytes
            Bytes that a task fetches before it can be computed, over the link of its machine
            (`Platform.linked`), in the same forms as task_size; None for no data.
        output_bytes
            Bytes that a task sends afterwards over that link; the task ends when they have arrived.
        constraints
            Memory and disk that the tasks of an application need, `Constraints`, drawn with `seed`; None if
            all machines suit all tasks.
        """

    @classmethod
    def from_log(
        cls,
        path: str | os.PathLike[str],
        gap: float = 120.0,
        span: float = 120.0,
        reference_speed: float | None = None,
        seed: int = 1,
        max_applications: int | None = None,
        *,
        own_sizes: bool | None = None,
        tasks_per_node: float | None = None,
        min_tasks: int = 1,
        skip: int = 0,
        whole_seconds: bool = True,
        load: float | None = None,
    ) -> Workload:
        """Return a workload: bags of tasks from a job log, such as SWF, sacct or .tr.

        A bag is a group of jobs of one user, at most `gap` s apart and within `span` s.  A job of p
        processors becomes p tasks.  The task size (Mflop) is the mean run time of the bag's tasks times
        `reference_speed`.  Bags are released as recorded, the first at 0 s.  Each user submits at one
        machine, drawn uniformly with `seed`.

        A .tr log has the duration of every task.  Each of its jobs is one bag, submitted at a machine that is
        drawn for the job; jobs of one submit time are released 0.01 s apart.  Schedulers see the mean
        duration that the log states as the estimate of the bag's tasks (`Applications.estimate`).

        Jobs of unknown run time are left out, and run times of 0 s count as 1 s, both with a warning.  Users that
        a GWF log names, such as U12, are numbered in the order in which they appear.

        `gap` and `span` do not apply to .tr logs, `whole_seconds` applies only to them.  `realize` reads
        the file, and rejects a job of more processors than the platform has machines.

        Parameters
        ----------
        path
            Path of the log, plain or gzip.
        gap
            Longest time between two jobs of a bag, s.
        span
            Longest time from the first job of a bag to the last, s.
        reference_speed
            Speed of the log's machines, Mflop/s; None for the mean speed of the platform.
        seed
            Seed of the draw of the users' machines, and of the draw of tasks with tasks_per_node.
        own_sizes
            If true, the run time of each task is that of its job (0 s counts as 1 s), so that tasks of a bag
            may differ in size; if false, it is the mean of the bag.  None is true for a .tr log and false for
            other logs.
        tasks_per_node
            Number of tasks of each bag per machine, in place of the number in the log; a bag has at least 1
            task.  With own_sizes, sizes are drawn from the tasks of the bag, with replacement.
        min_tasks
            Smallest number of tasks in the log of the bags that are used.
        skip, max_applications
            Number of these bags that are left out at the beginning, and largest number of bags after them.
        whole_seconds
            If true, durations and mean durations of a .tr log are truncated to whole seconds.  A task of 0 s
            counts as 0.001 s.
        load
            Offered load to which all releases are scaled by one factor: the submitted work over the capacity
            of the machines between the first and the last release, whether they are up or down.  None for
            releases as recorded.
        """

    @classmethod
    def of(
        cls,
        release: float | Iterable[float] | NDArray[Any],
        tasks: int | Iterable[int] | NDArray[Any],
        task_size: float | Iterable[float] | NDArray[Any],
        submitter: int | Iterable[int] | NDArray[Any] | None = None,
        data: int | Iterable[int] | NDArray[Any] | None = None,
        input_bytes: float | Iterable[float] | NDArray[Any] | None = None,
        output_bytes: float | Iterable[float] | NDArray[Any] | None = None,
        memory: float | Iterable[float] | NDArray[Any] | None = None,
        disk: float | Iterable[float] | NDArray[Any] | None = None,
        *,
        origin: float | None = None,
        after: Iterable[int | Iterable[int]] | NDArray[Any] | None = None,
        think_time: float | Iterable[float] | NDArray[Any] | None = None,
    ) -> Workload:
        """Return a workload: a list of applications.

        In Python, a single value in place of a list other than `release` is that of all applications.

        Parameters
        ----------
        tasks
            Number of tasks, one entry per application.
        task_size
            Size of a task, Mflop, one entry per application.
        submitter
            Machine that submits each application; by default machine i modulo the number of machines submits
            application i.
        data
            Bytes of a task's instructions and data, and of its result, one entry per application.
        input_bytes
            Bytes that a task fetches over the link of its machine (`Platform.linked`) before it can be computed,
            one entry per application.
        output_bytes
            Bytes that a task sends over that link afterwards, one entry per application.
        memory, disk
            Bytes that a task needs on its machine (`Platform.with_attributes`); one entry per application.
        release
            Release time, s, one entry per application or job, in any order.
        origin
            Time at which a run begins, s, on the clock of the releases; by default the first release.  Times
            of the run count from it.  With an earlier origin, failures and status messages precede the first
            release.
        after
            Those that must have ended before an entry is released (completed, or for jobs also rejected,
            cancelled or killed): their numbers, from 0 on in the order of these lists, as one list per entry; a
            number stands for a list of one.  `release` is then the earliest release.
        think_time
            Time from the last end of those in `after` to the release, s, one entry per application or job.
        """

    @classmethod
    def of_tasks(
        cls,
        release: float | Iterable[float] | NDArray[Any],
        sizes: Iterable[Iterable[float]] | NDArray[Any],
        submitter: int | Iterable[int] | NDArray[Any] | None = None,
        estimate: float | Iterable[float] | NDArray[Any] | None = None,
        *,
        origin: float | None = None,
        after: Iterable[int | Iterable[int]] | NDArray[Any] | None = None,
        think_time: float | Iterable[float] | NDArray[Any] | None = None,
    ) -> Workload:
        """Return a workload: a list of applications with the size of every task.

        In Python, a single value in place of a list other than `release` is that of all applications.

        Parameters
        ----------
        sizes
            Size of every task, Mflop, one list per application.
        submitter
            Machine that submits each application; by default machine i modulo the number of machines submits
            application i.
        estimate
            Task size that submitters state and schedulers see, Mflop, which may be wrong; one entry per
            application.  By default it is the mean of the sizes.
        release
            Release time, s, one entry per application or job, in any order.
        origin
            Time at which a run begins, s, on the clock of the releases; by default the first release.  Times
            of the run count from it.  With an earlier origin, failures and status messages precede the first
            release.
        after
            Those that must have ended before an entry is released (completed, or for jobs also rejected,
            cancelled or killed): their numbers, from 0 on in the order of these lists, as one list per entry; a
            number stands for a list of one.  `release` is then the earliest release.
        think_time
            Time from the last end of those in `after` to the release, s, one entry per application or job.
        """

    @classmethod
    def job_streams(
        cls,
        horizon: float = 2000.0,
        interarrival: float = 20.0,
        processing_time: float = 30.0,
        data: float = 5000.0,
        variation: float = 0.2,
        deviation: float = 0.2,
        reference_speed: float | None = None,
        *,
        seed: int = 1,
    ) -> Workload:
        """Return a workload: jobs of one task, submitted by a Poisson process at every machine (RJSS paper, section 2.1).

        The means of each machine are drawn once, from normal distributions around the parameters.  A value
        from a normal distribution is redrawn if it is at most 0.01 of the mean.

        Parameters
        ----------
        horizon
            Time during which jobs are submitted, s.
        interarrival
            Mean time between two jobs at a machine of the mean rate, s.
        processing_time
            Processing time of a job at `reference_speed`, s, mean over machines.
        data
            Bytes of a job's instructions and data, and of its result, mean over machines.  The bytes of a
            single job are exponential, rounded up.
        variation
            Standard deviation of the means of machines (rate, processing time, data), relative to the
            parameters.
        deviation
            Standard deviation of the processing times of a machine's jobs, relative to their mean.
        reference_speed
            Mflop/s; by default the mean speed of the platform.
        seed
            Seed of independent random streams: rates, means and jobs.
        """

    @classmethod
    def jobs(
        cls,
        jobs: int = 1000,
        profile: str = 'wagap2013',
        utilization: float = 0.25,
        max_nodes: int | None = None,
        constraints: Constraints | None = None,
        *,
        seed: int = 1,
        exclusive: bool = False,
    ) -> Workload:
        """Return a workload: rigid jobs drawn from the statistics of a real log; the first is submitted at 0 s.

        Nodes, run times, gaps between submissions and requested times have the quantiles of the log.  They
        also have its rank correlations of nodes with run times, and of each job with the previous one, as
        users submit many similar jobs.  Each job is submitted at a machine drawn uniformly.  Days and nights, and
        other properties of logs, are not modelled.

        Parameters
        ----------
        jobs
            Number of jobs.
        seed
            Seed of the draw of the jobs and of the machines at which they are submitted.
        profile
            Log whose statistics are used, ``"wagap2013"`` or ``"ricc2010"``.
        utilization
            Request utilization to which the gaps are scaled: the sum of nodes * run time over the capacity of
            the machines from the first to the last submission.
        max_nodes
            Largest number of nodes of a job; by default the number of machines.
        constraints
            Requirements of jobs on machines, `Constraints`, drawn with `seed`; None if all machines suit all
            jobs.  The nodes of a job are at most the machines that suit it.
        exclusive
            If jobs share machines: whether the machines of each job run no other job.
        """

    @classmethod
    def jobs_from_log(
        cls,
        path: str | os.PathLike[str],
        cores_per_node: int = 1,
        utilization: float | None = None,
        start: float = 0.0,
        end: float = ...,
        max_nodes: int | None = None,
        copies: int = 1,
        jitter: float = 3600.0,
        at_home: bool = False,
        seed: int = 1,
        constraints: Constraints | None = None,
        *,
        resample: Literal['weeks', 'users'] | None = None,
        exclusive: bool = False,
        after: Literal['none', 'preceding', 'user'] = 'none',
        request_factor: float = 1.0,
    ) -> Workload:
        """Return a workload: the rigid jobs of a job log, such as SWF or sacct, released as recorded, the first at 0 s.

        Jobs of unknown run time are left out, and run times of 0 s count as 1 s, both with a warning.  `realize`
        reads the file, and rejects a job of more nodes than the platform has machines that suit it.  Of machines
        that jobs share, a job takes the GPUs and the requested memory of the log, divided evenly among its nodes,
        if machines state theirs (`gpus` and `memory` of the platform).

        Parameters
        ----------
        path
            Path of the log, plain or gzip.
        seed
            Seed of the draw of the machines at which jobs are submitted, and of the jitter.
        cores_per_node
            Processors per node; a job of p processors needs ceil(p / cores_per_node) nodes.  With 1, on machines
            that jobs share (the cores of the platform), a job keeps the number of nodes that the log states
            (NNodes of sacct), with as many cores on each, rounded up; without that number, it takes cores
            anywhere.
        utilization
            Request utilization to which submit times are compressed or stretched; None for submit times as
            recorded.
        start, end
            Window of submit times of the jobs that are used, s after the first submission of the log.
        max_nodes
            Largest number of nodes of a job, or of processors without `cores_per_node`; larger jobs are left out,
            with a warning.
        copies, jitter
            Number of times that each job is submitted, and longest delay of further copies (s, uniform).  The
            load is the same on `copies` times as many machines.
        at_home
            If true, each user of each copy submits at one machine; if false, a machine is drawn for each job.
            Both draws are uniform and use `seed`.
        constraints
            Requirements of jobs on machines, `Constraints`, drawn with `seed`; None if all machines suit all
            jobs.
        resample
            What is drawn from the log, with replacement and `seed`: ``"weeks"`` draws as many whole weeks as the
            log has, one after another; ``"users"`` draws as many users as it has, each with all of their jobs.
            None takes the jobs as they are.  `utilization` then is that of the drawn jobs.
        exclusive
            If jobs share machines: whether the machines of each job run no other job.
        after
            The job after whose end, and a think time, a job is released, instead of at its submission:
            ``"none"``; ``"preceding"``, the preceding jobs that the log states (fields 17 and 18 of SWF), if they
            are among the jobs; ``"user"``, the previous job of the same user, if that had ended before the
            submission (a closed loop).  The think time is then the time between these in the log.  Other jobs are
            released at their submissions.  It does not support `utilization`, `copies` and `resample`.
        request_factor
            Factor of the requested times, by which schedulers plan and at which they may kill jobs.  Run times
            stay those of the log, also of jobs that a limit ended there.  The log must have requested times; jobs
            without one count as requesting their run time.
        """

    @classmethod
    def jobs_from_logs(
        cls,
        paths: Iterable[str | os.PathLike[str]],
        cores_per_node: int | Iterable[int] | NDArray[Any] | None = None,
        *,
        seed: int = 1,
        start: float = 0.0,
        end: float = ...,
        max_nodes: int | None = None,
        align: Literal['first', 'unix'] | None = None,
        shared_users: bool = False,
        at_home: bool = False,
        resample: Literal['weeks', 'users'] | None = None,
        exclusive: bool = False,
        after: Literal['none', 'preceding', 'user'] = 'none',
        request_factor: float = 1.0,
    ) -> Workload:
        """Return a workload: the rigid jobs of several logs (SWF or GWF), one of each site of the platform, in one workload.

        The home of a job is the site of its log, and it is submitted at a machine of that site, drawn uniformly.
        Queues of different logs are different, and users and accounts unless they are shared.

        Parameters
        ----------
        paths
            Path of the log of each site, plain or gzip.
        seed
            Seed of the draw of the machines at which jobs are submitted, and of the resampling.
        cores_per_node
            Processors per node of each site, one entry per site; in Python, a single number in place of a list is
            that of all sites.  By default it is 1.  On machines that jobs share (the cores of the platform), jobs
            of a site with 1 take cores as in the workload of one log, and those of a site with n as many parts of
            n cores.
        start, end
            Window of submit times of the jobs that are used, s after the first submission of each log.
        max_nodes
            Largest number of nodes of a job, or of processors if its site has no `cores_per_node`; larger jobs
            are left out, with a warning.
        align
            ``"first"``: each log begins at 0 s with the first of its jobs that are used.  ``"unix"``: logs keep
            their differences in UNIX time, which is ``UnixStartTime`` in the header of a log plus the submission.
            None: ``"unix"`` if all logs state that time and have a common period, else ``"first"``.
        shared_users
            If true, users of equal names in the logs are one user, for example for limits of users, and so are
            accounts; without names, equal numbers are one.  If false, those of different logs are different.
        at_home
            If true, each user submits at one machine; if false, a machine is drawn for each job.
        resample
            What is drawn from the logs, as in the workload of one log; ``"weeks"`` draws the same weeks of all.
        exclusive
            If jobs share machines: whether the machines of each job run no other job.
        after
            As in the workload of one log; users are those of each log.  It does not support `resample`.
        request_factor
            As in the workload of one log, for all of the logs.
        """

    @classmethod
    def jobs_of(
        cls,
        release: float | Iterable[float] | NDArray[Any],
        nodes: int | Iterable[int] | NDArray[Any],
        run_time: float | Iterable[float] | NDArray[Any],
        requested: float | Iterable[float] | NDArray[Any] | None = None,
        submitter: int | Iterable[int] | NDArray[Any] | None = None,
        memory: float | Iterable[float] | NDArray[Any] | None = None,
        kinds: str | Iterable[str] | NDArray[Any] | None = None,
        *,
        origin: float | None = None,
        after: Iterable[int | Iterable[int]] | NDArray[Any] | None = None,
        think_time: float | Iterable[float] | NDArray[Any] | None = None,
        user: int | Iterable[int] | NDArray[Any] | None = None,
        queue: int | Iterable[int] | NDArray[Any] | None = None,
        site: int | Iterable[int] | NDArray[Any] | None = None,
        priority: float | Iterable[float] | NDArray[Any] | None = None,
        disk: float | Iterable[float] | NDArray[Any] | None = None,
        cores: int | Iterable[int] | NDArray[Any] | None = None,
        gpus: int | Iterable[int] | NDArray[Any] | None = None,
        tasks_per_machine: int | Iterable[int] | NDArray[Any] | None = None,
        exclusive: int | Iterable[int] | NDArray[Any] | None = None,
        not_before: float | Iterable[float] | NDArray[Any] | None = None,
        deadline: float | Iterable[float] | NDArray[Any] | None = None,
        cancel_at: float | Iterable[float] | NDArray[Any] | None = None,
    ) -> Workload:
        """Return a workload: a list of rigid jobs.

        All lists have one entry per job; in Python, a single value in place of a list other than `release` is
        that of all jobs.  Times are on the clock of the releases.

        Parameters
        ----------
        nodes
            Number of machines that a job needs at once.
        run_time
            Run time, s.
        requested
            Run time that the user requested, s; by default `run_time`.
        submitter
            Machine that submits each job; by default machine i modulo the number of machines submits job i.
        user, queue
            Number of the user who submits a job, and of the queue to which it is submitted.
        site
            Number of the home site of a job, -1 if unknown; by default the site of `submitter`.  Without a
            submitter, the machines of its site submit its jobs in turn.
        priority
            Priority that the user states; higher ones are preferred.
        memory, disk
            Bytes that a job needs on each of its machines.
        kinds
            Kind of machines that a job needs, empty for any.
        cores, gpus
            Cores and GPUs that a job takes on each of its machines, if jobs share machines; by default 1 and 0.
        tasks_per_machine
            The most of the `nodes` parts of a job that may be on one machine, if jobs share machines; by default
            1, and 0 for no limit.
        exclusive
            1 for jobs whose machines run no other job, if jobs share machines; by default 0.
        not_before
            Earliest start of a job (an advance reservation), s; by default its release.
        deadline
            Time by which the reservation of a job must end, or it is rejected, s; inf for none.
        cancel_at
            Time at which the user cancels a job unless it has ended, s, after its release; inf for never.
        release
            Release time, s, one entry per application or job, in any order.
        origin
            Time at which a run begins, s, on the clock of the releases; by default the first release.  Times
            of the run count from it.  With an earlier origin, failures and status messages precede the first
            release.
        after
            Those that must have ended before an entry is released (completed, or for jobs also rejected,
            cancelled or killed): their numbers, from 0 on in the order of these lists, as one list per entry; a
            number stands for a list of one.  `release` is then the earliest release.
        think_time
            Time from the last end of those in `after` to the release, s, one entry per application or job.
        """

class FaultsConstructors:
    constructors: ClassVar[dict[str, Constructor]]
    @classmethod
    def poisson(
        cls,
        mean: float,
        seed: int = 1,
        reachable: bool = False,
    ) -> Faults:
        """Return faults: transient failures of each machine, one every `mean` s on average (fair tree paper: 14,400 s).

        Parameters
        ----------
        mean
            Mean time between two failures of a machine, s.
        seed
            Seed of the draw.
        reachable
            If true, a machine that is down is in use by its owner: it computes nothing for others, but keeps
            its memory and stays on the network.
        """

    @classmethod
    def exponential(
        cls,
        up: float,
        down: float,
        seed: int = 1,
        reachable: bool = False,
    ) -> Faults:
        """Return faults: exponentially distributed up and down times, in turn, of `up` s and `down` s on average.

        Parameters
        ----------
        up
            Mean up time, s.
        down
            Mean down time, s; 0 for transient failures.
        seed
            Seed of the draw.
        reachable
            If true, a machine that is down is in use by its owner: it computes nothing for others, but keeps
            its memory and stays on the network.
        """

    @classmethod
    def weibull(
        cls,
        up_shape: float,
        up_scale: float,
        down_shape: float,
        down_scale: float,
        seed: int = 1,
        reachable: bool = False,
    ) -> Faults:
        """Return faults: up and down times from Weibull distributions.

        Parameters
        ----------
        up_shape
            Shape of the up times; 1 is exponential.
        up_scale
            Scale of the up times, s.
        down_shape
            Shape of the down times; 1 is exponential.
        down_scale
            Scale of the down times, s.
        seed
            Seed of the draw.
        reachable
            If true, a machine that is down is in use by its owner: it computes nothing for others, but keeps
            its memory and stays on the network.
        """

    @classmethod
    def trace(
        cls,
        path: str | os.PathLike[str],
        seed: int = 1,
        start: float = 0.0,
        repeat: bool = True,
        never_up: bool = False,
        zones: Zones | None = None,
        reachable: bool = False,
        *,
        in_order: bool = False,
    ) -> Faults:
        """Return faults: up and down times of the hosts of an availability trace (.avt or FTA tab format).

        Each machine follows one host, drawn without replacement unless `in_order`.

        Parameters
        ----------
        path
            Path of the trace.
        seed
            Seed of the draw of hosts.
        start
            Time in the trace at which the run begins, s.
        repeat
            If true, the trace is repeated from `start` on when it ends; if false, each machine keeps its last
            state.
        never_up
            If true, draw from all hosts, including hosts that are never up in the trace; if false, only from
            hosts that were ever up.
        zones
            Time zones over which the machines are distributed, for hosts recorded in one time zone: each
            machine is as far ahead in the trace as its local time is ahead.  It requires `repeat`; only whole
            days after `start` are used, and `start` should be midnight in the trace.
        in_order
            If true, no host is drawn: machine i follows host i of the trace, which has one host per machine.
        reachable
            If true, a machine that is down is in use by its owner: it computes nothing for others, but keeps
            its memory and stays on the network.

        Raises
        ------
        TraceFormatError
            When the trace is read, if it is invalid.
        ScenarioError
            When the trace is read, if it has too few hosts, or with `in_order` another number than machines.
        """

    @classmethod
    def zones(
        cls,
        seed: int = 1,
        zones: Zones = ...,
        day_up: float = 0.1,
        spell: float = 1800.0,
        spread: float = 1800.0,
        reachable: bool = False,
    ) -> Faults:
        """Return faults: machines that are up in the nights of their time zones, and in some spells of the day.

        At the beginning of the day the owner returns and the machine goes down.  Later the owner is away for
        spells, during which the machine is up.  Spells and the times between them are exponential.

        Parameters
        ----------
        seed
            Seed of three random streams: nights, spells, and times between spells.
        zones
            Number of time zones, and hours of the night.
        day_up
            Share of the day in which a machine is up, apart from the beginning of the day; 0 for machines
            that are never up by day.
        spell
            Mean length of a spell, s.
        spread
            Largest deviation of the beginning and the end of a night, s, drawn uniformly for each machine and
            day; at most a quarter of the shorter of night and day.
        reachable
            If true, a machine that is down is in use by its owner: it computes nothing for others, but keeps
            its memory and stays on the network.
        """

    @classmethod
    def of(
        cls,
        machine: Iterable[int],
        down: Iterable[float],
        up: Iterable[float],
        reachable: bool = False,
    ) -> Faults:
        """Return faults: a list of failures: ``machine[i]`` fails at ``down[i]`` s and recovers at ``up[i]`` s.

        Parameters
        ----------
        machine
            Machine that fails, one entry per failure.
        down
            Time of the failure, s, on the clock of the releases; 0 for a machine that joins later.  One entry
            is of all failures.
        up
            Time of the recovery, s; equal to down for a transient failure, inf for a machine that leaves for
            good.  One entry is of all failures.
        reachable
            If true, a machine that is down is in use by its owner: it computes nothing for others, but keeps
            its memory and stays on the network.
        """

class FluctuationConstructors:
    constructors: ClassVar[dict[str, Constructor]]
    @classmethod
    def uniform(
        cls,
        low: float,
        high: float,
        period: float,
        seed: int = 1,
        series: int = 64,
        steps: int = 1024,
    ) -> Fluctuation:
        """Return background load: factors drawn uniformly from low to high, one per period.

        Each machine follows a drawn row of factors, from a drawn step on.  At the end of the row it continues
        at the beginning.

        Parameters
        ----------
        low, high
            Smallest and largest factor, 0 < low <= high <= 1.
        period
            Time that a factor lasts, s, 1e-9 to 1e7.
        seed
            Seed of two random streams: the factors, and the machines' rows and steps.
        series
            Number of different rows.
        steps
            Number of factors in a row.
        """

    @classmethod
    def of(
        cls,
        factors: Iterable[Iterable[float]],
        period: float,
        series: Iterable[int] | None = None,
        first: Iterable[int] | None = None,
    ) -> Fluctuation:
        """Return background load: a list of factors: ``factors[k][j]`` in row k, step j.

        Parameters
        ----------
        factors
            Factors in (0, 1], one list per row, all of the same length.
        period
            Time that a step lasts, s, 1e-9 to 1e7.
        series
            The row of each machine; by default machine u has row u modulo the number of rows.
        first
            The step of each machine at time 0, on the clock of the releases; by default step 0.
        """
