"""Whether and how it is shown how far something has come; all of it on standard error.

On a terminal a bar, in a Jupyter notebook its kind of bar, in a log file whole lines, a few of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from time import monotonic
from typing import Any, Literal, Protocol, Self, TypeVar

from gridsim.errors import ScenarioError

#: False: nothing; True: a bar on a terminal or in a notebook; "force": elsewhere too, as lines.
Progress = bool | Literal["force"]

#: Seconds between two looks of a bar, and between two lines of a log.
BAR_EVERY, LINE_EVERY = 0.1, 10.0

_Item = TypeVar("_Item")


class Bar(Protocol):
    """Something that shows how far it is; a context, in which it is shown."""

    def move(self, done: int, note: Callable[[], str] | None = None) -> None:
        """So many are done; `note` makes a few words on it, if they are to be shown now."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def bar(progress: Progress, total: int, unit: str, title: str = "") -> Bar | None:
    """What shows how many of `total` things, called `unit`, are done; None if nothing is to be shown.

    Raises ScenarioError for a `progress` that is none.
    """
    if progress not in (False, True, "force"):
        raise ScenarioError(f"progress must be True, False or 'force', got {progress!r}")
    if not progress or sys.stderr is None:  # as of a program without a console
        return None
    if _in_notebook():
        return _Drawn(_notebook_bar(), total, unit, title)
    if sys.stderr.isatty():
        return _Drawn("tqdm", total, unit, title)
    return _Lines(total, unit, title) if progress == "force" else None


def watched(items: Iterable[_Item], progress: Progress, total: int, unit: str) -> Iterator[_Item]:
    """The items, while it is shown how many of `total` have been dealt with."""
    shown = bar(progress, total, unit)
    if shown is None:
        yield from items
        return
    with shown:
        for number, item in enumerate(items, 1):
            yield item
            shown.move(number)


def _in_notebook() -> bool:
    """Whether this runs in a kernel of Jupyter; IPython is not imported to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", {})


def _notebook_bar() -> str:
    """The module with the bar for a notebook: without ipywidgets tqdm's has nothing to draw with."""
    try:
        import_module("ipywidgets")
    except ImportError:
        return "tqdm"
    return "tqdm.notebook"


class _Drawn:
    """A bar of tqdm."""

    def __init__(self, module: str, total: int, unit: str, title: str) -> None:
        self._bar: Any = import_module(module).tqdm(
            total=total, desc=title or None, unit=f" {unit}", file=sys.stderr, dynamic_ncols=True
        )
        self._last, self._total = 0.0, total

    def move(self, done: int, note: Callable[[], str] | None = None) -> None:
        now = monotonic()
        if now - self._last > BAR_EVERY or done == self._total > self._bar.n:
            self._last = now
            if note is not None:
                self._bar.set_postfix_str(note(), refresh=False)
            self._bar.update(done - self._bar.n)
            self._bar.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()


class _Lines:
    """Lines: one in `LINE_EVERY` seconds, and one at the end, be that an error."""

    def __init__(self, total: int, unit: str, title: str) -> None:
        self._title, self._total, self._unit = f"{title}: " if title else "", total, unit
        self._began = self._last = monotonic()
        self._now: tuple[int, Callable[[], str] | None] = (0, None)

    def move(self, done: int, note: Callable[[], str] | None = None) -> None:
        self._now = done, note
        if monotonic() - self._last >= LINE_EVERY:
            self._write()

    def _write(self) -> None:
        self._last = monotonic()
        done, note = self._now
        more = f", {note()}" if note is not None else ""
        after = f"after {self._last - self._began:.0f} s"
        with suppress(OSError):  # where nobody can be told, as on a full disk, the run goes on
            sys.stderr.write(f"{self._title}{done}/{self._total} {self._unit} {after}{more}\n")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write()
