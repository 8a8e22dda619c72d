"""`init --from-topic` on records that name schemas of a registry."""

import json

import pytest

from streamjobs.core.messages import Stored
from streamjobs.job_files import read_table
from tests.commands.jobs import command
from tests.schema_registry import server, writers


@pytest.fixture
def of_topic(monkeypatch):
    """A function that makes these values the newest of a topic of three partitions."""

    def given(topic: str, values: list[bytes]) -> None:
        found = [Stored(topic, 0, n, 1, b"press-%d" % (n % 3), value) for n, value in enumerate(values)]
        monkeypatch.setattr("streamjobs.commands.recordings.topic_sample.newest", lambda *asked, **how: iter(found))
        monkeypatch.setattr("streamjobs.commands.recordings.topic_sample.connect", lambda *asked: (None, {topic: 3}))

    return given


def test_init_reads_avro_with_the_schemas_of_the_registry(tmp_path, capsys, monkeypatch, of_topic) -> None:
    with server.serving() as registry:
        of_topic("plant.avro", writers.avro(registry.url, [writers.row(number) for number in range(60)]).values)
        words = ["init", tmp_path / "job.toml", "--from-topic", "plant.avro"]
        assert command(*words) == 2
        assert "set STREAMJOBS_REGISTRY__URL=https://REGISTRY, and init reads Avro and Protobuf" in capsys.readouterr().err
        monkeypatch.setenv("STREAMJOBS_REGISTRY__URL", registry.url)
        assert command(*words) == 0
        out, err = capsys.readouterr()
        assert out.startswith("wrote ") and "schema read" not in err, "one `init` asks a dozen times"
    table = read_table(tmp_path / "job.toml")
    assert table["registry"] == {"url": registry.url}
    assert table["source"]["format"] == "avro" and table["source"]["time"] == "at" and table["source"]["time_unit"] == "s"
    assert table["source"]["fields"] == ["temp", "rpm", "place.floor"]


def test_init_reads_protobuf_with_the_schemas_of_the_registry(tmp_path, capsys, monkeypatch, of_topic) -> None:
    with server.serving() as registry:
        of_topic("plant.protobuf", writers.protobuf(registry.url, [writers.row(number) for number in range(60)]).values)
        monkeypatch.setenv("STREAMJOBS_REGISTRY__URL", registry.url)
        assert command("init", tmp_path / "job.toml", "--from-topic", "plant.protobuf") == 0, capsys.readouterr().err
        assert "unusable" not in capsys.readouterr().err
    table = read_table(tmp_path / "job.toml")
    assert table["registry"] == {"url": registry.url}
    assert table["source"]["format"] == "protobuf" and table["source"]["fields"] == ["temp", "rpm", "place.floor"]


def test_json_after_the_id_of_its_schema_needs_no_registry(tmp_path, capsys, of_topic) -> None:
    of_topic("plant.json", [b"\0\0\0\0\7" + json.dumps(writers.row(number)).encode() for number in range(60)])
    assert command("init", tmp_path / "job.toml", "--from-topic", "plant.json") == 0, capsys.readouterr().err
    table = read_table(tmp_path / "job.toml")
    assert table["source"]["format"] == "json" and table["source"]["envelope"] == "schema_id" and "registry" not in table
    assert command("check", tmp_path / "job.toml") == 0, capsys.readouterr().err
