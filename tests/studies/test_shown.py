"""Displays of scenarios, schedulers and results in notebooks, as reprs, as frames and as figures."""

from __future__ import annotations

import csv
import re
from html.parser import HTMLParser
from typing import Any

import pytest

import gridsim as gs
from gridsim.scheduling.registry import chosen_schedulers
from gridsim.support.text import number_text

SCENARIO = gs.Scenario(
    gs.Platform.desktop_grid(12, 1),
    gs.Workload.bags(applications=4, interarrival=10.0, task_size=65536.0, seed=1),
    seed=1,
    schedulers={"fair-tree": {"bound": 2.0}},
)


class _Tags(HTMLParser):
    """Parser that checks that tags are closed in the reverse order of opening."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def study_results() -> dict[str, Any]:
    compared = gs.compare(SCENARIO, ["mincent", gs.Fcfs()])
    few = {"a & <b>": gs.MinCent(), "fcfs": gs.Fcfs()}
    return {
        "comparison": compared,
        "result": compared["mincent"],
        "table": compared["mincent"].applications,
        "replicates": gs.compare(SCENARIO, few, replicates=2, baseline="fcfs"),
        "swept": gs.sweep(SCENARIO, few, {"platform.nodes": [8, 12]}, replicates=2, baseline="fcfs"),
        "sweep": gs.Sweep(scenario=SCENARIO, schedulers=few, over={"platform.nodes": [8, 12]}),
        "why": gs.simulate(SCENARIO, "mincent", record="decisions").why(1),
        "scenario": SCENARIO,
        "scheduler": gs.FairTree(bound=2.0),
    }


def test_public_objects_have_html_and_a_short_repr(study_results: dict[str, Any]) -> None:
    for what, item in study_results.items():
        actual = item._repr_html_()
        tags = _Tags()
        tags.feed(actual)
        assert not tags.open and "<table>" in actual, what
        assert "<b>" not in re.sub(r"<caption[^>]*><b>", "", actual), what  # names are escaped
        if what != "table":
            assert "\n" not in repr(item) and len(repr(item)) < 200, what
    assert (
        "In this run" in study_results["comparison"]._repr_html_()
        and "not charged" in study_results["comparison"]._repr_html_()
    )
    assert repr(study_results["scheduler"]) == "FairTree(bound=2.0)"
    assert repr(SCENARIO) == "<Scenario: platform 12 machines (uniform), workload bags, seed 1>"
    listed = repr(gs.Platform.of([1000.0] * 500))
    assert len(listed) < 150 and "1000.0, ...: 500 entries" in listed


def test_all_results_become_frames_and_figures(study_results: dict[str, Any]) -> None:
    rows = {"comparison": 2, "result": 4, "table": 4, "replicates": 4, "swept": 8, "why": 1}
    for what, count in rows.items():
        assert len(study_results[what].to_pandas()) == study_results[what].to_arrow().num_rows >= count, what
    assert list(study_results["replicates"].to_pandas()["scheduler"]) == ["a & <b>", "fcfs"] * 2
    assert len(study_results["result"].to_pandas("machines")) == 12
    for what in ("comparison", "result", "replicates", "swept"):
        figure = study_results[what].plot()
        assert figure.axes and figure._repr_png_().startswith(b"\x89PNG"), what  # what notebooks show
    with pytest.raises(gs.ScenarioError, match="kind must be one of .*did you mean gantt"):
        study_results["result"].plot("gant")


def test_tables_of_papers_have_the_printed_numbers(study_results: dict[str, Any]) -> None:
    """Names are escaped; CSV has the numbers before they are rounded."""
    for what in ("replicates", "swept"):
        study = study_results[what]
        latex, markdown, lines = study.to_latex(), study.to_markdown(), study.to_csv().splitlines()
        assert r"a \& \textless{}b\textgreater{}" in latex and r"a & \<b\> |" in markdown
        assert latex.count(r"\toprule") == latex.count(r"\bottomrule") == len(study.paper_tables())
        rows = [dict(zip(next(csv.reader(lines)), row, strict=True)) for row in csv.reader(lines[1:])]
        cells = [row for table in study.paper_tables() for row in table.rows]
        assert len(rows) == len(cells)
        printed = str(study)
        for row, cell in zip(rows, cells, strict=True):
            k = cell.index(row["scheduler"])
            assert cell[k + 1] == row["n"] == "2" and f"{cell[k + 2]} {cell[k + 3]}" in printed
            if row["unit"] == "s" and float(row["mean"]) < 1000.0:
                assert cell[k + 2] == number_text(float(row["mean"]))
    assert "not charged" in study_results["comparison"].to_latex()
    assert len(study_results["comparison"].to_csv().splitlines()) == 3


def test_schedulers_are_given_by_name_or_as_a_list() -> None:
    tables = SCENARIO.schedulers
    actual = chosen_schedulers(["fair-tree", gs.Fcfs(mode="pull"), gs.FairTree(bound=1.5)], tables)
    assert actual == {
        "fair-tree": gs.FairTree(bound=2.0),  # with the parameters of the scenario
        "fcfs-pull": gs.Fcfs(mode="pull"),
        "fair-tree bound=1.5": gs.FairTree(bound=1.5),
    }
    assert chosen_schedulers({"a": "mincent"}) == {"a": gs.MinCent()}
    assert chosen_schedulers("mincent") == chosen_schedulers(gs.MinCent()) == {"mincent": gs.MinCent()}
    assert gs.simulate(SCENARIO, "fair-tree").scheduler["parameters"]["bound"] == 2.0
    with pytest.raises(gs.ScenarioError, match="^schedulers"):
        chosen_schedulers(["mincent", gs.MinCent()])


@pytest.mark.parametrize(
    ("wrong", "close"),
    [
        (lambda shown: shown["comparison"]["mincen"], "mincent"),
        (lambda shown: shown["comparison"]["mincent"].to_pandas("machine"), "machines"),
        (lambda shown: shown["table"]["relase"], "release"),
        (lambda shown: shown["replicates"]["max_strech"], "max_stretch_agg"),
        (lambda shown: gs.FairTree(bund=1.0), "bound"),
        (lambda shown: gs.FairTree(update_on="completin"), "completion"),
        (lambda shown: gs.compare(SCENARIO, ["fair-tre"]), "fair-tree"),
        (lambda shown: gs.compare(SCENARIO, ["fcfs"], baseline="fcsf"), "fcfs"),
        (lambda shown: gs.replicate(SCENARIO, ["fcfs"], replicates=2, metrics=["makspan"]), "makespan"),
        (lambda shown: SCENARIO.replaced({"platform.kind": "unifrm"}), "uniform"),
        (lambda shown: SCENARIO.replaced({"netwrk.latency": 1.0}), "network"),
        (lambda shown: gs.FairTre, "FairTree"),
    ],
)  # fmt: skip
def test_errors_about_unknown_names_suggest_the_closest_name(
    study_results: dict[str, Any], wrong: Any, close: str
) -> None:
    with pytest.raises((gs.GridSimError, KeyError, AttributeError), match=rf"did you mean {close}\?"):
        wrong(study_results)


def test_the_help_has_every_public_name() -> None:
    """The docstring of each scheduler begins with a summary of one line."""
    for name in set(gs.__all__) - {"__version__"}:
        assert len(re.findall(rf"\b{name}\b", gs.__doc__ or "")) >= 1, name
        actual = getattr(gs, name)
        if isinstance(actual, type) and issubclass(actual, gs.Scheduler):
            first, _, rest = (actual.__doc__ or "").partition("\n")
            assert first.endswith(".") and (not rest or rest.startswith("\n")), name
