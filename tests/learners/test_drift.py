"""The drift detectors against their slow references, and what they find and leave alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms import Learner, SettingError, learner_from
from algorithms.common.protocol import Array
from algorithms.drift.adwin import PER_SIZE, SIZES, AdwinState
from algorithms.drift.report import AFTER, ALARM, BEFORE, STATISTIC
from streamjobs.learner_checks.states import joined, same_outputs, same_state
from tests.reference import drift as reference
from tests.sizes import first_fast

DETECTORS = ("page_hinkley", "adwin", "window_ratio")


def watch(detector: Learner, values: Any) -> Array:
    """Its four columns for one stream."""
    X = np.reshape(values, (-1, 1))
    return detector.run(detector.init(dim=1, targets=0, seed=0), X)[1].features


def alarms(detector: Learner, values: Any) -> Array:
    return np.flatnonzero(watch(detector, values)[:, ALARM] == 1)


def ls_errors(n: int, seed: int, level: float = 0.2) -> Array:
    """Stationary numbers in [0, 1], skewed as LS errors are; their mean is `level`."""
    return np.random.default_rng(seed).beta(6 * level, 6 * (1 - level), n)


def shifted(seed: int = 0, before: int = 300, after: int = 100) -> Array:
    """LS errors whose mean rises from .2 to .5."""
    return np.concatenate([ls_errors(before, seed), ls_errors(after, seed + 1, 0.5)])


@pytest.mark.parametrize("seed", first_fast(range(3)))
@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("page_hinkley", {"delta": 0.03, "threshold": 0.25, "min_between": 5}),
        pytest.param("page_hinkley", {"delta": 0.1, "threshold": 1.0, "min_between": 40}, marks=pytest.mark.slow),
        ("adwin", {"confidence": 0.002}),
        pytest.param("adwin", {"confidence": 0.5}, marks=pytest.mark.slow),
        ("window_ratio", {"short": 5, "long": 20, "ratio": 1.5, "floor": 0.02}),
        ("window_ratio", {"short": 3, "long": 3, "ratio": 1.1, "floor": 0.0}),
        ("page_hinkley", {"delta": 0.03, "threshold": 0.1, "min_between": 5, "min_rows": 60}),
        ("adwin", {"confidence": 0.5, "min_rows": 305}),
        ("window_ratio", {"short": 3, "long": 3, "ratio": 1.1, "floor": 0.0, "min_rows": 60}),
        ("page_hinkley", {"delta": 0.5, "threshold": 5.0, "min_between": 5, "min_rows": 30, "standardise": True}),
        ("adwin", {"confidence": 0.1, "standardise": True}),
        ("window_ratio", {"short": 3, "long": 3, "ratio": 1.2, "floor": 0.5, "standardise": True}),
    ],
)
def test_a_detector_agrees_with_its_slow_reference(name: str, chosen: dict[str, Any], seed: int) -> None:
    values = shifted(seed)
    expected = getattr(reference, name)(values, **chosen)
    got = watch(learner_from(name, chosen), values)
    assert expected[:, ALARM].any()
    np.testing.assert_array_equal(got[:, ALARM], expected[:, ALARM])
    columns = [STATISTIC, BEFORE, AFTER]
    if name == "adwin":  # where two cuts are equally strong rounding chooses
        columns = [STATISTIC]
        same = np.isclose(got[:, BEFORE], expected[:, BEFORE], equal_nan=True)
        assert same.mean() > 0.99
    np.testing.assert_allclose(got[:, columns], expected[:, columns], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", DETECTORS)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(cut=st.integers(0, 400), gaps=st.lists(st.integers(0, 399), max_size=20))
def test_splits_and_gaps_change_nothing(name: str, cut: int, gaps: list[int]) -> None:
    """A gap is rows without a number, or no rows at all: neither is drift, neither is remembered."""
    detector, values = learner_from(name, {}), shifted()[:, None]
    fresh = detector.init(dim=1, targets=0, seed=0)
    whole, whole_out = detector.run(fresh, values)
    state, first = detector.run(fresh, values[:cut])
    state, second = detector.run(state, values[cut:])
    same_state(state, whole, "after a split")
    same_outputs(joined([first, second]), whole_out, "after a split")

    holes = np.insert(values, sorted(gaps), np.nan, axis=0)
    state, out = detector.run(fresh, holes)
    there = np.isfinite(holes[:, 0])
    assert np.isnan(out.features[~there]).all()
    np.testing.assert_array_equal(out.features[there], whole_out.features)
    same_state(state, whole, "with gaps")


@pytest.mark.parametrize(("name", "within"), [("page_hinkley", 5), ("adwin", 45), ("window_ratio", 10)])
def test_a_rise_of_the_mean_is_found_within_rows(name: str, within: int) -> None:
    delays, before, after = [], [], []
    for seed in range(0, 100, 2):
        columns = watch(learner_from(name, {}), shifted(seed))[300:]
        alarmed = np.flatnonzero(columns[:, ALARM] == 1)
        delays.append(int(alarmed[0]) if len(alarmed) else 100)
        assert name != "adwin" or len(alarmed) <= 2
        if len(alarmed):
            before.append(columns[alarmed[0], BEFORE])
            after.append(columns[alarmed[0], AFTER])
    missed = delays.count(100)
    print(f"{name}: rows to the alarm, median {np.median(delays)}, most {max(delays)}; {missed} of 50 missed")
    assert missed <= 1
    assert np.median(delays) <= within
    assert np.mean(before) == pytest.approx(0.2, abs=0.08)
    assert np.mean(after) == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize(
    ("name", "chosen", "most"),
    [
        ("page_hinkley", {"delta": 0.1, "threshold": 1.0}, 0.01),
        ("adwin", {}, 0.0005),
        ("window_ratio", {}, 0.01),
    ],
)
def test_stationary_noise_alarms_rarely(name: str, chosen: dict[str, Any], most: float) -> None:
    rate = len(alarms(learner_from(name, chosen), ls_errors(50_000, seed=9))) / 50_000
    print(f"{name}: {rate:.5f} false alarms a row on stationary noise")
    assert rate <= most


@pytest.mark.parametrize("name", DETECTORS)
def test_an_idle_sensor_is_no_drift(name: str) -> None:
    """LS errors of almost nothing, as an idle sensor has them, however much they vary in ratio; and constant ones."""
    tiny = 10.0 ** np.random.default_rng(0).uniform(-15, -4, 3000)
    assert not len(alarms(learner_from(name, {}), tiny))
    assert not len(alarms(learner_from(name, {}), np.full(3000, 0.4)))


@pytest.mark.parametrize(("name", "notices"), [("page_hinkley", False), ("window_ratio", False), ("adwin", True)])
def test_only_adwin_calls_a_fall_a_change(name: str, notices: bool) -> None:
    columns = watch(learner_from(name, {}), np.repeat([0.6, 0.1], [300, 50]) + 0.02 * ls_errors(350, 0))
    alarmed = np.flatnonzero(columns[:, ALARM] == 1)
    assert len(alarmed) == notices
    assert not notices or columns[alarmed[0], AFTER] < columns[alarmed[0], BEFORE]


@pytest.mark.parametrize("min_between", [1, 5, 12])
def test_page_hinkley_keeps_its_distance_between_alarms(min_between: int) -> None:
    values = np.tile(np.repeat([0.0, 1.0], 2), 100)
    alarmed = alarms(learner_from("page_hinkley", {"min_between": min_between}), values)
    assert len(alarmed) > 10
    assert alarmed[0] >= min_between - 1
    assert np.diff(alarmed).min() >= min_between


def test_page_hinkley_forgets_slow_evidence() -> None:
    slow = 0.2 + np.linspace(0, 0.3, 400)
    assert len(alarms(learner_from("page_hinkley", {}), slow))
    assert not len(alarms(learner_from("page_hinkley", {"forget": 0.5}), slow))
    assert len(alarms(learner_from("page_hinkley", {"forget": 0.5}), shifted()))


def test_adwin_keeps_its_buckets_within_bounds_and_drops_the_oldest_when_full() -> None:
    detector = learner_from("adwin", {})
    sizes = np.repeat(2.0 ** np.arange(SIZES - 1, -1, -1), PER_SIZE)
    full = AdwinState(np.column_stack([sizes, np.full(len(sizes), 0.5), np.zeros(len(sizes))]), int(sizes.sum()))
    state, out = detector.run(full, np.full((64, 1), 0.5))
    assert not out.features[:, ALARM].any()
    assert len(state.buckets) <= PER_SIZE * SIZES
    assert state.buckets[:, 0].sum() == sizes.sum() + 64 - 2.0**SIZES
    assert (np.diff(state.buckets[:, 0]) <= 0).all()
    long, _ = detector.run(detector.init(dim=1, targets=0, seed=0), ls_errors(100_000, 1)[:, None])
    assert len(long.buckets) <= PER_SIZE * 17
    assert detector.state_bytes(1, 0) >= long.buckets.nbytes


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_watches_one_number(name: str) -> None:
    with pytest.raises(SettingError, match="dim must be 1, the watched number; got 3"):
        learner_from(name, {}).init(dim=3, targets=0, seed=0)


@pytest.mark.parametrize("name", DETECTORS)
def test_the_first_rows_raise_no_alarm_and_later_changes_do(name: str) -> None:
    values = np.concatenate([ls_errors(60, 0, 0.1), ls_errors(140, 1, 0.8), ls_errors(100, 2, 0.1), ls_errors(60, 3, 0.9)])
    usual, late = alarms(learner_from(name, {}), values), alarms(learner_from(name, {"min_rows": 120}), values)
    assert (usual < 120).any()
    assert (late >= 120).all()
    assert (late >= 300).any()


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("page_hinkley", {"delta": 0.5, "threshold": 5.0, "min_rows": 30}),
        ("adwin", {"confidence": 0.1}),
        ("window_ratio", {"floor": 0.5, "ratio": 1.5}),
    ],
)
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_standardised_thresholds_find_the_same_in_any_unit(name: str, chosen: dict[str, Any], factor: float) -> None:
    detector, values = learner_from(name, chosen | {"standardise": True}), shifted()
    one, other = watch(detector, values), watch(detector, values * factor)
    assert one[:, ALARM].any()
    np.testing.assert_array_equal(other[:, ALARM], one[:, ALARM])
    np.testing.assert_allclose(other[:, [BEFORE, AFTER]], factor * one[:, [BEFORE, AFTER]], rtol=1e-7, atol=1e-9 * factor)
    assert np.nanmax(one[one[:, ALARM] == 1][:, AFTER]) == pytest.approx(0.5, abs=0.2)  # in units of the values


@pytest.mark.parametrize("name", DETECTORS)
def test_a_state_has_a_scale_only_where_values_are_standardised(name: str) -> None:
    plain, scaled = (learner_from(name, {"standardise": on}).init(dim=1, targets=0, seed=0) for on in (False, True))
    assert scaled._fields == (*plain._fields, "scale")
    detector = learner_from(name, {"standardise": True})
    for broken in ([0.0, -1.0, 3.0], [0.0, 1.0, -1.0], [0.0, 1.0, 0.5]):
        with pytest.raises(ValueError, match="scale: expected mean, variance and a count of rows"):
            detector.run(scaled._replace(scale=np.array(broken)), [[1.0]])
