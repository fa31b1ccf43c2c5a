"""Checks of a result of gridsim, with its recorded schedule, against its scenario."""

from __future__ import annotations

import os

import numpy as np

from gridsim.errors import GridSimError, ScenarioError
from gridsim.model.applications import JOB_TIMES, Applications, durations
from gridsim.model.bag_workloads import BagRecipe
from gridsim.results.metrics.formulas import job_slowdown
from gridsim.results.result import Result
from gridsim.support.arrays import Floats
from gridsim.support.provenance import check_digests
from gridsim.validation.common import NS, ROUNDING, Violation, broken, column, differs
from gridsim.validation.jobs import WALKERS, check_jobs
from gridsim.validation.messages import check_messages
from gridsim.validation.reported import check_reported
from gridsim.validation.schedule import check_schedule, given_up
from gridsim.validation.times import check_times

#: Columns of applications that the scenario gives.
_GIVEN = (
    "release", "tasks", "task_size", "size", "submitter", "requested", "data", "estimate", "memory", "kind",
    *JOB_TIMES,
)  # fmt: skip


def validate_result(result: Result | str | os.PathLike[str]) -> list[Violation]:
    """Return what is wrong with a result; empty if nothing is.

    Checks the recorded schedule, the tables, and whether they agree.  The scenario in the result says which
    machines there are, when they fail and what was to be done.  Without a recorded schedule
    (`simulate(record=True)`) only the tables are checked.

    Raises GridSimError for a file that cannot be read as a result or whose tables make no sense,
    ScenarioError for a result made from a job log, and ScenarioError or TraceFormatError if the scenario
    cannot be built again, for example because a trace file has changed since.
    """
    if not isinstance(result, Result):
        result = Result.load(result, verify=False)
    if "tasks" not in result.machines:
        raise ScenarioError("result must tell what machines did; of a job log, validate the log itself")
    try:
        return _violations(result)
    except GridSimError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise GridSimError(f"result must be one of gridsim ({type(error).__name__}: {error})") from error


def _violations(result: Result) -> list[Violation]:
    if found := _other_sizes(result):
        return found
    if isinstance(stated := result.provenance.get("files"), dict):
        check_digests(result.scenario.files, stated)  # else a changed trace would look like a faulty result
    given = result.scenario.workload.realize(result.scenario.platform)
    found = _digest(result) + _applications(result, given) + _machines(result) + check_messages(result)
    if "schedule" in result.tables:
        found += check_schedule(result, given)
    if not found:  # what is checked next relies on the rest
        found += check_reported(result)
    # another scheduler may have a table of the same name with another meaning
    if result.scheduler.get("class") in WALKERS:
        found += check_jobs(result, given)
    return found


def _other_sizes(result: Result) -> list[Violation]:
    """Return violations if the tables have other numbers of rows than the scenario says.

    In that case nothing else is checked, and the workload is not generated.
    """
    platform, recipe = result.scenario.platform, result.scenario.workload.recipe
    if len(result.machines) != platform.nodes:
        said = f"has {len(result.machines)} rows, the platform has {platform.nodes} machines"
        return [Violation("platform", 1, "machines", said)]
    if isinstance(recipe, BagRecipe) and len(result.applications) != recipe.applications:
        said = f"has {len(result.applications)} rows, the workload has {recipe.applications} applications"
        return [Violation("workload", 1, "applications", said)]
    return []


def _digest(result: Result) -> list[Violation]:
    stated = result.stated_digest
    if stated in (None, result.digest):
        return []
    return [Violation("digest", 1, "result.json", f"states {stated}, the tables make {result.digest}")]


def _applications(result: Result, given: Applications) -> list[Violation]:
    table = result.applications
    if len(table) != len(given):
        said = f"has {len(table)} rows, the workload has {len(given)} applications"
        return [Violation("workload", 1, "applications", said)]
    found = []
    for name in _GIVEN:
        if getattr(given, name) is None:
            continue
        have, want = table[name], getattr(given, name)
        found += differs(
            "workload", column(f"applications.{name}"), have != want, have, want, "the scenario has"
        )
    sizes = given.sizes() if "smallest_task" in table or "largest_task" in table else np.zeros(0)
    for name, extreme in (("smallest_task", np.minimum), ("largest_task", np.maximum)):
        if name in table:
            have, want = table[name], extreme.reduceat(sizes, given.offsets[:-1])
            found += differs(
                "workload", column(f"applications.{name}"), have != want, have, want, "the scenario has"
            )
    found += _resubmitted(result)
    found += check_times(result, given)
    first, finish, release = table["first_start"], table["finish"], table["release"]
    hopeless = given_up(result)
    found += broken(
        "before release",
        ~(first >= release) & ~(hopeless & np.isnan(first)),
        lambda i: f"applications.first_start[{i}]",
        lambda i: f"starts at {first[i]} s, released at {release[i]} s",
    )
    found += broken(
        "time",
        ~(finish > first) & ~(hopeless & np.isnan(finish)),
        lambda i: f"applications.finish[{i}]",
        lambda i: f"finishes at {finish[i]} s, starts at {first[i]} s",
    )
    stretch = (finish - release) / table["size"]
    speed = result.aggregate_speed
    made = {"stretch": stretch, "stretch_agg": stretch * speed}
    if result.rigid:
        run_time: Floats = (durations(given, float(result.scenario.platform.speeds[0])) * NS).astype(
            np.float64
        )
        waiting: Floats = finish - run_time - given.ready
        made |= {"run_time": run_time, "waiting": waiting}
        made["slowdown"] = job_slowdown(waiting, run_time)
    # finish - release may lose most digits of the two
    digits = {"stretch": finish / table["size"], "stretch_agg": finish / table["size"] * speed}
    for name, want in made.items():
        have = table[name]
        near = np.abs(have - want) <= 1e-9 * np.fmax(np.abs(want), finish if result.rigid else 0.0) + (
            ROUNDING * digits.get(name, 0.0)
        )
        wrong = ~near & ~(np.isnan(have) & np.isnan(want))
        found += differs(
            "stretch", column(f"applications.{name}"), wrong, have, want, "release, finish and size make"
        )
    return found


def _resubmitted(result: Result) -> list[Violation]:
    """Check that tasks were submitted again at most once a failure, and once a message that was lost.

    One more failure may be why those that were submitted while it lasted had to be submitted again.
    """
    table, faults, machines = result.applications, result.scenario.faults, len(result.machines)
    again, until = table["resubmitted"], float(result.provenance["clock_seconds"])
    if faults is None:
        failures = np.zeros(0)
    else:
        downs = [down for _, down, _ in faults.outages(machines, until)]
        failures = np.unique(np.concatenate([np.zeros(0), *downs]))
    log, about = result.tables.get("message_log"), result.provenance.get("message_log", {})
    if log is None or about.get("left_out"):
        lost = np.full(len(table), result.messages["dropped"].sum())
    else:
        which = log["application"][(log["dropped"] != 0) & (log["application"] >= 0)]
        lost = np.bincount(which, minlength=len(table))
    before = np.searchsorted(failures, table["release"] - NS)
    times = len(failures) - np.maximum(0, before - 1) + lost
    return broken(
        "agreement",
        (again < 0) | (again > table["tasks"] * times),
        column("applications.resubmitted"),
        lambda i: f"is {again[i]} of {table['tasks'][i]} tasks, which can be lost {times[i]} times",
    )


def _machines(result: Result) -> list[Violation]:
    table, speeds = result.machines, result.scenario.platform.speeds
    have = table["speed"]
    found = differs("platform", column("machines.speed"), have != speeds, have, speeds, "the scenario has")
    if (attributes := result.scenario.platform.attributes) is not None:
        for name, column_ in attributes.columns().items():
            given, is_ = table[name], column(f"machines.{name}")
            found += differs("platform", is_, given != column_, given, column_, "the scenario has")
    done, wanted = int(table["tasks"].sum()), int(result.applications["tasks"][~given_up(result)].sum())
    if done != wanted:
        said = f"add up to {done}, the applications have {wanted} tasks"
        found.append(Violation("tasks", 1, "machines.tasks", said))
    return found + _failures(result)


def _failures(result: Result) -> list[Violation]:
    """Check that machines failed as often as the scenario says before the run ended.

    Failures at the instant of the end may count or not.
    """
    faults, have, machines = result.scenario.faults, result.machines["failures"], len(result.machines)
    until = float(result.provenance["clock_seconds"])
    least, most = np.zeros(machines, np.int64), np.zeros(machines, np.int64)
    if faults is not None:
        slack = NS + ROUNDING * until
        for machine, down, up in faults.outages(machines, until + slack):
            failed = (down > 0) | (up <= 0)  # a machine that is down from the start has not failed
            least[machine] = (failed & (down < until - slack)).sum()
            most[machine] = (failed & (down <= until + slack)).sum()
    return broken(
        "failures",
        (have < least) | (have > most),
        column("machines.failures"),
        lambda u: (
            f"is {have[u]}, the scenario makes "
            f"{least[u]}{f' or {most[u]}' if most[u] > least[u] else ''} until {until} s"
        ),
    )
