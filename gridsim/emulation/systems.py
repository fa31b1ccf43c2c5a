"""What schedulers need in an emulation beyond their node programs, which share things in a simulation.

A fact that nodes of a simulation share without a message is sent to the other processes.  What a policy keeps
for the result is collected from all of them at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gridcore.dgs.state import claimed
from gridsim.emulation.part import Part
from gridsim.emulation.wire import Fact
from gridsim.errors import ScenarioError
from gridsim.schedulers.dgs.environment import DgsEnvironment
from gridsim.schedulers.fair_tree.environment import IdealRepair
from gridsim.schedulers.fair_tree.records import TreeByMessages
from gridsim.schedulers.rjss.environment import RjssEnvironment
from gridsim.schedulers.steady_state.scheduler import SteadyState
from gridsim.schedulers.wqr.cycles import COMPLETED, FAILED, KILLED, TABLES
from gridsim.schedulers.wqr.environment import WorkQueueEnvironment
from gridsim.schedulers.wqr.node import Worker
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.nodes.adapter import Adapter
from gridsim.scheduling.nodes.rigid_jobs import RigidAdapter
from gridsim.scheduling.nodes.slots import MachineSlots
from gridsim.support.clock import NEVER


def check_scheduler(scheduler: Scheduler) -> None:
    """Raise ScenarioError for a scheduler without a node program."""
    if isinstance(scheduler, Scheduler) and "interpreted" not in scheduler.node_forms:
        raise ScenarioError(f"{scheduler.name} has no node program that could be emulated")


def check(part: Part) -> None:
    """Raise ScenarioError for a run that cannot be emulated."""
    policy, name = part.policy, part.scheduler.name
    if not isinstance(policy, Adapter):
        raise ScenarioError(f"{name} has no node program that could be emulated")
    faults = part.scenario.faults is not None
    if part.setup.kill and not faults:
        raise ScenarioError("kill needs a scenario with faults, which say when")
    if part.setup.kill and (type(policy) is not Adapter or policy.environment is not None):
        raise ScenarioError(f"kill must not be given for {name}, whose nodes share what one process keeps")
    if part.setup.kill and any(program.stable_storage for program in policy.nodes):
        raise ScenarioError(f"kill must not be given for {name}, whose nodes have stable_storage")
    if faults and isinstance(policy.environment, IdealRepair):
        raise ScenarioError(f"faults must be absent to emulate {name}: its repair is not a node program")
    is_shared = faults or not isinstance(policy.environment, DgsEnvironment)
    if isinstance(policy, RigidAdapter) and is_shared and not part.is_alone:
        raise ScenarioError(
            f"{name}{' with failures' * faults} does not support emulation by several processes: its nodes "
            "share what is known of jobs; set speedup=math.inf"
        )
    if isinstance(policy.environment, TreeByMessages):
        raise ScenarioError(f"{name}.maintenance must be 'ideal' in an emulation, got 'messages'")
    if isinstance(part.scheduler, SteadyState) and part.scheduler.branching:
        raise ScenarioError(f"{name}.branching must be 0 in an emulation, whose processes share no plan")
    _check_home_nodes(part)
    own_queues = not (isinstance(policy, RigidAdapter) or _is_work_queue(policy))
    if part.setup.spin and not own_queues:
        raise ScenarioError(f"work must be 'sleep' for {name}, whose nodes have no task queues")


def _check_home_nodes(part: Part) -> None:
    """Raise ScenarioError if a node handles the events of another machine, maybe in another process."""
    core, layout = part.core, part.policy.layout
    machine_of = np.asarray(layout.machine_of)[layout.home]
    for machine in np.flatnonzero(machine_of != np.arange(len(machine_of))).tolist():
        node = int(layout.home[machine])
        if any(core.handles(node, event) for event in ("on_idle", "on_end", "on_done")):
            raise ScenarioError(
                f"{part.scheduler.name} does not support emulation: node {node} on machine "
                f"{machine_of[machine]} handles the events of machine {machine}"
            )


def is_over(part: Part, told: dict[int, list[int]]) -> bool:
    """Return whether all tasks are done; `told`: what processes have said of jobs that are over."""
    policy: Any = part.policy
    if isinstance(policy.environment, RjssEnvironment):
        return bool(len(policy.notes.rows["jobs"]) == part.core.total)
    if _is_work_queue(policy):
        return bool(policy.environment.left == 0)
    if isinstance(policy, RigidAdapter):
        return bool(sum(map(sum, told.values())) == len(policy.records))
    return bool(policy.queues.tasks_done == part.core.total)


def begin(part: Part) -> None:
    """Prepare the policy of a process that runs nodes."""
    policy: Any = part.policy
    if isinstance(policy, RigidAdapter):
        if not part.is_alone:
            _begin_dgs(part, policy)
    elif not isinstance(policy.environment, IdealRepair):
        task_lost = policy.task_lost

        def lose(application: int, tasks: int, node: int = -1) -> None:
            lost = part.core.hands[application].take(tasks)
            part.tell("lost", application, lost, node, part.core.now)
            if part.is_alone:
                task_lost(application, tasks, node)

        policy.task_lost = part.core.report_lost = lose


def collect(part: Part) -> dict[str, Any]:
    """Return what the policy of a process keeps for the result, as plain values."""
    policy: Any = part.policy
    if _is_work_queue(policy):
        _end_copies(part)
    if part.is_alone or not isinstance(policy, RigidAdapter):
        return {}
    environment: Any = policy.environment
    runs, overlay, home = policy.runs, environment.overlay, part.core.process_of
    columns = ("phase", "resubmitted", "searches", "conflicts", "late", "reached")
    return {
        "jobs": [
            [
                job.number,
                home[job.submitter] == part.number,
                *(int(getattr(job, name)) for name in columns),
            ]
            for job in policy.records
        ],
        "runs": {name: getattr(runs, name).tolist() for name in _RUNS},
        "apart": runs.distances.tolist(),
        "extended": runs.extended,
        "displaced": runs.displaced,
        "rows": [[int(value) for value in row] for row in runs.rows],
        "rejected": policy.rejected,
        **{name: getattr(overlay, name).tolist() for name in ("received", "counts", "changes")},
    }


#: Of runs of jobs, which only the process of the submitter has.
_RUNS = ("first_start", "end", "done", "busy", "tasks", "interrupted")


def prepare(part: Part) -> None:
    """Prepare the policy of the coordinator."""
    policy: Any = part.policy
    if _is_work_queue(policy):
        _prepare_work_queue(policy)


def finish(part: Part, noted: dict[str, list[tuple[int, int]]]) -> None:
    """Complete what the policy of the coordinator keeps, once all is reported.

    Parameters
    ----------
    noted
        Table -> when each of its rows was written, and by which node.
    """
    policy: Any = part.policy
    for table, when in noted.items():
        if part.is_alone:  # the rows are as a simulation has them, and not as processes report
            break
        rows = policy.notes.rows[table]
        rows[:] = [rows[k] for k in sorted(range(len(rows)), key=when.__getitem__)]
    if _is_work_queue(policy):
        _finish_work_queue(policy)


def merge(part: Part, found: dict[str, Any]) -> None:
    """Add what `collect` has returned in one process to the policy of the coordinator."""
    policy: Any = part.policy
    if part.is_alone or not isinstance(policy, RigidAdapter):
        return
    environment: Any = policy.environment
    runs, overlay = policy.runs, environment.overlay
    for number, is_home, phase, resubmitted, searches, conflicts, late, reached in found["jobs"]:
        job = policy.records[number]
        job.reached = max(job.reached, reached)
        if is_home:
            job.phase, job.resubmitted, job.searches = phase, resubmitted, searches
            job.conflicts, job.late = conflicts, late
    for name in _RUNS:
        mine, others = getattr(runs, name), np.array(found["runs"][name], np.int64)
        if name in ("first_start", "end", "done"):
            np.maximum(mine, others, out=mine)
        else:
            mine += others
    np.maximum(runs.distances, np.array(found["apart"]), out=runs.distances)
    runs.rows += [tuple(row) for row in found["rows"]]
    runs.extended += found["extended"]
    runs.displaced += found["displaced"]
    for reason, count in found["rejected"].items():
        policy.rejected[reason] += count
    overlay.received += np.array(found["received"])
    overlay.changes += np.array(found["changes"])
    overlay.counts[:4] += np.array(found["counts"])[:4]  # shuffles are the same in all processes


# -- WQR-FT: copies that complete a task while the server hears of another one ------------------------------


def _is_work_queue(policy: Any) -> bool:
    return isinstance(policy.environment, WorkQueueEnvironment)


def _prepare_work_queue(policy: Any) -> None:
    done, note = set[tuple[int, int]](), policy.note

    def noted(node: int, table: str, values: Any) -> None:
        note(node, table, values)
        task = values["application"], values["task"]
        if values["how"] == COMPLETED and task not in done:
            done.add(task)
            policy.environment.complete_task()

    policy.note = noted


def _end_copies(part: Part) -> None:
    """End the copies of tasks whose completion machines have not heard of when the run is over."""
    core = part.core
    core.enter(part.engine.clock())
    for node, program in enumerate(core.programs):
        if core.is_local[node] and isinstance(program, Worker) and program.copy is not None:
            program.end(core.view(node), KILLED)  # type: ignore[arg-type]


def _finish_work_queue(policy: Any) -> None:
    """Let the copy that ended first be the one that completed a task; bring copies into their order.

    All copies of it that end later were in vain, also those that a failure ended before their machine heard.
    Copies of a task that is completed are together, and those of a failure come when it happened.
    """
    names = list(TABLES["copies"])
    rows: list[Any] = policy.notes.rows["copies"]
    end, how = names.index("end"), names.index("how")
    of = names.index("application"), names.index("task")
    first: dict[tuple[Any, ...], tuple[int, int]] = {}  # task -> when it was completed, and in which row
    ends = [(row[end], k) for k, row in enumerate(rows) if row[how] == COMPLETED]
    for instant, k in sorted(ends):
        if first.setdefault(tuple(rows[k][c] for c in of), (instant, k)) != (instant, k):
            rows[k][how] = KILLED
    when = []
    for k, row in enumerate(rows):
        instant, place = first.get(tuple(row[c] for c in of), (NEVER, 0))
        if row[how] == FAILED and row[end] >= instant:
            row[how] = KILLED
        failed = row[how] == FAILED
        when.append((row[end], True, k) if failed else (instant, False, place, row[how] != COMPLETED))
    rows[:] = [rows[k] for k in sorted(range(len(rows)), key=when.__getitem__)]


# -- DGS_ASAP: schedules that nodes know, and machines that end jobs, without messages ----------------------


class _Remote:
    """Stands for a node of another process: it learns there that a job is over, or goes on."""

    def __init__(self, part: Part, node: int) -> None:
        self.part, self.node = part, node

    def on_job_end(self, view: Any, application: Any) -> None:
        """See `gridsim.schedulers.dgs.node.DgsNode`."""
        self._share("over", view.jobs[application.number], 0)

    def on_job_outlives(self, view: Any, application: Any, instant: int) -> None:
        """See `gridsim.schedulers.dgs.node.DgsNode`."""
        self._share("outlived", view.jobs[application.number], instant)

    def _share(self, name: str, job: Any, instant: int) -> None:
        self.part.share(Fact(name, [self.node, job.number, job.attempt, job.start, instant]))


class _SharedSlots(MachineSlots):
    """The slots of a machine of this process, whose changes are sent to the others."""

    part: Part

    def reserve(self, application: int, attempt: int, start: int, slots: int) -> bool:
        """See `MachineSlots`."""
        done = super().reserve(application, attempt, start, slots)
        if done:
            self.part.share(Fact("reserve", [self._machine[0], application, attempt, start, slots]))
        return done

    def extend(self, application: int, attempt: int, start: int, end: int) -> list[tuple[int, int]] | None:
        """See `MachineSlots`."""
        met = super().extend(application, attempt, start, end)
        if met is not None:
            self.part.share(Fact("extend", [self._machine[0], application, attempt, start, end]))
        return met

    def release(self, application: int, attempt: int, start: int, since: int) -> bool:
        """See `MachineSlots`."""
        done = super().release(application, attempt, start, since)
        if done:
            self.part.share(Fact("release", [self._machine[0], application, attempt, start, since]))
        return done


def _begin_dgs(part: Part, policy: Any) -> None:
    core, schedules = part.core, policy.environment.schedules

    def slots(node: int) -> MachineSlots:
        made = _SharedSlots(schedules, node, lambda: part.engine.now, policy.stop)
        made.part = part
        return made

    def reserve(machine: int, application: int, attempt: int, start: int, count: int) -> None:
        now = part.engine.clock()
        schedules.reserve([machine], [start], [count], [claimed(application, attempt)], now)

    def release(machine: int, application: int, attempt: int, start: int, since: int) -> None:
        whose = [claimed(application, attempt)]
        schedules.release([machine], [start], part.engine.clock(), ends=[since], jobs=whose)

    def extend(machine: int, application: int, attempt: int, start: int, end: int) -> None:
        schedules.extend(machine, start, end, claimed(application, attempt), part.engine.clock())

    def hear(handler: str, node: int, job: int, attempt: int, start: int, *instant: int) -> None:
        if core.is_local[node]:
            record = policy.records[job]
            record.attempt, record.start = attempt, start
            policy.call(handler, node, job, policy.application(job), *instant)

    def outlived(node: int, job: int, attempt: int, start: int, instant: int) -> None:
        hear("on_job_outlives", node, job, attempt, start, instant)

    def over(node: int, job: int, attempt: int, start: int, _: int) -> None:
        hear("on_job_end", node, job, attempt, start)

    def tell() -> None:
        part.tell("over", policy.runs.completed, sum(policy.rejected.values()) + policy.cancelled)

    core.slots = slots
    policy.end_if_over = tell
    machines, jobs = core.queues.machines, len(core.submitter)
    core.learn |= {
        "reserve": (reserve, (machines, jobs, int, int, int)),
        "release": (release, (machines, jobs, int, int, int)),
        "extend": (extend, (machines, jobs, int, int, int)),
        "over": (over, (core.nodes, jobs, int, int, int)),
        "outlived": (outlived, (core.nodes, jobs, int, int, int)),
    }
    for node in range(core.nodes):
        if not core.is_local[node]:
            core.programs[node] = _Remote(part, node)
