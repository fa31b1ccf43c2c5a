"""How the documents become a site: ``sphinx-build -W --keep-going -n -b html docs docs/_build/html``.

Nothing is fetched during the build.  It needs the extra ``docs``, and gridcore installed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import gridcore
import gridsim

sys.path.insert(0, str(Path(__file__).parent))

import claims
import docstrings
import links
import notebook_outputs

# All compiled modules first: else autodoc takes their .pyi, which have no docstrings, in their place.
for module in walk_packages(gridcore.__path__, "gridcore."):
    import_module(module.name)

project = "gridsim"
author = "the gridsim developers"
version = release = gridsim.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_click",
]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}
smartquotes_action = "qe"  # two hyphens are not a dash: --option
highlight_language = "none"  # of blocks that name none: commands, and what they print
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]

html_theme = "furo"
html_title = f"gridsim {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False

# -- Markdown and notebooks -----------------------------------------------------------------------------

myst_heading_anchors = 4  # as GitHub makes them
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

# -- docstrings -----------------------------------------------------------------------------------------

autosummary_generate = True
autosummary_ignore_module_all = False
# file systems that do not tell upper case from lower
autosummary_filename_map = {f"gridsim.{name}": f"gridsim.{name}-function" for name in ("ladder", "sweep")}
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_class_signature = "mixed"
autodoc_typehints = "signature"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
autodoc_preserve_defaults = True
add_module_names = False
default_role = "py:obj"

nitpicky = True


def plain(app: Any, ctx: Any, lines: list[str]) -> None:
    """An asterisk in the help of an option is one: names such as ``dgs-*``."""
    lines[:] = [line.replace("*", r"\*") for line in lines]


def setup(app: Any) -> None:
    app.connect("sphinx-click-process-options", plain)
    claims.setup(app)
    docstrings.setup(app)
    links.setup(app)
    notebook_outputs.setup(app)
