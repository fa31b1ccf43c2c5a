"""Coverage-guided fuzzing of file readers and kernels; README.md in this folder describes it.

python fuzz/run.py list
python fuzz/run.py swf result --seconds 60
python fuzz/run.py all --seconds 3600 --jobs 2 --corpus ~/corpus --json ledger.jsonl
python fuzz/run.py replay swf fuzz-findings/swf-0123abcd
python fuzz/run.py ledger ledger.jsonl
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
from targets import load, names

HERE = Path(__file__).resolve().parent
#: Folder of kernels built with sanitizers and native coverage.
NATIVE = HERE / "build"
#: Limits of one execution: time (s), memory (MB), address space (bytes), input (bytes).
TIMEOUT, MEMORY, SPACE, INPUT = 20, 2048, 6 << 30, 1 << 16
#: Memory (MB) at which a target ends, higher since libFuzzer and atheris also grow.
TARGET_MEMORY = 2 * MEMORY
#: Time (s) after which a target that does not end is killed; libFuzzer ignores the time of mutators.
GRACE = 120
#: Lines of libFuzzer's output that are not about a finding.
NOISE = re.compile(r"#|stat::|INFO: |WARNING: |MS: |0x|Base64: |artifact_prefix|.*site-packages/click")
#: Sanitizers of the kernels of `build`.
SANITIZERS = "address,undefined,fuzzer-no-link"
#: Instrumented packages.
PACKAGES = ["gridsim", "gridcore", "tests.reference"]


@dataclass
class Outcome:
    """Outcome of fuzzing one target.

    Parameters
    ----------
    executions, seconds
        Number of executions, and their processor time (s).
    features
        Coverage: edges, and how often each was met.
    corpus
        Number of inputs in the corpus.
    findings
        Files with inputs that cause a finding.
    output_end
        End of the output if there is a finding, else empty.
    """

    target: str
    executions: int = 0
    seconds: float = 0.0
    features: int = 0
    corpus: int = 0
    findings: list[str] = field(default_factory=list)
    output_end: str = field(default="", repr=False)

    def line(self) -> str:
        rate = self.executions / self.seconds if self.seconds else 0.0
        return (
            f"{self.target:<24} {self.executions:>12,} {rate:>10,.0f}/s {self.features:>9,} "
            f"{self.corpus:>7,} {len(self.findings):>9}"
        )


HEAD = f"{'target':<24} {'executions':>12} {'':>12} {'features':>9} {'corpus':>7} {'findings':>9}"


class DefaultGroup(click.Group):
    """Command group that takes unknown commands for targets."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        known = args and args[0] in self.commands
        return super().resolve_command(ctx, args if known else ["fuzz", *args])


@click.group(
    cls=DefaultGroup, help=__doc__.splitlines()[0], context_settings={"help_option_names": ["-h", "--help"]}
)
def main() -> None:
    pass


@main.command("list")
def list_() -> None:
    """Name the targets."""
    for name in names():
        click.echo(f"{name:<24} {(load(name).__doc__ or '').splitlines()[0]}")


@main.command()
@click.argument("targets", nargs=-1, required=True)
@click.option("--seconds", type=float, help="Wall time of all targets together (s).")
@click.option("--runs", type=int, help="Executions of each target.")
@click.option(
    "--corpus", type=click.Path(file_okay=False, path_type=Path), help="Folder for the inputs found."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the fuzzer.")
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Number of concurrent targets."
)
@click.option(
    "--json", "ledger", type=click.Path(path_type=Path), help="Add a line per target to this ledger."
)
@click.option("--native", is_flag=True, help="Use the kernels of `build`, with coverage and sanitizers.")
@click.option(
    "--findings",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("fuzz-findings"),
    show_default=True,
)
def fuzz(
    targets: tuple[str, ...],
    seconds: float | None,
    runs: int | None,
    corpus: Path | None,
    seed: int,
    jobs: int,
    ledger: Path | None,
    native: bool,
    findings: Path,
) -> None:
    """Fuzz TARGETS, or "all"; without a limit, 60 s."""
    selected = list(names()) if targets == ("all",) else list(targets)
    for name in selected:
        if name not in names():
            raise click.BadParameter(f"target must be one of {', '.join(names())}, got {name!r}")
    if native:
        os.environ.update(native_environment())
    if runs is None:
        seconds = (60.0 if seconds is None else seconds) * min(jobs, len(selected)) / len(selected)
    failed: list[Outcome] = []
    click.echo(HEAD)
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory) as folder,
        ThreadPoolExecutor(jobs) as workers,
    ):

        def fuzz_target(name: str) -> Outcome:
            kept = corpus / name if corpus else Path(folder) / name
            return run_target(name, kept, Path(folder), seconds, runs, seed, findings)

        for outcome in workers.map(fuzz_target, selected):
            click.echo(outcome.line())
            if ledger:
                with ledger.open("a") as stream:
                    stream.write(
                        json.dumps({k: v for k, v in asdict(outcome).items() if k != "output_end"}) + "\n"
                    )
            if outcome.output_end:
                failed.append(outcome)
    for outcome in failed:
        click.echo(f"\n== {outcome.target}\n{outcome.output_end}", err=True)
        for file in outcome.findings:
            click.echo(f"replay: python fuzz/run.py replay {outcome.target} {file}", err=True)
    sys.exit(1 if failed else 0)


@main.command()
def build() -> None:
    """Compile the kernels with clang for --native, into fuzz/build."""
    shutil.copytree(
        HERE.parent / "gridcore",
        NATIVE / "gridcore",
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("*.so", "*.c"),
    )
    shutil.copyfile(HERE.parent / "setup.py", NATIVE / "setup.py")
    tools = {"CC": "clang", "LDSHARED": "clang -shared", "GRIDCORE_SANITIZE": SANITIZERS}
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    subprocess.run(command, cwd=NATIVE, env={**os.environ, **tools}, check=True)


def native_environment() -> dict[str, str]:
    """Return the environment of a process with the kernels of `build`."""
    import atheris

    return {
        # takes precedence over installed kernels
        "PYTHONPATH": os.pathsep.join([str(NATIVE), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "LD_PRELOAD": str(Path(atheris.path()) / "asan_with_fuzzer.so"),
        # failed allocations become a MemoryError; Python frees much only at its end
        "ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=1024:detect_leaks=0:"
        "handle_segv=1:quarantine_size_mb=16",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }


def run_target(
    name: str,
    corpus: Path,
    folder: Path,
    seconds: float | None,
    runs: int | None,
    seed: int,
    findings: Path,
) -> Outcome:
    """Fuzz one target in its own process, which libFuzzer ends."""
    found, scratch = folder / f"{name}.found", folder / f"{name}.scratch"
    for each in (corpus, found, scratch):
        each.mkdir(parents=True, exist_ok=True)
    options = [
        f"-artifact_prefix={found}{os.sep}",
        "-print_final_stats=1",
        f"-seed={seed}",
        f"-timeout={TIMEOUT}",
        f"-rss_limit_mb={TARGET_MEMORY}",
        f"-max_len={INPUT}",
        *([f"-max_total_time={max(1, round(seconds))}"] if seconds is not None else []),
        *([f"-runs={runs}"] if runs is not None else []),
    ]
    # one thread per target; temporary files of a target are removed with `scratch`
    variables = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TMPDIR": str(scratch)}
    command = [sys.executable, __file__, "child", name, str(corpus), "--", *options]
    output = folder / f"{name}.output"
    with output.open("wb") as stream:
        process = subprocess.Popen(command, env={**os.environ, **variables}, stdout=stream, stderr=stream)
        timer = threading.Timer(
            GRACE + 2 * seconds if seconds is not None else threading.TIMEOUT_MAX, process.kill
        )
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    text = output.read_text(errors="replace")
    outcome = Outcome(
        name, seconds=round(used.ru_utime + used.ru_stime, 3), corpus=len(list(corpus.iterdir()))
    )
    if executed := re.findall(r"(?:number_of_executed_units: |^#)(\d+)", text, re.MULTILINE):
        outcome.executions = max(map(int, executed))
    if features := re.findall(r" ft: (\d+)", text):
        outcome.features = int(features[-1])
    ended_by_growth = False
    for file in sorted(found.iterdir()):
        if file.name.startswith("oom-") and uses_little_memory(name, file):
            ended_by_growth = True
            continue
        findings.mkdir(parents=True, exist_ok=True)
        to = findings / f"{name}-{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
        shutil.copyfile(file, to)
        outcome.findings.append(str(to))
    # libraries with threads may hang when libFuzzer ends the process
    has_ended = ended_by_growth or re.search(r"^Done \d+ runs", text, re.MULTILINE)
    if outcome.findings or (process.returncode and not has_ended):
        lines = [line for line in text.splitlines() if line.strip() and not NOISE.match(line)]
        outcome.output_end = "\n".join(lines[-40:]) or f"ended with exit code {process.returncode}"
        outcome.output_end += "".join(map(encoded_input, outcome.findings))
    return outcome


def encoded_input(file: str) -> str:
    """Return the input in base64, in case the file is lost; "" if it is large."""
    content = Path(file).read_bytes()
    text = base64.b64encode(zlib.compress(content)).decode()
    return f"\n{Path(file).name}, compressed by zlib, in base64: {text}" if len(text) < 8000 else ""


def uses_little_memory(name: str, file: Path) -> bool:
    """Return whether the input alone does not exceed the memory limit."""
    native = ["--native"] if "ASAN_OPTIONS" in os.environ else []
    command = [sys.executable, __file__, "replay", name, str(file), *native]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode == 0 and used.ru_maxrss < MEMORY << 10


@main.command(hidden=True)
@click.argument("target")
@click.argument("corpus", type=click.Path(path_type=Path))
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def child(target: str, corpus: Path, options: tuple[str, ...]) -> None:
    """Fuzz one target in this process, which libFuzzer ends."""
    import warnings

    import atheris

    with atheris.instrument_imports(include=PACKAGES):
        module = load(target)
    for number, content in enumerate(module.seeds()):
        (corpus / f"seed-{number:04}").write_bytes(content)
    words = getattr(module, "DICTIONARY", ())
    if words:
        file = corpus.parent / f"{corpus.name}.dict"
        entries = ("".join(rf"\x{byte:02x}" for byte in word) for word in words)
        file.write_text("".join(f'"{word}"' + "\n" for word in entries))
        options = (*options, f"-dict={file}")
    limit_memory()
    warnings.simplefilter("ignore")  # warnings about repaired traces are slow to format
    hooks = {"custom_mutator": module.mutate} if hasattr(module, "mutate") else {}
    atheris.Setup([sys.argv[0], *options, str(corpus)], module.execute, **hooks)
    atheris.Fuzz()


def limit_memory() -> None:
    """Limit the address space, so that large allocations fail even if they are never touched."""
    if "ASAN_OPTIONS" not in os.environ:  # AddressSanitizer needs more address space than any limit
        resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE))


@main.command()
@click.argument("target")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--native", is_flag=True, help="Use the kernels of `build`.")
def replay(target: str, files: tuple[Path, ...], native: bool) -> None:
    """Run one execution of TARGET on each of FILES, without atheris."""
    if native and "ASAN_OPTIONS" not in os.environ:
        command = [sys.executable, *sys.argv]
        sys.exit(subprocess.run(command, env={**os.environ, **native_environment()}, check=False).returncode)
    module = load(target)
    limit_memory()
    for file in files:
        module.execute(file.read_bytes())
        click.echo(f"{file}: nothing found")


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def ledger(file: Path) -> None:
    """Print the totals of a ledger."""
    totals: dict[str, Outcome] = {}
    for line in file.read_text().splitlines():
        each = Outcome(**json.loads(line))
        total = totals.setdefault(each.target, Outcome(each.target))
        total.executions += each.executions
        total.seconds += each.seconds
        total.findings += each.findings
        total.features, total.corpus = each.features, each.corpus
    sum_of_all = Outcome("all")
    for name in sorted(totals):
        total = totals[name]
        click.echo(total.line())
        sum_of_all.executions += total.executions
        sum_of_all.seconds += total.seconds
        sum_of_all.findings += total.findings
        sum_of_all.features += total.features
        sum_of_all.corpus += total.corpus
    click.echo(sum_of_all.line())


if __name__ == "__main__":
    main()
