"""Value of information about machines: completion time as a function of the error of predicted up times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from gridsim.reproduce.framework import (
    Case,
    Check,
    Measurements,
    Reproduction,
    ResultGrid,
    Run,
    panels,
    ratio,
)
from gridsim.reproduce.verdicts import BELOW_ONE, ClaimedRange
from gridsim.reproduce.wqr.common import METRICS, NODES, SMALL, OneBag, calibrations
from gridsim.results.metrics.estimates import Estimate
from gridsim.schedulers import WqrFt
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate_result import Replicates

EXACT = "(not in the paper) with exact predictions AvailInfo is better than NoInfo, and AllInfo than CpuInfo"
PAST = "(not in the paper) with predictions from the past alone they still are"

RATIOS = (1, 4)
#: Prediction errors: standard deviations of the logarithm of the predicted up time.
ERRORS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0), (0.0, 1.0)
PREDICTORS: tuple[Literal["past", "age"], ...] = ("past", "age")
#: Task order and machine choice with predictions -> the same policy without predictions.
POLICY_PAIRS = {
    (order, choice): base
    for order in ("small", "great")
    for choice, base in (("avail", "none"), ("all", "cpu"))
}
#: Mean number of failures of a machine before the release of the bag, so that machines have a history.
UPS_BEFORE = 20.0


def name_of(order: str, choice: str, prediction: Any = "") -> str:
    """Return the name of a scheduler, such as ``GreatET-AllInfo, error 0.5``."""
    policy = f"{order.capitalize()}ET-{choice.capitalize()}Info".replace("None", "No")
    if prediction == "":
        return policy
    return f"{policy}, {prediction}" if isinstance(prediction, str) else f"{policy}, error {prediction:g}"


def _schedulers(errors: tuple[float, ...]) -> dict[str, Scheduler]:
    """Return name -> scheduler for both task orders with each machine choice and prediction."""
    schedulers: dict[str, Scheduler] = {}
    for (order, choice), base in POLICY_PAIRS.items():
        options: dict[str, Any] = {"task_order": order, "machine_choice": choice}
        schedulers[name_of(order, base)] = WqrFt(**{**options, "machine_choice": base})
        for error in errors:
            schedulers[name_of(order, choice, error)] = WqrFt(**options, prediction_error=error)
        for predictor in PREDICTORS:
            schedulers[name_of(order, choice, predictor)] = WqrFt(**options, predictor=predictor)
    return schedulers


def _cases(run: Run) -> dict[str, Case]:
    nodes, schedulers = run.choose(NODES, SMALL), _schedulers(run.choose(*ERRORS))
    return {
        f"{kind}, RR = {rr}": Case(OneBag(nodes, rr, kind, run.desktops, UPS_BEFORE), schedulers)
        for kind in calibrations(run.desktops)
        for rr in RATIOS
    }


def _against_base(order: str, choice: str, prediction: Any) -> Callable[[Replicates], Estimate]:
    """Return a function that computes the ratio of completion times with and without a prediction."""
    base = name_of(order, POLICY_PAIRS[order, choice])
    return ratio(name_of(order, choice, prediction), base, "mean_completion")


CHECKS = tuple(
    Check(
        PAST if prediction else EXACT,
        f"{{case}}: {name_of(order, choice, prediction)} / {name_of(order, base)}",
        _against_base(order, choice, prediction),
        ClaimedRange("-", high=BELOW_ONE),
    )
    for (order, choice), base in POLICY_PAIRS.items()
    for prediction in (0.0, *PREDICTORS)
)


def _lines(values: Replicates, predictions: Iterable[Any]) -> dict[str, list[Estimate]]:
    """Return policy -> ratio of completion times with and without predictions, for each prediction."""
    return {
        name_of(*policy): [_against_base(*policy, prediction)(values) for prediction in predictions]
        for policy in POLICY_PAIRS
    }


def _grids(data: Measurements) -> Iterator[ResultGrid]:
    texts, errors = calibrations(data.run.desktops), data.run.choose(*ERRORS)
    columns = ["policy", *(f"error {error:g}" for error in errors), *PREDICTORS]
    for case, values in data.items():
        text = texts[case.partition(",")[0]]
        title = f"{case} ({text}): completion time / the same without predictions"
        yield ResultGrid(title, columns, _lines(values, (*errors, *PREDICTORS)))


REMARKS = (
    "The paper assumes perfect information.",
    "error : standard deviation of the logarithm of a factor on each predicted up time, log-normal with "
    "median 1 (0: exact; 1: two of three within a factor of 2.7).  past : mean of the machine's up times "
    "that were longer than its age, of the last 32.  age : as long again as it has been up.",
    "Without predictions: NoInfo for AvailInfo, CpuInfo for AllInfo.  Ratios are of one seed each.",
    "Drawn desktops have exponential up times, of which age and past tell nothing: what is gained with "
    "them is chance.  They have been through 20 ups and downs when the bag is released; real ones have "
    "been watched for a fifth of the trace.",
    "The factors are drawn for each up time of a machine: all policies meet the same ones.",
)


INFORMATION = Reproduction(
    name="wqr-information",
    title="completion time against the error of predicted up times",
    paper="not in the paper of Arora et al.",
    claims=(EXACT, PAST),
    files="desktops",
    seeds=(20, 5),
    cases=_cases,
    metrics=METRICS,
    rows=[CHECKS],
    grids=_grids,
    remarks=REMARKS,
    figure=lambda data: panels(
        {case: _lines(values, data.run.choose(*ERRORS)) for case, values in data.items()},
        data.run.choose(*ERRORS),
        {
            "xlabel": "error of predictions (std. dev. of the logarithm)",
            "ylabel": "completion time / without predictions",
        },
        shared=True,
        level=1.0,
        columns=2,
    ),
)
