"""What the page shows: bounded rings of rows, alarms and letters, open alarms first, keys that keep their places."""

import json
import math
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streamjobs.core.live.live_stats import LiveStats
from streamjobs.core.messages import BatchRows, Letter, Report, ShownAlarm
from streamjobs.settings.load import settings_from
from streamjobs.worker.health import Health
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.page import feed, people
from streamjobs.worker.page.ask import MOST_LISTED, Asker
from streamjobs.worker.page.feed import Feed
from streamjobs.worker.page.figures import NEWEST_EVENTS, POINTS, Figures
from streamjobs.worker.page.people import MOST_CLASSES, MOST_PEOPLE, OTHER, People, Scores

JOB: dict[str, Any] = {"source": {"topic": "in", "dim": 2}, "learner": {"name": "okfeb", "rank": 3, "budget": 5}}


def _rows(*keys: str) -> BatchRows:
    return BatchRows(list(keys), np.arange(len(keys)) * 1.0, np.ones(len(keys)), ["a"] * len(keys), ["a"] * len(keys))


def test_what_the_job_leaves_for_the_page_is_bounded() -> None:
    box, many = Feed(), feed.MOST_ROWS + 7
    rows = BatchRows(["k"] * many, np.arange(many) * 1.0, np.zeros(many), list("ab" * many)[:many], None)
    for _ in range(300):
        box.take(
            Report(rows=many, batches=[rows], newest_delay=1.0, alarms=[ShownAlarm("k", 0.0, "d", "loss", 1.0, 0.0, 1.0)])
        )
    taken = box.look(1.0)
    assert sum(len(batch.keys) for batch in taken.batches) == feed.MOST_KEPT and len(taken.alarms) == feed.MOST_EVENTS
    assert {len(batch.keys) for batch in taken.batches} == {len(taken.batches[0].predicted or ())} == {feed.MOST_ROWS}
    assert taken.batches[0].times[-1] == many - 1  # the newest of them
    assert box.rows == many * 300 and box.look(2.0).batches == []


def test_the_rings_of_the_page_are_bounded_and_hold_only_what_json_has() -> None:
    box = Feed()
    figures = Figures(box, Health(Metrics("in", "okfeb")), {"job": "j"})
    for number in range(POINTS + 5):
        keys = [f"key-{number}"]
        rows = BatchRows(keys, np.array([math.inf]), np.array([math.nan]), [f"class-{number}"], [f"label-{number}"])
        alarm = ShownAlarm(
            keys[0], math.nan, "conformal", "ls_error", math.nan, math.inf, -math.inf, [("x", *[math.nan] * 3)]
        )
        box.take(Report(rows=1, batches=[rows], alarms=[alarm], letters=[Letter("k", 0, number, "malformed", "text")]))
        figures.look(float(number))
    full = json.loads(figures.full().partition(b"data: ")[2], parse_constant=pytest.fail)
    assert len(full["points"]) == POINTS and len(full["alarms"]) == len(full["letters"]) == NEWEST_EVENTS
    assert len(full["people"]) <= MOST_PEOPLE and len(full["classes"]) == MOST_CLASSES + 1 and full["classes"][-1] == OTHER
    assert len(full["confusion"]["pairs"]) <= (MOST_CLASSES + 1) ** 2
    assert full["alarms"][0]["value"] is None and full["letters"][0]["offset"] == POINTS + 4


def test_a_key_of_a_megabyte_is_sent_to_viewers_by_its_first_characters() -> None:
    box, key = Feed(), "k" * (1 << 20)
    figures = Figures(box, Health(Metrics("in", "okfeb")), {"job": "j"})
    alarm = ShownAlarm(key, 0.0, "conformal", "ls_error", 1.0, 0.0, 1.0)
    box.take(Report(rows=1, batches=[_rows(key)], alarms=[alarm], letters=[Letter(key, 0, 1, "malformed", "text")]))
    figures.look(0.0)
    full = json.loads(figures.full().partition(b"data: ")[2])
    shown = {one["key"] for name in ("people", "alarms", "letters") for one in full[name]}
    assert len(shown) == 1 and shown.pop() == "k" * 1000 + "... (1,048,576 characters)"


def test_viewers_see_for_how_long_no_broker_has_answered() -> None:
    health = Health(Metrics("in", "okfeb"))
    figures = Figures(Feed(), health, {"job": "j"})
    for last, silent in ((0.0, 0), (time.monotonic() - 40.0, 40)):
        health.last_answer = last
        figures.look()
        assert json.loads(figures.full().partition(b"data: ")[2])["totals"]["silent"] == silent


def test_an_alarm_that_ends_says_so_where_it_stands_and_marks_no_row() -> None:
    box = Feed()
    figures = Figures(box, Health(Metrics("in", "okfeb")), {"job": "j"})
    first, second = (
        ShownAlarm("k", time, "column_chart", "columns", math.nan, 1.0, 5.0, [("ax", -3.0, 2.0, 1.0)], name, time - 5.0)
        for time, name in ((100.0, "a1"), (200.0, "b2"))
    )
    over = first._replace(end=160.0, outcome="recovered")
    for number, some in enumerate(([first], [second], [over, over._replace(id="long forgotten")])):
        box.take(Report(rows=1, batches=[_rows("k")], alarms=some))
        figures.look(float(number))
    told = json.loads(figures.full().partition(b"data: ")[2])["alarms"]
    assert [(one["id"], one["time"], one["since"], one["end"], one["outcome"]) for one in told] == [
        ("b2", 200.0, 195.0, None, None),
        ("a1", 100.0, 95.0, 160.0, "recovered"),
    ]
    assert told[0]["columns"] == [["ax", -3.0, 2.0, 1.0]]


def test_keys_keep_their_places_until_they_are_idle_or_others_raise_alarms(monkeypatch: Any) -> None:
    group = People()
    first = [f"key-{number:03}" for number in range(MOST_PEOPLE)]
    group.take([_rows(*first)], (), 1)
    group.take([_rows("late", *first)], (), 2)
    assert list(group.shown) == first
    group.take([_rows("late", "loud")], [("loud", 1.0)], 3)
    assert "loud" in group.shown and "late" not in group.shown and len(group.shown) == MOST_PEOPLE
    assert group.shown["loud"].cells[-1][2] == 1
    assert group.choose("late") and "late" in group.shown  # beside the others
    monkeypatch.setattr(people, "IDLE", -1.0)
    group.take([_rows("new")], (), 4)
    assert "new" in group.shown and "late" in group.shown and len(group.shown) == MOST_PEOPLE + 1
    for number in range(people.MOST_CHOSEN - 1):
        assert group.choose(f"chosen-{number}")
    assert not group.choose("one too many")


def test_labels_by_predictions_count_labelled_rows_alone() -> None:
    group = People()
    rows = BatchRows(["p"] * 4, np.arange(4.0), np.ones(4), ["a", "b", None, "a"], ["a", "a", "a", None])
    group.take([rows], (), 1)
    assert group.unpredicted == 1
    assert dict(group.confusion) == {("a", "a"): 1, ("a", "b"): 1}
    assert (group.shown["p"].labelled, group.shown["p"].right, group.shown["p"].rows) == (2, 1, 4)
    group.take([BatchRows(["p"], np.zeros(1), np.ones(1), [1.5], [2.5])], (), 2)  # a regression's numbers are no classes
    assert sum(group.confusion.values()) == 2 and group.shown["p"].cells[-1][:2] == [-1, -1]


def test_predictions_stand_beside_a_repeat_of_the_last_label() -> None:
    names = ["a", "a", "b", "b", "b", None]
    scores = Scores()
    scores.take([BatchRows(["k"] * 6, np.arange(6.0), np.ones(6), [None, *"bbbbb"], names)])
    assert scores.summary() == {"accuracy": {"rows": 4, "model": 0.75, "last_label": 0.75, "majority": 0.25}}
    late = Scores(delay=2.0)  # of each row the label two rows before it is known
    late.take([BatchRows(["k"] * 6, np.arange(6.0), np.ones(6), ["b"] * 6, names)])
    assert late.summary() == {"accuracy": {"rows": 2, "model": 1.0, "last_label": 0.0, "majority": 0.0}}
    box = Feed()
    figures = Figures(box, Health(Metrics("in", "okfeb")), {"job": "j"})
    box.take(Report(batches=[BatchRows(["k"] * 3, np.arange(3.0), np.ones(3), [0.0] * 3, [1.0, 2.0, 4.0])], measured=3))
    figures.look(0.0)
    assert json.loads(figures.full().partition(b"data: ")[2])["confusion"]["repeated"] == round(math.sqrt(2.5), 3)
    assert figures.scores.summary() == {"rmse": {"rows": 2, "model": 3.16228, "last_label": 1.58114}}


class OpenAlarms:
    """States with these open alarms in every partition."""

    needed_to_alarm = "429 rows"

    def __init__(self) -> None:
        self.alarms: list[ShownAlarm] = []

    def open_alarms(self, live: Any, most: int) -> tuple[int, list[ShownAlarm]]:
        return len({one.key for one in self.alarms}), self.alarms[:most]


def _with_states() -> tuple[Feed, Figures, OpenAlarms]:
    box, states, metrics = Feed(), OpenAlarms(), Metrics("in", "okfeb")
    live = SimpleNamespace(keys=3)
    partition = SimpleNamespace(number=0, committed=0, live=live, stats=LiveStats, worst=lambda most: [])
    metrics.partitions = lambda: [partition]  # type: ignore[method-assign,list-item,return-value]
    health = SimpleNamespace(metrics=metrics, answer=lambda: (200, {}), last_answer=0.0)
    return box, Figures(box, health, {"job": "j"}, states), states  # type: ignore[arg-type]


def _full(figures: Figures) -> Any:
    return json.loads(figures.full().partition(b"data: ")[2])


def test_open_alarms_come_first_and_their_keys_stay_until_they_end_though_no_event_came(monkeypatch: Any) -> None:
    """As after a restart: the states say what is open, and no alarm was raised since."""
    box, figures, states = _with_states()
    old = ShownAlarm("silent", 50.0, "column_chart", "columns", math.nan, 1.0, 5.0, (), "a1", 45.0)
    over = ShownAlarm("p1", 900.0, "column_chart", "columns", 2.0, 1.0, 5.0, (), "b2", 890.0)
    states.alarms = [old]
    many = [f"p{number}" for number in range(MOST_PEOPLE + 5)]
    box.take(Report(rows=99, batches=[_rows(*many)], alarms=[over, over._replace(end=950.0, outcome="recovered")]))
    figures.look(1000.0)
    told = _full(figures)
    assert [(one["id"], one.get("open"), one["time"]) for one in told["alarms"]] == [("a1", True, 50.0), ("b2", None, 900.0)]
    assert told["totals"]["in_alarm"] == 1
    assert [one["key"] for one in told["people"] if one["alarm"]] == ["silent"]
    monkeypatch.setattr(people, "IDLE", -1.0)
    monkeypatch.setattr(people, "ALARM_HOLDS", -1.0)
    for look in range(MOST_PEOPLE + 5):
        box.take(Report(rows=1, batches=[_rows(f"new-{look}")]))
        figures.look(1001.0 + look)
    assert "silent" in figures.people.shown
    states.alarms = []
    figures.look(2000.0)
    assert _full(figures)["totals"]["in_alarm"] == 0 and not any(one["alarm"] for one in _full(figures)["people"])


def test_more_keys_in_alarm_than_places_leave_none_to_others() -> None:
    group = People()
    group.take([_rows(*(f"key-{number:03}" for number in range(MOST_PEOPLE)))], (), 1)
    opened = {f"loud-{number:03}": None for number in range(MOST_PEOPLE + 3)}
    group.take([_rows("other")], [("other", 0.0)], 2, opened)
    assert list(group.shown) == list(opened)[:MOST_PEOPLE]


def test_an_open_alarm_takes_the_place_of_one_that_has_just_ended_and_an_alarm_that_is_over_does_not() -> None:
    group, first = People(), [f"key-{number:03}" for number in range(MOST_PEOPLE)]
    group.take([_rows(*first)], (), 1, dict.fromkeys(first))
    group.take([_rows("over")], [("over", 0.0)], 2)
    assert list(group.shown) == first
    group.take([_rows("open")], [("open", 0.0)], 3, {"open": None})
    assert group.shown["open"].alarm and len(group.shown) == MOST_PEOPLE


def test_viewers_see_at_once_that_the_newest_samples_are_late() -> None:
    _, figures, _ = _with_states()
    taken = figures._health.metrics.taken
    for records, late in ((10_000, 0), (150, 0), (150, 150)):
        taken.add(Report(records=records, samples=records, rows=records - late, skipped={"late": late}))
        figures.look()
    told = _full(figures)
    assert told["totals"]["skipped"] == {"late": 150}
    (sentence,) = told["doubts"]
    assert sentence.startswith("100 % of the newest 150 samples are late: older than the newest sample of their key")
    taken.add(Report(records=1000, samples=1000, rows=1000))
    figures.look()
    assert _full(figures)["doubts"] == []


def test_viewers_see_how_many_records_wait() -> None:
    _, figures, _ = _with_states()
    metrics = figures._health.metrics
    metrics.end_of = lambda number: 700 if number == 0 else None  # type: ignore[method-assign]
    (partition,) = metrics.partitions()
    for committed, lag in ((0, 700), (650, 50), (800, 0)):
        partition.committed = committed
        figures.look()
        told = _full(figures)
        assert told["points"][-1][told["about"]["series"].index("lag")] == lag


def test_the_keys_that_are_not_shown_are_listed_by_a_part_of_their_name() -> None:
    asker = Asker(settings_from(JOB), None)  # type: ignore[arg-type]
    assert json.loads(asker.listed("", 1000)) == {"keys": 0, "matching": 0, "names": []}
    keys = {b"pump-%03d" % number: number for number in range(300)} | {b"\xff": 300, b"k" * 2000: 301}
    asker._held = lambda: {0: SimpleNamespace(live=SimpleNamespace(slot_of=keys))}  # type: ignore[dict-item,return-value]
    told = json.loads(asker.listed("mp-29", 1000))
    assert told == {"keys": 302, "matching": 10, "names": [f"pump-{number}" for number in range(290, 300)]}
    told = json.loads(asker.listed("", 1000))
    assert told["matching"] == 302 and len(told["names"]) == MOST_LISTED and told["names"][0] == r"\xff"
    assert told["names"][1].endswith("... (2,000 characters)")
