"""`Market`: an incentive-based market of machines.

L. Xiao, Y. Zhu, L. M. Ni and Z. Xu, "GridIS: an incentive-based grid scheduling", IPDPS 2005, and
"Incentive-based scheduling for market-like computational grids", IEEE TPDS 19 (2008).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.market.node import MarketNode
from gridsim.scheduling.contract import NodeForm
from gridsim.scheduling.nodes.adapter import Message, NodeProgram, NodeScheduler
from gridsim.scheduling.nodes.ground_truth import Truth
from gridsim.support.parameters import Limits

_Share = Annotated[float, Limits(low=0, high=1)]


def price_of(truth: Truth, node: int, machine: int) -> float:
    """Return what a Mflop costs at a machine now."""
    return float(truth.memory(machine).price)  # type: ignore[attr-defined]


class Market(NodeScheduler, frozen=True, kw_only=True):
    """A market (after GridIS, Xiao et al. 2005): machines bid for tasks, and pay a penalty for late ones.

    A machine announces the tasks that are submitted to it, with a deadline, to random machines.  These bid:
    for how many tasks they have room before the deadline, and at what price.  The cheapest get the tasks.  A
    machine that gets tasks raises its price, and one that had room and gets none lowers it.

    Table ``payments`` has a row for each task that was bought: its machine, what that got, and whether the
    task was late.

    Parameters
    ----------
    ask_ratio
        Machines that are asked, for each task; at most all.
    patience
        S until a call for bids is closed, if bids are missing.
    rounds
        Calls for bids for the same tasks.  What then has no place goes to the bidder with the least work.
    slack
        The deadline of a task is this many times what it takes at `reference_speed`, after its release.
    reference_speed
        Mflop/s, see `slack`.
    competition
        Share of the time that a machine has offered to others, who have not decided, that it offers again:
        with 1 it bids as if nobody else would accept, with 0 it never promises the same time twice.
    step
        Relative change of a price when a machine gets tasks or is declined.
    cost
        Lowest price of a Mflop, without unit; machines begin with 1.
    penalty
        Share of the price that a machine loses for a task that ends after its deadline; above 1 it pays.
    """

    name: ClassVar[str] = "market"
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("interpreted",)
    policy: ClassVar[type[NodeProgram]] = MarketNode
    local_order: ClassVar = "fifo"
    timers: ClassVar[tuple[str, ...]] = ("closed",)
    messages: ClassVar[Mapping[str, Message]] = {
        # in this order: what a call has decided leaves, and is handled, before the next call for the rest
        "award": Message(170, moves_tasks=True, application=int, tasks=int, call=int, deadline=float),
        "decline": Message(64, call=int),
        "announce": Message(96, application=int, call=int, tasks=int, deadline=float),
        "bid": Message(88, call=int, room=int, price=float, work=float),
    }
    tables: ClassVar = {"payments": {"machine": int, "application": int, "late": int, "paid": float}}
    decision_words: ClassVar[DecisionTexts] = {
        "awarded": ("bought time for {tasks} tasks from machine {machine}", "a price of", "a Mflop"),
        "kept": ("kept {tasks} tasks, as nobody had answered", "", ""),
    }
    truths: ClassVar = {"awarded": price_of}

    degree: Annotated[int, Limits(low=0)] = 0
    ask_ratio: Annotated[float, Limits(above=0)] = 2.0
    patience: Annotated[float, Limits(above=0, unit="s")] = 5.0
    rounds: Annotated[int, Limits(low=1)] = 3
    slack: Annotated[float, Limits(above=0)] = 10.0
    reference_speed: Annotated[float, Limits(above=0, unit="Mflop/s")] = 1000.0
    competition: _Share = 0.5
    step: Annotated[float, Limits(low=0)] = 0.05
    cost: _Share = 0.1
    penalty: Annotated[float, Limits(low=0)] = 0.5
