"""Windows of raw signals: what they hold, when they come, and that batches, mixes and crashes change nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.common.protocol import SettingError
from streamjobs.replay.first_rows import passing_through
from streamjobs.settings.composition import composition_of
from streamjobs.stages import statistics
from streamjobs.stages.order import Order
from streamjobs.stages.stage import describe
from streamjobs.stages.windows import Windows
from tests.core.driving import drive, fresh, same_bits
from tests.core.people import of_people
from tests.core.streams import settings as job_settings
from tests.reference import windows as reference
from tests.sizes import examples

EPOCH = 1_700_000_000.0
RATE = 50.0


def stream(times, *, keys=1, slots=None, labels=1, seed=0):
    rng = np.random.default_rng(seed)
    n = len(times)
    slots = np.zeros(n, np.int64) if slots is None else np.asarray(slots, np.int64)
    L = rng.integers(0, 3, (n, labels)).astype(float)
    L[rng.random((n, labels)) < 0.3] = np.nan
    X = np.cumsum(rng.normal(size=(n, 2)), axis=0) / 5
    return slots, np.asarray(times, float), X, L, np.arange(n), rng.integers(0, 4, n).astype(np.int8)


def steady(n, start=EPOCH):
    return start + np.arange(n) / RATE


# Steps between samples in half periods: mostly regular, some twice, late or missing, some long pauses, also backwards.
steps = st.lists(st.sampled_from([2, 2, 2, 2, 2, 2, 3, 1, 0, -1, 5, 12, 19, 21, 60, 200, -60]), min_size=1, max_size=150)
grids = st.sampled_from([(1.0, 0.5, 0.2), (1.0, 1.0, 5.0), (0.4, 0.02, 0.3), (0.3, 0.7, 1.0), (0.5, 0.13, 0.2)])


def _some(data, n):
    """Which of n samples come without a time of their own: none, all or some."""
    return data.draw(st.sampled_from([np.zeros(n, bool), np.ones(n, bool), np.arange(n) % 3 > 0]))


@settings(derandomize=True, deadline=None, max_examples=examples(150))
@given(
    steps=steps,
    grid=grids,
    label=st.sampled_from(["majority", "mean"]),
    fewest=st.sampled_from([0.8, 0.8, 0.4, 0.1]),
    data=st.data(),
)
def test_windows_are_those_of_the_definition(steps, grid, label, fewest, data):
    length, hop, gap = grid
    times = EPOCH + np.cumsum(steps) * 0.5 / RATE + 1e-4
    samples = (*stream(times, labels=2), _some(data, len(steps)))
    how = {"length": length, "hop": hop, "rate": RATE, "gap": gap, "label": label, "fewest": fewest}
    got, _ = drive(Windows(**how), samples, keys=1)
    rows, skipped = reference.windows(*samples[1:4], *samples[5:7], **how)
    assert {reason: int(count) for reason, count in got[6]} == skipped
    assert len(got[1]) == len(rows)
    for n, (end, features, labels, learn, owner) in enumerate(rows):
        assert got[1][n] == end
        np.testing.assert_allclose(got[2][n], features, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(got[3][n], labels, rtol=1e-12)
        assert (got[5][n], got[4][n]) == (learn, owner)


@settings(derandomize=True, deadline=None, max_examples=examples(60))
@given(
    steps=steps, grid=grids, fewest=st.sampled_from([0.8, 0.4]), faster=st.sampled_from([1.0, 1.0, 2.6, 8.0]), data=st.data()
)
def test_any_split_mix_and_crash_gives_the_same_bits(steps, grid, fewest, faster, data):
    length, hop, gap = grid
    n = len(steps)
    slots = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    cuts = data.draw(st.lists(st.integers(0, n), max_size=5))
    stage = Windows(length=length, hop=hop, rate=RATE, gap=gap, fewest=fewest)
    times = EPOCH + np.cumsum(steps) * 0.5 / (faster * RATE)
    samples = (*stream(times, slots=slots), _some(data, n))
    whole = drive(stage, samples, keys=3)
    assert same_bits(drive(stage, samples, keys=3, cuts=cuts), whole)
    assert same_bits(drive(stage, samples, keys=3, cuts=range(1, n), reload=True), whole)
    for key in range(3):
        mine = samples[0] == key
        if mine.any():
            alone, (state,) = drive(stage, (np.zeros(mine.sum(), np.int64), *(c[mine] for c in samples[1:])), keys=1)
            of_key = whole[0][0] == key
            assert same_bits(alone[1:6], [column[of_key] for column in whole[0][1:6]])
            assert same_bits(state, whole[1][key])


def test_a_window_comes_with_its_last_expected_sample():
    samples = stream(steady(100))
    got, _ = drive(Windows(length=2.0, hop=1.0, rate=RATE), samples, keys=1)
    assert got[1].tolist() == [EPOCH + 2.0] and got[4].tolist() == [99]
    short = tuple(column[:99] for column in samples)
    assert len(drive(Windows(length=2.0, hop=1.0, rate=RATE), short, keys=1)[0][1]) == 0


def test_a_pause_begins_new_windows_and_drops_the_unfinished_one():
    times = np.r_[steady(140), steady(100, EPOCH + 10.37)]
    got, _ = drive(Windows(length=2.0, hop=1.0, rate=RATE), stream(times), keys=1)
    assert got[1].tolist() == [EPOCH + 2.0, EPOCH + 10.37 + 2.0]
    assert got[6].tolist() == [["gap", "1"]]


def test_without_times_of_their_own_no_sample_is_late_and_a_timestamp_far_back_begins_new_windows():
    times = steady(100)
    times[10:40:3] -= 0.1  # back by less than the gap of 0.2 s
    times = np.r_[times, steady(100, EPOCH - 3600.0)]
    got, _ = drive(Windows(length=2.0, hop=2.0, rate=RATE), (*stream(times), np.ones(200, bool)), keys=1)
    assert got[1].tolist() == [EPOCH + 2.0, EPOCH - 3600.0 + 2.0]
    assert got[6].tolist() == []


def test_a_window_with_a_fifth_of_its_samples_missing_is_a_row_and_with_more_it_is_not():
    stage = Windows(length=2.0, hop=2.0, rate=RATE, gap=1.0)
    for missing, rows in ((20, 1), (21, 0)):
        times = np.delete(steady(100), np.arange(40, 40 + missing))
        got, _ = drive(stage, stream(times), keys=1)
        assert len(got[1]) == rows and got[6].tolist() == ([] if rows else [["sparse", "1"]])


def test_a_stream_faster_than_declared_is_held_to_one_and_a_half_times_the_samples():
    times = EPOCH + np.arange(2000) / (10 * RATE)
    stage = Windows(length=2.0, hop=1.0, rate=RATE)
    got, (state,) = drive(stage, stream(times), keys=1)
    assert len(got[1]) == 3 and len(state.times) <= 150
    assert dict(got[6])["crowded"].isdigit() and sum(a.nbytes for a in state[:4]) <= stage.bytes_of(fresh(stage, 2, 1))


@pytest.mark.parametrize("faster", [1.05, 1.2, 1.5, 2.0, 3.3, 10.0])
def test_the_windows_of_a_faster_stream_are_interpolated_over_all_their_time(faster):
    times = EPOCH + np.arange(int(300 * faster)) / (faster * RATE)
    times[40:50] = times[40]  # a sensor that stood still
    how = {"length": 2.0, "hop": 1.0, "rate": RATE, "fewest": 0.4}
    samples = stream(times)
    samples[2][:] = np.sin(np.outer(times - EPOCH, [1.0, 3.0]))
    got, _ = drive(Windows(**how), samples, keys=1)
    rows, skipped = reference.windows(*samples[1:4], samples[5], gap=0.2, **how)
    assert len(got[1]) == len(rows) == 5 and skipped == {} and got[6].tolist() == []
    np.testing.assert_allclose(got[2], [features for _, features, *_ in rows], rtol=1e-9, atol=1e-9)
    if faster > 1.05:
        wanted = [np.sin(np.outer(np.arange(100) / RATE + start, [1.0, 3.0])).mean(axis=0) for start in range(5)]
        assert np.abs(got[2][:, [0, 8]] - wanted).max() < 0.05, "means of whole windows"


def test_a_long_pause_within_the_gap_costs_no_time_and_is_counted_as_sparse():
    times = np.r_[steady(50), steady(100, EPOCH + 3e8)]
    stage = Windows(length=1.0, hop=0.02, rate=RATE, gap=1e9)
    got, _ = drive(stage, stream(times), keys=1)
    assert int(dict(got[6])["sparse"]) > 1_000_000_000
    assert len(got[1]) > 50


def test_many_keys_may_end_a_window_at_once():
    keys = 500
    slots, times = np.tile(np.arange(keys), 100), np.repeat(steady(100), keys)
    samples = stream(times, slots=slots)
    got, _ = drive(Windows(length=2.0, hop=1.0, rate=RATE), samples, keys=keys, cuts=[99 * keys])
    assert got[0].tolist() == list(range(keys)) and set(got[1]) == {EPOCH + 2.0}
    assert got[4].tolist() == list(range(99 * keys, 100 * keys))


def test_a_batch_may_give_more_rows_than_fit_in_memory_at_once(monkeypatch):
    whole, _ = drive(Windows(length=1.0, hop=0.02, rate=RATE), stream(steady(300)), keys=1)
    monkeypatch.setattr("streamjobs.stages.windows.MOST_BYTES", 1)
    piecewise, _ = drive(Windows(length=1.0, hop=0.02, rate=RATE), stream(steady(300)), keys=1)
    assert len(whole[1]) == 251 and same_bits(whole, piecewise)


def test_the_most_frequent_label_wins_and_the_lowest_at_ties():
    samples = list(stream(steady(100)))
    L = np.full((100, 1), np.nan)
    L[:10], L[10:20], L[20:25] = 5.0, 2.0, 0.0
    samples[3] = L
    got, _ = drive(Windows(length=2.0, hop=2.0, rate=RATE), tuple(samples), keys=1)
    assert got[3].tolist() == [[2.0]]
    got, _ = drive(Windows(length=2.0, hop=2.0, rate=RATE, label="mean"), tuple(samples), keys=1)
    assert got[3][0, 0] == pytest.approx(70 / 25)


def test_samples_out_of_order_within_the_lateness_give_the_windows_of_the_sorted_stream():
    samples = stream(steady(500))
    arrival = np.argsort(samples[1] + np.random.default_rng(2).uniform(0, 0.5, 500), kind="stable")
    shuffled = (samples[0], *(column[arrival] for column in samples[1:4]), samples[0])
    ordered, _ = drive(Order(lateness=0.5), shuffled, keys=1)
    learn = np.full(len(ordered[1]), 3, np.int8)
    got, _ = drive(Windows(length=2.0, hop=1.0, rate=RATE), (*ordered[:5], learn), keys=1)
    expected, _ = drive(Windows(length=2.0, hop=1.0, rate=RATE), samples, keys=1)
    n = len(got[1])
    assert n >= len(expected[1]) - 1 and len(got[6]) == 0
    assert same_bits(got[1:4], [column[:n] for column in expected[1:4]])


def test_no_label_in_a_window_is_an_unknown_label():
    samples = list(stream(steady(100)))
    samples[3] = np.full((100, 1), np.nan)
    for label in ("majority", "mean"):
        got, _ = drive(Windows(length=2.0, hop=2.0, rate=RATE, label=label), tuple(samples), keys=1)
        assert np.isnan(got[3]).all() and got[3].shape == (1, 1)


def test_an_idle_channel_gives_finite_statistics_without_echo():
    samples = list(stream(steady(100)))
    samples[2] = np.full((100, 2), 0.1)
    got, _ = drive(Windows(length=2.0, hop=2.0, rate=RATE), tuple(samples), keys=1)
    by_name = dict(zip(statistics.names(["a", "b"]), got[2][0], strict=True))
    assert np.isfinite(got[2]).all()
    assert by_name["a_mean"] == pytest.approx(0.1) and by_name["b_log_sd"] == pytest.approx(np.log(1e-3))
    assert by_name["a_lower_quartile"] == by_name["a_upper_quartile"] == 0.0, "no rounding of the mean"
    assert by_name["a_echo_80ms"] == by_name["a_echo_160ms"] == by_name["a_echo_500ms"] == 0.0


def test_every_feature_has_a_name():
    fields = ["ax", "ay", "az"]
    assert len(statistics.names(fields)) == Windows(length=2.0, hop=1.0, rate=RATE).width_for(3) == 24


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [
        ({"length": 0.01}, "length"),
        ({"hop": 0.001}, "hop"),
        ({"rate": float("nan")}, "rate"),
        ({"gap": 0.001}, "gap"),
        ({"statistics": "all"}, "statistics"),
        ({"label": "last"}, "label"),
        ({"length": 1e9}, "length"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(wrong, setting):
    with pytest.raises(SettingError, match=setting):
        Windows(**{"length": 2.0, "hop": 1.0, "rate": 50.0, **wrong})


@pytest.mark.parametrize(("job", "fewest"), [(job_settings, 0.8), (of_people, 0.4)])
@pytest.mark.parametrize("stated", [None, 0.8, 0.6])
def test_windows_of_a_population_are_interpolated_unless_the_job_states_their_fewest_samples(job, fewest, stated):
    made = job(window={"length": "1s", "hop": "500ms", "rate": 10.0} | ({"fewest": stated} if stated else {}))
    assert composition_of(made).windows.fewest == (stated or fewest)
    assert passing_through(made, made.scaling).window.fewest == (stated or fewest)  # fit and check --sample, without it


def test_fewest_may_change_while_states_and_populations_stay():
    assert describe(Windows(length=2.0, hop=1.0, rate=RATE, fewest=0.4)) == "Windows(length=2.0, hop=1.0, rate=50.0)"
