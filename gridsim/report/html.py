"""Output of a `gridsim.report.contents.Page` as one self-contained HTML file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gridsim.errors import ScenarioError
from gridsim.model.scenario import Scenario
from gridsim.plots.animation.player import SCRIPT, STYLE
from gridsim.report.contents import Page, of_results, of_study
from gridsim.results.job_groups import Group
from gridsim.results.result import Result
from gridsim.studies.compare import Comparison
from gridsim.studies.groups import group_tables, groups_of_results
from gridsim.studies.study import Study
from gridsim.support.files import atomic_file
from gridsim.support.imports import import_extra
from gridsim.support.provenance import VERSION
from gridsim.support.text import to_json

ReportInput = Result | Mapping[str, Result] | Study

_TEMPLATE_FOLDER = Path(__file__).parent


def write_report(
    results: ReportInput,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    scenario: Scenario | None = None,
    files: Mapping[str, str] | None = None,
    command: str | None = None,
    by: Sequence[Group] = (),
) -> None:
    """Write a report on `results` to `path`: one HTML file that works offline.

    Equal results give equal files.  A chart has at most a few thousand points, however large the run was.

    Parameters
    ----------
    results
        A `Result`; a mapping name -> `Result`; or the value of `gridsim.compare`, `gridsim.replicate`,
        `gridsim.sweep` or `gridsim.ladder`.  Several results are compared with the default baseline of
        `gridsim.compare`, a `Comparison` with its own baseline.
    path
        The output file, which must end in .html.  If writing fails, an existing file is unchanged.
    title
        Title of the page; by default it names the schedulers and the number of machines.
    scenario
        The scenario of `Replicates`, of a sweep or of a ladder, whose page then shows it.
    files
        Name -> file that contains the result, for the commands in the report.
    command
        The command that repeats such a study, of the scenario in scenario.toml.
    by
        What rigid jobs of a `Result` or of several are grouped by, as in `gridsim.compare`; each has a table
        of mean waiting times.  A study has its own tables.

    Raises
    ------
    ScenarioError
        If `results` has another type, only some results are of rigid jobs, `path` does not end in .html,
        `title` is empty, or an argument does not apply to such results.
    ImportError
        If plotly or jinja2 is not installed.
    OSError
        If the file cannot be written.
    """
    name = os.fspath(path)
    if not name.lower().endswith(".html"):
        raise ScenarioError(f"path must end in .html, got {name!r}")
    if title is not None and not (isinstance(title, str) and title.strip()):
        raise ScenarioError(f"title must be a non-empty string, got {title!r}")
    check_extra()
    page = _page(results, title, scenario, files, command, by)
    with atomic_file(path) as stream:
        stream.write(html(page).encode(errors="backslashreplace"))  # file names may contain lone surrogates


def check_extra(feature: str = "a report") -> None:
    """Raise MissingExtra if the extra ``report``, which `feature` requires, is not installed."""
    import_extra("jinja2", "report", feature)
    import_extra("plotly", "report", feature)


def _page(
    results: Any,
    title: str | None,
    scenario: Scenario | None,
    files: Mapping[str, str] | None,
    command: str | None,
    by: Sequence[Group],
) -> Page:
    if by and isinstance(results, Study):
        raise ScenarioError("by requires a Result or a dict of Results, since a study has its own groups")
    if isinstance(results, Study) and not isinstance(results, Comparison):
        return of_study(results, title=title, scenario=scenario, command=command)
    if scenario is not None or command is not None:
        argument = "command" if scenario is None else "scenario"
        raise ScenarioError(
            f"{argument} requires Replicates, a sweep or a ladder, since each Result has its own"
        )
    if isinstance(results, Comparison):
        return of_results(
            results.all_results,
            title=title,
            baseline=results.baseline,
            bound=results.bound,
            files=files,
            remarks=[*filter(None, [results.log_remark]), *results.warnings],
            further=group_tables(results.groups, results.all_results),
            is_comparable=True if results.scenarios else None,
        )
    if isinstance(results, Result):
        results = {results.scheduler["name"]: results}
    if not isinstance(results, Mapping):
        raise ScenarioError(
            "results must be a Result, a dict of Results, a Comparison, Replicates, a SweepResult or a "
            f"Ladder, got {type(results).__name__}"
        )
    if not results:
        raise ScenarioError("results must contain at least one result, got none")
    for name, result in results.items():
        if not isinstance(name, str) or not isinstance(result, Result):
            raise ScenarioError(f"results[{name!r}] must be a Result, got {result!r}")
    further = group_tables(groups_of_results(by, results), results)
    return of_results(results, title=title, files=files, further=further)


def html(page: Page) -> str:
    """Return the page as HTML; equal pages give equal texts."""
    jinja = import_extra("jinja2", "report", "a report")
    offline = import_extra("plotly.offline", "report", "a report")
    environment = jinja.Environment(
        loader=jinja.FileSystemLoader(_TEMPLATE_FOLDER),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text: str = environment.get_template("report.html.j2").render(
        page=page,
        version=VERSION,
        plotly=_script_text(offline.get_plotlyjs()),
        plotly_version=offline.get_plotlyjs_version(),
        style=(_TEMPLATE_FOLDER / "report.css").read_text(encoding="utf-8"),
        animation_style=STYLE.read_text(encoding="utf-8"),
        animation_script=_script_text(SCRIPT.read_text(encoding="utf-8")),
        behaviour=_script_text((_TEMPLATE_FOLDER / "report.js").read_text(encoding="utf-8")),
        charts=_json_text(
            {
                f"{section.name}-{number}": chart.figure
                for section in page.sections
                for number, chart in enumerate(section.charts)
            }
        ),
    )
    return text


def _script_text(code: str) -> str:
    """Return JavaScript code, escaped so that it cannot end its HTML element."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _json_text(value: Any) -> str:
    """Return JSON with all special characters of HTML escaped."""
    text = to_json(value, indent=None)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
