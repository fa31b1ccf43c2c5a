"""The log of messages: who sent what to whom, when, and when it was there; recorded on request."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.network.links import Links
from gridsim.results.table import Table
from gridsim.support.clock import NS

#: Messages that are kept, unless another number is asked for.
MESSAGES_LIMIT = 1_000_000
#: Messages that can be kept.
MOST_MESSAGES = 2**31 - 1


def place_of(dtype: np.dtype[Any], name: str) -> int:
    """Where in a row the field `name` stands, in bytes; -1 if there is none that is a whole number."""
    fields = dtype.fields
    if fields is None or name not in fields or fields[name][0] != np.int64:
        return -1
    return int(fields[name][1])


def message_table(
    links: Links, kinds: list[str], applications: int, application_of: NDArray[np.int64] | None
) -> Table:
    """What `links` have logged, a row a message, in order of sending; see docs/outputs.md.

    kinds : their names, by number.  applications : how many there are.
    application_of : of what messages are about its application; None where that is the application itself.
    """
    logged = links.logged()
    about = logged["subject"]
    if application_of is not None:
        known = (about >= 0) & (about < len(application_of))
        about = np.where(known, np.append(application_of, -1)[np.where(known, about, -1)], -1)
    ends = logged["delivered"]
    columns = {
        "kind": np.array(kinds, np.str_)[logged["kind"]],
        "sender": logged["sender"],
        "receiver": logged["receiver"],
        "sent": logged["sent"] / NS,
        "delivered": np.where(ends >= 0, ends / NS, np.nan),
        "dropped": (ends == -2).astype(np.int64),
        "bytes": logged["nbytes"],
        "application": np.where((about >= 0) & (about < applications), about, -1),
    }
    # what a kernel enters in its books by itself it logs when it is there
    order = np.argsort(logged["sent"], kind="stable")
    return Table({name: column[order] for name, column in columns.items()})
