"""Numbers in the headers of job logs."""

from __future__ import annotations

import warnings

import pytest

from gridsim import ScenarioError, TraceFormatError, TraceWarning, Workload, result_from_log
from gridsim.model.platform import Platform
from gridsim.traces import convert
from gridsim.traces.info import load_jobs, read_header
from gridsim.traces.jobs import stated_machines
from gridsim.traces.lint import lint

JOBS = "1 0 5 60 4 -1 -1 4 90 -1 1 7 1 1 1 -1 -1 -1\n2 1 5 60 2 -1 -1 2 90 -1 1 7 1 1 1 -1 -1 -1\n"


@pytest.mark.parametrize(
    ("text", "machines"),
    [
        ("16384", 16384),
        ("16,384", 16384),
        ("1,048,576", 2**20),
        ("430 (256+174)", 430),
        ("1,024(64x16)", 1024),
        ("12\n; MaxProcs: 9", 12),
    ],
)
def test_counts_are_read_with_separators_and_notes(write, tmp_path, text, machines):
    path = write("log.swf", f"; MaxProcs: {text}\n" + JOBS)
    assert stated_machines(read_header(path)) == ("MaxProcs", machines)
    assert not [finding for finding in lint(path) if finding.severity != "note"]
    convert(path, tmp_path / "out.swf")
    written = read_header(tmp_path / "out.swf")
    assert stated_machines(written) == ("MaxProcs", machines) and "," not in written["MaxProcs"]


@pytest.mark.parametrize("text", ["16,38", "1e2", "16.384", "16 384", "0", "-4", "abc", "2 to 4", "9" * 16])
def test_invalid_counts_are_named_with_their_line(write, tmp_path, text):
    path = write("log.swf", f"; Computer: x\n; MaxProcs: {text}\n; MaxNodes: 8\n" + JOBS)
    message = f"the header's MaxProcs must be a whole number of at least 1 and is not used, got '{text}'"
    assert stated_machines(read_header(path)) == ("MaxNodes", 8)
    assert [(f.severity, f.code, f.message, f.first_line) for f in lint(path)] == [
        ("warning", "header-number", message, 2)
    ]
    assert message in convert(path, tmp_path / "out.swf")["contradictions"]
    with pytest.warns(TraceWarning, match=rf"log\.swf:2: {message}"):
        Workload.jobs_from_log(path).realize(Platform.equal(8))


@pytest.mark.filterwarnings("ignore::gridsim.TraceWarning")
def test_an_invalid_count_is_the_reason_of_a_missing_size(write):
    path = write("log.swf", "; MaxProcs: abc\n; UnixStartTime: -5\n" + JOBS)
    with pytest.raises(ScenarioError, match="machines is required: in .* MaxProcs must be .*'abc'$"):
        result_from_log(path)
    assert "the header's UnixStartTime must be a whole number of at least 0" in lint(path)[1].message


@pytest.mark.parametrize("text", ["-1", "", "unknown"])
def test_unknown_counts_are_no_faults(write, text):
    path = write("log.swf", f"; MaxProcs: {text}\n" + JOBS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lint(path) == [] and stated_machines(load_jobs(path).header) is None


def test_conversion_reports_jobs_wider_than_the_stated_machine(write, tmp_path):
    path = write("log.swf", JOBS)
    summary = convert(path, tmp_path / "out.swf", max_procs=3)
    assert summary["contradictions"] == ["1 job of more processors than the header's MaxProcs, 3"]
    assert convert(path, tmp_path / "out.swf", max_procs=6)["contradictions"] == []


@pytest.mark.parametrize("value", ["-8", "0", "2.5", '"x"', "null", "true"])
def test_an_invalid_number_of_resources_of_batsim_is_rejected(write, value):
    text = '{\n"nb_res": %s,\n"jobs": [{"id": 1, "subtime": 0, "res": 1, "profile": "d"}],\n'
    path = write("w.json", text % value + '"profiles": {"d": {"type": "delay", "delay": 5}}}')
    with pytest.raises(TraceFormatError, match=r"w\.json:2: field nb_res must be a whole number"):
        load_jobs(path)
