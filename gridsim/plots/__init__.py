"""Charts of results and of studies, in one style that colour-blind readers can read (extra ``plot``).

Each function takes data, and as keyword ``axes`` the matplotlib Axes to draw on, and returns these Axes.
Without ``axes`` it draws on a new figure of ``matplotlib.pyplot``, as notebooks and windows require.  With
``axes`` pyplot is not imported, no backend is chosen, and matplotlib's settings are not changed.  `figure`
makes a Figure that belongs to no window, and `save` writes it such that equal figures give equal files.

All functions raise ImportError without matplotlib, and ScenarioError for data that they cannot draw.
"""

from gridsim.plots.gantt import gantt
from gridsim.plots.runs import distribution, series
from gridsim.plots.studies import bars, boxes, comparison, intervals, lines, scaling, swept, waterfall
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
    "series",
    "shared_legend",
    "swept",
    "traffic",
    "tree",
    "use_style",
    "waterfall",
]
