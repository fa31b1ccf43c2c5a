"""The applications of a run, which a workload makes, and a single application as a node knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.attributes import Texts, Wants
from gridsim.support.arrays import Bools, Floats, Integers
from gridsim.support.clock import NEVER, NS
from gridsim.support.columns import FloatColumn, IntColumn
from gridsim.support.parameters import Limits, Recipe
from gridsim.support.state import kept_in_checkpoints

#: Largest size of a task's instructions and data (bytes).  They are sent as one message.
MOST_DATA = 2**31 - 1

#: Largest number of bytes that a task fetches or sends.
MOST_BYTES = 1e15

#: Type of a field for a list of machines.
Machines = Annotated[IntColumn, Limits(low=0)]


class Columns(NamedTuple):
    """The columns that a recipe makes for n applications, in any order, each of length n unless stated.

    They are release (s), tasks (their number), task_size (Mflop), submitter (machine) and, for rigid jobs,
    requested (s).

    If tasks of one application may differ, sizes (Mflop) has an entry for every task, application after
    application, and replaces task_size.

    data (bytes) is that of each task of an application.  rates (jobs/s) has one entry per machine.

    estimate (Mflop) is what the submitter states as the size of a task of an application.

    job is the number that an application has in the job log that it comes from.

    memory and disk (bytes) and kind (text) are what rigid jobs, or the tasks of bags, want of each machine;
    group and suited (bool[groups, machines]) say which machines that leaves each, see
    `gridsim.model.attributes.Wants`.
    input_bytes and output_bytes (whole numbers as float64) are what a task of an application fetches and
    sends.

    not_before, deadline and cancel_at (s) are the times that rigid jobs state, see `Applications`.
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

    def wanting(self, wants: Wants, group: Integers, suited: Bools) -> Columns:
        """Return the same with what is wanted of machines; groups are left out if all machines suit all."""
        made = self._replace(**wants._asdict())
        return made if suited.all() else made._replace(group=group, suited=suited)

    def since(self, origin: float) -> Columns:
        """Return the same on a clock that begins at `origin` s."""
        if not origin:
            return self
        stated = {name: column for name in JOB_TIMES if (column := getattr(self, name)) is not None}
        return self._replace(
            release=self.release - origin,
            **{name: np.maximum(column - origin, 0.0) for name, column in stated.items()},
        )

    def times(self) -> list[Floats | None]:
        """Return the columns `JOB_TIMES`, each None where it changes nothing for any job."""
        early, *others = (getattr(self, name) for name in JOB_TIMES)
        kept = [early if early is not None and (early > self.release).any() else None]
        return kept + [each if each is not None and np.isfinite(each).any() else None for each in others]


#: The name of a column of times that rigid jobs may state.
JobTime = Literal["not_before", "deadline", "cancel_at"]
#: All of them.
JOB_TIMES: tuple[JobTime, ...] = get_args(JobTime)


class Listed(Recipe, frozen=True, kw_only=True):
    """A list of applications or jobs: columns with one entry each.

    Parameters
    ----------
    release
        s, in any order.
    origin
        s, the time at which a run begins; without it the first release.  Times count from it.
    """

    part: ClassVar[str] = "workload"

    release: Annotated[FloatColumn, Limits(low=0, unit="s")]
    origin: Annotated[float, Limits(low=0, unit="s")] | None = None

    def check_columns(self, what: str) -> None:
        """Check that there is an application or job, that columns are equally long, and the origin.

        Raises ScenarioError.

        Parameters
        ----------
        what
            The word for an entry in errors.
        """
        if not len(self.release):
            raise ScenarioError(f"workload.release must name at least one {what}, got none")
        count, first = len(self.release), float(self.release.array.min())
        for name in self.__struct_fields__:
            column = getattr(self, name)
            if name != "origin" and column is not None and len(column) != count:
                raise ScenarioError(
                    f"workload.{name} must have {count} entries as workload.release has, got {len(column)}"
                )
        if self.origin is not None and self.origin > first:
            raise ScenarioError(
                f"workload.origin must be at most the first release, {first!r} s, got {self.origin!r}"
            )


@dataclass(frozen=True, slots=True)
class Applications:
    """The workload as a scheduler sees it: columns of length n in order of release, indexed by application.

    release_ns int64 (ns); release float64 (s, exactly release_ns / 1e9); tasks int64; task_size float64
    (Mflop); size float64 (Mflop, tasks * task_size); submitter int64 (machine).

    If tasks of one application differ in size, task_sizes float64 (Mflop) has the size of every task; those
    of application i are at offsets[i] to offsets[i + 1].  Then task_size is their mean and size their sum,
    rounded once.  task_sizes is None if all tasks of each application are equal.

    Rigid jobs are applications whose tasks must start together, each on a machine of its own, all of one
    speed.  For them requested float64 (s) is the time that the user said a task takes.  It is None for bags
    of tasks.

    data int64 (bytes) is the size of the instructions and data that a task of each application takes along
    from its submitter to another machine, and of the result that comes back.  It is None if tasks have no
    data.  rates float64 (applications/s) is the mean rate of submissions at each machine, or None if the
    workload does not state it.

    estimate float64 (Mflop) is the size of a task of each application as its submitter states it.  It may be
    wrong, and 0.  It is None if the workload states only the sizes themselves; see `estimates`.

    job int64 is the number of each rigid job in the log that it comes from, or None without a log.

    Rigid jobs, and the tasks of bags, may want certain machines: with at least memory and disk float64
    (bytes), and jobs also of a kind (text, empty for any); each is None if none does.  group int64 says in
    which group each application is, and suited bool[groups, machines] which machines suit those of a group;
    both are None if all machines suit all.

    input_bytes, output_bytes float64 (bytes) are what a task of each application fetches over the link of its
    machine before it can be computed, and what it sends afterwards.  None stands for nothing.

    Rigid jobs may state times, float64 (s), on the clock of the releases: not_before, before which a job must
    not start (0 or its release for none); deadline, by which it must have ended, or it is rejected (inf for
    none); cancel_at, when its user cancels it unless it has ended (inf for never).  Each is None if no job
    states it.
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
    def wants(self) -> Wants:
        """What each wants of machines."""
        return Wants(self.memory, self.kind, self.disk)

    def machines_for(self, application: int) -> Bools | None:
        """Return which machines suit an application, bool[machines]; None if all do."""
        return None if self.group is None or self.suited is None else self.suited[self.group[application]]

    @property
    def ready(self) -> Floats:
        """When each may start: its release, or `not_before` where that is later; float64[n], s."""
        return self.release if self.not_before is None else np.maximum(self.release, self.not_before)

    def instants(self, name: JobTime) -> Integers | None:
        """Return times that rigid jobs state, int64[n], ns; `NEVER` for inf, None without the column."""
        column: Floats | None = getattr(self, name)
        if column is None:
            return None
        there = np.isfinite(column)
        ns = np.full(len(column), NEVER, np.int64)
        ns[there] = np.rint(column[there] * NS).astype(np.int64)
        return ns

    @property
    def moves_data(self) -> bool:
        """Whether there is a task that fetches or sends data."""
        return self.input_bytes is not None or self.output_bytes is not None

    def moved(self) -> tuple[Floats, Floats]:
        """Return the bytes that a task of each application fetches, and those that it sends."""
        none = np.zeros(len(self))
        return (
            none if self.input_bytes is None else self.input_bytes,
            none if self.output_bytes is None else self.output_bytes,
        )

    @property
    def bytes_per_mflop(self) -> Floats:
        """The larger of what a task of each application fetches and sends, per Mflop of it; bytes/Mflop."""
        found: Floats = np.maximum(*self.moved()) / self.task_size
        return found

    @property
    def offsets(self) -> Integers:
        """Index of each application's first task among all tasks, then their number; int64[n + 1]."""
        return np.concatenate(([0], np.cumsum(self.tasks)))

    def sizes(self) -> Floats:
        """Return the size of every task, float64 (Mflop), application after application, equal or not."""
        return np.repeat(self.task_size, self.tasks) if self.task_sizes is None else self.task_sizes

    def estimates(self) -> Floats:
        """Return the stated size of a task of each application, float64[n] (Mflop), else `task_size`."""
        return self.task_size if self.estimate is None else self.estimate

    def extremes(self) -> tuple[Floats, Floats]:
        """Return the smallest and the largest task size of each application, float64[n] each, Mflop."""
        if self.task_sizes is None:
            return self.task_size, self.task_size
        begins = self.offsets[:-1]
        return np.minimum.reduceat(self.task_sizes, begins), np.maximum.reduceat(self.task_sizes, begins)


def durations(applications: Applications, speed: float) -> Integers:
    """Return the time that a task of each application takes at `speed` Mflop/s, int64 ns, at least 1."""
    return np.maximum(1, np.rint(applications.task_size / speed * 1e9)).astype(np.int64)


def reserved(
    applications: Applications, speed: float, estimate: Literal["requested", "run"]
) -> tuple[Integers, Integers]:
    """Return how long rigid jobs run at `speed` Mflop/s, and how long schedulers expect them to; ns, int64.

    Parameters
    ----------
    estimate
        The expected time: ``"run"``, the run time; ``"requested"``, what users ask for, which may be shorter.
    """
    assert applications.requested is not None
    lasts = durations(applications, speed)
    if estimate == "run":
        return lasts, lasts
    return lasts, np.maximum(1, np.rint(applications.requested * 1e9).astype(np.int64))


@kept_in_checkpoints
class Application(NamedTuple):
    """What a node knows of an application that was submitted at it or announced to it in a message."""

    number: int
    tasks: int
    task_size: float  # Mflop
    size: float  # Mflop
    release: float  # s
    data: int = 0  # bytes that a task takes along, and of its result
    input_bytes: float = 0.0  # that a task fetches
    output_bytes: float = 0.0  # that it sends
    memory: float = 0.0  # bytes that a task needs
    disk: float = 0.0  # bytes that a task needs

    @property
    def bytes_per_mflop(self) -> float:
        """The larger of what a task fetches and sends, per Mflop of it; bytes/Mflop."""
        return max(self.input_bytes, self.output_bytes) / self.task_size

    @classmethod
    def of(cls, columns: Any, index: int) -> Application:
        """Return application `index` of `columns`, which are those of `Applications`."""
        bytes_ = columns.input_bytes, columns.output_bytes, columns.memory, columns.disk
        return cls(
            index,
            int(columns.tasks[index]),
            float(columns.task_size[index]),
            float(columns.size[index]),
            float(columns.release[index]),
            0 if columns.data is None else int(columns.data[index]),
            *(0.0 if column is None else float(column[index]) for column in bytes_),
        )
