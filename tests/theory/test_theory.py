"""Experiments of `gridsim theory` pass with the engine, and detect planted faults."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.schedulers.classics.node import PowerNode
from gridsim.schedulers.classics.scheduler import PowerOfD
from gridsim.theory import check_theory, formulas, study
from gridsim.theory.experiments import EXPERIMENTS, ExperimentSize, LittlesLaw, QueueModel
from gridsim.theory.study import Row, check_experiment, interval

SEED = 1
KNOWN = {each.name: each for each in EXPERIMENTS}


def queue(name: str, small: ExperimentSize, scheduler: gs.Scheduler | None = None) -> QueueModel:
    """Return the experiment with another size and scheduler, interpreted."""
    experiment = KNOWN[name]
    assert isinstance(experiment, QueueModel)
    make = (lambda _: scheduler) if scheduler is not None else experiment.scheduler
    return dataclasses.replace(experiment, small=small, scheduler=make, nodes=False)


def verdicts(rows: list[Row]) -> dict[str, bool]:
    return {row.quantity: row.inside for row in rows}


#: Slow experiments -> a faster one with the same formula, or of which it is a special case.
COVERED_BY = {
    "supermarket-0.9": "supermarket-0.5",
    "supermarket-0.95": "supermarket-0.5",
    "mm1": "mg1",
    "md1": "mg1",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each.name, marks=[pytest.mark.slow] if each.name in COVERED_BY else [])
        for each in EXPERIMENTS
        if each.small is not None
    ],
)
def test_small_experiments_agree_with_theory(name: str) -> None:
    """Even if the engine is correct, each row is outside its interval for one seed in a hundred."""
    actual = check_theory([name], seed=SEED)
    assert actual.passed, actual.format()


@pytest.mark.claims
def test_full_experiments_agree_with_theory() -> None:
    actual = check_theory(full=True, workers=None)
    assert actual.passed, actual.format()
    [row] = [row for row in actual.rows if (row.experiment, row.quantity[:4]) == ("supermarket-0.9", "mean")]
    assert row.measured.mean == pytest.approx(2.6141, rel=0.005)


# -- planted faults ---------------------------------------------------------------------------------------


def lose_one_arrival_in_a_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove arrivals between scenario and engine."""
    realize = gs.Workload.realize

    def realize_lossy(self: gs.Workload, platform: gs.Platform) -> Any:
        applications = realize(self, platform)
        kept = np.arange(len(applications)) % 1000 != 500
        columns = [getattr(applications, name) for name in type(applications).__slots__]
        return type(applications)(*(None if column is None else column[kept] for column in columns))  # type: ignore[arg-type]

    monkeypatch.setattr(gs.Workload, "realize", realize_lossy)
    monkeypatch.setattr("gridsim.simulation.simulate._LAST_WORKLOAD._entry", None)


def test_a_lost_arrival_in_a_thousand_breaks_littles_law(monkeypatch: pytest.MonkeyPatch) -> None:
    law = LittlesLaw(
        "law",
        "",
        False,
        ExperimentSize(1, 16, 125.0, 0.0),
        ExperimentSize(1, 16, 125.0, 0.0),
        scheduler_names=("fcfs",),
    )
    assert verdicts(check_experiment(law)) == {"mean number / (rate x mean response) - 1": True}
    lose_one_arrival_in_a_thousand(monkeypatch)
    [row] = check_experiment(law)
    assert not row.inside and row.measured.mean > 1e-4


class LowestNode(PowerNode):
    """Node that breaks ties towards the lowest machine."""

    def on_answer(self, view: Any, message: Any) -> None:
        application, answers = self.requests[message.request]
        load = message.load + 0.5 * message.sender / view.machines
        self.answers[message.request * self.width + answers] = (message.sender, load)
        self.requests[message.request] = (application, answers + 1)
        if answers + 1 == self.width:
            self.decide(view, message.request)


class LowestNumberScheduler(PowerOfD, frozen=True, kw_only=True):
    policy = LowestNode


def test_biased_ties_change_the_shares() -> None:
    """Servers are alike, so the winner of a tie affects no queue length, only the shares of machines."""
    size = ExperimentSize(6, 20, 100.0, 20.0)
    rows = verdicts(check_experiment(queue("supermarket-0.5", size, LowestNumberScheduler(instant=True))))
    assert not rows["share of tasks on the first half"] and rows["mean response, s"]
    assert all(verdicts(check_experiment(queue("supermarket-0.5", size))).values())


class StackNode(gs.NodeProgram):
    """Node that runs the last submitted task first."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.stack: list[int] = []

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.stack.append(application.number)
        if view.work == 0.0:
            self.on_idle(view)

    def on_idle(self, view: Any) -> None:
        if self.stack:
            view.enqueue(self.stack.pop(), 1)


class StackScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "stack"
    policy = StackNode
    local_order = "fifo"


def test_last_come_first_served_changes_the_mean_square() -> None:
    """The mean wait does not depend on the order of service, but its mean square does."""
    rows = verdicts(check_experiment(queue("mm1", ExperimentSize(6, 20, 600.0, 200.0), StackScheduler())))
    assert not rows["mean square of the wait, s^2"]
    assert rows["mean wait, s"] and rows["share of jobs that wait"]


# -- intervals, command -----------------------------------------------------------------------------------


def test_intervals_have_the_stated_coverage() -> None:
    draw = np.random.Generator(np.random.PCG64(1))
    actual = [interval(row) for row in draw.normal(5.0, 1.0, (1000, 6))]
    share = np.mean([each.low <= 5.0 <= each.high for each in actual])
    assert share == pytest.approx(study.LEVEL, abs=0.01)


def test_the_command_exits_with_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    cli_result = CliRunner().invoke(
        cli, ["theory", "availability", "--workers", "1", "--seed", str(SEED), "--json"]
    )
    answer = json.loads(cli_result.stdout)
    assert cli_result.exit_code == 0 and answer["passed"] and len(answer["rows"]) == 3
    monkeypatch.setattr("gridsim.theory.formulas.availability", lambda up, down: 0.5)
    cli_result = CliRunner().invoke(cli, ["theory", "availability", "--workers", "1"])
    assert (
        cli_result.exit_code == 1 and "OUTSIDE" in cli_result.stdout and "2 of 3 outside" in cli_result.stdout
    )
    for name, message in (("mm2", "unknown experiment 'mm2'"), ("supermarket-0.99", "requires --full")):
        cli_result = CliRunner().invoke(cli, ["theory", name])
        assert cli_result.exit_code == 2 and message in cli_result.stderr


def test_special_cases_of_queues_agree() -> None:
    # M/M/1 by three formulas; a deterministic service halves the wait
    assert formulas.mg1_wait(0.8, 2.0) == pytest.approx(4.0)
    assert formulas.mmc_wait(1, 0.8) == pytest.approx(4.0)
    assert formulas.mg1_wait(0.8, 1.0) == pytest.approx(2.0)
    # the wait in M/M/1 is 0 with probability 1 - load, else exponential of rate 1 - load
    assert formulas.mg1_squared_wait(0.8, 2.0, 6.0) == pytest.approx(0.8 * 2 / 0.2**2)
    # one choice: every server is an M/M/1 queue
    assert formulas.lognormal_moments(0.0) == (1.0, 1.0)


def test_erlang_c_equals_its_definition_as_a_sum() -> None:
    servers, load = 7, 0.9
    terms = [(servers * load) ** k / math.factorial(k) for k in range(servers)]
    last = (servers * load) ** servers / math.factorial(servers) / (1 - load)
    assert formulas.erlang_c(servers, load) == pytest.approx(last / (sum(terms) + last))


def test_the_supermarket_model_is_corrected_for_finite_systems() -> None:
    """Mean number of jobs a server by Gast and Van Houdt (2017): 2.3527 in the limit, 2.7513 with 10."""
    assert 0.9 * formulas.supermarket(0.9, 2) == pytest.approx(2.3527, abs=5e-5)
    assert 0.9 * formulas.supermarket(0.9, 2, 10) == pytest.approx(2.7513, abs=5e-5)


def test_the_formula_of_join_idle_queue_has_known_limits() -> None:
    # with many reports, no job waits
    assert formulas.join_idle_queue(0.5, 1e4) == pytest.approx((1.0, 0.0), abs=1e-3)
    # the closed form is close where few random jobs meet idle servers
    response, _ = formulas.join_idle_queue(0.9, 10.0)
    assert formulas.join_idle_queue_approximation(0.9, 10.0) == pytest.approx(response, rel=0.01)


def test_reports_of_join_idle_queue_arise_at_the_rate_of_their_use() -> None:
    share = formulas._server_distribution(0.3, 2.0)
    flow = 0.3 + 2.0 * float(share.sum(0) @ np.arange(share.shape[1]))
    assert share.min() > -1e-15 and share.sum() == pytest.approx(1.0)
    assert share[1:].sum() == pytest.approx(flow)  # the sum is the throughput
    assert share[1].sum() == pytest.approx(flow - 0.3)  # reports arise at the rate of their use
