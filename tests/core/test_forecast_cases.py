"""What the page on forecasts states of gaps, disorder, idle keys, sensors and pools: by experts and by a learner."""

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from streamjobs.core.job import Job
from streamjobs.core.live.stored import starting_from
from streamjobs.core.messages import Output, Stored
from tests.core import sensor_jobs
from tests.core.people import job_of_people
from tests.core.phones import START as SENSORS_START
from tests.core.streams import START, TOPIC, Worker, record, samples, settings, values

SOURCE = {"topic": TOPIC, "fields": ["ax", "ay"], "time": "ts"}
PLAIN = {"window": None, "drift": None, "head": None, "learner": {"name": "scaling"}, "sinks": {}}
AHEAD = {"ahead": [1, 3]}
MAKERS: dict[str, dict[str, Any]] = {"experts": AHEAD, "learner": {**AHEAD, "learner": {"name": "krls", "budget": 8}}}
each_maker = pytest.mark.parametrize("maker", MAKERS)
each_spacing = pytest.mark.parametrize("every", ["100ms", None])


def job(maker: str, source: dict[str, Any] | None = None, every: str | None = None, **sections: Any) -> Job:
    section = MAKERS[maker] | ({} if every is None else {"every": every})
    table = {"source": SOURCE | (source or {}), **PLAIN, "forecast": section}
    return Job.from_settings(settings(**(table | sections)))


def told_of(outputs: list[Output], key: str = "p0") -> list[dict[str, Any]]:
    rows = [json.loads(one.value or b"") for one in outputs if one.sink == "forecasts"]
    return [row for row in rows if row["key"] == key]


def foreseen(told: list[dict[str, Any]]) -> list[Any]:
    """Everything of records but names of columns, numbers of rows and keys."""
    left_out = {"column"}
    return [[{k: v for k, v in one.items() if k not in left_out} for one in row["forecasts"]] for row in told]


def body(at: float) -> dict[str, float]:
    return {"ax": float(np.sin(at / 3)), "ay": float(np.cos(at / 5)), "ts": START + 0.1 * at}


def stream(times: list[float], key: bytes = b"p0") -> list[Stored]:
    """Samples at these times, each in units of a tenth of a second."""
    bodies = [body(at) for at in times]
    return [record(n, key, one)._replace(timestamp=round(1000 * one["ts"])) for n, one in enumerate(bodies)]


def judged_at_the_same_time(told: list[dict[str, Any]], every: float) -> int:
    """`due` is what the row `rows` intervals ago foresaw, and null where this row is missing; gives how many are null."""
    places = {round(row["ts"] / every): row["forecasts"] for row in told}
    missing = 0
    for row in told[3:]:
        for at, one in enumerate(row["forecasts"]):
            then = places.get(round(row["ts"] / every) - one["rows"])
            assert one["due"] == (None if then is None else then[at]["value"])
            assert one["ts"] == pytest.approx(row["ts"] + one["rows"] * every, abs=1e-3)
            missing += then is None
    return missing


@each_spacing
@each_maker
def test_records_out_of_order_within_the_lateness_give_the_forecasts_of_their_order(maker: str, every: str | None) -> None:
    times: list[float] = [float(n) for n in range(150) if n not in (70, 71)]
    mixed, random = list(times), np.random.default_rng(2)
    for at in range(0, len(mixed), 6):
        mixed[at : at + 6] = random.permutation(mixed[at : at + 6]).tolist()
    whole = told_of(Worker(job(maker, every=every)).apply(stream(times)))
    waiting = told_of(Worker(job(maker, {"lateness": "1s"}, every)).apply(stream(mixed)))
    assert mixed != times and len(waiting) > 130
    assert foreseen(waiting) == foreseen(whole)[: len(waiting)]
    assert [row["ts"] for row in waiting] == [row["ts"] for row in whole][: len(waiting)]


@each_spacing
@each_maker
def test_a_late_row_has_no_forecast_and_changes_none(maker: str, every: str | None) -> None:
    times = [float(n) for n in range(60)]
    one = job(maker, {"late": "predict_only"}, every)
    told = told_of(Worker(one).apply(stream([*times[:40], 10.5, *times[40:]])))
    assert [of["value"] for of in told[40]["forecasts"]] == [None] * 4
    assert foreseen([*told[:40], *told[41:]]) == foreseen(told_of(Worker(one).apply(stream(times))))


def test_rows_that_come_a_little_early_or_late_are_not_missing_and_those_between_them_are() -> None:
    random = np.random.default_rng(4)
    even = [body(float(n)) for n in range(300) if n not in (120, 121, 200)]
    uneven = [one | {"ts": one["ts"] + 0.033 * random.uniform(-1, 1) * (n > 0)} for n, one in enumerate(even)]
    of_both = [
        Worker(job("experts", every="100ms")).apply([record(n, b"p0", one) for n, one in enumerate(rows)])
        for rows in (even, uneven)
    ]
    expected, got = ([[one["value"] for one in row["forecasts"]] for row in told_of(told)] for told in of_both)
    assert got == expected and len(got) == 297


@pytest.mark.parametrize("pause", [0.094, 0.106])
def test_rows_that_are_closer_or_further_apart_than_stated_lack_none_but_missing_ones(pause: float) -> None:
    """A device that waits for the interval, and then measures, is as late with each row."""
    even = [body(float(n)) for n in range(300) if n not in (120, 121, 200)]
    rows = [one | {"ts": START + pause * round((one["ts"] - START) / 0.1)} for one in even]
    expected, got = (
        [[one["value"] for one in row["forecasts"]] for row in told_of(Worker(job("experts", every="100ms")).apply(stored))]
        for stored in ([record(n, b"p0", one) for n, one in enumerate(table)] for table in (even, rows))
    )
    assert got == expected and len(got) == 297


@each_maker
def test_a_row_that_is_skipped_for_a_missing_number_counts_as_missing(maker: str) -> None:
    times, lacking = [float(n) for n in range(120)], (50, 51, 80)
    records = [record(n, b"p0", body(at) | ({"ax": None} if n in lacking else {})) for n, at in enumerate(times)]
    skipping = job(maker, {"missing": "skip"}, "100ms")
    told = told_of(Worker(skipping).apply(records))
    assert len(told) == 117
    assert foreseen(told) == foreseen(told_of(Worker(skipping).apply(stream([at for at in times if at not in lacking]))))
    held = told_of(Worker(job(maker, {"missing": "hold"}, "100ms")).apply(records))
    assert len(held) == 120 and held[50]["forecasts"][0]["naive"] == body(49.0)["ax"]


@each_maker
def test_a_key_that_was_idle_for_longer_than_its_ttl_begins_without_a_past(maker: str) -> None:
    before, back = [float(n) for n in range(90)], [90.0 + 36_000 + n for n in range(60)]
    one = job(maker, every="100ms", state={"ttl": "1h"})
    told = told_of(Worker(one).apply(stream([*before, *back])))
    assert len(told) == 150
    assert foreseen(told[90:]) == foreseen(told_of(Worker(one).apply(stream(back))))
    assert all(of["due"] is None and of["ratio"] is None for of in told[90]["forecasts"])
    kept = told_of(Worker(job(maker, every="100ms")).apply(stream([*before, *back])))
    assert kept[90]["forecasts"][0]["ratio"] is not None, "without ttl it has its past"
    assert kept[90]["forecasts"][0]["due"] is None, "its forecasts came due while it was idle"


@each_maker
def test_keys_that_leave_memory_and_return_give_the_same_forecasts(maker: str) -> None:
    many, one = samples(1600, keys=40), job(maker, every="100ms")
    roomy, tight = Worker(one), Worker(one, most_bytes=1)
    for at in range(0, len(many), 200):
        expected = values(roomy.apply(many[at : at + 200]))
        assert sorted(values(tight.apply(many[at : at + 200]))) == sorted(expected)
        tight.checkpoint()
    assert tight.live.keys <= tight.live.most_slots == 16 < roomy.live.keys
    roomy.checkpoint()
    assert tight.store == roomy.store


def windows(maker: str) -> list[dict[str, Any]]:
    made = job(maker, window={"length": "1s", "hop": "500ms", "rate": 10.0})
    return told_of(Worker(made).apply(stream([float(n) for n in range(700) if not 300 <= n < 342])))


def sensors(maker: str) -> list[dict[str, Any]]:
    made = sensor_jobs.plain(learner={"name": "scaling"}, sinks={}, forecast=MAKERS[maker])
    return told_of(sensor_jobs.run(made, of_sensors())[0].outputs, "p")


def of_sensors() -> list[Stored]:
    """20 s of an accelerometer at 10 Hz and a thermometer at 2 Hz, which is off for three of them."""
    bodies = []
    for n in range(200):
        at = {"t": SENSORS_START + n / 10}
        bodies.append({"sensor": "acc", "x": float(np.sin(n / 4)), "y": float(np.cos(n / 7)), **at})
        if n % 5 == 0 and not 100 <= n < 130:
            bodies.append({"sensor": "temp", "deg": 20.0 + float(np.sin(n / 30)), **at})
    return [sensor_jobs.record(number, one) for number, one in enumerate(bodies)]


@pytest.mark.parametrize(("rows", "every"), [(windows, 0.5), (sensors, 0.1)])
@each_maker
def test_rows_that_are_missing_count_in_windows_and_in_joined_sensors(maker: str, rows: Any, every: float) -> None:
    told = rows(maker)
    gaps = [round((b["ts"] - a["ts"]) / every) - 1 for a, b in pairwise(told)]
    assert sum(gap > 0 for gap in gaps) == 1 and max(gaps) > 3
    columns = len(told[0]["forecasts"]) // 2
    assert judged_at_the_same_time(told, every) == columns * (1 + 3)


@each_maker
def test_joined_sensors_are_forecast_as_records_with_all_their_numbers(maker: str) -> None:
    """The same bits as of a job without [source.sensors] on the rows that were made, of which some are missing."""
    told = sensors(maker)
    rows = [[one["naive"] for one in row["forecasts"][::2]] for row in told]
    assert [one["column"] for one in told[0]["forecasts"][::2]] == ["acc.x", "acc.y", "temp.deg"]
    bodies = [dict(zip("xyz", row, strict=True)) | {"ts": of["ts"]} for row, of in zip(rows, told, strict=True)]
    plain = job(maker, {"fields": ["x", "y", "z"]}, "100ms")
    assert foreseen(told_of(Worker(plain).apply([record(n, b"p0", one) for n, one in enumerate(bodies)]))) == foreseen(told)
    assert told[-1]["forecasts"][0]["ratio"] is not None


@each_maker
def test_sensors_of_any_interval_have_rows_of_one(maker: str) -> None:
    """Samples of joined sensors need not be evenly spaced: rows are, so a day is the season, if it has few enough rows."""
    each = {"hall": {"fields": ["deg"], "rate": 0.01}, "roof": {"fields": ["deg"], "rate": 0.005}}
    source = {"sensors": {"name": "sensor", "rate": 0.01, "each": each}}
    made = sensor_jobs.plain(source, learner={"name": "scaling"}, sinks={}, forecast=MAKERS[maker])
    assert made.steps.forecasts is not None
    assert (made.steps.forecasts.every, made.steps.forecasts.learner.season) == (100.0, 864)


@each_maker
def test_each_key_of_a_pool_has_its_own_forecasts(maker: str) -> None:
    one, records = job(maker, every="100ms"), samples(300)
    pooled, single = (Worker(one, pooled=pooled).apply(records) for pooled in (True, False))
    assert foreseen(told_of(pooled)) == foreseen(told_of(single))


@each_maker
def test_a_key_that_starts_from_a_state_begins_without_a_past(maker: str) -> None:
    """The exported state is of a key that has forecasts."""
    learning = {"learner": {"name": "okfeb", "rank": 2, "budget": 3}, "head": {"name": "rls"}}
    one = job(maker, {"label": "activity"}, "100ms", **learning)
    pooled = Worker(one, pooled=True)
    pooled.apply(samples(300))
    warm, cold = Worker(starting_from(one, pooled.live.export())), Worker(one)
    new = samples(90, keys=1, seed=3, labelled=False)
    first, fresh = warm.apply(new), cold.apply(new)
    assert foreseen(told_of(first)) == foreseen(told_of(fresh))
    known = [json.loads(out.value or b"")["n_seen"] for out in first if out.sink == "predictions"]
    assert min(known) > 50, "its model has a past"


@each_maker
def test_a_key_of_a_population_has_its_own_forecasts(maker: str) -> None:
    section = {**MAKERS[maker], "ahead": [1, 2]}
    windowed = {"length": "1s", "hop": "500ms", "rate": 10.0}
    records = samples(300, labelled=False)
    of_people = told_of(Worker(job_of_people(forecast=section, drift=None)).apply(records))
    source = {"fields": ["ax", "ay", "az"]}
    alone = told_of(Worker(job(maker, source, window=windowed, forecast=section)).apply(records))
    assert len(alone) > 15 and foreseen(of_people) == foreseen(alone)


@each_maker
def test_ratio_and_intervals_begin_when_twenty_were_judged(maker: str) -> None:
    told = told_of(Worker(job(maker)).apply(stream([float(n) for n in range(60)])))
    for place, ahead in enumerate((1, 3)):
        ready = [row["forecasts"][place]["ratio"] is not None for row in told]
        bounded = [row["forecasts"][place]["intervals"][0]["low"] is not None for row in told]
        assert ready == bounded == [n >= ahead + 19 for n in range(60)]
