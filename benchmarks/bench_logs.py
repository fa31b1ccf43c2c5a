"""Job logs of a million jobs: us of the processor and bytes of memory a job that reading takes.

``python benchmarks/bench_logs.py [JOBS]`` reads a drawn log in a process of its own, several times: of whole
numbers, with fractions, with submissions out of order, and as gzip.  The memory is that of the process at its
peak (of Linux) beyond what it had before; the jobs alone take 152 bytes each.  ``--rounds`` sets the number
of readings, of which medians are printed.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

#: Number of jobs that are drawn and written at once.
PART = 50_000
_CHILD = """
import sys, time
from pathlib import Path
import gridsim.traces as traces

def peak():  # that of `resource` would be at least the memory of the process that started this one
    status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024

log = traces.read_swf(sys.argv[1])  # imports
before, begin = peak(), time.process_time()
log = traces.swf.load_swf(sys.argv[2])
print(time.process_time() - begin, peak() - before, len(log))
"""


def lines(jobs: int, *, fractions: bool = False, unsorted: bool = False) -> Iterator[str]:
    """Yield the lines of a drawn log, in parts."""
    draw, last = np.random.default_rng(1), 0.0
    for first in range(0, jobs, PART):
        count = min(PART, jobs - first)
        number = np.arange(first + 1, first + count + 1)
        submit = last + np.cumsum(np.ceil(draw.exponential(30.0, count)))
        last = submit[-1]
        if unsorted:  # some jobs are written after the next one
            late = np.flatnonzero(draw.random(count - 1) < 0.01)
            submit[[late, late + 1]] = submit[[late + 1, late]]
        run_time = np.ceil(draw.lognormal(6.0, 2.0, count))
        procs = draw.integers(1, 129, count)
        none = np.full(count, -1)
        used = draw.integers(-1, 10**6, count) + (0.25 if fractions else 0)
        columns = (
            number, submit.astype(int), draw.integers(0, 10**5, count), run_time.astype(int), procs, used,
            used, procs, (2 * run_time).astype(int), none, draw.integers(0, 6, count),
            draw.integers(1, 500, count), draw.integers(1, 50, count), draw.integers(1, 1000, count),
            draw.integers(1, 5, count), none, none, none,
        )  # fmt: skip
        rows = zip(*(column.tolist() for column in columns), strict=True)
        yield "".join(f"{' '.join(map(str, row))}\n" for row in rows)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("jobs", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder, "first.swf")
        first.write_text("".join(lines(10)))
        for name, options in (
            ("whole numbers", {}),
            ("fractions", {"fractions": True}),
            ("out of order", {"unsorted": True}),
            ("gzip", {}),
        ):
            log = Path(folder, "log.swf")
            content = "".join(lines(chosen.jobs, **options)).encode()
            log.write_bytes(gzip.compress(content, 6) if name == "gzip" else content)
            command = [sys.executable, "-W", "ignore", "-c", _CHILD, str(first), str(log)]
            outputs = [
                subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
                for _ in range(chosen.rounds)
            ]
            seconds, size = (statistics.median(float(row[k]) for row in outputs) for k in (0, 1))
            print(
                f"{name:14} {1e6 * seconds / chosen.jobs:6.2f} us and {size / chosen.jobs:6.0f} bytes a job",
                flush=True,
            )


if __name__ == "__main__":
    main()
