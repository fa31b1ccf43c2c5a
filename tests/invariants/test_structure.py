"""Which way imports point, and what goes with each kernel; read from the sources, the .pyx and .pxd too."""

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
from pathlib import Path
from typing import Any

import pytest

import gridcore
import gridsim
from gridcore.common.stubs import stub

CORE, SIM = Path(gridcore.__file__).parent, Path(gridsim.__file__).parent
#: Compiled, and nothing in it for Python.
SHARED = CORE / "common" / "arguments.pyx"
KERNELS = sorted(set(CORE.rglob("*.pyx")) - {SHARED})
#: Modules of the message core, and those whose classes are for the message core only.
MESSAGE_CORE = (
    "board", "handlers", "kinds", "payloads", "local_messages", "node_actions", "view", "compiled_calls",
    "node_events", "message_core", "rows", "containers",
)  # fmt: skip
PARTS = [
    path
    for path in KERNELS
    if path.stem
    in (
        "machine_queues",
        "negotiations",
        "task_numbers",
        "transit",
        "exchange",
        "shared_flow",
        "whole_numbers",
    )  # fmt: skip
    or path.parent.name == "probes"
    or (path.stem in MESSAGE_CORE and path.stem not in ("message_core", "view"))
]
#: Kernels without a reference implementation: protocols and their parts are compared with node programs.
ALONE = (
    "protocol", "summary_tree", "decision_log", "negotiations", "machine_queues", "task_numbers", "transit",
    "exchange", "shared_flow", "srpt", "waiting_times", "workers", *MESSAGE_CORE,
)  # fmt: skip
REFERRED = [path for path in KERNELS if path.stem not in ALONE]
REFERENCE = Path(__file__).parents[1] / "reference"
#: How a kernel's memory is saved, which reference implementations do not do: an invariant of whole runs.
MEMORY = {"getstate", "setstate"}
#: The packages of gridcore: each imports only those before it, and itself.
CORE_ORDER = (
    "common", "queues", "network", "nodes", "probes", "fair_tree", "dgs", "work_queue", "random_walk",
    "rigid_queue", "centralized",
)  # fmt: skip
#: The packages of gridsim: each imports only those before it, and itself.
ORDER = (
    "errors", "support", "traces", "model", "results", "engine", "validation", "scheduling", "schedulers",
    "simulation", "emulation", "plots", "studies", "report", "testing", "theory", "reproduce", "cli",
)  # fmt: skip
#: Packages that nothing below `cli` imports; `cli` and lazy public names may.
WINGS = ("emulation", "report", "reproduce", "testing", "theory")


# -- reading ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """`target` is a module, as far as the sources show; `lazy` inside a function, `typing` for checkers."""

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
    """``from base import name`` names a module or something in one."""
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


def inside(target: str, package: str) -> bool:
    return target == package or target.startswith(package + ".")


def outside(path: Path, *packages: str) -> list[str]:
    """Imports at run time of anything but the standard library and `packages`."""
    targets = (entry.target for entry in imports(path) if not entry.typing)
    return sorted(
        {
            target
            for target in targets
            if target.split(".")[0] not in sys.stdlib_module_names
            and not any(inside(target, package) for package in packages)
        }
    )


def named(paths: list[Path]) -> Any:
    return pytest.mark.parametrize("path", paths, ids=[f"{module_name(path)}{path.suffix}" for path in paths])


def test_the_reader_of_imports_finds_all_imports() -> None:
    found = {entry.target for entry in imports(CORE / "fair_tree" / "protocol.pyx")}
    assert {
        "gridcore.queues.edf",
        "gridcore.network.links",
        "gridcore.queues.task_queues",
        "gridcore.fair_tree.summary_tree",
        "numpy",
    } <= found
    tree = {entry.target for entry in imports(CORE / "fair_tree" / "summary_tree.pxd")}
    assert "gridcore.queues.availability" in tree
    here = {entry.target: entry for entry in imports(SIM / "simulation" / "simulate.py")}
    assert "gridsim.support.provenance" in here  # from gridsim import provenance
    assert not here["gridsim.errors"].lazy
    assert {entry.target: entry for entry in imports(SIM / "model" / "scenario.py")}["tomli_w"].lazy


# -- which way imports point ------------------------------------------------------------------------------


def test_gridcore_imports_only_numpy() -> None:
    for path in sources(".py", ".pyx", ".pxd"):
        if path.is_relative_to(CORE):
            compiled = ("libc", "cython", "cpython") if path.suffix != ".py" else ()
            lazy = ("lazy_loader",) if path == CORE / "__init__.py" else ()  # for kernels
            assert outside(path, "numpy", "gridcore", *compiled, *lazy) == [], path


@pytest.mark.parametrize("package", ["gridcore", "gridsim"])
def test_imports_have_no_cycles(package: str) -> None:
    """Between modules, also by imports in functions and for type checkers."""
    graph: dict[str, set[str]] = {}
    for path in sources(".py", ".pyx", ".pxd"):
        if inside(own := module_name(path), package) and own != package:
            targets = {entry.target for entry in imports(path)}
            graph.setdefault(own, set()).update(t for t in targets if inside(t, package) and t != own)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize("root, order", [(SIM, ORDER), (CORE, CORE_ORDER)])
def test_every_package_is_in_the_order(root: Path, order: tuple[str, ...]) -> None:
    found = {path.stem for path in root.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert found - {"__init__", "__main__"} == set(order)


def test_imports_follow_the_order_of_packages() -> None:
    """Imports in functions and for type checkers count, too."""
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
    return any(isinstance(base, ast.Name) and base.id == "Scheduler" for c in classes for base in c.bases)


def test_schedulers_do_not_import_one_another() -> None:
    """Each can be removed.  What is shared by several defines no scheduler."""
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


@named([SIM / "engine" / "engine.py", SIM / "engine" / "calendar_queue.py"])
def test_the_engine_imports_no_modules_about_grids(path: Path) -> None:
    known = (
        "gridsim.errors",
        "gridsim.support.arrays",
        "gridsim.support.clock",
        "gridsim.engine.calendar_queue",
    )
    assert outside(path, "numpy", *known) == []


def test_validation_imports_no_code_of_the_simulator() -> None:
    """Neither directly nor through what it imports, be it lazily."""
    seen: set[str] = set()
    todo = [f"gridsim.validation.{name}" for name in ("common", "results", "logs")]
    homes = {module_name(path): path for path in sources(".py", ".pyx", ".pxd")}
    while todo:
        name = todo.pop()
        if name in homes and name not in seen:
            seen.add(name)
            todo += [entry.target for entry in imports(homes[name]) if not entry.typing]
    assert "gridsim.results.result" in seen and "gridsim.model.faults" in seen
    assert not {name for name in seen for part in ("engine", *ORDER[7:]) if inside(name, f"gridsim.{part}")}
    # types, words of errors about names, and tables of numbers in text
    words = {f"gridcore.common.{name}" for name in ("arrays", "names", "whole_numbers")}
    assert not {name for name in seen - words if inside(name, "gridcore")}


# -- kernels and their companions -------------------------------------------------------------------------


@named(KERNELS)
def test_every_kernel_has_its_companions(path: Path) -> None:
    assert (REFERENCE / f"{path.stem}.py").is_file() == (path in REFERRED)


def test_shared_parts_of_kernels_are_not_public() -> None:
    assert not public(import_module(module_name(SHARED)))
    for path in PARTS:
        assert not set(public(import_module(module_name(path)))) & set(gridcore.__all__), path


Shape = list[tuple[str, str, str]]


def shape(signature: inspect.Signature) -> Shape:
    """Names, kinds and defaults of the parameters, without ``self`` or ``cls`` and types."""
    return [
        (p.name, p.kind.name, "" if p.default is p.empty else repr(p.default))
        for p in signature.parameters.values()
        if p.name not in ("self", "cls")
    ]


def constructor(kernel: Path, name: str) -> Shape:
    """The shape of a compiled class's constructor, which `inspect` does not see: read from the source."""
    classes = [node for node in ast.parse(stub(kernel, {})).body if isinstance(node, ast.ClassDef)]
    [body] = [each.body for each in classes if each.name == name]
    [made] = [
        each for each in body if isinstance(each, ast.FunctionDef) and each.name in ("__new__", "__init__")
    ]
    namespace: dict[str, Any] = {}
    exec(f"from __future__ import annotations\n{ast.unparse(made)}", namespace)
    return shape(inspect.signature(namespace[made.name]))


def public(module: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and value.__module__ == module.__name__
    }


@named(REFERRED)
def test_reference_implementations_have_the_same_signatures(path: Path) -> None:
    kernel, reference = import_module(module_name(path)), import_module(f"tests.reference.{path.stem}")
    assert public(kernel)
    for what, compiled in public(kernel).items():
        plain = getattr(reference, what)
        if not isinstance(compiled, type):
            assert shape(inspect.signature(compiled)) == shape(inspect.signature(plain)), what
            continue
        assert constructor(path, what) == shape(inspect.signature(plain)), what
        for member in dir(compiled):
            value = getattr(compiled, member)
            if member.startswith("_") or member in MEMORY:
                continue
            if inspect.isgetsetdescriptor(value):
                assert not callable(getattr(plain, member, None)), f"{what}.{member}"
            else:
                other = inspect.signature(getattr(plain, member))
                assert shape(inspect.signature(value)) == shape(other), f"{what}.{member}"


def test_all_kernels_are_exported() -> None:
    for path in set(KERNELS) - set(PARTS):
        for what in public(import_module(module_name(path))):
            assert what in gridcore.__all__, f"{module_name(path)}.{what}"


# -- what the library never does --------------------------------------------------------------------------


def test_random_numbers_come_from_named_streams() -> None:
    """No global generator, and none but by a name: neither the module random nor numpy's legacy functions."""
    # made where streams get their names, come back where states are read, seeds of replicas are spawned
    makers = {
        "random_streams": {"PCG64", "SeedSequence"},
        "state": {"PCG64"},
        "replications": {"SeedSequence"},
    }
    for path in sources(".py", ".pyx", ".pxd"):
        barred = {"random", "numpy.random", "secrets.randbelow"}
        assert not {entry.target for entry in imports(path)} & barred, path
        code = path.read_text(encoding="utf-8")
        used = set(re.findall(r"\bn(?:p|umpy)\.random\.(\w+)", code))
        allowed = makers.get(path.stem, set()) if path.is_relative_to(SIM) else set()
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
