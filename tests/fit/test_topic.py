"""A topic is an input like a file: the same recordings give the same population."""

import json

from confluent_kafka import Producer

from streamjobs.demo.mock import PARTITIONS, MockBroker
from tests.fit.people import command, job_file, jsonl, rows


def test_a_topic_gives_the_bytes_a_file_gives(tmp_path, monkeypatch, capsys):
    table = [{name: value for name, value in row.items() if name != "recording"} for row in rows(people=3)]
    job = job_file(tmp_path)
    assert command("fit", job, "--input", jsonl(tmp_path / "in.jsonl", table), "--no-report") == 0
    assert f"streamjobs topics create {job}; streamjobs run {job}\n" in capsys.readouterr().out
    from_file = (tmp_path / "population.state").read_bytes()
    with MockBroker() as mock:
        monkeypatch.setenv("STREAMJOBS_BROKER__URL", mock.url)
        mock.create(["imu"])
        producer = Producer({"bootstrap.servers": mock.url.removeprefix("kafka://"), "log_level": 0})
        for row in table:
            place = int(row["person"][1:]) % PARTITIONS
            stamp = round(row["ts"] * 1000) + 1
            producer.produce("imu", json.dumps(row), key=row["person"], partition=place, timestamp=stamp)
        assert producer.flush(20) == 0
        assert command("fit", job, "--input", "topic", "--no-report", "--output", tmp_path / "other.state") == 0
        assert (tmp_path / "other.state").read_bytes() == from_file
        assert command("fit", job, "--input", "topic", "--key", "person", "--force") == 2
        assert "name columns of a file; remove them for a topic" in capsys.readouterr().err
