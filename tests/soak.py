"""Differential runs for hours: all registered schedulers, with their own and with random parameters.

    python -m tests.soak --minutes 60
    python -m tests.soak --seed 2026120102000 --rounds 1 --names dgs-asap,rjss

Each round prints its seed, with which the second command repeats it.  The first seed is the date and the hour
unless it is given, so that each night tries other scenarios.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import click
from hypothesis import Phase, given
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from gridsim.errors import ScenarioError
from gridsim.results.result import Result
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.registry import registered, scheduler_of
from gridsim.testing import ConformanceError, differential, parameters
from gridsim.testing.conformance import hypothesis_settings
from gridsim.testing.introspection import inspect_scheduler

#: Number of scenarios of each scheduler in a round; of draws of its parameters, of which the last one is
#: taken; and of sets of parameters to draw.
SCENARIOS, DRAWS, TRIES = 3, 4, 10
#: Smallest positive random value of a parameter, such as a time (s).
SHORTEST = 0.01


class Features:
    """Counts of the runs whose scenarios have a feature, as a check of `differential`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __call__(self, result: Result) -> None:
        scenario = result.scenario
        platform, recipe = scenario.platform.recipe, scenario.workload.recipe
        of_tasks = ("memory", "disk", "gpus", "exclusive", "sizes")
        of_jobs = ("after", "not_before", "deadline", "cancel_at")
        values = {
            "failures": scenario.faults,
            "background load": scenario.fluctuation,
            "carbon": platform.power and platform.power.carbon,
            **{
                name: getattr(platform, name)
                for name in ("power", "bandwidth", "attributes", "cores", "gpus")
            },
            **{f"{name} of tasks": getattr(recipe, name, None) for name in of_tasks},
            **{name: getattr(recipe, name, None) for name in of_jobs},
        }
        self.counts.update(name for name, value in values.items() if value is not None)


def with_random_parameters(name: str, seed: int) -> Scheduler:
    """Return the registered scheduler with random values of some parameters that its name does not fix."""
    kind, fixed = registered()[name]
    own, choice = scheduler_of("schedulers", name, {}), Random(f"{name} {seed}")
    free = [field for field in kind.__struct_fields__ if field not in fixed]
    for _ in range(TRIES):  # few parameters fit together with any others
        drawn_fields = choice.sample(free, min(len(free), choice.randint(1, 4)))
        others = {field: getattr(own, field) for field in kind.__struct_fields__ if field not in drawn_fields}
        with suppress(Unsatisfiable):
            scheduler = last_drawn(parameters(kind, **others), seed)
            values = [getattr(scheduler, field) for field in drawn_fields]
            # a period of 1 ns makes runs endless
            is_tiny = any(isinstance(value, float) and 0.0 < value < SHORTEST for value in values)
            if scheduler != own and not is_tiny and runs_simple_scenarios(scheduler):
                return scheduler
    return own


def runs_simple_scenarios(scheduler: Scheduler) -> bool:
    """Return whether the parameters do not need more of a scenario, such as users or sites."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            inspect_scheduler(st.just(scheduler), folder)
        except ConformanceError as error:
            return not isinstance(error.__cause__, ScenarioError)
    return True


def last_drawn(strategy: st.SearchStrategy[Scheduler], seed: int) -> Scheduler:
    drawn: list[Scheduler] = []

    @with_seed(seed)
    @hypothesis_settings(DRAWS, Phase.generate)
    @given(strategy)
    def draw(scheduler: Scheduler) -> None:
        drawn.append(scheduler)

    draw()
    return drawn[-1]


@click.command(help=__doc__.splitlines()[0])
@click.option("--minutes", type=float, default=60.0, show_default=True, help="Time of all rounds (min).")
@click.option("--rounds", type=int, help="Number of rounds; by default as many as the time allows.")
@click.option("--seed", type=int, help="Seed of the first round; by default the date and the hour.")
@click.option("--names", help="Registered names, separated by commas; by default all.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("gridsim-check"), show_default=True)
def main(minutes: float, rounds: int | None, seed: int | None, names: str | None, folder: Path) -> None:
    deadline = time.monotonic() + 60.0 * minutes
    first = int(time.strftime("%Y%m%d%H000")) if seed is None else seed
    names_list = names.split(",") if names else list(registered())
    features, runs, pairs, found = Features(), 0, 0, 0
    round_number = 0
    while (left := deadline - time.monotonic()) > 0 and round_number != rounds:
        number = first + round_number
        # every other round has the parameters of the registered names
        schedulers = [
            with_random_parameters(name, number) if number % 2 else scheduler_of("schedulers", name, {})
            for name in names_list
        ]
        report = differential(
            schedulers,
            runs=SCENARIOS * len(schedulers),
            minutes=left / 60.0,
            checks=[features],
            processes=number % 8 == 0,
            seed=number,
            folder=folder / str(number),
        )
        load = os.getloadavg()[0]
        print(
            f"seed {number}, {'random' if number % 2 else 'registered'} parameters, load {load:.1f}: {report}"
        )
        sys.stdout.flush()
        runs, pairs, found = runs + report.runs, pairs + report.pairs, found + len(report.differences)
        round_number += 1
    print(f"{round_number} rounds from seed {first}: {runs} runs of {pairs} pairs, {found} differences")
    print(", ".join(f"{name} {count}" for name, count in features.counts.most_common()))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
