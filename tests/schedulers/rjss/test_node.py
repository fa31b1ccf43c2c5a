"""The node program of RJSS and compared schedulers equals the compiled form, message by message.

The node program is the reference of the kernel `gridcore.random_walk.walk`: scenarios and parameters are
drawn from all that the kernel distinguishes.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.model.applications import Applications
from gridsim.results.decisions import DECISIONS_LIMIT
from gridsim.schedulers.rjss.node import RjssNode
from gridsim.scheduling.overlays import random_neighbours
from gridsim.support.random_streams import Streams
from gridsim.testing.resuming import resume_difference
from tests.schedulers.rjss.test_scheduler import ALL, one_second_network, small_scenario, streams

HANDLERS = ("on_probe", "on_load", "on_job", "on_result", "on_walk", "on_passed", "on_scheduled")


def assert_equal(scenario: gs.Scenario, scheduler: gs.Scheduler, **options: Any) -> gs.Result:
    """Compare both forms: digest, schedule, arrivals, decisions, and messages one by one, in order."""
    options = {"record": "all", **options}
    compiled = gs.simulate(scenario, scheduler, nodes="compiled", **options)
    interpreted = gs.simulate(scenario, scheduler, nodes="interpreted", **options)
    for name, table in compiled.tables.items():
        assert interpreted.tables[name] == table, name
    assert interpreted.digest == compiled.digest
    for name in ("decisions", "message_log"):
        assert interpreted.provenance.get(name) == compiled.provenance.get(name)
    return interpreted


# -- random scenarios -----------------------------------------------------------------------------------

_SECONDS = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 7.0]) | st.floats(0.0, 10.0)
_MFLOP = st.sampled_from([50.0, 100.0, 250.0, 300.0, 1000.0, 2000.0]) | st.floats(1.0, 3000.0)
_RATES = st.sampled_from([math.nan, 0.0, 0.2, 0.5, 1.0, 3.0])


@dataclass(frozen=True)
class RatedWorkload(gs.Workload):
    """Workload with the rate of releases of each machine, jobs/s."""

    rates: tuple[float, ...] = ()

    def realize(self, platform: gs.Platform) -> Applications:
        """Return the applications with these rates."""
        return replace(super().realize(platform), rates=np.array(self.rates))


class AnyRuleRjss(gs.Rjss, frozen=True, kw_only=True):
    """RJSS with the rules of its rivals, so that all conditions of the kernel are combined."""

    name = "any-rule"

    pick: Literal["first", "best", "fastest"] = "first"  # type: ignore[assignment]
    slowest: float = 0.0

    @property
    def least_speed(self) -> float:
        """The speed below which nodes are passed over, Mflop/s."""
        return self.slowest


@st.composite
def scenarios(draw: st.DrawFn) -> gs.Scenario:
    """Draw few machines and round times, so that many events coincide."""
    speeds = draw(st.lists(st.sampled_from([100.0, 200.0, 150.0, 333.3]), min_size=1, max_size=8))
    count = draw(st.integers(1, 14))
    release = draw(st.lists(_SECONDS, min_size=count, max_size=count))
    home = draw(st.lists(st.integers(0, len(speeds) - 1), min_size=count, max_size=count))
    if draw(st.booleans()):
        sizes = st.lists(_MFLOP, min_size=1, max_size=3)
        bags = gs.Workload.of_tasks(release, draw(st.lists(sizes, min_size=count, max_size=count)), home)
    else:
        tasks = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
        data = st.sampled_from([0, 100, 1000, 5000])
        bags = gs.Workload.of(
            release, tasks, draw(_MFLOP), home, draw(st.lists(data, min_size=count, max_size=count))
        )
    if draw(st.booleans()):
        rates = draw(st.lists(_RATES, min_size=len(speeds), max_size=len(speeds)))
        bags = RatedWorkload(bags.recipe, tuple(rates))
    latency = draw(st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 1.0, 2.0]))
    network = gs.Network(
        latency=latency,
        bandwidth=draw(st.sampled_from([777.0, 1000.0, 125_000.0, 1e6, math.inf])),
        interfaces=draw(st.sampled_from(["fifo", "equal"])),
        jitter=latency * draw(st.sampled_from([0.0, 0.0, 0.5])),
    )
    cores = st.lists(st.sampled_from([1, 2, 2, 3]), min_size=len(speeds), max_size=len(speeds))
    platform = gs.Platform.of(speeds, cores=draw(st.none() | cores))
    return gs.Scenario(platform, bags, network, seed=draw(st.integers(0, 99)))


@st.composite
def schedulers(draw: st.DrawFn) -> gs.Scheduler:
    common: dict[str, Any] = {
        "k": draw(st.sampled_from([0.0, 0.3, 0.5, 1.0, 1.0])),
        # if the time is an odd number of ns, the way out and the way back differ by 1 ns
        "probe_latency": draw(st.sampled_from([0.0, "network", 0.5, 1.0, 3e-9, 0.7, 0.100000001])),
        "dispatcher": draw(st.sampled_from(["queue", "parallel"])),
        "load_packet": draw(st.sampled_from([0, 100])),
        "overlay": draw(st.sampled_from([None, None, 1, 2, 3])),
    }
    kind = draw(st.sampled_from([gs.Rjss, gs.ResourceExclusion, AnyRuleRjss, AnyRuleRjss]))
    if kind is gs.ResourceExclusion:
        return gs.ResourceExclusion(
            reading=draw(st.sampled_from(["completion", "fastest"])),
            min_speed=draw(st.sampled_from([None, 0.0, 120.0])),
            **common,
        )
    if kind is AnyRuleRjss:
        common["slowest"] = draw(st.sampled_from([0.0, 150.0]))
    return kind(
        rule=draw(st.sampled_from(["exactly-one", "at-least-one", "at-least-one", "none"])),
        pick=draw(st.sampled_from(["first", "best"] if kind is gs.Rjss else ["first", "best", "fastest"])),
        turnaround=draw(st.sampled_from(["complete", "printed"])),
        local_threshold=draw(st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 1.0, math.inf])),
        remote_threshold=draw(st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0, math.inf, math.inf])),
        **common,
    )


@settings(max_examples=4 * settings().max_examples)
@given(scenarios(), schedulers(), st.sampled_from([DECISIONS_LIMIT, 9]))
def test_both_forms_give_the_same_result(scenario: gs.Scenario, scheduler: gs.Scheduler, limit: int) -> None:
    assert_equal(scenario, scheduler, decisions_limit=limit, messages_limit=limit)


@pytest.mark.parametrize("rule", ["none", "exactly-one", "at-least-one"])
@pytest.mark.parametrize("pick", ["first", "best", "fastest"])
def test_both_forms_agree_on_many_jobs(pick: Any, rule: Any) -> None:
    """There are more nodes and jobs than in the drawn scenarios, and answers come after an odd time."""
    rng = np.random.default_rng(3)
    bags = gs.Workload.of(
        np.sort(rng.uniform(0.0, 20.0, 60)),
        1,
        rng.uniform(50.0, 1500.0, 60),
        rng.integers(0, 12, 60),
        rng.integers(0, 3000, 60),
    )
    rates = tuple(rng.choice([math.nan, 0.2, 1.0], 12).tolist())
    scenario = gs.Scenario(
        gs.Platform.of(rng.choice([50.0, 100.0, 150.0, 0.6], 12)),
        RatedWorkload(bags.recipe, rates),
        gs.Network(latency=0.1, bandwidth=1e4, interfaces="equal"),
        seed=1,
    )
    result = assert_equal(scenario, AnyRuleRjss(k=0.3, pick=pick, rule=rule, probe_latency=0.200000001))
    assert result.migrated > 0


def test_both_forms_agree_if_half_of_a_probe_takes_no_time() -> None:
    """Half of 1 ns is no time; the order at one instant may then differ, so no events coincide here."""
    assert_equal(streams(12, horizon=100.0), gs.Rjss(k=0.5, probe_latency=1e-9))


@pytest.mark.parametrize("name", ALL)
def test_both_forms_agree_on_job_streams_with_rates(name: str) -> None:
    """The workload states the rate of each node, which only this node knows."""
    scenario = streams(20, horizon=150.0)
    assert scenario.workload.realize(scenario.platform).rates is not None
    assert_equal(scenario, ALL[name])


def test_compiled_form_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("a handler was called")

    monkeypatch.setattr(RjssNode, "on_release", fail)
    gs.simulate(small_scenario([100.0, 200.0]), gs.Rjss(k=1.0))
    with pytest.raises(AssertionError, match="a handler was called"):
        gs.simulate(small_scenario([100.0, 200.0]), gs.Rjss(k=1.0), nodes="interpreted")


# -- every message is an event of the engine ------------------------------------------------------------


@pytest.mark.parametrize("latency", [0.0, 0.5])
@pytest.mark.parametrize("dispatcher", ["queue", "parallel"])
def test_walks_on_given_overlays(latency: float, dispatcher: Any) -> None:
    """Both forms walk over a star with a ring around it, and over the overlay that would be drawn."""
    scenario = streams(12, horizon=100.0)
    hub = [[*range(1, 12)], *([0, 1 + u % 11, 1 + (u - 2) % 11] for u in range(1, 12))]
    options: dict[str, Any] = {"k": 0.5, "probe_latency": latency, "dispatcher": dispatcher}
    drawn = random_neighbours(12, 3, Streams(scenario.seed)("walk overlay"))
    digests = {
        name: {
            gs.simulate(scenario, gs.Rjss(overlay=overlay, **options), nodes=form).digest
            for form in ("compiled", "interpreted")
        }
        for name, overlay in {"hub": hub, "drawn": drawn, "3": 3}.items()
    }
    assert all(len(found) == 1 for found in digests.values())
    assert digests["drawn"] == digests["3"] != digests["hub"]
    with pytest.raises(gs.ScenarioError, match=r"rjss.overlay\[11\] must have a neighbour, got none"):
        gs.simulate(scenario, gs.Rjss(overlay=[*hub[:11], []]))


@pytest.mark.parametrize("latency", [0.0, 0.5, "network"])
@pytest.mark.parametrize("overlay", [None, 3])
def test_each_message_calls_a_handler(
    latency: Any, overlay: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if probes take no time, no node reads the state of another one."""
    calls: Counter[str] = Counter()

    def counting_handler(name: str, handler: Any) -> Any:
        def call(self: Any, *given: Any) -> None:
            calls[name] += 1
            handler(self, *given)

        return call

    for name in (*HANDLERS, "on_release", "on_done"):
        monkeypatch.setattr(RjssNode, name, counting_handler(name, getattr(RjssNode, name)))
    scheduler = gs.Rjss(k=0.5, probe_latency=latency, overlay=overlay)
    result = gs.simulate(streams(12, horizon=100.0), scheduler, nodes="interpreted")
    jobs, messages = result.tables["jobs"], result.tables["messages"]
    sent = dict(zip(messages["kind"].tolist(), messages["sent"].tolist(), strict=True))
    assert list(sent) == ["probe", "load", "job", "result"] and min(sent.values()) > 0
    assert {kind: calls[f"on_{kind}"] for kind in sent} == sent
    assert sent["probe"] == jobs["probes"].sum()
    assert calls["on_release"] == calls["on_done"] == len(jobs)
    # messages that are not counted as traffic also pass through the engine
    assert calls["on_scheduled"] == sent["job"]
    assert calls["on_walk"] == (sent["probe"] if overlay else 0)
    assert calls["on_passed"] == sent["probe"] - sent["load"]
    assert result.provenance["events"] >= sum(calls.values())


def test_nodes_know_only_their_own_rates() -> None:
    scenario = streams(5, horizon=30.0)
    rates = scenario.workload.realize(scenario.platform).rates
    assert rates is not None
    known: dict[int, set[float]] = {}
    judge = RjssNode.judge

    def observed_rate(self: RjssNode, view: gs.View, way: int) -> int:
        known.setdefault(view.node, set()).add(view.environment.rate)
        return judge(self, view, way)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RjssNode, "judge", observed_rate)
        gs.simulate(scenario, gs.Rjss(k=1.0, pick="best"), nodes="interpreted")
    assert known == {node: {rate} for node, rate in enumerate(rates.tolist())}


# -- the rest -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("latency", [0.0, 0.5])
@pytest.mark.parametrize("overlay", [None, 3])
def test_checkpoints_contain_pending_searches(
    latency: float, overlay: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridsim.simulation.simulate._STRIDE", 20)  # jobs between two checks by the engine
    scenario = streams(12, horizon=100.0)
    scheduler = gs.Rjss(k=0.5, probe_latency=latency, overlay=overlay, pick="best")
    result = gs.simulate(scenario, scheduler, record="all", nodes="interpreted")
    assert resume_difference(scenario, scheduler, result, record="all", nodes="interpreted") is None


def test_both_forms_keep_the_same_decisions_up_to_a_limit() -> None:
    scenario, scheduler = streams(8, horizon=60.0), gs.Rjss(k=0.5, probe_latency=0.5)
    forms = [
        gs.simulate(scenario, scheduler, record="decisions", decisions_limit=30, nodes=nodes)
        for nodes in ("compiled", "interpreted")
    ]
    assert forms[0].tables["decisions"] == forms[1].tables["decisions"]
    assert forms[0].provenance["decisions"] == forms[1].provenance["decisions"]


def test_both_forms_agree_if_transfers_take_no_time() -> None:
    """A job arrives at the instant at which it leaves, after all that is released then."""
    network = gs.Network(latency=0.0, bandwidth=float("inf"), interfaces="fifo")
    scenario = small_scenario([100.0, 100.0, 100.0], network, tasks=4, data=0, release=(0.0, 0.0, 10.0))
    result = assert_equal(scenario, gs.Rjss(k=1.0, rule="none"))
    assert result.migrated > 0
    assert_equal(scenario, gs.Rjss(k=1.0, rule="none", probe_latency=5.0, pick="best"))
    assert_equal(small_scenario([100.0, 200.0], one_second_network()), gs.NoMigration())
