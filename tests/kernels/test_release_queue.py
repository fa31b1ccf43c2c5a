"""Releases that follow ends: equality with the reference, alone and in a queue of rigid jobs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridcore.common.release_queue import ReleaseQueue
from gridcore.rigid_queue.batch_queue import JobQueue
from gridcore.rigid_queue.shared_queue import SharedQueue
from tests.kernels.rigid_queue.test_batch_queue import loads, options, outcome
from tests.kernels.rigid_queue.test_shared_queue import loads as shared_loads
from tests.reference.batch_queue import JobQueue as ReferenceQueue
from tests.reference.release_queue import ReleaseQueue as Reference
from tests.reference.shared_queue import SharedQueue as SharedReference

NEVER = 2**63 - 1


@st.composite
def releases(draw: st.DrawFn, n: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """Draw stated releases, predecessors without a circle, their offsets, and think times."""
    order = draw(st.permutations(range(n)))
    before: list[list[int]] = [[] for _ in range(n)]
    for place, i in enumerate(order[1:], 1):
        before[i] = draw(st.lists(st.sampled_from(order[:place]), max_size=3))
    times = st.lists(st.integers(0, 12), min_size=n, max_size=n)
    offsets = np.cumsum([0, *map(len, before)]).tolist()
    return draw(times), [j for row in before for j in row], offsets, draw(times)


def state_of(queue: Any) -> Any:
    return queue.next_release(), queue.release.tolist()


@given(data=st.data(), arguments=st.integers(0, 8).flatmap(releases))
def test_releases_equal_reference(data: st.DataObject, arguments: Any) -> None:
    n = len(arguments[0])
    queues: list[Any] = [ReleaseQueue(*arguments), Reference(*arguments)]
    skipped = data.draw(st.sets(st.integers(0, n - 1), max_size=2)) if n else []
    for queue in queues:
        queue.skip(sorted(skipped))
    running: set[int] = set()
    for now in range(0, 60, 3):
        ended = sorted(i for i in running if data.draw(st.booleans()))
        for queue in queues:
            queue.end([*ended, *ended[:1]], now)  # a second end has no effect
        running -= {*ended}
        taken = [queue.take(now) for queue in queues]
        assert taken[0] == taken[1]
        running |= {*taken[0]}
        restored = ReleaseQueue(*arguments)
        restored.skip(sorted(skipped))
        restored.setstate(queues[0].getstate())
        queues[0] = restored
        assert state_of(queues[0]) == state_of(queues[1])
    is_released = restored.release_seconds == restored.release / 1e9
    assert all(is_released[sorted(running)])
    for queue in queues:
        queue.close(70)
    assert state_of(queues[0]) == state_of(queues[1])


@settings(deadline=None)
@given(data=st.data(), load=loads())
def test_a_queue_of_jobs_with_releases_equals_reference(data: st.DataObject, load: Any) -> None:
    """All disciplines and orders, with failures, checkpoints, and jobs that are not run."""
    keywords = data.draw(options(load[0], load[1]), label="options")
    if "order" not in keywords and data.draw(st.booleans()):
        keywords["order"] = data.draw(st.sampled_from(["lcfs", "f1"]))
    check_queue_with_releases(data, (JobQueue, ReferenceQueue), load[0], load, keywords)


@settings(deadline=None)
@given(data=st.data(), load=shared_loads())
def test_a_queue_of_shared_machines_with_releases_equals_reference(data: st.DataObject, load: Any) -> None:
    load, keywords = load
    if "order" not in keywords and data.draw(st.booleans()):
        keywords["order"] = data.draw(st.sampled_from(["lcfs", "f1", "saf", "unicef"]))
    check_queue_with_releases(data, (SharedQueue, SharedReference), len(load[0]), load, keywords)


def check_queue_with_releases(
    data: st.DataObject, kinds: Any, machines: int, load: Any, keywords: dict[str, Any]
) -> None:
    jobs = len(load[1])
    arguments = data.draw(releases(jobs), label="releases")
    skipped = sorted(data.draw(st.sets(st.integers(0, jobs - 1), max_size=2))) if jobs else []
    queues = []
    for kind, release_kind in zip(kinds, (ReleaseQueue, Reference), strict=True):
        queue_of_releases = release_kind(*arguments)
        queue_of_releases.skip(skipped)
        queues.append((kind(*load, **keywords, releases=queue_of_releases, log=True), queue_of_releases))
    for step in [0, 1, 4, 9, 30]:
        now = queues[0][0].now + step
        assert queues[0][0].run(now) == queues[1][0].run(now)
        failing = sorted(data.draw(st.sets(st.integers(0, machines - 1), max_size=2), label="machines"))
        if "conservative" in keywords:
            # reservations that are made anew differ in order while a job runs beyond its estimate
            failing = []
        for queue, _ in queues:
            queue.fail(failing, now)
            queue.restore(failing, now)
        restored_releases = ReleaseQueue(*arguments)
        restored_releases.skip(skipped)
        restored_releases.setstate(queues[0][1].getstate())
        restored = kinds[0](*load, **keywords, releases=restored_releases, log=True)
        restored.setstate(queues[0][0].getstate())
        queues[0] = restored, restored_releases
    assert queues[0][0].run(NEVER) == queues[1][0].run(NEVER)
    assert outcome(queues[0][0]) == outcome(queues[1][0])
    assert queues[0][1].release.tolist() == queues[1][1].release.tolist()


def test_bad_releases_raise_an_error() -> None:
    for arguments, message in (
        (([0, 1], [2], [0, 0, 1], [0, 0]), r"predecessors\[0\] must be"),
        (([0, 1], [0], [0, 0], [0, 0]), "offsets"),
        (([0, -1], [0], [0, 0, 1], [0, 0]), r"release\[1\] must be"),
        (([0, 1], [0], [0, 0, 1], [0]), "think"),
    ):
        with pytest.raises(ValueError, match=message):
            ReleaseQueue(*arguments)
    queue = JobQueue(2, [1], [1], [1], releases=ReleaseQueue([0], [], [0, 0], [0]))
    with pytest.raises(ValueError, match="jobs must be submitted by releases"):
        queue.submit([0], 0)
    with pytest.raises(ValueError, match="releases"):
        JobQueue(2, [1, 1], [1, 1], [1, 1], releases=ReleaseQueue([0], [], [0, 0], [0]))
