"""Late, out-of-order and repeated samples: the policies by definition, and the same bits however the stream is cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.common.protocol import SettingError
from streamjobs.stages.order import APPLIED, DUPLICATE, HELD, LATE, Order
from tests.core.driving import drive, fresh, same_bits
from tests.sizes import examples

EPOCH = 1_700_000_000.0


def stream(seconds, slots=None):
    rng = np.random.default_rng(0)
    n = len(seconds)
    slots = np.zeros(n, np.int64) if slots is None else np.asarray(slots, np.int64)
    times = EPOCH + np.asarray(seconds, float)
    return slots, times, rng.normal(size=(n, 2)), rng.normal(size=(n, 1)), np.arange(n)


def by_definition(times, untimed, *, policy, lateness, duplicates, max_held):
    """(time, number of the sample, owner, learn) of one key in the order applied, and the verdicts."""
    applied, verdicts, waiting, newest = [], [], [], -np.inf
    passes = {"learn": 3, "predict_only": 0}
    for n, time in enumerate(times):
        if untimed[n]:
            for newest, number in waiting:
                applied.append((newest, number, n, 3))
            newest, waiting = max(newest, time), []
            verdicts.append(APPLIED)
            applied.append((time, n, n, 3))
            continue
        if time < newest:
            verdicts.append(LATE)
            if policy in passes:
                applied.append((time, n, n, passes[policy]))
            continue
        twice = time == newest or any(time == other for other, _ in waiting)
        if twice and duplicates == "drop":
            verdicts.append(DUPLICATE)
            continue
        if time == newest:
            verdicts.append(DUPLICATE)
            applied.append((time, n, n, 3))
            continue
        waiting = sorted([*waiting, (time, n)])
        ripe = max(time for time, _ in waiting) - lateness
        verdicts.append(DUPLICATE if twice else HELD)
        while waiting and (waiting[0][0] <= ripe or len(waiting) > max_held):
            newest, number = waiting.pop(0)
            applied.append((newest, number, n, 3))
            if number == n and not twice:
                verdicts[-1] = APPLIED
    return applied, verdicts, waiting


def some(data, n):
    """Which of n samples come without a time of their own: none, all or some."""
    return data.draw(st.sampled_from([np.zeros(n, bool), np.ones(n, bool), np.arange(n) % 3 == 0]))


seconds = st.lists(st.integers(0, 40), min_size=1, max_size=80)
orders = st.builds(
    Order,
    policy=st.sampled_from(["learn", "predict_only", "drop", "dlq"]),
    lateness=st.sampled_from([0.0, 1.0, 4.0, 30.0]),
    duplicates=st.sampled_from(["drop", "learn"]),
    max_held=st.sampled_from([1, 3, 1024]),
)


@settings(derandomize=True, deadline=None, max_examples=examples(200))
@given(seconds=seconds, order=orders, data=st.data())
def test_samples_leave_in_the_order_of_the_definition(seconds, order, data):
    samples = (*stream(seconds), some(data, len(seconds)))
    got, (state,) = drive(order, samples, keys=1)
    applied, verdicts, waiting = by_definition(
        samples[1].tolist(),
        samples[5].tolist(),
        policy=order.policy,
        lateness=order.lateness,
        duplicates=order.duplicates,
        max_held=order.max_held,
    )
    numbers = [number for _, number, _, _ in applied]
    assert got[6].tolist() == verdicts
    assert got[1].tolist() == [time for time, _, _, _ in applied]
    assert got[4].tolist() == [owner for _, _, owner, _ in applied]
    assert got[5].tolist() == [learn for _, _, _, learn in applied]
    assert same_bits(got[2], samples[2][numbers]) and same_bits(got[3], samples[3][numbers])
    assert state.held_times.tolist() == [time for time, _ in waiting]


@settings(derandomize=True, deadline=None, max_examples=examples(100))
@given(seconds=seconds, order=orders, data=st.data())
def test_any_split_mix_and_crash_gives_the_same_bits(seconds, order, data):
    n = len(seconds)
    slots = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    cuts = data.draw(st.lists(st.integers(0, n), max_size=5))
    samples = (*stream(seconds, slots), some(data, n))
    whole = drive(order, samples, keys=3)
    assert same_bits(drive(order, samples, keys=3, cuts=cuts), whole)
    assert same_bits(drive(order, samples, keys=3, cuts=range(1, n), reload=True), whole)
    for key in range(3):
        mine = samples[0] == key
        if mine.any():
            alone, (state,) = drive(order, (np.zeros(mine.sum(), np.int64), *(c[mine] for c in samples[1:])), keys=1)
            assert same_bits(alone[1:6], [column[whole[0][0] == key] for column in whole[0][1:6]])
            assert same_bits(alone[6], whole[0][6][mine]) and same_bits(state, whole[1][key])


@pytest.mark.parametrize("policy", ["learn", "predict_only", "drop", "dlq"])
def test_samples_without_times_of_their_own_are_neither_late_nor_twice(policy):
    seconds = np.r_[np.zeros(500), np.arange(500) % 7]
    samples = (*stream(seconds), np.ones(1000, bool))
    got, (state,) = drive(Order(policy=policy, lateness=2.0), samples, keys=1)
    assert got[1].tolist() == samples[1].tolist() and got[4].tolist() == list(range(1000))
    assert set(got[5]) == {3} and set(got[6]) == {APPLIED}
    assert state.newest == EPOCH + 6.0


def test_samples_that_wait_in_an_older_state_leave_with_the_first_sample_without_a_time():
    order, samples = Order(lateness=10.0), stream([1.0, 3.0, 2.0, 0.5])
    untimed = np.array([False, False, False, True])
    got, (state,) = drive(order, (*samples, untimed), keys=1, cuts=[3], reload=True)
    assert got[1].tolist() == [EPOCH + 1.0, EPOCH + 2.0, EPOCH + 3.0, EPOCH + 0.5]
    assert got[4].tolist() == [3, 3, 3, 3] and len(state.held_times) == 0
    assert state.newest == EPOCH + 3.0


def test_shuffled_samples_leave_sorted_where_lateness_covers_the_disorder():
    rng = np.random.default_rng(3)
    seconds = np.arange(500) * 0.02
    arrival = np.argsort(seconds + rng.uniform(0, 1.0, 500))
    got, (state,) = drive(Order(lateness=1.0), stream(seconds[arrival]), keys=1)
    assert (np.diff(got[1]) > 0).all() and not (got[6] == LATE).any()
    assert len(got[1]) + len(state.held_times) == 500


def test_no_more_than_max_held_samples_wait():
    order = Order(lateness=1e6, max_held=16)
    got, (state,) = drive(order, stream(np.arange(1000.0)), keys=1)
    assert len(state.held_times) == 16 and len(got[1]) == 984
    assert sum(np.asarray(part).nbytes for part in state) <= order.bytes_of(fresh(order, 2, 1))


def test_without_lateness_nothing_is_kept_but_a_time():
    order = Order()
    assert order.bytes_of(fresh(order, 40, 7)) == 8


@pytest.mark.parametrize(
    "wrong", [{"policy": "ignore"}, {"lateness": -1.0}, {"lateness": float("nan")}, {"duplicates": "x"}, {"max_held": 0}]
)
def test_a_setting_out_of_range_is_refused_by_name(wrong):
    with pytest.raises(SettingError, match=next(iter(wrong))):
        Order(**wrong)
