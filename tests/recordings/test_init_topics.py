"""`init --from-topic` on a fleet whose records have no keys, in partitions that take turns."""

import json
import math
from collections.abc import Iterator

import pytest

from streamjobs.core.messages import Stored
from streamjobs.job_files import read_table
from tests.commands.jobs import command

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
    assert "humidité: numbers as texts; numbers = 'lenient' lets fields have them" in err
    assert '# silent = "9000s"' in (tmp_path / "job.toml").read_text(), "10 pauses of 15 minutes"


def test_fewer_records_are_read_where_that_is_asked_for(tmp_path, capsys, of_topic) -> None:
    of_topic(stations(150))
    assert command("init", tmp_path / "job.toml", "--from-topic", "air", "--records", 500) == 0
    assert "guessed from 500 rows" in capsys.readouterr().err
