"""Verbs of actions declare to `check_scheduler` whether decisions move their tasks."""

from __future__ import annotations

from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import gridsim as gs
from gridsim.results.result import Result
from gridsim.results.table import Table
from gridsim.scheduling.registry import registered
from gridsim.testing import ConformanceError, check_scheduler
from gridsim.testing.decision_checks import false_decision, wrong_verb

HELPERS = Path(__file__).parents[1] / "_helpers"
#: Bags from every machine, so that machines have work when shares arrive.
SCENARIO = gs.Scenario(
    gs.Platform.of([500.0, 700.0, 600.0, 800.0, 500.0, 900.0]),
    gs.Workload.of([10.0 * k for k in range(12)], [20] * 12, [4000.0] * 12, [0, 1, 2, 3, 4, 5] * 2),
    seed=1,
)


def run(scheduler: gs.Scheduler) -> Result:
    return gs.simulate(SCENARIO, scheduler, record=("schedule", "messages", "decisions"))


@pytest.fixture
def planted_schedulers(monkeypatch: pytest.MonkeyPatch) -> dict[str, type[gs.Scheduler]]:
    """The schedulers with false decisions, and the sound one that gives shares, by name."""
    monkeypatch.syspath_prepend(HELPERS)
    nodes, reports = import_module("planted_nodes"), import_module("planted_reports")
    faults = {**nodes.PLANTED_NODES, **reports.PLANTED_REPORTS}
    return {"ShareReport": reports.ShareReport, **{name: fault.scheduler for name, fault in faults.items()}}


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in registered().values()}, key=repr))
def test_verbs_of_registered_schedulers_fit_their_decision_texts(kind: Any) -> None:
    assert wrong_verb(kind) is None


@pytest.mark.parametrize(
    "name", ["FalseGive", "WrongPlace", "ExcessShareReport", "MisdirectedShareReport", "FalseKeep"]
)
def test_moves_of_tasks_are_checked_only_for_actions_with_a_verb(
    name: str, planted_schedulers: dict[str, type[gs.Scheduler]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = planted_schedulers[name]
    assert false_decision(run(kind()), kind()) is not None
    monkeypatch.setattr(kind, "decision_verbs", {})
    assert false_decision(run(kind()), kind()) is None


def test_numbers_of_an_action_with_the_verb_mentions_are_not_compared(
    planted_schedulers: dict[str, type[gs.Scheduler]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = planted_schedulers["FalseCount"]
    assert "more tasks than the application has" in str(false_decision(run(kind()), kind()))
    monkeypatch.setattr(kind, "decision_verbs", {"dealt": "mentions"})
    assert false_decision(run(kind()), kind()) is None


@pytest.mark.parametrize("name", ["WorkStealing", "ShareReport"])
def test_a_decision_that_gives_one_task_too_many_is_reported(
    name: str, planted_schedulers: dict[str, type[gs.Scheduler]]
) -> None:
    scheduler = gs.WorkStealing() if name == "WorkStealing" else planted_schedulers[name]()
    result = run(scheduler)
    assert false_decision(result, scheduler) is None
    columns = dict(result.tables["decisions"].items())
    is_gift = columns["action"] == "gave"
    assert is_gift.any()
    decisions = Table({**columns, "tasks": columns["tasks"] + is_gift})
    changed = copy(result)
    changed.tables = {**result.tables, "decisions": decisions}
    assert "decisions give" in str(false_decision(changed, scheduler))


@pytest.mark.parametrize(
    ("verbs", "message"),
    [
        ({"gav": "gives"}, "Scheduler.decision_verbs .*'gav'; did you mean gave"),
        ({"gave": "give"}, r"Scheduler.decision_verbs\['gave'\] must be one of"),
        ({"had": "gives"}, r"Scheduler.decision_verbs\['had'\] .*requires {machine}"),
    ],
)
def test_wrong_verbs_are_reported(
    verbs: dict[str, Any],
    message: str,
    planted_schedulers: dict[str, type[gs.Scheduler]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    kind = planted_schedulers["ShareReport"]
    words = {**kind.decision_words, "had": ("had {tasks} tasks", "", "")}
    monkeypatch.setattr(kind, "decision_words", words)
    monkeypatch.setattr(kind, "decision_verbs", verbs)
    with pytest.raises(ConformanceError, match=message) as excinfo:
        check_scheduler(kind(), examples=2, hash_seeds=False, shrink=False, folder=tmp_path)
    assert excinfo.value.law == "decisions"
