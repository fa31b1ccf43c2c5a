"""Closed forms and limits of queueing theory, as pure functions.

Unless stated otherwise, the mean service time is the unit of time, and `load` is the arrival rate per server,
that is, the share of time for which a server is busy.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from gridsim.support.arrays import Floats

# -- a single server ------------------------------------------------------------------------------------


def mg1_wait(load: float, second_moment: float) -> float:
    """Return the mean wait in an M/G/1 queue (Pollaczek-Khinchine formula).

    Parameters
    ----------
    load
        Arrival rate, below 1.
    second_moment
        Second moment of the service time, whose mean is 1; it is 2 for exponential service.

    References
    ----------
    L. Kleinrock, Queueing Systems, volume 1, Wiley 1975, section 5.6.

    Examples
    --------
    >>> mg1_wait(0.5, 2.0)
    1.0
    """
    return load * second_moment / (2 * (1 - load))


def mg1_squared_wait(load: float, second_moment: float, third_moment: float) -> float:
    """Return the mean square of the wait in an M/G/1 queue, first come first served (Takács).

    Unlike the mean, it depends on the order of service; it is larger for last come first served.

    Parameters
    ----------
    load, second_moment
        As for `mg1_wait`.
    third_moment
        Third moment of the service time; it is 6 for exponential service.

    References
    ----------
    L. Takács, A single-server queue with Poisson input, Operations Research 10 (1962) 388-394.
    """
    return 2 * mg1_wait(load, second_moment) ** 2 + load * third_moment / (3 * (1 - load))


def lognormal_moments(deviation: float) -> tuple[float, float]:
    """Return the second and third moments of a lognormal variable of mean 1.

    Parameters
    ----------
    deviation
        Standard deviation of its logarithm.
    """
    return math.exp(deviation**2), math.exp(3 * deviation**2)


# -- several servers with one queue -----------------------------------------------------------------------


def erlang_c(servers: int, load: float) -> float:
    """Return the probability that a job waits in an M/M/c queue (Erlang C).

    It is computed from the Erlang B formula by recursion over the number of servers.

    References
    ----------
    L. Kleinrock, Queueing Systems, volume 1, Wiley 1975, section 3.5.

    Examples
    --------
    >>> round(erlang_c(2, 0.5), 12)  # 1/3
    0.333333333333
    """
    offered, blocked = servers * load, 1.0
    for k in range(1, servers + 1):
        blocked = offered * blocked / (k + offered * blocked)
    return blocked / (1 - load * (1 - blocked))


def mmc_wait(servers: int, load: float) -> float:
    """Return the mean wait in an M/M/c queue; waiting jobs wait for 1 / (c (1 - load)) on average."""
    return erlang_c(servers, load) / (servers * (1 - load))


# -- power of d choices -----------------------------------------------------------------------------------


def supermarket(load: float, choices: int, servers: float = math.inf) -> float:
    """Return the mean response time if each job joins the shortest of d random queues.

    In the limit of many servers, the share of servers with at least k jobs is
    ``load ** ((d**k - 1) / (d - 1))``, and the response time is the sum over i >= 1 of
    ``load ** ((d**i - d) / (d - 1))``.  For N servers it is corrected by V / N; the remaining error is of the
    order of 1 / N^2.

    Parameters
    ----------
    load
        Arrival rate per server, below 1.
    choices
        Number d of servers that are sampled with replacement, at least 2.
    servers
        Number N of servers; infinite for the limit.

    Notes
    -----
    The vector x of these shares is a density-dependent Markov chain with the drift
    ``f_k = load (x[k-1]^d - x[k]^d) - (x[k] - x[k+1])``.  With its Jacobian A and the covariance of its jumps
    Q at the fixed point, the covariance W / N of its fluctuations solves ``A W + W A' + Q = 0``.  The second
    derivatives of the drift turn these fluctuations into a shift of the mean, V / N, with
    ``A V + (f'' : W) / 2 = 0``.

    References
    ----------
    M. Mitzenmacher, The power of two choices in randomized load balancing, IEEE TPDS 12 (2001) 1094-1104.
    N. Gast and B. Van Houdt, A refined mean field approximation, Proc. ACM SIGMETRICS 1 (2017) 33.

    Examples
    --------
    >>> [round(supermarket(load, 2), 4) for load in (0.9, 0.95, 0.99)]
    [2.6141, 3.383, 5.432]
    >>> round(supermarket(0.9, 2, servers=1000), 4)
    2.6185
    """
    share = _shares(load, choices)
    shift = 0.0 if math.isinf(servers) else float(_shift(load, choices).sum()) / servers
    return (float(share.sum()) + shift) / load


def _shares(load: float, choices: int) -> Floats:
    """Return the shares of servers with at least 1, 2, ... jobs, down to 1e-16."""
    share = [load ** ((choices**k - 1) // (choices - 1)) for k in range(1, 64)]
    return np.array([x for x in share if x > 1e-16])


def _shift(load: float, d: int) -> Floats:
    """Return the vector V of `supermarket`, the shift of each share times the number of servers."""
    x = _shares(load, d)
    count = len(x)
    slope = load * d * x ** (d - 1)
    jacobian = np.diag(-slope - 1) + np.diag(np.ones(count - 1), 1) + np.diag(slope[:-1], -1)
    # at the fixed point, the rates into and out of a share are equal
    jumps = 2 * (x - np.append(x[1:], 0.0))
    identity = np.eye(count)
    kronecker_sum = np.kron(jacobian, identity) + np.kron(identity, jacobian)
    covariance = np.linalg.solve(kronecker_sum, -np.diag(jumps).ravel()).reshape(count, count)
    curvature = load * d * (d - 1) * x ** (d - 2) * np.diag(covariance) / 2
    shift: Floats = np.linalg.solve(jacobian, curvature - np.append(0.0, curvature[:-1]))
    return shift


# -- join idle queue --------------------------------------------------------------------------------------


def join_idle_queue_approximation(load: float, per_dispatcher: float) -> float:
    """Return the mean response time of JIQ-Random by the closed form of Lu et al., exponential service.

    Idle servers report to random dispatchers, with `per_dispatcher` servers per dispatcher.  A job goes to a
    server with a report at its dispatcher, or to a random server if there is none.  Reports arrive and are
    used in Poisson processes, so that their number is that of an M/M/1 queue of some load p.  If exactly the
    idle servers have an unused report, the mean p / (1 - p) is ``per_dispatcher (1 - load)``.  A share 1 - p
    of the jobs go to random servers.  A busy server only receives such jobs, at the rate ``s = load (1 -
    p)``, so that its number of jobs while it is busy is that of an M/M/1 queue of load s, with the mean 1 /
    (1 - s).  By Little's law this is the mean response time.

    A random job may go to an idle server, whose report remains.  The closed form ignores this, unlike
    `join_idle_queue`.

    References
    ----------
    Y. Lu et al., Join-Idle-Queue: a novel load balancing algorithm for dynamically scalable web services,
    Performance Evaluation 68 (2011) 1056-1071.
    """
    p = (idle := per_dispatcher * (1 - load)) / (1 + idle)
    return 1 / (1 - load * (1 - p))


@cache
def join_idle_queue(load: float, per_dispatcher: float) -> tuple[float, float]:
    """Return the mean response time of JIQ-Random, and the share of jobs that wait, for many dispatchers.

    Each server that becomes idle reports once, and dispatchers use reports in order of arrival, even if their
    servers are busy again.  In the limit of many dispatchers:

    - The reports at a dispatcher are an M/M/1 queue of load p, first come first served.  Hence the times from
      report to use are independent and exponential, of rate ``u = per_dispatcher load (1 - p)``.
    - A server with q jobs and j unused reports is a Markov chain: a job ends at rate 1, and if it was the
      last, j grows by 1; a random job comes at rate ``load (1 - p)``, and one by a report at rate ``j u``,
      which uses it.
    - Servers become idle at the rate at which reports are used, so ``P(q = 1) = load p``, which gives p.

    Parameters
    ----------
    load
        Arrival rate per server, at most 0.95.
    per_dispatcher
        Servers per dispatcher, at least 1; with fewer, reports accumulate.

    Notes
    -----
    The chain is truncated at 150 jobs and 16 reports, and p is computed by bisection.

    References
    ----------
    M. Mitzenmacher, Analyzing distributed Join-Idle-Queue: a fluid limit approach, Allerton 2016, for the
    same limit by differential equations.
    """
    low, high = 0.0, 1.0
    for _ in range(32):
        p = (low + high) / 2
        random_rate, use_rate = load * (1 - p), per_dispatcher * load * (1 - p)
        share = _server_distribution(random_rate, use_rate)
        low, high = (p, high) if share[1].sum() > load * p else (low, p)
    immediate_rate = random_rate * share[0].sum() + use_rate * (np.arange(share.shape[1]) @ share[0])
    return float(np.arange(len(share)) @ share.sum(1)) / load, 1 - float(immediate_rate) / load


def _server_distribution(random_rate: float, use_rate: float, jobs: int = 150, reports: int = 16) -> Floats:
    """Return the stationary distribution of the chain of `join_idle_queue`, float64[jobs, reports].

    The distribution of reports with q + 1 jobs is the one with q jobs, times a matrix R.  From the highest q
    down, ``R = up (-(local + R' down))^-1``, where R' is the matrix of q + 1.
    """
    identity, unused = np.eye(reports), np.arange(reports)
    up = random_rate * identity + use_rate * np.diag(unused[1:], -1)
    local = -np.diag(up.sum(1))
    step, steps = np.zeros_like(identity), []
    for _ in range(jobs - 1):
        step = -up @ np.linalg.inv(local - identity + step)
        steps.append(step)
    report = np.diag(np.ones(reports - 1), 1)  # the end of the last job adds a report
    report[-1, -1] = 1.0
    balance = (local + step @ report).T
    balance[0] = 1.0
    share = [np.linalg.solve(balance, identity[0])]
    for step in reversed(steps):
        share.append(share[-1] @ step)
    distribution = np.array(share)
    distribution /= distribution.sum()
    return distribution


# -- machines that fail -----------------------------------------------------------------------------------


def availability(up: float, down: float) -> float:
    """Return the share of time for which a machine is up, from its mean up and down times."""
    return up / (up + down)


def completion_rate(length: float, up: float, down: float) -> float:
    """Return the number of tasks that a machine completes per unit of time, if failures interrupt tasks.

    An exponential up time of mean `up` lasts for k tasks with probability ``exp(-k length / up)``, so that on
    average ``1 / (exp(length / up) - 1)`` tasks are completed in it.  The mean cycle is ``up + down``.
    """
    return 1 / math.expm1(length / up) / (up + down)
