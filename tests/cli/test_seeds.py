"""The shell, files and Python have the same default seed, and state which results depend on it."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.studies.compare import compare

#: A job log: 30 jobs of 1 to 4 processors, some of which outlive their requested times.
LOG = "; MaxProcs: 8\n" + "".join(
    f"{k} {20 * k} -1 {30 + 7 * k % 50} {1 + k % 4} -1 -1 -1 {40 + 11 * k % 60} -1 1 {k % 5} 1 -1 1 1 -1 -1\n"
    for k in range(1, 31)
)
SCHEDULERS = ("dgs-asap", "metascheduler", "asap", "backfill")


def digests_of_command(*arguments: object) -> dict[str, str]:
    """Return scheduler -> digest of the command."""
    answer = CliRunner().invoke(cli, ["compare", "--json", *map(str, arguments)])
    assert answer.exit_code == 0, answer.output
    return {row["name"]: row["digest"] for row in json.loads(answer.stdout)["schedulers"]}


def digests_of_runs(scenario: gs.Scenario, names: tuple[str, ...]) -> dict[str, str]:
    return {name: result.digest for name, result in compare(scenario, list(names)).results.items()}


def test_a_job_log_gives_equal_results_in_the_shell_and_in_python(tmp_path: Path) -> None:
    file = tmp_path / "log.swf"
    file.write_text(LOG)
    shell = digests_of_command(
        "--job-log", file, "--rigid", "--nodes", 8, "--schedulers", ",".join(SCHEDULERS)
    )
    own = gs.Scenario(gs.Platform.equal(8), gs.Workload.jobs_from_log(file))
    assert shell == digests_of_runs(own, SCHEDULERS)
    other = gs.Scenario(gs.Platform.equal(8), gs.Workload.jobs_from_log(file, seed=7), seed=7)
    assert digests_of_runs(other, SCHEDULERS)["metascheduler"] != shell["metascheduler"]
    # the seed decides at which machines jobs are submitted, which does not affect a central queue
    alone = compare(own, ["backfill", "asap"])
    assert "drawn at random" not in alone.format() and "drawn" not in str(alone["asap"])
    text = " ".join(compare(own, ["backfill", "dgs-asap"]).format().split())
    assert (
        "the machine at which each job is submitted and choices of the" in text and "--replicates 10" in text
    )


def test_drawn_workloads_give_equal_results_in_the_shell_and_in_python(tmp_path: Path) -> None:
    bags = gs.Workload.bags(applications=5, interarrival=10.0, task_size=65536.0, seed=1)
    sample = gs.Scenario(gs.Platform.desktop_grid(20, seed=1), bags)
    names = ("fair-tree", "fcfs-random", "sparrow")
    assert digests_of_command(
        "--nodes", 20, "--applications", 5, "--schedulers", ",".join(names)
    ) == digests_of_runs(sample, names)
    file = tmp_path / "scenario.toml"
    file.write_text('[platform]\nkind = "uniform"\nnodes = 20\n[workload]\nkind = "bags"\napplications = 5\n')
    unseeded = gs.Scenario(gs.Platform.desktop_grid(20), gs.Workload.bags(applications=5))
    assert unseeded == sample == gs.Scenario.from_toml(file)
    file.write_text(
        '[platform]\nkind = "equal"\nnodes = 20\n[workload]\nkind = "jobs"\nseed = 3\njobs = 20\n'
    )
    sample = gs.Scenario(gs.Platform.equal(20), gs.Workload.jobs(20, seed=3))
    assert digests_of_command(file, "--schedulers", ",".join(SCHEDULERS)) == digests_of_runs(
        sample, SCHEDULERS
    )
    assert "workload is drawn at random, once" in gs.simulate(sample, gs.BatchQueue()).format()
