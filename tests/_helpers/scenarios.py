"""Strategies for all schedulers of gridsim, for the invariants."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from gridsim.schedulers import (
    Advertisement,
    Asap,
    BatchQueue,
    DgsAsap,
    ExpandingRing,
    FairTree,
    Fcfs,
    IdealTree,
    JoinIdleQueue,
    JoinShortestQueue,
    KPercentBest,
    LeastWork,
    MaxMin,
    Mct,
    Met,
    MinCent,
    MinMin,
    NoMigration,
    Olb,
    PowerOfD,
    Random,
    RandomWalkSearch,
    Rendezvous,
    ResourceExclusion,
    Rjss,
    RoundRobin,
    Sufferage,
    SwitchingAlgorithm,
    Wave,
    WorkStealing,
    WqrFt,
)
from gridsim.schedulers.wqr.policies import POLICIES
from gridsim.scheduling.contract import Outcome, Policy, Run, Scheduler

CENTRAL: dict[str, Scheduler] = {
    "replan": MinCent(),
    "once": MinCent(mode="once"),
    "ideal": IdealTree(),
    "ect": Fcfs(),
    "pull": Fcfs(mode="pull"),
    "random": Fcfs(mode="random"),
}

MAPPING: dict[str, Scheduler] = {
    "mct": Mct(),
    "met": Met(),
    "olb": Olb(),
    "switching": SwitchingAlgorithm(low=0.3, high=0.5),
    "k-percent-best": KPercentBest(percent=40.0),
    "min-min": MinMin(),
    "max-min": MaxMin(),
    "sufferage": Sufferage(),
    "max-min, at times": MaxMin(interval=7.0),
    "sufferage, at times": Sufferage(interval=3.0),
}


def fair_trees(**fixed: Any) -> st.SearchStrategy[FairTree]:
    """Return a strategy for the fair tree with any parameters that affect its decisions."""
    free: dict[str, st.SearchStrategy[Any]] = {
        "accept": st.sampled_from(("minimum", "minimum", "root", "largest", "either")),
        "bound": st.sampled_from((0.0, 1.0, 2.0, 1e9)),
        "samples": st.sampled_from((720, 30, (4, 3, 2), (10, 9, 8), (1, 1, 1))),
        "update_rate": st.sampled_from((0.0, 10_000.0, 500.0)),
        "update_on": st.sampled_from(("completion", "change")),
        "hold_off": st.sampled_from((0.0, 0.03)),
        "release_cell": st.sampled_from((0.0, 0.0, 300.0, 7.0)),
        "refresh": st.sampled_from((0.0, 0.0, 5.0)),
        "entry": st.sampled_from(("own-router", "parent")),
        "minimum_of": st.sampled_from(("busy", "all", "inverse-speed")),
        "spread": st.sampled_from(("heartbeat", "heartbeat", "change")),
        "heartbeat": st.sampled_from((300.0, 20.0)),
        "run_on": st.booleans(),
        "repair": st.sampled_from((0.0, 0.0, 3.0, 400.0)),
        "resubmit": st.sampled_from(("as-is", "as-is", "new")),
        "stretch": st.sampled_from(("exact", "exact", "bisection")),
        "tolerance": st.sampled_from((1e-9, 0.01)),
        "data": st.sampled_from(("aware", "aware", "ignored")),
        "data_samples": st.sampled_from((3, 1, (0.0, 1.0, 100.0))),
        "needs": st.sampled_from(("aware", "aware", "ignored")),
        "need_samples": st.sampled_from((4, 1, 2)),
    }
    free |= {name: st.just(value) for name, value in fixed.items()}

    def build(**parameters: Any) -> FairTree:
        if parameters["accept"] != "minimum":
            parameters["minimum_of"] = "all"
        return FairTree(**parameters)

    return st.builds(build, **free)


#: The methods to search for idle hosts, with the further parameters of each.
SEARCHES: dict[str, tuple[type[Scheduler], dict[str, st.SearchStrategy[Any]]]] = {
    "expanding-ring": (ExpandingRing, {"max_hops": st.integers(1, 4)}),
    "random-walk-search": (RandomWalkSearch, {"walkers": st.integers(1, 3), "steps": st.integers(1, 9)}),
    "advertisement": (Advertisement, {"scope": st.integers(1, 3)}),
    "rendezvous": (
        Rendezvous,
        {
            "share": st.sampled_from((0.0, 0.3, 1.0)),
            "scope": st.integers(1, 3),
            "pick": st.sampled_from(("longest", "random")),
            "refresh": st.sampled_from((7.0, 300.0, float("inf"))),
        },
    ),
}


def searches(name: str) -> st.SearchStrategy[Scheduler]:
    """Return a strategy for a search for idle hosts, with times up to the scale of the scenarios."""
    method, own = SEARCHES[name]
    free = {
        "degree": st.integers(1, 4),
        "hop_time": st.sampled_from((0.1, 2.5)),
        "retry": st.sampled_from((1.0, 30.0)),
        "promise": st.sampled_from((0.05, 20.0)),
    }
    return st.builds(method, **free, **own)


def work_queues(**fixed: Any) -> st.SearchStrategy[WqrFt]:
    """Return a strategy for WQR-FT, with costs and intervals on the scale of the scenarios."""
    free: dict[str, st.SearchStrategy[Any]] = {
        "max_replicas": st.integers(1, 4),
        "checkpoint_interval": st.sampled_from((1.0, 5.0, 60.0, float("inf"))),
        "checkpoint_cost": st.sampled_from((0.0, 0.5, 10.0)),
        "restore_cost": st.sampled_from((0.0, 2.0)),
        "checkpoint_store": st.sampled_from(("server", "local")),
    }
    free |= {name: st.just(value) for name, value in fixed.items()}
    predictions = st.sampled_from(
        ({}, {"prediction_error": 0.5}, {"predictor": "past"}, {"predictor": "age"})
    )
    policies = st.sampled_from(sorted(POLICIES.values()))
    return st.builds(
        lambda policy, prediction, **rest: WqrFt(
            **{"task_order": policy[0], "machine_choice": policy[1], **prediction, **rest}
        ),
        policies,
        predictions,
        **free,
    )


CLASSICS = (Random, RoundRobin, PowerOfD, JoinShortestQueue, LeastWork, JoinIdleQueue, WorkStealing)
WALKERS: dict[str, type[Scheduler]] = {
    "rjss": Rjss,
    "resource-exclusion": ResourceExclusion,
    "no-migration": NoMigration,
}


def volunteers(name: str, latency: Any) -> st.SearchStrategy[Scheduler]:
    """Return a strategy for RJSS or resource exclusion on volunteers' machines, with any parameters."""
    common: dict[str, st.SearchStrategy[Any]] = {
        "k": st.sampled_from((0.1, 0.5, 1.0)),
        "probe_latency": st.just(latency),
        "dispatcher": st.sampled_from(("queue", "parallel")),
        "on_return": st.sampled_from(("restart", "home", "migrate")),
        "predictor": st.sampled_from(("none", "exact", "past", "age")),
        "prefer": st.sampled_from(("stay", "completion")),
        "state": st.sampled_from((0, 5000)),
        "retry": st.sampled_from((20.0, 600.0)),
    }
    if name == "resource-exclusion":
        return st.builds(ResourceExclusion, reading=st.sampled_from(("completion", "fastest")), **common)
    rules = st.sampled_from(("exactly-one", "at-least-one", "none"))
    return st.builds(Rjss, rule=rules, pick=st.sampled_from(("first", "best")), **common)


def walkers(name: str, latency: Any) -> st.SearchStrategy[Scheduler]:
    """Return a strategy for RJSS or one of its baselines, with any parameters and this latency of probes."""
    if name == "no-migration":
        return st.just(NoMigration())
    common: dict[str, st.SearchStrategy[Any]] = {
        "k": st.sampled_from((0.0, 0.1, 0.5, 1.0)),
        "probe_latency": st.just(latency),
        "dispatcher": st.sampled_from(("queue", "parallel")),
        "load_packet": st.sampled_from((0, 100)),
        "overlay": st.sampled_from((None, None, 1, 3)),
    }
    if name == "resource-exclusion":
        readings = st.sampled_from(("completion", "fastest"))
        slowest = st.sampled_from((None, 0.0, 1500.0))
        return st.builds(ResourceExclusion, reading=readings, min_speed=slowest, **common)
    return st.builds(
        Rjss,
        rule=st.sampled_from(("exactly-one", "at-least-one", "none")),
        pick=st.sampled_from(("first", "best")),
        turnaround=st.sampled_from(("complete", "complete", "printed")),
        local_threshold=st.sampled_from((0.5, 0.2)),
        remote_threshold=st.sampled_from((1.0, 0.1, float("inf"))),
        **common,
    )


def waves(mode: Any) -> st.SearchStrategy[Wave]:
    """Return a strategy for a wave scheduler; waits and costs are on the scale of the scenarios."""
    return st.builds(
        Wave,
        mode=st.just(mode),
        linger=st.sampled_from((0.0, 0.2, 30.0, 500.0)),
        migration_cost=st.sampled_from((0.0, 0.5, 10.0)),
    )


class Witness(Scheduler, frozen=True, kw_only=True):
    """Wrapper of a scheduler that stores its outcomes."""

    inner: Scheduler
    outcomes: list[Any]

    def start(self, run: Run) -> Policy:
        policy = self.inner.start(run)
        finish = policy.finish

        def finish_and_record() -> Outcome:
            self.outcomes.append(finish())
            return self.outcomes[-1]

        policy.finish = finish_and_record
        return policy


RIGID = [
    Asap(slot=30.0),
    Asap(estimate="requested"),
    BatchQueue(),
    BatchQueue(estimate="requested"),
    BatchQueue(backfill="none"),
]


def dgs_asaps() -> st.SearchStrategy[DgsAsap]:
    """Return a strategy for DGS_ASAP with any parameters."""
    return st.builds(
        DgsAsap,
        forward=st.integers(1, 6),
        degree=st.sampled_from((1, 3, 6, 6, 12)),
        policy=st.sampled_from(("push", "pull", "poll")),
        poll_period=st.sampled_from((1.0, 120.0)),
        overlay=st.sampled_from(("static", "cyclon")),
        cycle=st.sampled_from((7.0, 600.0)),
        slot=st.sampled_from((1.0, 60.0, 300.0)),
        hops=st.integers(1, 3),
        candidates=st.sampled_from(("all", "others")),
        wide=st.sampled_from(("widen", "fail")),
        estimate=st.sampled_from(("run", "requested")),
        early=st.sampled_from(("release", "keep")),
        rounds=st.integers(1, 3),
        retry=st.sampled_from((5.0, 600.0)),
        tries=st.sampled_from((2, 100)),
        detection=st.sampled_from((0.5, 60.0)),
        patience=st.sampled_from((3.0, 120.0)),
    )
