"""GPUs and memory of the jobs of logs on nodes that jobs share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.errors import ScenarioError, TraceWarning
from gridsim.model.attributes import Constraints
from gridsim.model.rigid_logs import JobLogRecipe
from gridsim.studies.log_reference import log_reference
from gridsim.validation.results import validate_result

GIB = 2.0**30
HEAD = "JobID|User|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ReqMem|AllocTRES\n"
#: On 2 nodes of 8 cores, 2 GPUs and 32 GiB: job 2 takes all that job 1 leaves of the memory of a node, job 3
#: waits for the GPUs and job 4 for the memory of job 1; job 5 is backfilled.
ROWS = """\
1|a|COMPLETED|0|0|100|100|2|2|8|16G|gres/gpu=2
2|a|COMPLETED|10|10|60|50|1|1|2|24G|
3|a|COMPLETED|20|100|200|100|2|1|2|1G|gres/gpu:a100=2
4|a|COMPLETED|30|100|130|30|1|1|4|28G|
5|a|COMPLETED|40|40|60|20|1|1|4|4G|
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "sacct.txt"
    file.write_text(HEAD + ROWS)
    return file


def scenario(path: Path, platform: dict[str, Any], **selection: Any) -> gs.Scenario:
    jobs = gs.Workload.jobs_from_log(path, **selection)
    return gs.Scenario(gs.Platform.equal(2, **{"cores": 8, **platform}), jobs)


@pytest.mark.filterwarnings("default::gridsim.errors.TraceWarning")
@pytest.mark.parametrize(
    ("platform", "waits", "left_out"),
    [
        ({"gpus": 2, "memory": 32 * GIB}, [0, 0, 80, 70, 0], []),
        ({"gpus": 2}, [0, 0, 80, 0, 20], ["5 jobs with a requested memory"]),
        ({"memory": 32 * GIB}, [0, 0, 0, 70, 20], ["2 numbers of GPUs (gres/gpu, 4 in all)"]),
        ({}, [0, 0, 0, 0, 20], ["2 numbers of GPUs", "5 jobs with a requested memory"]),
    ],
)
def test_jobs_wait_for_the_gpus_and_the_memory_of_nodes(
    path: Path, platform: dict[str, Any], waits: list[float], left_out: list[str]
) -> None:
    """By hand, from the lines of the log."""
    case = scenario(path, platform)
    if left_out:
        with pytest.warns(TraceWarning) as warnings:
            case.workload.realize(case.platform)
        texts = [str(each.message) for each in warnings if "left out" in str(each.message)]
        assert len(texts) == len(left_out)
        assert all(part in text for part, text in zip(left_out, texts, strict=True))
    result = gs.simulate(case, gs.BatchQueue(), record="schedule")
    assert result.applications["waiting"].tolist() == waits
    assert validate_result(result) == []
    sentence = case.remarks["parts"]
    assert ("GPUs" in sentence, "memory" in sentence) == ("gpus" in platform, "memory" in platform)


def test_the_row_of_the_log_needs_as_many_gpus_as_its_jobs_had(path: Path) -> None:
    whole = log_reference(scenario(path, {"gpus": 2, "memory": 32 * GIB}))
    assert whole.result is not None
    assert whole.result.applications["waiting"].tolist() == [0, 0, 80, 70, 0]
    path.write_text(HEAD + ROWS.replace("|20|100|200|", "|20|20|120|"))
    few = log_reference(scenario(path, {"gpus": [2, 1], "memory": 32 * GIB}))
    assert few.result is None and "had up to 4 GPUs at once, and the platform has 3" in few.remark


@pytest.mark.parametrize(
    ("selection", "rows"),
    [
        ({"copies": 2}, [0, 1, 2, 3, 4] * 2),
        ({"utilization": 0.5}, [0, 1, 2, 3, 4]),
        ({"start": 15.0}, [2, 3, 4]),
    ],
)
def test_selected_and_copied_jobs_keep_their_gpus_and_memory(
    path: Path, selection: dict[str, Any], rows: list[int]
) -> None:
    case = scenario(path, {"gpus": 2, "memory": 32 * GIB}, **selection)
    jobs = case.workload.realize(case.platform)
    order = np.argsort(jobs.release) if "copies" not in selection else slice(None)
    shares = sorted(
        zip(jobs.job[order].tolist(), jobs.gpus.tolist(), (jobs.memory / GIB).tolist(), strict=True)
    )
    table = [(1, 1, 8), (2, 0, 24), (3, 2, 1), (4, 0, 28), (5, 0, 4)]
    assert shares == sorted(table[row] for row in rows)


def test_drawn_memory_replaces_that_of_the_log(path: Path) -> None:
    recipe = JobLogRecipe(path=str(path), constraints=Constraints(memory=(GIB,)))
    platform = gs.Platform.equal(2, cores=8, gpus=2, memory=32 * GIB)
    assert gs.Workload(recipe).realize(platform).memory.tolist() == [GIB] * 5


def test_each_core_of_a_job_in_swf_takes_its_memory(tmp_path: Path) -> None:
    """On a node of 4 cores and 4 GiB, the second job of 2 cores, each with 1.5 GiB, waits for the first."""
    path = tmp_path / "log.swf"
    row = "{} {} 0 10 2 -1 -1 2 10 1572864 1 1 1 -1 1 1 -1 -1\n"
    path.write_text("; MaxProcs: 4\n" + row.format(1, 0) + row.format(2, 1))
    platform = gs.Platform.equal(1, cores=4, memory=4 * GIB)
    result = gs.simulate(gs.Scenario(platform, gs.Workload.jobs_from_log(path)), gs.BatchQueue())
    assert result.applications["waiting"].tolist() == [0, 9]


def test_gpus_require_the_number_of_nodes_of_a_job(path: Path) -> None:
    path.write_text((HEAD + ROWS).replace("NNodes", "QOS"))
    case = scenario(path, {"gpus": 2, "memory": 32 * GIB})
    with (
        pytest.warns(TraceWarning, match="QOS"),
        pytest.raises(
            ScenarioError, match=r"must state the number of nodes \(NNodes\) .* got none for job 1;"
        ),
    ):
        case.workload.realize(case.platform)


def test_a_job_of_more_gpus_than_nodes_have_is_an_error(path: Path) -> None:
    case = scenario(path, {"gpus": 1, "memory": 32 * GIB})
    with pytest.raises(ScenarioError, match=r"job 3 .* 2 cores, 2 gpus, .*; platform.gpus and platform.mem"):
        case.workload.realize(case.platform)


def test_flags_state_the_gpus_and_the_memory_of_nodes(path: Path, tmp_path: Path) -> None:
    """Job 1 has a GPU on each node; job 3 runs on the first, which has two."""
    saved, shared = tmp_path / "saved.toml", ["--nodes", "2", "--cores-per-node", "8", "--shared"]
    flags = [*shared, "--gpus-per-node", "1x2,1x1", "--memory-per-node", "2x32 GiB"]
    command = ["compare", "--job-log", str(path), "--rigid", "--schedulers", "backfill", *flags]
    found = CliRunner().invoke(cli, [*command, "--save-scenario", str(saved)])
    assert found.exit_code == 0, found.output
    assert "the GPUs and requested memory of the log" in found.stdout
    assert gs.Scenario.from_toml(saved).platform.gpus.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--gpus-per-node", "2"], "--gpus-per-node requires --shared"),
        (["--memory-per-node", "2"], "--memory-per-node requires --shared"),
        (["--shared", "--gpus-per-node", "-1"], "--gpus-per-node must be a whole number in 0..65536, got -1"),
        (["--shared", "--gpus-per-node", "1x2,1"], "must have a number of nodes in each entry"),
        (["--shared", "--memory-per-node", "32 G"], "is neither a number (bytes) nor a number with a unit"),
    ],
)
def test_wrong_flags_are_errors(path: Path, flags: list[str], error: str) -> None:
    common = ["--job-log", str(path), "--rigid", "--nodes", "2", "--cores-per-node", "8"]
    found = CliRunner().invoke(cli, ["compare", *common, *flags])
    assert found.exit_code == 2 and error in " ".join(found.stderr.split())
