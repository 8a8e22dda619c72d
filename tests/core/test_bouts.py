"""Bouts: records of an activity from its start to its end, sent once, when no late label can change them."""

import json
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from streamjobs.core.job import Job
from streamjobs.core.live.stored import decode_snapshot
from streamjobs.core.messages import Output, Stored
from streamjobs.errors import ConfigError
from streamjobs.settings.load import composition_from
from streamjobs.stages.events.bouts import Bouts
from streamjobs.stages.stage import Shape
from tests.core.people import job_of_people, late_labels
from tests.core.streams import START, Worker, record, samples, settings, values

RECORDS = samples(900)
SAMPLES = {"window": None, "drift": None, "learner": {"name": "okfeb", "rank": 3, "budget": 5}}


def job(**sections) -> Job:
    return Job.from_settings(settings(**({"bouts": {"shortest": "1s"}} | sections)))


def bouts(outputs: list[Output], key: str | None = None) -> list[dict]:
    told = [json.loads(one.value) for one in outputs if one.sink == "bouts"]
    return [one for one in told if key in (None, one["key"])]


def activities(steps: list[tuple[int, str]], begin: float = START) -> list[Stored]:
    """A labelled sample a second: so many of each activity; None: a pause."""
    made, at = [], 0
    for count, activity in steps:
        for _ in range(count):
            if activity is not None:
                body = {"ax": float(at % 5), "ay": 1.0, "az": 0.0, "ts": begin + at, "activity": activity}
                made.append(record(len(made), b"p0", body)._replace(timestamp=int((begin + at) * 1000)))
            at += 1
    return made


def spans(told: list[dict], begin: float = START) -> list[tuple[str, float, float, int]]:
    return [(one["activity"], one["start"] - begin, one["end"] - begin, one["rows"]) for one in told]


def test_flicker_and_short_pauses_join_the_bout_before_them() -> None:
    steps = [
        (30, "walk"),
        (3, "run"),
        (20, "walk"),
        (5, None),
        (10, "walk"),
        (40, "rest"),
        (60, None),
        (20, "rest"),
        (9, "run"),
    ]
    told = bouts(Worker(job(bouts={}, **SAMPLES)).apply(activities([*steps, (3, "walk"), (20, "run")])))
    assert spans(told) == [("walk", 0.0, 67.0, 63), ("rest", 67.0, 107.0, 40), ("rest", 168.0, 199.0, 32)]


def test_what_is_too_short_at_the_beginning_joins_the_bout_behind_it() -> None:
    told = bouts(Worker(job(bouts={}, **SAMPLES)).apply(activities([(4, "run"), (30, "walk"), (30, "rest")])))
    assert spans(told) == [("walk", 0.0, 33.0, 34)]


def test_a_row_without_an_activity_is_in_no_bout() -> None:
    """No class can be predicted before the first label."""
    records = [one for one in samples(900, labelled=False)][:450] + RECORDS[450:]
    told = bouts(Worker(job()).apply(records), "p0")
    assert told and min(one["start"] for one in told) >= START + 14.0


@pytest.mark.parametrize("zone", ["Europe/Berlin", "+02:00"])
def test_minutes_of_a_day_add_up_the_bouts_and_days_are_those_of_the_zone(zone: str) -> None:
    begin = datetime(2025, 10, 26, 0, 58, tzinfo=ZoneInfo("Europe/Berlin")).timestamp() - 3600.0  # two minutes to midnight
    source = {"topic": "imu", "fields": ["ax", "ay", "az"], "time": "ts", "label": "activity", "time_zone": zone}
    records = activities([(60, "walk"), (240, "rest"), (30, "walk"), (30, "rest")], begin)
    told = bouts(Worker(job(bouts={}, source=source, **SAMPLES)).apply(records))
    assert [one["activity"] for one in told] == ["walk", "rest", "walk"]
    days = [[(one["day"], round(one["minutes"] * 60)) for one in bout["days"]] for bout in told]
    assert days == [[("2025-10-25", 59)], [("2025-10-25", 61), ("2025-10-26", 179)], [("2025-10-26", 30)]]


@pytest.mark.parametrize("of", ["own", "people"])
def test_a_crash_after_every_record_changes_no_byte(of: str) -> None:
    """With late labels, which correct rows that wait."""
    labels = {"wait": "10s", "delay": "1s"}
    one = job(labels=labels) if of == "own" else job_of_people(labels=labels, bouts={"shortest": "1s"})
    records = late_labels(RECORDS[:660], after=6.0)
    whole = Worker(one)
    expected = [row for row in values(whole.apply(records)) if row[0] == "bouts"]
    whole.checkpoint()
    assert len(expected) == 6
    worker, got = Worker(one), []
    for single in records:
        got += values(worker.apply([single]))
        worker.checkpoint()
        worker.crash()
    assert [row for row in got if row[0] == "bouts"] == expected
    assert worker.store == whole.store
    again = Worker(one, dict(worker.store))
    assert not again.apply(records), "redelivered records send nothing"


def test_a_late_label_corrects_the_bout_before_it_is_sent() -> None:
    """Predictions come from a head that knows one class; the labels come later, and say another one."""
    records = activities([(30, "walk"), (40, "rest"), (60, "walk")])
    bodies = [json.loads(one.value) for one in records]
    stream = [
        record(n, b"p0", {k: v for k, v in body.items() if k != "activity" or n < 30}) for n, body in enumerate(bodies)
    ]
    late = {"ts": [body["ts"] for body in bodies[30:70]], "activity": ["rest"] * 40}
    stream = [*stream[:90], record(90, b"p0", late), *[one._replace(offset=one.offset + 1) for one in stream[90:]]]
    head = job(bouts={}, labels={"wait": "60s", "within": "0s"}, **SAMPLES)
    worker = Worker(head)
    told = bouts(worker.apply(stream))
    assert spans(told) == [("walk", 0.0, 29.0, 30)]
    assert (told[0]["labelled"], told[0]["score"]) == (30, None)
    worker.checkpoint()
    states, names, _ = decode_snapshot(head, worker.store[b"p0"])
    under_way = [(names[one.code], one.start - START, one.labelled) for one in head.steps.bouts.under_way(states["bouts"])]
    assert under_way[0] == ("rest", 29.0, 40)


def test_bouts_of_a_key_follow_each_other_and_have_ids_of_their_own() -> None:
    outputs = Worker(job()).apply(RECORDS)
    for key in ("p0", "p1", "p2"):
        told = bouts(outputs, key)
        assert [one["number"] for one in told] == list(range(len(told)))
        assert all(a["end"] <= b["start"] and a["activity"] != b["activity"] for a, b in pairwise(told))
    headers = [one.headers[0][1] for one in outputs if one.sink == "bouts"]
    assert len(headers) == len(set(headers)) > 15


@pytest.mark.parametrize("drift", [None, {"detector": "page_hinkley"}])
def test_states_are_read_with_and_without_bouts(drift: dict | None) -> None:
    with_bouts, without = job(drift=drift), job(drift=drift, bouts=None)
    for writer, reader in ((with_bouts, without), (without, with_bouts)):
        old = Worker(writer)
        old.apply(RECORDS[:500])
        old.checkpoint()
        new = Worker(reader, dict(old.store))
        assert new.apply(RECORDS[500:])
        new.checkpoint()
        states, _, offsets = decode_snapshot(reader, new.store[b"p0"])
        assert offsets == {("imu", 0): 897}
        assert ("bouts" in states) == (reader is with_bouts)
    relearned, _, _ = decode_snapshot(job(drift={"detector": "adwin"}), new.store[b"p0"], drift_anew=True)
    assert relearned["bouts"].bouts > 0
    dropped, _, _ = decode_snapshot(job(drift={"detector": "adwin"}, bouts=None), new.store[b"p0"], drift_anew=True)
    assert dropped["books"].rows == relearned["books"].rows > 50


def test_rows_that_wait_are_bounded_and_the_bouts_do_not_depend_on_it() -> None:
    shape = Shape(dim=1, width=1, label_width=1, targets=2)
    rng = np.random.default_rng(8)
    codes = np.repeat(rng.integers(0, 2, 60), rng.integers(1, 9, 60))
    rows = np.zeros(len(codes), np.int64), np.arange(1.0, len(codes) + 1), codes, rng.normal(size=len(codes))
    no, yes = np.zeros(len(codes), np.bool_), np.ones(len(codes), np.bool_)
    told = []
    for wait, most in ((0.0, 0), (30.0, 50), (30.0, 5)):
        stage = Bouts(shortest=4.0, hop=1.0, length=1.0, wait=wait, most=most)
        work = stage.workspace(stage.begin(shape, 0))
        stage.load(work, 0, stage.begin(shape, 0))
        made = stage.advance(work, *rows, no, yes)
        made += stage.under_way(stage.save(work, 0, stage.begin(shape, 0)))
        told.append([one._replace(row=0) for one in made])
    assert told[0] == told[1] == told[2] and len(told[0]) > 8


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"bouts": {}, "head": {"name": "rls", "task": "regression"}}, "bouts need a classification"),
        ({"sinks": {"bouts": "b"}}, "no bouts would be sent without a [bouts] section"),
        ({"bouts": {"shortest": "2d"}}, "shortest"),
    ],
)
def test_settings_that_make_no_bouts_are_refused(sections: dict, message: str) -> None:
    table = {"source": {"topic": "imu", "fields": ["ax"]}, "learner": {"name": "okfeb"}, "head": {"name": "rls"}}
    with pytest.raises(ConfigError, match=r"(?s).*" + message.replace("[", r"\[").replace("]", r"\]")):
        composition_from(table | sections)
