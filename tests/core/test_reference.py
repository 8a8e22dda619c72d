"""[drift] reference: the first rows are normal for good, until somebody says that others are."""

import json
from typing import Any

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.drift.report import ALARM, OPEN
from streamjobs.core.job import Job
from streamjobs.core.live.stored import decode_snapshot, starting_from
from streamjobs.core.messages import Output, Stored
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.renew import exported_model, relearned_snapshot
from streamjobs.settings.events import DriftSection
from streamjobs.settings.rules.drift import drift_contradictions
from tests.core.streams import START, Worker, record, settings, values

PLAIN: dict[str, Any] = {"window": None, "head": None, "learner": {"name": "okfeb", "rank": 3, "budget": 5}}
BOTH = {"features": "", "drift": "rows", "alarms": "alarms"}
STATED = {"false_alarms": "1 per 5000 rows"}
COLUMNS = {**STATED, "watch": "columns", "reference": "first 400 rows"}
OKFEB = {"name": "okfeb", "role": "track", "rank": 10, "budget": 15}
ERRORS = {**STATED, "extractor": OKFEB, "reference": "first 400 rows"}
BOTH_WATCHED = {**ERRORS, "watch": ["columns", "ls_error"]}


def job(drift: dict, **sections) -> Job:
    return Job.from_settings(settings(drift=drift, sinks=BOTH, **{**PLAIN, **sections}))


def stream(n: int, moved: np.ndarray | None = None, seed: int = 0) -> list[Stored]:
    """n rows of a key at 10 Hz; moved (n,) is added to `ay`, whose deviation is 1."""
    x = np.random.default_rng(seed).normal(size=(n, 3))
    if moved is not None:
        x[:, 1] += moved
    names = ("ax", "ay", "az")
    return [
        record(step, b"pump", {**dict(zip(names, row, strict=True)), "ts": START + step * 0.1})
        for step, row in enumerate(x.tolist())
    ]


def alarms(outputs: list[Output]) -> list[dict]:
    return [json.loads(one.value) for one in outputs if one.sink == "alarms"]


def rows(outputs: list[Output]) -> list[dict]:
    return [json.loads(one.value) for one in outputs if one.sink == "drift"]


@pytest.mark.parametrize("drift", [COLUMNS, ERRORS], ids=["columns", "ls_error"])
def test_an_alarm_lasts_as_long_as_the_change_and_ends_when_the_values_are_back(drift: dict) -> None:
    at = np.arange(2600)
    outputs = Worker(job(drift)).apply(stream(2600, 5.0 * ((at >= 600) & (at < 2400))))
    raised, ended = alarms(outputs)
    assert (raised["id"], raised["open"], ended["outcome"]) == (ended["id"], True, "recovered")
    assert START + 60 <= raised["start"] < START + 64
    assert START + 240 < ended["end"] < START + (244 if drift is COLUMNS else 254), "errors have to stay back for 50 rows"
    assert raised["reference"] == (400 if drift is COLUMNS else 200), "the extractor had the first half"
    warming = [one.get("warming_up", False) for one in rows(outputs)]
    assert all(warming[20:400]), "before that some rows have no LS error yet"
    assert not any(warming[400:])
    if drift is COLUMNS:
        assert [moved["column"] for moved in raised["columns"]] == ["ay"]
        assert raised["columns"][0]["deviations"] == pytest.approx(5.0, abs=2.5)


def test_a_slow_fault_is_found_with_a_reference_and_swallowed_without() -> None:
    slow = stream(21_000, 3.0 * np.clip((np.arange(21_000) - 1000) / 20_000, 0, 1))
    without = {name: value for name, value in ERRORS.items() if name != "reference"}
    said: dict[str, float] = {}
    for name, drift in (("errors", {**ERRORS, "reference": "first 1000 rows"}), ("without", without)):
        outputs = Worker(job(drift)).apply(slow)
        said[name] = float(np.mean([one.get("open", False) for one in rows(outputs)[-4000:]]))
        assert name == "without" or all(alarm["start"] > START + 100 for alarm in alarms(outputs)), "before the fault"
    print(said)
    assert said["errors"] > 0.95
    assert said["without"] < 0.1
    chart, x = learner_from("reference_chart", {"rows": 1000}), [json.loads(one.value or b"") for one in slow]
    columns = [[body[name] for name in ("ax", "ay", "az")] for body in x]
    told = chart.run(chart.init(dim=3, targets=0, seed=0), columns)[1].features
    assert told[:1000, ALARM].sum() == 0 < told[:, ALARM].sum()
    assert told[-4000:, OPEN].all()


@pytest.mark.parametrize("seed", [1, 5])
def test_a_slow_rise_is_one_alarm_and_ends_once(seed: int) -> None:
    """An average that is a little higher goes to and fro between its limit and what was usual."""
    values = np.random.default_rng(seed).chisquare(3, (24_000, 1))
    values[1400:23_000, 0] += 3.7 * np.minimum(np.arange(21_600) / 20_000, 1)
    level = learner_from("reference_level", {"rows": 400})
    told = level.run(level.init(dim=1, targets=0, seed=0), values)[1].features
    assert told[:23_000, ALARM].sum() == 1
    assert told[22_000:23_000, OPEN].all()
    assert 23_050 <= 23_000 + told[23_000:, OPEN].argmin() < 23_150


@pytest.mark.parametrize("drift", [COLUMNS, ERRORS], ids=["columns", "ls_error"])
def test_any_batches_and_restarts_give_the_same(drift: dict) -> None:
    one, records = job(drift), stream(700, 5.0 * (np.arange(700) >= 600))
    expected = sorted(values(Worker(one).apply(records)))
    assert any(sink == "alarms" for sink, *_ in expected)
    parts, got = Worker(one), []
    for begin in range(0, len(records), 93):
        got += values(parts.apply(records[begin : begin + 93]))
        parts.checkpoint()
        parts = Worker(one, parts.store)
    assert sorted(got) == expected


def test_what_an_extractor_has_learned_stands_still_after_the_first_half() -> None:
    one, records = job(ERRORS), stream(900)
    worker, held = Worker(one), []
    for part in (records[:200], records[200:201], records[201:]):
        worker.apply(part)
        worker.checkpoint()
        held.append(decode_snapshot(one, worker.store[b"pump"])[0])
    for stage in ("drift_extractor", "drift_scaling"):
        first, second, third = (one.own[stage].bytes_of(states[stage]) and repr(states[stage]) for states in held)
        assert first == second == third
    assert repr(held[0]["learner"]) != repr(held[2]["learner"]), "the job's own learner goes on"


def test_a_reference_in_event_time_ends_by_it() -> None:
    outputs = Worker(job({**COLUMNS, "reference": "first 30s"})).apply(stream(500))
    assert sum(one.get("warming_up", False) for one in rows(outputs)) == pytest.approx(300, abs=1)


def test_too_few_rows_for_the_stated_number_are_reported() -> None:
    few = {**COLUMNS, "reference": "first 60 rows"}
    raised, *_ = alarms(Worker(job(few)).apply(stream(400, 8.0 * (np.arange(400) >= 300))))
    assert (raised["false_alarms"], raised["reference"]) == (None, 60)


def test_relearned_keys_take_what_comes_for_normal_and_end_their_alarm_under_its_id() -> None:
    one, records = job(COLUMNS), stream(2000, 5.0 * (np.arange(2000) >= 600))
    worker = Worker(one)
    (raised,) = alarms(worker.apply(records[:700]))
    worker.checkpoint()
    before = decode_snapshot(one, worker.store[b"pump"])
    data = relearned_snapshot(one, Entry(0, b"pump", worker.store[b"pump"], 0, 0))
    assert relearned_snapshot(one, Entry(0, b"pump", data, 0, 0)) == data
    after = decode_snapshot(one, data)
    assert after[1:] == before[1:]
    changed = {name for name in one.own if repr(before[0][name]) != repr(after[0][name])}
    assert changed == {"reference", "drift"}
    again = Worker(one, {b"pump": data})
    assert again.apply(records[:700]) == [], "offsets went back"
    (ended,) = alarms(again.apply(records[700:]))
    assert (ended["id"], ended["outcome"], ended["end"]) == (raised["id"], "learned anew", START + 70.0)


LASTING = [("100 rows", 1.0), ("10s", 1.0), ("10s", 3.0)]  # relearn_after, and how often another key has a row


@pytest.mark.parametrize("drift", [COLUMNS, ERRORS, BOTH_WATCHED], ids=["columns", "ls_error", "both"])
@pytest.mark.parametrize(("after", "every"), LASTING)
def test_an_alarm_that_has_lasted_begins_a_new_reference_in_any_batches(drift: dict, after: str, every: float) -> None:
    one = job({**drift, "reference": "first 120 rows", "relearn_after": after})
    at = np.arange(700)
    records = stream(700, 6.0 * (at >= 200) + 6.0 * (at >= 550))
    others = [other._replace(key=b"fan") for other in stream(700, 6.0 * (at >= 230), seed=1) if not other.offset % every]
    both = [
        mine._replace(offset=offset)
        for offset, mine in enumerate(sorted([*records, *others], key=lambda mine: (mine.timestamp, mine.key)))
    ]
    outputs = Worker(one).apply(both)
    mine = [alarm for alarm in alarms(outputs) if alarm["key"] == "pump"]
    for watch in {alarm["watch"] for alarm in mine}:
        first, renewed, second, *_ = [alarm for alarm in mine if alarm["watch"] == watch]
        assert (first["id"], renewed["outcome"]) == (renewed["id"], "learned anew")
        assert START + 55 <= second["start"] < START + 59, "the second change, from the new normal"
    lasted = [alarm["end"] - alarm["start"] for alarm in mine if not alarm["open"]]
    until = 10.01 if drift is COLUMNS else 12.0  # a new extractor's first rows have no LS error
    assert 9.99 < max(lasted) < until, "100 rows, of which one comes every 100 ms"
    expected = sorted(values(outputs))
    for size in (1, 7, 450) if after == "100 rows" and drift is BOTH_WATCHED else (7, 450):
        parts, got = Worker(one), []
        for begin in range(0, len(both), size):
            got += values(parts.apply(both[begin : begin + size]))
            if size > 1 and begin % 3 == 0:
                parts.checkpoint()
                parts.crash()
        assert sorted(got) == expected, f"in batches of {size}"


def test_an_idle_sensor_in_alarm_learns_no_new_reference_until_it_wakes() -> None:
    one = job({**COLUMNS, "relearn_after": "20s"})
    records = stream(1200, 6.0 * (np.arange(1200) >= 600))
    body = json.loads(records[699].value or b"")
    for step in range(700, 1000):
        records[step] = record(step, b"pump", {**body, "ts": START + step * 0.1})
    raised, ended = alarms(Worker(one).apply(records))
    assert ended["id"] == raised["id"]
    assert (ended["outcome"], ended["end"]) == ("learned anew", pytest.approx(START + 100.0, abs=0.01))


@pytest.mark.parametrize("drift", [COLUMNS, ERRORS], ids=["columns", "ls_error"])
def test_new_keys_are_measured_against_the_reference_of_an_exported_state_from_their_first_row_on(drift: dict) -> None:
    drift = {**drift, "reference_from": "start_from"}
    teaches = Job.from_settings(settings(drift={**drift, "reference_from": "own"}, sinks=BOTH, **PLAIN))
    worker = Worker(teaches)
    worker.apply(stream(600))
    worker.checkpoint()
    model = exported_model(teaches, Entry(0, b"pump", worker.store[b"pump"], 0, 0))
    one = starting_from(job({**drift}, state={"start_from": "well.state"}), model)
    moved = [mine._replace(key=b"new") for mine in stream(300, 6.0 * (np.arange(300) >= 100), seed=3)]
    outputs = Worker(one).apply(moved)
    (raised,) = alarms(outputs)
    assert START + 10 <= raised["start"] < START + 14
    assert not any(mine.get("warming_up", False) for mine in rows(outputs))
    own = Worker(one._replace(start=None)).apply(moved)
    assert alarms(own) == [], "its own reference is not over"


def test_a_state_whose_reference_is_not_over_or_which_is_in_alarm_is_no_measure_for_others() -> None:
    one = job({**COLUMNS, "reference_from": "start_from"}, state={"start_from": "well.state"})
    worker = Worker(one)
    for count, sentence in (
        (300, "has 300 rows of its reference"),
        (700, "is in alarm, so it cannot be the reference of others"),
    ):
        worker.apply(stream(count, 6.0 * (np.arange(count) >= 500)))
        worker.checkpoint()
        model = exported_model(one, Entry(0, b"pump", worker.store[b"pump"], 0, 0))
        with pytest.raises(SnapshotError, match=sentence):
            starting_from(one, model)


@pytest.mark.parametrize(
    ("sections", "sentence"),
    [
        ({"drift": {**STATED, "watch": "columns", "relearn_after": "7d"}}, "relearn_after needs a reference, such as"),
        ({"drift": {**STATED, "reference_from": "start_from"}}, "reference_from needs the reference of the job"),
        ({"drift": {**COLUMNS, "reference_from": "start_from"}}, "reference_from = 'start_from' needs [state] start_from"),
        ({"drift": {**COLUMNS, "relearn_after": "0 rows"}}, "longer than nothing, such as '5000 rows' or '7d'"),
        (
            {"drift": {**COLUMNS, "relearn_after": "7d"}, "sinks": {"alarms": ""}},
            "relearn_after needs open alarms, which are kept only if their topic is on",
        ),
    ],
)
def test_a_new_reference_that_cannot_be_is_refused_with_one_sentence(sections: dict, sentence: str) -> None:
    with pytest.raises((ConfigError, ValueError)) as refused:
        Job.from_settings(settings(**{**PLAIN, **sections}))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("drift", "sentence"),
    [
        ({"reference": "first 50 rows"}, "reference must have 60 rows or more; got 'first 50 rows'."),
        ({"watch": "loss", "reference": "first 60 rows"}, "must have 120 rows or more, half of them for the extractor"),
        ({"false_alarms": None}, "reference needs false_alarms, such as '1 per 10000 rows'"),
        (
            {"watch": "ls_error"},
            "reference with watch = 'ls_error' needs an extractor, which stops learning after the reference",
        ),
    ],
)
def test_a_reference_that_cannot_be_is_refused_with_one_sentence(drift: dict, sentence: str) -> None:
    section = DriftSection(**{**COLUMNS, **drift})
    found = [problem for _, problem in drift_contradictions(section, None, {"learner": learner_from("okfeb", {})})]
    assert any(sentence in one for one in found), found


@pytest.mark.parametrize(
    ("detector", "sentence"),
    [
        (
            "column_chart",
            "reference needs the detector 'reference_level' or 'reference_chart'; column_chart continues to learn.",
        ),
        (
            {"name": "reference_chart", "rows": 400},
            "reference and the detector's rows set the same number; remove one of them.",
        ),
    ],
)
def test_a_detector_that_does_not_stand_still_is_refused(detector: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        job({**COLUMNS, "detector": detector})
    assert sentence in str(refused.value)


@pytest.mark.parametrize("text", ["400 rows", "first rows", "first 0 rows", "first 2 weeks"])
def test_a_text_that_says_no_rows_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="first 400 rows"):
        DriftSection(**{**COLUMNS, "reference": text})
