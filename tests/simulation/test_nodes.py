"""The option `nodes` of `simulate`: the forms in which schedulers can run their nodes."""

from __future__ import annotations

from typing import Any

import pytest

import gridsim as gs
from gridsim.scheduling.registry import make_scheduler

SCENARIO = gs.Scenario(
    gs.Platform.of([100.0, 200.0, 150.0]), gs.Workload.of([0.0, 5.0], 2, 1000.0, [0, 1]), seed=1
)


def test_a_node_program_runs_interpreted_by_default() -> None:
    scheduler = make_scheduler("expanding-ring")
    assert scheduler.node_forms == ("interpreted", "compiled")
    digests = {gs.simulate(SCENARIO, scheduler, nodes=nodes).digest for nodes in (None, "interpreted")}
    assert len(digests) == 1


@pytest.mark.parametrize("name", ["mincent", "fcfs"])
def test_interpreted_nodes_require_a_node_program(name: str) -> None:
    scheduler = make_scheduler(name)
    with pytest.raises(gs.ScenarioError, match=f"{name} does not support nodes='interpreted'"):
        gs.simulate(SCENARIO, scheduler, nodes="interpreted")
    usual = gs.simulate(SCENARIO, scheduler)
    assert gs.simulate(SCENARIO, scheduler, nodes="compiled").digest == usual.digest


def test_compiled_nodes_require_a_program_that_can_be_compiled() -> None:
    pytest.importorskip("numba", reason="needs the extra jit")

    class DictNode(gs.NodeProgram):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters)
            self.seen: dict[int, float] = {}

    class Scheduler(gs.NodeScheduler, frozen=True, kw_only=True):
        name = "remembering"
        policy = DictNode

    with pytest.raises(gs.CompileError, match="DictNode: self.seen must be an int"):
        gs.simulate(SCENARIO, Scheduler(), nodes="compiled")


@pytest.mark.parametrize("nodes", ["fast", 3, True, ["interpreted"]])
def test_invalid_forms_of_nodes_are_rejected(nodes: Any) -> None:
    with pytest.raises(gs.ScenarioError, match="^nodes"):
        gs.simulate(SCENARIO, make_scheduler("fcfs"), nodes=nodes)
