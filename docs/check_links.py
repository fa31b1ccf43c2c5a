"""Whether all links within the built site lead somewhere: ``python docs/check_links.py docs/_build/html``.

Pages, pictures, style sheets, scripts, and the places within pages.  Links to other sites are not followed.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, and the places that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name in ("href", "src"):
                self.links.append(value)
            elif name == "id" or (tag == "a" and name == "name"):
                self.places.add(value)


def broken(root: Path) -> list[str]:
    """A line for each link of the site in the folder `root` that leads nowhere."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(root.resolve().rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            to = urlsplit(link)
            if to.scheme or to.netloc:
                continue
            target = (path.parent / unquote(to.path)).resolve() if to.path else path
            place = unquote(to.fragment)
            where = f"{path.relative_to(root.resolve())}: {link}"
            if not target.is_file():
                found.append(f"{where}: no such file")
            elif place and target in pages and place not in pages[target].places:
                found.append(f"{where}: no such place")
    if not pages:
        found.append(f"{root}: no pages")
    return found


if __name__ == "__main__":
    lines = broken(Path(sys.argv[1]))
    print("\n".join(lines) or "all links lead somewhere")
    sys.exit(bool(lines))
