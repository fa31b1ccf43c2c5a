"""`differential` finds, shrinks and saves differences between ways to run, and reports no others."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import gridsim as gs
from gridsim.testing import differential
from gridsim.testing.other_interpreters import CAN_FORK, interpreter

DIFFERENTIAL_CHECK = import_module("gridsim.testing.differential_check")
HELPERS = Path(__file__).parents[1] / "_helpers"


@pytest.fixture
def faulty_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(HELPERS)
    return import_module("wrong_schedulers")


@pytest.mark.slow
def test_a_difference_is_shrunk_and_saved(faulty_module: Any, tmp_path: Path) -> None:
    report = differential(
        [faulty_module.ReverseOrder(), faulty_module.Shares()],
        runs=40,
        max_nodes=4,
        processes=False,
        folder=tmp_path,
    )
    (error,) = report.differences
    assert error.law == "cut at 1" and error.scheduler == faulty_module.ReverseOrder()
    assert gs.Scenario.from_toml(error.file) == error.scenario
    assert 20 < report.pairs <= 40  # smaller scenarios tried after a difference do not count
    assert "1 difference;" in str(report) and "takes-the-last-first cut at 1: " in str(report)


def test_custom_checks_are_run(tmp_path: Path) -> None:
    def check_idle(result: gs.Result) -> str | None:
        return "a machine is busy" if (result.machines["tasks"] > 0).any() else None

    report = differential(["fcfs"], runs=20, processes=False, checks=[check_idle], folder=tmp_path)
    assert [(error.law, error.args[0]) for error in report.differences] == [("checked", "a machine is busy")]


def test_the_check_ends_at_its_time_limit(tmp_path: Path) -> None:
    report = differential(["fcfs"], runs=10_000, minutes=0.02, processes=False, folder=tmp_path)
    assert report.pairs < 1000 and report.seconds < 20 and not report.differences
    ways = ("again", "cut at 1", "cut at 3", "threads", "recorded", "resumed")
    assert {"checked", *ways} == {*report.variants} - {"left out"}  # fcfs has no nodes to compile
    assert report.runs == report.pairs + sum(report.variants[way] for way in ways) > report.pairs
    with pytest.raises(gs.ScenarioError, match="^schedulers"):
        differential([])


def test_interpreters_start_once_and_only_if_time_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[str] = []

    def count_starts(hash_seed: str) -> Any:
        started.append(hash_seed)
        return interpreter(hash_seed)

    monkeypatch.setattr(DIFFERENTIAL_CHECK, "interpreter", count_starts)
    schedulers = ["fcfs-pull", "fcfs", gs.Fcfs()]
    report_without_time = differential(schedulers, runs=3, minutes=1e-12, folder=tmp_path)
    assert "nothing was compared" in str(report_without_time)
    assert str(report_without_time).endswith("not run, no time left: fcfs-pull, fcfs [1], fcfs [2]")
    assert not started
    report = differential(["fcfs", "mct", "met"], runs=2, folder=tmp_path)
    assert report.variants["another process"] == report.pairs == 2
    assert len(started) == (1 if CAN_FORK else 2)
    assert report.not_run == {"fcfs": "no runs left"}


def test_difference_that_does_not_recur_is_called_nondeterministic(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such differences come from schedulers that sometimes draw random numbers from the system."""
    different = iter(
        [None, None, "rows", "rows"]
    )  # the repeated run, the runs cut at 1 and 3 rows, and a repetition
    monkeypatch.setattr(DIFFERENTIAL_CHECK, "_difference", lambda *_: next(different, None))
    (error,) = differential(["fcfs"], runs=1, processes=False, folder=tmp_path).differences
    assert error.law == "again" and error.args[0].startswith("nondeterministic: ")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SetOrderDependence", "StateLoss"])
def test_runs_in_other_processes_and_from_checkpoints_are_compared(
    name: str, faulty_module: Any, tmp_path: Path
) -> None:
    (error,) = differential(
        [getattr(faulty_module, name)()], runs=60, max_nodes=4, folder=tmp_path
    ).differences
    assert error.law == {"SetOrderDependence": "another process", "StateLoss": "resumed"}[name]


@pytest.mark.claims
def test_twenty_thousand_pairs_have_no_difference(tmp_path: Path) -> None:
    """The nightly run may end early at its time limit."""
    report = differential(runs=20_000, minutes=60.0, folder=tmp_path)
    assert not report.differences, str(report)
