"""The rich and the gravity-aligned statistics: what they are, what leaves them alone, and that splits change nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.common.protocol import SettingError
from streamjobs.stages import statistics
from streamjobs.stages.statistics import loops
from streamjobs.stages.windows import Windows
from tests.core.driving import drive, same_bits
from tests.reference import statistics as reference
from tests.sizes import examples, first_fast

RATE, ROOM = 50.0, 150
SETS = ("rich", "gravity")
AXES = ["ax", "ay", "az", "wx", "wy", "wz"]


def described(kind, samples, rate=RATE, room=ROOM):
    windows = np.full((1, room, samples.shape[1]), np.nan)  # what lies beyond the samples must not be read
    windows[0, : len(samples)] = samples
    out = np.full((1, statistics.width(kind, samples.shape[1])), np.nan)
    statistics.describe(kind, windows, np.array([len(samples)]), rate, out)
    return out[0]


def by_name(kind, samples, fields=AXES, **how):
    return dict(zip(statistics.names(fields, kind), described(kind, samples, **how), strict=True))


def motion(n=100, dim=6, seed=0):
    """Something like a wrist: gravity, a rhythm and noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(n) / RATE
    beat = np.sin(2 * np.pi * rng.uniform(0.5, 8) * t[:, None] + rng.uniform(0, 6, dim)) * rng.uniform(0, 2, dim)
    return beat + np.cumsum(rng.normal(size=(n, dim)), axis=0) / 10 + rng.normal(size=dim)


def rotation(seed):
    q, r = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    q *= np.sign(np.diag(r))
    return q * np.linalg.det(q)  # of determinant 1


@pytest.mark.parametrize("kind", SETS)
@settings(derandomize=True, deadline=None, max_examples=examples(60))
@given(
    n=st.integers(4, 150),
    dim=st.integers(3, 8),
    rate=st.sampled_from([0.7, 5.0, 12.5, 20.0, 50.0, 100.0]),
    room=st.sampled_from([150, 171, 300]),
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_every_number_is_that_of_the_definition(kind, n, dim, rate, room, seed, scale):
    samples = motion(n, dim, seed) * scale
    expected = getattr(reference, kind)(samples, rate, reference.spectrum_size(room))
    got = described(kind, samples, rate, room)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * max(1.0, scale))


@pytest.mark.parametrize("dim", [1, 2])
def test_one_or_two_channels_have_no_triple(dim):
    samples = motion(dim=dim)
    np.testing.assert_allclose(described("rich", samples), reference.rich(samples, RATE, 256), rtol=1e-9, atol=1e-9)
    assert len(described("rich", samples)) == 14 * dim


def test_the_sizes_and_names_of_the_sets():
    for kind, width in (("simple", 48), ("rich", 100), ("gravity", 89), ("rich+gravity", 189)):
        names = statistics.names(AXES, kind)
        assert len(names) == len(set(names)) == width
        assert Windows(length=2.0, hop=1.0, rate=RATE, statistics=kind).width_for(6) == width
    for dim in range(3, 14):
        fields = [f"c{i}" for i in range(dim)]
        for kind in statistics.KINDS:
            assert len(set(statistics.names(fields, kind))) == statistics.width(kind, dim)


def test_both_sets_are_the_one_and_then_the_other():
    samples = motion(dim=7)
    both = np.concatenate([described("rich", samples), described("gravity", samples)])
    assert described("rich+gravity", samples).tolist() == both.tolist()


def test_a_sine_is_found_with_its_frequency_and_periodic():
    t = np.arange(100) / RATE
    numbers = by_name("rich", np.outer(np.sin(2 * np.pi * 2.5 * t), np.ones(3)), AXES[:3])
    assert numbers["ax_frequency"] == pytest.approx(2.5, abs=RATE / 256)
    assert numbers["ax_share"] == pytest.approx(1.0, abs=0.05) and numbers["ax_echo"] == pytest.approx(0.8, abs=0.02)
    bands = [numbers[f"ax_log_{band}"] for band in ("below_1hz", "1_2hz", "2_4hz", "4_10hz")]
    assert np.argmax(bands) == 2 and numbers["ax_ay_correlation"] == pytest.approx(1.0)
    assert numbers["ax_log_2_4hz"] == pytest.approx(numbers["ax_log_sd"], abs=0.05)


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("value", [0.0, 0.1, -9.81, 1e9])
def test_a_constant_signal_has_no_rhythm_and_no_spread(kind, value):
    numbers = by_name(kind, np.full((100, 6), value))
    assert np.isfinite(list(numbers.values())).all()
    for name, number in numbers.items():
        if name.endswith(("frequency", "share", "echo", "correlation", "quartile", "quantile_5", "quantile_95")):
            assert number == 0.0, name
        elif "hz" in name or name.endswith("log_sd"):
            assert number == np.log(1e-3), name


def test_a_silent_axis_leaves_no_trace_of_its_neighbour():
    samples = motion()
    samples[:, 1], samples[:, 0] = 0.0, samples[:, 0] * 1e8  # the two share one transform
    numbers = by_name("rich", samples)
    assert [numbers[f"ay_{name}"] for name in ("frequency", "share", "echo")] == [0.0, 0.0, 0.0]
    assert numbers["ay_log_2_4hz"] == np.log(1e-3)
    quiet = by_name("rich", np.roll(samples, 1, axis=1))
    np.testing.assert_allclose(
        [numbers[f"az_{name}"] for name in statistics.RICH[7:]],
        [quiet[f"wx_{name}"] for name in statistics.RICH[7:]],
        rtol=1e-9,
    )


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e9, 1e150, 1e300])
def test_huge_and_tiny_values_stay_finite(kind, scale):
    assert np.isfinite(described(kind, np.clip(motion(), -1, 1) * scale)).all()


@settings(derandomize=True, deadline=None, max_examples=examples(40))
@given(seed=st.integers(0, 10_000), turn=st.integers(0, 10_000), dim=st.sampled_from([3, 6, 7, 9]))
def test_turning_the_sensor_changes_nothing_gravity_aligned(seed, turn, dim):
    samples, q = motion(dim=dim, seed=seed), rotation(turn)
    turned = samples.copy()
    for at in range(0, dim - 2, 3):
        turned[:, at : at + 3] = samples[:, at : at + 3] @ q.T
    np.testing.assert_allclose(described("gravity", turned), described("gravity", samples), rtol=1e-7, atol=1e-7)
    assert np.abs(described("rich", turned) - described("rich", samples)).max() > 0.1


def test_a_sensor_at_rest_or_in_free_fall_may_be_turned_too():
    spinning = motion(seed=3)
    spinning[:, :3] = [0.3, -0.5, 0.8]  # acceleration does not change at all
    weightless = motion(seed=4)
    weightless[:, :3] -= weightless[:, :3].mean(axis=0)  # and here nothing says where up is
    weightless[:, :3] -= weightless[:, :3].mean(axis=0)
    for samples in (spinning, weightless):
        q = rotation(5)
        turned = np.hstack([samples[:, :3] @ q.T, samples[:, 3:] @ q.T])
        np.testing.assert_allclose(described("gravity", turned), described("gravity", samples), rtol=1e-7, atol=1e-7)


def test_mirrored_axes_keep_all_but_the_turning_about_the_vertical():
    samples = motion(seed=7)
    mirrored = samples * np.array([-1, 1, 1, 1, -1, -1])
    one, other = by_name("gravity", samples), by_name("gravity", mirrored)
    changed = {name for name in one if abs(one[name] - other[name]) > 1e-9}
    assert changed and all("wx_wy_wz_vertical" in name for name in changed)


@pytest.mark.parametrize("kind", first_fast(SETS))
@settings(derandomize=True, deadline=None, max_examples=25)
@given(cuts=st.lists(st.integers(0, 400), max_size=6), data=st.data())
def test_any_split_mix_and_crash_gives_the_same_bits(kind, cuts, data):
    n = 400
    slots = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    times = 1.7e9 + np.arange(n) / RATE + 5.0 * (np.arange(n) >= 250)  # a pause within
    learn = np.full(n, 3, np.int8)
    samples = (slots, times, motion(n), np.zeros((n, 1)), np.arange(n), learn)
    stage = Windows(length=0.6, hop=0.2, rate=RATE / 2, gap=1.0, statistics=kind)
    whole = drive(stage, samples, keys=2)
    assert same_bits(drive(stage, samples, keys=2, cuts=cuts), whole)
    assert same_bits(drive(stage, samples, keys=2, cuts=range(0, n, 7), reload=True), whole)
    assert dict(whole[0][6]).get("gap") and np.isfinite(whole[0][2]).all()


def test_a_window_does_not_know_its_neighbours():
    samples = np.stack([np.pad(motion(seed=seed), ((0, 50), (0, 0))) for seed in range(20)])
    counts = np.arange(80, 100)
    for kind in statistics.KINDS:
        together, alone = (np.empty((20, statistics.width(kind, 6))) for _ in range(2))
        statistics.describe(kind, samples, counts, RATE, together)
        for i in range(20):
            statistics.describe(kind, samples[i : i + 1], counts[i : i + 1], RATE, alone[i : i + 1])
        assert same_bits(together, alone)


@pytest.mark.parametrize("n", (1, 2, 100, loops.FEW, loops.FEW + 1, 400))
def test_both_ways_to_sort_give_the_same(n):
    rng = np.random.default_rng(n)
    for values in (rng.normal(size=n), rng.integers(0, 5, n).astype(float), np.full(n, -np.inf), np.full(n, np.nan)):
        ordered, room = np.append(values, np.nan), np.zeros(n + 1)
        loops._sort(ordered, n, room, np.zeros(n, np.int64))
        ordered = room if n <= loops.FEW else ordered
        assert np.array_equal(ordered[:n], np.sort(values), equal_nan=True)


def test_gravity_without_three_axes_is_refused():
    with pytest.raises(SettingError, match="statistics"):
        Windows(length=2.0, hop=1.0, rate=RATE, statistics="gravity").width_for(2)
