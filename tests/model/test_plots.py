from __future__ import annotations

import io

import pytest

from gridsim import plots
from gridsim.estimates import Estimate

POINTS = [
    Estimate(1.0, 0.9, 1.2, 5),
    Estimate(2.0, 1.5, 2.5, 5),
    Estimate(3.0, float("nan"), float("nan"), 1),
]


def drawn() -> bytes:
    made, (left, middle, right) = plots.figure(3)
    assert plots.lines([50, 100, 200], {"a": POINTS, "b": POINTS[::-1]}, axes=left) is left
    assert plots.boxes({"50": [1.0, 2.0, 4.0], "100": [3.0]}, axes=middle) is middle
    assert plots.bars(["x", "y", "z"], POINTS, [1.1, None, 2.9], axes=right) is right
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["a", "b"]
    assert [text.get_text() for text in middle.get_xticklabels()] == ["50", "100"]
    stream = io.BytesIO()
    plots.save(made, stream)
    return stream.getvalue()


def test_charts_are_drawn_and_equal_ones_are_equal_files() -> None:
    assert drawn().startswith(b"\x89PNG") and drawn() == drawn()


def test_each_series_has_its_colour_and_marker() -> None:
    assert len(set(plots.COLOURS)) == len(plots.COLOURS) == len(set(plots.MARKERS)) == len(plots.MARKERS)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "gridcore\[plot\]"'):
        plots.figure()
