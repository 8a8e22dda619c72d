"""A stated number of false alarms, from the job file to the drift topic."""

import json

import numpy as np
import pytest

from streamjobs.core.job import Job
from streamjobs.errors import ConfigError
from tests.core.streams import START, Worker, record, settings

COLUMNS = {"watch": "columns", "false_alarms": "1 per 2000 rows", "detector": {"name": "column_chart", "learn": 200}}
PLAIN = {"sinks": {"drift": "imu.drift"}, "window": None, "head": None, "learner": {"name": "okfeb", "rank": 3, "budget": 5}}


def shifted(n: int = 1500, at: int = 1200, keys: int = 2) -> list:
    """n rows of each key; from row `at` on `ay` of key p0 is 6 higher."""
    random = np.random.default_rng(0)
    records = []
    for offset in range(n * keys):
        key, step = offset % keys, offset // keys
        ax, ay, az = random.normal(size=3).tolist()
        body = {"ax": ax, "ay": ay + 6.0 * (key == 0 and step >= at), "az": az, "ts": START + step * 0.1}
        records.append(record(offset, f"p{key}".encode(), body))
    return records


def told(drift: dict, records: list, batch: int = 500) -> list[dict]:
    worker = Worker(Job.from_settings(settings(drift=drift, **PLAIN)))
    outputs = [one for begin in range(0, len(records), batch) for one in worker.apply(records[begin : begin + batch])]
    return [json.loads(one.value) for one in outputs if one.sink == "drift"]


def test_columns_are_watched_and_an_alarm_says_which_moved() -> None:
    rows = told(COLUMNS, shifted())
    alarms = [one for one in rows if one["alarm"]]
    assert [(one["key"], list(one["columns"])) for one in alarms] == [("p0", ["ay"])]
    (alarm,) = alarms
    assert 1200 <= alarm["seq"] < 1210
    assert alarm["columns"]["ay"] > 1
    assert 0 < alarm["since"] <= 30
    assert (alarm["detector"], alarm["extractor"], alarm["watch"]) == ("column_chart", "columns", "columns")
    assert alarm["after"] > alarm["before"]
    later = [one for one in rows if one["key"] == "p0" and one["seq"] > alarm["seq"]]
    assert all(one["open"] and not one["alarm"] for one in later), "raised again, or over, while the change is there"
    assert all("columns" not in one and "since" not in one for one in later)


def test_a_detector_says_that_it_warms_up() -> None:
    warming = [one.get("warming_up", False) for one in told(COLUMNS, shifted(600, keys=1))]
    assert all(warming[:200])
    assert not any(warming[400:])


def test_an_ls_error_is_watched_with_a_stated_number() -> None:
    rows = told({"false_alarms": "1 per 1000 rows", "extractor": {"name": "running_mean"}}, shifted())
    assert {one["detector"] for one in rows} == {"conformal"}
    assert {one["key"] for one in rows if one["alarm"] and one["seq"] >= 1200} == {"p0"}


def test_states_survive_any_batch_and_a_restart() -> None:
    job, records = Job.from_settings(settings(drift=COLUMNS, **PLAIN)), shifted(400)
    whole, parts = Worker(job), Worker(job)
    expected = whole.apply(records)
    got = []
    for begin in range(0, len(records), 170):
        got += parts.apply(records[begin : begin + 170])
        parts.checkpoint()
        parts = Worker(job, parts.store)
    drift = ([one.value for one in outputs if one.sink == "drift"] for outputs in (expected, got))
    assert next(drift) == next(drift)


@pytest.mark.parametrize(
    ("text", "hop", "rows"),
    [("1 per 10000 rows", None, 10_000.0), ("1/day", "2s", 43_200.0), ("6/h", "1s", 600.0), ("0.5 / h", "1s", 7200.0)],
)
def test_a_stated_number_becomes_rows(text: str, hop: str | None, rows: float) -> None:
    window = None if hop is None else {"length": "4s", "hop": hop, "rate": 10.0}
    job = Job.from_settings(settings(drift={"false_alarms": text}, window=window))
    assert job.watches[0].detector.rows_between == rows  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("drift", "sentence"),
    [
        ({"false_alarms": "seldom"}, "false_alarms must be such as '1/day', '6/h' or '1 per 10000 rows'; got 'seldom'."),
        ({"false_alarms": "2 per 1 rows"}, "false_alarms must be above 0 and at most one a row; got '2 per 1 rows'."),
        ({"false_alarms": "1/day"}, "false_alarms = '1/day' needs a [window], because it is stated by time; "),
        (
            {"false_alarms": "1 per 9 rows", "detector": "adwin"},
            "false_alarms needs a detector that keeps to a number of false alarms, ",
        ),
        (
            {"false_alarms": "1 per 9 rows", "detector": {"name": "conformal", "rows_between": 9.0}},
            "false_alarms and the detector's rows_between set the same number; remove one of them.",
        ),
    ],
)
def test_a_number_that_cannot_be_kept_is_refused_with_one_sentence(drift: dict, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Job.from_settings(settings(drift=drift, window=None))
    assert sentence in str(refused.value)


def test_without_a_stated_number_a_job_is_what_it_was() -> None:
    implicit, explicit = (Job.from_settings(settings(drift=drift)) for drift in ({}, {"detector": "page_hinkley"}))
    assert implicit.described == explicit.described
    assert implicit.described["drift"] == "PageHinkley()"
