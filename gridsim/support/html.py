"""HTML fragments for notebooks, without style sheets or scripts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gridsim.errors import without_line_breaks

_LEFT, _RIGHT = "left", "right"


def table(
    columns: Sequence[Sequence[str]], *, heads: int = 1, left: Collection[int] = (0,), caption: str = ""
) -> str:
    """Return columns of strings (as for `gridsim.support.text.align`) as an HTML table.

    Parameters
    ----------
    heads
        Number of header cells at the top of each column.
    left
        Numbers of the left-aligned columns.
    """

    def html_row(cells: Sequence[str], tag: str) -> str:
        cells_html = (
            f'<{tag} style="text-align: {_LEFT if k in left else _RIGHT}">{_cell(cell)}</{tag}>'
            for k, cell in enumerate(cells)
        )
        return f"<tr>{''.join(cells_html)}</tr>"

    rows = list(zip(*columns, strict=True))
    head = "".join(html_row(row, "th") for row in rows[:heads])
    body = "".join(html_row(row, "td") for row in rows[heads:])
    title = f'<caption style="text-align: left"><b>{_cell(caption)}</b></caption>' if caption else ""
    return f"<table>{title}<thead>{head}</thead><tbody>{body}</tbody></table>"


def pairs(lines: Mapping[str, str], caption: str = "") -> str:
    """Return an HTML table with a row per entry of `lines`: its topic and its text."""
    return table([list(lines), list(lines.values())], heads=0, left=(0, 1), caption=caption)


def text(*lines: str) -> str:
    """Return HTML with a paragraph for each non-empty line."""
    return "".join(f"<p>{_cell(line)}</p>" for line in lines if line)


def _cell(content: str) -> str:
    from html import escape  # imported here since its table of entities is large and only notebooks need it

    return escape(without_line_breaks(content))
