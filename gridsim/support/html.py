"""What notebooks show: tables as small pieces of HTML, without styles or scripts of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gridsim.errors import in_line

_LEFT, _RIGHT = "left", "right"


def table(columns: Sequence[Sequence[str]], *, heads: int = 1, left: int = 1, caption: str = "") -> str:
    """Return columns of text, as those of `gridsim.support.text.align`, as an HTML table.

    Parameters
    ----------
    heads
        The first cells of a column that are its titles.
    left
        Columns that are left-aligned.
    """

    def line(cells: Sequence[str], tag: str) -> str:
        said = (
            f'<{tag} style="text-align: {_LEFT if place < left else _RIGHT}">{_cell(cell)}</{tag}>'
            for place, cell in enumerate(cells)
        )
        return f"<tr>{''.join(said)}</tr>"

    rows = list(zip(*columns, strict=True))
    head = "".join(line(row, "th") for row in rows[:heads])
    body = "".join(line(row, "td") for row in rows[heads:])
    title = f'<caption style="text-align: left"><b>{_cell(caption)}</b></caption>' if caption else ""
    return f"<table>{title}<thead>{head}</thead><tbody>{body}</tbody></table>"


def pairs(lines: Mapping[str, str], caption: str = "") -> str:
    """Return a table with a row per entry: what a line is about, and the line."""
    return table([list(lines), list(lines.values())], heads=0, left=2, caption=caption)


def text(*lines: str) -> str:
    """Return a paragraph per line that is not empty."""
    return "".join(f"<p>{_cell(line)}</p>" for line in lines if line)


def _cell(said: str) -> str:
    from html import escape  # only notebooks need it, and its table of entities is long

    return escape(in_line(said))
