"""Checks of a recorded schedule: each row, all rows of a machine, and agreement with the other tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gridsim.model.applications import Applications, durations
from gridsim.model.attributes import ANY
from gridsim.model.faults import Faults
from gridsim.results.result import Result
from gridsim.support.arrays import Floats
from gridsim.validation.common import (
    NS,
    ROUNDING,
    Violation,
    broken,
    close,
    column,
    differs,
    emulated,
    few,
    overlaps,
)
from gridsim.validation.copies import Copies, check_copies, computed, overtaken
from gridsim.validation.links import check_links, moves_data
from gridsim.validation.times import cancelled, check_cancelled


def check_schedule(result: Result, given: Applications) -> list[Violation]:
    """Return what is wrong with the recorded schedule of a result whose workload is `given`."""
    table, applications = result.tables["schedule"], result.applications
    speeds = result.scenario.platform.speeds
    u, i, n, done = (table[name] for name in ("machine", "application", "tasks", "completed"))
    start, end = table["start"], table["end"]

    def where(k: int) -> str:
        return f"schedule[{k}]"

    known = (u >= 0) & (u < len(speeds)) & (i >= 0) & (i < len(applications))
    found = broken(
        "unknown",
        ~known,
        where,
        lambda k: f"application {i[k]} on machine {u[k]}: there are {len(applications)} and {len(speeds)}",
    )
    counted = (n >= 1) & ((done == n) | ((done == 0) & (n == 1)))
    found += broken(
        "count",
        ~counted,
        where,
        lambda k: f"{done[k]} of {n[k]} tasks completed: all, or none of one, can be",
    )
    timed = np.isfinite(start) & np.isfinite(end) & (end > start)
    found += broken("time", ~timed, where, lambda k: f"from {start[k]} s to {end[k]} s")
    sound = np.flatnonzero(known & counted & timed)
    u, i, n, done, start, end = (column[sound] for column in (u, i, n, done, start, end))

    def place(k: int) -> str:
        return where(int(sound[k]))

    release = applications["release"][i]
    found += broken(
        "before release", start < release, place, lambda k: f"starts at {start[k]} s, before {release[k]} s"
    )
    whole, beaten = done > 0, np.zeros(len(sound), np.bool_)
    if "task" in table:
        within = table["task"][sound]
        numbered = (within >= 0) & (within < given.tasks[i])
        found += broken("unknown", ~numbered, place, lambda k: f"task {within[k]} of application {i[k]}")
        if not numbered.all():
            return found
        at, until = ((column * 1e9).round().astype(np.int64) for column in (start, end))
        begin = table["begin"][sound]
        copies = Copies(u, given.offsets[i] + within, at, until, whole, begin, place, emulated(result))
        found += check_copies(result, given, copies)
        beaten = overtaken(copies)
    elif not given.unequal and result.scenario.fluctuation is None:
        # where task sizes differ, a row does not say which tasks ran, and so not how long it should last
        lasts = np.maximum(1.0, np.rint(applications["task_size"][i] / speeds[u] * 1e9)) * NS
        # what ends when its machine fails has ended, though not a job of which another machine has failed;
        # later, floats do not tell neighbouring ns apart
        slack = np.where(result.rigid | (end > 1e6), NS, -0.5 * NS)
        found += broken(
            "duration",
            np.where(whole, ~close(end, start + n * lasts, n * NS), end - start > lasts + slack),
            place,
            lambda k: f"{n[k]} tasks of {lasts[k]:g} s in {end[k] - start[k]:g} s on machine {u[k]}",
        )
    elif given.unequal and result.scenario.fluctuation is None and (n == 1).all():
        found += _own_sizes(given, speeds[u], i, whole, start, end)
    elif not given.unequal and result.scenario.fluctuation is not None:
        pace = result.scenario.fluctuation.realize(len(speeds))
        at, until = ((column * 1e9).round().astype(np.int64) for column in (start, end))
        wanted, done_there = (
            n * (applications["task_size"][i] / speeds[u] * 1e9),
            computed(pace, u, at, until),
        )
        slack = 2.0 * n + 1e-9 * done_there + ROUNDING * until
        found += broken(
            "duration",
            np.where(whole, np.abs(done_there - wanted) > slack, done_there > wanted + slack),
            place,
            lambda k: (
                f"{n[k]} tasks that take {wanted[k] * NS:g} s without background load get "
                f"{done_there[k] * NS:g} s of machine {u[k]}"
            ),
        )
    found += _constraints(result, given, u, i, place) + check_cancelled(result, i, start, end, place)
    called_off = cancelled(result)[i]
    earlier, later = overlaps(u, start, end)
    if len(later):
        a, b = int(earlier[0]), int(later[0])
        said = f"machine {u[b]} starts at {start[b]} s, while {place(a)} lasts until {end[a]} s"
        found.append(Violation("overlap", len(later), place(b), said))
    runs = np.unique(np.stack((i, start)), axis=1, return_inverse=True)[1] if result.rigid else None
    if runs is not None:
        found += _together(result, u, i, runs.ravel(), done, place)
        full = end - start >= durations(given, float(speeds[0]))[i] * NS - 0.5 * NS
        # news that the user has cancelled a job may come after its end
        missed = called_off & (end > (given.cancel_at[i] if given.cancel_at is not None else np.inf))
        found += _ended(result, i, runs.ravel(), full & ~whole & ~missed & (end < 1e6), place)
    faults = result.scenario.faults
    stopped = whole | beaten | called_off
    found += _on_machines_that_are_up(faults, len(speeds), u, n, start, end, stopped, runs, place)
    there = end
    if moves_data(result, given):
        more, there = check_links(result, given, u, i, n, start, end, place)
        found += more
    found += _agreement(result, u, i, done, start, end, there, beaten)
    found += _submitted_again(result, i, stopped)
    if "arrivals" in result.tables and len(result.tables["arrivals"]):
        found += _arrivals(result, u, i, n, start, place)
    return found


def _constraints(
    result: Result,
    given: Applications,
    u: NDArray[np.int64],
    i: NDArray[np.int64],
    place: Callable[[int], str],
) -> list[Violation]:
    """Check that tasks run only on machines of the memory, disk and kind that they want."""
    attributes, found = result.scenario.platform.attributes, list[Violation]()
    if attributes is None:
        return found
    for name in ("memory", "disk"):
        if getattr(attributes, name) is not None and getattr(given, name) is not None:
            found += _too_small(name, getattr(attributes, name)[u], getattr(given, name)[i], u, i, place)
    kind, named = attributes.kind, given.kind
    if kind is not None and named is not None:
        found += broken(
            "constraint",
            (named[i] != ANY) & (kind[u] != named[i]),
            place,
            lambda k: (
                f"application {i[k]} wants machines of kind {str(named[i[k]])!r}, machine {u[k]} is of kind "
                f"{str(kind[u[k]])!r}"
            ),
        )
    return found


def _too_small(
    name: str,
    there: Floats,
    wanted: Floats,
    u: NDArray[np.int64],
    i: NDArray[np.int64],
    place: Callable[[int], str],
) -> list[Violation]:
    """Check that machines have so much memory or disk; `there` and `wanted`: bytes, for each row."""
    return broken(
        "constraint",
        there < wanted,
        place,
        lambda k: f"application {i[k]} needs {wanted[k]:g} bytes of {name}, machine {u[k]} has {there[k]:g}",
    )


def _own_sizes(
    given: Applications,
    speed: NDArray[np.float64],
    i: NDArray[np.int64],
    done: NDArray[np.bool_],
    start: Floats,
    end: Floats,
) -> list[Violation]:
    """Check by how long they ran that tasks of own sizes were each completed once."""
    assert given.task_sizes is not None
    owner = np.repeat(np.arange(len(given)), given.tasks)
    size, mine = ((end - start) * speed)[done], i[done]
    wanted = given.task_sizes[np.lexsort((given.task_sizes, owner))]
    have = size[np.lexsort((size, mine))]
    complete = np.bincount(mine, minlength=len(given)) == given.tasks
    have, wanted = have[complete[np.sort(mine)]], wanted[complete[owner]]
    # durations are whole ns, rounded twice; late instants are rounded more
    slack = (NS + 2 * np.spacing(end.max(initial=0.0))) * speed.max(initial=0.0)
    return broken(
        "task sizes",
        ~close(have, wanted, slack),
        lambda k: f"application {owner[complete[owner]][k]}",
        lambda k: f"a task of {have[k]:g} Mflop ran, where one of {wanted[k]:g} Mflop is next in size",
    )


def given_up(result: Result) -> NDArray[np.bool_]:
    """Return which applications are rigid jobs that were rejected or cancelled: bool[applications]."""
    if not result.rigid:
        return np.zeros(len(result.applications), np.bool_)
    failed: NDArray[np.bool_] = (result.applications["failed"] != 0) | cancelled(result)
    return failed


def _ended(
    result: Result,
    i: NDArray[np.int64],
    runs: NDArray[np.int64],
    full: NDArray[np.bool_],
    place: Callable[[int], str],
) -> list[Violation]:
    """Check that no rigid job is lost that has run to its end on all its machines.

    Parameters
    ----------
    full
        Rows of tasks that are not completed, and have run for as long as the job takes.
    """
    all_of_it = np.bincount(runs, full) == np.bincount(runs, result.applications["tasks"][i]) / np.bincount(
        runs
    )
    return broken(
        "duration",
        full & all_of_it[runs],
        place,
        lambda k: f"application {i[k]} had run to its end, and was lost",
    )


def _together(
    result: Result,
    u: NDArray[np.int64],
    i: NDArray[np.int64],
    runs: NDArray[np.int64],
    done: NDArray[np.int64],
    place: Callable[[int], str],
) -> list[Violation]:
    """Check that rigid jobs start on all their machines at once, and are completed on all or on none."""
    wanted = result.applications["tasks"]
    size = np.bincount(runs)
    completed = np.bincount(runs, done)
    found = broken(
        "together",
        (size[runs] > wanted[i]) | ((completed[runs] > 0) & (completed[runs] != wanted[i])),
        place,
        lambda k: (
            f"application {i[k]} starts on {size[runs[k]]} machines and is completed on "
            f"{completed[runs[k]]:.0f} of them, it wants {wanted[i[k]]}"
        ),
    )
    pairs = np.stack((runs, u))
    _, first = np.unique(pairs, axis=1, return_index=True)
    twice = np.ones(len(u), np.bool_)
    twice[first] = False
    return found + broken(
        "together", twice, place, lambda k: f"application {i[k]} starts twice at once on machine {u[k]}"
    )


def _on_machines_that_are_up(
    faults: Faults | None,
    machines: int,
    u: NDArray[np.int64],
    n: NDArray[np.int64],
    start: Floats,
    end: Floats,
    whole: NDArray[np.bool_],
    runs: NDArray[np.int64] | None,
    place: Callable[[int], str],
) -> list[Violation]:
    dead, uncut, steps = np.zeros(len(u), np.bool_), ~whole, 0
    if faults is not None and len(u):
        order = np.argsort(u, kind="stable")
        by_machine = u[order]
        for machine, down, up in faults.outages(machines, float(end.max())):
            low, high = np.searchsorted(by_machine, (machine, machine + 1))
            rows = order[low:high]
            # the first outage that is not over when the row starts; it must not begin before the row ends
            first = np.searchsorted(up, start[rows], side="right")
            dead[rows] = np.append(down, np.inf)[first] < end[rows]
            hit, first = rows[dead[rows]], first[dead[rows]]
            last = np.searchsorted(down, end[hit])
            steps += int((last - first).sum())
            few(steps, "scenario.faults", "failures while rows of the schedule last")
            for k, j, j_last in zip(hit.tolist(), first.tolist(), last.tolist(), strict=True):
                dead[k] = not _between_tasks(down[j:j_last], up[j:j_last], start[k], end[k], int(n[k]))
            uncut[rows] &= ~np.isin(end[rows], down)
    if runs is not None and len(u):
        # a rigid job that has lost a machine ends on the others when these learn of it
        struck = np.full(runs.max() + 1, np.inf)
        np.minimum.at(struck, runs.ravel()[~whole & ~uncut], end[~whole & ~uncut])
        uncut &= end < struck[runs.ravel()]
    found = broken(
        "dead machine",
        dead,
        place,
        lambda k: f"machine {u[k]} is not up all the time from {start[k]} s to {end[k]} s",
    )
    return found + broken(
        "cut off",
        uncut,
        place,
        lambda k: f"a task is cut off at {end[k]} s, machine {u[k]} does not fail then",
    )


def _between_tasks(down: Floats, up: Floats, start: float, end: float, tasks: int) -> bool:
    """Return whether a row meets only transient failures, each between two of its tasks.

    Parameters
    ----------
    down, up
        float64[k], s, failures and recoveries during the row.
    """
    done = (down - start) / (end - start) * tasks
    off = np.abs(done - np.rint(done)) * (end - start)
    return bool((up <= down).all() and (off <= NS * tasks).all())


def _agreement(
    result: Result,
    u: NDArray[np.int64],
    i: NDArray[np.int64],
    done: NDArray[np.int64],
    start: Floats,
    end: Floats,
    there: Floats,
    beaten: NDArray[np.bool_],
) -> list[Violation]:
    """Check that the schedule agrees with the other tables; `there`: s, when tasks are over."""
    applications, machines = result.applications, result.machines
    count = len(applications)
    completed = np.bincount(i, done, count).astype(np.int64)
    tasks = np.where(given_up(result), 0, applications["tasks"])
    found = broken(
        "lost",
        completed < tasks,
        lambda k: f"application {k}",
        lambda k: f"{completed[k]} of its {tasks[k]} tasks were completed",
    )
    found += broken(
        "done twice",
        completed > tasks,
        lambda k: f"application {k}",
        lambda k: f"{completed[k]} tasks were completed, it has {tasks[k]}",
    )
    first, last = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(first, i, start)
    np.maximum.at(last, i[done > 0], there[done > 0])
    first, last = (np.where(np.isfinite(times), times, np.nan) for times in (first, last))
    busy = np.bincount(u, end - start, len(machines))
    ran = np.bincount(u, done, len(machines)).astype(np.int64)
    slack = NS * np.bincount(u, minlength=len(machines))
    # where tasks wait on machines, an application uses each machine to which its tasks came, unless all of
    # them were withdrawn
    came = result.tables.get("arrivals")
    if came is None or not len(came):
        ordered = np.sort(u * count + i)  # numpy.unique would hash them, which takes ten times as long
        pairs = ordered[np.diff(ordered, prepend=-1) != 0]
    else:
        pairs, of = np.unique(came["machine"] * count + came["application"], return_inverse=True)
        pairs = pairs[np.bincount(of, came["tasks"]) > 0]
    used = np.bincount((pairs % count)[pairs >= 0], minlength=count)[:count]
    until = float(np.fmax.reduce(applications["finish"]))
    if np.isnan(applications["finish"]).any():  # rejected jobs kept machines busy until the run ended
        until = float(np.fmax(until, result.provenance["clock_seconds"]))
    span = until - float(applications["release"].min())
    more = {"utilization": machines["busy"] / span if span > 0 else np.zeros(len(machines))}
    for name, rows in (("interrupted", (done == 0) & ~beaten), ("ended", beaten)):
        if name in machines:
            more[name] = np.bincount(u[rows], minlength=len(machines))
    for name, table, have in (
        ("first_start", "applications", first),
        ("finish", "applications", last),
        ("busy", "machines", busy),
        ("tasks", "machines", ran),
        ("nodes_used", "applications", used),
        *((name, "machines", have) for name, have in more.items()),
    ):
        want = result.tables[table][name]
        most = slack.max() if len(slack) else NS
        if name == "utilization" and span > 0:
            # finish - release loses most digits of the two
            most = max(most, (most + ROUNDING * (span + float(applications["release"].max()))) / span)
        equal = have == want if have.dtype.kind == "i" else close(have, want, most)
        equal = equal | ((have != have) & (want != want))  # both NaN, which stands for never
        found += differs("agreement", column(f"{table}.{name}"), ~equal, want, have, "the schedule makes")
    return found


def _submitted_again(result: Result, i: NDArray[np.int64], uncut: NDArray[np.bool_]) -> list[Violation]:
    """Check that tasks which a failure cut off were submitted again.

    If no tasks wait on machines, no others may have been submitted again.  Schedules of copies are checked
    in `gridsim.validation.copies`.

    Parameters
    ----------
    uncut
        bool[rows], which rows were not cut off.
    """
    if "task" in result.tables["schedule"]:
        return []
    cut = np.bincount(i[~uncut], minlength=len(result.applications))
    have = result.applications["resubmitted"]
    came = result.tables.get("arrivals")
    waits = result.rigid or (came is not None and len(came) > 0)
    found = broken(
        "agreement",
        (have < cut) | ((have != cut) & (not waits)),
        column("applications.resubmitted"),
        lambda k: f"is {have[k]}, the schedule has {cut[k]} tasks that were cut off",
    )
    if result.scenario.faults is None or emulated(result):
        return found
    finish = result.applications["finish"]
    calm = _undisturbed(result.scenario.faults, len(result.machines), finish)
    return found + broken(
        "agreement",
        calm & (have > 0),
        column("applications.resubmitted"),
        lambda k: f"is {have[k]}, no machine fails until {finish[k]} s, its end",
    )


def _undisturbed(faults: Faults, machines: int, finish: Floats) -> NDArray[np.bool_]:
    """Return which applications ended before any machine was down or failed: bool[applications].

    An earlier failure may still cost tasks, as where schedulers notice it late.
    """
    until = float(np.fmax.reduce(finish, initial=0.0))
    spans = [each[1:] for each in faults.outages(machines, until + NS)]
    down = np.sort(np.concatenate([each[0] for each in spans] or [np.zeros(0)]))
    calm: NDArray[np.bool_] = (np.searchsorted(down, finish + 2 * NS, side="right") == 0) & np.isfinite(
        finish
    )
    return calm


def _running_sums(keys: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each row the sum of `values` in the rows with the same key up to it, int64[k]."""
    order = np.argsort(keys, kind="stable")
    begins = np.flatnonzero(np.diff(keys[order], prepend=-1))
    sums = np.cumsum(values[order])
    sums -= np.repeat((sums - values[order])[begins], np.diff(np.append(begins, len(keys))))
    found = np.empty_like(sums)
    found[order] = sums
    return found


def _arrivals(
    result: Result,
    u: NDArray[np.int64],
    i: NDArray[np.int64],
    n: NDArray[np.int64],
    start: Floats,
    place: Callable[[int], str],
) -> list[Violation]:
    """Check that only released tasks arrive, as many as there are, and run only where they have arrived.

    A row with a negative number of tasks says that so many were withdrawn.
    """
    table, applications = result.tables["arrivals"], result.applications
    machines, count = len(result.machines), len(applications)
    v, j, came, at = (table[name] for name in ("machine", "application", "tasks", "time"))

    def where(k: int) -> str:
        return f"arrivals[{k}]"

    known = (v >= 0) & (v < machines) & (j >= 0) & (j < count)
    found = broken(
        "unknown",
        ~known,
        where,
        lambda k: f"application {j[k]} on machine {v[k]}: there are {count} and {machines}",
    )
    release = applications["release"][np.where(known, j, 0)]
    found += broken(
        "arrival",
        known & ~((came != 0) & (at >= release) & np.isfinite(at)),
        where,
        lambda k: f"{came[k]} tasks of application {j[k]} at {at[k]} s, released at {release[k]} s",
    )
    v, j, came, at = (column[known] for column in (v, j, came, at))
    # for each application on each machine: when it first came, how many tasks came, and how many began
    keys, of = np.unique(np.concatenate((v * count + j, u * count + i)), return_inverse=True)
    first, arrived, begun = np.full(len(keys), np.inf), np.zeros(len(keys)), np.zeros(len(keys))
    np.minimum.at(first, of[: len(v)], at)
    np.add.at(arrived, of[: len(v)], came)
    np.add.at(begun, of[len(v) :], n)
    found += broken(
        "arrival",
        (came < 0) & (_running_sums(of[: len(v)], came) < 0),
        lambda k: where(int(np.flatnonzero(known)[k])),
        lambda k: f"{-came[k]} tasks of application {j[k]} leave machine {v[k]}, more than are there",
    )
    mine = of[len(v) :]
    found += broken(
        "before arrival",
        start < first[mine],
        place,
        lambda k: (
            f"application {i[k]} starts on machine {u[k]} at {start[k]} s, and comes there at "
            f"{first[mine[k]]} s"
        ),
    )
    # each task comes once, or again after it was lost
    total, most = np.bincount(j, came, count), applications["tasks"] + applications["resubmitted"]
    found += broken(
        "arrival",
        (total < applications["tasks"]) | (total > most),
        lambda k: f"application {k}",
        lambda k: (
            f"{total[k]:.0f} tasks have come, it has {applications['tasks'][k]}, and "
            f"{applications['resubmitted'][k]} were submitted again"
        ),
    )
    # tasks that wait on a machine when it fails have come, but do not begin there
    wrong = arrived < begun if result.scenario.faults is not None else arrived != begun
    return found + broken(
        "arrival",
        wrong,
        lambda k: f"application {keys[k] % count} on machine {keys[k] // count}",
        lambda k: f"{arrived[k]:.0f} tasks have come, {begun[k]:.0f} have begun",
    )
