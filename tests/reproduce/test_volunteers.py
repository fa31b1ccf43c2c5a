from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gridsim.cli.main import cli
from gridsim.reproduce.others import volunteers
from gridsim.schedulers import MODES

pytestmark = pytest.mark.slow


def test_quick_runs_use_drawn_owners_or_those_of_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volunteers, "NODES", (60, 24))
    hosts = tmp_path / "hosts.avt"
    nights = " ".join(f"{86_400 * day} {86_400 * day + 50_000}" for day in range(3))
    hosts.write_text("\n".join([f"h{u} 3 {nights}" for u in range(30)] + ["always 1 0 262800"]) + "\n")
    for extra in ((), ("--availability", str(hosts))):
        answer = CliRunner().invoke(
            cli, ["reproduce", "volunteers", "--quick", "--seeds", "1", "--workers", "1", "--json", *extra]
        )
        assert answer.exit_code == 0, answer.output
        (report,) = json.loads(answer.stdout)["reproductions"]
        assert {row["verdict"] for row in report["rows"]} == {"undecided"}
        assert {row["claim"] for row in report["rows"]} == set(volunteers.VOLUNTEERS.claims)
        assert ("trace" in report["rows"][0]["quantity"]) == bool(extra)


def test_all_schedulers_are_run_on_machines_that_stay_reachable() -> None:
    scenario = volunteers.OwnedNodes(24, "light", 0.5)(1)
    assert scenario.faults is not None and scenario.faults.reachable
    assert set(MODES) < set(volunteers.schedulers())
