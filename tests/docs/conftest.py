"""A folder in which the code of the documentation runs, with small files in place of a reader's."""

import gzip
import sys
from pathlib import Path

import pytest

from gridsim.cli.scenario_flags import default_scenario

LOG = "".join(
    f"{job} {60 * job} 0 {90 + 30 * job} {1 + job % 3} -1 -1 {1 + job % 3} -1 -1 1 {job % 2} 1 1 1 1 -1 -1\n"
    for job in range(1, 13)
)
PAGE = (Path(__file__).parents[2] / "docs/guides/trace.md").read_text()
FILES = {
    # the output of sacct on the page
    "sacct.txt": PAGE[PAGE.index("JobIDRaw|JobID|User") :].partition("```")[0],
    "seti_hosts.csv": "cpu_model,computers,avg_cores,gflops_core,gflops_computer\nA,3,2.0,1.5,3.0\n",
    "LCG-2005-a.swf.gz": LOG,
    "scenario.toml": default_scenario()
    .replaced({"platform.nodes": 20, "workload.applications": 8})
    .to_toml(),
    "study.toml": 'scenario = "scenario.toml"\nschedulers = ["mincent", "fcfs"]\nreplicates = 2\n',
    "mypackage/mine.py": "from gridsim.schedulers.centralized.pull import MinCent as MyScheduler\n",
}


def is_in(folder, module):
    return str(getattr(module, "__file__", None) or "").startswith(str(folder))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, content in FILES.items():
        data = content.encode()
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("GRIDSIM_CACHE", str(tmp_path / "cache"))
    yield tmp_path
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    for name in [name for name, module in sys.modules.items() if is_in(tmp_path, module)]:
        del sys.modules[name]
