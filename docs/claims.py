"""Verdicts on published claims: tables of pages, from the data files in docs/reproductions.

Each experiment has a file, which ``gridsim reproduce NAME --data docs/reproductions`` writes.  The tables are
made when the site is built; `tables.py` writes that of the experiments.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, get_args

from gridsim.cli.commands.reproduce import EXPERIMENTS
from gridsim.reproduce.verdicts import Verdict

DOCS = Path(__file__).parent
FOLDER = DOCS / "reproductions"
#: The page with the table of all claims, which stands in place of `CLAIMS`.
PAGE, CLAIMS = "background/reproduce", "<!-- claims -->"
#: The place of the experiments of a page in docs/reproductions: patterns of their names.
MEASURED = re.compile(r"<!-- measured: (.+) -->")
#: Verdicts on claims, in the order in which they are counted.
VERDICTS = ("reproduced", "partly reproduced", *get_args(Verdict)[1:])


def data(name: str) -> dict[str, Any]:
    """Return the content of the data file of an experiment."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text())


def experiments(title: str) -> str:
    """Return the table of experiments, with the number of claims of each verdict."""
    lines = ["| experiment | paper | seeds | measured | claims |", "|---|---|---|---|---|"]
    for name in EXPERIMENTS:
        values = data(name)
        counts = Counter(each["verdict"] for each in values["claims"])
        verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
        seeds = str(len(values["seeds"]))
        lines.append(row(f"`{name}`", values["paper"], seeds, values["date"], verdicts or "none"))
    return "\n".join(lines)


def claims() -> Iterator[str]:
    """Yield the lines of the table of all claims."""
    pages = {name: page for page in FOLDER.glob("*.md") for name in names(page.read_text())}
    yield "| experiment | claim | verdict |"
    yield "|---|---|---|"
    for name in EXPERIMENTS:
        link = f"[{name}](../reproductions/{pages[name].name}#{name})"
        for each in data(name)["claims"]:
            yield row(link, each["claim"], each["verdict"])


def names(page: str) -> list[str]:
    """Return the experiments whose values a page has."""
    patterns = " ".join(MEASURED.findall(page)).split()
    return [name for name in EXPERIMENTS if any(fnmatch(name, pattern) for pattern in patterns)]


def section(name: str) -> Iterator[str]:
    """Yield the lines of the section of an experiment: claims, pictures, tables and remarks."""
    values = data(name)
    yield from ("", f"## {name}", "")
    quick = "; quick" if values["quick"] else ""
    yield f"{sentence(values['title'])}  Paper: {values['paper']}.  {len(values['seeds'])} seeds{quick}, "
    yield f"intervals of {values['level']:.0%}, measured {values['date']} with gridsim {values['version']}."
    if judged := list(judgements(values)):
        yield from (
            "",
            "| claim, and what was measured | paper | here | verdict | why |",
            "|---|---|---|---|---|",
        )
        yield from judged
    for picture in sorted((DOCS / "images").glob(f"{name}*.png")):
        yield from ("", f"![{values['title']}](../images/{picture.name})")
    for grid in values["grids"]:
        yield from ("", f"### {sentence(grid['title']).rstrip('.')}", "", row(*grid["columns"]))
        yield "|" + "---|" * len(grid["columns"])
        yield from (row(title, *cells) for title, cells in grid["rows"].items())
    if values["remarks"]:
        yield ""
        yield from (f"- {remark}" for remark in values["remarks"])


def judgements(values: dict[str, Any]) -> Iterator[str]:
    """Yield a row for each claim, and below it one for each quantity that it was judged by."""
    for claim in (*values["claims"], {"claim": ""}):
        if claim["claim"]:
            yield row(f"**{claim['claim']}**", "", "", f"**{claim['verdict']}**", claim["why"])
        for each in values["rows"]:
            if each["claim"] == claim["claim"]:
                measured = f"{each['measured']} {each['unit']}"
                yield row(each["quantity"], each["paper"], measured, each["verdict"], each["why"])


def row(*cells: str) -> str:
    """Return a row of a table."""
    return "| " + " | ".join(cell.strip().replace("|", r"\|") for cell in cells) + " |"


def sentence(text: str) -> str:
    """Return a title with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def fill(app: Any, page: str, source: list[str]) -> None:
    """Sphinx's event ``source-read``."""

    def text(lines: Iterable[str]) -> str:
        return "\n".join(lines)

    if page == PAGE:
        source[0] = source[0].replace(CLAIMS, text(claims()))
    elif page.startswith(f"{FOLDER.name}/"):
        sections = "\n".join(text(section(name)) for name in names(source[0]))
        source[0] = MEASURED.sub(lambda _: sections, source[0])


def changed(app: Any, env: Any, *_: Any) -> list[str]:
    """Sphinx's event ``env-get-outdated``: these pages are read again, since the data may have changed."""
    return [page for page in env.found_docs if page == PAGE or page.startswith(f"{FOLDER.name}/")]


def setup(app: Any) -> None:
    app.connect("env-get-outdated", changed)
    app.connect("source-read", fill)
