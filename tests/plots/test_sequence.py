"""Sequence diagrams: the arrows are those of the messages in the diary."""

from __future__ import annotations

from typing import Any

import pytest

import gridsim as gs
from gridsim import plots
from gridsim.plots import sequences
from tests.scheduling.nodes.test_diary import recorded_run


@pytest.fixture(scope="module")
def result() -> gs.Result:
    """Return a run in which a message of node 0 to node 1 is lost at 2 s, and local messages are sent."""
    return recorded_run(faults=gs.Faults.of([1], [2.25], [2.75]))


def sequence_axes(result: gs.Result, **options: Any) -> Any:
    return plots.sequence(result, axes=plots.figure()[1][0], **options)


def arrows(axes: Any) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return (from, to) of each arrow, each a place and a time."""
    return sorted((text.xyann, text.xy) for text in axes.texts if text.arrow_patch is not None)


def test_arrows_go_from_senders_to_receivers(result: gs.Result) -> None:
    """Equal arrows are drawn once; a message of a node to itself comes back from the right."""
    axes = sequence_axes(result, nodes=[1, 0], end=2.0)
    assert arrows(axes) == [
        ((1.0, 1.0), (0.0, 1.125)),
        ((1.0, 1.0), (0.0, 1.5)),
        ((1.3, 0.75), (1.0, 0.75)),
        ((1.3, 1.0), (1.0, 1.0)),
    ]
    texts = {text.get_text() for text in axes.texts}
    assert {"search", "bare, values", "quick", "beat", "release"} <= texts
    crosses = [line.get_xydata().tolist() for line in axes.lines if line.get_marker() == "x"]
    assert crosses == [[[0.5, 2.0]]]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "0"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]


def test_failures_and_later_messages_are_in_the_whole_diagram(result: gs.Result) -> None:
    axes = sequence_axes(result)
    (failures,) = (line for line in axes.lines if line.get_label() == "failure")
    assert failures.get_xydata().tolist() == [[1.0, 2.25]]
    assert [arrow for arrow in arrows(axes) if arrow[0][1] > 2.0]  # the tasks are submitted again


def test_impossible_diagrams_are_rejected(result: gs.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(gs.ScenarioError, match='^a sequence diagram requires a run with record="events"'):
        sequence_axes(recorded_run(record=False))
    with pytest.raises(
        gs.ScenarioError, match=r"^nodes\[1\] must be one of the recorded nodes, 0, 2, got 1$"
    ):
        sequence_axes(recorded_run(record_nodes=[0, 2]), nodes=[0, 1])
    monkeypatch.setattr(sequences, "MAX_MESSAGES", 3)
    with pytest.raises(
        gs.ScenarioError, match="at most 3 messages, got [0-9]+: choose nodes, start and end$"
    ):
        sequence_axes(result)
