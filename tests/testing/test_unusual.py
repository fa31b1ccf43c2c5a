"""`check_scheduler` accepts unusual schedulers that have no fault."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from gridsim.testing import check_scheduler

HELPERS = Path(__file__).parents[1] / "_helpers"
#: Schedulers whose checks are fast.
FAST = (
    "reads an old board",
    "uses one machine",
    "starts jobs once an hour",
    "starts the last job first",
    "rejects and kills jobs",
    "predicts run times",
)
SEEDS = 10
sys.path.insert(0, str(HELPERS))  # needed here, since the tests are named after the schedulers
UNUSUAL = import_module("unusual").UNUSUAL
sys.path.remove(str(HELPERS))


@pytest.mark.parametrize(
    ("name", "seed"),
    [(name, 0) if name in FAST else pytest.param(name, 0, marks=pytest.mark.slow) for name in UNUSUAL]
    + [pytest.param(name, seed, marks=pytest.mark.slow) for seed in range(1, SEEDS) for name in UNUSUAL],
)
def test_an_unusual_scheduler_passes(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(HELPERS)
    report = check_scheduler(
        UNUSUAL[name], examples=10, max_nodes=12, hash_seeds=False, seed=seed, folder=tmp_path
    )
    assert report.examples == 10 and not report.interrupted
