"""Display of progress on standard error: a bar on a terminal or in Jupyter, lines in a log file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from time import monotonic
from typing import Any, Literal, Protocol, Self, TypeVar

from gridsim.errors import ScenarioError

#: False: no display.  True: a bar on a terminal or in a notebook.  "force": a bar there, and lines elsewhere.
Progress = bool | Literal["force"]

#: Time between updates of a bar, and between lines (s).
BAR_INTERVAL, LINE_INTERVAL = 0.1, 10.0

_Item = TypeVar("_Item")


class MostFrequent:
    """Text about the most frequent kinds of events since the last update of the display."""

    def __init__(self) -> None:
        self._last: Mapping[str, int] = {}

    def since_last(self, counts: Mapping[str, int]) -> str:
        """Return the two most frequent new kinds and their shares, as the end of a sentence, or "".

        Parameters
        ----------
        counts
            Kind -> number of its events so far.
        """
        new = {sort: count - self._last.get(sort, 0) for sort, count in counts.items()}
        self._last = counts
        total = sum(new.values())
        if not total:
            return ""
        first = sorted(new, key=lambda sort: -new[sort])[:2]
        return ": " + ", ".join(f"{new[sort] / total:.0%} {sort}" for sort in first if new[sort])


class Bar(Protocol):
    """Progress display, shown while its context is active."""

    def move(self, done: int, note: Callable[[], str] | None = None) -> None:
        """Set the number of finished items; `note` returns a remark for the display."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def bar(progress: Progress, total: int | None, unit: str, title: str = "") -> Bar | None:
    """Return a display of the number of finished items (named `unit`) out of `total`; None for no display.

    Parameters
    ----------
    total
        None if it is not known.

    Raises
    ------
    ScenarioError
        If `progress` is not a `Progress`.
    """
    if progress not in (False, True, "force"):
        raise ScenarioError(f"progress must be True, False or 'force', got {progress!r}")
    if not progress or sys.stderr is None:  # a process without a console has no stderr
        return None
    if _in_notebook():
        return _TqdmBar(_notebook_bar(), total, unit, title)
    if sys.stderr.isatty():
        return _TqdmBar("tqdm", total, unit, title)
    return _LogLines(total, unit, title) if progress == "force" else None


def with_progress(items: Iterable[_Item], progress: Progress, total: int, unit: str) -> Iterator[_Item]:
    """Yield the items, and display how many of `total` have been processed."""
    display = bar(progress, total, unit)
    if display is None:
        yield from items
        return
    with display:
        for number, item in enumerate(items, 1):
            yield item
            display.move(number)


def _in_notebook() -> bool:
    """Return whether this process is a Jupyter kernel, without importing IPython."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", {})


def _notebook_bar() -> str:
    """Return the module of tqdm for a notebook; the notebook bar requires ipywidgets."""
    try:
        import_module("ipywidgets")
    except ImportError:
        return "tqdm"
    return "tqdm.notebook"


class _TqdmBar:
    """Progress bar of tqdm."""

    def __init__(self, module: str, total: int | None, unit: str, title: str) -> None:
        self._bar: Any = import_module(module).tqdm(
            total=total, desc=title or None, unit=f" {unit}", file=sys.stderr, dynamic_ncols=True
        )
        self._last, self._total = 0.0, total

    def move(self, done: int, note: Callable[[], str] | None = None) -> None:
        now = monotonic()
        if now - self._last > BAR_INTERVAL or done == self._total > self._bar.n:
            self._last = now
            if note is not None:
                self._bar.set_postfix_str(note(), refresh=False)
            self._bar.update(done - self._bar.n)
            self._bar.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()


class _LogLines:
    """Display that writes a line every `LINE_INTERVAL` seconds and at the end, also after an error."""

    def __init__(self, total: int | None, unit: str, title: str) -> None:
        self._title, self._unit = f"{title}: " if title else "", unit
        self._of_total = "" if total is None else f"/{total}"
        self._start = self._last = monotonic()
        self._latest: tuple[int, Callable[[], str] | None] = (0, None)

    def move(self, done: int, note: Callable[[], str] | None = None) -> None:
        self._latest = done, note
        if monotonic() - self._last >= LINE_INTERVAL:
            self._write()

    def _write(self) -> None:
        self._last = monotonic()
        done, note = self._latest
        more = f", {note()}" if note is not None else ""
        after = f"after {self._last - self._start:.0f} s"
        with suppress(OSError):  # a full disk must not end the run
            sys.stderr.write(f"{self._title}{done}{self._of_total} {self._unit} {after}{more}\n")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write()
