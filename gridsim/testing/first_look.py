"""The first look at a scheduler: what of a scenario it supports, by one run or two."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from gridsim.errors import ScenarioError
from gridsim.model.attributes import ListedAttributes
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.scheduling.contract import Policy, Scheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.testing.cases import PAUSE
from gridsim.testing.changes import only_owners
from gridsim.testing.patience import LIMITS, LONGEST, PATIENCE, patience
from gridsim.testing.reached import Reached
from gridsim.testing.violation import ConformanceError, error_text, save

#: The kinds of scenarios that a scheduler may support.
KINDS = ("rigid", "unequal", "fluctuating", "constraints", "moves_data", "job_times")
#: The most events of a run of so many machines that wait for hours, unless they poll one another.
_WHILE_IDLE, _SEVERAL = 20_000, 5


def policy_of(
    strategy: st.SearchStrategy[Scheduler], folder: str | os.PathLike[str]
) -> tuple[type[Policy], dict[str, Any], bool, Reached]:
    """Return the class of the scheduler's policy, what it supports, and who sees what runs.

    What it supports is the options of `scenarios`, and whether machines may fail.
    """
    policies: list[tuple[type[Policy], dict[str, Any], bool, Reached]] = []
    errors: list[ConformanceError] = []  # raised at the end: Hypothesis would run again what fails

    @settings(max_examples=1, database=None, deadline=None, phases=(Phase.generate,))
    @seeded(0)
    @given(strategy)
    def look(scheduler: Scheduler) -> None:
        if not isinstance(scheduler, Scheduler):
            raise ScenarioError(f"scheduler must be a strategy of schedulers, got one of {scheduler!r}")

        class Look(Scheduler, frozen=True):
            name = scheduler.name
            rigid = scheduler.rigid

            def start(self, run: Any) -> Policy:
                policy = scheduler.start(run)
                kind = {name: getattr(scheduler, name) for name in KINDS}
                kind["reachable"] = only_owners(scheduler)
                # lines of machine code are not seen
                program = (
                    getattr(scheduler, "policy", None) if "interpreted" in scheduler.node_forms else None
                )
                classes = [*type(policy).__mro__, *(program.__mro__ if isinstance(program, type) else ())]
                fails = policy.takes_blocks or type(policy).on_faults is not Policy.on_faults
                able = (scheduler.failures and fails) or kind["reachable"]
                policies.append((type(policy), kind, able, Reached(classes)))
                return policy

        scenario = _plain(scheduler, 1, [0.0])
        try:
            with patience(PATIENCE):
                simulate(scenario, Look(), **LIMITS)
        except (Exception, SystemExit) as error:
            if not policies or "has not ended" in str(error):
                found = ConformanceError("runs", error_text(error), scenario, scheduler)
                found.__cause__ = error
                errors.append(found)
            # otherwise the trials meet the error again, and shrink it
        if policies and not errors:
            policies[0][1]["pauses"] = not _polls(scheduler)

    look()
    if errors:
        errors[0].file = save(errors[0], os.fspath(folder))
        raise errors[0]
    return policies[0]


def _plain(scheduler: Scheduler, nodes: int, release: list[float]) -> Scenario:
    """Return a scenario of equal machines, and of single tasks with these releases (s)."""
    workload = Workload.of(release, 1, 1000.0, origin=0.0)
    if scheduler.rigid:
        workload = Workload.jobs_of(release, 1, 1.0, origin=0.0)
    zeros = (0.0,) * nodes
    place = ListedAttributes(x=zeros, y=zeros) if scheduler.constraints else None
    return Scenario(Platform.equal(nodes, 1000.0, place), workload)


def _polls(scheduler: Scheduler) -> bool:
    """Return whether idle machines do so much that scenarios of hours would take long."""
    try:
        with patience(PATIENCE):
            scenario = _plain(scheduler, _SEVERAL, [0.0, PAUSE])
            simulate(scenario, scheduler, time_limit=LONGEST, events_limit=_WHILE_IDLE)
    except (Exception, SystemExit) as error:
        return "has not ended" in str(error)  # other errors are for the trials
    return False
