"""Alarms about sensors, stuck or silent: raised and ended once, whatever crashes; not by what stands still by nature."""

import json

import numpy as np
import pytest

from algorithms.common.protocol import LEARN, SettingError
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.stored import decode_snapshot
from streamjobs.core.messages import Output, Stored
from streamjobs.core.partitioners import murmur2
from streamjobs.core.sensor_alarms import open_now
from streamjobs.errors import ConfigError, SetupError
from streamjobs.settings.load import composition_from
from streamjobs.stages.events.group import Grouped
from streamjobs.stages.events.silent import Heard
from streamjobs.stages.events.stuck import LEAST, StuckSensors
from streamjobs.stages.stage import Shape
from tests.core.streams import START, Worker, record, settings, values

NAMES = ("ax", "ay", "az")
CHART = {"name": "column_chart", "learn": 100, "hold": 60}
DRIFT = {"watch": "columns", "false_alarms": "1 per 1000 rows", "detector": CHART}
SAMPLES = {"window": None, "head": None, "learner": {"name": "okfeb", "rank": 3, "budget": 5}, "sinks": {}}


def job(**sections) -> Job:
    return Job.from_settings(settings(**{**SAMPLES, "drift": None, "alarms": {"stuck": True}, **sections}))


def stream(n: int = 400, keys: int = 2, seed: int = 4, stuck: tuple[int, int] = (200, 300)) -> list[Stored]:
    """n samples of each key, one a second; of p0, ay stands still in these samples, and az in the last 60 of them."""
    random = np.random.default_rng(seed)
    records: list[Stored] = []
    for step in range(n):
        for key in range(keys):
            x = random.normal(size=3)
            if key == 0 and stuck[0] <= step < stuck[1]:
                x[1] = 2.5
                x[2] = 7.0 if step >= stuck[1] - 60 else x[2]
            if key == 1 and 320 <= step < 340:
                x += 30.0
            body = dict(zip(NAMES, x.tolist(), strict=True), ts=START + step)
            records.append(record(len(records), f"p{key}".encode(), body))
    return records


def alarms(outputs: list[Output]) -> list[dict]:
    return [json.loads(one.value) for one in outputs if one.sink == "alarms"]


def rows_of(outputs: list[Output]) -> list[tuple]:
    return [one for one in values(outputs) if one[0] == "alarms"]


def test_a_stuck_sensor_gives_one_alarm_with_its_columns_and_its_end() -> None:
    worker = Worker(job())
    outputs = worker.apply(stream())
    raised, ended = alarms(outputs)
    assert (raised["key"], raised["watch"], raised["open"], raised["outcome"]) == ("p0", "stuck", True, None)
    assert (raised["since"], raised["start"], raised["rows"]) == (START + 200, START + 200 + LEAST - 1, LEAST)
    assert raised["columns"] == [{"column": "ay", "deviations": 0.0, "before": 2.5, "after": 2.5}]
    assert (raised["rows_learned"], raised["evidence"]) == (200, 1.0)
    assert (ended["id"], ended["open"], ended["end"], ended["outcome"]) == (raised["id"], False, START + 300, "recovered")
    assert [one["column"] for one in ended["columns"]] == ["ay", "az"]
    assert {one.key for one in outputs if one.sink == "alarms"} == {b"p0"}


@pytest.mark.parametrize("window", [None, {"length": "10s", "hop": "5s", "rate": 1.0}])
def test_a_crash_after_every_record_changes_no_byte(window: dict | None) -> None:
    """Between alarms of rows, in the order of the records."""
    one = job(window=window, drift=DRIFT)
    records = stream()
    whole = Worker(one)
    expected = rows_of(whole.apply(records))
    whole.checkpoint()
    kinds = [json.loads(row[2])["watch"] for row in expected]
    assert kinds.count("stuck") == 2 and (window is not None or "columns" in kinds)
    worker, got = Worker(one), []
    for single in records:
        got += rows_of(worker.apply([single]))
        worker.checkpoint()
        worker.crash()
    assert got == expected
    assert worker.store == whole.store
    assert not Worker(one, dict(worker.store)).apply(records), "redelivered records send nothing"


def test_open_alarms_are_read_from_the_states() -> None:
    one = job()
    worker = Worker(one)
    worker.apply(stream()[:500])
    worker.checkpoint()
    worker.crash()
    worker.apply(stream()[500:502])
    keys, shown = open_now(one, worker.live, 10)
    assert (keys, [(alarm.key, alarm.watch, alarm.since) for alarm in shown]) == (1, [("p0", "stuck", START + 200)])
    assert worker.live.stats(0).in_alarm == 1


def natural(random: np.random.Generator, n: int, seconds: float) -> dict[str, np.ndarray]:
    """Columns that stand still by nature, or repeat themselves, a sample every so many seconds."""
    hour = np.arange(n) * seconds / 3600.0 % 24.0
    day = np.clip(np.sin(2 * np.pi * (hour - 6) / 24), 0, None)
    temperature = 20 + 4 * np.sin(2 * np.pi * hour / 24) + 0.1 * random.normal(size=n)
    lengths = np.ceil(random.pareto(0.7, n) + 1).clip(max=n).astype(int)
    door = np.repeat(np.arange(n) % 2, lengths)[:n].astype(float)
    return {
        "noise": random.normal(size=n),
        "tenths of a degree": temperature.round(1),
        "degrees": temperature.round(),
        "smooth degrees": (20 + 4 * np.sin(2 * np.pi * hour / 24)).round(1),
        "converter": (0.5 * random.normal(size=n)).round(),
        "counts by day": random.poisson(8 * day).astype(float),
        "counts": random.poisson(3.0, n).astype(float),
        "few counts": random.poisson(0.3, n).astype(float),
        "battery": (4.2 - 1e-5 * np.arange(n) + 0.002 * random.normal(size=n)).round(2),
        "battery that falls": 100 - 0.0005 * np.arange(n),
        "door": door,
        "set point": np.repeat(random.normal(size=n), random.integers(1, 900, n))[:n],
        "constant": np.full(n, 3.0),
        "saturated": np.clip(random.normal(size=n) + 2 * np.sin(2 * np.pi * hour / 24), -1.0, 1.5),
    }


def raised_in(column: np.ndarray, seconds: float) -> list[int]:
    stage, shape = StuckSensors(), Shape(dim=1, width=1, label_width=1, targets=1)
    work, n = stage.workspace(stage.begin(shape, 0)), len(column)
    stage.load(work, 0, stage.begin(shape, 0))
    samples = np.zeros(n, np.int64), np.arange(n) * seconds, column.reshape(-1, 1).copy()
    return [one.row for one in stage.advance(work, *samples, np.full(n, LEARN, np.int8)) if not one.ended]


@pytest.mark.parametrize(("n", "seconds"), [(10_000, 1.0), (10_000, 60.0), (3000, 600.0)])
def test_what_stands_still_by_nature_does_not_alarm(n: int, seconds: float) -> None:
    """Seeds that chose nothing."""
    for seed in range(100, 106):
        for name, column in natural(np.random.default_rng(seed), n, seconds).items():
            assert not raised_in(column, seconds), (name, seed)


@pytest.mark.parametrize("name", ["noise", "counts", "battery that falls", "tenths of a degree"])
def test_columns_that_change_alarm_when_they_stop(name: str) -> None:
    column = natural(np.random.default_rng(110), 6000, 60.0)[name]
    column[5000:] = column[5000]
    (at,) = raised_in(column, 60.0)
    assert 5000 + LEAST - 2 <= at < 5150


def test_the_next_alarm_of_a_column_needs_a_run_twice_as_long() -> None:
    """Such as of a machine that is switched off at night at some number: its alarms are few, however many nights come."""
    random = np.random.default_rng(120)
    nights = [100, 210, 150, 300, 500, 800]
    held = enumerate(nights)
    column = np.concatenate([part for at, night in held for part in (random.normal(size=300), np.full(night, 5.0 + at))])
    begins = np.cumsum([300 + night for night in [0, *nights[:-1]]]).tolist()
    assert raised_in(column, 1.0) == [begins[0] + LEAST - 1, begins[1] + LEAST - 1]


def parked(seed: int, at: float) -> np.ndarray:
    """Noise, and one number while the machine is parked: 5 samples to some hundred, a sample a minute."""
    random = np.random.default_rng(seed)
    moves = [random.normal(size=int(random.exponential(400)) + 60) for _ in range(20)]
    lengths = (random.lognormal(np.log(60), 1.0, 20).astype(int) + 5).tolist()
    return np.concatenate([part for move, n in zip(moves, lengths, strict=True) for part in (move, np.full(n, at))])


@pytest.mark.parametrize(("at", "most"), [(0.0, 0), (4.0, 2)])
def test_a_number_at_which_a_column_rests_is_not_stuck(at: float, most: int) -> None:
    """At 0; at another number the first stay alarms, and one 10 times as long. It can be stuck at others all the same."""
    for seed in range(200, 220):
        column = parked(seed, at)
        raised = raised_in(column, 60.0)
        assert len(raised) <= most, seed
        moving = np.random.default_rng(seed).normal(size=100)
        *before, stop = raised_in(np.concatenate([column, moving, np.full(300, 1.5)]), 60.0)
        assert before == raised and stop >= len(column) + 100, seed
        assert at != 0.0 or stop == len(column) + 100 + LEAST - 1, seed


def test_a_column_that_stays_at_0_for_a_day_is_stuck() -> None:
    column = np.concatenate([parked(230, 0.0)[:-5], np.random.default_rng(230).normal(size=100), np.zeros(20_000)])
    (at,) = raised_in(column, 60.0)
    assert at >= len(column) - 20_000 + 1440


def test_a_stated_time_must_pass_too() -> None:
    assert alarms(Worker(job(alarms={"stuck": "50s"})).apply(stream()))[0]["start"] == START + 250
    assert not alarms(Worker(job(alarms={"stuck": "2m"})).apply(stream()))


def test_late_samples_neither_end_an_alarm_nor_raise_one() -> None:
    records = stream(stuck=(200, 400))
    body = {**dict.fromkeys(NAMES, 0.5), "ts": START + 100.0}
    records.insert(600, record(600, b"p0", body))
    records = [one._replace(offset=offset) for offset, one in enumerate(records)]
    source = {"topic": "imu", "fields": list(NAMES), "time": "ts", "late": "predict_only"}
    assert [one["open"] for one in alarms(Worker(job(source=source)).apply(records))] == [True]


@pytest.mark.parametrize("drift", [None, DRIFT])
def test_states_are_read_with_and_without(drift: dict | None) -> None:
    watching, plain = job(drift=drift), job(drift=drift, alarms=None)
    records = stream()
    for writer, reader in ((watching, plain), (plain, watching)):
        old = Worker(writer)
        old.apply(records[:300])
        old.checkpoint()
        new = Worker(reader, dict(old.store))
        new.apply(records[300:])
        new.checkpoint()
        states, _, offsets = decode_snapshot(reader, new.store[b"p0"])
        assert offsets == {("imu", 0): 798}
        assert ("stuck" in states) == (reader is watching)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"alarms": {}}, "[alarms] asks for no alarm"),
        ({"alarms": {"stuck": True}, "sinks": {"alarms": ""}}, "which is off"),
        ({"alarms": {"stuck": "often"}}, "stuck"),
        ({"sinks": {"alarms": "a"}}, "no alarms would be sent"),
        ({"alarms": {"stuck": True, "expected": ["a"]}}, "expected needs silent"),
        ({"alarms": {"silent": "1m", "expected": ["a", "b", "a"]}}, "expected must name different keys"),
    ],
)
def test_settings_that_raise_no_alarm_are_refused(sections: dict, message: str) -> None:
    table = {"source": {"topic": "imu", "fields": ["ax"]}, "learner": {"name": "okfeb"}, "head": {"name": "rls"}}
    with pytest.raises(ConfigError, match=r"(?s).*" + message.replace("[", r"\[").replace("]", r"\]")):
        composition_from(table | sections)


class Fleet(Worker):
    """As a worker, which meets all stored keys when it takes over their partition."""

    def crash(self) -> None:
        super().crash()
        self.live.meet(lambda after, count: [] if after is not None else sorted(self.store.items()))


SILENT = {"silent": "60s"}
EXPECTED = SILENT | {"expected": ["s0", "s8", "s9", "s10"]}


def fleet(seed: int = 9, n: int = 240) -> list[Stored]:
    """Samples of eight keys, about one each 5 s; s1 and s2 pause twice, s3 stops, s4 sends old samples after that."""
    random = np.random.default_rng(seed)
    stops = {"s1": [(300, 500), (800, 1000)], "s2": [(300, 520), (700, 790)], "s3": [(600, 1e9)], "s4": [(640, 1e9)]}
    sent = []
    for key in range(8):
        times = (np.arange(n) * 5 + random.uniform(0, 4, n)).tolist()
        sent += [(time, time, f"s{key}") for time in times if not any(a <= time < b for a, b in stops.get(f"s{key}", ()))]
    sent += [(900.0 + step, 500.0 + step, "s4") for step in range(20)]
    records: list[Stored] = []
    for _, time, key in sorted(sent):
        body = dict(zip(NAMES, random.normal(size=3).tolist(), strict=True), ts=START + time)
        records.append(record(len(records), key.encode(), body))
    return records


def told(outputs: list[Output]) -> list[tuple[str, bool, float]]:
    return [(one["key"], one["open"], round((one["end"] or one["start"]) - START)) for one in alarms(outputs)]


def test_a_key_that_is_silent_alarms_by_the_time_of_the_others_and_comes_back() -> None:
    outputs = Fleet(job(alarms=SILENT)).apply(fleet())
    by_key = {key: [one for one in told(outputs) if one[0] == key] for key in ("s1", "s2", "s3", "s4")}
    assert sum(map(len, by_key.values())) == len(told(outputs)) == 10
    assert [state for _, state, _ in by_key["s1"]] == [True, False, True, False]
    assert by_key["s1"][0][2] == pytest.approx(360, abs=6) and by_key["s1"][1][2] == pytest.approx(502, abs=6)
    assert [state for _, state, _ in by_key["s3"]] == [True], "it never comes back"
    assert [state for _, state, _ in by_key["s4"]] == [True], "samples older than its own do not end it"
    first = alarms(outputs)[0]
    assert (first["watch"], first["outcome"], first["columns"]) == ("silent", None, [])
    assert first["start"] - first["since"] == pytest.approx(60, abs=5)
    assert {one.key for one in outputs if one.sink == "alarms"} == {b"s1", b"s2", b"s3", b"s4"}


def of_missing(partition: int = 0) -> list[Stored]:
    """As the fleet; s8 comes before 60 s have passed, s9 after, and s10 does not."""
    records = fleet()
    for time, key in ((40.0, b"s8"), (100.0, b"s9"), (104.0, b"s9")):
        body = dict(zip(NAMES, (0.1, 0.2, time), strict=True), ts=START + time)
        at = next(at for at, one in enumerate(records) if json.loads(one.value)["ts"] > START + time)
        records.insert(at, record(int(time), key, body))
    return [one._replace(offset=offset, partition=partition) for offset, one in enumerate(records)]


def missing(outputs: list[Output]) -> list[dict]:
    return [one for one in alarms(outputs) if one["watch"] == "missing"]


def test_a_key_that_is_expected_and_does_not_come_is_missing() -> None:
    worker = Fleet(job(alarms=EXPECTED))
    outputs = worker.apply(of_missing())
    raised = missing(outputs)[:2]
    assert [(one["key"], one["open"], one["since"], one["end"]) for one in raised] == [
        ("s10", True, None, None),
        ("s9", True, None, None),
    ]
    first = json.loads(of_missing()[0].value)["ts"]
    assert first + 60 <= raised[0]["start"] == raised[1]["start"] < first + 64
    (ended,) = missing(outputs)[2:]
    assert (ended["id"], ended["start"]) == (raised[1]["id"], raised[1]["start"])
    assert (ended["outcome"], ended["end"]) == ("recovered", START + 100)
    assert {one.key for one in outputs if b'"missing"' in one.value} == {b"s9", b"s10"}
    shown = [one for one in open_now(job(alarms=EXPECTED), worker.live, 20)[1] if one.watch == "missing"]
    assert [(one.key, one.id) for one in shown] == [("s10", raised[0]["id"])]
    silent = [one["key"] for one in alarms(outputs) if one["watch"] == "silent"]
    assert silent.count("s9") == silent.count("s8") == 1 and "s10" not in silent


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_partition_looks_for_its_own_keys(partitions: int) -> None:
    """Kafka has four; a recording has one, whatever its number."""
    several = job(alarms=SILENT | {"expected": ["x0", "x1", "x2", "x3", "x4", "x5"]})
    records = [one._replace(partition=2) for one in fleet()]
    found = missing(Fleet(several.on_partitions(partitions)).apply(records))
    own = [key for key in several.settings.alarms.expected if partitions == 1 or murmur2(key.encode(), partitions) == 2]
    assert len(own) > 0 and (partitions == 1 or len(own) < 6)
    assert [one["key"] for one in found] == own


def test_an_expected_key_on_another_partition_stops_the_worker() -> None:
    place = murmur2(b"s3", 4)
    one = job(alarms=SILENT | {"expected": ["s3"]}).on_partitions(4)
    assert Fleet(one).apply([each._replace(partition=place) for each in fleet()])
    with pytest.raises(
        SetupError, match=r"one of \[alarms\] expected.*in partition \d of 4 by murmur2.*\[source\] partitioner"
    ):
        Fleet(one).apply([each._replace(partition=(place + 1) % 4) for each in fleet()])


@pytest.mark.parametrize(
    "sections", [{}, {"drift": DRIFT, "alarms": SILENT | {"stuck": True}}, {"alarms": EXPECTED | {"stuck": True}}]
)
def test_who_is_silent_follows_from_the_stored_states(sections: dict) -> None:
    """A crash after every record, and batches of any size, change no byte."""
    one = job(**({"alarms": SILENT} | sections))
    records = of_missing() if one.settings.alarms.expected else fleet()
    whole = Fleet(one)
    expected = rows_of(whole.apply(records))
    whole.checkpoint()
    assert len(expected) >= 10 and (b"s10" in whole.store) == bool(one.settings.alarms.expected)
    worker, got = Fleet(one), []
    for number, single in enumerate(records):
        got += rows_of(worker.apply([single]))
        if number % 3 == 0:
            worker.checkpoint()
            worker.crash()
    worker.checkpoint()
    assert got == expected
    assert worker.store == whole.store
    worker.crash()
    assert not worker.apply(records), "redelivered records send nothing"
    assert worker.live.silence is not None and whole.live.silence is not None
    for what in ("clock", "quiet", "missing"):
        assert getattr(worker.live.silence, what) == getattr(whole.live.silence, what)


def test_a_crash_before_a_checkpoint_repeats_the_same_alarms() -> None:
    one = job(alarms=SILENT)
    records = fleet()
    expected = rows_of(Fleet(one).apply(records))
    worker, got = Fleet(one), []
    for at in range(0, len(records), 50):
        lost = rows_of(worker.apply(records[at : at + 37]))
        worker.crash()
        again = rows_of(worker.apply(records[at : at + 50]))
        assert again[: len(lost)] == lost
        got += again
        worker.checkpoint()
    assert got == expected


def test_a_pause_of_the_whole_partition_makes_no_key_silent() -> None:
    records = fleet()[:300]
    late = [json.loads(one.value) for one in records]
    more = [
        record(300 + at, one.key, body | {"ts": body["ts"] + 40_000.0})
        for at, (one, body) in enumerate(zip(records, late, strict=True))
    ]
    assert told(Fleet(job(alarms=SILENT)).apply([*records, *more])) == []


def test_a_stage_that_fails_for_one_record_changes_nothing_of_who_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The states of its batch are made again from stored ones, in which the keys were heard of earlier."""
    one = job(alarms=SILENT | {"stuck": True})
    records = fleet()
    whole, real = Fleet(one), StuckSensors.advance
    expected = rows_of(whole.apply(records))
    whole.checkpoint()

    def advance_(self, work, slots, times, X, learn):
        if np.any(times == bad):
            raise RuntimeError("a bug")
        return real(self, work, slots, times, X, learn)

    bad = json.loads(records[700].value)["ts"]
    monkeypatch.setattr(StuckSensors, "advance", advance_)
    worker, got = Fleet(one), []
    for at in range(0, len(records), 90):
        made = advance(one, worker.live, records[at : at + 90])
        got += rows_of(made.outputs)
        if at % 180 == 0:
            worker.checkpoint()
    worker.checkpoint()
    assert [row for row in got if b"silent" in row[2]] == [row for row in expected if b"silent" in row[2]]
    assert worker.live.silence is not None and whole.live.silence is not None
    assert worker.live.silence.heard.keys() == whole.live.silence.heard.keys()
    for key, data in worker.store.items():
        assert Heard(*decode_snapshot(one, data)[0]["silent"]) == worker.live.silence.heard[key]


def test_silent_keys_are_open_alarms_until_they_come_back() -> None:
    one = job(alarms=SILENT)
    worker = Fleet(one)
    worker.apply([body for body in fleet() if json.loads(body.value)["ts"] < START + 450])
    worker.checkpoint()
    worker.crash()
    keys, shown = open_now(one, worker.live, 10)
    assert (keys, sorted(alarm.key for alarm in shown)) == (2, ["s1", "s2"])
    assert worker.live.stats(0).in_alarm == 2


@pytest.mark.parametrize("state", [{"ttl": "1d"}, {"replay": "5s"}])
def test_silent_needs_the_states_of_all_keys(state: dict) -> None:
    table = {"source": {"topic": "imu", "fields": ["ax"]}, "learner": {"name": "okfeb"}, "alarms": SILENT, "state": state}
    with pytest.raises(ConfigError, match="silent needs the states of all keys"):
        composition_from(table)


GROUP = {"silent": "10m", "stuck": True, "group": 0.1, "group_within": "40s"}


def hall(keys: int = 30, n: int = 400) -> list[Stored]:
    """A sample of each key every second. Seven sensors stop at about the same time, and later seven others together."""
    random = np.random.default_rng(17)
    stops = {key: [(200 + 2 * key, 260)] for key in range(7)} | {key: [(290, 400)] for key in range(10, 17)}
    records: list[Stored] = []
    for step in range(n):
        for key in range(keys):
            x = random.normal(size=3)
            if any(a <= step < b for a, b in stops.get(key, ())):
                x[1] = 0.5
            body = dict(zip(NAMES, x.tolist(), strict=True), ts=START + step + key / 100)
            records.append(record(len(records), f"k{key:02}".encode(), body))
    return records


def groups(outputs: list[Output]) -> list[dict]:
    return [one for one in alarms(outputs) if one["watch"] == "group"]


def test_keys_that_alarm_together_are_one_group_alarm_with_the_keys_in_it() -> None:
    outputs = Fleet(job(alarms=GROUP)).apply(hall())
    first, ended, *more = groups(outputs)
    assert first["start"] == pytest.approx(START + 208 + LEAST - 1, abs=1), "with the fifth key"
    assert (first["open"], first["keys_alarmed"], first["keys"]) == (True, 5, [f"k{key:02}" for key in range(5)])
    assert (ended["id"], ended["open"], ended["outcome"]) == (first["id"], False, "recovered")
    assert ended["keys"] == [f"k{key:02}" for key in range(7)]
    assert ended["end"] == pytest.approx(START + 204 + LEAST - 1 + 40, abs=1), "when fewer than five are left"
    assert [(one["open"], one["keys_alarmed"]) for one in more] == [(True, 5), (False, 7)]
    assert {one["id"] for one in more} != {first["id"]}
    assert all("keys" not in one for one in alarms(outputs) if one["watch"] != "group")
    assert sum(one["open"] for one in alarms(outputs) if one["watch"] == "stuck") == 14


def test_a_tenth_of_many_keys_is_more_than_five() -> None:
    assert not groups(Fleet(job(alarms=GROUP | {"group": 0.3})).apply(hall()))
    assert len(groups(Fleet(job(alarms=GROUP | {"group": 0.2})).apply(hall()))) == 4


def test_the_open_group_follows_from_the_stored_states() -> None:
    one = job(alarms=GROUP)
    records = hall(keys=18)
    whole = Fleet(one)
    expected = rows_of(whole.apply(records))
    whole.checkpoint()
    assert len(groups(whole_outputs := Fleet(one).apply(records))) == 4 and rows_of(whole_outputs) == expected
    worker, got, shown = Fleet(one), [], set[str]()
    for at in range(0, len(records), 7):
        got += rows_of(worker.apply(records[at : at + 7]))
        worker.checkpoint()
        worker.crash()
        shown |= {alarm.id for alarm in open_now(one, worker.live, 100)[1] if alarm.watch == "group"}
    assert got == expected
    assert worker.store == whole.store
    assert shown == {alarm["id"] for alarm in groups(whole_outputs)}


def test_group_needs_silent() -> None:
    with pytest.raises(ConfigError, match="group needs silent"):
        job(alarms={"stuck": True, "group": 0.1})


def test_the_stage_of_a_group_names_what_it_takes() -> None:
    with pytest.raises(SettingError, match="share"):
        Grouped(share=0.0)
