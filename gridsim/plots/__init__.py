"""Charts of results and of studies, in one style that colour-blind readers can read (extra ``plot``).

Each function takes data, and as a keyword ``axes``: a matplotlib Axes to draw on.  It returns these Axes.
Without them it draws on a new figure of ``matplotlib.pyplot``, as notebooks and windows want it; with them
nothing of pyplot is imported, no backend is chosen, and nothing of matplotlib's settings is changed.
`figure` makes a Figure that belongs to no window, and `save` writes it so that equal figures are equal
files.

All functions raise ImportError without matplotlib, and ScenarioError for what they cannot draw.
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
