"""All forms of the four systems of the papers give equal results, with and without failures.

``pytest -m claims tests/schedulers/test_all_forms.py`` draws `MANY_EXAMPLES` runs of each system, or as
many as the environment variable GRIDSIM_MANY_EXAMPLES says.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.results.diff import first_difference
from gridsim.scheduling.contract import NodeForm
from gridsim.testing import cases
from gridsim.testing.resuming import resume_difference
from tests._helpers.scenarios import fair_trees
from tests.schedulers.dgs import test_node as dgs
from tests.schedulers.rjss import test_node as rjss
from tests.schedulers.wqr import test_node as wqr

#: Runs of the long test for each system.
MANY_EXAMPLES = int(os.environ.get("GRIDSIM_MANY_EXAMPLES", "2500"))
FORMS: tuple[NodeForm, ...] = ("compiled", "interpreted", "python")
#: Some runs with failures do not end.
TIME_LIMIT = 1e6


def bags(**options: Any) -> st.SearchStrategy[gs.Scenario]:
    """Return a strategy for scenarios with bags, with or without failures."""
    return cases.scenarios(faults=False, **options) | cases.scenarios(faults=True, **options)


_TREE = bags(max_nodes=17)
_CROWDED = bags(max_nodes=9, crowded=True)
_WQR = bags(max_nodes=12, unequal=True, fluctuating=True, dependencies=True)
#: Parameters that have an effect if messages maintain the tree.
_BY_MESSAGES = st.builds(
    gs.FairTree,
    maintenance=st.just("messages"),
    accept=st.sampled_from(("minimum", "root", "largest", "either")),
    samples=st.sampled_from((30, (4, 3, 2))),
    update_rate=st.sampled_from((0.0, 10_000.0, 500.0)),
    heartbeat=st.sampled_from((300.0, 20.0)),
    beat=st.sampled_from((2.0, 30.0)),
    missed=st.sampled_from((2, 3)),
    resubmit=st.sampled_from(("as-is", "new")),
    entry=st.sampled_from(("own-router", "parent")),
)
#: Parameters that have an effect if owners are absent at times.
_VOLUNTEERS = st.builds(
    gs.Rjss,
    k=st.sampled_from((0.3, 1.0)),
    pick=st.sampled_from(("first", "best")),
    rule=st.sampled_from(("exactly-one", "at-least-one", "none")),
    probe_latency=st.sampled_from((0.0, "network", 1.0)),
    dispatcher=st.sampled_from(("queue", "parallel")),
    on_return=st.sampled_from(("restart", "home", "migrate")),
    predictor=st.sampled_from(("none", "exact", "past", "age")),
    state=st.sampled_from((0, 900)),
)
#: Name -> scenarios, schedulers, and whether these have a compiled form.
SYSTEMS: dict[str, tuple[st.SearchStrategy[gs.Scenario], st.SearchStrategy[Any], bool]] = {
    "fair-tree": (_TREE | _CROWDED, fair_trees(), True),
    "fair-tree-by-messages": (_TREE | _CROWDED, _BY_MESSAGES, False),
    "dgs-asap": (dgs.scenarios(fails=False) | dgs.scenarios(fails=True), dgs.schedulers(), True),
    "wqr-ft": (_WQR | wqr.stepped_scenarios(), wqr.schedulers(), True),
    "rjss": (rjss.scenarios(), rjss.schedulers(), True),
    "rjss-volunteers": (
        cases.scenarios(max_nodes=12, faults=True, cores=True, reachable=True),
        _VOLUNTEERS,
        False,
    ),
}


def run(scenario: gs.Scenario, scheduler: gs.Scheduler, **options: Any) -> gs.Result | str:
    """Return the result, or the beginning of the error."""
    try:
        return gs.simulate(scenario, scheduler, time_limit=TIME_LIMIT, **options)
    except gs.ScenarioError as error:
        return str(error).split(":")[0]


@pytest.mark.claims
@pytest.mark.parametrize("system", SYSTEMS)
@settings(max_examples=MANY_EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_all_forms_give_equal_results(system: str, data: st.DataObject) -> None:
    scenarios, schedulers, compiles = SYSTEMS[system]
    scenario, scheduler = data.draw(scenarios), data.draw(schedulers)
    record: Any = ("schedule", "decisions")
    forms = FORMS if compiles else FORMS[1:]
    results = [run(scenario, scheduler, nodes=form, record=record) for form in forms]
    first = results[0]
    for form, result in zip(forms, results, strict=True):
        if isinstance(first, str) or isinstance(result, str):
            assert first == result, form
            continue
        assert result.digest == first.digest, (form, first_difference(first, result))
        assert result.tables == first.tables, form
    if isinstance(first, str):
        return
    form = data.draw(st.sampled_from(forms))
    cut = run(scenario, scheduler, nodes=form, cohort_limit=data.draw(st.integers(1, 3)))
    assert not isinstance(cut, str) and cut.digest == first.digest, form
    assert resume_difference(scenario, scheduler, first, record=record, nodes=form) is None, form
