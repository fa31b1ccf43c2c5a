"""Applications that are released after others have ended, under all kinds of schedulers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.optimization.chains import earliest_ends
from gridsim.simulation.simulate import execute
from gridsim.validation.results import validate_result
from tests.reference.batch_queue import JobQueue
from tests.reference.release_queue import ReleaseQueue

NS = 10**9
#: Schedulers whose ends of applications the run learns in different ways.
BAGS = (
    *("fair-tree", "power-of-d", "sparrow", "mct", "ideal-tree", "mincent", "fcfs-pull", "min-min"),
    *("shortest-bag-first", "WQR-FT", "wave"),
)
JOBS = ("backfill", "asap", "dgs-asap", "zorilla")


def jobs_of(after: Any, **columns: Any) -> gs.Scenario:
    columns = {"release": [0.0] * len(after), "nodes": 1, "run_time": 2100.0} | columns
    return gs.Scenario(gs.Platform.equal(4), gs.Workload.jobs_of(after=after, **columns))


class FirstFitPolicy(gs.JobPolicy):
    def decide(self, view: gs.JobView) -> None:
        for job in view.waiting:
            if job.nodes > view.free:
                return
            view.start(job)


class FirstFit(gs.JobScheduler, frozen=True, kw_only=True):
    name = "first-fit"
    policy = FirstFitPolicy


class RejectingPolicy(gs.JobPolicy):
    """Rejects job 0 and kills job 1 after 10 s."""

    def decide(self, view: gs.JobView) -> None:
        for job in view.waiting:
            if job.number == 0:
                view.reject(job)
            else:
                view.start(job)
        for job in view.running:
            if job.number == 1 and view.now >= 10.0:
                view.kill(job)
        if view.now < 10.0:
            view.wake(10.0)


class Rejecting(gs.JobScheduler, frozen=True, kw_only=True):
    name = "rejecting"
    policy = RejectingPolicy


@pytest.mark.parametrize("scheduler", JOBS)
def test_a_chain_of_three_jobs_takes_three_run_times(scheduler: str) -> None:
    result = gs.simulate(jobs_of([[], [0], [1]]), scheduler)
    assert result.makespan_bound() == 6300.0
    assert 6300.0 <= result.makespan < 6300.0 + 4 * 60.0  # slots and messages take time
    assert result.applications["stated_release"].tolist() == [0.0] * 3
    assert np.array_equal(result.applications["release"][1:], result.applications["finish"][:2])


def test_a_user_in_a_closed_loop_by_hand() -> None:
    """His jobs of 100 s and 50 s compete with one of 4 machines for 500 s; he thinks for 10 s each time."""
    scenario = jobs_of(
        [[], [], [0], [2]],
        release=[0.0, 20.0, 0.0, 600.0],
        nodes=[2, 4, 2, 1],
        run_time=[100.0, 500.0, 100.0, 50.0],
        think_time=10.0,
    )
    table = gs.simulate(scenario, "backfill-fcfs").applications
    # in order of stated release: the jobs of the user are 0, 1 and 3
    assert table["release"].tolist() == [0.0, 110.0, 20.0, 710.0]
    assert table["first_start"].tolist() == [0.0, 600.0, 100.0, 710.0]
    assert table["waiting"].tolist() == [0.0, 490.0, 80.0, 0.0]


def test_rejected_and_killed_jobs_release_those_after_them() -> None:
    result = gs.simulate(jobs_of([[], [], [0], [1, 0]], run_time=100.0, think_time=3.0), Rejecting())
    assert result.applications["release"].tolist() == [0.0, 0.0, 3.0, 13.0]
    assert validate_result(result) == []


def test_jobs_that_cannot_run_release_those_after_them() -> None:
    """A limit rejects job 0 at its release."""
    scenario = jobs_of([[], [0]], nodes=[3, 1], user=[1, 1], run_time=7.0, think_time=2.0)
    with pytest.warns(gs.SchedulerWarning, match="user_limit"):
        result = gs.simulate(scenario, gs.BatchQueue(user_limit=2))
    assert result.applications["release"].tolist() == [0.0, 2.0]
    assert result.applications["finish"][1] == 9.0


@settings(deadline=None, max_examples=150)
@given(
    data=st.data(),
    backfill=st.sampled_from(["none", "easy", "conservative"]),
    order=st.sampled_from(["fcfs", "sjf", "saf", "largest", "unicef"]),
    machines=st.sampled_from([1, 3, 8]),
    jobs=st.integers(1, 14),
)
def test_starts_of_batch_queues_equal_a_plain_simulator(
    data: st.DataObject, backfill: Any, order: Any, machines: int, jobs: int
) -> None:
    """The jobs are listed in any order, so their numbers differ from those of the run.

    A machine with several cores starts the same jobs as so many machines.
    """

    def column(values: st.SearchStrategy[int]) -> list[int]:
        return data.draw(st.lists(values, min_size=jobs, max_size=jobs))

    release, nodes = column(st.integers(0, 20)), column(st.integers(1, machines))
    run, requested, think = (column(st.integers(low, 12)) for low in (1, 1, 0))
    listed, after = data.draw(st.permutations(range(jobs))), [list[int]() for _ in range(jobs)]
    for place, i in enumerate(listed[1:], 1):
        after[i] = data.draw(st.lists(st.sampled_from(listed[:place]), max_size=2, unique=True))
    rank = np.argsort(release, kind="stable").tolist()
    before = [[rank.index(j) for j in after[i]] for i in rank]
    releases = ReleaseQueue(
        [release[i] * NS for i in rank],
        [j for row in before for j in row],
        np.cumsum([0, *map(len, before)]),
        [think[i] * NS for i in rank],
    )
    columns = ([column[i] * unit for i in rank] for column, unit in ((nodes, 1), (run, NS), (requested, NS)))
    keywords: dict[str, Any] = {"depth": int(backfill != "none"), "conservative": backfill == "conservative"}
    if order == "largest":
        keywords["ranks"] = [min(machines - nodes[i], jobs - 1) for i in rank]
    elif order != "fcfs":
        keywords["order"] = order
    plain = JobQueue(machines, *columns, **keywords, releases=releases)
    plain.run(10**15)
    workload = gs.Workload.jobs_of(
        np.array(release, float), nodes, np.array(run, float), np.array(requested, float),
        after=after, think_time=np.array(think, float), tasks_per_machine=0, user=0, origin=0.0,
    )  # fmt: skip
    queue = gs.BatchQueue(backfill=backfill, order=order)
    schedulers: list[gs.Scheduler] = [queue]
    if backfill == "none" and order == "fcfs":
        schedulers.append(FirstFit())
    if order == "largest":
        weights = {"age_weight": 0.0, "share_weight": 0.0, "size_weight": 1.0}
        schedulers.append(gs.BatchQueue(backfill=backfill, order="multifactor", **weights))
    runs = [(gs.Platform.equal(machines), scheduler) for scheduler in schedulers]
    if backfill != "conservative":
        runs.append((gs.Platform.equal(1, cores=machines), queue))
    for platform, scheduler in runs:
        result = execute(gs.Scenario(platform, workload), scheduler)
        assert np.array_equal(result.applications["first_start"], plain.totals()["first_start"] / NS)
        assert np.array_equal(result.applications["release"], releases.release / NS)
        assert result.makespan >= result.makespan_bound() - 1e-6


def bags(**changes: Any) -> gs.Scenario:
    columns = {
        "tasks": [3, 8, 1, 5], "task_size": [2e4, 5e3, 9e4, 1e4],
        "after": [[], [0], [], [1, 2]], "think_time": [0.0, 2.0, 0.0, 0.5],
    }  # fmt: skip
    workload = gs.Workload.of([0.0, 1.0, 0.0, 3.0], **columns | changes)
    return gs.Scenario(gs.Platform.equal(3), workload)


@pytest.mark.parametrize("scheduler", BAGS)
def test_bags_are_released_when_others_have_ended(scheduler: str) -> None:
    result = gs.simulate(bags(), scheduler, record=True)
    table = result.applications  # in order of stated release: bags 0, 2, 1, 3
    release, finish = table["release"], table["finish"]
    assert release[[0, 1]].tolist() == [0.0, 0.0]
    assert release[2] == pytest.approx(finish[0] + 2.0)
    assert release[3] == pytest.approx(max(finish[1], finish[2]) + 0.5)
    assert table["stretch"] == pytest.approx((finish - release) / table["size"])
    assert result.bound().stretch <= result.max_stretch
    assert result.makespan_bound() <= result.makespan
    assert validate_result(result) == []


def list_schedule(speeds: list[int], bags: list[tuple[int, int, list[int], int]]) -> list[tuple[int, int]]:
    """Return first starts and ends (s) of bags (tasks, Mflop, predecessors, think time) from one list."""
    machines = sorted(range(len(speeds)), key=lambda u: -speeds[u])  # the order in which idle ones take tasks
    left, running = [tasks for tasks, *_ in bags], list[tuple[int, int, int]]()  # end, machine, bag
    released, start, end = dict[int, int](), dict[int, int](), dict[int, int]()
    now, is_idle = 0, set(machines)
    while len(end) < len(bags):
        for _, u, _ in [task for task in running if task[0] == now]:
            is_idle.add(u)
        running = [task for task in running if task[0] > now]
        for i in released:
            if not left[i] and i not in end and all(bag != i for *_, bag in running):
                end[i] = now
        due = {
            i: max((end[j] + think for j in after), default=0)
            for i, (_, _, after, think) in enumerate(bags)
            if i not in released and end.keys() >= set(after)
        }
        released |= {i: at for i, at in due.items() if at <= now}
        for u in machines:
            i = min((i for i in released if left[i]), key=lambda i: (released[i], i), default=-1)
            if u in is_idle and i >= 0:
                start.setdefault(i, now)
                left[i] -= 1
                is_idle.remove(u)
                running.append((now + bags[i][1] // speeds[u], u, i))
        now = min([task[0] for task in running] + [at for at in due.values() if at > now], default=now)
    return [(start[i], end[i]) for i in range(len(bags))]


@settings(deadline=None)
@given(data=st.data())
def test_starts_from_one_list_equal_a_plain_simulator(data: st.DataObject) -> None:
    """Wave schedulers draw hosts, so their machines are equal; work queues do not replicate tasks here."""
    speeds = data.draw(st.lists(st.sampled_from((1, 2, 4)), min_size=1, max_size=4))
    queue = gs.WqrFt(max_replicas=1, machine_choice="cpu", checkpoint_interval=math.inf)
    scheduler = data.draw(st.sampled_from((gs.Fcfs(mode="pull"), queue, gs.Wave())))
    if isinstance(scheduler, gs.Wave):
        speeds = [speeds[0]] * len(speeds)
    bags = [
        (
            data.draw(st.integers(1, 5)),
            4 * data.draw(st.integers(1, 5)),
            data.draw(st.lists(st.integers(0, i - 1), max_size=2, unique=True)) if i else [],
            data.draw(st.integers(0, 4)),
        )
        for i in range(data.draw(st.integers(1, 7)))
    ]
    tasks, size, after, think = zip(*bags, strict=True)
    think = [time if before else 0 for time, before in zip(think, after, strict=True)]
    workload = gs.Workload.of([0.0] * len(bags), tasks, size, after=after, think_time=think)
    table = gs.simulate(gs.Scenario(gs.Platform.of(speeds), workload), scheduler).applications
    found = list(zip(table["first_start"].tolist(), table["finish"].tolist(), strict=True))
    assert found == list_schedule(speeds, bags)


@settings(deadline=None)
@given(data=st.data(), kind=st.sampled_from([gs.MinMin, gs.MaxMin, gs.Sufferage]))
def test_mapping_in_batches_does_not_depend_on_how_releases_are_stated(
    data: st.DataObject, kind: Any
) -> None:
    """Bags that follow others are mapped as bags with their actual releases: few sizes, so many ties."""
    count = data.draw(st.integers(2, 8))

    def column(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    release, tasks, size, think = sorted(column(0, 20)), column(1, 4), column(1, 2), column(0, 5)
    after = [
        data.draw(st.lists(st.integers(0, i - 1), max_size=2, unique=True)) if i else [] for i in range(count)
    ]
    platform = gs.Platform.of(data.draw(st.lists(st.sampled_from((1.0, 2.0)), min_size=1, max_size=3)))
    scheduler = kind(interval=data.draw(st.sampled_from((0.0, 3.0))))
    workload = gs.Workload.of(
        np.array(release, float), tasks, np.array(size, float) * 4, after=after,
        think_time=np.array(think, float), origin=0.0,
    )  # fmt: skip
    closed = gs.simulate(gs.Scenario(platform, workload), scheduler).applications
    order = np.argsort(closed["release"], kind="stable")
    workload = gs.Workload.of(
        closed["release"][order], closed["tasks"][order], closed["task_size"][order], origin=0.0
    )
    known = gs.simulate(gs.Scenario(platform, workload), scheduler).applications
    for name in ("release", "first_start", "finish"):
        assert np.array_equal(closed[name][order], known[name])


@pytest.mark.parametrize("scheduler", ["power-of-d", "backfill"])
def test_lists_without_predecessors_have_the_same_digest(scheduler: str) -> None:
    scenario, empty = bags(after=None, think_time=None), bags(after=[[], [], [], []])
    if scheduler == "backfill":
        scenario, empty = (jobs_of(after, run_time=9.0) for after in ([[], []], [[], []]))
    assert gs.simulate(scenario, scheduler).digest == gs.simulate(empty, scheduler).digest


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_validate_finds_a_wrong_release(shift: float) -> None:
    result = gs.simulate(jobs_of([[], [0]]), "backfill")
    table = {name: column.copy() for name, column in result.applications.items()}
    table["release"][1] += shift
    result.tables["applications"] = gs.Table(table)
    assert "before predecessors" in {violation.law for violation in validate_result(result)}


def test_earliest_ends_follow_the_longest_chain() -> None:
    """Fork and join: 2 s, then 5 s or 3 s after 1 s, then 1 s."""
    ends = earliest_ends(
        np.array([0.0, 0.0, 6.5, 0.0]),
        np.array([2.0, 5.0, 3.0, 1.0]),
        np.array([0, 0, 1, 2]),
        np.array([0, 0, 1, 2, 4]),
        np.array([0.0, 1.0, 1.0, 0.0]),
    )
    assert ends.tolist() == [2.0, 8.0, 9.5, 10.5]


def test_what_does_not_support_dependencies_says_so() -> None:
    with pytest.raises(gs.ScenarioError, match=r"rjss does not support workload\.after; .*power-of-d"):
        gs.simulate(bags(), "rjss")
    with pytest.raises(gs.ScenarioError, match=r"processes must be 1 with workload\.after, got 2"):
        gs.simulate(bags(), "fair-tree", processes=2)
    with pytest.raises(gs.ScenarioError, match=r"workload\.after does not support workload\.deadline"):
        gs.simulate(jobs_of([[], [0]], deadline=[9e3, 9e3]), "asap")
