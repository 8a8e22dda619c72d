"""The worker's log tells what was taken and not learned: once a minute for each reason, and in its last line."""

from collections import Counter

from structlog.testing import capture_logs

from streamjobs.core.messages import Report
from streamjobs.core.unlearned import Taken
from streamjobs.worker.logs import Unlearned, totals
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.metrics.table import PREFIX


def minute(skipped: dict[str, int], dead: dict[str, int] | None = None) -> Report:
    letter = "bad_time, topic in[0] offset 7" if dead else ""
    return Report(records=1000, samples=1000, rows=900, skipped=skipped, dead_lettered=dead or {}, first_letter=letter)


def test_more_than_a_hundredth_of_a_minutes_samples_is_one_warning_with_the_reason() -> None:
    taken = Taken()
    told = Unlearned(taken, now=0.0)
    with capture_logs() as events:
        taken.add(minute({"duplicate": 500, "late": 10}))
        told.check(59.0)
        assert not events
        told.check(60.0)
        told.check(60.1)
    assert [(e["event"], e["reason"], e["skipped"], e["of"], e["percent"]) for e in events] == [
        ("samples skipped", "duplicate", 500, 1000, 50.0)
    ]
    with capture_logs() as events:
        taken.add(minute({"late": 11}))
        told.check(119.0)
        told.check(120.1)
    assert [(e["reason"], e["skipped"], e["of"]) for e in events] == [("late", 11, 1000)]


def test_a_minute_of_mostly_dead_letters_is_one_warning_with_an_example() -> None:
    taken = Taken()
    told = Unlearned(taken, now=0.0)
    taken.add(minute({}, {"bad_time": 400, "no_key": 101}))
    with capture_logs() as events:
        told.check(61.0)
    assert [(e["event"], e["dead_lettered"], e["of"], e["example"]) for e in events] == [
        ("most records became dead letters", 501, 1000, "bad_time, topic in[0] offset 7")
    ]


def test_a_minute_of_records_that_were_mostly_applied_before_is_one_line() -> None:
    taken = Taken()
    told = Unlearned(taken, now=0.0)
    with capture_logs() as events:
        for end, redelivered in ((61.0, 900), (122.0, 1100), (183.0, 1000)):
            taken.add(Report(records=2000, redelivered=redelivered, samples=900, rows=900))
            told.check(end)
    assert [(e["event"], e["redelivered"], e["of"]) for e in events] == [("most records were applied before", 1100, 2000)]


def test_a_number_that_is_in_no_sample_of_a_minute_is_named_though_it_is_filled_in() -> None:
    taken = Taken()
    told = Unlearned(taken, now=0.0)
    with capture_logs() as events:
        taken.add(Report(records=1000, samples=1000, rows=1000, filled=999, lacking={"temp": 999}))
        told.check(61.0)
        assert not events
        taken.add(Report(records=1000, samples=1000, rows=1000, filled=1010, lacking={"temp": 1000, "rpm": 10}))
        told.check(122.0)
        assert [(e["event"], e["columns"], e["samples"]) for e in events] == [
            ("a number is missing in all samples", ["temp"], 1000)
        ]
        events.clear()
        taken.add(Report(records=1000, samples=1000, skipped={"missing": 1000}, lacking={"temp": 1000}))
        told.check(183.0)
    assert [e["event"] for e in events] == ["samples skipped"] and events[0]["meaning"].endswith("(without: temp 1,000)")


def test_windows_unlike_the_population_are_one_warning_of_a_worker() -> None:
    taken = Taken()
    told = Unlearned(taken, now=0.0)
    with capture_logs() as events:
        for now in (61.0, 122.0, 183.0):
            taken.add(Report(records=1000, samples=1000, rows=20, outside={"ax_mean": 10 if now == 61.0 else 20}))
            told.check(now)
    assert [(e["event"], e["rows"]) for e in events] == [("windows unlike the population", 40)]
    assert "by ax_mean: other units" in events[0]["meaning"]


def test_a_worker_that_stops_within_a_minute_tells_as_well() -> None:
    taken = Taken()
    told = Unlearned(taken, now=0.0)
    taken.add(minute({"crowded": 100}))
    with capture_logs() as events:
        told.check(1.0, last=True)
    assert [event["reason"] for event in events] == ["crowded"]


def test_the_last_line_has_what_was_skipped_by_reason() -> None:
    metrics = Metrics("in")
    for _ in range(2):
        metrics.count_advance(minute({"late": 3}, {"bad_time": 1}), 0.001)
    assert totals(metrics.taken) == {
        "records": 2000,
        "redelivered": 0,
        "samples": 2000,
        "rows": 1800,
        "dead_lettered": 2,
        "dead_letter_reasons": Counter(bad_time=2),
        "skipped": {"late": 6},
    }
    value = metrics.registry.get_sample_value
    assert value(PREFIX + "samples_skipped_total", {"reason": "late"}) == 6
    assert value(PREFIX + "samples_skipped_total", {"reason": "sparse"}) == 0
