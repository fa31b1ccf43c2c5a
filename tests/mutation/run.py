"""Mutation testing of one module: `python tests/mutation/run.py edf` (see docs/project/mutation.md).

mutmut makes the mutants, all in one module behind a switch. This runner imports that module in place of the
true one, collects its tests once, runs them once, and then forks for each mutant: the child throws the switch
and runs the tests that reach the mutated function, the quick ones and those that killed before first, up to
the first that fails. So a mutant costs hundredths of a second besides its tests; `mutmut run`, which starts
pytest for each, takes several times as long for the same verdicts.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import gc
import importlib.abc
import importlib.util
import json
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest
from modules import MODEL, PAGE, ROOT, TWINS, entered, place
from mutmut.mutation.file_mutation import MutatedFile, mutate_file_contents
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

MEMORY = 4 << 30  # bytes of address space: an endless list ends as a MemoryError
SILENCE = 1200  # seconds of wall time for one test: far more than a busy machine needs


class Mutated(SourceFileLoader):
    """Loads a module with all its mutants in place of its file."""

    def __init__(self, name: str, path: str, code: str) -> None:
        super().__init__(name, path)
        self.code = code

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.code, self.path, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    """Finds one module as its mutated self."""

    def __init__(self, name: str, path: Path, code: str) -> None:
        self.name, self.path, self.code = name, path, code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        loader = Mutated(fullname, str(self.path), self.code)
        return importlib.util.spec_from_file_location(fullname, self.path, loader=loader)


class Runner:
    """The pytest plugin: one clean run, then a child for each mutant."""

    def __init__(
        self, module: str, mutants: list[str], verdicts: dict[str, str], save: Callable[[], object]
    ) -> None:
        self.module, self.mutants, self.verdicts, self.save = module, mutants, verdicts, save

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        seconds: dict[str, float] = {}
        reached: dict[str, list[pytest.Item]] = defaultdict(list)
        set_mutant_under_test("stats")
        for item in session.items:
            start = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            seconds[item.nodeid] = time.process_time() - start
            if session.testsfailed:
                raise session.Failed(f"{item.nodeid} fails without a mutant")
            for function in state()._stats:
                reached[function].append(item)
            state()._stats.clear()
        kills: Counter[tuple[str, str]] = Counter()
        gc.collect()
        gc.freeze()
        verdicts = []
        for done, mutant in enumerate(self.mutants):
            function = mutant.rpartition("__mutmut_")[0]
            tests = sorted(
                reached.get(f"{self.module}.{function}", []),
                key=lambda item: (-kills[function, item.nodeid], seconds[item.nodeid]),
            )
            self.verdicts[mutant], killer = self.judge(mutant, tests, seconds)
            kills[function, killer] += 1
            verdicts.append(self.verdicts[mutant])
            if self.verdicts[mutant] != "killed":
                print(f"{mutant}: {self.verdicts[mutant]}", file=sys.__stdout__, flush=True)
            if done % 20 == 19:
                counts = ", ".join(f"{k} {n}" for k, n in sorted(Counter(verdicts).items()))
                print(f"{done + 1} of {len(self.mutants)}: {counts}", file=sys.__stdout__, flush=True)
                self.save()
        return True

    def judge(self, mutant: str, tests: list[pytest.Item], seconds: dict[str, float]) -> tuple[str, str]:
        """The verdict on one mutant and the test that brought it."""
        if not tests:
            return "no test", ""
        read, write = os.pipe()
        child = os.fork()
        if not child:
            self.try_tests(mutant, tests, seconds, write)
        os.close(write)
        with os.fdopen(read) as pipe:
            last = pipe.read().split("\n")[-1]
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            return "survived", ""
        if status == 1:
            return "killed", last
        return ("timed out" if -status in (signal.SIGPROF, signal.SIGALRM) else "crashed"), last

    def try_tests(self, mutant: str, tests: list[pytest.Item], seconds: dict[str, float], write: int) -> None:
        """In the child: runs the tests up to the first that fails; ends the process with 1 then, else 0."""
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        set_mutant_under_test(f"{self.module}.{mutant}")
        for item in tests:
            os.write(write, f"\n{item.nodeid}".encode())
            signal.setitimer(signal.ITIMER_PROF, 1.0 + 5.0 * seconds[item.nodeid])
            signal.alarm(SILENCE)
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            except BaseException:  # what pytest itself does not survive kills the mutant, too
                os._exit(1)
            if item.session.testsfailed:
                os._exit(1)
        os._exit(0)


def functions(code: str) -> dict[str, list[str]]:
    """The lines of each function of a mutated module, by name."""
    lines = code.splitlines()
    return {
        node.name: [line.replace(node.name, "") for line in lines[node.lineno - 1 : node.end_lineno]]
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.FunctionDef) and "__mutmut" in node.name
    }


def change(bodies: dict[str, list[str]], mutant: str) -> list[str]:
    """The lines that the mutant takes out and puts in."""
    original = bodies[mutant.rpartition("_")[0] + "_orig"]
    lines = difflib.unified_diff(original, bodies[mutant], lineterm="", n=0)
    return [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", choices=(*TWINS, *MODEL))
    parser.add_argument("--only", default="", help="mutants whose names contain this")
    parser.add_argument("--again", type=Path, help="only what survived in, or is not in, this earlier result")
    parser.add_argument("--tests", action="append", default=[], help="these test files in place of all")
    parser.add_argument("--output", type=Path, help="JSON of the verdicts, written every 20 mutants")
    parser.add_argument("--table", action="store_true", help="enter it in the table of the page")
    arguments = parser.parse_args()
    if arguments.table and (arguments.only or arguments.tests):
        parser.error("--table needs all mutants, and all tests")
    module, path, tests = place(arguments.module)
    mutated: MutatedFile = mutate_file_contents(str(path), path.read_text(encoding="utf-8"))
    mutants = [name for name in mutated.mutant_names if arguments.only in name]
    verdicts: dict[str, str] = {}
    if arguments.again:
        before = json.loads(arguments.again.read_text(encoding="utf-8"))["verdicts"]
        verdicts = {m: v for m, v in before.items() if m in mutated.mutant_names}
        mutants = [name for name in mutants if before.get(name) in (None, "survived", "no test")]
    sys.path.insert(0, str(ROOT))
    sys.meta_path.insert(0, Finder(module, path, mutated.code))
    bodies = functions(mutated.code)

    def save() -> dict[str, dict[str, Any]]:
        left = {m: {"verdict": v, "change": change(bodies, m)} for m, v in verdicts.items() if v != "killed"}
        if arguments.output:
            result = {
                "module": module,
                "counts": Counter(verdicts.values()),
                "left": left,
                "verdicts": verdicts,
            }
            arguments.output.write_text(json.dumps(result, indent=1, ensure_ascii=False), encoding="utf-8")
        return left

    runner = Runner(module, mutants, verdicts, save)
    options = ["-qq", "--tb=no", "--hypothesis-profile=mutation", "-p", "no:cacheprovider", "-s"]
    os.chdir(ROOT)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        failed = pytest.main([*options, *(arguments.tests or tests)], plugins=[runner])
    if failed or not verdicts:
        sys.exit(f"the tests of {module} fail without a mutant, or there is none")
    left = save()
    counts = ", ".join(f"{n} {k}" for k, n in sorted(Counter(verdicts.values()).items()))
    print(f"{module}: {len(verdicts)} mutants, {counts}")
    if arguments.table:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(entered(page, arguments.module, Counter(verdicts.values())), encoding="utf-8")
    if not arguments.output:
        for mutant, row in left.items():
            print(mutant, row["verdict"], *row["change"], sep="\n    ")


if __name__ == "__main__":
    main()
