"""The value of information about machines: completion time over the error of predicted up times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from gridsim.reproduce.framework import BELOW, Grid, Report, Row, Run, judge
from gridsim.reproduce.wqr.common import METRICS, NODES, SMALL, Bag, kinds
from gridsim.schedulers import WqrFt
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "wqr-information"
TITLE = "completion time against the error of predicted up times"
EXACT = "(not in the paper) with exact predictions AvailInfo is better than NoInfo, and AllInfo than CpuInfo"
PAST = "(not in the paper) with predictions from the past alone they still are"
CLAIMS = (EXACT, PAST)
SEEDS = (20, 5)

RATIOS = (1, 4)
#: Standard deviations of the logarithm of the predicted up time.
ERRORS, FEW_ERRORS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0), (0.0, 1.0)
PREDICTORS: tuple[Literal["past", "age"], ...] = ("past", "age")
#: Machine choice with predictions -> the same choice without them.
INFORMED = {"avail": "none", "all": "cpu"}
#: Mean number of ups and downs of a machine before the bag is released, so that machines have a past.
LATE = 20.0


def name_of(order: str, choice: str, what: Any = "") -> str:
    """Return the name of a scheduler, such as ``GreatET-AllInfo, error 0.5``."""
    policy = f"{order.capitalize()}ET-{choice.capitalize()}Info".replace("None", "No")
    if what == "":
        return policy
    return f"{policy}, {what}" if isinstance(what, str) else f"{policy}, error {what:g}"


def schedulers(errors: tuple[float, ...]) -> dict[str, Scheduler]:
    """Return schedulers: both task orders with each machine choice and each prediction."""
    made: dict[str, Scheduler] = {}
    for order in ("small", "great"):
        for choice, without in INFORMED.items():
            made[name_of(order, without)] = WqrFt(task_order=order, machine_choice=without)
            for error in errors:
                made[name_of(order, choice, error)] = WqrFt(
                    task_order=order, machine_choice=choice, prediction_error=error
                )
            for by in PREDICTORS:
                made[name_of(order, choice, by)] = WqrFt(
                    task_order=order, machine_choice=choice, predictor=by
                )
    return made


def run(how: Run) -> Report:
    """Run all predictions at two ratios, with each calibration or on real desktops."""
    nodes, errors = (SMALL, FEW_ERRORS) if how.quick else (NODES, ERRORS)
    rows: list[Row] = []
    grids: list[Grid] = []
    series: dict[str, Any] = {}
    for kind, said in kinds(how.desktops).items():
        for ratio in RATIOS:
            make = Bag(nodes, ratio, kind, how.desktops, LATE)
            made = how.replicate(make, schedulers(errors), METRICS)
            where = f"{kind}, RR = {ratio}"
            rows += _claims(where, made)
            grids.append(
                _table(f"{where} ({said}): completion time / the same without predictions", made, errors)
            )
            series[where] = {
                name_of(order, choice): [_ratio(made, order, choice, error) for error in errors]
                for order in ("small", "great")
                for choice in INFORMED
            }
    data = {"errors": errors, "series": series}
    return Report(tuple(how.seeds), how.quick, rows, grids, _REMARKS, data)


_REMARKS = (
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


def _ratio(made: Replicates, order: str, choice: str, what: Any) -> Any:
    return made.ratio(name_of(order, choice, what), name_of(order, INFORMED[choice]), "mean_completion")


def _claims(where: str, made: Replicates) -> list[Row]:
    rows = []
    for order in ("small", "great"):
        for choice in INFORMED:
            for what in (0.0, *PREDICTORS):
                said = f"{where}: {name_of(order, choice, what)} / {name_of(order, INFORMED[choice])}"
                rows.append(
                    judge(
                        PAST if what else EXACT,
                        said,
                        "-",
                        _ratio(made, order, choice, what),
                        float("-inf"),
                        BELOW,
                    )
                )
    return rows


def _table(title: str, made: Replicates, errors: tuple[float, ...]) -> Grid:
    columns = ["policy", *(f"error {error:g}" for error in errors), *PREDICTORS]
    rows = {
        name_of(order, choice): [_ratio(made, order, choice, what) for what in (*errors, *PREDICTORS)]
        for order in ("small", "great")
        for choice in INFORMED
    }
    return Grid(title, columns, rows)


def figure(report: Report) -> Figure:
    """Draw a panel per calibration and ratio: completion time over the error."""
    from gridsim import plots

    series = report.data["series"]
    made, panels = plots.figure(min(2, len(series)), rows=-(-len(series) // 2))
    for axes, (where, lines) in zip(panels, series.items(), strict=True):
        plots.lines(report.data["errors"], lines, axes=axes)
        axes.axhline(1.0, color="black", linestyle=":", linewidth=1)
        axes.set_title(where)
        axes.set_xlabel("error of predictions (std. dev. of the logarithm)")
        axes.set_ylabel("completion time / without predictions")
    plots.shared_legend(made)
    return made
