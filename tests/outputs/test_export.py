"""`streamjobs export`: the records of a topic, each once, as a table."""

import csv
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import parquet

from streamjobs.core.messages import Output
from streamjobs.core.output_records import schema_name
from streamjobs.errors import ConfigError, SetupError
from streamjobs.outputs import files
from streamjobs.outputs.files import Repeats, Table
from streamjobs.outputs.schema import lengths
from tests.commands.jobs import JOB, command, job_file, jsonl
from tests.commands.jobs import rows as samples
from tests.docs.named import blocks
from tests.outputs.jobs import JOBS, job_of, outputs_of
from tests.parts import CHECKOUT

TYPED = JOB + "scores = true\n"


def given(outputs: list[Output], sink: str) -> list[Output]:
    return [one for one in outputs if one.sink == sink]


def written(path: Path, form: str, table: Table, outputs: list[Output]) -> Path:
    path.write_bytes(
        b"".join(files.FORMATS[form](table.rows(given(outputs, table.sink)), table.fields, lengths(table.fields)))
    )
    return path


def _same(ours: object, theirs: object) -> bool:
    """A value of a table against that of a record."""
    if isinstance(theirs, dict):
        pairs = dict(ours) if isinstance(ours, list) else ours
        return isinstance(pairs, dict) and pairs.keys() == theirs.keys() and all(_same(pairs[k], theirs[k]) for k in theirs)
    return ours == theirs or (isinstance(theirs, float) and math.isnan(theirs))


@pytest.mark.parametrize("name", JOBS)
def test_parquet_has_every_number_of_every_record(name: str, tmp_path: Path) -> None:
    job = job_of(name, scores=name in ("declared", "people"))
    outputs = outputs_of(job)
    for sink in set(job.sinks) - {"dlq"}:
        table = Table(job, sink)
        found = parquet.read_table(written(tmp_path / sink, ".parquet", table, outputs)).to_pylist()
        columns = lengths(table.fields)
        told = [json.loads(one.value or b"") for one in given(outputs, sink)]
        assert len(found) == len(told) == table.count > 3
        for row, record in zip(found, told, strict=True):
            for field, value in record.items():
                if field in columns:
                    numbers = [row[f"{field}_{n}"] for n in range(columns[field])]
                    assert numbers == (value or [None] * len(numbers))
                else:
                    assert _same(row[field], value), (sink, field)
        assert not table.others


def test_csv_and_json_lines_say_what_parquet_says(tmp_path: Path) -> None:
    job = job_of("declared", scores=True)
    outputs = outputs_of(job)
    for sink in ("features", "predictions", "dlq"):
        paths = [written(tmp_path / f"{sink}{form}", form, Table(job, sink), outputs) for form in files.FORMATS]
        of_parquet = parquet.read_table(paths[0]).to_pylist()
        with paths[1].open(newline="") as file:
            of_csv = list(csv.DictReader(file))
        of_lines = [json.loads(line) for line in paths[2].read_text().splitlines()]
        assert len(of_parquet) == len(of_csv) == len(of_lines) > 3
        for a, b, c in zip(of_parquet, of_csv, of_lines, strict=True):
            assert a["output_id"] == b["output_id"] == c["output_id"]
            assert a["time"].isoformat(timespec="milliseconds").replace("+00:00", "Z") == b["time"] == c["time"]
            assert a.keys() == b.keys()
            for field, value in a.items():
                if isinstance(value, float):
                    assert float(b[field]) == value
                elif value is None:
                    assert b[field] == ""


def test_duckdb_reads_the_file_as_the_page_says(tmp_path: Path) -> None:
    """In a process of its own: the package complains of itself when it ends."""
    page = (CHECKOUT / "streamjobs/core/README.md").read_text(encoding="utf-8")
    (recipe,) = [code for language, code in blocks(page) if language == "python" and "duckdb" in code]
    job = job_of("declared", scores=True)
    path = written(tmp_path / "predictions.parquet", ".parquet", Table(job, "predictions"), outputs_of(job))
    done = subprocess.run([sys.executable, "-c", recipe], cwd=path.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = [json.loads(one.value or b"") for one in outputs_of(job) if one.sink == "predictions"]
    found = [line.split() for line in done.stdout.splitlines()]
    assert [key for key, _, _ in found] == ["p0", "p1", "p2"]
    for key, count, right in found:
        pairs = [(one["predicted_class"], one["true_class"]) for one in told if one["key"] == key]
        judged = [said == truth for said, truth in pairs if None not in (said, truth)]
        assert int(count) == len(pairs) and float(right) == pytest.approx(sum(judged) / len(judged), abs=1e-3)


def test_repeats_are_dropped_and_counted_whatever_the_order_within_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of("declared")
    told = given(outputs_of(job), "predictions")
    again = [*told[:60], *told[40:], *told[100:120]]  # a crash repeats 20, another one 20 of long ago
    plain = list(Table(job, "predictions").rows(told))
    for most in (files.MOST_RECENT, 30):
        monkeypatch.setattr(files, "MOST_RECENT", most)
        table = Table(job, "predictions")
        assert list(table.rows(again)) == plain
        assert table.repeats.count == 40


def test_the_ids_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_RECENT", 100)
    repeats = Repeats("imu")
    for offset in range(1000):
        assert not repeats.seen(f"imu-0-{offset}") and not repeats.seen(f"imu-1-{offset}-2")
    assert sum(map(len, repeats._recent.values())) == 200
    assert repeats.seen("imu-0-3") and repeats.seen("imu-0-999") and not repeats.seen("imu-2-3")


def test_outputs_of_a_recreated_topic_are_not_repeats_of_the_former_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_RECENT", 10)
    repeats = Repeats("imu")
    ids = [f"{topic}-0-{offset}" for topic in ("imu", "imu~5f0c81d2", "imu~0a1b2c3d") for offset in range(50)]
    assert not any(repeats.seen(one) for one in ids)
    assert all(repeats.seen(one) for one in ids) and repeats.count == 150


@pytest.mark.parametrize("schema", [[], [("streamjobs-schema", b"predictions/1")]])
def test_a_record_of_another_schema_is_one_sentence(schema: list[tuple[str, bytes]]) -> None:
    sent = given(outputs_of(job_of("declared")), "predictions")
    told = [one._replace(headers=[*one.headers[:1], *schema]) for one in sent]
    says = r"has the schema (predictions/1|of an older release); this .* predictions/2. .* with --from,"
    with pytest.raises(ConfigError, match=says):
        list(Table(job_of("declared"), "predictions").rows(told))


def test_what_is_no_output_is_left_out_and_said() -> None:
    table = Table(job_of("declared"), "predictions")
    schema = ("streamjobs-schema", b"predictions/2")
    name = [("streamjobs-id", b"imu-0-5"), schema]
    strange = [
        Output("predictions", b"k", b"{}", 0, []),
        Output("predictions", b"k", b"{", 0, name),
        Output("predictions", b"k", b'{"key":"k","more":1}', 0, [("streamjobs-id", b"imu-0-6"), schema]),
    ]
    found = list(table.rows(strange))
    assert table.foreign == 2 and table.others == {"more"} and [one["key"] for one in found] == ["k"]


def test_the_command_writes_the_whole_topic_and_leaves_no_part_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic has what a replay gives, which `test_on_a_broker` shows."""
    job, recordings = job_file(tmp_path, TYPED), jsonl(tmp_path / "in.jsonl", list(samples(600)))
    assert command("replay", job, "--input", recordings, "--key", "person", "--output-dir", tmp_path / "out") == 0
    replayed = [json.loads(line) for line in (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()]
    capsys.readouterr()

    def topic(broker: object, name: str, *times: object) -> Iterator[Output]:
        assert (name, times) == ("imu.predictions", (None, None))
        for one in replayed:
            headers = [("streamjobs-id", one["id"].encode()), ("streamjobs-schema", schema_name("predictions").encode())]
            value = json.dumps(one["value"]).encode()
            yield Output("predictions", one["key"].encode(), value, one["timestamp"], headers)

    monkeypatch.setattr("streamjobs.kafka.reader.topic_records", topic)
    for name in ("p.parquet", "p.csv", "p.jsonl"):
        assert command("export", job, "predictions", "-o", tmp_path / name) == 0
        assert f"{name}: 117 rows" in capsys.readouterr().out
    exported = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [one["value"] for one in replayed] == [{f: v for f, v in one.items() if f not in files.ADDED} for one in exported]
    before = (tmp_path / "p.csv").read_bytes()

    def refused(broker: object, name: str, *times: object) -> Iterator[Output]:
        yield from itertools.islice(topic(broker, name, *times), 50)
        raise SetupError("the broker is away.")

    monkeypatch.setattr("streamjobs.kafka.reader.topic_records", refused)
    assert command("export", job, "predictions", "-o", tmp_path / "p.csv") == 3
    assert (tmp_path / "p.csv").read_bytes() == before and not list(tmp_path.glob("*.part"))
    for words, said in (
        (("alarms", "-o", tmp_path / "a.csv"), "this job sends no alarms"),
        (("drift", "-o", tmp_path / "a.xls"), "expected a name that ends in .parquet, .csv, .jsonl"),
    ):
        assert command("export", job, *words) == 2
        assert said in capsys.readouterr().err
