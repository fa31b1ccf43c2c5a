"""Links between a few machines, and their messages."""

from __future__ import annotations

import numpy as np

# Kind 0 is bare, 1 carries a tag, 2 is deferred and carries more.
WIDTHS = (16, 24, 40)
DEFERRED = (False, False, True)
COUNTERS = ("sent", "delivered", "dropped", "traffic", "bytes_out", "bytes_in")
# lost messages of kind 1 are returned
KEEP = (False, True, False)
# offset of the tag in a record, for the log
SUBJECTS = (-1, 16, 24)


def records(kind, rows, tag=0):
    """Return uint8[k, width] records of (receiver, sender) rows, with consecutive tags."""
    words = np.full((len(rows), WIDTHS[kind] // 8), tag, np.int64)
    words[:, :2] = np.array(rows, np.int64).reshape(-1, 2)
    words[:, 2:] += np.arange(len(rows))[:, None]
    return words.view(np.uint8).reshape(len(rows), WIDTHS[kind])


def words_of(batch):
    return batch.reshape(len(batch), -1).view(np.int64).tolist()


def counters(one):
    return {name: getattr(one, name).tolist() for name in COUNTERS}


def make(module, machine_of, machines, latency=10, bandwidth=1e9, fifo=True, jitter=0, interfaces=None):
    return module.Links(
        machine_of,
        machines,
        latency=latency,
        bandwidth=bandwidth,
        widths=WIDTHS,
        deferred=DEFERRED,
        fifo=fifo,
        keep=KEEP,
        jitter=jitter,
        seed=7,
        interfaces=interfaces,
        level_of=[node % 3 for node in range(len(machine_of))],
    )
