"""The function `simulate`, which runs a scenario under a scheduler and returns the checked `Result`."""

from __future__ import annotations

import errno
import logging
import os
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.engine.engine import TIMER, Engine
from gridsim.engine.transport import MAX_MESSAGES, MESSAGES_LIMIT, Transport
from gridsim.errors import FileChanged, ScenarioError, SchedulerError
from gridsim.model.applications import Applications
from gridsim.model.sanity_checks import warn_of_short_waits, warn_unusual
from gridsim.model.scenario import ArchivedScenario, Scenario, check_scenario
from gridsim.results.decisions import DECISIONS_LIMIT, Decisions
from gridsim.results.metrics.energy import needs_schedule
from gridsim.results.result import Result
from gridsim.results.schema import check_columns, check_rows
from gridsim.results.table import Table, frozen
from gridsim.results.text import planned_lines
from gridsim.scheduling.contract import NodeForm, Policy, ProcessShare, Run, Scheduler
from gridsim.scheduling.description import describe
from gridsim.scheduling.nodes.diary import DIARY_LIMIT, Recorder
from gridsim.scheduling.nodes.observe import Observations, Observe
from gridsim.scheduling.registry import scheduler_of
from gridsim.simulation.checks import (
    check_carbon,
    check_contract,
    check_cores,
    check_invariants,
    check_kind,
    check_nodes,
    check_size,
    check_speeds,
    record_tables,
    unfinished_tasks,
)
from gridsim.simulation.cost import check_memory, warn_of_long_run
from gridsim.simulation.machines import RunMachines
from gridsim.simulation.options import Options, Record
from gridsim.simulation.outages import Outages
from gridsim.simulation.releases import Releases
from gridsim.simulation.tables import application_table, machine_table
from gridsim.support import provenance
from gridsim.support.announcement import announce
from gridsim.support.arguments import real
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.support.docstrings import with_parameters_of
from gridsim.support.progress import MostFrequent, bar
from gridsim.support.progress import Progress as Progress
from gridsim.support.random_streams import Streams
from gridsim.support.state import Stateful, pack

if TYPE_CHECKING:
    from gridsim.simulation.checkpoint import CheckpointHeader, CheckpointWriter

#: Default wall-clock time between two checkpoints, s.
CHECKPOINT_EVERY = 600.0
_LOG = logging.getLogger(__name__)
#: Number of releases after which the engine gets control, for progress, checkpoints and Ctrl-C, if the policy
#: reads the releases itself.
_STRIDE = 4096


@with_parameters_of(Options)
def simulate(
    scenario: Scenario,
    scheduler: Scheduler | str,
    *,
    progress: Progress = False,
    cohort_limit: int | None = None,
    threads: int = 1,
    processes: int = 1,
    nodes: NodeForm | None = None,
    time_limit: float | None = None,
    events_limit: int | None = None,
    record: Record = False,
    decisions_limit: int = DECISIONS_LIMIT,
    messages_limit: int = MESSAGES_LIMIT,
    record_nodes: Iterable[int] | None = None,
    diary_limit: int = DIARY_LIMIT,
    observe: Observe | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = CHECKPOINT_EVERY,
) -> Result:
    """Run `scenario` under `scheduler`.

    Parameters
    ----------
    scenario
        The platform, the workload, the network and the faults.
    scheduler
        The scheduler, or its name; a name gets its parameters from ``scenario.schedulers``.
    progress
        Whether to show a progress bar on stderr, if that is a terminal or a notebook.  ``"force"`` also
        prints a line every 10 s if it is neither.  The result does not depend on it.
    checkpoint
        The file to which the state of the run is saved, and from which `gridsim.resume` continues it.  The
        file remains after the run.  A file of another run that can still be resumed is not overwritten.
    checkpoint_every
        Time in s of work between two checkpoints.

    Raises
    ------
    ScenarioError
        If the workload does not fit the platform, the scheduler does not support `nodes`, the run reaches
        `time_limit`, or the checkpoint file has another run.
    SchedulerError
        If the scheduler breaks its contract, reaches `events_limit`, or cannot be saved in a checkpoint.
    CompileError
        If the nodes cannot be compiled; it is a SchedulerError.
    InvariantViolation
        If an invariant of the simulation does not hold after the run.
    OSError
        If the checkpoint cannot be written.
    """
    arguments = locals()
    options = Options(**{name: arguments[name] for name in Options.__struct_fields__})
    scheduler_object = scheduler_of("scheduler", scheduler, check_scenario(scenario).schedulers)
    warn_unusual(scenario)
    return execute(
        scenario,
        scheduler_object,
        options,
        progress=progress,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
    )


def execute(
    scenario: Scenario,
    scheduler: Scheduler,
    options: Options | None = None,
    *,
    progress: Progress = False,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = CHECKPOINT_EVERY,
    plan: Callable[[Applications], dict[str, str]] | None = None,
    **fields: Any,
) -> Result:
    """Run `scenario` like `simulate`, but without warnings about unusual values.

    It is used for runs of studies, checks and tests.

    Parameters
    ----------
    options
        The options of the run; None for `Options` with the fields `fields`.
    plan
        Function of the applications that returns the lines to announce; None for those on the scenario.
    """
    start = time.perf_counter()
    options = Options(**fields) if options is None else options
    with _process_share(scenario, scheduler, options, checkpoint) as share:
        simulation = Simulation(scenario, scheduler, options, share)
        _LOG.info("%s: run of %d applications begins", scheduler.name, len(simulation.applications))
        plan = plan or partial(planned_lines, scenario)
        announce(partial(plan, simulation.applications))
        if checkpoint is not None:
            simulation.checkpoint_to(checkpoint, checkpoint_every)
        result = simulation.run(progress)
    _LOG.info("%s: run ends after %.2f s", scheduler.name, time.perf_counter() - start)
    return result


def _process_share(
    scenario: Scenario, scheduler: Scheduler, options: Options, checkpoint: Any
) -> AbstractContextManager[ProcessShare | None]:
    """Return a context that provides the share of this process in the run; None for a single process."""
    if options.processes == 1:
        return nullcontext()
    # imported here, since multiprocessing takes long to import
    from gridsim.simulation.shared import check_sharing, sharing

    check_sharing(
        check_scenario(scenario),
        scheduler,
        options.processes,
        recordings=options.record,
        checkpoints=checkpoint is not None,
        observation=options.observe,
        interpreted_nodes=options.nodes in ("interpreted", "python"),
    )
    return sharing(options.processes, _run_part, scenario, scheduler, options)


def _run_part(share: ProcessShare, scenario: Scenario, scheduler: Scheduler, options: Options) -> Any:
    return Simulation(scenario, scheduler, options, share).partial_outcome()


def _is_own_error(error: BaseException) -> bool:
    """Return whether `error` was raised by gridsim or one of its kernels, not by a user's scheduler."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] in ("gridcore", "gridsim")


class _LastWorkload:
    """A cache of the last workload, so that a study draws it, or parses its log, only once."""

    def __init__(self) -> None:
        self._entry: tuple[Any, Applications] | None = None

    @staticmethod
    def _key(scenario: Scenario, files: Mapping[str, str]) -> Any:
        """Return all values on which the workload depends; None if one of its files cannot be read."""
        recipe: Any = scenario.workload.recipe
        paths = (recipe.path,) if hasattr(recipe, "path") else getattr(recipe, "paths", ())
        content = tuple(files.get(path) for path in paths)
        if None in content:
            return None
        return content, scenario.workload, scenario.platform, scenario.platform.files

    def get(self, scenario: Scenario, files: Mapping[str, str]) -> Applications | None:
        """Return the cached workload if it belongs to `scenario` and `files` (SHA-256); drop it otherwise."""
        entry, key = self._entry, self._key(scenario, files)
        if entry is not None and key is not None and entry[0] == key:
            return entry[1]
        self._entry = None  # the memory may not suffice for two workloads
        return None

    def store(self, scenario: Scenario, files: Mapping[str, str], applications: Applications) -> None:
        """Cache `applications`, the workload of `scenario` and of `files` (SHA-256)."""
        if (key := self._key(scenario, files)) is not None:
            self._entry = key, applications


_LAST_WORKLOAD = _LastWorkload()


class Simulation(Stateful):
    """One run of a scheduler on a scenario.

    A `Simulation` with the same arguments can continue from its state.
    """

    STATE = ("engine", "network", "outages", "released", "policy", "decisions", "observations", "recorder")

    def __init__(
        self, scenario: Scenario, scheduler: Scheduler, options: Options, share: ProcessShare | None = None
    ) -> None:
        check_scenario(scenario)
        if not isinstance(scheduler, Scheduler):
            raise ScenarioError(f"scheduler must be a Scheduler object, got {scheduler!r}")
        self.scenario, self.scheduler, self.options, self.sharing = scenario, scheduler, options, share
        self._started = time.perf_counter()
        #: Time (s) that the run took before its last interruption, and number of times that it was resumed.
        self.earlier_work, self.resumed = 0.0, 0
        self._checkpoint_writer: CheckpointWriter | None = None
        read, paths = scenario.platform.files, scenario.files
        with provenance.file_digests(file for file in paths if file not in read) as files:
            self._set_up(scenario, scheduler, options, _LAST_WORKLOAD.get(scenario, files))
        if scenario.files != paths:  # a table of nodes appeared or disappeared
            raise FileChanged(f"{scenario.paths[-1]} must not change while it is read")
        #: Trace file -> SHA-256 of its content when it was read for this run, or earlier for the platform.
        self.files = {file: (read | files)[file] for file in paths}
        _LAST_WORKLOAD.store(scenario, files, self.input_applications)

    def _set_up(
        self, scenario: Scenario, scheduler: Scheduler, options: Options, cached: Applications | None
    ) -> None:
        platform = scenario.platform
        applications = scenario.workload.realize(platform) if cached is None else cached
        self.input_applications = applications
        load_profile = None if scenario.fluctuation is None else scenario.fluctuation.realize(platform.nodes)
        #: Bandwidth of the link of each machine, bytes/s; None if tasks move no data.
        self.bandwidth = platform.bandwidth if applications.moves_data else None
        self.machines = machines = RunMachines(platform, scheduler)
        check_kind(
            machines.with_suited_machines(applications),
            scheduler,
            load_profile,
            scenario.faults,
            data=self.bandwidth is not None,
        )
        check_speeds(applications, scheduler, platform, scenario.faults)
        check_cores(applications, scheduler, scenario)
        check_carbon(applications, scenario)
        if applications.predecessors is not None and options.processes > 1:
            raise ScenarioError(f"processes must be 1 with workload.after, got {options.processes}")
        check_nodes(scheduler, options.nodes)
        self.observations = None if options.observe is None else Observations(options.observe)
        self.recorder = None
        if "events" in options.recordings:
            self.recorder = Recorder(options.record_nodes, options.diary_limit)
        check_size(applications, platform, scenario.network.latency, load_profile, self.bandwidth)
        check_memory(applications, scheduler, scenario)
        if self.sharing is None or self.sharing.rank == 0:
            warn_of_long_run(applications, scheduler, scenario)
            warn_of_short_waits(scheduler, scheduler.name, scenario)

        self.engine, self.network = engine, network = self.make_engine()
        self.outages = Outages(scenario.faults, machines, engine, network)
        self.released = self.make_releases(applications)
        #: The applications, with the releases of this run.
        self.applications = applications = self.released.actual(applications)
        self.decisions = self._decisions()
        engine.on("release", self.released.release, priority=0, phase=TIMER)
        self.streams = Streams(scenario.seed)
        policy = scheduler.start(
            Run(
                engine=engine,
                network=network,
                speeds=machines.speeds,
                applications=machines.applications(applications),
                streams=self.streams,
                up=frozen(self.outages.up[:]),  # a read-only view, since only the outages may change it
                faults=scenario.faults is not None,
                record="schedule" in options.recordings or needs_schedule(platform, applications),
                decisions=self.decisions,
                threads=options.threads,
                nodes=self._programs_form(),
                observations=self.observations,
                recorder=self.recorder,
                patience=options.events_limit or 0,
                feed=None if scenario.faults is None else self.outages,
                load_profile=machines.load_profile(load_profile),
                bandwidth=self.bandwidth,
                cores=machines.cores,
                gpus=platform.gpus,
                platform_machine=machines.platform_machine,
                releases=self.released.queue,
                zones=None if scenario.faults is None else scenario.faults.time_zones,
                share=self.sharing,
                attributes=machines.attributes(platform.attributes),
                **self.kernel_factories(),
            )
        )
        if not isinstance(policy, Policy):
            raise SchedulerError(f"t = 0.0 s: start() must return a Policy, got {type(policy).__name__}")
        self._check_watched()
        self.policy = policy
        self.released.submit = None if policy.takes_releases else policy.on_release
        self.network.watch(int(applications.release_ns[0]), int(applications.release_ns[-1]))
        if scenario.faults is not None:
            self.begin_faults()
        self._schedule_releases()
        if options.events_limit is not None:
            engine.at_wave_end(self._check_events)

    def make_releases(self, applications: Applications) -> Releases:
        """Return the releases of the run."""
        return Releases(applications)

    def make_engine(self) -> tuple[Engine, Transport]:
        """Return the engine and the network of the run."""
        options, scenario = self.options, self.scenario
        engine = Engine(cohort_limit=options.cohort_limit)
        log, logged_nodes = 0, None
        if "messages" in options.recordings:
            log = options.messages_limit
        elif "events" in options.recordings:  # the diary has the arrival of each message
            log, logged_nodes = min(options.diary_limit, MAX_MESSAGES), options.record_nodes
        transport = Transport(
            engine,
            scenario.network,
            self.machines.count,
            interfaces=self.machines.platform_machine,
            seed=scenario.seed,
            log=log,
            logged_nodes=logged_nodes,
        )
        return engine, transport

    def _programs_form(self) -> NodeForm | None:
        """Return the form of the nodes: interpreted if nodes are watched and no other form has programs."""
        form, forms = self.options.nodes, self.scheduler.node_forms
        if form == "python":
            return "interpreted"
        is_watched = self.observations is not None or self.recorder is not None
        if form is not None or not is_watched or "interpreted" not in forms:
            return form
        from gridsim.scheduling.nodes.adapter import NodeScheduler

        return None if isinstance(self.scheduler, NodeScheduler) else "interpreted"

    def _check_watched(self) -> None:
        """Raise ScenarioError if nodes are to be watched, but the policy has no node programs."""
        for argument, watcher in (("observe", self.observations), ('record="events"', self.recorder)):
            if watcher is None or watcher.is_attached:
                continue
            reason = "it has no node programs"
            if "interpreted" in self.scheduler.node_forms:
                reason = f"only its interpreted nodes are programs, got nodes={self.options.nodes!r}"
            raise ScenarioError(f"{self.scheduler.name} does not support {argument}: {reason}")

    def begin_faults(self) -> None:
        """Start the failures and recoveries of machines."""
        self.outages.begin(self.policy)

    def kernel_factories(self) -> dict[str, Any]:
        """Return the factories that replace the kernels of node programs, as arguments of `Run`."""
        if self.options.nodes != "python":
            return {}
        from gridsim.scheduling.nodes.python_core import PythonCore

        return {"core": PythonCore}

    def _check_events(self) -> None:
        """Raise SchedulerError once more events have been handled than `Options.events_limit`."""
        limit, events, links = self.options.events_limit, self.engine.events, self.network.links
        if limit is None or events <= limit:
            return
        kinds = self.network.kinds
        count_and_kind = max(zip(links.sent.tolist(), kinds, strict=True), default=(0, ""))
        hint = (
            f"most messages ({count_and_kind[0]}) are of kind {count_and_kind[1]!r}"
            if count_and_kind[0]
            else "no message was sent to another machine"
        )
        raise SchedulerError(
            f"t = {self.engine.now / NS} s: {self.scheduler.name} did not end within events_limit = {limit} "
            f"({events} events so far); {hint}{self._holders_text()}"
        )

    def _decisions(self) -> Decisions | None:
        if "decisions" not in self.options.recordings:
            return None
        words = self.scheduler.decision_words
        if not words and self.options.record == "all":
            return None
        if not words:
            raise ScenarioError(
                f"{self.scheduler.name} does not support record={self.options.record!r}: it has no "
                "decision_words"
            )
        return Decisions(words, self.options.decisions_limit)

    def _schedule_releases(self) -> None:
        if self.released.queue is not None and not self.policy.takes_releases:
            self.engine.add_source(self.released)
            return
        release = self.applications.release_ns
        # Even if the policy reads the releases itself, the engine needs control from time to time, for a
        # progress bar, a checkpoint, or Ctrl-C.
        indices = range(0, len(release), _STRIDE if self.policy.takes_releases else 1)
        for index, due in zip(indices, release[:: indices.step].tolist(), strict=True):
            self.engine.at(due, "release", index)
        if indices[-1] < len(release) - 1:
            self.engine.at(int(release[-1]), "release", len(release) - 1)

    def checkpoint_to(self, path: str | os.PathLike[str], interval: float) -> None:
        """Save the run to the checkpoint file `path` every `interval` s of wall-clock time from now on."""
        from gridsim.simulation.checkpoint import CheckpointWriter, check_replaceable

        interval = real("checkpoint_every", interval, low=0, unit="s")
        if not os.fspath(path):
            raise ScenarioError(f"checkpoint must name a file, got {path!r}")
        if not os.path.isdir(os.path.dirname(os.path.realpath(path))):
            raise FileNotFoundError(errno.ENOENT, "no such folder", os.path.dirname(path) or ".")
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        # The writer reads the identity of the file before the content is checked, so that it detects if the
        # file is replaced after the check.
        make_header = partial(self.checkpoint_header, interval)
        writer = CheckpointWriter(path, interval, self, self.engine, make_header, self.resumed > 0)
        if not self.resumed:
            check_replaceable(path, self.checkpoint_header(interval))
        pack(self, lambda array: 0)  # report a state that cannot be saved now, not at the first save
        self._checkpoint_writer = writer
        self.engine.at_wave_end(writer)

    def checkpoint_header(self, interval: float) -> CheckpointHeader:
        """Return the header of a checkpoint, from which this simulation can be set up again.

        Parameters
        ----------
        interval
            Wall-clock time between two checkpoints, s.
        """
        from gridsim.simulation.checkpoint import CheckpointHeader, SchedulerHeader

        description, archive = describe(self.scheduler), self._archive
        return CheckpointHeader(
            scenario=archive.toml,
            arrays=dict(archive.arrays),
            files=self.files,
            scheduler=SchedulerHeader(description["name"], description["class"], description["parameters"]),
            options=self.options.to_plain(),
            every=interval,
            worked=self._wall_seconds(),
            resumed=self.resumed,
        )

    @cached_property
    def _archive(self) -> ArchivedScenario:
        return self.scenario.to_archive()

    def _wall_seconds(self) -> float:
        return self.earlier_work + time.perf_counter() - self._started

    def run(self, progress: Progress = False) -> Result:
        """Run to the end and return the result."""
        try:
            return self._run(progress)
        except (KeyboardInterrupt, MemoryError) as error:
            if self._checkpoint_writer is not None and self._checkpoint_writer.has_run:
                error.add_note(
                    f"the run is saved in {self._checkpoint_writer.path}; gridsim resume continues it"
                )
            raise
        except OverflowError as error:
            if not _is_own_error(error) or getattr(
                error, "__notes__", None
            ):  # the notes of the error name a handler
                raise
            now, failures = self.engine.now / NS, int(self.outages.failures.sum())
            raise ScenarioError(
                f"t = {now:g} s: {self.scheduler.name} did not end before a number overflowed ({error}), "
                f"after {failures} failures: reduce {'faults' if failures else 'workload'}"
            ) from error

    def partial_outcome(self) -> Any:
        """Run to the end in one process of a shared run; return the data that process 0 needs."""
        self._run_engine(False)
        return self.policy.partial_outcome()

    def _run(self, progress: Progress) -> Result:
        try:
            self._run_engine(progress)
            return self._result()
        except (Exception, KeyboardInterrupt) as error:
            self.policy.explain(error)
            raise

    def _run_engine(self, progress: Progress) -> None:
        engine, outages, limit = self.engine, self.outages, self.options.time_limit
        with self._progress_bar(progress):
            until = nanoseconds(limit) if limit is not None and limit * NS < NEVER else NEVER
            stopped = engine.run(until)
            engine.leave()
        outages.end(stopped)
        if not stopped and until < NEVER and not engine.is_exhausted():
            raise self._time_limit_error(self.policy.unfinished())

    def _time_limit_error(self, unfinished_rows: Integers | None) -> ScenarioError:
        """Return the error for a run that exceeds the time limit.

        Parameters
        ----------
        unfinished_rows
            The applications that are not completed at the limit; None if unknown.
        """
        return ScenarioError(
            f"{self.scheduler.name} did not end within time_limit = {self.options.time_limit:,.10g} s "
            f"({int(self.outages.failures.sum())} failures){self._unfinished_text(unfinished_rows)}"
            f"{self._holders_text()}"
        )

    def _holders_text(self) -> str:
        """Return a text, to end a sentence, about the node with tasks that are in no queue; "" if unknown."""
        holders = self.policy.unplaced()
        return f"; {holders}" if holders else ""

    def _progress_bar(self, progress: Progress) -> AbstractContextManager[object]:
        """Return a progress bar that is updated after each wave of the engine."""
        progress_bar = bar(progress, len(self.applications), "applications", self.scheduler.name)
        if progress_bar is None:
            return nullcontext()
        engine, frequent = self.engine, MostFrequent()

        def text() -> str:
            activity = self.policy.activity() or self._sent_by_kind()
            return f"t = {engine.now / NS:.0f} s, {engine.events} events{frequent.since_last(activity)}"

        engine.at_wave_end(lambda: progress_bar.move(self.released.count, text))
        return progress_bar

    def _sent_by_kind(self) -> dict[str, int]:
        counts = zip(self.network.kinds, self.network.links.sent.tolist(), strict=True)
        return {f"messages {kind!r}": count for kind, count in counts}

    def _unfinished_text(self, unfinished_rows: Integers | None) -> str:
        """Return a text with the number of unfinished applications and the first of them; "" if unknown."""
        applications = self.applications
        if unfinished_rows is None or not len(unfinished_rows):
            return ""
        first, noun = int(unfinished_rows[0]), "jobs" if applications.rigid else "applications"
        number = (
            f"number {first}" if applications.job is None else f"job {applications.job[first]} of the log"
        )
        mean = applications.size[first] / applications.tasks[first] / self.scenario.platform.speeds.mean()
        return (
            f": {len(unfinished_rows)} of {len(applications)} {noun} are unfinished, the first is {number} "
            f"({applications.tasks[first]} tasks of {mean:.4g} s)"
        )

    def _result(self) -> Result:
        scenario, applications, platform = self.scenario, self.applications, self.scenario.platform
        engine, network, outages = self.engine, self.network, self.outages
        if self.observations is not None:
            self.observations.finish()
        outcome = self.policy.finish()
        self.released.close(max(engine.now, int(outcome.applications["finish"].max())))
        messages, interfaces = network.accounting(), network.interfaces()
        if outages.all_failed_at is not None and (
            unfinished_count := unfinished_tasks(outcome, applications)
        ):
            raise ScenarioError(
                f"t = {outages.all_failed_at / NS:g} s: the last machine failed for good, with "
                f"{unfinished_count} tasks unfinished: faults must leave a machine up until the end"
                f"{self._holders_text()}"
            )
        tables = check_contract(outcome, applications, self.machines.count, engine.now)
        outcome = self.machines.outcome(outcome)
        if (limit := self.options.time_limit) is not None:
            # the clock may have stopped at the last placement, before the last task is completed
            late = np.flatnonzero(outcome.applications["finish"] / NS > limit)
            if len(late):
                raise self._time_limit_error(late)
        if (unfinished_count := unfinished_tasks(outcome, applications)) > 0 and (
            holders := self.policy.unplaced()
        ):
            raise SchedulerError(
                f"t = {engine.now / NS} s: {self.scheduler.name} ended with {unfinished_count} of "
                f"{int(applications.tasks.sum())} tasks unfinished: {holders}"
            )
        if "schedule" in self.options.recordings or needs_schedule(platform, applications):
            recorded_tables = record_tables(outcome, engine.now)
            tables |= recorded_tables if "schedule" in self.options.recordings else {}
        records: dict[str, Any] = {}
        if (availability := outages.availability()) is not None:
            records["availability"] = availability
        if "messages" in self.options.recordings:
            log = tables["message_log"] = network.message_log(len(applications))
            records["message_log"] = {
                "kept": len(log),
                "left_out": network.links.unlogged,
                "limit": self.options.messages_limit,
                "delays": network.delays,
            }
        if self.observations is not None:
            tables["observed"] = self.observations.table()
        if self.recorder is not None:
            diary = tables["diary"] = self.recorder.table(network.links.logged(), network.kinds)
            records["diary"] = {
                "kept": len(diary),
                "left_out": self.recorder.left_out,
                "limit": self.options.diary_limit,
                "nodes": self.options.record_nodes,
            }
        if applications.job is not None:
            tables["log_jobs"] = Table({"job": applications.job})
        if self.decisions is not None:
            tables["decisions"] = self.decisions.table()
            records["decisions"] = self.decisions.metadata()
        check_invariants(outcome, applications, platform, outages)
        if platform.power is not None and scenario.faults is not None:
            fault_files = [file for files in scenario.faults.sources().values() for file in files]
            # the faults are generated again, to count energy
            provenance.check_digests(fault_files, {file: self.files[file] for file in fault_files})
        machines = machine_table(
            outcome,
            applications,
            platform,
            interfaces | network.use(),
            outages,
            scenario,
            self.machines,
            engine.now,
        )
        tables = {
            "applications": application_table(outcome, applications, platform),
            "machines": machines,
            "messages": Table(messages),
            **self.machines.tables(tables),
        }
        servers = network.machines - self.machines.count
        try:  # these checks also guarantee that a written result can be read
            check_columns(tables)
            check_rows(tables, servers)
        except ValueError as error:
            raise SchedulerError(f"t = {engine.now / NS} s: {error}") from error
        return Result(
            tables=tables,
            facts=outcome.facts,
            scheduler=describe(self.scheduler),
            provenance={
                **provenance.describe(seed=scenario.seed, files=self.files),
                **scenario.remarks,
                "origin": scenario.workload.origin,
                "decentralized": self.scheduler.decentralized,
                "migrates": self.scheduler.migrates,
                "separate_cores": self.machines.platform_machine is not None,
                "order": self.scheduler.promised_order,
                "servers": servers,
                "drawn": self._random_parts(),
                **records,
                "clock_seconds": engine.now / NS,
                "events": engine.events,
                "handler_calls": engine.calls,
                "nodes": self._node_form(),
                "cohort_limit": self.options.cohort_limit,
                "threads": self.options.threads,
                "processes": self.options.processes,
                "wall_seconds": self._wall_seconds(),
                "resumed": self.resumed,
                "peak_memory": provenance.peak_memory(),
            },
            scenario=scenario,
        )

    def _node_form(self) -> NodeForm | None:
        """Return the form in which nodes ran; None if the scheduler has no node program."""
        if self.policy.node_form is None and "interpreted" in self.scheduler.node_forms:
            return "compiled"  # the nodes ran as a compiled protocol
        return self.policy.node_form

    def _random_parts(self) -> list[str]:
        """Return the random parts of the run on which the result depends, as in `Result.drawn`."""
        parts = list(self.scenario.drawn)
        if not self.scheduler.decentralized and "submitters" in parts:
            parts.remove("submitters")  # a scheduler that knows the whole grid does not depend on them
        return [*parts, *(["run"] if self.streams.used else [])]
