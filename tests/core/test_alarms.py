"""Alarms as events: one record when an alarm is raised and one when it ends, the same whatever crashes between them."""

import json

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.drift.report import WIDE_COLUMNS
from streamjobs.core.advance import advance
from streamjobs.core.alarms import _moved
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot
from streamjobs.core.messages import Output, Report
from streamjobs.settings.events import DriftSection
from streamjobs.settings.rules.drift import drift_contradictions
from tests.core.streams import START, Worker, record, settings, values

CHART = {"name": "column_chart", "learn": 100, "hold": 60}
DRIFT = {"watch": "columns", "false_alarms": "1 per 1000 rows", "detector": CHART}
PLAIN = {"window": None, "head": None, "learner": {"name": "okfeb", "rank": 3, "budget": 5}}
OFF = {"features": "", "drift": ""}


def job(drift: dict | None = None, **sections) -> Job:
    return Job.from_settings(settings(drift=drift or DRIFT, **{**PLAIN, **sections}))


def test_a_count_that_falls_to_0_has_0_after_the_alarm_and_nothing_of_rounding() -> None:
    afters = []
    for before, deviations in np.random.default_rng(0).uniform(0.01, 9.0, (200, 2)).tolist():
        verdict = np.full(WIDE_COLUMNS, np.nan)
        verdict[10:14] = 0, -deviations, before, (0.0 - before) / -deviations  # as of innovations
        afters += [one.after for one in _moved(["count"], verdict)]
    assert afters == [0.0] * 200


def stream(n: int = 700, keys: int = 2, at: int = 300, back: int = 400) -> list:
    """n rows of each key, at irregular times; ay of key p0 is 8 units higher in rows `at` to `back`, and 500 to 530."""
    random = np.random.default_rng(4)
    pauses = random.uniform(0.05, 0.15, (n, keys)).cumsum(axis=0)
    records = []
    for offset in range(n * keys):
        key, step = offset % keys, offset // keys
        ax, ay, az = random.normal(size=3).tolist()
        moved = key == 0 and (at <= step < back or 500 <= step < 530)
        body = {"ax": ax, "ay": 20.0 + 2.0 * ay + 8.0 * moved, "az": az, "ts": START + float(pauses[step, key])}
        records.append(record(offset, f"p{key}".encode(), body))
    return records


def alarms(outputs: list[Output]) -> list[dict]:
    return [json.loads(one.value) for one in outputs if one.sink == "alarms"]


def rows_of(outputs: list[Output]) -> list[tuple]:
    return [one for one in values(outputs) if one[0] == "alarms"]


def test_an_alarm_says_which_key_since_when_which_columns_how_sure_and_against_what() -> None:
    records = stream()
    raised, ended, *_ = alarms(Worker(job()).apply(records))
    bodies = [json.loads(one.value) for one in records if one.key == b"p0"]
    at = [body["ts"] for body in bodies].index(raised["start"])
    assert 300 <= at < 310
    assert (raised["key"], raised["open"], raised["watch"], raised["detector"]) == ("p0", True, "columns", "column_chart")
    assert raised["since"] == pytest.approx(bodies[at - raised["rows"] + 1]["ts"])
    assert 295 <= at - raised["rows"] + 1 <= 302
    first, *_ = raised["columns"]
    assert first["column"] == "ay"
    assert first["before"] == pytest.approx(20.0, abs=0.6)
    assert 4 < first["after"] - first["before"] < 12, "in the column's own units"
    assert first["deviations"] == pytest.approx((first["after"] - first["before"]) / 2.0, rel=0.3)
    assert raised["evidence"] >= 1
    assert (raised["false_alarms"], raised["rows_learned"], raised["warm_up"]) == ("1 per 1000 rows", at, 228)
    assert 20 <= raised["reference"] <= at - 100
    assert raised["size"] == pytest.approx(raised["after"] / raised["before"])
    assert raised["outcome"] is None
    assert ended == {**raised, "open": False, "end": ended["end"], "outcome": ended["outcome"]}
    assert ended["end"] > raised["start"]


def test_every_alarm_is_raised_once_and_ends_once() -> None:
    told = alarms(Worker(job()).apply(stream()))
    raised = [one["id"] for one in told if one["open"]]
    ended = [one["id"] for one in told if not one["open"]]
    assert len(raised) >= 2
    assert raised == ended
    assert len(set(raised)) == len(raised)


@pytest.mark.parametrize(("back", "outcome"), [(400, "recovered"), (700, "learned anew")])
def test_an_end_says_whether_the_values_are_back_or_are_the_new_reference(back: int, outcome: str) -> None:
    raised, ended, *_ = alarms(Worker(job()).apply(stream(back=back)))
    assert (raised["outcome"], ended["outcome"]) == (None, outcome)


def test_an_alarm_of_another_column_replaces_the_one_that_is_open() -> None:
    chart, random = {"name": "column_charts", "learn": 100, "hold": 200}, np.random.default_rng(5)
    moved = np.r_[0.0, 8.0, 0.0] * (np.arange(700) >= 300)[:, None] + np.r_[8.0, 0, 0] * (np.arange(700) >= 345)[:, None]
    rows = random.normal(size=(700, 3)) + moved
    told = Worker(job(DRIFT | {"detector": chart})).apply(
        [
            record(n, b"p0", {**dict(zip(("ax", "ay", "az"), row, strict=True)), "ts": START + n})
            for n, row in enumerate(rows.tolist())
        ]
    )
    first, replaced, second, ended = alarms(told)[:4]
    assert [one["columns"][0]["column"] for one in (first, second)] == ["ay", "ax"]
    assert (replaced["id"], replaced["outcome"], replaced["end"]) == (first["id"], "replaced", second["start"])
    assert (ended["id"], ended["outcome"]) == (second["id"], "learned anew")


@pytest.mark.parametrize("size", [13, 250])
def test_batches_and_checkpoints_change_no_byte(size: int) -> None:
    one, records = job(), stream(560)
    expected = rows_of(Worker(one).apply(records))
    worker, got = Worker(one), []
    for begin in range(0, len(records), size):
        got += worker.apply(records[begin : begin + size])
        if begin // size % 5 == 0:
            worker.checkpoint()
            worker = Worker(one, worker.store)
    assert rows_of(got) == expected


def test_a_crash_between_alarm_and_checkpoint_raises_the_same_alarm_again() -> None:
    one, records = job(), stream(560)
    expected = rows_of(Worker(one).apply(records))
    assert len(expected) >= 4
    for crash in range(0, len(records), 93):
        worker = Worker(one)
        worker.apply(records[:crash])
        worker.checkpoint()
        before = rows_of(worker.apply(records[crash : crash + 150]))
        worker.crash()
        after = rows_of(worker.apply(records[crash:]))
        assert before == after[: len(before)]
        assert after == expected[len(expected) - len(after) :]


def test_the_topic_of_rows_is_off_where_alarms_are_reported_unless_it_is_named() -> None:
    assert set(job().sinks) == {"features", "alarms", "dlq"}
    assert set(job(sinks={"drift": "rows"}).sinks) == {"drift", "alarms", "dlq"}
    assert set(job(sinks={"alarms": ""}).sinks) == {"drift", "dlq"}
    assert set(job({"detector": "page_hinkley"}).sinks) == {"features", "drift", "dlq"}
    assert job({"detector": "page_hinkley"}, sinks={"alarms": "told"}).sinks["alarms"] == "told"


def test_an_alarm_of_a_threshold_ends_with_its_row() -> None:
    threshold = {"extractor": {"name": "last_points"}, "detector": "page_hinkley"}
    told = alarms(Worker(job(threshold, sinks={"alarms": "told"})).apply(stream(200)))
    assert told
    assert [one["end"] for one in told[:2]] == [None, told[0]["start"]]
    assert told[0]["id"] == told[1]["id"]
    assert (told[0]["since"], told[0]["rows"], told[0]["reference"], told[0]["columns"]) == (None, None, None, [])


def test_states_are_read_with_and_without_alarms() -> None:
    with_alarms, without = job(), job(sinks={"alarms": ""})
    records = stream(330)
    at = len(records) - 20
    for writer, reader in ((with_alarms, without), (without, with_alarms)):
        old = Worker(writer)
        old.apply(records[:at])
        old.checkpoint()
        new = Worker(reader, old.store)
        assert new.apply(records[at:])
        new.checkpoint()
        assert len(new.store) == 2
        _, _, offsets = decode_snapshot(reader, new.store[b"p0"])
        assert offsets == {("imu", 0): len(records) - 2}


SEVERAL = {"watch": ["columns", "ls_error"], "false_alarms": "1 per 1000 rows", "extractor": {"name": "running_mean"}}


def test_several_watches_share_the_stated_number_and_have_alarms_of_their_own() -> None:
    one = job(SEVERAL, sinks={"drift": "rows"})
    assert [(watch.watch, type(watch.detector).name) for watch in one.watches] == [
        ("columns", "column_chart"),
        ("ls_error", "conformal"),
    ]
    assert [watch.detector.rows_between for watch in one.watches] == [2000.0, 2000.0]  # type: ignore[attr-defined]
    outputs = Worker(one).apply(stream(1600, keys=1, at=1450, back=1600))
    told = [alarm for alarm in alarms(outputs) if alarm["rows_learned"] > 1000]
    assert {alarm["watch"] for alarm in told} == {"columns", "ls_error"}
    headers = [one.headers[0][1] for one in outputs if one.sink == "alarms"]
    assert len(set(headers)) == len(headers)
    assert len({alarm["id"] for alarm in told}) == sum(alarm["open"] for alarm in told)
    row = json.loads(next(one.value for one in outputs if one.sink == "drift"))
    assert (row["watch"], set(row["beside"])) == ("columns", {"ls_error"})


@pytest.mark.parametrize(
    ("drift", "sentence"),
    [
        ({"watch": ["columns", "columns"]}, "watch must name one or more different watches; got ['columns', 'columns']."),
        ({"watch": []}, "watch must name one or more different watches; got []."),
        ({"detector": "conformal"}, "detector has no meaning with a list of watches"),
        ({"beside": ["last_points"]}, "beside has no meaning with a list of watches"),
        ({"false_alarms": None}, "a list of watches shares one limit of false alarms; add false_alarms"),
        ({"watch": ["columns"]}, "the LS error of extractor is not watched"),
        ({"watch": ["columns", "loss"]}, "watch = 'loss' needs predictions"),
    ],
)
def test_a_list_of_watches_that_cannot_be_is_refused_with_one_sentence(drift: dict, sentence: str) -> None:
    section = DriftSection(**{**SEVERAL, **drift})
    found = [problem for _, problem in drift_contradictions(section, None, {"learner": learner_from("okfeb", {})})]
    assert any(sentence in one for one in found), found


def test_metrics_count_alarms_open_ones_keys_that_warm_up_and_small_p_values() -> None:
    live, report, seen = Live(job()), Report(), []
    records = stream(340)
    for begin in range(0, len(records), 40):
        advanced = advance(live.job, live, records[begin : begin + 40])
        report.add(advanced.report)
        seen.append((live.stats(0).in_alarm, live.stats(0).warming_up))
    assert report.watch_events == {"columns": 1}
    assert seen[0] == (0, 2)
    assert seen[-1] == (1, 0)
    judged, small = report.p_values["columns"]
    assert 100 < judged < 480
    assert small < 0.05 * judged
