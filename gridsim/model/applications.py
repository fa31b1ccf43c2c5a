"""The applications that a workload generates for a run, and a single application as a node knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.attributes import Requirements, Texts
from gridsim.support.arrays import Bools, Floats, Integers
from gridsim.support.clock import NEVER, NS
from gridsim.support.columns import FloatColumn, IntColumn
from gridsim.support.parameters import Limits, Recipe
from gridsim.support.state import kept_in_checkpoints

#: Largest size of a task's instructions and data (bytes), which are sent as one message.
MAX_DATA = 2**31 - 1

#: Largest number of bytes that a task fetches or sends.
MAX_BYTES = 1e15

#: Type of a field for a list of machines.
Machines = Annotated[IntColumn, Limits(low=0)]


class Columns(NamedTuple):
    """Columns that a recipe generates for n applications, in any order, each of length n unless stated.

    The columns release (s), tasks (number of tasks), task_size (Mflop) and submitter (machine) are always
    present; requested (s) is present for rigid jobs.

    If tasks of one application may differ, sizes (Mflop) has an entry for every task, application after
    application, and replaces task_size.

    data (bytes) is the size of the data of each task of an application.  rates (jobs/s) has one entry per
    machine.

    estimate (Mflop) is the size of a task as its submitter states it.

    job is the number of an application in its job log.

    memory and disk (bytes) and kind (text) are what rigid jobs, or the tasks of bags, require of each
    machine.  group is the group of each application, and suited (bool[groups, machines]) the machines that
    meet the requirements of a group (`gridsim.model.attributes.Requirements`).

    input_bytes and output_bytes (whole numbers as float64) are the bytes that a task of an application
    fetches and sends.

    not_before, deadline and cancel_at (s) are times of rigid jobs, defined as in `Applications`.
    """

    release: Floats
    tasks: Integers
    task_size: Floats
    submitter: Integers
    requested: Floats | None = None
    sizes: Floats | None = None
    data: Integers | None = None
    rates: Floats | None = None
    estimate: Floats | None = None
    job: Integers | None = None
    memory: Floats | None = None
    kind: Texts | None = None
    group: Integers | None = None
    suited: Bools | None = None
    input_bytes: Floats | None = None
    output_bytes: Floats | None = None
    not_before: Floats | None = None
    deadline: Floats | None = None
    cancel_at: Floats | None = None
    disk: Floats | None = None

    def with_requirements(self, requirements: Requirements, group: Integers, suited: Bools) -> Columns:
        """Return the columns with requirements, and with groups unless all machines suit all applications."""
        columns = self._replace(**requirements._asdict())
        return columns if suited.all() else columns._replace(group=group, suited=suited)

    def shift_clock(self, origin: float) -> Columns:
        """Return the columns with times counted from `origin` s."""
        if not origin:
            return self
        times = {name: column for name in JOB_TIMES if (column := getattr(self, name)) is not None}
        return self._replace(
            release=self.release - origin,
            **{name: np.maximum(column - origin, 0.0) for name, column in times.items()},
        )

    def job_times(self) -> list[Floats | None]:
        """Return the columns `JOB_TIMES`, with None for a column that has no effect on any job."""
        not_before, *limits = (getattr(self, name) for name in JOB_TIMES)
        columns = [not_before if not_before is not None and (not_before > self.release).any() else None]
        return columns + [
            limit if limit is not None and np.isfinite(limit).any() else None for limit in limits
        ]


#: Name of a column of times that rigid jobs may state.
JobTime = Literal["not_before", "deadline", "cancel_at"]
#: The names of all columns of times that rigid jobs may state.
JOB_TIMES: tuple[JobTime, ...] = get_args(JobTime)


class ListedWorkload(Recipe, frozen=True, kw_only=True):
    """A list of applications or jobs, as columns with one entry per application or job.

    Parameters
    ----------
    release
        Release times, s, in any order.
    origin
        Time at which a run begins, s; by default the first release.  Times of the run count from it.
    """

    part: ClassVar[str] = "workload"

    release: Annotated[FloatColumn, Limits(low=0, unit="s")]
    origin: Annotated[float, Limits(low=0, unit="s")] | None = None

    def check_columns(self, noun: str) -> None:
        """Check that the list is not empty, that columns are equally long, and that the origin is valid.

        Parameters
        ----------
        noun
            The word for an entry in errors.

        Raises
        ------
        ScenarioError
            If a check fails.
        """
        if not len(self.release):
            raise ScenarioError(f"workload.release must have at least one {noun}, got none")
        count, first = len(self.release), float(self.release.array.min())
        for name in self.__struct_fields__:
            column = getattr(self, name)
            if name != "origin" and column is not None and len(column) != count:
                raise ScenarioError(
                    f"workload.{name} must have {count} entries, as workload.release has, got {len(column)}"
                )
        if self.origin is not None and self.origin > first:
            raise ScenarioError(
                f"workload.origin must be at most the first release, {first!r} s, got {self.origin!r}"
            )


@dataclass(frozen=True, slots=True)
class Applications:
    """The workload as a scheduler sees it: columns of length n in order of release, indexed by application.

    The first columns are release_ns int64 (ns); release float64 (s, exactly release_ns / 1e9); tasks int64;
    task_size float64 (Mflop); size float64 (Mflop, tasks * task_size); submitter int64 (machine).

    If tasks of one application differ in size, task_sizes float64 (Mflop) has the size of every task; the
    tasks of application i are at offsets[i] to offsets[i + 1].  Then task_size is their mean and size their
    sum, rounded once.  task_sizes is None if all tasks of each application are equal.

    Rigid jobs are applications whose tasks must start together, each on a separate machine, all of one
    speed.  requested float64 (s) is the run time that the user of a job requested.  It is None for bags of
    tasks.

    data int64 (bytes) is the size of the instructions and data that are sent with a task from its submitter
    to another machine, and of the result that is sent back.  It is None if tasks have no data.

    rates float64 (applications/s) is the mean rate of submissions at each machine, or None if the workload
    does not state it.

    estimate float64 (Mflop) is the size of a task of each application as its submitter states it.  It may be
    wrong, or 0.  It is None if the workload states no estimates; `estimates` then returns the true sizes.

    job int64 is the number of each rigid job in its log, or None without a log.

    Rigid jobs, and the tasks of bags, may require machines with at least memory and disk float64 (bytes), and
    jobs also machines of a kind (text, empty for any); a column is None if no application requires it.  group
    int64 is the group of each application, and suited bool[groups, machines] is true for machines that meet
    the requirements of a group; both are None if all machines suit all applications.

    input_bytes float64 is the number of bytes that a task of each application fetches over the link of its
    machine before it can be computed, and output_bytes float64 the number that it sends afterwards.  None
    stands for no data.

    Rigid jobs may state times, float64 (s), on the clock of the releases: not_before, the earliest start of a
    job (0 or its release for no limit); deadline, by which the job must have ended, or it is rejected (inf
    for none); cancel_at, when its user cancels the job unless it has ended (inf for never).  A column is None
    if no job states it.
    """

    release_ns: Integers
    release: Floats
    tasks: Integers
    task_size: Floats
    size: Floats
    submitter: Integers
    requested: Floats | None = None
    task_sizes: Floats | None = None
    data: Integers | None = None
    rates: Floats | None = None
    estimate: Floats | None = None
    job: Integers | None = None
    memory: Floats | None = None
    kind: Texts | None = None
    group: Integers | None = None
    suited: Bools | None = None
    input_bytes: Floats | None = None
    output_bytes: Floats | None = None
    not_before: Floats | None = None
    deadline: Floats | None = None
    cancel_at: Floats | None = None
    disk: Floats | None = None

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def rigid(self) -> bool:
        """Whether the applications are rigid jobs."""
        return self.requested is not None

    @property
    def unequal(self) -> bool:
        """Whether tasks of one application differ in size."""
        return self.task_sizes is not None

    @property
    def wants(self) -> Requirements:
        """Requirements of each application on machines."""
        return Requirements(self.memory, self.kind, self.disk)

    def machines_for(self, application: int) -> Bools | None:
        """Return a mask of the machines that suit an application, bool[machines]; None if all do."""
        return None if self.group is None or self.suited is None else self.suited[self.group[application]]

    @property
    def ready(self) -> Floats:
        """Earliest start of each application, the later of release and `not_before`: float64[n], s."""
        return self.release if self.not_before is None else np.maximum(self.release, self.not_before)

    def instants(self, name: JobTime) -> Integers | None:
        """Return a column of `JOB_TIMES` as int64[n], ns, with `NEVER` for inf; None if no job states it."""
        column: Floats | None = getattr(self, name)
        if column is None:
            return None
        finite = np.isfinite(column)
        ns = np.full(len(column), NEVER, np.int64)
        ns[finite] = np.rint(column[finite] * NS).astype(np.int64)
        return ns

    @property
    def moves_data(self) -> bool:
        """Whether any task fetches or sends data."""
        return self.input_bytes is not None or self.output_bytes is not None

    def moved(self) -> tuple[Floats, Floats]:
        """Return the bytes that a task of each application fetches and sends: float64[n] each."""
        zeros = np.zeros(len(self))
        return (
            zeros if self.input_bytes is None else self.input_bytes,
            zeros if self.output_bytes is None else self.output_bytes,
        )

    @property
    def bytes_per_mflop(self) -> Floats:
        """Larger of the bytes fetched and the bytes sent by a task, per Mflop of its size: float64[n]."""
        ratio: Floats = np.maximum(*self.moved()) / self.task_size
        return ratio

    @property
    def offsets(self) -> Integers:
        """Index of each application's first task among all tasks, then the number of tasks: int64[n + 1]."""
        return np.concatenate(([0], np.cumsum(self.tasks)))

    def sizes(self) -> Floats:
        """Return the size of every task, application after application: float64, Mflop."""
        return np.repeat(self.task_size, self.tasks) if self.task_sizes is None else self.task_sizes

    def estimates(self) -> Floats:
        """Return the estimated task size of each application, by default `task_size`: float64[n], Mflop."""
        return self.task_size if self.estimate is None else self.estimate

    def extremes(self) -> tuple[Floats, Floats]:
        """Return the smallest and the largest task size of each application, float64[n] each, Mflop."""
        if self.task_sizes is None:
            return self.task_size, self.task_size
        starts = self.offsets[:-1]
        return np.minimum.reduceat(self.task_sizes, starts), np.maximum.reduceat(self.task_sizes, starts)


def durations(applications: Applications, speed: float) -> Integers:
    """Return the run time of a task of each application at `speed` Mflop/s: int64[n], ns, at least 1."""
    return np.maximum(1, np.rint(applications.task_size / speed * 1e9)).astype(np.int64)


def run_and_reserved_times(
    applications: Applications, speed: float, estimate: Literal["requested", "run"]
) -> tuple[Integers, Integers]:
    """Return the run time of each rigid job at `speed` Mflop/s, and the time to reserve: int64[n] each, ns.

    Parameters
    ----------
    estimate
        The time that is reserved: ``"run"`` for the run time, ``"requested"`` for the requested time, which
        may be shorter.
    """
    assert applications.requested is not None
    run_times = durations(applications, speed)
    if estimate == "run":
        return run_times, run_times
    return run_times, np.maximum(1, np.rint(applications.requested * 1e9).astype(np.int64))


@kept_in_checkpoints
class Application(NamedTuple):
    """An application as a node knows it, from its submission or from a message."""

    number: int
    tasks: int
    task_size: float  # Mflop
    size: float  # Mflop
    release: float  # s
    data: int = 0  # bytes sent with a task, and bytes of its result
    input_bytes: float = 0.0  # bytes that a task fetches
    output_bytes: float = 0.0  # bytes that a task sends
    memory: float = 0.0  # bytes that a task needs
    disk: float = 0.0  # bytes that a task needs

    @property
    def bytes_per_mflop(self) -> float:
        """Larger of the bytes fetched and the bytes sent by a task, per Mflop of its size."""
        return max(self.input_bytes, self.output_bytes) / self.task_size

    @classmethod
    def of(cls, columns: Any, index: int) -> Application:
        """Return application `index` of `columns`, an `Applications` or another object with its columns."""
        byte_columns = columns.input_bytes, columns.output_bytes, columns.memory, columns.disk
        return cls(
            index,
            int(columns.tasks[index]),
            float(columns.task_size[index]),
            float(columns.size[index]),
            float(columns.release[index]),
            0 if columns.data is None else int(columns.data[index]),
            *(0.0 if column is None else float(column[index]) for column in byte_columns),
        )
