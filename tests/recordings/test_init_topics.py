"""`init --from-topic`: fleets with and without keys, tried as files are; partitions that take turns."""

import json
import math
from collections.abc import Iterator

import numpy as np
import pytest

from streamjobs.commands.recordings.topic_sample import TopicSample, shares
from streamjobs.commands.recordings.trial import Sample, records_to_try
from streamjobs.core.messages import Stored
from streamjobs.job_files import job_of, read_table
from streamjobs.recordings.guess import guess_rows
from streamjobs.recordings.tables import How
from tests.commands.jobs import command, jsonl

START, PAUSE, KEYS, BATCH = 1_795_000_000, 900, 40, 300  # seconds; a producer without keys changes the partition by batches
MODULE = "streamjobs.commands.recordings.topic_sample"


def stations(rows: int) -> list[Stored]:
    """Of air stations: the battery falls, the number of a station is its name."""
    found: list[Stored] = []
    for row in range(rows):
        for key in range(KEYS):
            n, time = len(found), START + PAUSE * row + 7 * key % 60
            value = {
                "capteur": {"id": f"FR-{key:03d}", "numéro": 7000 + key},
                "horodatage": time * 1_000_000,
                "NO2": round(30 + key % 5 + 4 * math.sin(1.3 * row + key), 2),
                "pile_V": round(3.7 - 0.002 * row + 0.003 * math.sin(5 * row + key), 4),
                "humidité": f"{50 + key}.5",
            }
            stamp = (START + PAUSE * row + 60) * 1000
            found.append(Stored("air", n // BATCH % 2, n, stamp, None, json.dumps(value).encode()))
    return found


@pytest.mark.parametrize(("key", "named"), [(b"\0\0\0\0\2\4p1", True), ("Süd 1".encode(), False)])
def test_keys_that_are_bytes_are_named(key, named):
    said = list(shares(TopicSample([{}], "avro", [Stored("air", 0, 0, START, key, b"")], 0)))
    assert len(said) == 1 + named and "have a key" in said[0]
    assert r"keys are bytes such as '\x00\x00\x00\x00\x02\x04p1'" in said[-1] or not named


@pytest.fixture
def of_topic(monkeypatch):
    def given(records: list[Stored]) -> None:
        def newest(broker: object, topic: str, count: int, *asked: object, **how: object) -> Iterator[Stored]:
            for partition in (0, 1):
                yield from [one for one in records if one.partition == partition][-(count // 2) :]

        monkeypatch.setattr(f"{MODULE}.newest", newest)
        monkeypatch.setattr(f"{MODULE}.connect", lambda *asked: (None, {"air": 2}))

    return given


def test_a_fleet_without_keys_shows_its_times_names_pauses_and_batteries(tmp_path, capsys, of_topic) -> None:
    of_topic(stations(150))
    assert command("init", tmp_path / "job.toml", "--from-topic", "air") == 0
    err = capsys.readouterr().err
    source = read_table(tmp_path / "job.toml")["source"]
    assert source["time"] == "horodatage" and source["time_unit"] == "us" and source["fields"] == ["NO2"]
    assert "capteur.numéro: one whole number for each key, as its name" in err
    assert "pile_V: falls all through the sample" in err
    assert "humidité: never changes in the sample" in err and "numbers" not in source
    assert '# silent = "9000s"' in (tmp_path / "job.toml").read_text(), "10 pauses of 15 minutes"


def test_fewer_records_are_read_where_that_is_asked_for(tmp_path, capsys, of_topic) -> None:
    of_topic(stations(150))
    assert command("init", tmp_path / "job.toml", "--from-topic", "air", "--records", 500) == 0
    assert "guessed from 500 rows" in capsys.readouterr().err


def pumps(rows: int, keys: int = 3) -> list[Stored]:
    """Of pumps with Kafka keys, in two partitions."""
    rng, found = np.random.default_rng(3), list[Stored]()
    for row in range(rows):
        for key in range(keys):
            flow, heat = rng.normal(5, 1), rng.normal(40, 2)
            value = {"pump": f"p{key}", "ts": START + 10 * row + key, "flow": round(flow, 3), "heat": round(heat, 3)}
            value["target"] = round(0.5 * flow - 0.1 * heat + rng.normal(0, 0.01), 4)
            stamp = (START + 10 * row + key) * 1000
            found.append(Stored("air", key % 2, row, stamp, b"p%d" % key, json.dumps(value).encode()))
    return found


def without_label(records: list[Stored]) -> list[Stored]:
    rows = [json.loads(one.value or b"") for one in records]
    return [
        one._replace(value=json.dumps({name: value for name, value in row.items() if name != "target"}).encode())
        for one, row in zip(records, rows, strict=True)
    ]


@pytest.mark.parametrize(
    ("keys", "labelled"), [(True, True), (True, False), (False, False), pytest.param(False, True, marks=pytest.mark.long)]
)
def test_a_topic_is_tried_as_a_file_of_its_records_is(tmp_path, capsys, of_topic, labelled, keys) -> None:
    records = pumps(1500) if labelled else without_label(pumps(1500))
    sample = jsonl(tmp_path / "air.jsonl", [json.loads(one.value or b"") for one in records])
    of_topic([one if keys else one._replace(key=None) for one in records])
    tables, tried = [], []
    for words in (("--from-topic", "air"), ("--sample", sample)):
        assert command("init", tmp_path / "job.toml", *words, "--topic", "air", "--force") == 0
        said = capsys.readouterr().err.splitlines()
        assert not any("candidates: 'pump'" in line for line in said), "the name of a record's key is no label"
        tried.append([line for line in said if line.startswith(("on the sample", "rmse"))])
        table = read_table(tmp_path / "job.toml")
        tables.append({name: table.get(name) for name in ("learner", "head", "drift", "alarms")})
    assert tables[0] == tables[1] and tried[0] == tried[1], "the same choices, by the same figures"
    assert len(tried[0]) == 1 + labelled and (tables[0]["learner"]["name"] == "rls") == labelled
    assert labelled or tables[0]["alarms"] == {"stuck": True, "silent": "100s"}


def test_records_without_values_are_named_as_such(tmp_path, capsys, of_topic) -> None:
    records = pumps(100)
    of_topic([one._replace(value=None) if n % 3 == 0 else one for n, one in enumerate(records)])
    assert command("init", tmp_path / "job.toml", "--from-topic", "air") == 0
    assert "100 records are not objects in json (100 have no value); they would be dead letters" in capsys.readouterr().err
    of_topic([one._replace(value=None) for one in records])
    assert command("init", tmp_path / "beats.toml", "--from-topic", "air") == 2
    assert "got records without a value in most of 300 records" in capsys.readouterr().err


def test_a_topic_of_which_few_rows_of_a_key_were_read_keeps_the_usual_detector(tmp_path, capsys, of_topic) -> None:
    of_topic(without_label(pumps(500)))
    assert command("init", tmp_path / "job.toml", "--from-topic", "air") == 0
    assert "detector" in read_table(tmp_path / "job.toml")["drift"], "it was read whole: 500 rows are all"
    assert command("init", tmp_path / "job.toml", "--from-topic", "air", "--records", 900, "--force") == 0
    assert "detector" not in read_table(tmp_path / "job.toml")["drift"], "the topic has more"
    assert "# silent = " in (tmp_path / "job.toml").read_text()


def test_keys_of_a_topic_that_was_filled_at_once_are_not_silent(tmp_path, of_topic) -> None:
    """The records of a burst have one timestamp: only their event times show that the partitions took turns."""
    of_topic([one._replace(timestamp=(START + 15_000) * 1000) for one in without_label(pumps(1500))])
    assert command("init", tmp_path / "job.toml", "--from-topic", "air") == 0
    assert read_table(tmp_path / "job.toml")["alarms"] == {"stuck": True, "silent": "100s"}


def test_records_of_a_key_in_several_partitions_are_tried_in_the_order_of_their_copy(tmp_path, capsys, of_topic) -> None:
    """A producer that catches up fills one partition after the other; sorting by time would hide it."""
    rng, found = np.random.default_rng(8), list[Stored]()
    for row in range(500):
        for key in range(4):
            n = len(found)
            value = {"ship": f"s{key}", "ts": START + row, "oil": round(rng.normal(), 3), "rpm": round(rng.normal(), 3)}
            stamp = START * 1000 + n // 240  # of a moment in which both partitions got many records
            found.append(Stored("air", n // 60 % 2, n, stamp, None, json.dumps(value).encode()))
    of_topic(found)
    assert command("init", tmp_path / "job.toml", "--from-topic", "air", "--records", 2000) == 0
    err = capsys.readouterr().err
    assert "s out of order, because they are in several partitions; [source] lateness" in err
    settings, mixed = job_of(tmp_path / "job.toml").settings, found[60:] + found[:60]
    rows = [json.loads(one.value or b"") for one in mixed]
    tried = records_to_try(settings, Sample(None, How(), TopicSample(rows, "json", mixed, 0, 2)), guess_rows(rows, "air"))
    assert [one.value for one in tried] == [one.value for one in mixed], "as read: `sample_of` has sorted it by timestamps"
