"""Directions of imports, and companions of each kernel; read from the sources, including .pyx and .pxd."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from io import StringIO
from pathlib import Path
from tokenize import COMMENT, generate_tokens
from typing import Any

import pytest

import gridcore
import gridsim
from gridcore.common.stubs import stub
from gridsim.support.provenance import OUTCOME_PARTS
from gridsim.support.sources import bare_module, bare_source

CORE, SIM = Path(gridcore.__file__).parent, Path(gridsim.__file__).parent
#: Compiled module without names for Python.
SHARED = CORE / "common" / "arguments.pyx"
KERNELS = sorted(set(CORE.rglob("*.pyx")) - {SHARED})
#: Modules of the message core, including those with classes only for it.
MESSAGE_CORE = (
    "board", "handlers", "kinds", "payloads", "local_messages", "node_actions", "view", "compiled_calls",
    "node_events", "shared_events", "node_memory", "message_core", "rows", "containers", "shared_array",
    "waiting_times", "decision_rows",
)  # fmt: skip
PARTS = [
    path
    for path in KERNELS
    if path.stem
    in (
        "machine_queues",
        "decision_log",
        "negotiations",
        "nodes",
        "task_numbers",
        "transit",
        "exchange",
        "decimal_numbers",
        "runs",
        "ordered_queue",
        "scalars",
    )  # fmt: skip
    or path.parent.name == "probes"
    or (path.stem in MESSAGE_CORE and path.stem not in ("message_core", "view"))
]
#: Kernels without a reference implementation: protocols and their parts are compared with
#: node programs, and the queue of policies in Python with the batch queue.
WITHOUT_REFERENCE = (
    "summary_tree", "decision_log", "negotiations", "nodes", "machine_queues", "task_numbers",
    "transit", "exchange", "srpt", "walk", "workers", "scalars", "dispatch", "runs",
    "ordered_queue", "manual_queue",
    *MESSAGE_CORE,
)  # fmt: skip
WITH_REFERENCE = [path for path in KERNELS if path.stem not in WITHOUT_REFERENCE]
REFERENCE = Path(__file__).parents[1] / "reference"
#: Methods for checkpoints, which reference implementations lack; runs with checkpoints test them.
CHECKPOINT_METHODS = {"getstate", "setstate"}
#: Packages of gridcore; each imports only itself and earlier ones.
CORE_ORDER = (
    "common", "queues", "network", "nodes", "probes", "fair_tree", "dgs", "work_queue", "random_walk",
    "rigid_queue", "centralized",
)  # fmt: skip
#: Packages of gridsim; each imports only itself and earlier ones.
ORDER = (
    "errors", "support", "traces", "optimization", "model", "results", "engine", "validation", "scheduling",
    "schedulers", "simulation", "emulation", "plots", "studies", "report", "testing", "theory", "reproduce",
    "cli",
)  # fmt: skip
#: Optional packages, which only `cli` and lazy public names import.
WINGS = ("emulation", "report", "reproduce", "testing", "theory")


# -- reading ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """Import of `target`, a module if known; `lazy` if in a function, `typing` if for type checkers only."""

    target: str
    lazy: bool = False
    typing: bool = False


def module_name(path: Path) -> str:
    root = CORE if path.is_relative_to(CORE) else SIM
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(*suffixes: str) -> list[Path]:
    return sorted(path for root in (CORE, SIM) for suffix in suffixes for path in root.rglob(f"*{suffix}"))


@cache
def modules() -> frozenset[str]:
    return frozenset(module_name(path) for path in sources(".py", ".pyx"))


def _resolve(base: str, name: str | None) -> str:
    """Return the module that ``from base import name`` imports: ``base.name`` if it is one, else `base`."""
    return f"{base}.{name}" if name is not None and f"{base}.{name}" in modules() else base


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def python_imports(path: Path) -> Iterator[Import]:
    own = module_name(path)
    package = own if path.stem == "__init__" else own.rpartition(".")[0]

    def walk(node: ast.AST, lazy: bool, typing: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, lazy, typing)
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:
                    up = package.split(".")[: len(package.split(".")) - child.level + 1]
                    base = ".".join([*up, *([base] if base else [])])
                for alias in child.names:
                    yield Import(_resolve(base, alias.name), lazy, typing)
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                yield from walk(ast.Module(child.body, []), lazy, True)
                yield from walk(ast.Module(child.orelse, []), lazy, typing)
            else:
                function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                yield from walk(child, lazy or function, typing)

    yield from walk(tree(path), False, False)


CYTHON_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n#]*)|c?import[ \t]+([^\n#(]+))",
    re.MULTILINE,
)


def cython_imports(path: Path) -> Iterator[Import]:
    code = re.sub(r'"""(?:.|\n)*?"""', "", path.read_text(encoding="utf-8"))
    for match in CYTHON_IMPORT.finditer(code):
        base, names, plain = match.groups()
        if base is None:
            for name in plain.split(","):
                yield Import(name.split(" as ")[0].strip())
        else:
            for name in names.strip("()").replace("\n", " ").split(","):
                if name.strip():
                    yield Import(_resolve(base, name.split(" as ")[0].strip()))


@cache
def imports(path: Path) -> tuple[Import, ...]:
    return tuple(python_imports(path) if path.suffix in (".py", ".pyi") else cython_imports(path))


def is_inside(target: str, package: str) -> bool:
    return target == package or target.startswith(package + ".")


def outside_imports(path: Path, *packages: str) -> list[str]:
    """Return the modules imported at run time that are not in the standard library or `packages`."""
    targets = (entry.target for entry in imports(path) if not entry.typing)
    return sorted(
        {
            target
            for target in targets
            if target.split(".")[0] not in sys.stdlib_module_names
            and not any(is_inside(target, package) for package in packages)
        }
    )


def parametrize_paths(paths: list[Path]) -> Any:
    return pytest.mark.parametrize("path", paths, ids=[f"{module_name(path)}{path.suffix}" for path in paths])


@pytest.mark.parametrize("text", ["", "# only\n", "x = 1  # one\n\n# two\n", 'x = """a\n\n# b"""\n'])
def test_comments_do_not_change_a_bare_source(text: str) -> None:
    bare = bare_source(text)
    assert bare_source(f"# first\n\n{text}\n# last\n").rstrip("\n") == bare.rstrip("\n")
    assert "# b" in bare or "#" not in bare


def test_bare_sources_are_those_without_comments_and_docstrings() -> None:
    """Sources are searched for comments and docstrings by patterns; the parser of Python finds the same."""
    for path in sources(".py"):
        text = path.read_text(encoding="utf-8")
        bare = bare_source(text)
        assert bare_module(bare.encode()) == bare_module(text.encode()), path
        if re.search(r'^\s*"""[^"]', bare, re.MULTILINE):
            for node in ast.walk(ast.parse(bare)):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                    assert not ast.get_docstring(node), (path, node)
        if "#" in bare:
            assert COMMENT not in {token.type for token in generate_tokens(StringIO(bare).readline)}, path


def test_the_code_of_a_run_is_closed_under_imports() -> None:
    """Whatever may change the outcome of a run belongs to the version of its code."""
    parts = [part.removeprefix("gridsim/") for part in OUTCOME_PARTS[1:-1]]
    assert {part.removesuffix(".py") for part in parts} == set(ORDER[: ORDER.index("simulation") + 1])
    for name in (entry.target for entry in imports(SIM.parent / OUTCOME_PARTS[-1]) if not entry.typing):
        if is_inside(name, "gridsim"):
            assert any(is_inside(name, f"gridsim.{part.removesuffix('.py')}") for part in parts), name


def test_the_reader_of_imports_finds_all_imports() -> None:
    actual = {entry.target for entry in imports(CORE / "fair_tree" / "nodes.pyx")}
    assert {
        "gridcore.network.links",
        "gridcore.queues.task_queues",
        "gridcore.fair_tree.summary_tree",
        "numpy",
    } <= actual
    tree = {entry.target for entry in imports(CORE / "fair_tree" / "summary_tree.pxd")}
    assert "gridcore.queues.availability" in tree
    here = {entry.target: entry for entry in imports(SIM / "simulation" / "simulate.py")}
    assert "gridsim.support.provenance" in here  # from gridsim import provenance
    assert not here["gridsim.errors"].lazy
    assert {entry.target: entry for entry in imports(SIM / "model" / "scenario.py")}["tomli_w"].lazy


# -- directions of imports --------------------------------------------------------------------------------


def test_gridcore_imports_only_numpy() -> None:
    for path in sources(".py", ".pyx", ".pxd"):
        if path.is_relative_to(CORE):
            compiled = ("libc", "cython", "cpython") if path.suffix != ".py" else ()
            # it loads kernels when they are first used
            lazy = ("lazy_loader",) if path == CORE / "__init__.py" else ()
            assert outside_imports(path, "numpy", "gridcore", *compiled, *lazy) == [], path


def test_private_parts_of_numba_are_imported_in_one_module() -> None:
    """It lists them with the reasons, for whoever raises the upper bound of Numba."""
    private = ("numba.core", "numba.cpython", "numba.np")
    users = {
        path.name
        for path in sources(".py")
        for entry in imports(path)
        if any(is_inside(entry.target, package) for package in private)
    }
    assert users == {"numba_internals.py"}


@pytest.mark.parametrize("package", ["gridcore", "gridsim"])
def test_imports_have_no_cycles(package: str) -> None:
    """Imports in functions and for type checkers count as well."""
    graph: dict[str, set[str]] = {}
    for path in sources(".py", ".pyx", ".pxd"):
        if is_inside(own := module_name(path), package) and own != package:
            targets = {entry.target for entry in imports(path)}
            graph.setdefault(own, set()).update(t for t in targets if is_inside(t, package) and t != own)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize("root, order", [(SIM, ORDER), (CORE, CORE_ORDER)])
def test_every_package_has_a_place_in_the_import_order(root: Path, order: tuple[str, ...]) -> None:
    actual = {
        path.stem for path in root.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert actual - {"__init__", "__main__"} == set(order)


def test_imports_follow_the_order_of_packages() -> None:
    """Imports in functions and for type checkers count as well."""
    for path in sources(".py", ".pyx", ".pxd"):
        if path.parent in (SIM, CORE):
            continue
        package, own, *_ = module_name(path).split(".")
        order = ORDER if package == "gridsim" else CORE_ORDER
        targets = [entry.target.split(".") for entry in imports(path)]
        reached = {parts[1] for parts in targets if parts[0] == package and len(parts) > 1}
        assert not {name for name in reached if order.index(name) > order.index(own)}, path
        if package == "gridsim" and own != "cli":
            assert not {name for name in reached if name in WINGS and name != own}, path


def _defines_scheduler(path: Path) -> bool:
    classes = [node for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]
    names = {base.id for c in classes for base in c.bases if isinstance(base, ast.Name)}
    return not names.isdisjoint({"Scheduler", "ProgramScheduler"})


def test_schedulers_do_not_import_one_another() -> None:
    """Each scheduler can be removed; modules that several share define no scheduler."""
    every = (SIM / "schedulers").rglob("*.py")
    schedulers = {module_name(path): path for path in every if _defines_scheduler(path)}
    assert {"gridsim.schedulers.fair_tree.scheduler", "gridsim.schedulers.centralized.pull"} <= set(
        schedulers
    )
    for path in sources(".py"):
        if path not in (SIM / "schedulers" / "__init__.py", SIM / "__init__.py"):
            family = module_name(path).rpartition(".")[0]
            reached = {entry.target for entry in imports(path)} & set(schedulers)
            assert all(target.rpartition(".")[0] == family for target in reached), path
    assert set(schedulers) <= {entry.target for entry in imports(SIM / "schedulers" / "__init__.pyi")}


@parametrize_paths([SIM / "engine" / "engine.py", SIM / "engine" / "calendar_queue.py"])
def test_the_engine_imports_no_modules_about_grids(path: Path) -> None:
    known = (
        "gridsim.errors",
        "gridsim.support.arrays",
        "gridsim.support.clock",
        "gridsim.engine.calendar_queue",
    )
    assert outside_imports(path, "numpy", *known) == []


def test_validation_imports_no_code_of_the_simulator() -> None:
    """Indirect and lazy imports count as well."""
    visited: set[str] = set()
    pending = [f"gridsim.validation.{name}" for name in ("common", "results", "logs")]
    paths = {module_name(path): path for path in sources(".py", ".pyx", ".pxd")}
    while pending:
        name = pending.pop()
        if name in paths and name not in visited:
            visited.add(name)
            pending += [entry.target for entry in imports(paths[name]) if not entry.typing]
    assert "gridsim.results.result" in visited and "gridsim.model.faults" in visited
    simulator = "engine", *ORDER[ORDER.index("scheduling") :]
    assert not {name for name in visited for part in simulator if is_inside(name, f"gridsim.{part}")}
    # modules that these may import: types, errors about names, and tables of numbers as text
    words = {f"gridcore.common.{name}" for name in ("arrays", "names", "decimal_numbers")}
    assert not {name for name in visited - words if is_inside(name, "gridcore")}


# -- kernels and their companions -------------------------------------------------------------------------


@parametrize_paths(KERNELS)
def test_kernels_have_a_reference_implementation_unless_exempt(path: Path) -> None:
    assert (REFERENCE / f"{path.stem}.py").is_file() == (path in WITH_REFERENCE)


def test_shared_parts_of_kernels_are_not_public() -> None:
    assert not public(import_module(module_name(SHARED)))
    for path in PARTS:
        assert not set(public(import_module(module_name(path)))) & set(gridcore.__all__), path


Parameters = list[tuple[str, str, str]]


def parameters_of(signature: inspect.Signature) -> Parameters:
    """Return names, kinds and defaults of the parameters, without ``self``, ``cls`` and types."""
    return [
        (p.name, p.kind.name, "" if p.default is p.empty else repr(p.default))
        for p in signature.parameters.values()
        if p.name not in ("self", "cls")
    ]


def constructor(kernel: Path, name: str) -> Parameters:
    """Return the parameters of a compiled class's constructor, read from its source."""
    classes = [node for node in ast.parse(stub(kernel, {})).body if isinstance(node, ast.ClassDef)]
    [body] = [item.body for item in classes if item.name == name]
    [method] = [
        item for item in body if isinstance(item, ast.FunctionDef) and item.name in ("__new__", "__init__")
    ]
    namespace: dict[str, Any] = {}
    exec(f"from __future__ import annotations\n{ast.unparse(method)}", namespace)
    return parameters_of(inspect.signature(namespace[method.name]))


def public(module: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and value.__module__ == module.__name__
    }


@parametrize_paths(WITH_REFERENCE)
def test_reference_implementations_have_the_same_signatures(path: Path) -> None:
    kernel, reference = import_module(module_name(path)), import_module(f"tests.reference.{path.stem}")
    assert public(kernel)
    for name, compiled in public(kernel).items():
        plain = getattr(reference, name)
        if not isinstance(compiled, type):
            assert parameters_of(inspect.signature(compiled)) == parameters_of(inspect.signature(plain)), name
            continue
        assert constructor(path, name) == parameters_of(inspect.signature(plain)), name
        for member in dir(compiled):
            value = getattr(compiled, member)
            if member.startswith("_") or member in CHECKPOINT_METHODS:
                continue
            if inspect.isgetsetdescriptor(value):
                assert not callable(getattr(plain, member, None)), f"{name}.{member}"
            else:
                other = inspect.signature(getattr(plain, member))
                assert parameters_of(inspect.signature(value)) == parameters_of(other), f"{name}.{member}"


def test_all_kernels_are_exported() -> None:
    for path in set(KERNELS) - set(PARTS):
        for name in public(import_module(module_name(path))):
            assert name in gridcore.__all__, f"{module_name(path)}.{name}"


# -- forbidden operations ---------------------------------------------------------------------------------


def test_random_numbers_come_from_named_streams() -> None:
    """The module random, numpy's legacy functions and unnamed generators are not used."""
    # modules that create streams, restore states, and spawn seeds of replications
    allowed_names = {
        "random_streams": {"PCG64", "SeedSequence"},
        "state": {"PCG64"},
        "replicate": {"SeedSequence"},
    }
    for path in sources(".py", ".pyx", ".pxd"):
        forbidden = {"random", "numpy.random", "secrets.randbelow"}
        assert not {entry.target for entry in imports(path)} & forbidden, path
        code = path.read_text(encoding="utf-8")
        used = set(re.findall(r"\bn(?:p|umpy)\.random\.(\w+)", code))
        allowed = allowed_names.get(path.stem, set()) if path.is_relative_to(SIM) else set()
        assert used <= {"Generator"} | allowed, path
        assert not re.search(r"libc\.stdlib cimport [^\n]*\bs?rand\b", code), path


def test_the_library_never_prints() -> None:
    for path in sources(".py", ".pyx"):
        code = path.read_text(encoding="utf-8")
        if path.suffix == ".pyx":
            assert not re.search(r"\bprint\(", re.sub(r'"""(?:.|\n)*?"""', "", code)), path
        elif path != SIM / "cli" / "main.py" and "print(" in code:
            calls = [node.func for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
            assert not [f for f in calls if isinstance(f, ast.Name) and f.id == "print"], path
