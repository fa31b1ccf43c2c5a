"""Small random scenarios, and every scheduler that comes with gridsim, for the laws."""

from __future__ import annotations

from math import inf
from typing import Any

from hypothesis import strategies as st

from gridsim.network import Network
from gridsim.platform import Platform
from gridsim.scenario import Scenario
from gridsim.scheduler import Outcome, Policy, Run, Scheduler
from gridsim.schedulers import FairTree, Fcfs, MinCent
from gridsim.workload import Workload

#: Sizes of a tree that are special, and any.
MACHINES = st.one_of(st.sampled_from((1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33)), st.integers(1, 40))

CENTRAL: dict[str, Scheduler] = {
    "replan": MinCent(),
    "once": MinCent(mode="once"),
    "ect": Fcfs(),
    "pull": Fcfs(mode="pull"),
    "random": Fcfs(mode="random"),
}


def networks() -> st.SearchStrategy[Network]:
    """Queues or none; messages that take no time, little, or longer than most tasks."""
    latencies = st.sampled_from(((0.0, 0.0), (0.001, 0.0), (0.05, 0.0), (0.05, 0.02), (2.0, 0.0)))
    return st.builds(
        lambda latency, **rest: Network(latency=latency[0], jitter=latency[1], **rest),
        latency=latencies,
        bandwidth=st.sampled_from((inf, 125_000.0, 5_000.0)),
        interfaces=st.sampled_from(("fifo", "fifo", "equal")),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """1..40 machines and 1..6 applications, often released at one instant, or at one of another event."""
    nodes = draw(MACHINES)
    speeds = st.sampled_from((1000.0, 1000.0, 2000.0, 2800.0))
    count = draw(st.integers(1, 6))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    # an accept or a request, sent at 0, arrives after 0.05136 s with the usual network
    instants = st.sampled_from((0.0, 0.0, 1.0, 0.05136, 20.0, 300.0))
    return Scenario(
        platform=Platform.of(draw(st.lists(speeds, min_size=nodes, max_size=nodes))),
        workload=Workload.of(
            release=column(instants | st.floats(0.0, 30.0, allow_subnormal=False)),
            tasks=column(st.integers(1, 4) | st.sampled_from((nodes, 3 * nodes))),
            task_size=column(st.sampled_from((100.0, 1000.0, 4000.0, 65536.0)) | st.floats(50.0, 1e5)),
            submitter=column(st.integers(0, nodes - 1)),
        ),
        network=draw(networks()),
        seed=draw(st.integers(0, 3)),
    )


def fair_trees(**fixed: Any) -> st.SearchStrategy[FairTree]:
    """The fair tree with any parameters that change what it does."""
    free: dict[str, st.SearchStrategy[Any]] = {
        "bound": st.sampled_from((0.0, 1.0, 2.0, 1e9)),
        "samples": st.sampled_from(((4, 3, 2), (10, 9, 8), (1, 1, 1))),
        "update_rate": st.sampled_from((0.0, 10_000.0, 500.0)),
        "update_on": st.sampled_from(("completion", "change")),
        "hold_off": st.sampled_from((0.0, 0.03)),
        "release_cell": st.sampled_from((0.0, 0.0, 300.0, 7.0)),
        "refresh": st.sampled_from((0.0, 0.0, 5.0)),
        "entry": st.sampled_from(("own-router", "father")),
        "minimum_of": st.sampled_from(("busy", "all", "inverse-speed")),
        "spread": st.sampled_from(("heartbeat", "heartbeat", "change")),
        "heartbeat": st.sampled_from((300.0, 20.0)),
        "run_on": st.booleans(),
    }
    return st.builds(FairTree, **{**free, **{name: st.just(value) for name, value in fixed.items()}})


class Witness(Scheduler, frozen=True, kw_only=True):
    """Any scheduler, whose outcomes are kept for the test to see."""

    inner: Scheduler
    outcomes: list[Any]

    def start(self, run: Run) -> Policy:
        policy = self.inner.start(run)
        finish = policy.finish

        def witnessed() -> Outcome:
            self.outcomes.append(finish())
            return self.outcomes[-1]

        policy.finish = witnessed  # type: ignore[method-assign]
        return policy
