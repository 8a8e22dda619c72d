"""[source] counters: readings of meters become rates, in any batches, after a crash, beside filled numbers."""

import json
import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import last_event
from streamjobs.core.messages import Stored
from streamjobs.errors import SnapshotError
from streamjobs.job_files import load_job
from streamjobs.stages.sensors.counters import Counters
from tests.commands.jobs import command, problems, table
from tests.core.driving import fresh, in_parts, same_bits
from tests.core.streams import START, TOPIC, Worker, values
from tests.core.streams import settings as job_settings
from tests.sizes import examples

SAMPLES = {
    "window": None,
    "drift": None,
    "learner": {"name": "okfeb", "rank": 3, "budget": 5},
    "scaling": {"method": "none"},
}


def job(counters=("kwh",), missing="dlq", **sections) -> Job:
    source = {"topic": TOPIC, "fields": ["kwh", "volt"], "time": "ts", "missing": missing, "counters": list(counters)}
    if not counters:
        del source["counters"]
    return Job.from_settings(job_settings(**{**SAMPLES, **sections, "source": source}))


def record(offset, kwh, volt, key=b"p", at=None):
    body = {"kwh": kwh, "volt": volt, "ts": START + (offset if at is None else at)}
    return Stored(TOPIC, 0, offset, int((START + offset) * 1000), key, json.dumps(body).encode())


def naive(times, readings):
    """The definition, for one key and counter: rates, and which readings have one."""
    rates, known, last, since = [], [], None, None
    for at, reading in zip(times, readings, strict=True):
        if math.isnan(reading):
            rates.append(reading)
            known.append(True)
        elif last is None or at <= since:
            rates.append(reading)
            known.append(False)
        else:
            rates.append((reading - last if reading >= last else reading) / (at - since))
            known.append(True)
        if not math.isnan(reading) and (last is None or at > since):
            last, since = reading, at
    return rates, known


@settings(derandomize=True, deadline=None, max_examples=examples(60))
@given(seed=st.integers(0, 10**6), cut=st.integers(0, 40))
def test_the_stage_is_its_definition_in_any_batches_and_after_a_restart(seed, cut):
    rng = np.random.default_rng(seed)
    stage, n = Counters(columns=(0, 2)), 40
    X = np.cumsum(rng.integers(0, 5, (n, 3)), axis=0).astype(float)
    X[rng.random((n, 3)) < 0.1] = 1.0  # starts over
    X[rng.random((n, 3)) < 0.2] = np.nan
    times, slots = 1e9 + np.cumsum(rng.integers(-1, 4, n)).astype(float), rng.integers(0, 2, n)
    start = fresh(stage, 3, 1)

    rates, known = whole = in_parts(stage, start, [], slots, times, X)
    assert same_bits(whole, in_parts(stage, start, [cut], slots, times, X))
    assert np.array_equal(rates[:, 1], X[:, 1], equal_nan=True)
    for slot in range(2):
        mine = slots == slot
        expected = [naive(times[mine], X[mine, column]) for column in (0, 2)]
        good = np.array([one[1] for one in expected]).reshape(2, -1).all(axis=0)
        assert known[mine].tolist() == good.tolist()
        of_columns = np.array([one[0] for one in expected]).reshape(2, -1).T
        assert np.array_equal(rates[mine][:, [0, 2]][good], of_columns[good], equal_nan=True)


def test_a_sample_without_a_rate_is_left_out_and_counted():
    records = [record(n, 5e5 + 2.0 * n, 230.0) for n in range(400)]
    again, started_over = record(400, 5e5 + 800, 230.0, at=399), record(401, 1.0, 230.0, at=400.5)
    report = advance(job(), Live(job()), [*records, again, started_over]).report
    assert report.skipped == {"reading": 2} and report.rows == 400  # 399 rates, and one from 0


def test_a_crash_a_redelivery_and_missing_readings_give_the_same_bits():
    made = job(missing="hold")
    rng = np.random.default_rng(2)
    kwh = np.cumsum(rng.gamma(4.0, 0.25, 240))
    rows = [(None if rng.random() < 0.2 else value, 230 + rng.normal()) for value in kwh]
    records = [record(n, *row, key=b"p%d" % (n % 3)) for n, row in enumerate(rows)]
    whole, crashing = Worker(made), Worker(made)
    expected, got = values(whole.apply(records)), []
    assert sum(one[0] == "features" for one in expected) > 200
    for at, one in enumerate(records):
        got += values(crashing.apply([one]))
        if at % 40 == 39:
            crashing.checkpoint()
            crashing.apply(records[at + 1 : at + 6])  # not stored
            crashing.crash()
    for sink in ("features", "predictions", "dlq"):
        assert [one for one in got if one[0] == sink] == [one for one in expected if one[0] == sink]
    for worker in (whole, crashing):
        worker.checkpoint()
    assert whole.store == crashing.store
    for key, data in whole.store.items():
        newest = max(one.offset for one in records if one.key == key)
        assert last_event(made, data)[0] == START + newest
        assert last_event(job(missing="dlq"), data)[0] == START + newest  # a job that fills no more reads the state
        with pytest.raises(SnapshotError, match="another job"):
            last_event(job(counters=()), data)


def test_a_state_is_read_where_numbers_are_filled_from_now_on_or_no_more():
    records = [record(n, 2.0 * n, 230.0) for n in range(30)]
    for before, after in (("dlq", "hold"), ("hold", "dlq")):
        store = {}
        for missing, part in ((before, records[:15]), (after, records[15:])):
            made = job(missing=missing)
            live = Live(made, store.get)
            report = advance(made, live, part).report
            assert (report.skipped, report.dead_lettered) == ({"reading": 1} if part[0].offset == 0 else {}, {})
            store.update(live.snapshots())


def test_what_counters_cannot_be_used_with_is_one_sentence():
    source = {"fields": ["a", "b"], "dim": None, "time": "ts"}
    (said,) = problems(table(source={**source, "counters": ["kwh"]}))
    assert "counters: 'kwh' is not one of fields with numbers" in said
    (said,) = problems(table(source={**source, "counters": ["a"], "lateness": "5s"}))
    assert "needs samples in order" in said
    listed = table(source={"x": "x", "dim": 3, "counters": ["x"]})
    del listed["source"]["fields"]
    (said,) = problems(listed)
    assert "counters names fields" in said


@pytest.mark.parametrize("own_key", [True, False])
def test_init_reads_a_meter_as_one_and_finds_a_leak(tmp_path, capsys, own_key):
    """Water meters of ten houses at quarter-hours, or one of them; the leak of a night is a rise that the level hides."""
    rng, began = np.random.default_rng(4), datetime(2026, 1, 5, tzinfo=UTC)
    houses = 10 if own_key else 1
    total = rng.uniform(10, 4000, houses).round(3)
    lines = ["house,time,m3,pressure" if own_key else "time,m3,pressure"]
    for n in range(96 * 28):
        use = rng.gamma(0.5, 0.02, houses) * (1 + math.sin(2 * math.pi * n / 96))
        use[0] += 0.3 if 96 * 25 <= n < 96 * 25 + 16 else 0.0
        total += use
        for house in range(houses):
            at = (began + timedelta(minutes=15 * n)).isoformat()
            lines.append((f"h{house}," if own_key else "") + f"{at},{total[house]:.4f},{4 + 0.1 * rng.normal():.2f}")
    (tmp_path / "water.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    made = tmp_path / "job.toml"
    assert command("init", made, "--sample", tmp_path / "water.csv") == 0
    assert "'m3': readings that only rise, or start over; counters gives x what they rose by" in capsys.readouterr().err
    source = load_job(made, env={}).source
    assert (source.counters, source.fields) == (["m3"], ["m3", "pressure"])
    key = ["--key", "house"] if own_key else ["--key-is", "h0"]
    assert command("replay", made, "--input", tmp_path / "water.csv", *key, "--output-dir", tmp_path / "out") == 0
    (path,) = (tmp_path / "out").glob("*alarms*")
    alarms = [json.loads(line)["value"] for line in path.read_text().splitlines()]
    leak = (began + timedelta(days=25)).timestamp()
    assert any(one["key"] == "h0" and leak <= one["start"] <= leak + 4 * 3600 for one in alarms)


@pytest.mark.parametrize("clock", ["seconds since it started", "a row's number"])
def test_init_leaves_out_what_rises_at_one_pace(tmp_path, clock):
    rng, began = np.random.default_rng(5), datetime(2026, 1, 5, tzinfo=UTC)
    lines = ["machine,time,uptime,temp"]
    for n in range(900):
        up = n * 60 + rng.normal() if clock.startswith("seconds") else n
        at = (began + timedelta(minutes=n)).isoformat()
        lines += [f"m{m},{at},{100 * m + up:.3f},{20 + rng.normal():.2f}" for m in range(3)]
    (tmp_path / "up.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    made = tmp_path / "job.toml"
    assert command("init", made, "--sample", tmp_path / "up.csv") == 0
    source = load_job(made, env={}).source
    assert (source.counters, source.fields) == (None, ["temp"])
