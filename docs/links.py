"""Links of the site: to pages that lie outside of docs/, and from names in docstrings."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from sphinx.addnodes import pending_xref
from sphinx.util.nodes import make_refnode

import gridsim

#: Files of the repository outside of docs/ -> the pages that include them.
PAGES = {
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changes.md",
    "SECURITY.md": "project/security.md",
    "benchmarks/measurements.md": "project/measurements.md",
}
BELOW = re.compile(r"<!-- pages: (\S+) -->")


def inward(app: Any, page: str, source: list[str]) -> None:
    """Sphinx's event ``source-read``: links out of docs/ lead to the pages of the site.

    A comment ``<!-- pages: 0* -->``, which readers elsewhere do not see, puts these pages below the page.
    """
    up = "../" * page.count("/")

    def target(match: re.Match[str]) -> str:
        name = match[2]
        return f"]({up or './'}{PAGES[name]}" if name in PAGES else match[0]

    source[0] = BELOW.sub(r"```{toctree}\n:hidden:\n:glob:\n\n\1\n```", source[0])
    source[0] = re.sub(r"\]\(((?:\.\./)+)([\w./]+)", target, source[0])


def exact(app: Any, doctree: Any) -> None:
    """Sphinx's event ``doctree-read``: names are looked up as they are, in their class and module."""
    for node in doctree.findall(pending_xref):
        if node.get("refdomain") == "py":
            node.attributes.pop("refspecific", None)


def named(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Sphinx's event ``missing-reference``: a name in a docstring or signature that is no full name.

    A class or a dotted name leads to the one thing that ends in it, a kernel rather than its
    reference; a word in small letters only to what `gridsim` or `gridcore` themselves have.  All else is
    code, a parameter say; but a full name in gridsim or gridcore that does not exist is left to Sphinx,
    which warns.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    domain = env.domains["py"]
    if target.islower() and "." not in target:
        ends = [name for name in (f"gridsim.{target}", f"gridcore.{target}") if name in domain.objects]
    else:
        ends = [name for name in domain.objects if name.endswith(f".{target}")]
    ends = [name for name in ends if not name.startswith("tests.reference.")] or ends
    pages = {(domain.objects[name].docname, domain.objects[name].node_id) for name in ends}
    if len(pages) == 1:
        [(page, anchor)] = pages
        return make_refnode(app.builder, node["refdoc"], page, anchor, content, target)
    if target.startswith(("gridsim.", "gridcore.")) and not exists(target):
        return None
    return content


def exists(name: str) -> bool:
    """Whether a full name can be imported."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            thing: Any = import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            fields = getattr(thing, "__annotations__", {})
            if not hasattr(thing, part) and part not in fields:
                return False
            thing = getattr(thing, part, None)
        return True
    return False


def once(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Sphinx's event ``autodoc-skip-member``: what `gridsim` itself has is documented there alone."""
    if what == "module" and name in gridsim.__all__ and getattr(gridsim, name) is thing:
        return True
    return None


def folded(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Sphinx's event ``html-page-context``: the list of pages is open only at the page itself.

    All of it, with the reference, on each of its pages took as long as all the rest.
    """
    if whole := context.get("toctree"):
        context["toctree"] = lambda **options: whole(**{**options, "collapse": True})


def setup(app: Any) -> None:
    app.connect("html-page-context", folded, priority=400)  # before the theme asks for the list
    app.connect("source-read", inward)
    app.connect("doctree-read", exact)
    app.connect("missing-reference", named)
    app.connect("autodoc-skip-member", once)
