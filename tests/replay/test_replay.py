"""Replay: the same numbers from every kind of input, compared exactly, pooled and warm-started."""

import json
import re
import resource
import stat
from datetime import UTC, datetime

import pytest

from streamjobs.core.advance import advance
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Output, Stored
from streamjobs.errors import MismatchError
from streamjobs.job_files import job_of
from streamjobs.kafka import reader
from streamjobs.notebook.tables import of_topics
from streamjobs.recordings.files import records_of
from streamjobs.replay import engine
from streamjobs.replay.lines import Expected, from_topics, line_of
from streamjobs.settings.broker import BrokerSection
from tests.commands.jobs import JOB, as_csv, as_npz, as_parquet, command, job_file, jsonl, rows

SINKS = ("features", "predictions", "drift", "dlq")


def replay(job, source, *words):
    return command("replay", job, "--input", source, "--key", "person", *words)


def outputs(folder):
    return {sink: (folder / f"{sink}.jsonl").read_bytes() for sink in SINKS}


@pytest.fixture
def recording(tmp_path):
    return jsonl(tmp_path / "samples.jsonl", rows())


def test_a_replay_gives_the_same_bytes_twice_and_in_any_batches(tmp_path, recording, monkeypatch):
    job = job_file(tmp_path)
    assert replay(job, recording, "--output-dir", tmp_path / "one") == 0
    monkeypatch.setattr(engine, "BATCH", 7)
    assert replay(job, recording, "--output-dir", tmp_path / "two") == 0
    first = outputs(tmp_path / "one")
    assert first == outputs(tmp_path / "two")
    assert first["predictions"].count(b"\n") > 100


def test_a_batch_of_large_records_ends_with_its_bytes():
    large = [Stored("t", 0, n, 1, b"k", b" " * (1 << 20), ()) for n in range(150)]
    assert len(engine._batch(iter(large))) == 64
    small = iter([one._replace(value=b"1") for one in large * 10])
    assert [len(engine._batch(small)) for _ in range(3)] == [1000, 500, 0]


def test_a_replay_gives_what_advance_gives_record_by_record(tmp_path, recording):
    made = job_of(job_file(tmp_path))
    assert replay(tmp_path / "job.toml", recording, "--output-dir", tmp_path / "out") == 0
    live = Live(made, lambda key: None)
    lines = {sink: b"" for sink in SINKS}
    for record in records_of(recording, made.settings.source, "person"):
        for output in advance(made, live, [record]).outputs:
            lines[output.sink] += line_of(output) + b"\n"
    assert lines == outputs(tmp_path / "out")


NESTED = JOB.replace('["ax", "ay", "az"]', '["acc.x", "acc.y[0]", "z"]').replace('"ts"', '"at.ts"')


def nested_rows():
    for row in rows():
        acc, at = {"x": row.pop("ax"), "y": [row.pop("ay"), 9.0]}, {"ts": row.pop("ts")}
        yield {"acc": acc, "z": row.pop("az"), "at": at, "who": {"person": row.pop("person")}, **row}


@pytest.mark.parametrize("write", [jsonl, as_parquet, as_csv])
def test_nested_rows_give_the_numbers_of_flat_ones(tmp_path, recording, write):
    names = {"ax": "acc.x", "ay": "acc.y[0]", "az": "z", "ts": "at.ts", "person": "who.person"}
    renamed = [{names.get(name, name): value for name, value in row.items()} for row in rows()]
    made = renamed if write is as_csv else list(nested_rows())
    other = write(tmp_path / f"nested.{'jsonl' if write is jsonl else write.__name__[3:]}", made)
    assert replay(job_file(tmp_path), recording, "--output-dir", tmp_path / "out") == 0
    assert (
        command("replay", job_file(tmp_path, NESTED), "--input", other, "--key", "who.person", "--expect", tmp_path / "out")
        == 0
    )


@pytest.mark.parametrize("write", [as_csv, as_parquet, jsonl])
def test_iso_times_and_categories_give_the_numbers_of_those_they_stand_for(tmp_path, write):
    def written(row):
        ts, up = datetime.fromtimestamp(row["ts"], UTC), row["az"] > 0
        return {
            **row,
            "ts": ts if write is as_parquet else ts.strftime("%Y-%m-%d %H:%M:%S.%f"),
            "az": "up" if up else "down",
        }

    plain = JOB.replace('"az"]', '"up", "down"]')
    numbers = [row | {"up": int(row["az"] > 0), "down": int(row["az"] <= 0)} for row in rows()]
    assert replay(job_file(tmp_path, plain), jsonl(tmp_path / "a.jsonl", numbers), "--output-dir", tmp_path / "out") == 0
    source = 'time_zone = "UTC"\ncategories = { az = ["up", "down"] }\n[window]'
    other = write(tmp_path / f"b.{'jsonl' if write is jsonl else write.__name__[3:]}", list(map(written, rows())))
    assert replay(job_file(tmp_path, JOB.replace("[window]", source)), other, "--expect", tmp_path / "out") == 0


GAPPY = JOB.replace('time = "ts"', 'time = "ts"\nmissing = { ax = "hold", ay = "mean", az = "hold" }')


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_missing_numbers_are_filled_alike_from_every_kind_of_file(tmp_path, form, capfd):
    def gappy():
        for at, row in enumerate(rows()):
            yield row | {name: None for place, name in enumerate(("ax", "ay", "az")) if at % 11 == 5 + place}

    job = job_file(tmp_path, GAPPY)
    first = jsonl(tmp_path / "gappy.jsonl", gappy())
    assert replay(job, first, "--output-dir", tmp_path / "out") == 0
    said = capfd.readouterr().err
    assert re.search(r"missing numbers were filled in by \[source\] missing \((a[xyz] \d+(, )?){3}\)", said)
    job = job_file(tmp_path, GAPPY.replace("[window]", f'format = "{form}"\n[window]'))
    for other in (as_csv(tmp_path / "a.csv", list(gappy())), as_parquet(tmp_path / "a.parquet", list(gappy()))):
        assert replay(job, other, "--expect", tmp_path / "out") == 0


@pytest.mark.parametrize(("ending", "write"), [("csv", as_csv), ("npz", as_npz), ("parquet", as_parquet)])
def test_every_kind_of_file_gives_the_same_numbers(tmp_path, recording, ending, write):
    job = job_file(tmp_path)
    other = write(tmp_path / f"samples.{ending}", list(rows()))
    assert replay(job, recording, "--output-dir", tmp_path / "out") == 0
    assert replay(job, other, "--expect", tmp_path / "out") == 0


@pytest.mark.parametrize("form", ["msgpack", "raw"])
def test_the_other_formats_give_the_same_features(tmp_path, recording, form):
    """Raw records carry no label and no time: a job without either."""
    text = JOB.replace('time = "ts"\nlabel = "activity"\n', "").replace(
        '[window]\nlength = "1s"\nhop = "500ms"\nrate = 10.0\n', ""
    )
    text = text.replace('[head]\nname = "rls"\n', "")
    job = job_file(tmp_path, text)
    assert replay(job, recording, "--output-dir", tmp_path / "out") == 0
    job.write_text(text.replace('topic = "imu"', f'topic = "imu"\nformat = "{form}"'))
    assert replay(job, recording, "--expect", tmp_path / "out" / "features.jsonl") == 0


@pytest.mark.slow
def test_small_memory_for_live_states_gives_the_same_bytes(tmp_path, recording, monkeypatch):
    """Sixty keys where sixteen fit, states stored in between."""
    job, wide = job_file(tmp_path), jsonl(tmp_path / "wide.jsonl", rows(3000, keys=60))
    assert replay(job, wide, "--output-dir", tmp_path / "one") == 0
    monkeypatch.setenv("STREAMJOBS_STATE__CACHE", "1B")
    monkeypatch.setenv("STREAMJOBS_STATE__CHECKPOINT_BYTES", "1B")
    monkeypatch.setattr(engine, "BATCH", 50)
    assert replay(job, wide, "--expect", tmp_path / "one") == 0


def test_one_changed_number_ends_with_code_4_and_its_place(tmp_path, recording, capsys):
    job = job_file(tmp_path)
    assert replay(job, recording, "--output-dir", tmp_path / "out") == 0
    file = tmp_path / "out" / "features.jsonl"
    lines = file.read_text().splitlines()
    at = next(i for i, text in enumerate(lines) if json.loads(text)["value"]["z"][1] is not None and i > 60)
    line = json.loads(lines[at])
    line["value"]["z"][1] *= 1 + 2**-52
    lines[at] = json.dumps(line)
    file.write_text("\n".join(lines) + "\n")
    capsys.readouterr()
    assert replay(job, recording, "--expect", file) == 4
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith(f"mismatch: features of key '{line['key']}', output ") and line["id"] in err and "z[1] is" in err


@pytest.mark.parametrize("which", ["missing", "extra"])
def test_a_missing_or_an_extra_output_ends_with_code_4(tmp_path, recording, which, capsys):
    job = job_file(tmp_path)
    assert replay(job, recording, "--output-dir", tmp_path / "out") == 0
    file = tmp_path / "out" / "drift.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1] if which == "missing" else [*lines, lines[-1]]))
    assert replay(job, recording, "--expect", tmp_path / "out") == 4
    assert "mismatch: drift of key" in capsys.readouterr().err


def test_records_of_others_in_the_topics_of_a_worker_are_left_out(monkeypatch):
    own, other, near = ([("streamjobs-id", f"{topic}-0-5".encode())] for topic in ("imu", "phone", "imu-raw"))
    found = [
        Stored("imu.drift", 0, n, 0, b"p0", b'{"seq":%d}' % n, headers) for n, headers in enumerate((other, own, [], near))
    ]
    monkeypatch.setattr(reader, "topic_records", lambda *_: found)
    broker = BrokerSection(url="kafka://localhost:1")
    assert from_topics(broker, {"drift": "imu.drift"}, "imu").recorded == {"drift": {"p0": [{"seq": 1}]}}
    assert of_topics(broker, {"drift": "imu.drift"})("drift") == [{"seq": 0}, {"seq": 1}, {"seq": 3}]


def test_a_full_disk_is_named_with_its_folder(tmp_path, recording, capsys):
    job = job_file(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # files can be created, but not grow
    try:
        code = replay(job, recording, "--output-dir", tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == 1
    assert f"--output-dir {tmp_path / 'out'}: cannot be written (File too large).\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "of_alarm", ["", "-end", "-rows", "-ls_error-end", "-silent-88b2732e2c502c", "-stuck-88b2732e2c502c-end", "-2-rows-end"]
)
def test_alarms_in_the_topics_of_a_worker_are_compared(monkeypatch, of_alarm):
    headers = [("streamjobs-id", f"imu-0-5{of_alarm}".encode())]
    monkeypatch.setattr(reader, "topic_records", lambda *_: [Stored("imu.alarms", 0, 0, 0, b"p0", b"{}", headers)])
    broker = BrokerSection(url="kafka://localhost:1")
    assert from_topics(broker, {"alarms": "imu.alarms"}, "imu").recorded == {"alarms": {"p0": [{}]}}
    assert from_topics(broker, {"alarms": "imu.alarms"}, "im").recorded == {"alarms": {}}


def test_expected_outputs_may_interleave_keys_differently(tmp_path, recording):
    job = job_file(tmp_path)
    assert replay(job, recording, "--output-dir", tmp_path / "out") == 0
    file = tmp_path / "out" / "predictions.jsonl"
    file.write_text("".join(sorted(file.read_text().splitlines(keepends=True), key=lambda line: json.loads(line)["key"])))
    assert replay(job, recording, "--expect", tmp_path / "out") == 0


def test_something_other_than_outputs_to_expect_is_a_usage_mistake(tmp_path, recording, capsys):
    assert replay(job_file(tmp_path), recording, "--expect", tmp_path) == 2
    assert "features.jsonl" in capsys.readouterr().err


def test_a_pooled_model_is_exported_and_starts_new_keys_warm(tmp_path, capsys):
    job, state = job_file(tmp_path), tmp_path / "population.state"
    many, one = jsonl(tmp_path / "many.jsonl", rows(3000, keys=5)), jsonl(tmp_path / "one.jsonl", rows(300, keys=1, seed=7))
    assert replay(job, many, "--pool", "--export", state) == 0
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    warm = job_file(tmp_path, f'{JOB}[state]\nstart_from = "{state}"\n')
    assert replay(warm, one, "--output-dir", tmp_path / "warm") == 0
    first = json.loads((tmp_path / "warm" / "predictions.jsonl").read_text().splitlines()[0])["value"]
    assert first["predicted_class"] in ("run", "sit") and first["n_seen"] > 100 and first["classes"] == 2
    assert replay(job_file(tmp_path), one, "--output-dir", tmp_path / "cold") == 0
    first = json.loads((tmp_path / "cold" / "predictions.jsonl").read_text().splitlines()[0])["value"]
    assert first["predicted_class"] is None and first["n_seen"] == 0


def test_the_start_of_another_job_is_refused_with_what_differs(tmp_path, recording, capsys):
    state = tmp_path / "population.state"
    assert replay(job_file(tmp_path), recording, "--pool", "--export", state) == 0
    other = job_file(tmp_path, f'{JOB.replace("rank = 3", "rank = 4")}[state]\nstart_from = "{state}"\n')
    assert command("check", other) == 2
    err = capsys.readouterr().err
    assert "rank=3" in err and "rank=4" in err


def test_broken_rows_become_dead_letters_and_everything_else_goes_on(tmp_path):
    table = list(rows(200))
    clean = jsonl(tmp_path / "clean.jsonl", [row for i, row in enumerate(table) if i != 50])
    table[50]["ay"] = None
    poisoned = jsonl(tmp_path / "poisoned.jsonl", table)
    poisoned.write_text(poisoned.read_text() + '{"broken\n')
    assert replay(job_file(tmp_path), clean, "--output-dir", tmp_path / "clean") == 0
    (tmp_path / "clean" / "dlq.jsonl").unlink()
    job = tmp_path / "job.toml"
    assert replay(job, poisoned, "--output-dir", tmp_path / "out", "--expect", tmp_path / "clean") == 0
    letters = [json.loads(line) for line in (tmp_path / "out" / "dlq.jsonl").read_text().splitlines()]
    assert [(letter["id"], letter["reason"]) for letter in letters] == [
        ("imu-0-50", "missing_field"),
        ("imu-0-200", "no_key"),
    ]
    assert letters[1]["value"] == '{"broken'


def test_the_end_of_a_replay_tells_the_counts(tmp_path, recording, capsys):
    assert replay(job_file(tmp_path), recording, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["records"], found["samples"], found["keys"]) == (1500, 1500, 3)
    assert found["rows"] == found["labels"] > 100


def test_a_missing_column_is_named(tmp_path, recording, capsys):
    assert command("replay", job_file(tmp_path), "--input", recording, "--key", "who") == 2
    assert "no column 'who' for the key; the file has 'person', 'ts'" in capsys.readouterr().err


def test_of_a_file_that_is_not_in_time_order_the_lost_records_are_counted(tmp_path, recording, capsys):
    job = job_file(tmp_path)
    assert replay(job, recording) == 0
    assert "skipped as" not in capsys.readouterr().err
    lines = recording.read_text().splitlines()
    middle = len(lines) // 2
    turned = tmp_path / "turned.jsonl"
    turned.write_text("\n".join([*lines[middle:], *lines[:middle]]) + "\n")
    assert replay(job, turned) == 0
    assert "% of the samples are skipped as late: older than the newest sample of their key" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "contents", "said"),
    [
        ("a.npz", b"garbage", "expected an npz archive of plain arrays; it is damaged, or something else"),
        ("a.parquet", b"garbage", "expected Parquet; it is damaged, or something else"),
        ("a.csv", b"person,ts\n\x81,1\n", "expected CSV in UTF-8, UTF-16 or Windows-1252, got bytes of another encoding"),
        ("a.csv", b"person,ts\n" + b"a" * 200_000, "expected CSV; it is damaged, or something else"),
        ("b.csv", b"person;ts;ax\np1;1,555;2,555\n", "1,555 in column 'ts' can be 1.555 with a decimal comma, or 1555 with"),
        ("b.csv", b"person\tts\np1\t1.5\np1\t2,5\n", "column 'ts' has numbers such as 2,5, and column 'ts' such as 1.5"),
        ("b.csv", b"person,ts,ax,ax\np1,1,2,3\n", "column 'ax' appears twice"),
        ("a.jsonl", b"{broken\n", "none of its first lines is a JSON object"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_one_sentence_before_anything_is_compiled(
    tmp_path, capsys, monkeypatch, name, contents, said
):
    monkeypatch.setattr("streamjobs.commands.replay.compile_loops", None)
    (tmp_path / name).write_bytes(contents)
    assert replay(job_file(tmp_path), tmp_path / name) == 2
    err = capsys.readouterr().err
    assert f"{name}: {said}" in err and len(err.strip().splitlines()) == 1


def test_a_damaged_first_line_is_a_dead_letter_as_any_other(tmp_path, recording, capsys):
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(b"{broken\n[1]\n" + recording.read_bytes())
    assert replay(job_file(tmp_path), damaged) == 0
    assert "dead lettered: no_key 2" in capsys.readouterr().err


def test_a_replay_of_nothing_says_so(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_bytes(b"")
    assert replay(job_file(tmp_path), tmp_path / "a.jsonl") == 0
    assert "no records: the input is empty" in capsys.readouterr().err


def test_what_the_first_dead_letter_says_is_reported(tmp_path, recording, capsys):
    job = job_file(tmp_path, JOB.replace('"ay"', '"accy"'))
    assert replay(job, recording) == 1
    assert (
        "the first dead letter: topic imu[0] offset 0: expected a number in field 'accy', got nothing."
        in capsys.readouterr().err
    )


def test_labels_without_a_prediction_are_counted_apart_from_those_that_are_right(tmp_path, recording, capsys, monkeypatch):
    """Their sum is what `compare` counts as wrong: the predictions that are not the label."""
    for delay in ("0s", "9d"):
        monkeypatch.setenv("STREAMJOBS_LABELS__DELAY", delay)
        assert replay(job_file(tmp_path), recording, "--output-dir", tmp_path / delay, "--json") == 0
        summary = json.loads(capsys.readouterr().out)
        made = [json.loads(line)["value"] for line in (tmp_path / delay / "predictions.jsonl").read_text().splitlines()]
        judged = [one for one in made if one["true_class"] is not None]
        assert summary["labels"] == len(judged)
        assert summary["unpredicted"] == sum(one["predicted_class"] is None for one in judged) > 0
        wrong = sum(one["predicted_class"] != one["true_class"] for one in judged)
        assert summary["wrong"] + summary["unpredicted"] == wrong
    assert replay(job_file(tmp_path), recording) == 0
    assert f": 0 wrong, {len(judged):,} had no prediction" in capsys.readouterr().out


def test_alarms_are_equal_wherever_their_records_are_in_a_topic():
    """An alarm's id is made of its record's partition and offset, which differ in a worker's topic."""

    def alarm(name: str, opened: bool, rows: int = 3) -> Output:
        value = json.dumps({"id": name, "key": "p", "open": opened, "rows": rows}).encode()
        return Output("alarms", b"p", value, 0, [("streamjobs-id", b"imu-2-7")])

    recorded = [{"id": "a1", "key": "p", "open": opened, "rows": 3} for opened in (True, False)]
    for outputs, problem in (
        ([alarm("b5", True), alarm("b5", False)], None),
        ([alarm("b5", True), alarm("c6", False)], "id is 'c6', expected 'b5'"),
        ([alarm("b5", True, rows=4), alarm("b5", False)], "rows is 4, expected 3"),
    ):
        expected = Expected({"alarms": {"p": recorded}}, "the topics")
        for output in outputs:
            expected.take(output)
        if problem is None:
            assert expected.finish() == 2
        else:
            with pytest.raises(MismatchError, match=problem):
                expected.finish()
