"""The common part of all studies: a table of their runs, and how they are displayed, drawn and exported."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from gridsim.results.table import ArrowStream, Table
from gridsim.studies.overview import Overview, TextTable, as_html, as_text
from gridsim.support import text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gridsim.plots.charts import Chart


def digest_of_runs(digests: Iterable[str]) -> str:
    """Return the SHA-256 of the digests of runs, one a line; a run that failed has an empty line."""
    return hashlib.sha256("".join(f"{digest}\n" for digest in digests).encode()).hexdigest()


class Study(ArrowStream, ABC):
    """The results of several runs that are compared.

    A study states its `runs`, its `overview`, its `charts` and its plain values (`to_dict`); from these
    follow texts, HTML, figures, pages (`gridsim.write_report`) and data frames.
    """

    #: What a page calls the scenario.
    scenario_title: ClassVar[str] = "scenario.toml"

    @abstractmethod
    def runs(self) -> Table:
        """Return a table with a row per run: its settings, and the value of each metric."""

    @abstractmethod
    def overview(self, *, full: bool = False) -> Overview:
        """Return the tables of the study.

        Parameters
        ----------
        full
            Include what only pages show, such as further metrics and digests.
        """

    @abstractmethod
    def charts(self, *, full: bool = False) -> list[list[Chart]]:
        """Return descriptions of the charts, in rows of a figure.

        Parameters
        ----------
        full
            Include charts that only pages show.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the study as plain values: dicts, lists, texts and numbers."""

    def to_json(self) -> str:
        """Return `to_dict` as JSON; infinite and undefined numbers become null."""
        return text.to_json(self.to_dict())

    def means(self) -> Table:
        """Return a table with a row per mean, with its interval and ratio; `runs` if a study has none."""
        return self.runs()

    def paper_tables(self) -> Sequence[TextTable]:
        """Return the tables of texts that `to_latex` and `to_markdown` write."""
        return self.overview().tables

    def to_csv(self) -> str:
        """Return `means` as CSV; values that are not finite are empty."""
        from gridsim.studies.exports import to_csv

        return to_csv(self.means())

    def to_latex(self) -> str:
        """Return tables with the rounded means of `overview` as LaTeX; it requires the package booktabs."""
        from gridsim.studies.exports import to_latex

        return to_latex(self.paper_tables())

    def to_markdown(self) -> str:
        """Return the tables of `to_latex` as Markdown."""
        from gridsim.studies.exports import to_markdown

        return to_markdown(self.paper_tables())

    def to_pandas(self) -> Any:
        """Return `runs` as a pandas DataFrame; ImportError without pandas."""
        return self.runs().to_pandas()

    def to_arrow(self) -> Any:
        """Return `runs` as a pyarrow Table; ImportError without pyarrow."""
        return self.runs().to_arrow()

    def verdict(self) -> str:
        """Return a sentence on which scheduler is best, and by how much; empty if a study has none."""
        return ""

    def figure(self, *, headline: bool = True, width: float | None = None) -> Figure:
        """Draw `charts` in one figure.

        Raises ScenarioError for more than 6 panels in a row, ImportError without matplotlib.

        Parameters
        ----------
        headline
            Whether to write `verdict` above the charts.
        width
            Width of the figure, inches, such as 3.3 for a column of a paper; None for the width that the
            charts need.
        """
        from gridsim.studies.figures import figure_of

        return figure_of(self.charts(), self.verdict() if headline else "", width)

    def plot(self, **options: Any) -> Figure:
        """Draw `figure`, with its arguments."""
        return self.figure(**options)

    def format(self, *, width: int = text.WIDTH, plan: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return `overview` as text.

        Parameters
        ----------
        width
            Characters of a line; columns of a table beyond that follow below.
        plan
            Facts that are left out, since they were printed before the runs.
        """
        return as_text(self.overview(), width, plan)

    def __str__(self) -> str:
        return self.format()

    def _repr_html_(self) -> str:
        """Return `overview` as notebooks show it."""
        return as_html(self.overview())
