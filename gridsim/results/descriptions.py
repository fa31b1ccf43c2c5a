"""Meaning of the tables, facts and keys of the provenance of results.

`gridsim list` and the reference page of outputs show them; columns are declared in `gridsim.results.schema`.
"""

from __future__ import annotations

from typing import NamedTuple

#: Table -> what a row of it is, in which runs it exists, and the order of its rows.
TABLE_TEXTS: dict[str, str] = {
    "applications": (
        "A row per application, in order of release; the row number is the index of the application "
        "everywhere."
    ),
    "machines": "A row per machine.",
    "messages": "A row per kind of message that the scheduler declares; no rows for centralized schedulers.",
    "requests": (
        "Fair tree: a row per request, in order of application and time; no rows on a platform of one "
        "machine.  `mincent-once` and `ideal-tree`: a row per application in the order in which they were "
        "bound, and a further row for each time that lost tasks were bound again, with `application` and "
        "`promised` only."
    ),
    "traffic": "Fair tree: a row per kind of message and level of the sending node, where any were sent.",
    "payments": "`market`: a row per task that was bought, in the order in which they ended.",
    "updates": (
        "Fair tree: a row per summary that informed the root of a change at a leaf, in order of arrival."
    ),
    "repairs": (
        'Fair tree with `maintenance="messages"`: a row per router whose machine failed, in order of '
        "time and router.  What did not happen is NaN."
    ),
    "placements": "`dgs-asap`, `dgs-acap` and `asap`, if machines have places: a row per completed job.",
    "freed": (
        "`dgs-asap`, `dgs-acap` and `asap`, if jobs have a `cancel_at`: a row per machine of each job that "
        "was placed when its user cancelled it.  With `dgs-asap` and `dgs-acap` the machine learns of it "
        "one message later."
    ),
    "exchanges": (
        "`dgs-asap` and `dgs-acap`: a row per kind of exchange of schedules between nodes.  These are not "
        "among the `messages`, and occupy no interface."
    ),
    "jobs": (
        "`rjss` and its rivals: a row per job, which is a task of an application, in order of application."
    ),
    "searches": "The four searches for idle hosts: a row per search, in the order in which they ended.",
    "hosts": (
        "The four searches for idle hosts: a row per task that got a host, in order of time; a further row "
        "for each task that came back or was lost."
    ),
    "cycles": (
        "`WQR-FT` and wave schedulers, and `rjss` and `resource-exclusion` if owners come and go: a row "
        "per application, what its machines were busy with.  The sum of all columns is busy time times "
        "speed."
    ),
    "log_jobs": "Rigid jobs of a log: a row per application.  Not in the digest.",
    "schedule": (
        "With `--record`, `simulate(..., record=True)`: what ran where and when, in order of machine and "
        "start.  Of `WQR-FT`, a row per replica, and `completed` is also 0 if another one was faster; of "
        "wave schedulers, a row per stay of a task on a host.  Not in the digest."
    ),
    "arrivals": (
        "With `--record`: what came to the queues of machines, in order; no rows if machines have no queue "
        "(`mincent`, `fcfs-pull`, `shortest-bag-first`).  Not in the digest."
    ),
    "decisions": (
        'With `--decisions`, `simulate(..., record="decisions")`: who decided what, in order.  -1 and '
        "NaN stand for what does not apply; the sentence of each action and the unit of the three values "
        'are in `result.provenance["decisions"]`.  Not in the digest.'
    ),
    "message_log": (
        'With `--messages`, `simulate(..., record="messages")`: a row per message between different '
        "machines, in order of sending, which is the same in all forms of nodes.  Not in the digest."
    ),
    "observed": (
        "With `simulate(..., observe=gs.Observe(...))`: a row per node that is up, at each multiple of "
        "`Observe.every`.  The other columns are those of `Observe`, all float: a missing attribute is "
        "NaN, a container its length.  Not in the digest."
    ),
    "diary": (
        'With `simulate(..., record="events")`: the handler calls of the recorded nodes in order, each '
        "followed by what the handler did.  Not in the digest."
    ),
}


class Fact(NamedTuple):
    """The declaration of a fact of a result.

    Parameters
    ----------
    of
        Results that have the fact: those of a scheduler, and the condition, if any.
    unit
        Unit of the value; "" if it has none.
    text
        Meaning of the fact.
    """

    of: str
    unit: str
    text: str


_TREE, _DGS, _JOB_LOG = "fair tree", "dgs-asap, dgs-acap", "a job log"
#: Fact -> its declaration.
FACTS: dict[str, Fact] = {
    "bound": Fact(_TREE, "1", "B"),
    "stretch_ratio": Fact(_TREE, "1", "mean ratio of neighbouring stretch samples; 1 for a single sample"),
    "grid": Fact(_TREE, "s/Mflop, Mflop, Mflop", "samples: `stretch`, `size`, `task_size`"),
    "summary_bytes": Fact(_TREE, "B", "length of a summary: 4 per cell, and the header"),
    "decisions_at_lowest_sample": Fact(
        _TREE, "decisions", "decisions of any router, also on the way down, at the lowest stretch sample"
    ),
    "decisions_above_window": Fact(
        _TREE, "decisions", "decisions without room at the highest stretch sample"
    ),
    "tasks_doubted": Fact(
        "fair tree kept by messages",
        "tasks",
        "tasks that submitters wrongly considered lost, and would have run twice: of each application the "
        "most at once",
    ),
    "tasks_accepted_known": Fact(
        _TREE, "tasks", "tasks known to their submitters as placed at the end of the run"
    ),
    "tasks_completed_known": Fact(
        _TREE, "tasks", "tasks known to their submitters as completed at the end of the run"
    ),
    "ledger_end_s": Fact(_TREE, "s", "time at which the last task had been placed"),
    "requests_at_root": Fact(
        _TREE, "1", "share of requests, those for lost tasks included, that the root decided"
    ),
    "applications_at_root": Fact(_TREE, "1", "share of applications whose first request the root decided"),
    "root_requests_per_s": Fact(
        _TREE,
        "1/s",
        "rate of requests that the root decided, from the first release to the end of the accounting of "
        "messages",
    ),
    "root_bytes_per_s": Fact(
        _TREE,
        "B/s",
        "bytes in the busier direction of the interface of machine 0, where the root is, per second of "
        "that time",
    ),
    "decision_wait_mean_s": Fact(
        _TREE, "s", "mean time from the release of an application to the decision on its first request"
    ),
    "decision_wait_max_s": Fact(_TREE, "s", "largest of these times"),
    "too_large": Fact(
        "dgs-asap, dgs-acap, metascheduler",
        "jobs",
        "jobs rejected because they need more machines than were reached",
    ),
    "too_late": Fact(
        "dgs-asap, dgs-acap, if jobs have deadlines",
        "jobs",
        "jobs rejected because no start meets the deadline",
    ),
    "extended": Fact(
        "asap, dgs-asap, dgs-acap, if jobs outlive their reservations",
        "",
        "reservations, of one machine each, that were extended",
    ),
    "displaced": Fact(
        "asap, dgs-asap, dgs-acap, if jobs outlive their reservations",
        "",
        "number of times that jobs were placed anew because others were extended",
    ),
    "moves": Fact(
        'asap, dgs-asap, dgs-acap with move="forward", if jobs moved',
        "moves",
        "moves of placed jobs to earlier starts",
    ),
    "in_degree_min": Fact(_DGS, "nodes", "minimum number of nodes that know a node, at the end"),
    "in_degree_mean": Fact(_DGS, "nodes", "mean number of nodes that know a node, at the end"),
    "in_degree_max": Fact(_DGS, "nodes", "maximum number of nodes that know a node, at the end"),
    "in_degree_spread": Fact(_DGS, "nodes", "spread number of nodes that know a node, at the end"),
    "nodes_asked": Fact("rjss and its rivals", "nodes", "maximum number of nodes asked for a job"),
    "checkpoint_interval": Fact("WQR-FT", "s", "computing time between two checkpoints; infinite for none"),
    "unknown_waits": Fact(_JOB_LOG, "jobs", "jobs whose start is unknown"),
    "killed": Fact(
        _JOB_LOG,
        "jobs",
        "jobs that failed or were cancelled when they had run for the requested time, such as TIMEOUT of "
        "Slurm",
    ),
    "utilization": Fact(
        _JOB_LOG, "1", "utilization of all machines, from the first release to the last finish"
    ),
    "outside_night": Fact(
        "wave schedulers",
        "draws",
        "draws of a host when no free host had night; 0 for modes that do not prefer night",
    ),
    "peak_waiting": Fact(
        "mincent, fcfs-pull, shortest-bag-first, min-min, max-min, sufferage",
        "tasks",
        "maximum number of tasks waiting in the list at a release or a failure; of the last three, of "
        "tasks that had not started at a mapping event",
    ),
}


#: Key of `Result.provenance` -> its meaning, with the unit.
PROVENANCE: dict[str, str] = {
    "gridcore": 'version of the distribution; "unknown" in a tree that was not installed',
    "python": "version of Python",
    "implementation": "implementation of Python",
    "numpy": "version of numpy",
    "system": "operating system and kind of processor; no host name",
    "seed": "seed of the run",
    "files": "path -> SHA-256 of each trace file, as it was read (FTA: also of the table of nodes)",
    "origin": "time 0 of the run on the clock of its list of applications or jobs, s; 0 for other workloads",
    "decentralized": "whether the scheduler is decentralized",
    "migrates": "whether the scheduler may migrate tasks that have begun",
    "separate_cores": "whether machines have several cores, each of which was a machine for the scheduler",
    "order": "the order in which machines run their tasks, as the scheduler promises; null for none",
    "drawn": "parts of the run that depend on seeds",
    "emulation": "of an emulation: how it was made, and how late timers were",
    "scenario": "the scenario as TOML, with long lists by their SHA-256; `result.scenario` restores it",
    "log": "of bags of a log: how its jobs became bags",
    "period": "of rigid jobs of a log: dates of the first and the last submission",
    "clock": "of a log, or a list that does not begin at 0 s: meaning of time 0",
    "cores": "of rigid jobs of a log: that machines are nodes",
    "parts": "of rigid jobs of a log that share machines: the parts of jobs",
    "after": "of rigid jobs of a log: after which jobs they are released",
    "requests": "of rigid jobs of a log: requested times that are not those of the log",
    "unfinished": "of rigid jobs of a log: number of jobs left out at its end",
    "sample": "of rigid jobs of a log: that they were drawn from it",
    "servers": "number of servers of the scheduler, which follow the machines in the numbers of nodes",
    "availability": (
        "if machines may fail: `at_start` and `never` (machines up at 0 s, and never), `mean` (share of the "
        "time until the run stopped in which a machine was up)"
    ),
    "decisions": (
        "if decisions are recorded: `words` (action -> sentence, quantity, unit), `kept`, `dropped` and "
        "`limit` (rows)"
    ),
    "message_log": (
        "if messages are recorded: `kept`, `left_out` and `limit` (rows), and `delays` (s) of kinds whose "
        "delay does not depend on the network"
    ),
    "diary": (
        "if events are recorded: `kept`, `left_out` and `limit` (rows; a call that was not recorded counts "
        "as one), `nodes` (null for all)"
    ),
    "clock_seconds": "simulated time at which the engine stopped, s",
    "events": "rows passed to handlers; what runs in kernels between two instants is not counted",
    "handler_calls": "calls of handlers that passed these rows",
    "nodes": "form of the node programs: `python`, `interpreted` or `compiled`; null if there are none",
    "cohort_limit": "largest number of rows of a call, as given to `simulate`; null for whole cohorts",
    "threads": "number of threads, as given to `simulate`",
    "processes": "number of processes that shared the run, as given to `simulate`",
    "wall_seconds": "real time of the run and of realizing its workload, s; if resumed, of all saved work",
    "peak_memory": "most memory that the process has held so far, B; null if unknown",
    "resumed": "number of times that the run went on from a checkpoint",
}
