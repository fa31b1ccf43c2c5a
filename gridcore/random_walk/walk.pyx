"""Jobs that search for a node by random probes or walks over a grid; each node serves jobs first come, first served.

A job is released at its home node, which probes other nodes in turn for the lengths of their queues and the jobs that
are expected there while the job is in transit.  The job moves to the first better node, or to the best one, or stays.
A node with several cores has one queue, and is free for a job as soon as one core is; its rates are per core.
If probes take time, a node decides on one job after the other, and results wait in the same queue before they are
sent (sections 7.1 and 7.2).  A node runs jobs in the order of their arrival, without preemption, so a job's
start is known when it arrives.  `gridcore.network.links` carries jobs and results, and counts the packets of probes.

The default rule is that of RJSS (Reliable node Job Scheduling Strategy, section 6.1); other parameters give the rules
of its baselines.  Times are int64 nanoseconds.  There is no reference implementation: tests compare the kernel with
the node program.
"""

from libc.math cimport INFINITY, exp, isnan, llrint
from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.arguments cimport _Guard, guard
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.network.links cimport Links
from gridcore.network.transit cimport record_of
from gridcore.common.memory cimport reallocate, prefetch
from gridcore.common.heap cimport Event
from gridcore.common.pending cimport (
    Pending, pending_clear, pending_count, pending_first, pending_free, pending_pop, pending_push, pending_read,
)
from gridcore.random_walk.probe_log cimport (
    PROBE_FIELDS, ProbeLog, ProbeRecord, probelog_add, probelog_copy, probelog_fill, probelog_free,
)
from gridcore.random_walk.searches cimport (
    Node, Record, Search, Searches, draw_below, draw_other, run_time, searches_drop, searches_free, searches_new,
    stream_seed,
)

import numpy as np

from gridcore.common.state import read_only
from gridcore.random_walk.state import JOB_COLUMNS, PROBE_COLUMNS, NODE_COLUMNS, PICKS, RECORD, RULES, check_arguments, read

__all__ = ["RECORD", "JobWalks"]

cdef enum:
    PROBE, LOAD, JOB, RESULT, KINDS
cdef enum:
    FIRST, BEST, FASTEST
cdef enum:
    NO_RULE, EXACTLY_ONE, AT_LEAST_ONE
cdef enum:
    FITS, SLOW, OWN_JOBS, OTHER_JOBS, MOVES, STAYS
cdef enum:
    PREFETCH_DISTANCE = 16              # nodes are drawn and prefetched this many probes ahead
    FIRST_DRAWS = 4                     # number of steps drawn at first if a search may end after any step
    NOWHERE = -2                        # the job is in no queue of a dispatcher
    FIELDS = 10                         # number of columns of a search in a state


cdef class JobWalks:
    """A grid whose nodes probe other nodes to move their jobs to better ones.

    At one instant jobs arrive first (by node), then results come back.  Next, the results of jobs that end are sent
    or queued (by job).  Then searches continue, in the order in which their steps began; when a search ends, its
    node's dispatcher handles what waits there.  Last, jobs are released, by index.

    Parameters
    ----------
    links
        The network that carries the messages between the nodes.
    speed
        float64[nodes], Mflop/s > 0.
    kinds
        int64[4], the numbers in `links` of the kinds probe, load, job and result, with records `RECORD`.
    release, node, work, data
        For each job: int64 ns, not decreasing; int64, the node at which it is released; float64 Mflop > 0;
        int64 bytes of the job, and also of its result.
    rate
        float64[nodes], average jobs/s released at a node per core; nan: the jobs released so far, divided by the
        time so far and the number of cores.
    probes
        The largest number of probes of a job (without `neighbours` at most the number of other nodes).
    pick
        "first": the first node that is better than the job's own; "best": the best one; "fastest": the
        fastest one, whatever its queue.
    rule
        How to estimate the probability that jobs are released at a node while this job is in transit; it must be
        less than `local_threshold`: "exactly-one", x exp(-x) with x jobs expected per core, as printed;
        "at-least-one", 1 - exp(-x).  Moreover, the number of jobs per core expected from other nodes at the rate so
        far must be less than `remote_threshold`.  "none": neither condition is checked.
    min_speed
        Mflop/s; slower nodes are skipped.
    printed
        Whether to compare waiting + latency with waiting, as printed in the paper, instead of turnaround times.
    probe_time
        ns from a probe to its answer; nodes are probed one after another; 0: probes take no time.
    queued
        Whether the dispatcher of a node is busy during a search.  Other jobs released there, and results of jobs
        that ran there, then wait for it, first come, first served.  Otherwise searches of a node overlap, and results
        are sent as soon as the jobs have ended.
    packet
        Bytes of a probe, and of its answer.
    seed
        Seed of the draws.  The draws of a job depend on it and on the job's index.
    neighbours
        int64, the neighbours of the first node, then those of the second and so on; each node has some, or none has.
        The probe of a job then walks from neighbour to neighbour.  A node that was visited before costs a step and
        does not answer again.  None: nodes are drawn uniformly, each at most once.
    neighbour_offsets
        int64[nodes + 1], index of the first neighbour of each node in `neighbours`, then the number of neighbours.
    cores
        int64[nodes], number of cores of each node; None: one each.
    log
        The largest number of rows of `probe_rows`; 0: no log.  The log does not change the run.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    cdef Links links
    cdef bint in_call                   # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t nodes, count
    cdef int[KINDS] number
    cdef Node* at
    cdef bint has_cores                 # whether nodes have several cores
    cdef const long long[::1] cores, first_core
    cdef long long[::1] core_free       # by core: when it will have run its jobs; of each node a heap, if `has_cores`
    cdef const long long[::1] release, home, data
    cdef const double[::1] work
    cdef const int[::1] neighbours
    cdef const long long[::1] neighbour_offsets
    cdef bint has_overlay, is_alone     # alone: no node has a neighbour
    cdef Py_ssize_t probes
    cdef int pick, rule
    cdef double local_threshold, remote_threshold, min_speed
    cdef bint printed
    cdef long long probe_time, packet
    cdef unsigned long long seed
    cdef dict _jobs, _totals
    cdef int[::1] machine, n_probes
    cdef long long[::1] arrived, start, end, return_time, predicted
    cdef long long[::1] busy_time, done, own_jobs, remote, peak
    cdef int[::1] next_waiting          # by job: the job that waits behind it at its node, -1: none
    cdef int[::1] head, tail, waiting   # by node: first, last and number of the jobs that wait there
    cdef Py_ssize_t next                # the next job to be released
    cdef long long now, sequence
    cdef Pending ending                 # running jobs by their end, when their result is sent
    cdef Pending steps                  # searches, by the time of their next event
    cdef Searches searches
    cdef bint queued                    # whether dispatchers can be busy
    cdef int[::1] searching_job         # by node: the job for which its dispatcher looks for a node, -1: none
    cdef int[::1] first, last           # by node: ends of the queue of jobs that wait for its dispatcher
    cdef int[::1] next_in_line          # by job: the job behind it in that queue, -1: none; or `NOWHERE`
    cdef ProbeLog log
    cdef long long[::1] open_record     # by job: its row in the log that lacks the answer, -1: none

    def __cinit__(self, Links links, speed: ArrayLike, *, kinds: ArrayLike, release: ArrayLike, node: ArrayLike,
                  work: ArrayLike, data: ArrayLike, rate: ArrayLike, probes: SupportsIndex, pick: str = "first",
                  rule: str = "exactly-one", local_threshold: float = 0.5, remote_threshold: float = 1.0,
                  min_speed: float = 0.0, bint printed=False, probe_time: SupportsIndex = 0, bint queued=True,
                  packet: SupportsIndex = 100, seed: SupportsIndex = 0, neighbours: ArrayLike | None = None,
                  neighbour_offsets: ArrayLike | None = None,
                  cores: ArrayLike | None = None, log: SupportsIndex = 0):
        cdef Py_ssize_t k
        cdef const double[::1] speeds, rates
        if links is None:
            raise TypeError("links must be Links, got None")
        arrays = check_arguments(speed=speed, kinds=kinds, release=release, node=node, work=work, data=data, rate=rate,
                       probes=probes, pick=pick, rule=rule, local_threshold=local_threshold,
                       remote_threshold=remote_threshold, min_speed=min_speed, probe_time=probe_time, packet=packet,
                       neighbours=neighbours,
                       neighbour_offsets=neighbour_offsets, cores=cores, log=log, widths=np.asarray(links.width))
        self.links = links
        speeds, rates = arrays["speed"], arrays["rate"]
        self.nodes, self.count = speeds.shape[0], len(arrays["release"])
        if links.machine_of.shape[0] != self.nodes:
            raise ValueError(f"links must have {self.nodes} nodes, got {links.machine_of.shape[0]}")
        for k in range(KINDS):
            self.number[k] = arrays["kinds"][k]
        if self.count:
            links._transmission_time(arrays["data"].max())
        self.has_cores, self.cores = cores is not None, arrays["cores"]
        self.first_core = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.cores, dtype=np.int64)))
        self.core_free = np.zeros(self.first_core[self.nodes] if self.has_cores else 0, np.int64)
        self.release, self.home, self.data = arrays["release"], arrays["node"], arrays["data"]
        self.work, self.probes = arrays["work"], probes
        self.neighbours, self.neighbour_offsets = arrays["neighbours"], arrays["neighbour_offsets"]
        self.has_overlay = neighbours is not None
        self.is_alone = self.has_overlay and self.neighbours.shape[0] == 0
        if not self.has_overlay:
            self.probes = min(self.probes, self.nodes - 1)
        self.pick, self.rule = PICKS.index(pick), RULES.index(rule)
        self.local_threshold, self.remote_threshold = local_threshold, remote_threshold
        self.min_speed, self.printed = min_speed, printed
        self.probe_time, self.packet, self.seed = probe_time, packet, seed
        self._jobs = {name: np.full(self.count, -1, dtype) for name, dtype in JOB_COLUMNS.items()}
        self._jobs["probes"][:] = 0
        self.machine, self.n_probes, self.arrived = self._jobs["machine"], self._jobs["probes"], self._jobs["arrived"]
        self.start, self.end, self.return_time = self._jobs["start"], self._jobs["end"], self._jobs["returned"]
        self.predicted = self._jobs["predicted"]
        self._totals = {name: np.zeros(self.nodes, np.int64) for name in NODE_COLUMNS}
        self.busy_time, self.done, self.own_jobs, self.remote, self.peak = (self._totals[name] for name in NODE_COLUMNS)
        self.next_waiting = np.full(self.count, -1, np.int32)
        self.head, self.tail = np.full(self.nodes, -1, np.int32), np.full(self.nodes, -1, np.int32)
        self.waiting = np.zeros(self.nodes, np.int32)
        self.queued = queued and self.probe_time > 0 and self.probes > 0 and not self.is_alone
        k = self.nodes if self.queued else 0
        self.searching_job, self.first, self.last = (np.full(k, -1, np.int32) for _ in range(3))
        self.next_in_line = np.full(self.count if self.queued else 0, NOWHERE, np.int32)
        self.log.max_rows = log
        self.open_record = np.full(self.count if log else 0, -1, np.int64)
        self.at = <Node*> reallocate(NULL, self.nodes * sizeof(Node))
        memset(self.at, 0, self.nodes * sizeof(Node))
        for k in range(self.nodes):
            self.at[k].speed, self.at[k].rate = speeds[k], rates[k]

    def __dealloc__(self):
        free(self.at)
        searches_free(&self.searches)
        probelog_free(&self.log)
        pending_free(&self.ending)
        pending_free(&self.steps)

    cdef _Guard _guard(self):
        return guard(&self.in_call, guard(&self.links.in_call))

    # -- time -----------------------------------------------------------------------------------------------

    def advance(self, long long limit) -> int:
        """Run up to and including `limit` ns; return `NEVER`, since no action of the caller is ever needed.

        Raises
        ------
        OverflowError
            If a node would be busy until after the last instant.
        """
        cdef _Guard access = self._guard()
        cdef long long next_event, now
        cdef Event e
        while True:
            next_event = self.release[self.next] if self.next < self.count else NEVER
            next_event = min(next_event, first_of(&self.ending), first_of(&self.steps))
            now = min(self.links._advance(min(limit, next_event)), next_event)
            if now > limit or now == NEVER:
                return NEVER
            self.now = now
            if not self._arrive(now) and now < next_event:
                raise ValueError(f"links must carry only messages of this object, got another message at {now} ns")
            while first_of(&self.ending) == now:
                e = pending_pop(&self.ending)
                self._dispatch(e.slot, self.machine[e.slot], now)
            while first_of(&self.steps) == now:
                e = pending_pop(&self.steps)
                self._continue_search(e.slot, now)
            while self.next < self.count and self.release[self.next] == now:
                self._release(self.next, now)
                self.next += 1

    cdef bint _arrive(self, long long now) except -1:
        """Handle jobs that arrive at nodes, then results that come back; False if there are none."""
        cdef Py_ssize_t k, n = self.links._take(self.number[JOB], now), jobs = n
        cdef const Record* record
        self.links._sort_by_node(n)
        for k in range(n):
            record = self._record(k)
            if record.node != self.machine[record.job]:
                raise ValueError(f"the message about job {record.job} must be to node {self.machine[record.job]}, got node {record.node}")
            self._queue(record.job, record.node, now)
        n = self.links._take(self.number[RESULT], now)
        for k in range(n):
            self.return_time[self._record(k).job] = now
        return jobs + n > 0

    cdef const Record* _record(self, Py_ssize_t k) except NULL:
        """Return the record of the k-th message taken from the links; it is valid until a message is sent."""
        cdef int slot = self.links.due[k].slot
        cdef const Record* record = <const Record*> record_of(self.links, slot)
        if not 0 <= record.job < self.count:  # a message in a state from a file may have any number
            raise ValueError(f"messages in links must be about jobs below {self.count}, got job {record.job}")
        self.links._free_slot(slot)
        return record

    # -- the dispatchers of the nodes -----------------------------------------------------------------------

    cdef int _dispatch(self, Py_ssize_t job, Py_ssize_t u, long long now) except -1:
        """Begin the search for `job`, or send its result from node `u`; queue it if the dispatcher of `u` is busy."""
        if self.queued and self.searching_job[u] >= 0:
            return self._join_line(job, u)
        if self.machine[job] < 0:
            if now > LATEST:
                raise OverflowError(f"node {u} must decide on its jobs by {LATEST} ns, got {now}")
            self._begin(job, now)
            if self.queued:
                self.searching_job[u] = <int> job
        elif u == self.home[job]:
            self.return_time[job] = now
        else:
            self._send(RESULT, u, self.home[job], job, now)
        return 0

    cdef int _join_line(self, Py_ssize_t job, Py_ssize_t u) except -1:
        if self.next_in_line[job] != NOWHERE:  # a state from a file may list a job twice, which would make a cycle
            raise ValueError(f"state must have job {job} at one dispatcher at most, got two")
        self.next_in_line[job] = -1
        if self.first[u] < 0:
            self.first[u] = <int> job
        else:
            self.next_in_line[self.last[u]] = <int> job
        self.last[u] = <int> job
        return 0

    cdef int _free_dispatcher(self, Py_ssize_t u, long long now) except -1:
        """Handle the jobs and results that wait for the dispatcher of node `u`, up to the next search."""
        cdef Py_ssize_t job
        self.searching_job[u] = -1
        while self.searching_job[u] < 0 and self.first[u] >= 0:
            job = self.first[u]
            self.first[u] = self.next_in_line[job]
            self.next_in_line[job] = NOWHERE
            self._dispatch(job, u, now)
        return 0

    cdef inline Py_ssize_t _neighbour(self, unsigned long long* stream, Py_ssize_t node) noexcept:
        """Draw a neighbour of a node."""
        cdef long long first = self.neighbour_offsets[node]
        return self.neighbours[first + draw_below(stream, self.neighbour_offsets[node + 1] - first)]

    # -- a search that takes no time ------------------------------------------------------------------------

    cdef int _release(self, Py_ssize_t job, long long now) except -1:
        cdef Py_ssize_t home = self.home[job], u = -1
        self.own_jobs[home] += 1
        if self.probes and not self.is_alone:
            self._forget_stamps(job)
            if self.probe_time:
                return self._dispatch(job, home, now)
            u = self._find(job, home, now)
            if self.log.max_rows or self.links.message_log.max_rows:
                self._log_search(job, home, now)
        if self.log.max_rows:
            self._log_end(job, home, u, self.at[u].free if u >= 0 else -1, now)
        if u < 0:
            return self._queue(job, home, now)
        return self._move(job, home, u, self.at[u].free, now)

    cdef void _forget_stamps(self, Py_ssize_t job) noexcept:
        """Clear all stamps if they have the number of `job`: its release failed before, and is repeated."""
        cdef Py_ssize_t u
        if self.at[self.home[job]].stamp == <unsigned int> (job + 1):
            for u in range(self.nodes):
                self.at[u].stamp = 0

    cdef Py_ssize_t _find(self, Py_ssize_t job, Py_ssize_t home, long long now) noexcept:
        """Return the node to which `job` moves, -1 if it stays; all probes happen at this instant."""
        cdef unsigned long long stream = stream_seed(self.seed, job)
        cdef unsigned int stamp = <unsigned int> (job + 1)
        cdef long long latency = self._latency(job), arrival = now + latency, wait, turnaround
        cdef long long travel_time = latency if self.printed else 2 * latency, bound = self._at_home(job, home, now)
        cdef double work = self.work[job], fastest = self.at[home].speed
        cdef Py_ssize_t steps = 0, n_asked = 0, best = -1, k = 0, u = home, previous
        cdef Py_ssize_t[PREFETCH_DISTANCE] drawn_nodes
        # local copies stay in registers, since stores to nodes cannot alias them
        cdef Node* at = self.at
        cdef Node* node
        cdef Py_ssize_t n_others = self.nodes - 1, probes = self.probes
        cdef double min_speed = self.min_speed
        cdef bint is_uniform = not self.has_overlay, printed = self.printed
        cdef int pick = self.pick
        at[home].stamp = stamp
        if is_uniform:
            for k in range(PREFETCH_DISTANCE):
                drawn_nodes[k] = draw_other(&stream, n_others, home)
                prefetch(&at[drawn_nodes[k]])
            k = 0
        while steps < probes:
            if is_uniform:
                u = drawn_nodes[k]
                drawn_nodes[k] = draw_other(&stream, n_others, home)
                prefetch(&at[drawn_nodes[k]])
                k = (k + 1) % PREFETCH_DISTANCE
            else:
                previous = u
                u = self._neighbour(&stream, u)
                self._hop(previous, u)
            node = &at[u]
            if node.stamp == stamp:
                steps += not is_uniform
                continue
            steps += 1
            n_asked += 1
            node.stamp = stamp
            node.n_answers += 1
            if node.speed < min_speed:
                continue
            if pick == FASTEST:
                if node.speed > fastest and self._fits(u, latency, now):
                    fastest, best = node.speed, u
                continue
            wait = node.free - arrival
            turnaround = travel_time + (wait if wait > 0 else 0)
            if turnaround >= bound:
                continue
            if not printed:
                turnaround += run_time(work, node.speed)
                if turnaround >= bound:
                    continue
            if self._fits(u, latency, now):
                bound, best = turnaround, u
                if pick == FIRST:
                    break
        self.n_probes[job] = <int> steps
        self._count(home, steps, n_asked)
        return best

    # -- a search that takes time ---------------------------------------------------------------------------

    cdef int _begin(self, Py_ssize_t job, long long now) except -1:
        cdef Py_ssize_t steps = min(self.probes, FIRST_DRAWS) if self.pick == FIRST else self.probes
        cdef int slot = searches_new(&self.searches, steps)
        cdef Search* s = &self.searches.search[slot]
        s.job, s.steps_taken, s.best, s.best_free, s.last_node, s.last_free = job, 0, -1, 0, -1, 0
        self._draw(s)
        return self._probe(slot, now)

    cdef void _draw(self, Search* s) noexcept:
        """Draw the first steps of a search, which do not depend on the answers.

        They are drawn together, because other searches stamp nodes between two steps.
        """
        cdef unsigned long long stream = stream_seed(self.seed, s.job)
        cdef unsigned int stamp = <unsigned int> (s.job + 1)
        cdef Py_ssize_t home = self.home[s.job], u = home, n = 0
        self.at[home].stamp = stamp
        while n < s.steps:
            if not self.has_overlay:
                u = draw_other(&stream, self.nodes - 1, home)
                if self.at[u].stamp == stamp:
                    continue
            else:
                u = self._neighbour(&stream, u)
            s.step[n] = <int> (~u if self.at[u].stamp == stamp else u)
            self.at[u].stamp = stamp
            n += 1

    cdef int _draw_more(self, Search* s) except -1:
        """Draw twice as many steps, again from the first, since the state of the stream is not stored."""
        cdef Py_ssize_t k
        cdef int u
        for k in range(s.steps):
            u = node_of(s.step[k])
            if self.at[u].stamp == <unsigned int> (s.job + 1):
                self.at[u].stamp = 0
        k = min(2 * s.steps, self.probes)
        s.step = <int*> reallocate(s.step, k * sizeof(int))
        s.steps = k
        self._draw(s)
        return 0

    cdef int _probe(self, int slot, long long now) except -1:
        """Send the probe of the next step of a search."""
        cdef Search* s = &self.searches.search[slot]
        s.is_probing = True
        self._log_packet(PROBE, s.job, self._node_before(s), node_of(s.step[s.steps_taken]), now)
        return self._wait(slot, now + self.probe_time // 2)

    cdef Py_ssize_t _node_before(self, const Search* s) noexcept nogil:
        """Return the node that sends the probe of the next step: the home of the job, or the node before on a walk."""
        return self.home[s.job] if not self.has_overlay or not s.steps_taken else node_of(s.step[s.steps_taken - 1])

    cdef int _wait(self, int slot, long long time) except -1:
        self.searches.search[slot].time, self.searches.search[slot].sequence = time, self.sequence
        self.sequence += 1
        return pending_push(&self.steps, time, self.searches.search[slot].sequence, slot)

    cdef int _continue_search(self, int slot, long long now) except -1:
        """Handle the next event of a search: the arrival of a probe at a node, or of its answer."""
        cdef Search* s = &self.searches.search[slot]
        cdef Py_ssize_t job = s.job, home = self.home[job], u
        cdef long long latency = self._latency(job)
        if s.is_probing:
            u = node_of(s.step[s.steps_taken])
            s.last_node = -1
            if self.has_overlay:
                self._hop(self._node_before(s), u)
            if s.step[s.steps_taken] >= 0:
                self._log_packet(LOAD, job, u, home, now)
                self.at[u].n_answers += 1
                if self.at[u].speed >= self.min_speed and self._fits(u, latency, now):
                    s.last_node, s.last_free = <int> u, self.at[u].free
                if self.log.max_rows:
                    self._log_probe(job, u, now)
            self._count(home, 1, s.step[s.steps_taken] >= 0)
            s.steps_taken += 1
            self.n_probes[job] += 1
            s.is_probing = False
            return self._wait(slot, now + self.probe_time - self.probe_time // 2)
        if self.log.max_rows:
            self._log_answer(job, now)
        if s.last_node >= 0 and self._is_better(s, latency, now):
            s.best, s.best_free = s.last_node, s.last_free
        if s.steps_taken < self.probes and not (self.pick == FIRST and s.best >= 0):
            if s.steps_taken == s.steps:
                self._draw_more(s)
            return self._probe(slot, now)
        u = s.best
        if u >= 0 and self.pick == BEST and not (
                self._turnaround(job, u, s.best_free, latency, now) < self._at_home(job, home, now)):
            u = -1
        if u >= 0 and self.pick == FASTEST and not self.at[u].speed > self.at[home].speed:
            u = -1
        latency = s.best_free
        searches_drop(&self.searches, slot)
        if self.log.max_rows:
            self._log_end(job, home, u, latency if u >= 0 else -1, now)
        if u < 0:
            self._queue(job, home, now)
        else:
            self._move(job, home, u, latency, now)
        return self._free_dispatcher(home, now) if self.queued else 0

    cdef bint _is_better(self, const Search* s, long long latency, long long now) noexcept:
        """Return whether the last probed node is better than the best so far.

        With "first", the best so far is the home node; otherwise the first probed node counts as better.
        """
        cdef Py_ssize_t job = s.job
        cdef long long leaves = now + (self.probes - s.steps_taken) * self.probe_time  # when all nodes will have answered
        if self.pick == FIRST:
            return (self._turnaround(job, s.last_node, s.last_free, latency, now)
                    < self._at_home(job, self.home[job], now))
        if s.best < 0:
            return True
        if self.pick == FASTEST:
            return self.at[s.last_node].speed > self.at[s.best].speed
        return (self._turnaround(job, s.last_node, s.last_free, latency, leaves)
                < self._turnaround(job, s.best, s.best_free, latency, leaves))

    # -- comparing nodes ------------------------------------------------------------------------------------

    cdef inline long long _latency(self, Py_ssize_t job) noexcept nogil:
        return self.links.latency + llrint(self.data[job] / self.links.bandwidth * 1e9)

    cdef inline long long _at_home(self, Py_ssize_t job, Py_ssize_t home, long long now) noexcept nogil:
        cdef long long wait = max(<long long> 0, self.at[home].free - now)
        return wait if self.printed else wait + run_time(self.work[job], self.at[home].speed)

    cdef long long _turnaround(self, Py_ssize_t job, Py_ssize_t u, long long when_free, long long latency,
                               long long leaves) noexcept nogil:
        """Return the turnaround (ns) of a job that leaves for node `u` at `leaves`, if no other job arrives there.

        With `printed`, return waiting + latency instead.
        """
        cdef long long wait = max(<long long> 0, when_free - (leaves + latency))
        return wait + latency if self.printed else wait + run_time(self.work[job], self.at[u].speed) + 2 * latency

    cdef bint _fits(self, Py_ssize_t u, long long latency, long long now) noexcept nogil:
        """Return whether `rule` allows a job to move to `u`."""
        return self.rule == NO_RULE or self._verdict(u, latency, now) == FITS

    cdef int _verdict(self, Py_ssize_t u, long long latency, long long now) noexcept nogil:
        """Return `FITS`, or which jobs are likely to reach `u` meanwhile: `OWN_JOBS` or `OTHER_JOBS`."""
        cdef double seconds = latency / 1e9, elapsed_time = now / 1e9, expected_jobs = 0.0, probability
        if seconds > 0 and not isnan(self.at[u].rate):
            expected_jobs = self.at[u].rate * seconds
        elif seconds > 0 and self.own_jobs[u]:
            expected_jobs = INFINITY if elapsed_time == 0 else self.own_jobs[u] / elapsed_time * seconds / self.cores[u]
        if self.rule == AT_LEAST_ONE:
            probability = 1.0 - exp(-expected_jobs)
        else:
            probability = expected_jobs * exp(-expected_jobs) if expected_jobs < INFINITY else 0.0
        if not probability < self.local_threshold:
            return OWN_JOBS
        if self.remote[u] == 0 or self.remote_threshold == INFINITY:
            return FITS if self.remote_threshold > 0.0 else OTHER_JOBS
        if self.has_cores:
            elapsed_time *= self.cores[u]
        return FITS if self.remote[u] * seconds < self.remote_threshold * elapsed_time else OTHER_JOBS

    # -- the log --------------------------------------------------------------------------------------------

    cdef int _log_search(self, Py_ssize_t job, Py_ssize_t home, long long now) except -1:
        """Log a search that took no time by repeating its draws; clear the stamp of each logged node."""
        cdef unsigned long long stream = stream_seed(self.seed, job)
        cdef unsigned int stamp = <unsigned int> (job + 1)
        cdef Py_ssize_t steps = 0, u = home, previous
        cdef bint new
        while steps < self.n_probes[job]:
            previous = u
            if not self.has_overlay:
                u = draw_other(&stream, self.nodes - 1, home)
            else:
                u = self._neighbour(&stream, u)
            new = u != home and self.at[u].stamp == stamp
            if not self.has_overlay and not new:
                continue
            steps += 1
            self._log_packet(PROBE, job, home if not self.has_overlay else previous, u, now)
            if new:
                self._log_packet(LOAD, job, u, home, now)
                self.at[u].stamp = 0
                if self.log.max_rows:
                    self._log_probe(job, u, now)
                    self._log_answer(job, now)
        return 0

    cdef int _log_packet(self, int kind, Py_ssize_t job, Py_ssize_t sender, Py_ssize_t u, long long now) except -1:
        """Log a probe or an answer that node `sender` sends to node `u`, in the log of the links."""
        cdef Record record
        cdef long long half = self.probe_time // 2
        if not self.links.message_log.max_rows:
            return 0
        record.node, record.sender, record.job = u, sender, job
        self.links._log(self.number[kind], &record, now, now + (half if kind == PROBE else self.probe_time - half),
                        self.packet)
        return 0

    cdef int _log_probe(self, Py_ssize_t job, Py_ssize_t u, long long now) except -1:
        cdef ProbeRecord record
        record.job, record.node, record.asked, record.heard, record.free = job, u, now, -1, self.at[u].free
        record.home_free = record.true_free = -1
        record.verdict, record.count = FITS, 0
        if self.at[u].speed < self.min_speed:
            record.verdict = SLOW
        elif self.rule != NO_RULE:
            record.verdict = self._verdict(u, self._latency(job), now)
        if record.verdict == OWN_JOBS:
            record.count = self.own_jobs[u]
        elif record.verdict == OTHER_JOBS:
            record.count = self.remote[u]
        self.open_record[job] = probelog_add(&self.log, &record)
        return 0

    cdef void _log_answer(self, Py_ssize_t job, long long now) noexcept:
        cdef ProbeRecord* record
        if self.open_record[job] >= 0:
            record = &self.log.record[self.open_record[job]]
            record.heard, record.home_free, record.true_free = now, self.at[self.home[job]].free, self.at[record.node].free
            self.open_record[job] = -1

    cdef int _log_end(self, Py_ssize_t job, Py_ssize_t home, Py_ssize_t u, long long when_free,
                      long long now) except -1:
        """Log that the job moves to node `u`, which answered `when_free`, or stays (`u` is -1)."""
        cdef ProbeRecord record
        record.job, record.node, record.asked, record.heard, record.count = job, u, -1, now, 0
        record.verdict, record.free, record.home_free = MOVES if u >= 0 else STAYS, when_free, self.at[home].free
        record.true_free = self.at[u].free if u >= 0 else -1
        probelog_add(&self.log, &record)
        return 0

    # -- sending --------------------------------------------------------------------------------------------

    cdef int _move(self, Py_ssize_t job, Py_ssize_t home, Py_ssize_t u, long long when_free, long long now) except -1:
        self.remote[u] += 1
        self.machine[job] = <int> u
        self.predicted[job] = max(<long long> 0, when_free - (now + self._latency(job)))
        return self._send(JOB, home, u, job, now)

    cdef int _send(self, int kind, long long sender, long long node, long long job, long long now) except -1:
        cdef Record record
        record.node, record.sender, record.job = node, sender, job
        return self.links._send(now, self.number[kind], &record, self.data[job],
                                llrint(self.data[job] / self.links.bandwidth * 1e9))

    cdef void _count(self, Py_ssize_t home, Py_ssize_t probes, Py_ssize_t loads) noexcept:
        """Count `probes` packets sent by `home` and `loads` answers to it; `settle` counts them at the other nodes."""
        self._count_packets(PROBE, probes)
        self._count_packets(LOAD, loads)
        if not self.has_overlay:
            self.links.host[home].bytes_out += probes * self.packet
        self.links.host[home].bytes_in += loads * self.packet

    cdef void _count_packets(self, int kind, Py_ssize_t n) noexcept:
        cdef int number = self.number[kind]
        self.links._sent[number] += n
        self.links._delivered[number] += n
        self.links._traffic[number] += n * self.packet
        self.links._by_level[0, number, 0] += n
        self.links._by_level[1, number, 0] += n * self.packet

    cdef void _hop(self, Py_ssize_t previous, Py_ssize_t u) noexcept:
        """Count the packet of a probe from node `previous` to its neighbour `u`."""
        self.links.host[previous].bytes_out += self.packet
        self.links.host[u].bytes_in += self.packet

    def settle(self):
        """Add the packets of probed nodes to the counts of the links, which already include all other packets."""
        cdef _Guard access = self._guard()
        cdef Py_ssize_t u
        for u in range(self.nodes):
            self.links.host[u].bytes_out += self.at[u].n_answers * self.packet
            if not self.has_overlay:
                self.links.host[u].bytes_in += self.at[u].n_answers * self.packet
            self.at[u].n_answers = 0

    # -- first come, first served ---------------------------------------------------------------------------

    cdef int _queue(self, Py_ssize_t job, Py_ssize_t u, long long now) except -1:
        cdef Node* node = &self.at[u]
        cdef long long start = max(now, node.free), end = start + run_time(self.work[job], node.speed)
        if self.start[job] >= 0:  # a state from a file may list a job twice, which would make a cycle
            raise ValueError(f"state must have job {job} in one queue at most, got two")
        if end > LATEST:
            raise OverflowError(f"jobs of node {u} must end by {LATEST} ns, got {end}")
        self.machine[job], self.arrived[job], self.start[job], self.end[job] = <int> u, now, start, end
        node.free = self._take_core(u, end) if self.has_cores else end
        self.busy_time[u] += end - start
        self.done[u] += 1
        while self.head[u] >= 0 and self.start[self.head[u]] <= now:
            self.head[u] = self.next_waiting[self.head[u]]
            self.waiting[u] -= 1
        if start > now:
            self._append(job, u)
            self.peak[u] = max(self.peak[u], <long long> self.waiting[u])
        if self.queued or u != self.home[job]:
            return pending_push(&self.ending, end, job, <int> job)
        self.return_time[job] = end
        return 0

    cdef long long _take_core(self, Py_ssize_t u, long long end) noexcept nogil:
        """Let the core of `u` that is free first be free at `end`, and return when a core is free then."""
        cdef long long* heap = &self.core_free[self.first_core[u]]
        cdef Py_ssize_t n = self.cores[u], k = 0, child = 1
        while child < n:
            if child + 1 < n and heap[child + 1] < heap[child]:
                child += 1
            if heap[child] >= end:
                break
            heap[k] = heap[child]
            k, child = child, 2 * child + 1
        heap[k] = end
        return heap[0]

    cdef void _append(self, Py_ssize_t job, Py_ssize_t u) noexcept:
        self.next_waiting[job] = -1
        if self.head[u] < 0:
            self.head[u] = <int> job
        else:
            self.next_waiting[self.tail[u]] = <int> job
        self.tail[u] = <int> job
        self.waiting[u] += 1

    # -- reports --------------------------------------------------------------------------------------------

    def jobs(self) -> dict[str, NDArray[Any]]:
        """Return columns by job: machine, probes (int32); arrived, start, end, returned, predicted (int64 ns).

        probes: the number of probed nodes, or of steps of a walk.  predicted: the expected wait at the node to which
        the job moved, -1 if it stayed.  The arrays are the memory of the kernel.
        """
        cdef _Guard access = self._guard()
        return dict(self._jobs)

    def probe_rows(self) -> dict[str, Integers]:
        """Return the log in order, with the int64 columns `gridcore.random_walk.state.PROBE_COLUMNS`."""
        cdef _Guard access = self._guard()
        rows = np.empty((self.log.n, PROBE_FIELDS), np.int64)
        probelog_copy(&self.log, rows)
        return {name: rows[:, k].copy() for k, name in enumerate(PROBE_COLUMNS)}

    @property
    def unlogged(self) -> int:
        """The number of rows that did not fit into the log."""
        return self.log.n_unlogged

    def totals(self) -> dict[str, Integers]:
        """Return totals by node, int64[nodes] each.

        busy (ns); done; own, jobs released there; remote, jobs sent there; peak, the most jobs that waited at a time.
        """
        cdef _Guard access = self._guard()
        return {name: column.copy() for name, column in self._totals.items()}

    # -- checkpoints ----------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since construction, as described in `gridcore.common.state`.

        The links have a state of their own.
        """
        cdef _Guard access = self._guard()
        cdef Py_ssize_t k, n
        cdef Search* s
        free_at = np.array(self.core_free) if self.has_cores else np.empty(self.nodes, np.int64)
        n_answers = np.empty(self.nodes, np.uint32)
        cdef long long[::1] to_free = free_at
        cdef unsigned int[::1] to_answered = n_answers
        for k in range(self.nodes):
            to_answered[k] = self.at[k].n_answers
            if not self.has_cores:
                to_free[k] = self.at[k].free
        free_at = self._sort_cores(free_at)
        rows = np.empty((pending_count(&self.ending), 3), np.int64)
        pending_read(&self.ending, rows)
        events = np.empty((pending_count(&self.steps), 3), np.int64)
        pending_read(&self.steps, events)
        searches, steps = np.empty((len(events), FIELDS), np.int64), []
        cdef long long[:, ::1] out = searches
        for n, k in enumerate(events[np.argsort(events[:, 1]), 2].tolist()):
            s = &self.searches.search[k]
            out[n, 0], out[n, 1], out[n, 2] = s.job, s.time, s.sequence
            out[n, 3], out[n, 4] = s.is_probing, s.steps_taken
            out[n, 5], out[n, 6] = s.last_node, s.last_free
            out[n, 7], out[n, 8], out[n, 9] = s.best, s.best_free, s.steps
            steps.append(np.asarray(<int[:s.steps]> s.step).astype(np.int64))
        waiting = []
        for k in range(self.first.shape[0]):
            n = self.first[k]
            while n >= 0:
                waiting.append(n)
                n = self.next_in_line[n]
        log = {}
        if self.log.max_rows:
            log = {"probe_rows": np.empty((self.log.n, PROBE_FIELDS), np.int64), "unlogged": self.log.n_unlogged}
            probelog_copy(&self.log, log["probe_rows"])
        return read_only({
            **log, **self._jobs, **self._totals, "free": free_at, "answered": n_answers, "now": self.now, "next": self.next,
            "sequence": self.sequence, "ending": rows[np.argsort(rows[:, 1])][:, :2], "searches": searches,
            "steps": np.concatenate([np.zeros(0, np.int64), *steps]), "dispatchers": np.array(waiting, np.int64),
        })

    def setstate(self, state: dict[str, Any]):
        """Restore a state of `getstate` of a kernel with the same arguments.

        Raises
        ------
        ValueError
            If the state is invalid.
        """
        cdef _Guard access = self._guard()
        cdef Py_ssize_t k, j, n
        cdef int slot
        cdef Search* s
        entries = read(state, self.nodes, self.first_core[self.nodes], self.count, 0 if self.is_alone else self.probes,
                       self.log.max_rows)
        self._forget()
        for columns in (self._jobs, self._totals):
            for name, column in columns.items():
                column[:] = entries[name]
        cdef const long long[::1] free_at = self._sort_cores(entries["free"])
        cdef const long long[::1] steps = entries["steps"], waiting = entries["waiting"]
        cdef const unsigned int[::1] n_answers = entries["answered"]
        for k in range(self.nodes):
            self.at[k].free, self.at[k].n_answers, self.at[k].stamp = free_at[self.first_core[k]], n_answers[k], 0
            self.head[k], self.waiting[k] = -1, 0
        if self.has_cores:
            self.core_free[:] = free_at
        self.now, self.next, self.sequence = entries["now"], entries["next"], entries["sequence"]
        for k in range(waiting.shape[0]):
            self._append(waiting[k], self.machine[waiting[k]])
        for time, job in entries["ending"].tolist():
            pending_push(&self.ending, time, job, job)
        cdef const long long[:, ::1] row = entries["searches"]
        n = 0
        for k in range(row.shape[0]):
            slot = searches_new(&self.searches, row[k, 9])
            s = &self.searches.search[slot]
            s.job, s.time, s.sequence = row[k, 0], row[k, 1], row[k, 2]
            s.is_probing, s.steps_taken = row[k, 3], row[k, 4]
            s.last_node, s.last_free, s.best, s.best_free = <int> row[k, 5], row[k, 6], <int> row[k, 7], row[k, 8]
            for j in range(s.steps):
                s.step[j] = <int> steps[n + j]
            n += s.steps
            pending_push(&self.steps, s.time, s.sequence, slot)
            if self.queued:
                self.searching_job[self.home[s.job]] = <int> s.job
        cdef const long long[::1] line = entries["dispatchers"]
        for k in range(line.shape[0] if self.queued else 0):
            j = line[k]
            self._join_line(j, self.home[j] if self.machine[j] < 0 else self.machine[j])
        if self.log.max_rows:
            self.log.n_unlogged = entries["unlogged"]
            probelog_fill(&self.log, entries["probe_rows"])
            self.open_record[:] = -1
            for k in range(self.log.n):
                if self.log.record[k].heard < 0 <= self.log.record[k].node:
                    self.open_record[self.log.record[k].job] = k

    cdef object _sort_cores(self, free_at):
        """Return `free_at`, int64[cores], sorted for each node, which makes it a heap."""
        return free_at[np.lexsort((free_at, np.repeat(np.arange(self.nodes), self.cores)))]

    cdef void _forget(self) noexcept:
        """Drop the running jobs, the searches and the queues of the dispatchers."""
        cdef int slot
        pending_clear(&self.ending)
        while pending_first(&self.steps) != NULL:
            slot = pending_pop(&self.steps).slot
            searches_drop(&self.searches, slot)
        self.searching_job[:] = -1
        self.first[:] = -1
        self.next_in_line[:] = NOWHERE


cdef inline int node_of(int step) noexcept nogil:
    """Return the node of a step of a search, which is ~node if that was probed before."""
    return step if step >= 0 else ~step


cdef inline long long first_of(const Pending* events) noexcept nogil:
    cdef const Event* first = pending_first(events)
    return NEVER if first == NULL else first.time
