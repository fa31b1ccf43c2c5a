"""The looks of schedulers in charts: each has a colour, marker and line style that depend on its name.

A look is the number of a series for `gridsim.plots.style.series_style`.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable
from typing import Any

from gridsim.plots.style import COLOURS, LOOKS, check_count, series_look, series_style
from gridsim.results.text import NOT_RANKED

#: Registered schedulers of bags, and of rigid jobs, in the order of their looks, which are used repeatedly.
#: A line of seven has the seven colours; those that are often compared are not below each other.
ORDERS = (
    """
    fair-tree mincent fcfs fair-tree-root work-stealing rjss wqr-ft
    power-of-d least-work random sparrow hawk eagle join-shortest-queue
    resource-exclusion dodoor no-migration min-min mct max-min sufferage
    met round-robin join-idle-queue market steady-state wave ideal-tree
    fcfs-random mincent-once fcfs-pull olb
    switching k-percent-best lwl bandwidth-centric rjss-best resource-exclusion-fastest dlwl
    expanding-ring random-walk-search advertisement rendezvous smallet-noinfo greatet-noinfo smallet-cpuinfo
    greatet-cpuinfo smallet-availinfo greatet-availinfo smallet-allinfo greatet-allinfo
    migration-immediate wave-immediate migration-linger wave-linger shortest-bag-first
    """,
    """
    dgs-asap backfill asap backfill-fcfs metascheduler zorilla backfill-conservative dgs-acap backfill-sjf
    """,
)
_FIXED_LOOKS = {name: k % LOOKS for order in ORDERS for k, name in enumerate(order.split())}


def looks(names: Iterable[str]) -> dict[str, int]:
    """Return the looks of the series of a chart: name -> look; they differ for up to `LOOKS` series.

    A registered scheduler has its own look, also if it is written like "DGS_ASAP" or "fair tree"; other names
    have a look by their checksum.  If two names have one look, it is that of the first one (registered
    names precede others, in alphabetical order), and the other name has the next one, if possible of another
    colour.  So looks do not depend on the order of `names`.
    """
    unique = dict.fromkeys(names)
    result: dict[str, int] = {}
    for name in sorted(unique, key=lambda name: (_key(name) not in _FIXED_LOOKS, name)):
        home = _FIXED_LOOKS.get(_key(name), zlib.crc32(name.encode()) % len(COLOURS))
        is_free = _key(name) in _FIXED_LOOKS and home not in result.values()
        others = [look for look in _from(home) if look not in result.values()] or [home]
        used_colours = {series_look(look)[0] for look in result.values()}
        result[name] = home if is_free else min(others, key=lambda look: series_look(look)[0] in used_colours)
    return {name: result[name] for name in unique}


def styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the colour, marker and line style of each scheduler as settings of matplotlib, by name.

    They are those of all charts of these names: a registered scheduler has the same style in each.

    Parameters
    ----------
    names
        All names in a chart, whose styles differ.

    Raises
    ------
    ScenarioError
        If there are more names than distinct styles.

    Examples
    --------
    >>> styles(["mincent", "fair-tree"])["fair-tree"]
    {'color': '#0072B2', 'marker': 'o', 'linestyle': '-'}
    """
    numbers = looks(names)
    check_count(len(numbers))
    return {name: series_style(look) for name, look in numbers.items()}


def series_label(name: str, exclusions: Collection[str]) -> str:
    """Return the label of a series, which says if it is one of those that are not ranked."""
    return f"{name} ({NOT_RANKED})" if name in exclusions else name


def _from(home: int) -> list[int]:
    """Return all looks, those with continuous lines first, beginning with the colour of `home`."""
    first = series_look(home)[0]
    count = len(COLOURS)
    return [*((first + k) % count for k in range(count)), *range(count, LOOKS)]


def _key(name: str) -> str:
    """Return a name as schedulers are registered: in lower case, without the folders of a result."""
    return name.rpartition("/")[2].lower().replace("_", "-").replace(" ", "-")
