"""The node programs of WQR-FT equal the compiled kernel, without calling it."""

from __future__ import annotations

import math
from collections import Counter
from functools import wraps
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridcore.work_queue.state import BAG_ORDERS
from gridsim.results.result import Result
from gridsim.schedulers.wqr import selections
from gridsim.schedulers.wqr.node import SIGNALS, Server, Worker
from gridsim.schedulers.wqr.selections import Machines
from gridsim.testing.cases import scenarios
from gridsim.testing.resuming import resume_difference

QUICK = settings(deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def schedulers(draw: st.DrawFn) -> gs.WqrFt:
    orders, choices = ("random", "small", "great"), ("none", "cpu", "avail", "all")
    functions = draw(st.integers(0, 3)) == 0
    order, choice = draw(st.sampled_from(orders)), draw(st.sampled_from(choices))
    predictor: Any = draw(st.sampled_from(("exact", "exact", "past", "age")))
    cost = draw(st.sampled_from((0.0, 0.25, 1.0, 10.0)))
    printed = not functions and draw(st.booleans())
    return gs.WqrFt(
        task_order=getattr(selections, order) if functions and draw(st.booleans()) else order,
        machine_choice=getattr(selections, choice) if functions else choice,
        bag_order=draw(st.sampled_from(BAG_ORDERS)),
        max_replicas=draw(st.sampled_from((1, 2, 2, 3, 5))),
        exclude=None if printed else draw(st.sampled_from((None, 0.0, 1.0))),
        checkpoint_interval=draw(st.sampled_from((math.inf, 0.5, 1.0, 7.0, "young" if cost else 30.0))),
        checkpoint_cost=cost,
        restore_cost=draw(st.sampled_from((0.0, 0.25, 10.0))),
        checkpoint_store=draw(st.sampled_from(("server", "local"))),
        predictor=predictor,
        prediction_error=draw(st.sampled_from((0.0, 2.0))) if predictor == "exact" else 0.0,
        as_printed=printed,
    )


def result(scenario: gs.Scenario, scheduler: gs.WqrFt, **options: Any) -> Result | str:
    """Return the result, or the text of the error."""
    try:
        return gs.simulate(scenario, scheduler, **options)
    except gs.ScenarioError as error:
        return str(error)


def assert_same(scenario: gs.Scenario, scheduler: gs.WqrFt, **options: Any) -> None:
    compiled = result(scenario, scheduler, nodes="compiled", record="all")
    interpreted = result(scenario, scheduler, nodes="interpreted", record="all", **options)
    if isinstance(compiled, str) or isinstance(interpreted, str):
        assert compiled == interpreted
        return
    assert compiled.digest == interpreted.digest
    for name in ("schedule", "decisions"):
        for column, values in compiled.tables[name].items():
            np.testing.assert_array_equal(values, interpreted.tables[name][column], f"{name}.{column}")
    assert resume_difference(scenario, scheduler, interpreted, record="all", nodes="interpreted") is None


@QUICK
@given(
    st.sampled_from((False, False, True)).flatmap(
        lambda fails: scenarios(max_nodes=12, faults=fails, unequal=True, fluctuating=True, dependencies=True)
    ),
    schedulers(),
    st.sampled_from((None, 1)),
)
def test_node_programs_equal_the_kernel(
    scenario: gs.Scenario, scheduler: gs.WqrFt, cohort_limit: int | None
) -> None:
    assert_same(scenario, scheduler, cohort_limit=cohort_limit)


@st.composite
def stepped_scenarios(draw: st.DrawFn) -> gs.Scenario:
    """Draw scenarios in which machines fail often, and most events happen at multiples of 2.5 s."""
    rows = []
    nodes = draw(st.integers(1, 12))
    for u in range(nodes):
        instant = draw(st.integers(0, 6)) * 5.0
        for _ in range(draw(st.integers(0, 8))):
            rows.append((u, instant, up := instant + draw(st.sampled_from((0.0, 5.0, 15.0)))))
            instant = up + draw(st.sampled_from((5.0, 10.0, 60.0)))
    sizes = st.lists(st.sampled_from((5e3, 1e4, 2e4, 4e4)), min_size=1, max_size=20).map(np.array)
    bags = draw(st.lists(sizes, min_size=1, max_size=4))
    faults = gs.Faults.of(*(list(column) for column in zip(*rows, strict=True))) if rows else None
    load = gs.Fluctuation.of([[1.0, 0.5, 0.25]], 7.5) if draw(st.integers(0, 2)) == 0 else None
    speeds = draw(st.lists(st.sampled_from((1000.0, 2000.0)), min_size=nodes, max_size=nodes))
    release = [draw(st.sampled_from((0.0, 5.0, 20.0))) for _ in bags]
    follows = draw(st.permutations(range(len(bags)))) if draw(st.booleans()) else []
    after = [[] for _ in bags]
    for earlier, later in zip(follows, follows[1:], strict=False):
        after[later] = draw(st.sampled_from(([], [earlier])))
    think = [draw(st.sampled_from((0.0, 0.0, 5.0))) for _ in bags]
    return gs.Scenario(
        gs.Platform.of(speeds),
        gs.Workload.of_tasks(release, bags, after=after, think_time=think),
        seed=draw(st.integers(0, 3)),
        faults=faults,
        fluctuation=load,
    )


@QUICK
@given(stepped_scenarios(), schedulers(), st.sampled_from((2.5, 5.0, 10.0)), st.sampled_from((0.0, 2.5, 5.0)))
def test_node_programs_equal_the_kernel_with_simultaneous_events(
    scenario: gs.Scenario, scheduler: gs.WqrFt, interval: float, cost: float
) -> None:
    costs = {"checkpoint_interval": interval, "checkpoint_cost": cost, "restore_cost": cost}
    assert_same(scenario, msgspec.structs.replace(scheduler, **costs))


# -- what goes through the nodes ----------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of each handler."""
    count: Counter[str] = Counter()

    def counting_handler(owner: type, name: str) -> None:
        handler = getattr(owner, name)

        @wraps(handler)
        def call(self: Any, view: Any, *arguments: Any) -> None:
            count[f"{owner.__name__}.{name}"] += 1
            handler(self, view, *arguments)

        monkeypatch.setattr(owner, name, call)

    for owner in (Server, Worker):
        for name in vars(owner):
            if name.startswith("on_"):
                counting_handler(owner, name)
    return count


@pytest.mark.parametrize("store", ["server", "local"])
def test_node_programs_handle_all_events(calls: Counter[str], store: Any) -> None:
    """The programs are called for each start, end, checkpoint, failure and recovery."""
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(12, seed=1),
        gs.Workload.bags(2, 300.0, 3.0, 0.2, 1e6, seed=1, spread=gs.LogUniform(5.0)),
        faults=gs.Faults.exponential(1500.0, 100.0, 1),
        seed=1,
    )
    scheduler = gs.WqrFt(checkpoint_interval=50.0, checkpoint_cost=3.0, checkpoint_store=store)
    outcome = gs.simulate(scenario, scheduler, nodes="interpreted", record=True)
    rows, machines = outcome.tables["schedule"], outcome.machines
    failures, tasks = int(machines["failures"].sum()), int(outcome.applications["tasks"].sum())
    recoveries, instants = calls["Worker.on_start"] - len(machines), calls["Server.on_failure"]
    written = sum(map(checkpoints, *(rows[c] for c in ("start", "end", "begin")), speeds_and_sizes(outcome)))
    assert calls == Counter(
        {
            "Server.on_release": 2,
            "Worker.on_assign": len(rows),
            "Worker.on_restored": (restored := calls["Worker.on_restored"]),
            "Worker.on_written": written,
            "Server.on_checkpoint": written if store == "server" else 0,
            "Worker.on_computed": tasks,
            "Server.on_completed": tasks,
            "Worker.on_kill": int(machines["ended"].sum()),
            "Worker.on_failure": failures,
            "Server.on_failure": instants,
            "Worker.on_start": len(machines) + recoveries,
            "Server.on_up": len(machines) + recoveries,
            "Server.on_dispatch": calls["Server.on_dispatch"],
        }
    )
    assert failures - len(machines) <= recoveries <= failures and 0 < instants <= failures
    assert min(written, recoveries, restored, machines["interrupted"].sum()) > 0
    begun_later = int((rows["begin"] > 0).sum())
    assert begun_later - machines["interrupted"].sum() <= restored <= begun_later
    # each of these calls is a separate event
    signals = sum(calls[f"{program}.on_{kind}"] for program in ("Server", "Worker") for kind in SIGNALS)
    timers = restored + written + tasks + failures + calls["Server.on_dispatch"]
    assert outcome.provenance["events"] >= signals + timers + calls["Worker.on_start"] + 2
    compiled = gs.simulate(scenario, scheduler, nodes="compiled")
    assert compiled.digest == outcome.digest
    assert compiled.provenance["events"] < 10


def speeds_and_sizes(found: Result) -> list[tuple[float, float]]:
    """Return (Mflop/s of the machine, Mflop of the task) of each task copy."""
    applications = found.scenario.workload.realize(found.scenario.platform)
    sizes, offsets, rows = applications.sizes(), applications.offsets, found.tables["schedule"]
    task = sizes[offsets[rows["application"]] + rows["task"]]
    return list(zip(found.machines["speed"][rows["machine"]], task, strict=True))


def checkpoints(start: float, end: float, begin: float, of: tuple[float, float]) -> int:
    """Return the number of checkpoints of a task copy, which are written every 50 s and take 3 s."""
    speed, size = of
    planned = math.ceil((size - begin) / speed / 50.0 - 1e-9) - 1
    return min(planned, max(0, math.floor((end - start - (10.0 if begin else 0.0)) / 53.0 + 1e-9)))


def test_work_queue_sends_no_messages() -> None:
    scenario = gs.Scenario(gs.Platform.of([1000.0, 2000.0]), gs.Workload.of([0.0], 3, 1e4))
    outcome = gs.simulate(scenario, gs.WqrFt(), nodes="interpreted")
    assert len(outcome.tables["messages"]) == 0 and not outcome.machines["bytes_out"].any()


# -- errors -------------------------------------------------------------------------------------------------


def raise_key_error(machines: Machines) -> int:
    raise KeyError("no such host")


@pytest.mark.parametrize(
    ("scheduler", "error", "message"),
    [
        (gs.WqrFt(machine_choice=raise_key_error), gs.SchedulerError, "t = 0.0 s: machine_choice: KeyError"),
        (
            gs.WqrFt(checkpoint_interval=1e-9, checkpoint_cost=1e9),
            gs.ScenarioError,
            "WQR-FT.checkpoint_cost must let tasks end before",
        ),
    ],
)
def test_both_forms_raise_equal_errors(scheduler: gs.WqrFt, error: type[Exception], message: str) -> None:
    scenario = gs.Scenario(gs.Platform.of([1000.0, 2000.0]), gs.Workload.of([0.0], 3, 1e6))
    for nodes in ("compiled", "interpreted"):
        with pytest.raises(error, match=message):
            gs.simulate(scenario, scheduler, nodes=nodes)


def test_endless_run_is_rejected() -> None:
    gone = gs.Faults.of([0, 1], [5.0, 10.0], [math.inf, math.inf])
    scenario = gs.Scenario(gs.Platform.of([10.0, 10.0]), gs.Workload.of([0.0], 4, 1000.0), faults=gone)
    with pytest.raises(gs.ScenarioError, match="t = 10 s: the last machine failed for good"):
        gs.simulate(scenario, gs.WqrFt(), nodes="interpreted")
    waits = gs.Scenario(
        gs.Platform.of([3000.0, 1000.0]),
        gs.Workload.of([0.0], 3, 1000.0),
        faults=gs.Faults.of([0], [0.1], [math.inf]),
    )
    printed = gs.WqrFt(task_order="small", machine_choice="cpu", as_printed=True)
    with pytest.raises(
        gs.ScenarioError, match=r"as_printed must let all tasks end; \d tasks wait for machine 0"
    ):
        gs.simulate(waits, printed, nodes="interpreted")
