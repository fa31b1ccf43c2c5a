"""In virtual time, where no message is late, an emulation equals a simulation to the nanosecond."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given

import gridsim as gs
from gridcore.nodes.kinds import MessageKind
from gridsim.emulation.emulate import result_of
from gridsim.emulation.part import Setup
from gridsim.emulation.virtual import VirtualCoordinator, VirtualWorker
from gridsim.scheduling.nodes.python_mail import Letter
from gridsim.scheduling.registry import make_scheduler, registered
from gridsim.support.clock import NS
from gridsim.support.random_streams import Streams
from gridsim.validation.results import validate_result
from tests.scheduling.nodes.test_all_forms import runs


class NodeOrderWorker(VirtualWorker):
    """Process that reports recorded values at the end, node by node, like one process per node."""

    def __init__(self, setup: Setup, coordinator: VirtualCoordinator) -> None:
        self.noted: list[tuple[Any, ...]] = []
        super().__init__(setup, coordinator)
        coordinator.is_alone = False

    def tell(self, name: str, *values: Any) -> None:
        if name == "note":
            self.noted.append(values)
        else:
            super().tell(name, *values)

    def run_to_end(self) -> None:
        super().run_to_end()
        for now, node, table, row in sorted(self.noted, key=lambda values: -values[1]):
            super().tell("note", now, node, table, row)


class LateSignalsWorker(VirtualWorker):
    """Process whose signals between nodes take up to `longest` seconds, and stay in order between two nodes.

    Usually they take no time.
    """

    longest = 3.0

    def run_to_end(self) -> None:
        self.chance, self.last = Streams(5)("late signals"), dict[tuple[int, int], int]()
        self.core.mail.send = self.send  # type: ignore[method-assign]
        super().run_to_end()

    def send(self, now: int, kind: MessageKind, letters: Sequence[Letter]) -> None:
        """Send signals."""
        for letter in letters:
            between = letter.message.sender, letter.to
            due = now + round(self.chance.uniform(0.0, self.longest) * NS)
            due = self.last[between] = max(due, self.last.get(between, 0) + 1)
            self.core.push(due, self.deliver, kind, letter)

    def deliver(self, kind: MessageKind, letter: Letter) -> None:
        """Deliver a signal, even if its receiver has restarted since."""
        if self.core.up[letter.to]:
            self.core._deliver(kind, letter.to, letter.message)


def run_in_virtual_time(
    scenario: gs.Scenario, scheduler: gs.Scheduler, process: type[VirtualWorker] = VirtualWorker
) -> gs.Result:
    setup = Setup(
        scenario=scenario,
        scheduler=scheduler,
        processes=1,
        speedup=math.inf,
        modelled=True,
        spin=False,
        kill=False,
        secret=b"",
    )
    coordinator = VirtualCoordinator(setup, None, process)
    coordinator.execute()
    return result_of(coordinator)


def bags(cores: Any = None, **further: Any) -> gs.Scenario:
    workload = gs.Workload.bags(applications=6, interarrival=40.0, tasks_per_node=1.5, seed=2)
    return gs.Scenario(gs.Platform.desktop_grid(nodes=30, seed=1, cores=cores), workload, seed=3, **further)


def rigid(asked: float = 1.0) -> gs.Scenario:
    """Return rigid jobs whose requested times are `asked` times their run times."""
    run_time = [30.0 + 11.0 * k for k in range(30)]
    jobs = gs.Workload.jobs_of(
        release=[7.3 * k for k in range(30)],
        nodes=[1 + 7 * k % 9 for k in range(30)],
        run_time=run_time,
        requested=[asked * item for item in run_time],
    )
    places = gs.DrawnAttributes(side=1.0)
    return gs.Scenario(gs.Platform.equal(30, attributes=places), jobs, seed=3)


OWN = {name: {"cutoff": 3000.0} for name in ("hawk", "eagle", "lwl", "dlwl")}
#: The registered schedulers that can be emulated.
EMULATED = sorted(name for name, (kind, _) in registered().items() if "interpreted" in kind.node_forms)
FAULTS = gs.Faults.of([3, 17, 3, 8, 9], [50.0, 71.0, 120.0, 90.0, 0.0], [80.0, 71.0, 125.0, 300.0, 5.0])


@pytest.mark.parametrize("name", EMULATED)
def test_emulations_in_virtual_time_have_the_digests_of_simulations(name: str) -> None:
    scheduler = make_scheduler(name, OWN.get(name))
    scenario = rigid() if scheduler.rigid else bags()
    emulated = gs.emulate(scenario, scheduler, processes=1, speedup=math.inf)
    assert validate_result(emulated) == []
    assert emulated.digest == gs.simulate(scenario, scheduler, nodes="interpreted").digest


@pytest.mark.parametrize("name", ["sparrow", "eagle", "work-stealing", "join-shortest-queue", "WQR-FT"])
def test_emulations_in_virtual_time_have_the_digests_of_simulations_with_failures(name: str) -> None:
    scenario, scheduler = bags(faults=FAULTS), make_scheduler(name, OWN.get(name))
    emulated = run_in_virtual_time(scenario, scheduler)
    simulated = gs.simulate(scenario, scheduler, nodes="interpreted")
    assert emulated.digest == simulated.digest and emulated.applications["resubmitted"].sum() > 0


@pytest.mark.parametrize("faults", [None, FAULTS], ids=["up", "failures"])
@pytest.mark.parametrize(
    "name",
    ["fair-tree", "join-shortest-queue", "least-work", "sparrow", "eagle", "WQR-FT", "work-stealing", "rjss"],
)
def test_emulated_machines_with_several_cores_have_the_digests_of_simulations(
    name: str, faults: gs.Faults | None
) -> None:
    scheduler = make_scheduler(name, OWN.get(name))
    if name == "fair-tree" or not scheduler.failures:
        faults = None
    scenario = bags(cores=[1 + k % 4 for k in range(30)], faults=faults)
    emulated = run_in_virtual_time(scenario, scheduler)
    assert validate_result(emulated) == []
    assert emulated.digest == gs.simulate(scenario, scheduler, nodes="interpreted").digest


@pytest.mark.parametrize("name", ["dgs-asap", "zorilla"])
def test_rigid_jobs_in_virtual_time_survive_failures_as_in_a_simulation(name: str) -> None:
    scenario, scheduler = dataclasses.replace(rigid(), faults=FAULTS), make_scheduler(name)
    emulated = run_in_virtual_time(scenario, scheduler)
    simulated = gs.simulate(scenario, scheduler, nodes="interpreted")
    assert emulated.digest == simulated.digest and emulated.applications["resubmitted"].sum() > 0


def chains(**further: Any) -> gs.Scenario:
    """Return bags each of which follows the fourth one before, some after a think time."""
    numbers = range(12)
    workload = gs.Workload.of(
        [5.0 * (k % 4) for k in numbers],
        [3 + 7 * k % 40 for k in numbers],
        [2000.0 + 500.0 * k for k in numbers],
        after=[[k - 4] if k >= 4 else [] for k in numbers],
        think_time=[0.0 if k % 3 else 20.0 for k in numbers],
    )
    return dataclasses.replace(bags(**further), workload=workload)


def following_jobs(faults: gs.Faults | None) -> gs.Scenario:
    """Return the rigid jobs, each of which follows two earlier ones."""
    scenario = rigid()
    recipe: Any = scenario.workload.recipe
    after = [[k - 5, k - 3] if k >= 5 else [] for k in range(30)]
    workload = gs.Workload(msgspec.structs.replace(recipe, after=after))
    return dataclasses.replace(scenario, workload=workload, faults=faults)


@pytest.mark.parametrize("faults", [None, FAULTS], ids=["up", "failures"])
@pytest.mark.parametrize("name", ["fair-tree", "sparrow", "work-stealing", "WQR-FT", "dgs-asap", "zorilla"])
def test_releases_after_others_are_those_of_a_simulation(name: str, faults: gs.Faults | None) -> None:
    scheduler = make_scheduler(name)
    faults = None if name == "fair-tree" else faults
    cores = [1 + k % 4 for k in range(30)]
    scenario = following_jobs(faults) if scheduler.rigid else chains(cores=cores, faults=faults)
    emulated = run_in_virtual_time(scenario, scheduler)
    assert validate_result(emulated) == []
    assert emulated.digest == gs.simulate(scenario, scheduler, nodes="interpreted").digest


def test_an_emulation_ends_if_the_last_machine_fails_for_good() -> None:
    faults = gs.Faults.of(range(30), [60.0] * 30, [math.inf] * 30)
    for run in (gs.simulate, run_in_virtual_time):
        with pytest.raises(gs.ScenarioError, match="the last machine failed for good, with 284 tasks"):
            run(bags(faults=faults), gs.WqrFt())


def test_a_release_while_no_machine_is_up_is_lost_and_submitted_again() -> None:
    releases = gs.Workload.of([2.0, 4.0], [1, 5], [500.0, 500.0], submitter=[1, 1])
    scenario = gs.Scenario(
        gs.Platform.equal(2), releases, faults=gs.Faults.of([0, 1], [3.0, 3.0], [5.0, 6.0])
    )
    simulated = gs.simulate(scenario, gs.Sparrow(), nodes="interpreted")
    assert run_in_virtual_time(scenario, gs.Sparrow()).digest == simulated.digest


@given(runs())
def test_drawn_programs_have_the_digests_of_simulations(run: tuple[gs.Scenario, gs.Scheduler]) -> None:
    scenario, scheduler = run
    # messages without delay that are sent at the very end stay in the links of a simulation
    assume(scenario.network.latency > 0)
    try:
        emulated = gs.emulate(scenario, scheduler, processes=1, speedup=math.inf)
    except gs.ScenarioError as error:
        assert "handles the events of machine" in str(error)
        return
    assert emulated.digest == gs.simulate(scenario, scheduler, nodes="python").digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"processes": 2}, "processes must be 1 with speedup=inf, got 2; write processes=1"),
        ({"network": "real"}, "speedup must be finite with kill, network='real'"),
        ({"kill": True}, "speedup must be finite with kill"),
    ],
)
def test_a_virtual_clock_requires_one_process_and_a_modelled_network(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        gs.emulate(bags(faults=FAULTS), gs.Sparrow(), speedup=math.inf, **options)


def test_a_virtual_run_ends_at_its_time_limit() -> None:
    with pytest.raises(gs.ScenarioError, match="time limit of 50 s: .* tasks are completed"):
        gs.emulate(bags(), gs.Sparrow(), processes=1, speedup=math.inf, time_limit=50.0)


def test_a_name_stands_for_the_scheduler_with_the_parameters_of_the_scenario() -> None:
    scenario = dataclasses.replace(
        gs.Scenario(gs.Platform.equal(4), gs.Workload.of([0.0], 9, 1e4), seed=1),
        schedulers={"sparrow": {"probe_ratio": 3.0}},
    )
    arguments = gs.Sparrow(probe_ratio=3.0)
    one, other = (gs.emulate(scenario, item, speedup=math.inf) for item in ("sparrow", arguments))
    assert one.digest == other.digest == gs.simulate(scenario, "sparrow").digest


def test_a_virtual_result_can_be_saved(tmp_path: Path) -> None:
    gs.emulate(bags(), gs.Sparrow(), speedup=math.inf).save(tmp_path / "virtual.npz")
    copy = gs.Result.load(tmp_path / "virtual.npz")
    assert copy.digest == gs.simulate(bags(), gs.Sparrow()).digest and "emulated" in copy.format()


def test_jobs_that_outlast_their_requests_have_the_digest_of_a_simulation() -> None:
    scheduler = make_scheduler("dgs-asap", {"slot": 3.7})
    emulated, simulated = run_in_virtual_time(rigid(0.3), scheduler), gs.simulate(rigid(0.3), scheduler)
    assert emulated.digest == simulated.digest and emulated.facts["extended"] and emulated.facts["displaced"]


def test_table_rows_of_several_processes_are_sorted_by_time() -> None:
    scenario, scheduler = bags(), make_scheduler("random-walk-search")
    result = run_in_virtual_time(scenario, scheduler, NodeOrderWorker)
    assert len(result.tables["hosts"]) > 100 and validate_result(result) == []
    assert result.tables["hosts"]["found"].tolist() == sorted(result.tables["hosts"]["found"])


def late_signals(
    monkeypatch: pytest.MonkeyPatch, longest: float, tasks: float, size: float, faults: gs.Faults | None
) -> gs.Result:
    """Run WQR-FT on 20 machines with signals that take up to `longest` s."""
    monkeypatch.setattr(LateSignalsWorker, "longest", longest)
    workload = gs.Workload.bags(
        applications=3, interarrival=10.0, tasks_per_node=tasks, task_size=(size, 3 * size), seed=1
    )
    scenario = gs.Scenario(gs.Platform.desktop_grid(nodes=20, seed=1), workload, seed=3, faults=faults)
    scheduler = gs.WqrFt(checkpoint_interval=5.0, max_replicas=3)
    return run_in_virtual_time(scenario, scheduler, LateSignalsWorker)


def test_a_run_is_valid_if_task_copies_start_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    result = late_signals(monkeypatch, 20.0, 0.5, 3_000.0, None)
    assert validate_result(result) == []


def test_a_run_is_valid_if_machines_fail_while_signals_are_in_transit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copy may arrive after its machine has failed, or fail after its task is completed."""
    faults = gs.Faults.exponential(up=60.0, down=2.0, seed=1)
    result = late_signals(monkeypatch, 3.0, 1.0, 10_000.0, faults)
    assert validate_result(result) == [] and result.applications["resubmitted"].sum() > 5


class RecordingNode(gs.NodeProgram):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        view.note("seen", x=self.parameters.value)


class RecordingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "noting"
    policy = RecordingNode
    tables: ClassVar[Any] = {"seen": {"x": float}}
    value: ClassVar[Any]


@pytest.mark.parametrize("value", [Fraction(1, 3), 2**70, np.float32(0.5)])
def test_recorded_values_become_numbers_as_in_a_simulation(
    monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    monkeypatch.setattr(RecordingScheduler, "value", value, raising=False)
    emulated = run_in_virtual_time(bags(), RecordingScheduler())
    assert emulated.tables["seen"]["x"].tolist() == [float(value)] * 6


@pytest.mark.parametrize("value", [1j, [], np.arange(3), 2**2000, "1"])
def test_invalid_recorded_values_raise_the_error_of_a_simulation(
    monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    monkeypatch.setattr(RecordingScheduler, "value", value, raising=False)
    with pytest.raises(gs.SchedulerError) as simulated:
        gs.simulate(bags(), RecordingScheduler())
    with pytest.raises(gs.SchedulerError, match=re.escape(str(simulated.value))):
        run_in_virtual_time(bags(), RecordingScheduler())
