"""Violations of the order of arrival are detected in recorded schedules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gridsim as gs
from gridsim.testing.order import promised_order_violation

#: Three tasks of 10 s, one each of applications 0, 1 and 2, and two of application 3.
SCENARIO = gs.Scenario(
    gs.Platform.equal(2, 100.0), gs.Workload.of([0.0, 1.0, 2.0, 50.0], [1, 1, 1, 2], 1000.0), seed=1
)
#: (machine, application, tasks, start, end) of each row of a schedule.
ScheduleRows = list[tuple[int, int, int, float, float]]
#: (machine, application, tasks, time) of each arrival.
ArrivalRows = list[tuple[int, int, int, float]]
IN_TURN: ScheduleRows = [
    (0, 0, 1, 0.0, 10.0),
    (0, 1, 1, 10.0, 20.0),
    (0, 2, 1, 20.0, 30.0),
    (1, 3, 2, 52.0, 72.0),
]
ARRIVALS: ArrivalRows = [(0, 0, 1, 0.0), (0, 1, 1, 1.0), (0, 2, 1, 3.0), (1, 3, 1, 52.0), (1, 3, 1, 62.0)]


def violation_of(
    schedule_rows: ScheduleRows, arrival_rows: ArrivalRows, scenario: gs.Scenario = SCENARIO
) -> str | None:
    """Return the violation of a result with this schedule instead of the recorded one."""
    result = gs.simulate(scenario, gs.NoMigration(), record=True)
    schedule, arrivals = (
        gs.Table(
            dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
            | ({"completed": np.array([row[2] for row in rows])} if "start" in names else {})
        )
        for names, rows in (
            (("machine", "application", "tasks", "start", "end"), schedule_rows),
            (("machine", "application", "tasks", "time"), arrival_rows),
        )
    )
    other = gs.Result(
        tables={**result.tables, "schedule": schedule, "arrivals": arrivals},
        facts=result.facts,
        scheduler=result.scheduler,
        provenance=result.provenance,
    )
    return promised_order_violation(other, "fcfs")


def test_recorded_schedules_are_in_order_of_arrival() -> None:
    for scheduler in (gs.NoMigration(), gs.Rjss(k=1.0, rule="none")):
        result = gs.simulate(SCENARIO, scheduler, record=True)
        assert promised_order_violation(result, "fcfs") is None
    assert violation_of(IN_TURN, ARRIVALS) is None
    # rows of a schedule, and idle machines, may come in any order
    assert violation_of(IN_TURN[::-1], ARRIVALS) is None


@pytest.mark.parametrize(
    ("schedule_rows", "message"),
    [
        # the task of application 2 overtakes that of 1
        ([IN_TURN[0], (0, 2, 1, 10.0, 20.0), (0, 1, 1, 20.0, 30.0), IN_TURN[3]],
         "machine 0 runs tasks of applications [0, 2, 1], but they arrived as [0, 1, 2]"),
        # a task is missing, or runs on another machine
        (IN_TURN[:2] + IN_TURN[3:], "machine 0 runs tasks of applications [0, 1], but they arrived as [0, "
        "1, 2]"),
        ([*IN_TURN[:2], (1, 2, 1, 20.0, 30.0), IN_TURN[3]],
         "machine 0 runs tasks of applications [0, 1], but they arrived as [0, 1, 2]"),
        # the machine is idle although a task has arrived, after another task or as the first
        ([*IN_TURN[:2], (0, 2, 1, 20.5, 30.5), IN_TURN[3]], "schedule[2] starts at 20.5 s, but arrived at "
        "3.0 s, and its machine is free from 20.0 s on"),
        ([*IN_TURN[:3], (1, 3, 2, 52.25, 72.25)], "schedule[3] starts at 52.25 s, but arrived at 52.0 s, "
        "and its machine is free from 0.0 s on"),
        # a task starts before it arrives
        ([*IN_TURN[:3], (1, 3, 2, 51.0, 71.0)], "schedule[3] starts at 51.0 s, but arrived at 52.0 s, "
        "and its machine is free from 0.0 s on"),
    ],
)  # fmt: skip
def test_schedule_out_of_order_is_detected(schedule_rows: ScheduleRows, message: str) -> None:
    assert violation_of(schedule_rows, ARRIVALS) == message


def test_task_within_a_row_before_its_arrival_is_detected() -> None:
    late_arrivals = [*ARRIVALS[:4], (1, 3, 1, 62.5)]
    assert (
        violation_of(IN_TURN, late_arrivals) == "schedule[3] starts a task at 62.0 s that arrived at 62.5 s"
    )
    # if sizes differ, a row does not determine when its second task starts
    bags = gs.Workload.of_tasks(
        [0.0, 1.0, 2.0, 50.0], [[1000.0], [1000.0], [1000.0], [500.0, 1500.0]], [0, 0, 0, 1]
    )
    unequal = gs.Scenario(gs.Platform.equal(2, 100.0), bags, seed=1)
    assert violation_of(IN_TURN, late_arrivals, unequal) is None
    later_arrivals = [*ARRIVALS[:4], (1, 3, 1, 72.5)]
    assert (
        violation_of(IN_TURN, later_arrivals, unequal)
        == "schedule[3] starts a task at 72.0 s that arrived at 72.5 s"
    )


#: Two cores run the first two tasks from 0 and 1 s on, and the third when the first has ended.
CORE_ROWS: ScheduleRows = [
    *[(0, 0, 1, 0.0, 10.0), (0, 1, 1, 1.0, 11.0), (0, 2, 1, 10.0, 20.0)],
    *[(1, 3, 1, 52.0, 62.0), (1, 3, 1, 62.0, 72.0)],
]


@pytest.mark.parametrize(
    ("schedule_rows", "message"),
    [
        (CORE_ROWS, None),
        # the second task waits although a core is idle; tasks that start together may be in any order
        ([CORE_ROWS[0], (0, 2, 1, 10.0, 20.0), (0, 1, 1, 10.0, 20.0), *CORE_ROWS[3:]], "schedule[2] starts "
         "at 10.0 s, but arrived at 1.0 s, and its machine is free from 0.0 s on"),
        ([(0, 0, 1, 0.0, 10.0), (0, 2, 1, 3.0, 13.0), (0, 1, 1, 10.0, 20.0), *CORE_ROWS[3:]],
         "machine 0 runs tasks of applications [0, 2, 1], but they arrived as [0, 1, 2]"),
        # the core that ends first does not take the next task
        ([*CORE_ROWS[:2], (0, 2, 1, 11.0, 21.0), *CORE_ROWS[3:]], "schedule[2] starts at 11.0 s, but arrived "
         "at 3.0 s, and its machine is free from 10.0 s on"),
        # the second core of machine 1 is idle
        ([*CORE_ROWS[:4], (1, 3, 1, 62.5, 72.5)], "schedule[4] starts at 62.5 s, but arrived at 62.0 s, and "
         "its machine is free from 0.0 s on"),
    ],
)  # fmt: skip
def test_order_on_machines_with_cores_is_checked(schedule_rows: ScheduleRows, message: str | None) -> None:
    scenario = replace(SCENARIO, platform=gs.Platform.equal(2, 100.0, cores=2))
    assert violation_of(schedule_rows, ARRIVALS, scenario) == message
