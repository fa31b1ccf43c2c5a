"""Code in the documentation: blocks of README, tutorial and guides run, and print what the page shows.

The blocks of a page run in order in one folder, which has a few small files instead of a reader's.  A block
without a language, or with sh, is for the shell; one with text is the output of the block before it.
"""

import contextlib
import io
import re
import shlex
import warnings
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from gridsim.cli.main import cli
from gridsim.errors import ModelWarning, TraceWarning

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
if not DOCS.is_dir():
    pytest.skip("the documents are not part of this copy", allow_module_level=True)
#: Answers to the exercises of notebooks, which test_notebooks.py runs after each notebook.
ANSWERS = DOCS / "notebooks/answers.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted({*DOCS.rglob("*.md")} - {ANSWERS})]
#: Pages of which all code runs; of other pages only Python runs.
GUIDES = [
    ROOT / "README.md",
    DOCS / "tutorial.md",
    DOCS / "reference/scenario.md",
    DOCS / "reference/outputs.md",
    *sorted((DOCS / "guides").glob("*.md")),
]

#: Page -> (text on the page, replacement), for code that runs in a smaller size here.
SMALLER = {
    "docs/guides/checks.md": [
        ("--nodes 100", "--nodes 20"),
        ("--checkpoint-every 300", "--checkpoint-every 1e-9"),
        ("examples=20", "examples=4"),
        ("20 scenarios, 10 with failures", "4 scenarios, 2 with failures"),
    ],
    "docs/guides/cohorts.md": [("--nodes 100 --sch", "--nodes 30 --sch"), ("examples=20", "examples=4")],
    "docs/guides/experiments.md": [
        ("--replicates 10 --figure", "--replicates 2 --schedulers mincent,fcfs --figure"),
        ("--replicates 10 --schedulers all", "--replicates 2 --schedulers all"),
        ("--nodes 200 --half-width 0.02 --workers 4", "--nodes 5 --half-width 0.9"),
    ],
    "docs/guides/plots.md": [("--nodes 300 --record", "--nodes 50 --record")],
    "docs/guides/report.md": [
        ("../before/fcfs.npz", "results/mincent.npz"),
        ("--replicates 10", "--replicates 2 --schedulers mincent,fcfs"),
    ],
    "docs/guides/schedulers.md": [
        ("--nodes 200", "--nodes 20"),
        ("Nearby.degree=40", "Nearby.degree=9"),
        ("examples=20", "examples=4"),
    ],
}
#: Page -> {first line: reason}, for code that is not run.
NOT_RUN = {
    "docs/tutorial.md": {"python3 -m venv .venv": "installs"},
    "README.md": {
        'python3 -m venv .venv && . .venv/bin/activate && pip install ".[all]"': "installs",
        'python3 -m venv .venv && .venv/bin/pip install ".[test]" && .venv/bin/pytest -n auto': "installs",
        "gridsim compare --job-log KTH-SP2-1996-2.1-cln.swf.gz --rigid --schedulers backfill,"
        "backfill-conservative": "a log of the archive",
        "scheduler              waiting     relative      waiting    waiting  waiting  slowdown  "
        "offered": "what it prints",
        "gridsim trace convert sacct.txt own.swf --max-procs 14400": "a log of the reader",
    },
    "docs/guides/cluster.md": {
        "#!/bin/bash": "a job of Slurm; run by tests/cli/test_slurm.py",
        "dask scheduler &": "starts servers; run by tests/studies/execution/test_run_cells.py",
        "# with_mpi.py": "mpi4py is no extra of ours",
        "# with_ray.py": "Ray is no extra of ours",
    },
    "docs/guides/lemmas.md": {'pip install ".[testing]"': "installs"},
    "docs/guides/trace.md": {
        "SLURM_TIME_FORMAT=%s sacct -aXP -S 2026-01-01 -E 2026-02-01 \\": "a command of Slurm",
        "JobIDRaw|JobID|User|State|Submit|Start|ElapsedRaw|NNodes|NCPUS|TimelimitRaw|JobName": "its output",
    },
    "docs/guides/experiments.md": {
        "SELECT scheduler, count(*) AS runs, avg(max_stretch) AS mean": "DuckDB is no extra of ours",
        "import polars as pl": "polars is no extra of ours",
    },
}
#: Module -> code that needs it, which is not run without.
NEEDS = {
    "numba": re.compile(r'nodes="compiled"|--node-form compiled'),
    "simpy": re.compile(r"^import simpy$", re.MULTILINE),
}
#: Commands that start worker processes, and run without them here.
STARTS_WORKERS = re.compile(r"^gridsim (compare .*--(replicates|half-width)|sweep|ladder)(?!.*--workers)")


#: Pages whose code takes long.
LONG = {"cookbook.md", "experiments.md", "lemmas.md", "plots.md", "tutorial.md"}
page_of = pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if page.name in LONG else page for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
guide_of = pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT)))


class Block(NamedTuple):
    line: int
    language: str
    code: str


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks(text):
    return [
        Block(text.count("\n", 0, actual.start()) + 1, actual[1], actual[2])
        for actual in re.finditer(r"^```(\S*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def commands(code):
    """Yield each command of a block, without its comment, and the exit code that the comment states."""
    for line in code.replace("\\\n", " ").splitlines():
        plain, _, comment = re.sub(r" +", " ", line).strip().partition(" #")
        declared = re.search(r"exit code (\d+)", comment)
        for command in plain.split(" && "):
            if command and not command.startswith("#"):
                yield command.strip(), int(declared[1]) if declared else 0


def save_named(code):
    """Write a block whose first line is a comment with the name of a file to that file."""
    if saved := re.match(r"# (\w+\.(py|toml))\n", code):
        Path(saved[1]).write_text(code)


def run_python(code, namespace, where):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        for category in (TraceWarning, ModelWarning):  # pages may be about such warnings
            warnings.simplefilter("ignore", category)
        exec(compile(code, where, "exec"), namespace)
    return printed.getvalue()


def run_shell(code, skipped, where):
    printed = ""
    for command, exit_code in commands(code):
        if command in skipped:
            continue
        words = shlex.split(command + (" --workers 1" if STARTS_WORKERS.match(command) else ""))
        words = [item for word in words for item in (sorted(glob(word)) if "*" in word else [word])]
        assert words[0] == "gridsim", f"{where}: {command} is not run, and NOT_RUN does not say why"
        answer = CliRunner().invoke(cli, words[1:])
        assert answer.exit_code == exit_code, f"{where}: {command}\n{answer.output}{answer.exception!r}"
        printed += answer.output
    return printed


#: Patterns of output that varies from run to run.
VARYING = (r"wall time +[\d.]+ m?s", r"peak memory +\d+ MB", r"[\d.]+ (?=[0-9a-f]{16}$)")


def lines(printed):
    plain = [re.sub(r"\s+", " ", line).strip() for line in printed.splitlines()]
    for pattern in VARYING:
        plain = [re.sub(pattern, "~ ", line).strip() for line in plain]
    return plain


def check_text(shown, printed, where):
    """Check that `shown` has the lines of `printed`, except where ... leaves some out."""
    here, message = 0, lines(printed.strip("\n"))
    parts = re.split(r"^\s*\.\.\.\s*$", shown, flags=re.MULTILINE)
    for number, part in enumerate(parts):
        expected = lines(part.strip("\n"))
        last = len(message) - len(expected)
        places = range(last if number == len(parts) - 1 else here, (here if number == 0 else last) + 1)
        place = next((k for k in places if k >= here and message[k : k + len(expected)] == expected), None)
        assert place is not None, f"{where} shows\n{part}\nbut what is printed is\n{printed}"
        here = place + len(expected)


@page_of
def test_code_blocks_of_a_page_run_and_print_what_it_shows(page, folder):
    name, guide = name_of(page), page in GUIDES
    namespace, printed = {"__name__": "__main__"}, ""
    skipped = set(NOT_RUN.get(name, {}))
    for line, language, code in blocks(page.read_text()):
        location = f"{name}:{line}"
        missing = [module for module, needs in NEEDS.items() if needs.search(code) and not find_spec(module)]
        if code.splitlines()[0] in skipped or missing:
            continue
        for there, here in SMALLER.get(name, []):
            code = code.replace(there, here)
        save_named(code)
        if language == "python":
            printed = run_python(code, namespace, location)
        elif guide and language in ("", "sh"):
            printed = run_shell(code, skipped, location)
        elif language == "text":
            check_text(code, printed, location)
        else:
            assert language in ("", "toml") or not guide, (
                f"{location} is not run, and NOT_RUN does not say why"
            )


@guide_of
def test_replaced_and_skipped_code_is_on_the_page(page):
    text = page.read_text()
    for there, _ in SMALLER.get(name_of(page), []):
        assert there in text, there
    for first in NOT_RUN.get(name_of(page), {}):
        assert first in text, first


def test_pages_with_replaced_or_skipped_code_exist():
    assert {*SMALLER, *NOT_RUN} <= {name_of(page) for page in GUIDES}


def test_the_check_of_shown_output_detects_differences():
    check_text("a 1\n...\nc  3", "a 1\nb 2\nc 3\n", "here")
    for wrong in ("a 2", "a 1\nc 3", "c 3\n...\na 1", "b 2\nc 3", "a 1\nb 2", "...\nb 2"):
        with pytest.raises(AssertionError):
            check_text(wrong, "a 1\nb 2\nc 3\n", "here")
