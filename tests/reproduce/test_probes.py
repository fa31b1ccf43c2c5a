"""The reproductions of Sparrow, Hawk and Eagle on a small log instead of those of the authors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from gridsim.cli.main import cli
from gridsim.reproduce.others import probes
from gridsim.reproduce.others.probes import LOGS, SIMULATOR, ProbeLog, allowed_range, log_of, metric_names


@pytest.fixture
def small_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a log of 40 jobs, every fourth of them long, instead of Google's."""
    rng, lines = np.random.default_rng(1), []
    for job in range(40):
        took = rng.integers(5, 9, size=4) * (30 if job % 4 == 0 else 1)
        lines.append(" ".join(map(str, (job * 3, len(took), took.mean(), *took))))
    path = tmp_path / "small.tr"
    path.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(probes, "LOGS", (ProbeLog("Google", 40, 160, 20, 60.0, 0.2, LOGS[1].authors),))
    log_of.cache_clear()
    return str(path)


@pytest.mark.parametrize("name", ["sparrow", "hawk", "eagle"])
def test_a_small_log_does_not_reproduce_the_printed_values(name: str, small_log: str, tmp_path: Path) -> None:
    arguments = ("reproduce", name, "--quick", "--json", "--workers", "1", "--out", str(tmp_path))
    answer = CliRunner().invoke(cli, [*arguments, "--trace", small_log])
    assert answer.exit_code == 0, answer.output
    (report,) = json.loads(answer.stdout)["reproductions"]
    same = [row for row in report["rows"] if row["claim"] == SIMULATOR]
    assert len(same) == len(metric_names()) * len(report["grids"][0]["rows"])
    # the run has other jobs than the authors' simulator
    assert {row["verdict"] for row in same} == {"not reproduced"}
    assert all(row["verdict"] == "undecided" for row in report["rows"] if row["claim"] not in ("", SIMULATOR))
    assert (tmp_path / name / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_accepted_ranges_contain_the_authors_values() -> None:
    def ends(scheduler: str, metric: str, text: str) -> tuple[float, float]:
        accepted = allowed_range(scheduler, metric, text)
        return accepted.low, accepted.high

    hawk, sparrow = (LOGS[0].values_of(name) for name in ("hawk", "sparrow"))
    assert ends("hawk", "short p50", hawk["short p50"]) == pytest.approx((191 * 0.97, 191 * 1.03))
    assert ends("eagle", "short p90", "100") == pytest.approx((95.0, 105.0))
    assert ends("lwl", "long p99", "1000") == pytest.approx((995.0, 1005.0))
    # the range is that over the authors' seeds if it is wider than 15 % on one side
    assert ends("sparrow", "long p99", sparrow["long p99"]) == pytest.approx((12946 * 0.85, 15672.0))


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("hawk", (), "hawk requires --trace FILE, a .tr log"),
        ("searches", ("--trace", "{small}"), "searches does not support --trace"),
        ("hawk", ("--trace", "{small}", "--trace", "{small}"), "--trace must name different logs"),
        (
            "hawk",
            ("--trace", "{other}"),
            "the log must be Google's of 40 jobs with 160",
        ),
    ],
)
def test_invalid_traces_are_rejected(
    name: str, more: tuple[str, ...], message: str, small_log: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.tr"
    other.write_text("0 1 5 5\n")
    arguments = [item.format(small=small_log, other=other) for item in more]
    answer = CliRunner().invoke(cli, ["reproduce", name, *arguments])
    assert answer.exit_code == 2 and message in answer.stderr
