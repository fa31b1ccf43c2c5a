"""Finds which handlers and branches of a scheduler's own code were never reached."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

#: Fields of the syntax tree that hold the statements of a branch.
_BRANCHES = ("body", "orelse", "handlers", "finalbody")


class Reached:
    """Records the lines of some classes that run.

    Classes of gridsim itself are left out.
    """

    def __init__(self, classes: list[type]) -> None:
        own = [each for each in classes if not each.__module__.startswith(("gridsim.", "gridcore."))]
        self.seen: set[tuple[str, int]] = set()
        self._watched = False
        #: (file, line) of the first statement of each branch -> what it is.
        self.branches: dict[tuple[str, int], str] = {}
        #: (file, line) of a branch of a method that a subclass overrides -> those of the method's first
        #: statement, which runs only if the subclass calls it.
        self._overridden: dict[tuple[str, int], tuple[str, int]] = {}
        self._files: set[str] = set()
        for each in own:
            try:
                lines, first = inspect.getsourcelines(each)
                file = inspect.getsourcefile(each) or ""
                [tree] = ast.parse(textwrap.dedent("".join(lines))).body
            except (OSError, TypeError, SyntaxError):  # there is no source
                continue
            self._files.add(file)
            below = [other for other in own if other is not each and issubclass(other, each)]
            for part in getattr(tree, "body", []):
                found = [*_branches(ast.Module([part], []), each.__qualname__)]
                places = [(file, line + first - 1) for line, _ in found]
                self.branches.update(zip(places, (what for _, what in found), strict=True))
                if any(getattr(part, "name", None) in vars(other) for other in below):
                    self._overridden.update(dict.fromkeys(places, places[0]))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record what runs in the context."""
        before = sys.gettrace()
        if not self._files or before is not None:  # a debugger, or a measurement of coverage
            yield
            return
        self._watched = True
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _call(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.seen.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line

    def missed(self) -> list[str]:
        """Return the branches that never ran, in order of lines; none if nothing could be recorded.

        Those of a method that a subclass replaces count only if the method ran.
        """
        if not self._watched:
            return []
        called = {at for at in self.branches if self._overridden.get(at, at) in self.seen}
        silent = self._overridden.keys() - called
        missed = sorted(self.branches.keys() - self.seen - silent)
        return [f"{self.branches[at]} (line {at[1]})" for at in missed]


def _branches(tree: ast.AST, where: str) -> Iterator[tuple[int, str]]:
    """Yield the first line of each function and branch below `tree`, and what it is."""
    for node in ast.iter_child_nodes(tree):
        inner = where
        if isinstance(node, ast.FunctionDef):
            inner = f"{where}.{node.name}"
            said = [each for each in node.body if not isinstance(each, (ast.Pass, ast.Expr))] or node.body[
                -1:
            ]
            yield said[0].lineno, inner
        elif isinstance(node, (ast.If, ast.For, ast.While, ast.Try)):
            parts = [part for name in _BRANCHES for part in getattr(node, name, [])[:1]]
            for part in parts:
                first = part.body[0] if isinstance(part, ast.ExceptHandler) else part
                yield first.lineno, f"{where}, a branch"
        yield from _branches(node, inner)
