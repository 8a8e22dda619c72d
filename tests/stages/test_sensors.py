"""Rows of several sensors: what they hold, when they come, what is left out, and that batches and crashes change nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.common.protocol import SettingError
from streamjobs.core.state.valid import StateCheck
from streamjobs.errors import SnapshotError
from streamjobs.stages.sensors import Sensors
from tests.core.driving import drive, fresh, same_bits
from tests.reference import sensors as reference
from tests.sizes import examples

EPOCH = 1_700_000_000.0
OF = (
    reference.Sensor(2, 4.0, "linear", 1.0),
    reference.Sensor(1, 2.0, "hold", 1.5),
    reference.Sensor(1, 1.0, "linear", 3.0),
)
COLUMNS = ((0, 2), (2, 3), (3, 4))


def stage(rate=4.0, wait=2.0, lateness=0.0, of=OF) -> Sensors:
    return Sensors(
        names=tuple("abcdef"[: len(of)]),
        rate=rate,
        wait=wait,
        lateness=lateness,
        widths=tuple(one.width for one in of),
        rates=tuple(one.rate for one in of),
        between=tuple(one.between for one in of),
        gaps=tuple(one.gap for one in of),
    )


def columns_of(came, seed=0, slots=None):
    """Samples (sensor, time) as the stage takes them: slots, times, X, L, owner."""
    rng = np.random.default_rng(seed)
    n = len(came)
    X, L = np.full((n, 4), np.nan), rng.integers(0, 3, (n, 1)).astype(float)
    L[rng.random(n) < 0.5] = np.nan
    for at, (s, _) in enumerate(came):
        begin, end = COLUMNS[s]
        X[at, begin:end] = rng.normal(size=end - begin)
    times = np.array([time for _, time in came])
    return np.zeros(n, np.int64) if slots is None else np.array(slots, np.int64), times, X, L, np.arange(n)


# (sensor, half periods since its last sample): mostly regular, some twice, late, or after a pause; sensors may drift apart.
steps = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([2, 2, 2, 2, 4, 4, 1, 3, 8, 0, -1, -3, 14, 30, 90])),
    min_size=1,
    max_size=80,
)
ways = st.sampled_from([(4.0, 2.0, 0.0), (4.0, 2.0, 0.75), (10.0, 1.0, 0.0), (2.0, 5.0, 0.5), (3.0, 0.5, 0.0)])


def arrivals(steps, rate):
    now, came = [0, 0, 0], []
    for s, step in steps:
        now[s] += step
        came.append((s, EPOCH + now[s] / (2 * rate)))
    return came


@settings(derandomize=True, deadline=None, max_examples=examples(200))
@given(steps=steps, way=ways)
def test_rows_are_those_of_the_definition(steps, way):
    rate, wait, lateness = way
    came, made = arrivals(steps, rate), stage(rate, wait, lateness)
    columns = columns_of(came)
    start = fresh(made, 4, 1)
    work = made.workspace(start)
    made.load(work, 0, start)
    got = made.advance(work, *columns)
    samples = [
        (s, time, columns[2][n, slice(*COLUMNS[s])].tolist(), float(columns[3][n, 0])) for n, (s, time) in enumerate(came)
    ]
    rows, skipped, gaps = reference.sensors(samples, OF, rate=rate, wait=wait, lateness=lateness, most=made.most)
    assert got.times.tolist() == [row.time for row in rows]
    assert same_bits(got.X, np.array([row.x for row in rows]).reshape(-1, 4))
    assert same_bits(got.L[:, 0], np.array([row.label for row in rows]))
    assert got.owner.tolist() == [row.owner for row in rows]
    assert got.skipped == skipped and got.gaps.tolist() == gaps
    assert got.samples.tolist() == [sum(s == one for s, _ in came) for one in range(3)]


@settings(derandomize=True, deadline=None, max_examples=examples(80))
@given(steps=steps, way=ways, data=st.data())
def test_any_split_mix_and_crash_gives_the_same_bits(steps, way, data):
    rate, wait, lateness = way
    n = len(steps)
    slots = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    cuts = data.draw(st.lists(st.integers(0, n), max_size=5))
    made, samples = stage(rate, wait, lateness), columns_of(arrivals(steps, rate), slots=slots)
    whole = drive(made, samples, keys=3)
    assert same_bits(drive(made, samples, keys=3, cuts=cuts), whole)
    assert same_bits(drive(made, samples, keys=3, cuts=range(1, n), reload=True), whole)
    for key in range(3):
        mine = samples[0] == key
        if mine.any():
            alone, (state,) = drive(made, (np.zeros(mine.sum(), np.int64), *(c[mine] for c in samples[1:])), keys=1)
            of_key = whole[0][0] == key
            assert all(same_bits(one, other[of_key]) for one, other in zip(alone[1:6], whole[0][1:6], strict=True))
            assert same_bits(state, whole[1][key])


def test_a_burst_of_rows_beyond_the_room_for_them_loses_none():
    """One sample of a slow sensor lets thousands of rows go."""
    of = (reference.Sensor(1, 500.0, "linear", 1.0), reference.Sensor(1, 0.1, "linear", 30.0))
    made = stage(500.0, 12.0, of=of)
    times = EPOCH + np.arange(5001) / 500
    n = len(times)
    X = np.full((n + 2, 2), np.nan)
    X[0, 1], X[1 : n + 1, 0], X[n + 1, 1] = 0.0, np.arange(n), 10.0
    columns = np.zeros(n + 2, np.int64), np.concatenate([[EPOCH], times, [EPOCH + 10]]), X, X[:, :1], np.arange(n + 2)
    whole, states = drive(made, columns, keys=1)
    assert len(whole[1]) == n and same_bits(whole[2][:, 0], np.arange(n, dtype=float))
    np.testing.assert_allclose(whole[2][:, 1], np.arange(n) / 500, atol=1e-6)  # seconds: event times have 2e-7 of them
    assert same_bits(drive(made, columns, keys=1, cuts=range(1, n + 2, 7)), (whole, states))


def test_a_sensor_that_never_comes_is_waited_for_no_longer_than_stated_and_is_reported():
    came = [(s, EPOCH + n / 4) for n in range(40) for s in (0, 1)]
    columns = columns_of(came)
    made = stage()
    start = fresh(made, 4, 1)
    work = made.workspace(start)
    made.load(work, 0, start)
    got = made.advance(work, *columns)
    assert len(got.times) == 0 and got.gaps.tolist() == [0, 0, 1]
    state = made.save(work, 0, start)
    assert len(state.times) <= 2 * 9, "what waits is bounded by `wait`"
    assert got.skipped == {"unpaired": 2 * (40 - 9)}


def test_a_held_sensor_that_is_late_counts_for_the_rows_after_it():
    of = (reference.Sensor(2, 4.0, "linear", 1.0), reference.Sensor(1, 1.0, "hold", 10.0))
    made = stage(4.0, 0.5, of=of)
    came = [(1, EPOCH), *((0, EPOCH + n / 4) for n in range(9)), (1, EPOCH + 1.0), (0, EPOCH + 2.25), (0, EPOCH + 2.5)]
    columns = columns_of([(s, time) for s, time in came])
    X = columns[2][:, :3]
    (_, times, rows, *_), _ = drive(made, (columns[0], columns[1], X, *columns[3:]), keys=1)
    held = dict(zip(times.tolist(), rows[:, 2].tolist(), strict=True))
    assert held[EPOCH + 1.5] == X[0, 2] and held[EPOCH + 1.75] == X[10, 2]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"last_times": np.array([-1.0, 0.0, 0.0])}, "last_times"),
        ({"newest": np.array([np.nan, 0.0, 0.0])}, "newest"),
        ({"lacking": np.array([0, 2, 0], np.int8)}, "lacking"),
        ({"row": -1}, "row"),
        ({"last_X": np.full(4, np.nan)}, "last_X"),
        ({"last_L": np.full((3, 1), 7.0)}, "last_L"),
        ({"made": -3.0}, "made"),
        ({"times": np.array([2.0, 1.0])}, "times"),
    ],
)
def test_a_state_that_the_loop_could_not_have_left_is_refused(change, what):
    made = stage()
    begun = fresh(made, 4, 1)
    two = begun._replace(times=np.ones(2), sensor=np.zeros(2, np.int64), X=np.zeros((2, 2)), L=np.zeros((2, 1)))
    check = StateCheck({"sensors": made}, {"sensors": begun})
    check({"sensors": two}, 2)
    with pytest.raises(SnapshotError, match=rf"sensors\.{what}"):
        check({"sensors": two._replace(**change)}, 2)


def test_states_of_many_keys_are_derived_as_those_of_one():
    made = stage()
    begun = fresh(made, 4, 1)
    work = made.workspace(begun, slots=3)
    for slot, sensors in enumerate(([0, 2, 0], [], [0, 3])):
        n = len(sensors)
        state = begun._replace(times=np.ones(n), sensor=np.array(sensors, np.int64), X=np.zeros((n, 2)), L=np.zeros((n, 1)))
        if slot < 2:
            made.load(work, slot, state)
        else:
            work["sensor"][slot, :n], work["counts"][slot] = sensors, n
    wanted = work["held"].copy()
    work["held"][:] = 9
    assert made.derive_slots(work, np.arange(3)).tolist() == [True, True, False]
    assert wanted[:2].tolist() == work["held"][:2].tolist() == [[2, 0, 1], [0, 0, 0]]


def test_more_waiting_samples_than_may_be_are_refused():
    made = stage()
    begun = fresh(made, 4, 1)
    n = made.most[0] + 1
    many = begun._replace(times=np.ones(n), sensor=np.zeros(n, np.int64), X=np.zeros((n, 2)), L=np.zeros((n, 1)))
    work = made.workspace(begun)
    with pytest.raises(ValueError, match=r"expected at most .* samples of the sensors"):
        made.load(work, 0, many)
    with pytest.raises(ValueError, match="expected sensors 0 to 2"):
        made.load(work, 0, many._replace(sensor=np.full(n, 3)))


def test_settings_out_of_range_are_refused():
    with pytest.raises(SettingError, match="wait must be"):
        stage(wait=float("nan"))
    with pytest.raises(SettingError, match="between must be"):
        stage(of=(reference.Sensor(1, 1.0, "spline", 1.0),))
