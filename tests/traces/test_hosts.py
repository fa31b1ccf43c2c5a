"""Host speeds: exact values, sampling, invalid files, and the real tables."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError, TraceFormatError, TraceWarning
from gridsim.traces import read_host_speeds
from gridsim.traces.info import detect_format

HEAD = "cpu_model,computers,avg_cores,gflops_core,gflops_computer\n"
TABLE = HEAD + 'Fast [x86],30,4.0,2.5,10.0\n"Slow, 12 Compute Cores",10,1.0,0.5,0.5\n'


def test_a_small_table_is_read_exactly(write):
    hosts = read_host_speeds(write("hosts.csv", TABLE))
    assert hosts.model == ("Fast [x86]", "Slow, 12 Compute Cores")
    assert hosts.speed.tolist() == [2500, 500] and hosts.weight.tolist() == [30, 10]
    assert hosts.mean() == 2000
    assert read_host_speeds(write("hosts.csv.gz", TABLE), "gflops_computer").speed.tolist() == [10000, 500]


def test_the_cpu_list_of_boinc_is_read(write):
    names = "CPU model", "Number of computers", "Avg. cores/computer", "GFLOPS/core", "GFLOPs/computer"
    path = write(
        "cpus.txt", "\n".join("\t".join(row) for row in (names, ("A, B", "58", "11.90", "7.88", "93.72")))
    )
    hosts = read_host_speeds(path)
    assert detect_format(path) == "hosts" and hosts.model == ("A, B",)
    assert hosts.speed.tolist() == [7880.0] and hosts.weight.tolist() == [58]


def test_a_sample_of_hosts_is_weighted_and_reproducible(write):
    hosts = read_host_speeds(write("hosts.csv", TABLE))
    sample = hosts.sample(40_000, np.random.default_rng(7))
    assert sample.dtype == np.float64 and sample.shape == (40_000,)
    assert (sample == 2500).mean() == pytest.approx(0.75, abs=0.01)
    assert (sample == hosts.sample(40_000, np.random.default_rng(7))).all()
    assert hosts.sample(0, np.random.default_rng(7)).shape == (0,)
    with pytest.raises(ScenarioError, match="^nodes"):
        hosts.sample(-1, np.random.default_rng(7))


def test_rows_without_speed_or_computers_are_left_out(write):
    path = write("hosts.csv", TABLE + "None,5,1,0,0\nNobody,0,1,3,3\n")
    with pytest.warns(TraceWarning, match=r"hosts\.csv:4: 2 rows without a speed or computers"):
        hosts = read_host_speeds(path)
    assert len(hosts) == 2


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (HEAD + "A, B,1,1,1,1\n", 2, "a row must have 5 fields (quoted if they have commas), got 6"),
        (TABLE + "A,1,1,x,1\n", 4, "field gflops_core must be a number, got 'x'"),
        (TABLE + "A,1,1,nan,1\n", 4, "field gflops_core must be a finite number, got 'nan'"),
        (TABLE + "A,1,1,-2,1\n", 4, "field gflops_core must be at least 0, got -2"),
        (TABLE + "A,1.5,1,2,1\n", 4, "field computers must be a whole number, got '1.5'"),
        (TABLE + '"A,1,1,2,1\n', 4, "not a valid CSV line"),
        ("a,b\n1,2\n", 1, "the header must have column cpu_model, got a, b"),
        (
            "cpu_model,computers,computers,gflops_core\nA,2,3,1.5\n",
            1,
            "the header must have column computers once",
        ),
        ("", 1, "the header must have column cpu_model, got nothing"),
        (HEAD, 1, "the table must have a host with a speed > 0 and computers > 0, got none"),
        (HEAD + "\0", 2, "binary data"),
    ],
)
def test_faulty_rows_are_rejected_with_their_line(write, content, line, message):
    path = write("hosts.csv", content)
    with pytest.raises(TraceFormatError) as excinfo:
        read_host_speeds(path)
    assert str(excinfo.value).startswith(f"{path}:{line}: ") and message in str(excinfo.value)


def test_an_unknown_column_is_rejected(write):
    with pytest.raises(TraceFormatError, match="the header must have column mips"):
        read_host_speeds(write("hosts.csv", TABLE), "mips")


model = st.text("aZ9 ,;#'\"\u00e9\u4e2d@[]", min_size=1)


@settings(max_examples=50)
@given(st.lists(st.tuples(model, st.integers(1, 10**6), st.floats(0.01, 100)), min_size=1, max_size=10))
def test_written_tables_are_read_unchanged(rows):
    quoted = ['"' + name.replace('"', '""') + f'",{count},1,{speed!r},1' for name, count, speed in rows]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hosts.csv"
        path.write_text(HEAD + "\n".join(quoted), encoding="utf-8")
        hosts = read_host_speeds(path)
    assert hosts.model == tuple(row[0] for row in rows)
    assert hosts.weight.tolist() == [row[1] for row in rows]
    assert hosts.speed.tolist() == [row[2] * 1000 for row in rows]


@pytest.mark.parametrize(
    ("file", "models", "computers", "mean"),
    [("seti_hosts.csv", 9_452, 3_502_444, 1907.08), ("einstein_hosts.csv", 778, 62_813, 3123.22)],
)
def test_real_tables_have_their_known_values(traces, file, models, computers, mean):
    hosts = read_host_speeds(traces / "boinc-hosts-open" / file)
    assert len(hosts) == models and hosts.weight.sum() == computers
    assert hosts.mean() == pytest.approx(mean, abs=0.01)
    assert hosts.sample(100_000, np.random.default_rng(1)).mean() == pytest.approx(mean, rel=0.02)


def test_machines_have_the_cores_of_their_hosts(write):
    table = HEAD + "Fast,3,3.6,2.5,9.0\nSlow,1,0.4,0.5,0.2\n"
    path = write("hosts.csv", table)
    assert read_host_speeds(path).cores is None
    platform = gs.Platform.from_hosts(path, 400, seed=3, with_cores=True)
    assert (platform.speeds == gs.Platform.from_hosts(path, 400, seed=3).speeds).all()
    assert (platform.cores == np.where(platform.speeds == 2500, 4, 1)).all()
    assert platform.aggregate_speed == platform.speeds @ platform.cores
    copy = pickle.loads(pickle.dumps(platform))
    assert copy == platform and not copy.cores.flags.writeable and not copy.speeds.flags.writeable
    scenario = gs.Scenario(platform, gs.Workload.bags(2, seed=1))
    assert gs.Scenario.from_toml(scenario.to_toml()).platform == platform
    with pytest.raises(ScenarioError, match="platform.with_cores and platform.cores exclude each other"):
        gs.Platform.from_hosts(path, 4, cores=2, with_cores=True)
    with pytest.raises(ScenarioError, match="platform.with_cores requires the speed of one core"):
        gs.Platform.from_hosts(path, 4, column="gflops_computer", with_cores=True)
    with pytest.raises(TraceFormatError, match="the header must have column avg_cores"):
        gs.Platform.from_hosts(write("a.csv", "cpu_model,computers,gflops_core\nA,1,2\n"), 4, with_cores=True)
    with pytest.raises(TraceFormatError, match="field avg_cores must be at least 0"):
        gs.Platform.from_hosts(write("b.csv", HEAD + "A,1,-1,2,2\n"), 4, with_cores=True)


@pytest.mark.parametrize(("file", "mean"), [("seti_hosts.csv", 2.610), ("einstein_hosts.csv", 4.683)])
def test_cores_of_real_tables_have_their_known_means(traces, file, mean):
    hosts = read_host_speeds(traces / "boinc-hosts-open" / file, cores=True)
    assert np.average(hosts.cores, weights=hosts.weight) == pytest.approx(mean, abs=0.005)
