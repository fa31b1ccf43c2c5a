"""Partitions of nodes by the lists of nodes of jobs, and where they are suggested."""

import warnings

import pytest

import gridsim as gs
from gridsim.traces.conversion import convert
from gridsim.traces.partitions import Partitions, find_partitions

HEAD = "JobID|Partition|State|Submit|Start|End|ElapsedRaw|NNodes|NCPUS|NodeList\n"


def job(number, queue, nodes, count=1):
    times = "2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:01:00|60"
    return f"{number}|{queue}|COMPLETED|{times}|{count}|{4 * count}|{nodes}\n"


SEPARATE = HEAD + job(1, "batch", "n[1-3]", 3) + job("1.0", "", "n[1-3]") + job(2, "gpu", "g1")


@pytest.mark.parametrize(
    ("text", "partitions"),
    [
        (SEPARATE, Partitions({"batch": 3, "gpu": 1}, {})),
        (SEPARATE + job(3, "debug", "n[3-4]", 2), Partitions({"batch": 4, "gpu": 1}, {"debug": "batch"})),
        (SEPARATE + job(3, "long", "n1,g1", 2), Partitions({"batch": 4}, {"long": "batch", "gpu": "batch"})),
        (SEPARATE.replace("NodeList", "Nodes"), None),
        ("1 0 0 10 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1\n", None),
    ],
)
def test_queues_with_common_nodes_are_one_partition(write, text, partitions):
    assert find_partitions(write("log.txt", text)) == partitions


def test_separate_queues_are_suggested_as_partitions(write, tmp_path):
    path = write("sacct.txt", SEPARATE)
    command = convert(path, tmp_path / "own.swf")["command"]
    assert command.endswith(" --set '*.partitions=batch=3,gpu=1' --nodes 4")
    command = convert(path, tmp_path / "own.swf", max_procs=32)["command"]
    assert command.endswith(" --set '*.partitions=batch=6,gpu=2'")


@pytest.mark.parametrize(
    ("text", "partitions", "line"),
    [
        (SEPARATE, (), ", but had nodes of their own in the log; set partitions "
         "(--set '*.partitions=batch=6,gpu=2')"),
        (SEPARATE.replace("NodeList", "Nodes"), (), "; if each has machines of its own, set partitions "
         "(--set '*.partitions=batch=N,gpu=N')"),
        (SEPARATE, (6, 2), None),
        (SEPARATE + job(3, "long", "n1,g1", 2), (), None),
    ],
)  # fmt: skip
def test_queues_that_share_all_machines_have_a_line(write, text, partitions, line):
    workload = gs.Workload.jobs_from_log(write("sacct.txt", text), cores_per_node=4)
    scenario = gs.Scenario(gs.Platform.equal(8), workload)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.errors.TraceWarning)
        easy = {"easy": gs.BatchQueue(partitions=partitions)}
        comparison = gs.compare(scenario, easy)
        replicates = gs.replicate(scenario, easy, replicates=1)
    expected = None if line is None else f"2 queues share all machines{line}"
    assert comparison.overview().facts.get("queues") == expected
    assert replicates.overview().facts.get("queues") == expected


@pytest.mark.filterwarnings("ignore::gridsim.errors.TraceWarning")
def test_queues_of_several_logs_that_share_all_machines_have_a_line(write):
    workload = gs.Workload.jobs_from_logs([write(f"{name}.txt", SEPARATE) for name in ("a", "b")])
    scenario = gs.Scenario(gs.Platform.sites([32, 32], names=["a", "b"]), workload)
    comparison = gs.compare(scenario, {"easy": gs.BatchQueue()})
    assert comparison.overview().facts["queues"] == (
        "4 queues share all machines; if each has machines of its own, set partitions (--set "
        "'*.partitions=a/batch=N,a/gpu=N,b/batch=N,b/gpu=N'), or those of the sites (--set "
        "'*.partitions=sites')"
    )
