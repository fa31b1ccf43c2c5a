"""Coverage of a scheduler's own code: the handlers and branches that no scenario reached."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

#: Fields of syntax trees that hold the statements of a branch.
_BRANCHES = ("body", "orelse", "handlers", "finalbody")


class Coverage:
    """Recorder of the executed lines of a scheduler's own classes.

    Classes of gridsim are ignored.
    """

    def __init__(self, classes: list[type]) -> None:
        own_classes = [cls for cls in classes if not cls.__module__.startswith(("gridsim.", "gridcore."))]
        self.lines_run: set[tuple[str, int]] = set()
        self._has_recorded = False
        #: (file, line) of the first statement of each branch -> name of the branch.
        self.branches: dict[tuple[str, int], str] = {}
        #: (file, line) of a branch in an overridden method -> (file, line) of the method's first statement,
        #: which runs only if the overriding method calls it.
        self._overridden: dict[tuple[str, int], tuple[str, int]] = {}
        self._files: set[str] = set()
        for cls in own_classes:
            try:
                lines, first = inspect.getsourcelines(cls)
                file = inspect.getsourcefile(cls) or ""
                [tree] = ast.parse(textwrap.dedent("".join(lines))).body
            except (OSError, TypeError, SyntaxError):  # the class has no source
                continue
            self._files.add(file)
            subclasses = [
                subclass for subclass in own_classes if subclass is not cls and issubclass(subclass, cls)
            ]
            for part in getattr(tree, "body", []):
                part_branches = [*_branches(ast.Module([part], []), cls.__qualname__)]
                places = [(file, line + first - 1) for line, _ in part_branches]
                self.branches.update(zip(places, (name for _, name in part_branches), strict=True))
                if any(getattr(part, "name", None) in vars(subclass) for subclass in subclasses):
                    self._overridden.update(dict.fromkeys(places, places[0]))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the lines that run in the context."""
        previous_trace = sys.gettrace()
        if not self._files or previous_trace is not None:  # a debugger or a coverage tool is active
            yield
            return
        self._has_recorded = True
        sys.settrace(self._trace_call)
        try:
            yield
        finally:
            sys.settrace(previous_trace)

    def _trace_call(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._trace_line if frame.f_code.co_filename in self._files else None

    def _trace_line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.lines_run.add((frame.f_code.co_filename, frame.f_lineno))
        return self._trace_line

    @property
    def can_record(self) -> bool:
        """Whether lines can be recorded: classes have sources, and no debugger or coverage tool is active."""
        return bool(self._files) and sys.gettrace() is None

    def unreached_count(self) -> int:
        """Return the number of branches that have not run yet."""
        return len(self.branches.keys() - self.lines_run)

    def reached_text(self) -> str:
        """Return the share of branches that have run, as a remark; "" if there are none."""
        if not self.branches or not self._has_recorded:
            return ""
        return f"{1 - self.unreached_count() / len(self.branches):.0%} of the branches"

    def unreached_branches(self) -> list[str]:
        """Return the branches that never ran, in order of lines; none if nothing could be recorded.

        Branches of a method that a subclass overrides count only if the method ran.
        """
        if not self._has_recorded:
            return []
        called_branches = {at for at in self.branches if self._overridden.get(at, at) in self.lines_run}
        uncalled_branches = self._overridden.keys() - called_branches
        unreached_branches = sorted(self.branches.keys() - self.lines_run - uncalled_branches)
        return [f"{self.branches[at]} (line {at[1]})" for at in unreached_branches]


def _branches(tree: ast.AST, qualname: str) -> Iterator[tuple[int, str]]:
    """Yield the first line and the name of each function and branch below `tree`."""
    for node in ast.iter_child_nodes(tree):
        inner = qualname
        if isinstance(node, ast.FunctionDef):
            inner = f"{qualname}.{node.name}"
            statements = [
                item for item in node.body if not isinstance(item, (ast.Pass, ast.Expr))
            ] or node.body[-1:]
            yield statements[0].lineno, inner
        elif isinstance(node, (ast.If, ast.For, ast.While, ast.Try)):
            parts = [part for name in _BRANCHES for part in getattr(node, name, [])[:1]]
            for part in parts:
                first = part.body[0] if isinstance(part, ast.ExceptHandler) else part
                yield first.lineno, f"{qualname}, a branch"
        yield from _branches(node, inner)
