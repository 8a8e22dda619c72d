"""`init --from-topic` on records whose schemas a registry has."""

from streamjobs.core.messages import Stored
from streamjobs.job_files import read_table
from tests.commands.jobs import command
from tests.schema_registry import server, writers


def test_init_reads_avro_with_the_schemas_of_the_registry(tmp_path, capsys, monkeypatch) -> None:
    with server.serving() as registry:
        values = writers.avro(registry.url, [writers.row(number) for number in range(60)]).values
        found = [Stored("plant.avro", 0, n, 1, b"press-%d" % (n % 3), value) for n, value in enumerate(values)]
        monkeypatch.setattr("streamjobs.commands.recordings.topic_sample.newest", lambda *asked, **how: iter(found))
        monkeypatch.setattr("streamjobs.commands.recordings.topic_sample.connect", lambda *asked: (None, {"plant.avro": 3}))
        words = ["init", tmp_path / "job.toml", "--from-topic", "plant.avro"]
        assert command(*words) == 2
        assert "set STREAMJOBS_REGISTRY__URL=https://REGISTRY, and init reads Avro" in capsys.readouterr().err
        monkeypatch.setenv("STREAMJOBS_REGISTRY__URL", registry.url)
        assert command(*words) == 0
        out, err = capsys.readouterr()
        assert out.startswith("wrote ") and "schema read" in err, "results alone go to standard output"
    table = read_table(tmp_path / "job.toml")
    assert table["registry"] == {"url": registry.url}
    assert table["source"]["format"] == "avro" and table["source"]["time"] == "at" and table["source"]["time_unit"] == "s"
    assert table["source"]["fields"] == ["temp", "rpm", "place.floor"]
