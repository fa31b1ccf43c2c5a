"""Runs notebooks and stores their outputs: ``python docs/notebook_outputs.py [NAME...]`` (extra ``docs``).

The first hour is also copied, without outputs, to where ``gridsim init lesson`` takes it from.  Names are
those of files without their extension; by default all notebooks run.  As an extension of Sphinx, this
module compares the texts of the notebooks that the build has run with the stored ones.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode, b64encode
from copy import deepcopy
from io import BytesIO
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "notebooks"
#: Colours of a stored picture; charts have few, and a palette takes a third of the bytes.
COLOURS = 128
#: The copy of `first_hour` that ``gridsim init lesson`` writes.
LESSON = Path(__file__).parents[1] / "gridsim/cli/examples/first_hour.ipynb"


def words(cell: dict[str, Any]) -> list[str]:
    """Return the words of a code cell: what it printed, and its other outputs in plain text.

    Words, since myst-nb changes white space where a stream arrives in several parts.  It adds all parts to
    the first one, and leaves the others.
    """
    parts, streams = [], set()
    for output in cell["outputs"]:
        if output["output_type"] != "stream":
            parts.append("".join(output.get("data", {}).get("text/plain", "")))
        elif output["name"] not in streams:
            streams.add(output["name"])
            parts.append("".join(output["text"]))
    return [word for part in parts for word in part.split()]


def differences(stored: dict[str, Any], rerun: dict[str, Any]) -> list[str]:
    """Return a line for each code cell whose words in `rerun` differ from the stored ones."""
    cells = (
        [words(cell) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for notebook in (stored, rerun)
    )
    return [
        f"code cell {number} must print what is stored, {' '.join(old)!r}, got {' '.join(new)!r}"
        for number, (old, new) in enumerate(zip(*cells, strict=True), 1)
        if old != new
    ]


def store(path: Path) -> None:
    """Run a notebook in a new kernel, and store its outputs in its file."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":  # those that are not run have no outputs of an earlier run
            cell.outputs, cell.execution_count = [], None
    resources = {"metadata": {"path": str(path.parent)}}
    options = {"timeout": 120, "record_timing": False, "coalesce_streams": True, "resources": resources}
    NotebookClient(notebook, **options).execute()
    notebook.metadata["language_info"] = {"name": "python"}  # no version of Python
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                output.data = {**output.data, "image/png": _with_palette(output.data["image/png"])}
    nbformat.write(notebook, path)
    if path.stem == LESSON.stem:
        nbformat.write(without_outputs(notebook), LESSON)


def without_outputs(notebook: Any) -> Any:
    """Return a copy of a notebook without outputs, and without links to files beside it."""
    copy = deepcopy(notebook)
    for cell in copy["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            text = re.sub(r"\s\(\[[^]]*\]\([^)]*\)\)", "", text)
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
        cell["source"] = text
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return copy


def _with_palette(png: str) -> str:
    """Return a picture, in base64 as it is given, with a palette of `COLOURS` colours."""
    from PIL import Image

    stream = BytesIO()
    picture = Image.open(BytesIO(b64decode(png))).convert("RGB").quantize(COLOURS)
    picture.save(stream, "png", optimize=True)
    return b64encode(stream.getvalue()).decode()


def check_build(app: Any, error: Exception | None) -> None:
    """Warn of each stored text that differs from that of the build; ``-W`` makes it an error."""
    from sphinx.util.logging import getLogger

    folder = Path(app.outdir).parent / "jupyter_execute" / "notebooks"
    for path in sorted(FOLDER.glob("*.ipynb")) if error is None else ():
        rerun = json.loads((folder / path.name).read_text())
        for line in differences(json.loads(path.read_text()), rerun):
            getLogger(__name__).warning("%s: %s", path.name, line, type="notebooks")


def setup(app: Any) -> None:
    app.connect("build-finished", check_build)


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        store(FOLDER / f"{name}.ipynb")
