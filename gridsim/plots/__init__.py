"""Charts of results and of studies, in a style for colour-blind readers (extra ``plot``).

Each function takes data and, as the keyword ``axes``, the matplotlib Axes to draw on; it returns these Axes.
Without ``axes`` it draws on a new figure of ``matplotlib.pyplot``, which notebooks and windows display.  With
``axes`` it does not import pyplot, choose a backend or change matplotlib's settings.  `figure` returns a
Figure without a window, and `save` writes figures such that equal figures give equal files.

All functions raise ImportError without matplotlib, and ScenarioError for data that they cannot draw.
"""

from gridsim.plots.estimates import bars, boxes, intervals, lines, scaling, waterfall
from gridsim.plots.gantt import gantt
from gridsim.plots.sequences import sequence
from gridsim.plots.studies import comparison, distribution, series, swept
from gridsim.plots.style import COLOURS, FORMATS, MAP, MARKERS, figure, legend, save, shared_legend, use_style
from gridsim.plots.trees import traffic, tree

__all__ = [
    "COLOURS",
    "FORMATS",
    "MAP",
    "MARKERS",
    "bars",
    "boxes",
    "comparison",
    "distribution",
    "figure",
    "gantt",
    "intervals",
    "legend",
    "lines",
    "save",
    "scaling",
    "sequence",
    "series",
    "shared_legend",
    "swept",
    "traffic",
    "tree",
    "use_style",
    "waterfall",
]
