"""`Market`: an incentive-based market of machines.

L. Xiao, Y. Zhu, L. M. Ni and Z. Xu, "GridIS: an incentive-based grid scheduling", IPDPS 2005, and
"Incentive-based scheduling for market-like computational grids", IEEE TPDS 19 (2008).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.market.node import MarketNode
from gridsim.scheduling.contract import DecisionVerb, NodeForm, TaskCost
from gridsim.scheduling.nodes.adapter import Message, NodeProgram, NodeScheduler
from gridsim.scheduling.nodes.ground_truth import Truth
from gridsim.support.parameters import AnswerWait, Limits

_Share = Annotated[float, Limits(low=0, high=1)]


def price_of(truth: Truth, node: int, machine: int) -> float:
    """Return the current price per Mflop at a machine."""
    return float(truth.memory(machine).price)  # type: ignore[attr-defined]


class Market(NodeScheduler, frozen=True, kw_only=True):
    """A market (after GridIS, Xiao et al. 2005): machines bid for tasks, and pay a penalty for late ones.

    A machine announces the tasks submitted at it, with a deadline, to random machines.  Each of these bids
    with its price and the number of tasks that it can end before the deadline.  The cheapest get the tasks.
    A machine that gets tasks raises its price, and one that had room and gets none lowers it.

    Table ``payments`` has a row for each task that was bought: the machine that ran it, its payment, and
    whether the task was late.

    Parameters
    ----------
    ask_ratio
        Number of machines that are asked for a bid, per task.
    patience
        Time, in s, after which a call for bids is closed if bids are missing.
    rounds
        Maximum number of calls for the same tasks; tasks left then go to the bidder with the least work.
    slack
        Time from the release of a task to its deadline, as a multiple of its duration at `reference_speed`.
    reference_speed
        Speed for which `slack` computes the duration of a task, Mflop/s.
    competition
        Share of the time in its open offers that a machine offers to others as well: with 1 it bids as if no
        open offer were accepted, with 0 it never offers the same time twice.
    step
        Relative change of a price when a machine gets tasks or is declined.
    cost
        Lowest price per Mflop, dimensionless; all prices start at 1.
    penalty
        Share of the price that a machine loses if a task ends after its deadline; above 1 it has to pay.
    """

    name: ClassVar[str] = "market"
    task_cost: ClassVar[TaskCost] = TaskCost(time=5e-6)
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("interpreted",)
    policy: ClassVar[type[NodeProgram]] = MarketNode
    local_order: ClassVar = "fifo"
    timers: ClassVar[tuple[str, ...]] = ("closed",)
    messages: ClassVar[Mapping[str, Message]] = {
        # Awards come first, so that a machine that gets an award and the next call for the remaining tasks at
        # one instant takes the award into account in its bid.  Interfaces that queue messages keep this
        # order; with interfaces="equal" the shorter announcement arrives first.
        "award": Message(170, moves_tasks=True, application=int, tasks=int, call=int, deadline=float),
        "decline": Message(64, call=int),
        "announce": Message(96, application=int, call=int, tasks=int, deadline=float),
        "bid": Message(88, call=int, capacity=int, price=float, work=float),
    }
    tables: ClassVar = {"payments": {"machine": int, "application": int, "late": int, "paid": float}}
    decision_words: ClassVar[DecisionTexts] = {
        "awarded": ("bought time for {tasks} tasks from machine {machine}", "a price of", "a Mflop"),
        "kept": ("kept {tasks} tasks, as nobody had answered", "", ""),
    }
    decision_verbs: ClassVar[Mapping[str, DecisionVerb]] = {"kept": "keeps"}
    truths: ClassVar = {"awarded": price_of}

    degree: Annotated[int, Limits(low=0)] = 0
    ask_ratio: Annotated[float, Limits(above=0)] = 2.0
    patience: Annotated[
        float, Limits(above=0, unit="s"), AnswerWait("calls close before other machines' bids arrive")
    ] = 5.0
    rounds: Annotated[int, Limits(low=1)] = 3
    slack: Annotated[float, Limits(above=0)] = 10.0
    reference_speed: Annotated[float, Limits(above=0, unit="Mflop/s")] = 1000.0
    competition: _Share = 0.5
    step: Annotated[float, Limits(low=0)] = 0.05
    cost: _Share = 0.1
    penalty: Annotated[float, Limits(low=0)] = 0.5
