"""Lines about records: the first at once, then at most one a minute with the number since; never a record's content."""

import structlog

from streamjobs.core.messages import Failure, Report, SetAside
from streamjobs.worker.logs import MOST_LINES, SELDOM, SLOW, Notices, log_starting_over
from streamjobs.worker.metrics import Metrics


def test_a_failure_is_an_error_in_the_log_at_most_once_a_minute() -> None:
    now = [0.0]
    notices = Notices(3, lambda: now[0])
    with structlog.testing.capture_logs() as lines:
        for _ in range(10):
            notices.take(Report(failures=[Failure(41, "learner", "IndexError", "solvers.py:123")]))
            notices.take(Report())
            now[0] += SELDOM / 4
    assert [line["records"] for line in lines] == [1, 4, 4]
    assert lines[0] == {
        "event": "learner failed",
        "log_level": "error",
        "partition": 3,
        "records": 1,
        "offset": 41,
        "stage": "learner",
        "error": "IndexError",
        "place": "solvers.py:123",
    }


def test_clipped_targets_are_a_warning_and_a_count() -> None:
    metrics, notices = Metrics(topic="imu", model="klms"), Notices(0, lambda: 0.0)
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            report = Report(records=5, targets_clipped=2)
            metrics.count_advance(report, 0.01)
            notices.take(report)
    assert lines == [{"event": "targets clipped", "log_level": "warning", "partition": 0, "records": 2}]
    assert metrics.registry.get_sample_value("streamjobs_targets_clipped_total") == 6


def test_filled_numbers_are_counted() -> None:
    metrics = Metrics(topic="imu", model="klms")
    for filled in (2, 0, 3):
        metrics.count_advance(Report(records=5, filled=filled), 0.01)
    assert metrics.registry.get_sample_value("streamjobs_numbers_filled_total") == 5
    assert metrics.registry.get_sample_value("streamjobs_samples_skipped_total", {"reason": "unfilled"}) == 0


def test_the_series_of_the_alert_is_there_before_anything_fails() -> None:
    metrics = Metrics(topic="imu", model="okfeb")
    name, labels = "streamjobs_records_dead_lettered_total", {"reason": "learner_failed"}
    assert metrics.registry.get_sample_value(name, labels) == 0
    metrics.count_advance(Report(records=1, dead_lettered={"learner_failed": 1}), 0.01)
    assert metrics.registry.get_sample_value(name, labels) == 1


def test_keys_that_are_set_aside_are_errors_in_the_log_ten_a_minute_without_their_names() -> None:
    now = [0.0]
    notices = Notices(2, lambda: now[0])
    keys = [SetAside(f"{number:016x}", "read", "snapshot is damaged.") for number in range(14)]
    with structlog.testing.capture_logs() as lines:
        notices.take(Report(set_aside=keys[:1]))
        notices.take(Report(set_aside=keys[1:13]))
        now[0] += SELDOM
        notices.take(Report(set_aside=keys[13:]))
    assert [line["key_hash"] for line in lines] == [one.key_hash for one in [*keys[:MOST_LINES], keys[13]]]
    assert {line["event"] for line in lines} == {"key set aside"} and lines[0]["log_level"] == "error"
    assert lines[0]["partition"] == 2 and lines[0]["state"] == "cannot be read"
    assert "state reset JOB KEY" in lines[0]["action"]
    with structlog.testing.capture_logs() as lines:
        Notices(2, lambda: now[0]).take(Report(set_aside=[SetAside("0", "written", "expected finite numbers, got [nan].")]))
    assert "correct the learner" in lines[0]["action"] and "reset" not in lines[0]["action"]  # there may be none to reset


def test_records_that_take_long_are_a_warning_at_most_once_a_minute() -> None:
    now = [0.0]
    notices = Notices(3, lambda: now[0])
    with structlog.testing.capture_logs() as lines:
        for seconds in (SLOW / 2, 2 * SLOW, 3 * SLOW):
            notices.take(Report(records=16), seconds)
    assert [(line["event"], line["records"], line["seconds"]) for line in lines] == [("records are slow", 16, 2 * SLOW)]


def test_sections_that_start_over_are_a_warning_once_for_all_partitions() -> None:
    log_starting_over.cache_clear()
    with structlog.testing.capture_logs() as lines:
        for meaning in ("", "[forecast]: ..", "[forecast]: .."):
            log_starting_over(meaning)
    assert [(line["event"], line["meaning"]) for line in lines] == [("sections start over or end", "[forecast]: ..")]
