"""What was taken and not learned, in counts: when it is nothing, most, or much."""

import json
from collections import Counter

import pytest

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Report, Stored
from streamjobs.core.unlearned import ENOUGH, REASONS, TOGETHER, Taken
from streamjobs.stages import windows
from tests.core.people import COMPACT, job_of_people
from tests.core.streams import record, samples, settings

AXES = ("ax", "ay", "az")


def taken(**counts) -> Taken:
    return Taken(**{name: Counter(value) if isinstance(value, dict) else value for name, value in counts.items()})


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({}, None),  # an empty topic
        ({"records": 9, "redelivered": 9}, None),  # all of it was learned before
        ({"records": 9, "redelivered": 8, "dead_lettered": {"bad_time": 1}}, None),
        ({"records": 9, "samples": 9}, None),  # they wait in an unfinished window
        ({"records": 9, "samples": 9, "rows": 9}, None),  # without labels, which is fine
        ({"records": 9, "samples": 1, "rows": 1, "dead_lettered": {"bad_time": 8}}, None),
        ({"records": 9, "dead_lettered": {"bad_time": 9}}, "all 9 records became dead letters. The first: here"),
        ({"records": 9, "samples": 8, "skipped": {"duplicate": 8}, "dead_lettered": {"no_key": 1}}, "8 of 8 samples"),
        ({"records": 9, "samples": 9, "skipped": {"sparse": 9}}, None),
        (
            {"records": 9, "samples": 9, "skipped": {"sparse": 2, "late": 5}},
            "5 of 9 samples are skipped as late: older than",
        ),
        ({"records": 9, "samples": 9, "skipped": {"sparse": 2, "late": 4}}, None),
        ({"records": 90, "samples": 90, "skipped": {"late": 88}}, "88 of 90 samples are skipped as late: older than"),
        ({"records": 9, "samples": 9, "skipped": {"late": 5}}, None),  # the others wait in an unfinished window
    ],
)
def test_nothing_learned_is_where_records_came_and_none_could_be_used(counts, said):
    sentence = taken(**counts).nothing_learned("here")
    assert sentence is None if said is None else said in sentence


def test_alarms_are_counted_by_what_is_watched_for_the_last_line_of_a_run():
    so_far = Taken()
    for alarms in ({"columns": 2}, {}, {"columns": 1, "silent": 1}):
        so_far.add(Report(watch_events=alarms))
    assert so_far.watch_events == {"columns": 3, "silent": 1}


def test_reasons_above_one_in_a_hundred_are_much():
    much = taken(samples=1000, rows=100, skipped={"late": 10, "duplicate": 11, "gap": 1, "sparse": 2, "unlabelled": 500})
    assert [(one.reason, one.number, one.of, one.unit) for one in much.much_skipped()] == [
        ("duplicate", 11, 1000, "samples"),
        ("sparse", 2, 103, "windows"),
    ]
    assert not list(Taken().much_skipped())


def test_every_reason_of_windows_has_its_advice():
    assert set(windows.REASONS) <= set(REASONS)


def test_a_report_names_reason_and_place_of_its_first_dead_letter_and_no_contents():
    job = Job.from_settings(settings())
    made = samples(4)
    made[2] = record(2, b"anna", {"ax": "secret"})
    made[3] = record(3, None, {})
    report = advance(job, Live(job, lambda key: None), made).report
    assert report.first_letter == "wrong_value, topic imu[0] offset 2"
    counts = Taken()
    counts.add(report)
    counts.add(report)
    assert counts.dead_lettered == {"wrong_value": 2, "no_key": 2} and not counts.mostly_dead
    assert counts.since(Taken()) == counts


def test_a_number_that_no_sample_has_is_said_to_be_a_wrong_name() -> None:
    counts = taken(records=30, samples=30, skipped={"missing": 30}, lacking={"flw": 30, "temp": 4})
    sentence = counts.nothing_learned() or ""
    assert sentence.endswith("(without: flw 30, temp 4). No sample has 'flw': check [source] fields.")
    counts = taken(records=60, samples=60, skipped={"missing": 60}, lacking={"flw": 30, "temp": 34})
    assert "No sample has" not in (counts.nothing_learned() or "")


def in_other_units(records: list[Stored], times: float) -> list[Stored]:
    bodies = [json.loads(one.value) for one in records]
    return [
        record(at, one.key, {name: value * times if name in AXES else value for name, value in body.items()})
        for at, (one, body) in enumerate(zip(records, bodies, strict=True))
    ]


@pytest.mark.parametrize("clip", [5.0, 3.0, 8.0])
def test_most_windows_of_other_units_are_said_to_be_unlike_the_population(clip: float) -> None:
    job = job_of_people(scaling={"clip": clip, "from": "population"})
    own, others = samples(300, keys=2, seed=5), in_other_units(samples(300, keys=2, seed=5), 9.80665)
    for records, unlike in ((own, False), (others, True)):
        counts = Taken()
        counts.add(advance(job, Live(job, lambda key: None), records).report)
        assert counts.rows > ENOUGH and bool(counts.unlike) == unlike
        assert counts.since(Taken()).unlike == counts.unlike
    rows, counts.rows = counts.rows, 10 * counts.rows
    assert counts.unlike is None  # one person of ten
    counts.rows, counts.outside = rows, Counter({name: rows // 2 for name in counts.outside})
    assert counts.unlike is None  # one of two activities


def test_one_key_of_three_in_another_unit_is_named_as_the_job_counts_it() -> None:
    job = job_of_people(**COMPACT)
    records = samples(1200, keys=3, seed=5)
    changed = in_other_units([one for one in records if one.key == b"p1"], 9.80665)
    counts = Taken()
    for stream in ([one for one in records if one.key != b"p1"], changed):
        counts.add(advance(job, Live(job, lambda key: None), stream).report)
    assert counts.unlike is None
    ((sentence, keys),) = counts.other_units()
    assert keys == ["p1"] and sentence.startswith("key p1: ax_ay_az is about 9.807 times the usual")


def test_a_sentence_about_windows_unlike_the_population_names_the_numbers() -> None:
    counts = taken(rows=ENOUGH, outside={"ax_mean": 20, "ay_mean": 19, "az_mean": 11, "ax_log_sd": 10})
    assert "those of the population, by ax_mean, ay_mean, az_mean: other units" in (counts.unlike or "")
    counts.outside["ax_log_sd"] = 12
    assert "by ax_mean, ay_mean, ax_log_sd and of 1 other numbers" in (counts.unlike or "")
    assert counts.unlike == taken(rows=ENOUGH, outside=counts.outside | {TOGETHER: 20}).unlike  # the numbers say more
    counts.rows -= 1
    assert counts.unlike is None
