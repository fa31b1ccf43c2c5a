"""Charts of results and of studies, in a style for colour-blind readers (extra ``plot``).

Each function takes data and, as the keyword ``axes``, the matplotlib Axes to draw on; it returns these Axes.
Without ``axes`` it draws on a new figure of ``matplotlib.pyplot``, which notebooks and windows display.  With
``axes`` it does not import pyplot, choose a backend or change matplotlib's settings.  ``width`` is the width
of a new figure in inches, such as 3.3 (or "8.4 cm") for a column of a paper: the height shrinks with it, and
text to at least 7 pt.  `figure` returns a Figure without a window, and `save` writes figures such that equal
figures give equal files.

A scheduler has the same colour and marker in all charts of registered schedulers, by its name.

All functions raise ImportError without matplotlib, and ScenarioError for data that they cannot draw.
"""

# `lazy_loader` reads the public names from `__init__.pyi`.

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
