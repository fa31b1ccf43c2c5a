"""Four decentralized methods to search for idle hosts.

After D. Zhou and V. Lo, "Cluster Computing on the Fly: resource discovery in a cycle sharing peer-to-peer
system" (CCGrid 2004).  The node programs are in `gridsim.schedulers.search.node` and
`gridsim.schedulers.search.rendezvous`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.search.node import (
    COMMON_MESSAGES,
    COMMON_TIMERS,
    TABLES,
    TRUTHS,
    WORDS,
    AdvertisingNode,
    RingNode,
    WalkNode,
    control_message,
)
from gridsim.schedulers.search.rendezvous import RendezvousNode
from gridsim.scheduling.contract import TaskCost
from gridsim.scheduling.nodes.adapter import Message, NodeProgram, NodeScheduler
from gridsim.scheduling.nodes.ground_truth import TruthOf
from gridsim.support.parameters import AnswerWait, Limits

#: Size of the description of a machine, bytes.
PROFILE = 256

_Time = Annotated[float, Limits(above=0, unit="s")]
_Count = Annotated[int, Limits(low=1)]


class SearchScheduler(NodeScheduler, frozen=True, kw_only=True):
    """Base class of the four methods to search for idle hosts, with their common parameters.

    Parameters
    ----------
    degree
        Number of machines that a machine knows when it joins; links are mutual, so a machine has twice as
        many neighbours on average.
    hop_time
        Time that a client allows for each hop of a message before it stops waiting for an answer, s.
    retry
        First pause after a search that did not find enough hosts, s.
    promise
        Time for which a host waits for a task after an offer, s.
    """

    task_cost: ClassVar[TaskCost] = TaskCost(memory=96, time=2e-5)
    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    tables: ClassVar[Mapping[str, Mapping[str, type]]] = TABLES
    decision_words: ClassVar[DecisionTexts] = WORDS
    truths: ClassVar[Mapping[str, TruthOf]] = TRUTHS
    timers: ClassVar[tuple[str, ...]] = COMMON_TIMERS

    degree: _Count = 4
    hop_time: Annotated[_Time, AnswerWait("searches end before their answers arrive", messages=1)] = 0.2
    retry: _Time = 30.0
    promise: _Time = 30.0


class ExpandingRing(SearchScheduler, frozen=True, kw_only=True):
    """Expanding ring (Zhou and Lo 2004): clients ask all machines within one hop, then within two, and so on.

    Parameters
    ----------
    max_hops
        Radius of the largest ring, in hops.
    """

    name: ClassVar[str] = "expanding-ring"
    policy: ClassVar[type[NodeProgram]] = RingNode
    messages: ClassVar[Mapping[str, Message]] = {
        **COMMON_MESSAGES,
        "query": control_message(origin=int, number=int, hops=int),
    }

    max_hops: _Count = 3


class RandomWalkSearch(SearchScheduler, frozen=True, kw_only=True):
    """Random walk search (Zhou and Lo 2004): walkers visit neighbours in search of idle hosts.

    Parameters
    ----------
    walkers
        Maximum number of walkers per round.
    steps
        Number of machines that each walker visits.
    """

    name: ClassVar[str] = "random-walk-search"
    policy: ClassVar[type[NodeProgram]] = WalkNode
    messages: ClassVar[Mapping[str, Message]] = {
        **COMMON_MESSAGES,
        "walk": control_message(client=int, wanted=int, steps=int),
    }

    walkers: _Count = 4
    steps: _Count = 16


class Advertisement(SearchScheduler, frozen=True, kw_only=True):
    """Advertisement (Zhou and Lo 2004): clients ask machines that advertised themselves when they joined.

    Parameters
    ----------
    scope
        Number of hops within which a machine advertises itself.
    """

    name: ClassVar[str] = "advertisement"
    policy: ClassVar[type[NodeProgram]] = AdvertisingNode
    messages: ClassVar[Mapping[str, Message]] = {
        **COMMON_MESSAGES,
        "profile": Message(PROFILE, origin=int, number=int, hops=int),
        "ask": control_message(client=int),
    }

    scope: _Count = 2


class Rendezvous(SearchScheduler, frozen=True, kw_only=True):
    """Rendezvous points (Zhou and Lo 2004): clients ask the points at which free hosts register.

    Parameters
    ----------
    share
        Probability that a machine becomes a point when it joins.
    scope
        Number of hops within which a point announces itself.
    pick
        Which hosts a point chooses: those longest on its list, or random ones.
    refresh
        Time after which a host that is still free registers again, s; inf for never (if no point fails).
    """

    name: ClassVar[str] = "rendezvous"
    policy: ClassVar[type[NodeProgram]] = RendezvousNode
    messages: ClassVar[Mapping[str, Message]] = {
        **COMMON_MESSAGES,
        "beacon": control_message(origin=int, number=int, hops=int),
        "where": control_message(),
        "known": control_message(point=int, hops=int),
        "advert": Message(PROFILE),
        "noted": control_message(),
        "lookup": control_message(wanted=int),
        "told": control_message(hosts=int),
        "ask": control_message(client=int),
    }
    timers: ClassVar[tuple[str, ...]] = (*COMMON_TIMERS, "noted", "refresh")

    share: Annotated[float, Limits(low=0, high=1)] = 0.03
    scope: _Count = 3
    pick: Literal["longest", "random"] = "longest"
    refresh: Annotated[float, Limits(above=0, unit="s", finite=False)] = 3600.0
