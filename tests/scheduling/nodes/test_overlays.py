"""Overlays from outside: lists, graphs of networkx, sparse matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.schedulers.coallocation.zorilla import Zorilla
from gridsim.scheduling.overlays import random_neighbours
from gridsim.scheduling.registry import make_scheduler
from gridsim.support.random_streams import Streams

PATH = [[1], [0, 2], [1, 3], [2]]


class FloodNode(gs.NodeProgram):
    """A node that notes its neighbours."""

    def on_start(self, view: Any) -> None:
        for neighbour in view.neighbours:
            view.note("links", node=view.node, neighbour=neighbour)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)


class FloodScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "flood"
    policy = FloodNode
    tables: ClassVar[Any] = {"links": {"node": int, "neighbour": int}}


def scenario(nodes: int = 4) -> gs.Scenario:
    return gs.Scenario(gs.Platform.equal(nodes), gs.Workload.of([0.0, 6.5], 2, 4000.0), seed=1)


def links(overlay: Any, nodes: int = 4) -> list[list[int]]:
    table = gs.simulate(scenario(nodes), FloodScheduler(overlay=overlay)).tables["links"]
    return [table["neighbour"][table["node"] == node].tolist() for node in range(nodes)]


def test_lists_arrays_and_matrices_are_overlays() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    assert links(PATH) == links([[1], [2, 0], np.array([3, 1]), [2]]) == PATH
    matrix = np.zeros((4, 4))
    for u, row in enumerate(PATH):
        matrix[u, [u, *row]] = 0.5  # each node also has an edge to itself
    for kind in (sparse.csr_array, sparse.coo_matrix, sparse.dok_array):
        assert links(kind(matrix)) == PATH
    twice = sparse.coo_array(([1, 1, 1, 0], ([0, 0, 2, 3], [1, 1, 3, 1])), shape=(4, 4))
    assert links(twice) == [[1], [], [3], []]
    ring = np.array([[3, 1], [0, 2], [1, 3], [2, 0]], np.int32)
    assert links(ring) == np.sort(ring).tolist()


def test_graphs_of_networkx_are_overlays() -> None:
    nx = pytest.importorskip("networkx")
    assert links(nx.path_graph(4)) == PATH
    assert links(nx.path_graph(reversed(range(4)))) == PATH  # numbers say which machine a node is
    assert links(nx.path_graph(["d", "b", "a", "c"])) == PATH  # other names are numbered in their order
    assert links(nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 3)])) == [[1], [2], [3], []]
    assert links(nx.MultiGraph([(0, 1), (0, 1), (1, 2), (2, 3)])) == PATH
    assert links(nx.relabel_nodes(nx.path_graph(4), {0: 1.5})) == PATH
    assert links(nx.empty_graph(4)) == [[]] * 4


def test_the_drawn_overlay_can_be_given(tmp_path: Path) -> None:
    """An overlay equal to the one that would be drawn gives the same run, also after it was saved."""
    drawn = random_neighbours(40, 4, Streams(1)("zorilla overlay"))
    rigid = gs.Scenario(
        gs.Platform.equal(40), gs.Workload.jobs_of([0.0, 1.0, 2.0], [30, 12, 7], 60.0), seed=1
    )
    result = gs.simulate(rigid, Zorilla(overlay=drawn))
    assert result.digest == gs.simulate(rigid, Zorilla(degree=4)).digest
    assert result.digest != gs.simulate(rigid, Zorilla(degree=5)).digest
    result.save(tmp_path / "run.npz")
    assert gs.Result.load(tmp_path / "run.npz").digest == result.digest


@pytest.mark.parametrize(
    ("overlay", "text"),
    [
        (PATH[:3], r"flood.overlay must have 4 nodes, got 3"),
        ([[1], [0, 4], [1], [2]], r"flood.overlay\[1\] must be other nodes in 0..3, got 4"),
        ([[1], [0], [2], [2]], r"flood.overlay\[2\] must be other nodes in 0..3, got 2"),
        ([[1], [0], [1], [2, 0, 2]], r"flood.overlay\[3\] must be different nodes, got 2 twice"),
        ([[1], [0, -1], [1], [2]], r"overlay\[1\]\[1\] must be a whole number >= 0, got -1"),
        ([[1], [0.5], [1], [2]], r"overlay\[1\]\[0\] must be a whole number >= 0, got 0.5"),
        ("ring", r"overlay must be a list of numbers, got 'ring'"),
        (7, r"overlay must be a list of numbers, got 7"),
    ],
)
def test_wrong_overlays_are_refused(overlay: Any, text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        links(overlay)


def test_schedulers_without_neighbours_refuse_overlays() -> None:
    text = "random.overlay must be None, since its nodes have no neighbours"
    with pytest.raises(ScenarioError, match=text):
        gs.simulate(scenario(), make_scheduler("random", {"overlay": PATH}))
