from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.results.metrics import rigid

settings.register_profile("rigid", deadline=None, max_examples=30)
ours = settings.get_profile("rigid")

TIMES = st.floats(0, 1e6).map(lambda value: round(value, 3))
JOBS = st.lists(
    st.tuples(TIMES, TIMES, st.floats(0.001, 1e5), st.integers(1, 500)), min_size=1, max_size=40
)  # release, waiting, run time, nodes


def columns(jobs):
    release, waiting, run_time, nodes = (np.array(column) for column in zip(*jobs, strict=True))
    return release, release + waiting, release + waiting + run_time, nodes, run_time


# -- by hand ----------------------------------------------------------------------------------------------


def test_utilization_is_as_computed_by_hand():
    edges = rigid.intervals(0.0, 25.0, 10.0)
    assert edges.tolist() == [0, 10, 20, 30]
    release, nodes, run_time = np.array([0.0, 10.0, 12.0]), np.array([2, 1, 4]), np.array([15.0, 4.0, 5.0])
    assert rigid.request_series(edges, release, nodes, run_time, 4).tolist() == [0.75, 0.6, 0.0]
    start = np.array([5.0, 10.0, math.nan])
    assert rigid.effective_series(edges, start, start + run_time, nodes, 4).tolist() == [0.25, 0.6, 0.0]
    # a job that started but has no known end does not count
    running = np.array([5.0, 10.0, 12.0])
    assert rigid.effective_series(edges, running, start + run_time, nodes, 4).tolist() == [0.25, 0.6, 0.0]


def test_jobs_released_outside_the_intervals_do_not_count():
    edges, ones = np.array([10.0, 20.0, 30.0]), np.ones(4)
    release = np.array([9.0, 10.0, 30.0, 31.0])
    assert rigid.request_series(edges, release, ones, 5 * ones, 1).tolist() == [0.5, 0.0]


def test_an_end_on_an_edge_begins_another_interval():
    assert rigid.intervals(1.0, 21.0, 10.0).tolist() == [1, 11, 21, 31]
    assert rigid.intervals(3.0, 3.0, 10.0).tolist() == [3, 13]
    assert rigid.intervals(6.0, 21.0, 10.0).tolist() == [6, 16, 26]
    assert rigid.intervals(0.0, 1.0, 0.5).tolist() == [0, 0.5, 1, 1.5]
    assert rigid.intervals(0, 25, 10).dtype == np.float64
    for wrong in ((0.0, 1.0, 0.0), (0.0, 1.0, math.inf), (0.0, -1.0, 1.0), (0.0, math.inf, 1.0)):
        with pytest.raises(ValueError, match="^length"):
            rigid.intervals(*wrong)


def test_waiting_by_classes_is_as_computed_by_hand():
    nodes = np.array([1.0, 1.0, 2.0, 4.0, 8.0])
    waiting = np.array([0.0, 10.0, 7.0, math.nan, 100.0])
    actual = rigid.waiting_by_class(nodes, waiting, np.array([1.0, 2.0, 4.0, 8.0]))
    assert (actual.low.tolist(), actual.high.tolist()) == ([1, 2, 4], [2, 4, 8])
    assert actual.jobs.tolist() == [2, 1, 1]
    assert actual.mean.tolist() == [5, 7, 100] == actual.median.tolist()
    assert rigid.waiting_by_class(nodes, waiting, np.array([1.0, 3.0])).jobs.tolist() == [3]
    empty = rigid.waiting_by_class(nodes, waiting, np.array([2.5, 3.0, 3.5]))
    assert empty.jobs.tolist() == [0, 0] and np.isnan(empty.mean).all() and np.isnan(empty.median).all()
    alike = rigid.waiting_by_class(np.ones(3), np.arange(3.0), rigid.quantile_bins(np.ones(3), 4))
    assert (alike.jobs.tolist(), alike.mean.tolist()) == ([3], [1.0])


def test_limits_of_classes_are_as_computed_by_hand():
    assert rigid.quantile_bins(np.arange(1.0, 9.0), 1).tolist() == [1, 8]
    assert rigid.log_bins(np.array([1.0, 30.0, 100.0]), 2).tolist() == pytest.approx([1, 10, 100])
    with pytest.raises(ValueError, match="^values"):
        rigid.log_bins(np.array([0.0, 1.0]), 2)


def test_large_jobs_are_as_selected_by_hand():
    assert rigid.largest(np.array([1.0, 5.0, 3.0, 5.0]), 0.25).tolist() == [False, True, False, True]
    assert rigid.largest(np.array([1.0, 2.0, 3.0]), 0.1).tolist() == [False, False, True]
    assert rigid.prompt_share(np.array([0.0, 60.0, 61.0, math.nan]), 60.0) == 0.5
    assert math.isnan(rigid.prompt_share(np.zeros(0), 60.0))


def test_rank_correlation_is_as_computed_by_hand():
    x = np.array([1.0, 2.0, 3.0, 4.0])
    assert rigid.rank_correlation(x, x**3) == pytest.approx(1)
    assert rigid.rank_correlation(x, -x) == pytest.approx(-1)
    assert rigid.rank_correlation(x, np.array([1.0, 1.0, 2.0, 2.0])) == pytest.approx(4 / math.sqrt(20))
    assert math.isnan(rigid.rank_correlation(x, np.ones(4)))
    # ranks 2, 2, 2, 4, 5: with only two distinct values, wrong ranks of ties would not be noticed
    y = np.array([1.0, 1.0, 1.0, 2.0, 3.0])
    assert rigid.rank_correlation(np.arange(5.0), y) == pytest.approx(8 / math.sqrt(80))
    assert rigid.rank_correlation(x[:2], x[:2]) == pytest.approx(1)


def test_a_run_completes_the_requested_node_time():
    scenario = gs.Scenario(gs.Platform.equal(60), gs.Workload.jobs(80, "ricc2010", 0.9, 30, seed=2), seed=1)
    jobs = gs.simulate(scenario, gs.DgsAsap()).applications
    edges = rigid.intervals(0.0, float(jobs["finish"].max()), 3600.0)
    requested = rigid.request_series(edges, jobs["release"], jobs["tasks"], jobs["run_time"], 60)
    effective = rigid.effective_series(edges, jobs["first_start"], jobs["finish"], jobs["tasks"], 60)
    assert effective.max() <= 1 + 1e-9
    assert effective.sum() == pytest.approx(requested.sum())


# -- invariants -----------------------------------------------------------------------------------------


@ours
@given(JOBS, st.floats(10.0, 1e5), st.integers(1, 1000))
def test_ru_integrates_to_the_requested_node_time(jobs, length, machines):
    release, _, _, nodes, run_time = columns(jobs)
    edges = rigid.intervals(0.0, float(release.max()), max(length, float(release.max()) / 1000))
    actual = rigid.request_series(edges, release, nodes, run_time, machines)
    assert (actual >= 0).all()
    assert math.fsum(actual * np.diff(edges)) * machines == pytest.approx(math.fsum(nodes * run_time))


@ours
@given(JOBS, st.floats(10.0, 1e5), st.integers(1, 1000), st.data())
def test_eu_integrates_to_the_busy_time(jobs, length, machines, data):
    _, start, finish, nodes, _ = columns(jobs)
    lost = np.array(data.draw(st.lists(st.booleans(), min_size=len(jobs), max_size=len(jobs))))
    start[lost] = finish[lost] = math.nan
    end = float(np.nanmax(finish)) if not lost.all() else 0.0
    edges = rigid.intervals(0.0, end, max(length, end / 300))
    actual = rigid.effective_series(edges, start, finish, nodes, machines)
    busy = math.fsum((nodes * (finish - start))[~lost])
    assert (actual >= 0).all() and (actual <= nodes.sum() / machines * (1 + 1e-9)).all()
    assert math.fsum(actual * np.diff(edges)) * machines == pytest.approx(busy, rel=1e-7, abs=1e-3)


@ours
@given(JOBS, st.integers(2, 20))
def test_eu_of_a_long_interval_is_the_mean_of_its_parts(jobs, parts):
    _, start, finish, nodes, _ = columns(jobs)
    fine = np.linspace(0.0, float(finish.max()) + 1.0, 3 * parts + 1)
    actual = rigid.effective_series(fine, start, finish, nodes, 10)
    coarse = rigid.effective_series(fine[::parts], start, finish, nodes, 10)
    assert actual.reshape(3, parts).mean(axis=1) == pytest.approx(coarse, rel=1e-6, abs=1e-9)


@ours
@given(JOBS, st.integers(1, 12), st.sampled_from(["equal", "log"]))
def test_every_job_is_in_one_class(jobs, count, kind):
    release, start, _, nodes, run_time = columns(jobs)
    waiting, area = start - release, nodes * run_time
    edges = rigid.quantile_bins(area, count) if kind == "equal" else rigid.log_bins(area, count)
    assert (np.diff(edges) > 0).all() and edges[0] <= area.min() and edges[-1] >= area.max()
    actual = rigid.waiting_by_class(area, waiting, edges)
    assert actual.jobs.sum() == len(jobs) and len(actual.jobs) <= count
    subset = actual.jobs > 0
    assert math.fsum((actual.mean * actual.jobs)[subset]) == pytest.approx(math.fsum(waiting), abs=1e-6)
    assert (actual.median[subset] >= waiting.min()).all() and (actual.median[subset] <= waiting.max()).all()


@ours
@given(JOBS, st.floats(0.01, 1.0))
def test_the_largest_jobs_are_not_smaller_than_other_jobs(jobs, share):
    *_, nodes, _ = columns(jobs)
    selection = rigid.largest(nodes, share)
    assert selection.sum() >= max(1, round(share * len(jobs)))
    assert selection.all() or nodes[selection].min() > nodes[~selection].max()


@ours
@given(JOBS)
def test_rank_correlation_depends_on_ranks_only(jobs):
    release, start, _, nodes, _ = columns(jobs)
    actual = rigid.rank_correlation(release, nodes)
    assert math.isnan(actual) or -1 - 1e-9 <= actual <= 1 + 1e-9
    assert rigid.rank_correlation(nodes, release) == pytest.approx(actual, nan_ok=True)
    assert rigid.rank_correlation(release * 3 + 1, nodes) == pytest.approx(actual, nan_ok=True)
