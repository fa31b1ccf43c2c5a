"""A report on results as one HTML file that works offline; needs the extra ``report``."""

from gridsim.report.html import write_report

__all__ = ["write_report"]
