"""Scenarios for reports, and a parser of reports."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gridsim as gs

NAMES = {"fair-tree": gs.FairTree(), "mincent": gs.MinCent(), "fcfs": gs.Fcfs()}


def bags(nodes: int = 30) -> gs.Scenario:
    workload = gs.Workload.bags(
        applications=8, interarrival=20.0, tasks_per_node=4, task_size=65536.0, seed=1
    )
    return gs.Scenario(gs.Platform.desktop_grid(nodes, 1), workload, seed=1)


def rigid() -> gs.Scenario:
    workload = gs.Workload.jobs(jobs=40, utilization=0.8, max_nodes=6, seed=1)
    return gs.Scenario(gs.Platform.equal(20), workload, gs.Network(interfaces="equal"), seed=1)


class _Reader(HTMLParser):
    """Parser of tables as rows of text, the text outside of scripts, and every tag with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self._rows: list[list[str]] = []
        self._open: list[str] = []
        self._caption = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("meta", "link", "input"):
            return
        self._open.append(tag)
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("th", "td"):
            self._rows[-1].append("")
        elif tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        where = self._open[-1] if self._open else ""
        if where == "script":
            self.scripts[-1] += data
        elif where != "style":
            self.text.append(data)
        if where == "caption":
            self._caption += data
        elif {"th", "td"} & set(self._open):
            self._rows[-1][-1] += f" {data}" if where == "small" else data


def read(path: Path) -> SimpleNamespace:
    """Return the html, tables (caption -> rows of text), tags, text and charts (id -> figure) of a report."""
    html = path.read_text(encoding="utf-8")
    reader = _Reader()
    reader.feed(html)
    assert reader._open == []
    ids = [attributes.get("id") for tag, attributes in reader.tags if tag == "script"]
    return SimpleNamespace(
        html=html,
        tables=reader.tables,
        tags=reader.tags,
        text=re.sub(r"\s+", " ", "".join(reader.text)),
        charts=json.loads(reader.scripts[ids.index("charts")]),
        scripts=reader.scripts,
    )
