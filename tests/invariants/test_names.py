"""Names: values are nouns of the field, class names are unique, and optional packages can be removed.

``python -m tests.invariants.test_names`` rewrites the baseline `odd_names.txt`.  It may only shrink.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import gridcore
import gridsim
from tests.invariants.test_structure import WINGS

BASELINE = Path(__file__).with_name("odd_names.txt")
PACKAGES = (Path(gridcore.__file__).parent, Path(gridsim.__file__).parent)
#: Pronouns, question words, adverbs, and irregular participles.
ODD = frozenset(
    re.findall(
        r"\w+",
        """
    about above afresh again ahead alike all alone already also always apart around away back before
    behind below beside besides between beyond both each early either else elsewhere enough ever every
    everything few first_of forth given got hence here how instead it its itself just late likewise many
    me more most much near neither none nothing nowhere often once only other others otherwise ours over
    own perhaps same several so some something soon still such them then there these they this those
    though through thus together too under unless upon us very what whatever when where whether which
    while who whole whom whose why within without yet beaten begun bought brought built caught chosen
    come dealt drawn driven fallen felt found gone got heard held hidden kept laid made led lent let
    meant met paid said seen shown shrunk sold spent spoken stood struck stuck taken taught thought told
    torn understood won worn written
    """,
    )
)
#: Terms of the field in -ed: nouns, and states of tasks, jobs, messages and machines.
ESTABLISHED = frozenset(
    re.findall(
        r"\w+",
        """
    feed need seed shed speed embed accepted allocated arrived blocked cached cancelled closed compiled
    completed decentralized delivered displaced dropped enabled ended estimated expected expired extended
    failed finished fixed idled interrupted locked migrated observed occupied ordered owed placed predicted
    preempted promised queued received recovered rejected released removed reserved restarted
    resubmitted resumed retried shared sorted started stopped submitted unused updated used visited
    weighted
    """,
    )
)
KEYWORDS = frozenset({"None", "elif", "else", "unsigned", "while", "with", "yield", "__all__"})
#: Locals that are used only within this many lines may have any name.
SHORT = 5
#: Class names that a scheduler and its kernel share.
TWICE = frozenset({"Sparrow", "Hawk", "Eagle", "Lwl", "Dlwl", "Srpt"})


def is_odd(name: str) -> bool:
    """Return whether all words of a name are participles, pronouns, question words or adverbs."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().strip("_").split("_")
    return (
        bool(words[0])
        and name not in KEYWORDS
        and all(
            word in ODD or (re.fullmatch(r"\w{2,}ed", word) is not None and word not in ESTABLISHED)
            for word in words
        )
    )


def bindings(path: Path) -> Iterator[str]:
    """Yield the names that a module binds, once for each scope; locals only beyond `SHORT` lines."""
    yield path.stem
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _scope(ast.parse(text), local=False)
    else:
        for function in re.split(r"(?m)^(?=\s*(?:def|cpdef|cdef(?! class\b).*\().*$)", text):
            yield from _cython_scope(function)


def _scope(scope: ast.AST, *, local: bool) -> Iterator[str]:
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    inner: list[ast.AST] = []
    names: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    names.add(child.name)
                    inner.append(child)
                    continue
                case ast.Name():
                    if isinstance(child.ctx, ast.Store):
                        first.setdefault(child.id, child.lineno)
                    last[child.id] = child.lineno
                case ast.Attribute(ctx=ast.Store()):
                    names.add(child.attr)
                case ast.arg():
                    names.add(child.arg)
            visit(child)

    visit(scope)
    names |= {name for name, line in first.items() if not local or last[name] - line > SHORT}
    yield from sorted(names)
    for child in inner:
        yield from _scope(child, local=not isinstance(child, ast.ClassDef))


def _cython_scope(code: str) -> Iterator[str]:
    """Yield the names that a Cython function declares or assigns."""
    code = re.sub(r'"""[\s\S]*?"""|"[^"\n]*"|\'[^\'\n]*\'|#.*|(?m:^.*\bc?import\b.*)', "", code)
    declared: set[str] = set()
    uses: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(code.split("\n")):
        declares = number == 0 or re.match(r"\s*(cdef|cpdef|def|class|ctypedef)\b", line) is not None
        for word in re.findall(r"[A-Za-z_]\w*", line):
            declared |= {word} if declares else set()
            uses[word] += [] if declares else [number]
    assigned = set(re.findall(r"([A-Za-z_]\w*)(?:\[[^=\n]*\])?(?:, *\w+)* *[-+*/|&]?=(?!=)", code))
    for name in sorted((declared | assigned) - KEYWORDS):
        if not uses[name] or uses[name][-1] - uses[name][0] > SHORT or f".{name}" in code:
            yield name


def odd_names() -> tuple[list[str], int]:
    """Return the lines of the baseline, and the number of bound names.

    A line is a path with its odd names and their numbers of scopes, or a class name with its files.
    """
    lines, count = [], 0
    classes: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted([*package.rglob("*.py"), *package.rglob("*.pyx")]):
            relative = path.relative_to(package.parent).as_posix()
            names = list(bindings(path))
            count += len(names)
            if odd := Counter(name for name in names if is_odd(name)):
                lines.append(f"{relative}: {' '.join(f'{name}*{odd[name]}' for name in sorted(odd))}")
            for name in re.findall(r"(?m)^ *(?:cdef )?class (\w+)", path.read_text(encoding="utf-8")):
                classes[name].append(relative)
    lines += [
        f"class {name}: {' '.join(paths)}"
        for name, paths in sorted(classes.items())
        if len(set(paths)) > 1 and name not in TWICE
    ]
    return lines, count


def test_sources_have_no_new_odd_names() -> None:
    """Lines of the baseline that are outdated must be deleted, so it only shrinks."""
    lines, _ = odd_names()
    baseline = BASELINE.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line not in baseline] == [], (
        "odd names, or class names that occur twice"
    )
    assert [line for line in baseline if line not in lines] == [], "delete these lines of odd_names.txt"


@pytest.mark.parametrize("name", ["found", "_said", "WHAT", "each", "TheyMade", "all_seen", "lowered"])
def test_the_function_is_odd_finds_odd_names(name: str) -> None:
    assert is_odd(name)


@pytest.mark.parametrize("name", ["seed", "failed", "last_report", "lost", "now", "tasks_lost", "_", "red"])
def test_the_function_is_odd_accepts_ordinary_names(name: str) -> None:
    assert not is_odd(name)


def test_names_in_a_cython_module_are_found(tmp_path: Path) -> None:
    path = tmp_path / "kernel.pyx"
    path.write_text(
        'cdef class Queue:\n    cdef int told\n\n    def push(self, int made):\n        """found"""\n'
    )
    assert {"Queue", "told", "push", "made"} <= set(bindings(path)) and "found" not in set(bindings(path))


@pytest.mark.parametrize("wing", WINGS)
def test_a_run_works_without_the_optional_packages(wing: str, tmp_path: Path) -> None:
    """A copy of gridsim without the folder of an optional package can be imported and run."""
    core, sim = PACKAGES
    (tmp_path / core.name).symlink_to(core)
    (tmp_path / sim.name).mkdir()
    for entry in sim.iterdir():
        if entry.name != wing:
            (tmp_path / sim.name / entry.name).symlink_to(entry)
    code = (
        "import gridsim as gs; s = gs.Scenario(gs.Platform.equal(4, 1000.0), gs.Workload.bags(3, seed=1))\n"
        f"assert gs.__file__.startswith(r'{tmp_path}'), gs.__file__\n"
        "print(gs.compare(s, ['fair-tree', 'mincent'], replicates=2))"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 0 and "mincent" in process.stdout, process.stderr


if __name__ == "__main__":
    lines, count = odd_names()
    BASELINE.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    odd = sum(int(number) for line in lines for number in re.findall(r"\*(\d+)", line))
    print(f"{odd} of {count} names are odd, {100 * odd / count:.1f} %")
