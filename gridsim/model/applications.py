"""The applications that a workload generates for a run, and a single application as a node knows it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.model.attributes import Requirements, Texts
from gridsim.support.arguments import is_scalar, normalise, sequence
from gridsim.support.arrays import Bools, Floats, Integers, first_true
from gridsim.support.clock import NEVER, NS
from gridsim.support.columns import FlatColumn, FloatColumn, IntColumn, NumbersColumn
from gridsim.support.parameters import Limits, Recipe, column_of, fields_of
from gridsim.support.state import kept_in_checkpoints

#: Largest size of a task's instructions and data (bytes), which are sent as one message.
MAX_DATA = 2**31 - 1

#: Largest number of bytes that a task fetches or sends.
MAX_BYTES = 1e15

#: Type of a field for a list of machines.
Machines = Annotated[IntColumn, Limits(low=0)]


class Column(NamedTuple):
    """How a column that only some workloads have is made for a run, and where it appears.

    Parameters
    ----------
    per
        What it has an entry for.
    is_time
        Whether it has times (s) on the clock of the releases.
    neutral
        The entry that has no effect; a column of such entries alone is left out.  ``"release"`` stands for
        entries up to the release, None for none.
    in_results
        Whether the table ``applications`` of a result has it.
    """

    per: Literal["application", "task", "machine", "group", "user", "queue", "account", "predecessor"] = (
        "application"
    )
    is_time: bool = False
    neutral: float | Literal["release"] | None = None
    in_results: bool = True

    def has_effect(self, values: NDArray[Any], release: Floats) -> bool:
        """Return whether any of `values` has an effect, for applications with this `release` (s)."""
        if self.neutral is None:
            return True
        return bool((values > release if self.neutral == "release" else values != self.neutral).any())


#: The columns that a recipe generates: the name of an attribute of `Applications` -> array.  Applications are
#: in any order, and columns that a workload does not have are absent.  Always present are release (s), tasks,
#: submitter, and task_size or task_sizes.  They are numbered in ascending order of
#: ``order``, by default of release.
Columns = dict[str, NDArray[Any]]


def _optional(**parameters: Any) -> Any:
    """Return the field of a column that only some workloads have, with these parameters of its `Column`."""
    return field(default=None, metadata={"column": Column(**parameters)})


@dataclass(frozen=True, slots=True)
class Applications:
    """The workload as a scheduler sees it: columns indexed by application, in order of release.

    This is the one list of the columns of a workload.  A column is None if no application has it.

    release_ns
        int64[n], release, ns.
    release
        float64[n], release, s: exactly release_ns / 1e9.
    tasks
        int64[n], number of tasks.
    task_size
        float64[n], size of a task, Mflop; the mean if tasks differ.
    size
        float64[n], Mflop: tasks * task_size * cores, or the sum of the sizes, rounded once.
    submitter
        int64[n], machine of the submission.
    requested
        float64[n], run time that the user of a rigid job requested, s.  Rigid jobs are applications whose
        tasks must start together, each on a separate machine.  If the sites of a platform differ in speed,
        it is the time at the home site of the job, and the slowest machine of a job determines its run time.
        None for bags of tasks.
    task_sizes
        float64[tasks], size of every task, Mflop, if tasks of one application differ; those of application i
        are at ``offsets[i]`` to ``offsets[i + 1]``.
    rates
        float64[machines], mean rate of submissions at each machine, applications/s.
    job
        int64[n], number of the job in its log.
    group, suited
        int64[n], the group of each application, and bool[groups, machines], the machines that meet the
        requirements of a group.  None if all machines suit all applications.
    data
        int64[n], bytes of the instructions and data that are sent with a task from its submitter to another
        machine, and of the result that is sent back.
    input_bytes, output_bytes
        float64[n], bytes that a task fetches over the link of its machine before it can be computed, and that
        it sends afterwards.
    estimate
        float64[n], size of a task as its submitter states it, Mflop.  It may be wrong, or 0; `estimates`
        returns the true sizes without it.
    user, queue, account
        int64[n], number of the user who submits a rigid job, of the queue to which, and of the account (the
        group of the user) in its log; -1 if unknown.
    user_names, queue_names, account_names
        Text[numbers], the name of each user, queue and account in its log, empty if it has none.
    site
        int64[n], home site of a rigid job, at which it is submitted; -1 if unknown.
    machine_site
        int64[machines], site of each machine, if rigid jobs run on a platform of sites.
    priority
        float64[n], priority that the user of a rigid job states; higher ones are preferred.
    memory, disk
        float64[n], bytes that a task needs on its machine.
    cores, gpus
        int64[n], cores and GPUs that a task of a rigid job takes on a machine that jobs share.
    tasks_per_machine
        int64[n], the most tasks of a rigid job on one machine that jobs share; 0 for no limit.
    exclusive
        int64[n], whether the machines of a rigid job run no other job (1) or may (0), if jobs share machines.
    core_share
        float64[n], share of the cores of its machines that a rigid job uses, if machines are nodes of several
        cores; it matters for energy only.
    kind
        Text[n], the kind of machine that a rigid job needs, empty for any.
    not_before
        float64[n], earliest start of a rigid job, s; 0 or its release for no limit.
    deadline
        float64[n], time by which a rigid job must have ended, or it is rejected, s; inf for none.
    cancel_at
        float64[n], time at which the user of a rigid job cancels it unless it has ended, s; inf for never.
    predecessors, predecessor_offsets
        int64[sum], the applications that must have ended before each one is released, and int64[n + 1]: those
        of application i are at ``predecessor_offsets[i]`` to ``predecessor_offsets[i + 1]``.  In a run,
        `release` is then the stated release until the application is released.
    think_time
        float64[n], time from the last end of its predecessors to the release of an application, s.
    stated_release
        float64[n], the earliest release of each application, s, if it has predecessors.
    """

    release_ns: Integers
    release: Floats
    tasks: Integers
    task_size: Floats
    size: Floats
    submitter: Integers
    requested: Floats | None = _optional(in_results=False)
    task_sizes: Floats | None = _optional(per="task", in_results=False)
    rates: Floats | None = _optional(per="machine", in_results=False)
    job: Integers | None = _optional(in_results=False)
    group: Integers | None = _optional(in_results=False)
    suited: Bools | None = _optional(per="group", in_results=False)
    data: Integers | None = _optional()
    input_bytes: Floats | None = _optional(neutral=0.0)
    output_bytes: Floats | None = _optional(neutral=0.0)
    estimate: Floats | None = _optional()
    user: Integers | None = _optional(in_results=False)
    queue: Integers | None = _optional(in_results=False)
    account: Integers | None = _optional(in_results=False)
    user_names: Texts | None = _optional(per="user", in_results=False)
    queue_names: Texts | None = _optional(per="queue", in_results=False)
    account_names: Texts | None = _optional(per="account", in_results=False)
    site: Integers | None = _optional(in_results=False)
    machine_site: Integers | None = _optional(per="machine", in_results=False)
    priority: Floats | None = _optional(in_results=False)
    memory: Floats | None = _optional()
    disk: Floats | None = _optional()
    kind: Texts | None = _optional()
    cores: Integers | None = _optional(neutral=1)
    gpus: Integers | None = _optional(neutral=0)
    tasks_per_machine: Integers | None = _optional(neutral=1, in_results=False)
    exclusive: Integers | None = _optional(neutral=0)
    core_share: Floats | None = _optional(neutral=1.0, in_results=False)
    not_before: Floats | None = _optional(is_time=True, neutral="release")
    deadline: Floats | None = _optional(is_time=True, neutral=math.inf)
    cancel_at: Floats | None = _optional(is_time=True, neutral=math.inf)
    predecessors: Integers | None = _optional(per="predecessor", in_results=False)
    predecessor_offsets: Integers | None = _optional(per="predecessor", in_results=False)
    think_time: Floats | None = _optional(in_results=False)
    stated_release: Floats | None = _optional()

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
    def width(self) -> Integers:
        """Number of cores that each application uses at a time if all its tasks run: int64[n]."""
        return self.tasks if self.cores is None else self.tasks * self.cores

    @property
    def wants(self) -> Requirements:
        """Requirements of each application on machines."""
        return Requirements(self.memory, self.kind, self.disk)

    def members(self, group: Literal["user", "queue", "account"]) -> tuple[list[str], Integers]:
        """Return the names of users, queues or accounts that have jobs, and the one of each job, int64[n].

        They are in ascending order of their numbers, which stand for missing names.

        Raises
        ------
        ScenarioError
            If no job has a known one.
        """
        column, names = (getattr(self, name) for name in (group, f"{group}_names"))
        if column is None:
            raise ScenarioError(f"workload.{group} must be known, got a workload without {group}s")
        numbers, members = np.unique(column, return_inverse=True)
        known = [] if names is None else names.tolist()
        texts = [(known[k] if 0 <= k < len(known) else "") or str(k) for k in numbers.tolist()]
        return ["unknown" if text == "-1" else text for text in texts], members

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


#: Name of a column of `Applications` that only some workloads have -> how it is made.
OPTIONAL_COLUMNS: dict[str, Column] = {
    entry.name: entry.metadata["column"] for entry in fields(Applications) if "column" in entry.metadata
}
#: Names of the columns with an entry for each application.
PER_APPLICATION = tuple(
    name
    for name in Applications.__slots__
    if name not in OPTIONAL_COLUMNS or OPTIONAL_COLUMNS[name].per == "application"
)
#: Names of the columns that the table ``applications`` of a result has if the workload has them.
SHOWN_COLUMNS = tuple(name for name, column in OPTIONAL_COLUMNS.items() if column.in_results)
#: Name of a column of times that rigid jobs may state.
JobTime = Literal["not_before", "deadline", "cancel_at"]
#: The names of all columns of times that rigid jobs may state.
JOB_TIMES: tuple[JobTime, ...] = get_args(JobTime)
#: The names of the columns that say what rigid jobs take of machines that they share.
MACHINE_SHARES = ("cores", "gpus", "tasks_per_machine", "exclusive")


class ListedWorkload(Recipe, frozen=True, kw_only=True):
    """A list of applications or jobs, as columns with one entry per application or job.

    A single value stands for equal entries.

    Parameters
    ----------
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

    part: ClassVar[str] = "workload"

    release: Annotated[FloatColumn, Limits(low=0, unit="s")]
    origin: Annotated[float, Limits(low=0, unit="s")] | None = None
    after: Annotated[NumbersColumn, Limits(low=0)] | None = None
    think_time: Annotated[FloatColumn, Limits(low=0, high=1e9, unit="s")] | None = None

    def __post_init__(self) -> None:
        release = self.release
        if not isinstance(release, (list, tuple, np.ndarray, FloatColumn)):
            normalise(self, release=(release := sequence("workload.release", release)))
        for name, info in fields_of(type(self)).items():
            kind = column_of(info.type)
            if kind and issubclass(kind, FlatColumn) and is_scalar(value := getattr(self, name)):
                normalise(self, **{name: [value] * len(release)})
        super().__post_init__()

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
        if self.after is not None:
            check_predecessors(self.after.values, self.after.offsets)
        elif self.think_time is not None:
            raise ScenarioError("workload.think_time requires workload.after, got none")

    def listed_columns(self, machines: int) -> Columns:
        """Return the fields that are columns of `Applications`, and the machines of submissions.

        By default machine i modulo `machines` submits application i.

        Raises
        ------
        ScenarioError
            If a machine does not exist.
        """
        columns = {
            name: np.array(column)
            for name in Applications.__slots__
            if (column := getattr(self, name, None)) is not None
        }
        if self.after is not None:
            columns["predecessors"] = np.array(self.after.values)
            columns["predecessor_offsets"] = np.array(self.after.offsets)
        submitter = columns.setdefault("submitter", np.arange(len(self.release), dtype=np.int64) % machines)
        for i in first_true(submitter >= machines):
            raise ScenarioError(
                f"workload.submitter[{i}] must be a machine in 0..{machines - 1}, got {submitter[i]}"
            )
        return columns


def check_predecessors(predecessors: Integers, offsets: Integers) -> None:
    """Raise ScenarioError if an application must wait for itself, or for one that does not exist.

    Parameters
    ----------
    predecessors, offsets
        The predecessors of all applications, and where those of each begin, as in `Applications`.
    """
    count = len(offsets) - 1
    of = np.repeat(np.arange(count), np.diff(offsets))
    for k in first_true((predecessors >= count) | (predecessors == of)):
        place = f"workload.after[{of[k]}][{k - offsets[of[k]]}]"
        others = " other than its own" if predecessors[k] == of[k] else ""
        raise ScenarioError(f"{place} must be a number in 0..{count - 1}{others}, got {predecessors[k]}")
    circle = _circle(predecessors, offsets, of)
    if circle:
        shown = [*circle[:8], *(["..."] if len(circle) > 8 else []), circle[0]]
        raise ScenarioError(
            f"workload.after must have no circle, got {len(circle)} that wait for each other: "
            f"{' after '.join(map(str, shown))}"
        )


def _circle(predecessors: Integers, offsets: Integers, of: Integers) -> list[int]:
    """Return applications of which each must wait for the next, and the last for the first; [] if none do."""
    successors = of[np.argsort(predecessors, kind="stable")].tolist()
    begins = np.searchsorted(np.sort(predecessors), np.arange(len(offsets))).tolist()
    open_counts = np.diff(offsets)
    free = np.flatnonzero(open_counts == 0).tolist()
    left = open_counts.tolist()
    while free:
        i = free.pop()
        for successor in successors[begins[i] : begins[i + 1]]:
            left[successor] -= 1
            if not left[successor]:
                free.append(successor)
    if not any(left):
        return []
    path: dict[int, None] = {}
    i = next(i for i, count in enumerate(left) if count)
    while i not in path:
        path[i] = None
        before = predecessors[offsets[i] : offsets[i + 1]].tolist()
        i = next(j for j in before if left[j])
    circle = list(path)
    return circle[circle.index(i) :]


def durations(applications: Applications, speed: float) -> Integers:
    """Return the run time of a task of each application at `speed` Mflop/s: int64[n], ns, at least 1."""
    return np.maximum(1, np.rint(applications.task_size / speed * 1e9)).astype(np.int64)


def durations_of_runs(
    applications: Applications, speeds: Floats, first_start: Integers, finish: Integers
) -> Integers:
    """Return the run time of each rigid job: int64[n], ns.

    If machines differ in speed, it depends on the machines of the job: the time from its start to its end,
    or, for a job without an end, on the fastest machine.

    Parameters
    ----------
    speeds
        Speed of each machine, Mflop/s.
    first_start, finish
        Start and end of each job, ns; -1 for none.
    """
    if speeds.min() == speeds.max():
        return durations(applications, float(speeds[0]))
    return np.where(finish >= 0, finish - first_start, durations(applications, float(speeds.max())))


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
    """An application as a node knows it, from its submission or from a message.

    Its fields are columns of `Applications`, with 0 for one that the workload does not have.
    """

    number: int
    tasks: int
    task_size: float
    size: float
    release: float
    data: int = 0
    input_bytes: float = 0.0
    output_bytes: float = 0.0
    memory: float = 0.0
    disk: float = 0.0

    @property
    def bytes_per_mflop(self) -> float:
        """Larger of the bytes fetched and the bytes sent by a task, per Mflop of its size."""
        return max(self.input_bytes, self.output_bytes) / self.task_size

    @classmethod
    def of(cls, columns: Any, index: int) -> Application:
        """Return application `index` of `columns`, an `Applications` or another object with its columns."""
        values: list[Any] = [index]
        for name in cls._fields[1:]:
            column = getattr(columns, name)
            values.append(cls._field_defaults[name] if column is None else column[index].item())
        return cls(*values)
