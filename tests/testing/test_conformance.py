"""`check_scheduler` accepts every scheduler of gridsim, and detects faulty ones."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import strategies as st

import gridsim as gs
from gridsim.schedulers import MODES
from gridsim.schedulers.wqr.policies import POLICIES
from gridsim.scheduling.registry import registered
from gridsim.testing import ConformanceError, check_scheduler, conformance, introspection
from gridsim.testing.clairvoyance import foresight_violation
from tests._helpers.scenarios import (
    CENTRAL,
    CLASSICS,
    MAPPING,
    RIGID,
    SEARCHES,
    WALKERS,
    dgs_asaps,
    fair_trees,
    searches,
    volunteers,
    walkers,
    waves,
    work_queues,
)

PROBING = (gs.Sparrow, gs.Hawk, gs.Eagle, gs.Lwl, gs.Dlwl)

HELPERS = Path(__file__).parents[1] / "_helpers"


@pytest.fixture
def faulty_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of faulty schedulers, which other interpreters can also import."""
    monkeypatch.syspath_prepend(HELPERS)
    return import_module("wrong_schedulers")


def decisions_left_out(scheduler: gs.Scheduler | type[gs.Scheduler]) -> set[str]:
    """Return the name of the unchecked invariant of decisions if the scheduler records none."""
    return set() if scheduler.decision_words else {"decisions"}


def foresight_left_out(scheduler: gs.Scheduler) -> set[str]:
    """Return the kinds of foresight that are not checked."""
    return {f"foresight of {kind}" for kind in scheduler.foresees}


#: Classes that a test below covers, directly or by a table.
TESTED = {gs.FairTree, gs.DgsAsap, gs.DgsAcap, gs.Zorilla, gs.Metascheduler, gs.WqrFt, gs.Wave}
TESTED |= {type(scheduler) for scheduler in (*CENTRAL.values(), *MAPPING.values(), *RIGID)}
TESTED |= {*CLASSICS, *PROBING, *WALKERS.values(), *(kind for kind, _ in SEARCHES.values())}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", dict.fromkeys(kind for kind, _ in registered().values() if kind not in TESTED)
)
def test_all_other_registered_schedulers_pass(kind: type[gs.Scheduler], tmp_path: Path) -> None:
    report = check_scheduler(kind(), examples=6, hash_seeds=False, folder=tmp_path)
    assert report.examples >= 6


@pytest.mark.slow
@pytest.mark.parametrize("name", CENTRAL)
def test_centralized_baselines_pass(name: str, tmp_path: Path) -> None:
    report = check_scheduler(CENTRAL[name], examples=20, folder=tmp_path)
    assert report.examples >= 20 and report.with_failures >= 5
    assert set(report.left_out) == {"locality"} | ({"order"} if name == "replan" else set())


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*CLASSICS, *PROBING])
def test_schedulers_of_single_tasks_pass(kind: type[gs.Scheduler], tmp_path: Path) -> None:
    report = check_scheduler(kind(), examples=20, hash_seeds=False, folder=tmp_path)
    assert report.examples >= 20 and report.with_failures >= 5
    assert set(report.left_out) <= {"locality", "hash seed", "order"}


@pytest.mark.slow
@pytest.mark.parametrize("name", MAPPING)
def test_mapping_heuristics_pass(name: str, tmp_path: Path) -> None:
    hash_seeds = name in ("switching", "max-min, at times")
    report = check_scheduler(MAPPING[name], examples=20, hash_seeds=hash_seeds, folder=tmp_path)
    assert report.examples >= 20 and report.with_failures >= 5
    order = {"order"} if MAPPING[name].promised_order is None else set()
    assert {"locality"} | order <= set(report.left_out) <= {"locality", "hash seed"} | order


@pytest.mark.slow
def test_fair_tree_passes(tmp_path: Path) -> None:
    report = check_scheduler(fair_trees(), examples=30, max_nodes=9, folder=tmp_path)
    assert report.examples >= 30 and report.with_failures >= 8
    # runs of large grids may be longer than the check of foresight allows
    assert set(report.left_out) - {"foresight of some scenarios"} == {"locality of speeds"}


@pytest.mark.slow
def test_fair_tree_maintained_by_messages_passes(tmp_path: Path) -> None:
    """Heartbeats may also arrive later than their timeout, in the checks of locality."""
    scheduler = fair_trees(maintenance="messages", repair=0.0, run_on=False, beat=60.0)
    report = check_scheduler(scheduler, examples=12, max_nodes=9, hash_seeds=False, folder=tmp_path)
    assert report.examples >= 12 and report.with_failures >= 4
    assert set(report.left_out) == {"hash seed", "locality of speeds"}
    assert "does not support fair-tree with maintenance='messages'" in report.not_compiled


@pytest.mark.slow
def test_dgs_asap_passes(tmp_path: Path) -> None:
    """Failures are detected without messages: after the longest message, or in a shuffle."""
    static_overlay = dgs_asaps().map(
        lambda each: msgspec.structs.replace(each, overlay="static", detection=60.0)
    )
    report = check_scheduler(static_overlay, examples=30, folder=tmp_path)
    assert report.examples >= 30 and report.with_failures >= 10
    assert set(report.left_out) == {"locality of speeds", "order", "served"} | decisions_left_out(gs.DgsAsap)
    moving_overlay = dgs_asaps().map(lambda each: msgspec.structs.replace(each, overlay="cyclon"))
    assert check_scheduler(moving_overlay, examples=12, hash_seeds=False, folder=tmp_path).with_failures >= 4


@pytest.mark.slow
def test_dgs_acap_passes(tmp_path: Path) -> None:
    scheduler = st.builds(
        gs.DgsAcap,
        degree=st.sampled_from((1, 3, 6)),
        near=st.sampled_from((1, 3, 8)),
        policy=st.sampled_from(("push", "pull", "poll")),
        tolerance=st.sampled_from((0.0, 200.0)),
        estimate=st.sampled_from(("run", "requested")),
    )
    report = check_scheduler(scheduler, examples=16, folder=tmp_path)
    assert report.examples >= 16 and report.with_failures >= 5
    assert set(report.left_out) == {"locality of speeds", "order", "served"} | decisions_left_out(gs.DgsAcap)
    moving_overlay = gs.DgsAcap(degree=3, near=8, overlay="cyclon", cycle=7.0)
    assert check_scheduler(moving_overlay, examples=6, hash_seeds=False, folder=tmp_path).with_failures >= 2


@pytest.mark.slow
def test_zorilla_passes(tmp_path: Path) -> None:
    scheduler = st.builds(
        gs.Zorilla,
        degree=st.integers(1, 4),
        first=st.sampled_from((None, 1)),
        repeats=st.booleans(),
        max_hops=st.integers(2, 4),
        lifetime=st.just(1000.0),
    )
    report = check_scheduler(scheduler, examples=12, hash_seeds=False, folder=tmp_path)
    assert report.with_failures >= 4
    assert set(report.left_out) == {"locality of speeds", "order", "served", "hash seed"}


@pytest.mark.slow
def test_metascheduler_passes(tmp_path: Path) -> None:
    scheduler = st.builds(
        gs.Metascheduler,
        sites=st.integers(1, 4),
        queue=st.sampled_from(("easy", "fcfs")),
        estimate=st.sampled_from(("run", "requested")),
        period=st.sampled_from((20.0, 300.0)),
        choose=st.sampled_from(("most-idle", "least-work")),
        count_sent=st.booleans(),
        suspension=st.sampled_from((30.0, math.inf)),
        home=st.sampled_from(("ignored", "preferred", "first")),
        pull=st.sampled_from((40.0, math.inf)),
        wide=st.sampled_from(("coallocate", "reject")),
    )
    report = check_scheduler(scheduler, examples=20, faults=False, hash_seeds=False, folder=tmp_path)
    assert set(report.left_out) == {"locality of speeds", "order", "hash seed", "failures"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_searches_for_idle_hosts_pass(name: str, tmp_path: Path) -> None:
    report = check_scheduler(searches(name), examples=15, max_nodes=9, folder=tmp_path)
    assert report.examples >= 15 and report.with_failures >= 4
    assert set(report.left_out) == decisions_left_out(SEARCHES[name][0])


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", RIGID, ids=repr)
def test_baselines_for_rigid_jobs_pass_the_conformance_checks(
    scheduler: gs.Scheduler, tmp_path: Path
) -> None:
    report = check_scheduler(scheduler, examples=20, folder=tmp_path)
    assert report.examples >= 20 and report.with_failures >= 5
    order = {"order"} if scheduler.promised_order is None else set()
    assert set(report.left_out) == {"locality"} | order | decisions_left_out(scheduler) | foresight_left_out(
        scheduler
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_wqr_ft_policies_pass_the_conformance_checks(name: str, tmp_path: Path) -> None:
    order, choice = POLICIES[name]
    policy = work_queues(task_order=order, machine_choice=choice)
    report = check_scheduler(policy, examples=10, hash_seeds=name == "GreatET-AllInfo", folder=tmp_path)
    assert report.examples >= 10 and report.with_failures >= 3
    assert {"locality", "order"} <= set(report.left_out) <= {"locality", "order", "hash seed"}


@pytest.mark.slow
def test_wqr_ft_with_functions_passes(tmp_path: Path) -> None:
    from gridsim.schedulers.wqr import selections as wqr_choices

    asking = gs.WqrFt(
        task_order=wqr_choices.random, machine_choice=wqr_choices.avail, checkpoint_interval=5.0
    )
    report = check_scheduler(asking, examples=15, folder=tmp_path)
    left_out = {"locality", "order", "foresight of failures"}
    assert report.with_failures >= 4 and set(report.left_out) == left_out


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_wave_schedulers_pass(mode: str, tmp_path: Path) -> None:
    report = check_scheduler(waves(mode), examples=20, hash_seeds=mode == "wave-linger", folder=tmp_path)
    assert report.examples >= 20 and report.with_failures >= 5
    base = {"locality", "order"} | decisions_left_out(gs.Wave)
    assert base <= set(report.left_out) <= base | {"hash seed"}


@pytest.mark.slow
@pytest.mark.parametrize("latency", ["network", 0.0, 0.3])
@pytest.mark.parametrize("name", WALKERS)
def test_rjss_and_compared_schedulers_pass(name: str, latency: Any, tmp_path: Path) -> None:
    walker, uses_network = walkers(name, latency), latency == "network"
    report = check_scheduler(walker, examples=25, faults=False, hash_seeds=uses_network, folder=tmp_path)
    assert report.examples >= 25 and report.with_failures == 0
    local = uses_network or name == "no-migration"
    left_out = (
        decisions_left_out(WALKERS[name])
        | {"failures"}
        | (set() if local else {"locality"})
        | (set() if uses_network else {"hash seed"})
    )
    assert set(report.left_out) == left_out


@pytest.mark.slow
@pytest.mark.parametrize("latency", ["network", 0.3])
@pytest.mark.parametrize("name", ["rjss", "resource-exclusion"])
def test_rjss_and_resource_exclusion_pass_among_volunteers(name: str, latency: Any, tmp_path: Path) -> None:
    walker, uses_network = volunteers(name, latency), latency == "network" and name == "rjss"
    report = check_scheduler(walker, examples=12, faults=True, hash_seeds=uses_network, folder=tmp_path)
    assert report.with_failures == report.examples >= 12 and "owner absences" in report.not_compiled
    left_out = (set() if uses_network else {"hash seed"}) | (set() if latency == "network" else {"locality"})
    assert set(report.left_out) == left_out


@pytest.mark.claims
def test_fair_tree_loses_no_task_in_ten_thousand_failure_schedules(tmp_path: Path) -> None:
    detection = st.sampled_from((None, 0.0, 0.07, 25.0))
    trees = st.builds(
        lambda tree, delay: gs.FairTree(
            **{**{name: getattr(tree, name) for name in tree.__struct_fields__}, "detection": delay}
        ),
        fair_trees(),
        detection,
    )
    report = check_scheduler(trees, examples=10_000, faults=True, folder=tmp_path)
    assert report.with_failures >= 10_000


def test_a_sound_scheduler_passes(faulty_module: Any, tmp_path: Path) -> None:
    report = check_scheduler(faulty_module.Shares(), examples=6, folder=tmp_path)
    assert report.examples >= 6 and report.left_out == {}
    assert str(report).startswith("shares: 6 scenarios, ") and list(tmp_path.iterdir()) == []


FAULTS = {
    "TaskLoss": ("runs|locality", "each of its 1 tasks must be completed once, got 0"),
    "FailedMachineUse": ("sound|runs", "dead machine: schedule|but up for"),
    "QueuePeek": ("locality", "sends share"),
    "SpeedPeek": ("locality", "times as fast: .* sends share"),
    "FutureKnowledge": ("locality", "sends share"),
    "Alternation": ("repeatable", r"t = .* s: |run \d+ differs from run"),
    "ReverseOrder": ("cohorts", "cohorts of at most 1: "),
    "SetOrderDependence": ("hash seed", "with PYTHONHASHSEED="),
    "DoubleBooking": ("runs|order", "busy for|fifo order gives"),
    "DroppedShares": ("runs", "tasks must be completed once"),
    "StateLoss": ("resumed", "tasks must be completed once"),
    "DrawForRecord": ("decisions", r"(machines|applications)\.\w+\[|message_log: "),
    "MissingDecisions": ("decisions", "no decision about it was recorded"),
}


#: Faults found in the first examples, one that ends a run and one that does not; the others are slow.
FAST = ("DoubleBooking", "MissingDecisions")


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in FAULTS]
)
def test_faulty_scheduler_is_detected(name: str, faulty_module: Any, tmp_path: Path) -> None:
    scheduler, (law, message) = getattr(faulty_module, name)(), FAULTS[name]
    with pytest.raises(ConformanceError, match=message) as excinfo:
        seeds = law == "hash seed"  # other interpreters are slow to start
        check_scheduler(scheduler, examples=300, max_nodes=4, hash_seeds=seeds, folder=tmp_path / "new")
    error = excinfo.value
    assert error.law in law.split("|") and error.file == str(next((tmp_path / "new").iterdir()))
    # shrinking does not always find a scenario with fewer applications
    platform, workload = error.scenario.platform, error.scenario.workload
    assert platform.nodes <= 4 and len(workload.realize(platform)) <= 20
    assert gs.Scenario.from_toml(error.file) == error.scenario
    # the saved scenario can be run, and an error of the run itself occurs again
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "gridsim",
            "run",
            error.file,
            "--scheduler",
            f"wrong_schedulers:{name}",
            "--no-progress",
        ],
        cwd=HELPERS,
        env={**os.environ, "PYTHONPATH": str(Path(gs.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert process.returncode == (2 if error.law == "runs" else 0), process.stderr
    assert (re.search(message, process.stderr) is not None) == (error.law == "runs")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"examples": 0}, "examples must be a whole number >= 1, got 0"),
        ({"max_nodes": 0}, "max_nodes must be a whole number >= 1, got 0"),
        ({"scheduler": st.just(3)}, "scheduler must be a strategy of Scheduler objects, got one of 3"),
        ({"scheduler": 3}, "scheduler must be a Scheduler object or a Hypothesis strategy of them, got 3"),
    ],
)
def test_invalid_arguments_are_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(gs.ScenarioError) as excinfo:
        check_scheduler(**{"scheduler": gs.Fcfs(), "hash_seeds": False, **arguments})
    assert str(excinfo.value).startswith(message)


@pytest.mark.parametrize("handler", ["start", "on_share"])
def test_exit_of_the_process_breaks_the_invariant_named_runs(
    handler: str, faulty_module: Any, tmp_path: Path
) -> None:
    """The scheduler is saved although its name is too long for a file name."""

    class ExitingPolicy(faulty_module.SharesPolicy):
        def on_share(self, rows: Any) -> None:
            raise SystemExit(0)

    class Long(faulty_module.Shares, frozen=True, kw_only=True):
        name: ClassVar[str] = "ends" * 100

        def start(self, run: Any) -> gs.Policy:
            if handler == "start":
                raise SystemExit(0)
            return ExitingPolicy(run)

    with pytest.raises(ConformanceError, match="SystemExit: 0") as excinfo:
        check_scheduler(Long(), examples=4, hash_seeds=False, folder=tmp_path)
    assert excinfo.value.law == "runs" and excinfo.value.file == str(next(tmp_path.iterdir()))


def test_error_with_cut_cohorts_breaks_the_invariant_named_cohorts(
    faulty_module: Any, tmp_path: Path
) -> None:
    """The scheduler fails with single rows, but not with whole cohorts."""

    class SingleRowPolicy(faulty_module.SharesPolicy):
        def on_share(self, rows: Any) -> None:
            assert len(rows) > 1 or self.run.engine.whole_cohorts, "alone"
            super().on_share(rows)

    class SingleRowScheduler(faulty_module.Shares, frozen=True, kw_only=True):
        def start(self, run: Any) -> gs.Policy:
            return SingleRowPolicy(run)

    with pytest.raises(ConformanceError, match="AssertionError: alone") as excinfo:
        check_scheduler(SingleRowScheduler(), examples=50, hash_seeds=False, folder=tmp_path)
    assert excinfo.value.law == "cohorts" and excinfo.value.file is not None


def test_a_scheduler_with_an_unknown_order_is_reported(faulty_module: Any, tmp_path: Path) -> None:
    class UnknownOrderScheduler(faulty_module.Shares, frozen=True, kw_only=True):
        promised_order = "somehow"

    with pytest.raises(ConformanceError, match="Scheduler.promised_order") as excinfo:
        check_scheduler(UnknownOrderScheduler(), examples=5, hash_seeds=False, folder=tmp_path)
    assert excinfo.value.law == "order"


def test_a_scheduler_with_an_unknown_kind_of_foresight_is_reported(
    faulty_module: Any, tmp_path: Path
) -> None:
    class UnknownForesightScheduler(faulty_module.Shares, frozen=True, kw_only=True):
        foresees = ("weather",)

    with pytest.raises(ConformanceError, match="Scheduler.foresees") as excinfo:
        check_scheduler(UnknownForesightScheduler(), examples=5, hash_seeds=False, folder=tmp_path)
    assert excinfo.value.law == "foresight"


@pytest.mark.parametrize("seed", range(4))
def test_mean_up_time_counts_as_known(seed: int) -> None:
    """Checkpoint intervals by Young's formula use it, even for a list of failures."""
    faults = gs.Faults.of([0, 1, 0, 1], [40.0, 90.0, 300.0, 500.0], [45.0, 95.0, 310.0, 510.0])
    workload = gs.Workload.of([0.0, 20.0, 200.0], 4, 50_000.0)
    scenario = gs.Scenario(gs.Platform.equal(3, 1000.0), workload, seed=seed, faults=faults)
    assert foresight_violation(scenario, gs.WqrFt(checkpoint_cost=2.0), math.inf, set()) is None


def test_tasks_of_cancelled_jobs_that_have_ended_keep_their_run_times() -> None:
    """The machine learns that a job is cancelled after the job's only task has ended."""
    requested, cancel_at = [1.0] * 6, [math.inf] * 6
    requested[2], cancel_at[2] = 59.0, 60.9
    workload = gs.Workload.jobs_of([0.0] * 6, 1, 1.0, requested, 0, cancel_at=cancel_at, origin=0.0)
    network = gs.Network(latency=2.0, bandwidth=math.inf, interfaces="fifo")
    scenario = gs.Scenario(gs.Platform.equal(6, 1000.0), workload, network, seed=0)
    assert foresight_violation(scenario, gs.DgsAsap(degree=3), 1e5, set()) is None


def test_registered_scheduler_is_saved_with_its_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conformance, "validate_result", lambda result: ["everything"])
    with pytest.raises(ConformanceError, match="everything") as excinfo:
        check_scheduler(
            gs.FairTree(bound=1.25, samples=(4, 3, 2)), examples=2, folder=tmp_path, hash_seeds=False
        )
    saved = gs.Scenario.from_toml(tmp_path / "fair-tree-sound.toml")
    assert saved.schedulers["fair-tree"]["bound"] == 1.25
    assert excinfo.value.scheduler == gs.FairTree(bound=1.25, samples=(4, 3, 2))


def test_parameter_that_is_a_function_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "validate_result", lambda result: ["everything"])
    scheduler = gs.WqrFt(task_order=_longest_task)
    with pytest.raises(ConformanceError, match="everything") as excinfo:
        check_scheduler(scheduler, examples=1, folder=tmp_path, hash_seeds=False, shrink=False)
    assert gs.Scenario.from_toml(tmp_path / "WQR-FT-sound.toml") == excinfo.value.scenario
    assert "without parameters of the scheduler: schedulers.WQR-FT.task_order" in str(excinfo.value)


def _longest_task(tasks: Any) -> int:
    return int(tasks.residual.argmax())


def test_failures_and_hash_seeds_can_be_excluded(faulty_module: Any, tmp_path: Path) -> None:
    report = check_scheduler(
        faulty_module.TaskLoss(), examples=4, faults=False, hash_seeds=False, folder=tmp_path
    )
    assert report.with_failures == 0
    assert report.left_out == {"failures": "not requested", "hash seed": "not requested"}


def test_scheduler_that_cannot_handle_failures_gets_none(faulty_module: Any, tmp_path: Path) -> None:
    class NoFailuresPolicy(faulty_module.SharesPolicy):
        on_faults = gs.Policy.on_faults

    class NoFailuresScheduler(faulty_module.Shares, frozen=True, kw_only=True):
        def start(self, run: Any) -> gs.Policy:
            return NoFailuresPolicy(run)

    report = check_scheduler(NoFailuresScheduler(), examples=4, hash_seeds=False, folder=tmp_path)
    assert report.with_failures == 0 and "does not support" in report.left_out["failures"]
    with pytest.raises(gs.ScenarioError, match="must be importable by other interpreters"):
        check_scheduler(NoFailuresScheduler(), examples=1, folder=tmp_path)


@pytest.mark.parametrize("argument", [gs.FairTree, None, "fair-tree"])
def test_argument_that_is_no_scheduler_is_rejected(argument: Any) -> None:
    with pytest.raises(gs.ScenarioError, match="^scheduler"):
        check_scheduler(argument)


class EndlessNode(gs.NodeProgram):
    """Node that never runs a task, and sends a message to its neighbours every two seconds."""

    def on_start(self, view: Any) -> None:
        view.timer(2.0, "again")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        pass

    def on_message(self, view: Any, message: Any) -> None:
        pass

    def on_timer(self, view: Any, name: str) -> None:
        view.timer(2.0, name)
        for to in view.neighbours:
            view.send(to, "ask")


class EndlessScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = EndlessNode
    messages: ClassVar[dict[str, gs.Message]] = {"ask": gs.Message(100)}
    timers: ClassVar[tuple[str, ...]] = ("again",)


def test_endless_run_is_reported(tmp_path: Path) -> None:
    text = (
        r"did not end within events_limit = 200000 \(\d+ events so far\); (most mess.* kind 'ask'|no message)"
    )
    with pytest.raises(ConformanceError, match=text):
        check_scheduler(EndlessScheduler(), examples=5, hash_seeds=False, max_nodes=3, folder=tmp_path)
    with pytest.raises(gs.SchedulerError, match="events_limit = 30000"):
        gs.simulate(_small(), EndlessScheduler(), events_limit=30_000)


class HangingNode(gs.NodeProgram):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        while tasks:
            tasks = max(tasks, 1)


class HangingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "hanging"
    policy = HangingNode


# if the time is up while callbacks of the garbage collector run, the error is ignored there, and raised again
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_handler_that_never_returns_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(introspection, "WALL_TIME_LIMIT", 0.5)
    message = r"has not ended after 0.5 s; it is in HangingNode.on_release, .*test_conformance.py:\d+"
    with pytest.raises(ConformanceError, match=message):
        check_scheduler(HangingScheduler(), examples=5, hash_seeds=False, max_nodes=3, folder=tmp_path)


def _small() -> gs.Scenario:
    workload = gs.Workload.of(release=[0.0], tasks=[1], task_size=[1000.0], submitter=[0])
    return gs.Scenario(gs.Platform.of([1000.0] * 3), workload)
