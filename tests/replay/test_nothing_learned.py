"""Code 1 and one sentence where records came and nothing was learned; a warning where most of them could not be used."""

import json
import subprocess
import sys

import numpy as np
import pytest
from confluent_kafka import Producer

from streamjobs.demo.mock import PARTITIONS, MockBroker
from streamjobs.job_files import job_of
from streamjobs.kafka.topics import changelog
from streamjobs.recordings.files import records_of
from streamjobs.replay.engine import Replay
from streamjobs.replay.summary import Figures
from tests.commands.jobs import JOB, SESSION, as_csv, command, job_file, jsonl, rows

WITHIN = 150  # seconds; a cold compile cache on a busy machine included
UNTIMED = JOB.replace('time = "ts"\n', "").replace('[window]\nlength = "1s"\nhop = "500ms"\nrate = 10.0\n', "")
WATCHED = UNTIMED.replace('detector = "page_hinkley"', 'watch = "columns"\nfalse_alarms = "1 per 10000 rows"')


def replay(job, source, *words):
    return command("replay", job, "--input", source, *(words or ("--key", "person")))


def iso(row):
    return {**row, "ts": "2026-01-01T00:00:00"}


def last_line(capsys):
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_keys_without_a_row_are_named(tmp_path, capsys):
    short = [{**row, "person": "short"} for row in rows(300)][:3]
    assert replay(job_file(tmp_path), as_csv(tmp_path / "a.csv", [*rows(300), *short])) == 0
    assert "warning: 1 of 4 keys gave no row: short." in capsys.readouterr().err


def test_a_key_of_kilobytes_is_named_by_its_beginning(tmp_path, capsys):
    long = [{**row, "person": "k" * 10_240} for row in rows(300)][:3]
    assert replay(job_file(tmp_path), as_csv(tmp_path / "a.csv", [*rows(300), *long])) == 0
    assert f"warning: 1 of 4 keys gave no row: {'k' * 100}... (10,240 characters)." in capsys.readouterr().err


def test_keys_that_a_worker_would_set_aside_are_named(tmp_path):
    job = job_of(job_file(tmp_path))
    run = Replay(job)
    figures = Figures(run)
    records = records_of(as_csv(tmp_path / "a.csv", [*rows(300)]), job.settings.source, "person")
    run.run(records, figures.take, lambda tally: None)
    assert not any("aside" in sentence for sentence in figures.cautions(figures.summary()))
    (live,) = run.partitions.values()
    live.work["order"]["newest"][0] = np.nan  # as a learner of one's own may leave it
    (sentence,) = [one for one in figures.cautions(figures.summary()) if "aside" in one]
    key = live.text_of[0]
    assert sentence.startswith(f"a worker sets 1 of {len(run.met)} keys aside, because states cannot be written: {key} (")
    assert "order.newest" in sentence
    list(run.snapshots())
    assert run.unwritable().keys() == {key}


def test_where_every_record_is_a_dead_letter_a_replay_fails_with_the_first_reason(tmp_path, capsys):
    recording = as_csv(tmp_path / "a.csv", list(map(iso, rows(300))))
    assert replay(job_file(tmp_path), recording) == 1
    assert last_line(capsys) == (
        "nothing was learned: all 300 records became dead letters. The first: topic imu[0] offset 0: expected a time with "
        "a zone, such as Z or +01:00, in field 'ts', got one without; or set time_zone."
    )
    assert replay(job_file(tmp_path), recording, "--key", "person", "--json") == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["dead_lettered"] == {"bad_time": 300} and "nothing was learned" in err


def test_the_first_records_of_a_long_file_are_named_if_all_are_dead_letters(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("streamjobs.commands.replay.SOON", 1000)
    recording = jsonl(tmp_path / "a.jsonl", list(map(iso, rows(3000))))
    assert replay(job_file(tmp_path), recording, "--key", "person") == 1
    err = capsys.readouterr().err
    assert err.count("so far nothing was learned: all 1,000 records became dead letters. The first: topic imu[0]") == 1
    recording = jsonl(tmp_path / "b.jsonl", [*rows(1), *map(iso, rows(3000))])
    assert replay(job_file(tmp_path), recording, "--key", "person") == 1 and "so far" not in capsys.readouterr().err


def test_a_time_column_without_a_zone_is_refused_and_no_row_number_stands_in_for_it(tmp_path, capsys):
    recording = as_csv(tmp_path / "a.csv", list(map(iso, rows(30))))
    assert replay(job_file(tmp_path, UNTIMED), recording, "--key", "person", "--time", "ts") == 2
    assert last_line(capsys).endswith(
        "a.csv row 1: expected a number of seconds since 1970 or ISO 8601 in the time column 'ts', got "
        "'2026-01-01T00:00:00'. It has no zone: set [source] time_zone, or write one, such as Z or +01:00."
    )
    table = list(rows(30))
    table[7]["ts"] = None
    recording = as_csv(tmp_path / "a.csv", table)
    assert replay(job_file(tmp_path, UNTIMED), recording, "--key", "person", "--time", "ts") == 2
    assert (
        "a.csv row 8: expected a number of seconds since 1970 or ISO 8601 in the time column 'ts', got nothing."
        in last_line(capsys)
    )


def test_where_no_key_has_a_state_none_is_in_alarm(tmp_path, capsys):
    table = [{**row, "ax": 2e9} for row in rows(30)]
    assert replay(job_file(tmp_path, WATCHED), jsonl(tmp_path / "a.jsonl", table)) == 1
    assert "all 30 records became dead letters" in capsys.readouterr().err


def test_a_wrong_key_that_fills_no_window_fails(tmp_path, capsys):
    recording = jsonl(tmp_path / "a.jsonl", list(rows(300, keys=1)))
    assert replay(job_file(tmp_path), recording, "--key", "ts") == 1
    said = last_line(capsys)
    assert said.startswith("nothing was learned: 300 samples of 300 keys filled no window.") and "key" in said


def test_a_wrong_key_without_windows_is_a_warning(tmp_path, capsys):
    recording = jsonl(tmp_path / "a.jsonl", list(rows(300, keys=1)))
    assert replay(job_file(tmp_path, UNTIMED), recording, "--key", "ts") == 0
    assert "warning: each of the 300 samples has a key of its own" in capsys.readouterr().err


def test_more_than_half_dead_letters_are_a_warning_with_number_and_first_reason(tmp_path, capsys):
    table = [iso(row) if i >= 140 else row for i, row in enumerate(rows(300))]
    assert replay(job_file(tmp_path), jsonl(tmp_path / "a.jsonl", table)) == 0
    said = capsys.readouterr().err
    assert "warning: 160 of 300 records became dead letters, more than half. The first: topic imu[0] offset 140: " in said
    assert replay(job_file(tmp_path), jsonl(tmp_path / "a.jsonl", [*table[:140], *rows(140), *table[140:]])) == 0
    assert "more than half" not in capsys.readouterr().err


def test_samples_that_are_all_duplicates_are_reported_and_without_labels_all_is_well(tmp_path, capsys):
    table = [{**row, "ts": 1_700_000_000.0, "activity": None} for row in rows(300, keys=1)]
    job = job_file(tmp_path, UNTIMED.replace('label = "activity"', 'time = "ts"\nlabel = "activity"'))
    assert replay(job, jsonl(tmp_path / "a.jsonl", table)) == 0
    assert "warning: 99.7 % of the samples are skipped as duplicate: " in capsys.readouterr().err
    assert replay(job_file(tmp_path, UNTIMED), tmp_path / "a.jsonl", "--key", "person", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["labels"], found["skipped"]) == (300, 0, {})


def test_nothing_to_export_is_exported(tmp_path, capsys):
    recording = jsonl(tmp_path / "a.jsonl", list(map(iso, rows(30))))
    model = tmp_path / "model.state"
    assert replay(job_file(tmp_path), recording, "--key", "person", "--pool", "--export", model) == 1
    assert not model.exists()


@pytest.mark.slow
def test_a_worker_that_runs_once_fails_where_nothing_of_what_came_can_be_used(tmp_path, monkeypatch):
    with MockBroker() as mock:
        monkeypatch.setenv("STREAMJOBS_BROKER__URL", mock.url)
        monkeypatch.setenv(*SESSION)
        monkeypatch.setenv("STREAMJOBS_STATE__DIRECTORY", str(tmp_path / "state"))
        monkeypatch.setenv("STREAMJOBS_METRICS__PORT", "0")
        job = job_file(tmp_path, WATCHED)
        made = job_of(job)
        mock.create(["imu", *made.sinks.values(), changelog(made.settings)])
        producer = Producer({"bootstrap.servers": mock.url.removeprefix("kafka://"), "log_level": 0})

        def send(values, stamp=1_700_000_000_000):
            for i, value in enumerate(values):
                key = b"p%d" % (i % (3 * PARTITIONS))  # of one partition: the last label is counted by key
                producer.produce("imu", value, key=key, partition=i % PARTITIONS, timestamp=stamp)
            assert producer.flush(20) == 0

        def once():
            words = [sys.executable, "-m", "streamjobs", "run", str(job), "--once"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN, check=False)
            events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
            said = [line for line in done.stderr.splitlines() if not line.startswith("{")]
            return done.returncode, said, {event["event"]: event for event in events}

        send([b"{broken %d" % i for i in range(40)])
        code, said, events = once()
        assert code == 1 and len(said) == 1
        assert said[0].startswith(
            "streamjobs: nothing was learned: all 40 records became dead letters. The first: malformed, "
        )
        assert events["most records became dead letters"]["dead_lettered"] == 40
        assert events["stopped"]["dead_letter_reasons"] == {"malformed": 40}

        code, said, events = once()
        assert (code, said) == (0, [])
        passed = "has already passed all 40 offsets of topic imu; to begin at the first record, "
        assert passed + "give the job another [job] name" in events["no new record"]["reason"]

        send([json.dumps({"ax": i, "ay": 1, "az": 2}).encode() for i in range(400)])  # of one millisecond
        code, said, events = once()
        assert (code, said) == (0, [])
        assert (events["stopped"]["samples"], events["stopped"]["rows"], events["stopped"]["skipped"]) == (400, 400, {})
        assert (events["stopped"]["keys_active"], events["stopped"]["keys_warming_up"]) == (3 * PARTITIONS,) * 2
        assert events["stopped"]["needed_to_alarm"] == "1,129 rows"
        assert events["stopped"]["alarms"] == {}
        assert "accuracy" not in events["stopped"]

        labels = [("stand", "sit")[i // (3 * PARTITIONS) % 2] for i in range(400)]  # each key changes with every row
        send([json.dumps({"ax": i, "ay": 1, "az": 2, "activity": name}).encode() for i, name in enumerate(labels)])
        code, said, events = once()
        accuracy = events["stopped"]["accuracy"]
        assert (code, said, set(accuracy)) == (0, [], {"rows", "model", "last_label", "majority"})
        judged, right = 400 - 3 * PARTITIONS, 16 * 3 * PARTITIONS
        assert (accuracy["rows"], accuracy["last_label"], accuracy["majority"]) == (judged, 0.0, round(right / judged, 4))
        assert command("replay", job, "--input", "topic", "--expect", "topics") == 0
