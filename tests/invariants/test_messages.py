"""Texts of errors and warnings, collected in one file that is reviewed as a diff.

``python -m tests.invariants.test_messages`` rewrites `messages.txt`; tests elsewhere pin class and path only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import gridcore
import gridsim

APPROVED = Path(__file__).with_name("messages.txt")
PACKAGES = (Path(gridcore.__file__).parent, Path(gridsim.__file__).parent)
#: Functions whose calls contain a message, besides those whose names end in Error, Warning or Exception.
CALLS = frozenset({"BadParameter", "UsageError", "ConformanceError", "error", "refuse", "warn"})


def template(node: ast.expr) -> str | None:
    """Return a string of the source with ``{...}`` in place of values; None if `node` is no string."""
    match node:
        case ast.Constant(value=str()):
            return node.value
        case ast.JoinedStr():
            parts = (
                part.value if isinstance(part, ast.Constant) else "{...}"
                for part in node.values
                if isinstance(part, (ast.Constant, ast.FormattedValue))
            )
            return "".join(map(str, parts))
        case ast.BinOp(op=ast.Add()):
            left, right = template(node.left), template(node.right)
            return None if left is None and right is None else (left or "{...}") + (right or "{...}")
        case ast.IfExp():
            texts = [text for text in (template(node.body), template(node.orelse)) if text]
            return " | ".join(texts) or None
    return None


def python_messages(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the class or function, and the text, of each message in a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name.endswith(("Error", "Warning", "Exception")) or name in CALLS:
                for argument in node.args:
                    text = template(argument)
                    if text and " " in text:
                        yield name, text


def cython_messages(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the class and the text of each message in a kernel."""
    pieces = r'(?:f?r?"(?:[^"\\]|\\.)*"\s*)+'
    for match in re.finditer(rf"raise (\w+)\(\s*({pieces})", path.read_text(encoding="utf-8")):
        text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match[2]))
        yield match[1], re.sub(r"\{[^{}]*\}", "{...}", text)


def messages() -> list[str]:
    """Return a line for each message: the file, the class, and the text."""
    lines = []
    for package in PACKAGES:
        for path in sorted([*package.rglob("*.py"), *package.rglob("*.pyx")]):
            entries = python_messages(path) if path.suffix == ".py" else cython_messages(path)
            file = path.relative_to(package.parent).as_posix()
            lines += sorted({f"{file}: {name}: {' '.join(text.split())}" for name, text in entries})
    return lines


def test_error_messages_equal_the_approved_ones() -> None:
    approved = APPROVED.read_text(encoding="utf-8").splitlines()
    assert messages() == approved, "review the texts: python -m tests.invariants.test_messages; git diff"


def test_error_messages_are_found_in_sources(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("def f(x):\n    raise ValueError(f'x must be > 0, got {x!r}' + (', too' if x else ''))\n")
    assert list(python_messages(path)) == [("ValueError", "x must be > 0, got {...}, too")]
    kernel = tmp_path / "kernel.pyx"
    kernel.write_text('raise TypeError(f"{name} must hold "\n    "integers, got {a.dtype}")\n')
    assert list(cython_messages(kernel)) == [("TypeError", "{...} must hold integers, got {...}")]


if __name__ == "__main__":
    APPROVED.write_text("".join(f"{line}\n" for line in messages()), encoding="utf-8")
