"""Four methods to search for idle hosts without a node that knows all of them.

After D. Zhou and V. Lo, "Cluster Computing on the Fly: resource discovery in a cycle sharing peer-to-peer
system" (CCGrid 2004).  Nodes are in `gridsim.schedulers.search.node` and
`gridsim.schedulers.search.rendezvous`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.search.node import (
    COMMON,
    COMMON_TIMERS,
    TABLES,
    TRUTHS,
    WORDS,
    AdvertisingNode,
    RingNode,
    WalkNode,
    small,
)
from gridsim.schedulers.search.rendezvous import RendezvousNode
from gridsim.scheduling.nodes.adapter import Message, NodeProgram, NodeScheduler
from gridsim.scheduling.nodes.ground_truth import TruthOf
from gridsim.support.parameters import Limits

#: Size of a machine's description, bytes.
PROFILE = 256

_Time = Annotated[float, Limits(above=0, unit="s")]
_Count = Annotated[int, Limits(low=1)]


class Search(NodeScheduler, frozen=True, kw_only=True):
    """Base class of the four methods, with their common parameters.

    Raises ScenarioError for parameters that are out of range.

    Parameters
    ----------
    degree
        Other machines that a machine knows when it joins; links are mutual, so that it has twice as many
        neighbours on average.
    hop_time
        s that a client allows for each hop of a message, before it stops waiting for an answer.
    retry
        s of the first pause after a search that did not find enough.
    promise
        S for which a host waits for a task after it has offered itself.
    """

    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    tables: ClassVar[Mapping[str, Mapping[str, type]]] = TABLES
    decision_words: ClassVar[DecisionTexts] = WORDS
    truths: ClassVar[Mapping[str, TruthOf]] = TRUTHS
    timers: ClassVar[tuple[str, ...]] = COMMON_TIMERS

    degree: _Count = 4
    hop_time: _Time = 0.2
    retry: _Time = 30.0
    promise: _Time = 30.0


class ExpandingRing(Search, frozen=True, kw_only=True):
    """Expanding ring (Zhou and Lo 2004): ask all machines within one hop, then within two, and so on.

    Parameters
    ----------
    max_hops
        Hops of the last ring.
    """

    name: ClassVar[str] = "expanding-ring"
    policy: ClassVar[type[NodeProgram]] = RingNode
    messages: ClassVar[Mapping[str, Message]] = {**COMMON, "query": small(origin=int, number=int, hops=int)}

    max_hops: _Count = 3


class RandomWalkSearch(Search, frozen=True, kw_only=True):
    """Random walk search (Zhou and Lo 2004): walkers look for idle hosts, from neighbour to neighbour.

    Parameters
    ----------
    walkers
        Walkers that are sent at a time, at most.
    steps
        Machines that each of them visits.
    """

    name: ClassVar[str] = "random-walk-search"
    policy: ClassVar[type[NodeProgram]] = WalkNode
    messages: ClassVar[Mapping[str, Message]] = {**COMMON, "walk": small(client=int, wanted=int, steps=int)}

    walkers: _Count = 4
    steps: _Count = 16


class Advertisement(Search, frozen=True, kw_only=True):
    """Advertisement (Zhou and Lo 2004): ask the machines that advertised themselves when they joined.

    Parameters
    ----------
    scope
        Hops within which a machine advertises itself.
    """

    name: ClassVar[str] = "advertisement"
    policy: ClassVar[type[NodeProgram]] = AdvertisingNode
    messages: ClassVar[Mapping[str, Message]] = {
        **COMMON,
        "profile": Message(PROFILE, origin=int, number=int, hops=int),
        "ask": small(client=int),
    }

    scope: _Count = 2


class Rendezvous(Search, frozen=True, kw_only=True):
    """Rendezvous points (Zhou and Lo 2004): ask the points at which free hosts register.

    Parameters
    ----------
    share
        Probability with which a machine that joins becomes a point.
    scope
        Hops within which a point makes itself known.
    pick
        Which hosts a point names: those that have been on its list the longest, or random ones.
    refresh
        S after which a host that is still free registers again; inf for never, if points do not fail.
    """

    name: ClassVar[str] = "rendezvous"
    policy: ClassVar[type[NodeProgram]] = RendezvousNode
    messages: ClassVar[Mapping[str, Message]] = {
        **COMMON,
        "beacon": small(origin=int, number=int, hops=int),
        "where": small(),
        "known": small(point=int, hops=int),
        "advert": Message(PROFILE),
        "noted": small(),
        "lookup": small(wanted=int),
        "told": small(hosts=int),
        "ask": small(client=int),
    }
    timers: ClassVar[tuple[str, ...]] = (*COMMON_TIMERS, "noted", "refresh")

    share: Annotated[float, Limits(low=0, high=1)] = 0.03
    scope: _Count = 3
    pick: Literal["longest", "random"] = "longest"
    refresh: Annotated[float, Limits(above=0, unit="s", finite=False)] = 3600.0
