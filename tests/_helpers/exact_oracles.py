"""Slow references in exact fractions: brute force over orders, and step-by-step service of a queue."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import NamedTuple

from gridsim.testing import QueueCase

INFINITE = Fraction(10**30)


class Share(NamedTuple):
    """Share of an application on a node."""

    release: Fraction
    size: Fraction
    work: Fraction
    task_size: Fraction = Fraction(1)


class Node(NamedTuple):
    """Queue and processor of a node; `floor` is the stretch of the running task."""

    queue: tuple[Share, ...]
    speed: Fraction
    free_at: Fraction
    floor: Fraction = Fraction(0)


def node_of(case: QueueCase) -> Node:
    queue = tuple(
        Share(Fraction(r), Fraction(w), Fraction(a) * n, Fraction(a))
        for r, w, a, n in zip(
            case.release.tolist(),
            case.size.tolist(),
            case.task_size.tolist(),
            case.tasks.tolist(),
            strict=True,
        )
    )
    floor = Fraction(0)
    if case.running_release is not None and case.running_size is not None:
        floor = (Fraction(case.free_at) - Fraction(case.running_release)) / Fraction(case.running_size)
    return Node(queue, Fraction(case.speed), Fraction(case.free_at), max(Fraction(0), floor))


# --- brute force over all orders ------------------------------------------------------------------


def stretch_by_orders(node: Node) -> Fraction:
    """Return the minimum stretch, as the minimum over all orders."""
    best = INFINITE
    for order in permutations(node.queue):
        end, worst = node.free_at, node.floor
        for share in order:
            end += share.work / node.speed
            worst = max(worst, (end - share.release) / share.size)
        best = min(best, worst)
    return best


def gap_by_orders(node: Node, stretch: Fraction, release: Fraction, size: Fraction) -> Fraction:
    """Return the maximum work of a new application over all orders of it and the shares."""
    if stretch < node.floor:
        return Fraction(0)
    best = Fraction(0)
    new = object()
    for order in permutations([*node.queue, new]):
        end, capacity, placed = node.free_at, INFINITE, False
        for share in order:
            if isinstance(share, Share):
                end += share.work / node.speed
                slack = share.release + stretch * share.size - end
                if slack < 0:
                    break
                if placed:
                    capacity = min(capacity, slack)
            else:
                placed = True
                capacity = min(capacity, release + stretch * size - end)
        else:
            best = max(best, capacity * node.speed)
    return best


# --- formula (*) in fractions, tested against brute force -----------------------------------------


def minimum_stretch(node: Node) -> Fraction:
    """Return the minimum stretch by Lawler's rule: the entry with the smallest stretch there goes last."""
    rest = list(node.queue)
    end = node.free_at + sum((share.work for share in rest), Fraction(0)) / node.speed
    worst = node.floor
    while rest:
        last = min(rest, key=lambda share: (end - share.release) / share.size)
        worst = max(worst, (end - last.release) / last.size)
        end -= last.work / node.speed
        rest.remove(last)
    return worst


def gap(node: Node, stretch: Fraction, release: Fraction, size: Fraction) -> Fraction:
    if stretch < node.floor:
        return Fraction(0)
    deadline = release + stretch * size
    completed = before = Fraction(0)
    capacity = INFINITE
    for due, share in sorted((share.release + stretch * share.size, share) for share in node.queue):
        completed += share.work / node.speed
        slack = due - node.free_at - completed
        if slack < 0:
            return Fraction(0)
        if due <= deadline:
            before = completed
        else:
            capacity = min(capacity, slack)
    return max(Fraction(0), min(capacity, deadline - node.free_at - before)) * node.speed


def count(node: Node, stretch: Fraction, release: Fraction, size: Fraction, task_size: Fraction) -> int:
    return int(gap(node, stretch, release, size) / task_size)


def project(node: Node, until: Fraction, preemptive: bool) -> Node:
    """Return the queue at `until`, projected one task (or one slice) at a time."""
    if node.free_at >= until:
        return node
    stretch = minimum_stretch(node)
    order = sorted(
        range(len(node.queue)), key=lambda i: (node.queue[i].release + stretch * node.queue[i].size, i)
    )
    left = [share.work for share in node.queue]
    now, floor = node.free_at, Fraction(0)
    for i in order:
        share = node.queue[i]
        while left[i] > 0 and now < until:
            step = min(left[i], (until - now) * node.speed) if preemptive else share.task_size
            left[i] -= step
            now += step / node.speed
            if now > until:
                floor = (now - share.release) / share.size
    queue = tuple(share._replace(work=work) for share, work in zip(node.queue, left, strict=True) if work > 0)
    return Node(queue, node.speed, max(now, until), floor)
