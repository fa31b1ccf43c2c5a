"""Edges of links: rejected input, and input at its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridcore.common.state import NEVER
from gridcore.network import links
from tests._helpers.small_links import (
    COUNTERS,
    DEFERRED,
    SUBJECTS,
    WIDTHS,
    counters,
    make,
    records,
)


def test_empty_and_read_only_input_is_accepted():
    one = make(links, [0, 1], 2)
    one.send(0, 0, records(0, []), 5)
    assert one.advance(10**9) == NEVER
    assert one.collect(5) == one.drain(5) == []
    one.fail([], 5)
    batch = records(0, [(0, 1)])
    batch.flags.writeable = False
    one.send(0, 0, batch, 5)
    assert one.in_flight().tolist() == [1, 0, 0]
    empty_links = make(links, [], 0)
    assert empty_links.advance(5) == NEVER
    assert empty_links.machines == 0


GOOD = {"latency": 10, "bandwidth": 1e9, "widths": WIDTHS, "deferred": DEFERRED}


ERRORS = [
    (
        lambda m, x: m.Links([], 2**31, **GOOD),
        ValueError,
        r"^machines must be in 0\.\.2147483647, got 2147483648$",
    ),
    (lambda m, x: m.Links([], -1, **GOOD), ValueError, r"^machines must be in 0\.\.2147483647, got -1$"),
    (lambda m, x: m.Links([0, 2], 2, **GOOD), ValueError, r"machine_of\[1\] must be in 0\.\.1, got 2"),
    (lambda m, x: m.Links([-1], 2, **GOOD), ValueError, r"machine_of\[0\] must be in 0\.\.1, got -1"),
    (lambda m, x: m.Links([0.5], 2, **GOOD), TypeError, "machine_of must hold integers"),
    (
        lambda m, x: m.Links([0], 1, **{**GOOD, "latency": -1}),
        ValueError,
        r"latency must be in 0",
    ),
    (
        lambda m, x: m.Links([0], 1, **{**GOOD, "bandwidth": 0}),
        ValueError,
        "bandwidth must be > 0 .*, got 0.0",
    ),
    (lambda m, x: m.Links([0], 1, **{**GOOD, "bandwidth": math.nan}), ValueError, "bandwidth .* got nan"),
    (
        lambda m, x: m.Links([0], 1, **{**GOOD, "widths": [8]}),
        ValueError,
        r"widths\[0\] must be in 16",
    ),
    (
        lambda m, x: m.Links([0], 1, **{**GOOD, "deferred": [0]}),
        ValueError,
        "deferred must have 3 entries, got 1",
    ),
    (lambda m, x: m.Links([0], 1, **{**GOOD, "widths": [16.5]}), TypeError, "^widths must hold integers"),
    (lambda m, x: m.Links([0], 1, **GOOD, keep=[False]), ValueError, "^keep must have 3 entries, got 1"),
    (
        lambda m, x: m.Links([0], 1, **GOOD, keep=[True, False, True]),
        ValueError,
        r"^keep\[2\] must be False",
    ),
    (lambda m, x: m.Links([0], 1, **GOOD, level_of=[0.5]), TypeError, "^level_of must hold integers"),
    (
        lambda m, x: m.Links([0], 1, **GOOD, level_of=[0, 0]),
        ValueError,
        "^level_of must have 1 entries, got 2",
    ),
    (
        lambda m, x: m.Links([0], 1, **GOOD, level_of=[64]),
        ValueError,
        r"^level_of\[0\] must be in 0\.\.63, got",
    ),
    (
        lambda m, x: m.Links([0], 1, **GOOD, level_of=[-1]),
        ValueError,
        r"^level_of\[0\] must be in 0\.\.63, got",
    ),
    (
        lambda m, x: m.Links([0], 2, **GOOD, interfaces=[0]),
        ValueError,
        "^interfaces must have 2 entries, got 1",
    ),
    (
        lambda m, x: m.Links([0], 1, **GOOD, interfaces=[1]),
        ValueError,
        r"^interfaces\[0\] must be in 0\.\.0, got 1",
    ),
    (lambda m, x: x.move([0, 1], [0]), ValueError, "^nodes and machines must be equally long, got 2 and 1"),
    (lambda m, x: x.detach([2]), ValueError, r"^nodes\[0\] must be in 0\.\.1, got 2"),
    (lambda m, x: x.move([2], [0]), ValueError, r"^nodes\[0\] must be in 0\.\.1, got 2"),
    (lambda m, x: x.move([-1], [0]), ValueError, r"^nodes\[0\] must be in 0\.\.1, got -1"),
    (lambda m, x: x.move([0.5], [0]), TypeError, "^nodes must hold integers"),
    (lambda m, x: x.move([0], [0.5]), TypeError, "^machines must hold integers"),
    (lambda m, x: x.watch(5, 5, 1), ValueError, "^start, end and width .* got 5, 5 and 1"),
    (lambda m, x: x.watch(-1, 5, 1), ValueError, "^start, end and width .* got -1, 5 and 1"),
    (lambda m, x: x.watch(0, 5, 0), ValueError, "^start, end and width .* got 0, 5 and 0"),
    (lambda m, x: x.log(2**31, SUBJECTS), ValueError, r"^limit must be in 1\.\.2147483647, got 2147483648"),
    (lambda m, x: x.log(5, [-1, 0.5, 16]), TypeError, "^subjects must hold integers"),
    (lambda m, x: x.send(0, 3, records(0, []), 5), ValueError, r"kind must be in 0\.\.2, got 3"),
    (lambda m, x: x.send(0, -1, records(0, []), 5), ValueError, r"kind must be in 0\.\.2, got -1"),
    (lambda m, x: x.send(0, 1, records(0, []), 5), ValueError, "kind 1 must be 24 bytes wide, got 16"),
    (lambda m, x: x.send(0, 0, records(0, []), -5), ValueError, r"nbytes must be in 0\.\.2147483647, got -5"),
    (lambda m, x: x.send(0, 0, records(0, []), 2**31), ValueError, "nbytes must be in .*, got 2147483648"),
    (
        lambda m, x: x.send(0, 0, records(0, [(0, 1), (2, 0)]), 5),
        ValueError,
        r"^records\[1\] must have .* in 0\.\.1, got 2 and 0",
    ),
    (
        lambda m, x: x.send(0, 0, records(0, [(0, 2)]), 5),
        ValueError,
        r"^records\[0\] must have .* got 0 and 2",
    ),
    (
        lambda m, x: x.send(0, 0, records(0, [(0, -1)]), 5),
        ValueError,
        r"^records\[0\] must have .* got 0 and -1",
    ),
    (
        lambda m, x: make(m, [0, 1], 2, 10, 1e-9).send(0, 0, records(0, [(0, 1)]), 5),
        ValueError,
        r"a message must take at most 1099511627776 ns, got 5e\+18 for 5 bytes",
    ),
    (lambda m, x: x.log(0, SUBJECTS), ValueError, r"limit must be in 1\.\.2147483647, got 0"),
    (lambda m, x: x.log(5, [-1, 16]), ValueError, "subjects must have 3 entries, got 2"),
    (
        lambda m, x: x.log(5, SUBJECTS, np.ones(1, bool)),
        ValueError,
        r"nodes must have 2 entries, got shape \(1,\)",
    ),
    (lambda m, x: x.log(5, [-1, 17, 16]), ValueError, r"subjects\[1\] must be -1 or in 16\.\.16, got 17"),
    (lambda m, x: x.log(5, [8, 16, 16]), ValueError, r"subjects\[0\] must be -1 or in 16\.\.8, got 8"),
    (lambda m, x: x.fail([0, 2], 5), ValueError, r"machines\[1\] must be in 0\.\.1, got 2"),
    (lambda m, x: x.fail([-1], 5), ValueError, r"machines\[0\] must be in 0\.\.1, got -1"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_bad_input_is_rejected(call, error, message):
    one = make(links, [0, 1], 2)
    with pytest.raises(error, match=message):
        call(links, one)
    assert one.advance(NEVER - 1) == NEVER
    assert not any(any(column) for column in counters(one).values())


def test_extreme_valid_arguments_are_accepted():
    one = make(links, [0, 1], 2, 10, 1e9 / 2**39)
    one.log(1, SUBJECTS)
    one.watch(0, 5, 1)
    columns = [*(getattr(one, name) for name in COUNTERS), one.by_level, one.windows, one.in_flight()]
    assert {column.dtype for column in columns} == {np.dtype(np.int64)}
    # a message of two bytes takes 2**40 ns
    one.send(0, 0, records(0, [(0, 1), (1, 0)]), 2)
    one.send(2**61, 0, records(0, [(1, 0)]), 0)
    assert one.unlogged == 2 and one.advance(2**40 + 10) == 2**40 + 10
    make(links, [0, 1], 2, bandwidth=math.inf).send(0, 0, records(0, [(0, 1)]), 2**31 - 1)
    make(links, [0, 1], 2).log(2**31 - 1, SUBJECTS)
    links.Links([99], 100, latency=2**61, bandwidth=1.0, widths=[2**20], deferred=[False])
    with pytest.raises(
        OverflowError,
        match="^messages of machine 0 must start by ",
    ):
        one.send(2**61 + 1, 0, records(0, [(1, 0)]), 0)


def test_sending_after_the_last_instant_is_rejected():
    """The latency, twice, and the longest message must fit before the last instant."""
    one, last = make(links, [0, 1], 2, fifo=False), NEVER - 1 - 2 * 10 - 2**40
    for wrong in (-1, last + 1):
        with pytest.raises(ValueError, match=rf"^now must be in 0\.\.{last} ns, got {wrong}$"):
            one.send(wrong, 0, records(0, [(1, 0)]), 5)
    one.send(last, 0, records(0, [(1, 0)]), 5)
    assert one.advance(NEVER - 1) == last + 10 + 5
    for wrong in (-1, NEVER):
        with pytest.raises(ValueError, match=rf"^now must be in 0\.\.{NEVER - 1} ns, got {wrong}$"):
            one.fail([0], wrong)
    one.fail([0], NEVER - 1)


def test_strided_records_are_rejected():
    batch = records(0, [(0, 1)] * 4)
    for wrong in (batch[::2], batch.view(np.int8)):
        with pytest.raises(ValueError, match="contiguous|dtype"):
            make(links, [0, 1], 2).send(0, 0, wrong, 5)


@pytest.mark.parametrize("width", [16, 19, 24])
def test_unaligned_records_are_read(width):
    """Records at an odd address, of a width that is not a multiple of 8 bytes, are delivered unchanged."""

    def new_links():
        link_options = {"latency": 10, "bandwidth": 1e9, "fifo": True, "seed": 1}
        return links.Links([0, 1], 2, **link_options, widths=[width, 23], deferred=[False, True])

    one = new_links()
    sent = np.zeros((2, width), np.uint8)
    sent[:] = np.arange(width)
    sent[:, :16] = np.array([[1, 0], [0, 1]], np.int64).view(np.uint8)
    odd = np.zeros(sent.size + 1, np.uint8)[1:].reshape(sent.shape)
    odd[...] = sent
    one.send(0, 0, odd, 1)
    both = [one, new_links()]
    both[1].setstate(one.getstate())
    for item in both:
        assert item.advance(100) == 11
        [(kind, rows)] = item.collect(11)
        assert kind == 0
        np.testing.assert_array_equal(rows, sent[::-1])
