"""`state ...` on copies of states: what the commands print, and a sentence with an exit code for each mistake."""

import json
import os
import stat

import pytest

from streamjobs.commands import console
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.core.state import snapshot
from streamjobs.job_files import job_of
from streamjobs.maintenance import redrive, summary
from streamjobs.maintenance.copies import decode, encode
from streamjobs.maintenance.redrive import Letter
from tests.commands.jobs import JOB, command, job_file, rows
from tests.maintenance.copying import copy_of, stored

NOBODY = "kafka://127.0.0.1:9"  # nothing listens there


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Job file, an older copy and a newer one of the states of three keys."""
    folder = tmp_path_factory.mktemp("states")
    file = job_file(folder)
    job = job_of(file)
    records = [
        Stored("imu", 0, n, round(row["ts"] * 1000), row["person"].encode(), json.dumps(row).encode())
        for n, row in enumerate(rows(600))
    ]
    older = stored(job, records[:300])
    newer = stored(job, records[300:], older)
    paths = folder / "older", folder / "newer"
    for path, store, offset in zip(paths, (older, newer), (0, 9), strict=True):
        path.write_bytes(b"".join(encode(copy_of(job, store, offset))))
    return file, *paths


def test_list_is_sorted_and_cut(there, capsys):
    file, _, newer = there
    assert command("state", "list", file, "--copy", newer) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == ["key", "p0", "p1", "p2", "3"]
    assert command("state", "list", file, "--copy", newer, "--sort", "ls_error", "--limit", "2", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    errors = [line["ls_error"] for line in found["states"]]
    assert found["keys"] == 3 and len(errors) == 2 and errors[0] >= errors[1] > 0
    assert command("state", "list", file, "--copy", newer, "--sort", "offset", "--json") == 0
    assert [line["offset"] for line in json.loads(capsys.readouterr().out)["states"]] == [599, 598, 597]


def test_a_list_by_ls_error_says_that_no_state_has_one(there, capsys, monkeypatch):
    file, _, newer = there
    words = "state", "list", file, "--copy", newer, "--sort", "ls_error"
    assert command(*words) == 0 and "sorted by key" not in capsys.readouterr().err
    monkeypatch.setattr(summary, "ls_error", lambda job, states: None)
    assert command(*words) == 0
    told = capsys.readouterr()
    assert [line.split()[0] for line in told.out.splitlines()] == ["key", "p0", "p1", "p2", "3"]
    assert told.err.endswith(
        "sorted by key: no state has an LS error, which only some learners and a [drift] of LS errors keep\n"
    )


@pytest.mark.parametrize(("sort", "limit", "decoded"), [("key", 2, 2), ("bytes", 1, 1), ("offset", 2, 2), ("seen", 1, 3)])
def test_list_decodes_only_the_states_that_it_lists(there, capsys, monkeypatch, sort, limit, decoded):
    file, _, newer = there
    words = ("state", "list", file, "--copy", newer, "--sort", sort, "--json")
    assert command(*words) == 0
    everything = json.loads(capsys.readouterr().out)
    seen, usual = [], summary.decode_entry
    monkeypatch.setattr(summary, "decode_entry", lambda job, entry: seen.append(entry) or usual(job, entry))
    assert command(*words, "--limit", limit) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed == {**everything, "states": everything["states"][:limit]}
    assert len(seen) == decoded
    seen.clear()
    assert command("state", "show", file, "p1", "--copy", newer) == 0 and len(seen) == 1


def test_list_shows_damaged_states_first_as_long_as_one_can_be_used(there, tmp_path, capsys):
    file, _, newer = there
    copy = decode(newer.read_bytes())
    first = min(copy.entries)
    damaged = copy._replace(entries={**copy.entries, first: copy.entries[first]._replace(data=b"SJ damaged")})
    (tmp_path / "damaged").write_bytes(b"".join(encode(damaged)))
    assert command("state", "list", file, "--copy", tmp_path / "damaged", "--limit", "1") == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith("3 keys, ") and err.startswith("key 'p0' in partition 0: ")


def test_a_key_of_a_megabyte_is_listed_by_its_first_characters_and_its_length(there, tmp_path, capsys):
    file, _, newer = there
    copy = decode(newer.read_bytes())
    first = min(copy.entries)
    long = copy.entries[first]._replace(key=b"p" * (1 << 20))
    one = copy._replace(entries={**copy.entries, (long.partition, long.key): long})
    bad = long._replace(key=b"q" * (1 << 20), data=b"SJ damaged")
    one.entries[bad.partition, bad.key] = bad
    (tmp_path / "long").write_bytes(b"".join(encode(one)))
    assert command("state", "list", file, "--copy", tmp_path / "long") == 0
    out, err = capsys.readouterr()
    assert "ppp... (1,048,576 characters)" in out and len(out) < 10_000
    assert "qqq... (1,048,576 characters)' in partition" in err and len(err) < 2_000
    assert command("state", "list", file, "--copy", tmp_path / "long", "--json") == 0
    assert len(capsys.readouterr().out) > 2 << 20


def test_a_dead_letter_with_a_key_of_a_megabyte_is_shown_by_its_first_characters(there, capsys, monkeypatch):
    record = Stored("imu", 0, 7, 0, b"k" * (1 << 20), b"{", (("trace", b"t" * (1 << 20)),))
    letter = Letter(0, 3, record, "malformed", "m" * 9_000, "decode", ("imu", 0, 7), 1, "1", record.key)
    monkeypatch.setattr(redrive, "read_letters", lambda settings, topic: ([letter], 0))
    for words in (("list", there[0]), ("show", there[0], "0:3")):
        assert command("dlq", *words) == 0
        out = capsys.readouterr().out
        assert "kkk... (1,048,576 characters)" in out and len(out) < 10_000


def test_what_takes_long_tells_how_far_it_is(there, capsys, monkeypatch):
    file, _, newer = there
    monkeypatch.setattr(console, "PROGRESS_EVERY", -1.0)
    assert command("state", "verify", file, "--copy", newer) == 0
    assert capsys.readouterr().err.splitlines() == [f"{number} states verified ..." for number in (1, 2, 3)]
    assert list(console.counted("abc", "letters read")) == ["a", "b", "c"]
    assert capsys.readouterr().err.splitlines() == ["1 letters read ...", "2 letters read ...", "3 letters read ..."]


def test_show_tells_stages_and_classes_of_a_key(there, capsys):
    file, _, newer = there
    assert command("state", "show", file, "p1", "--copy", newer) == 0
    out = capsys.readouterr().out
    assert "last applied imu[0] 598" in out and "run " in out and "extractor.support" in out
    assert " (2023-11-14 22:" in out, "event times, next to their numbers"
    assert command("state", "show", file, "p1", "--copy", newer, "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["classes"].keys() == {"run", "sit"}


def test_verify_ends_with_code_4_where_a_copy_has_fallen_behind(there, capsys):
    file, older, newer = there
    assert command("state", "verify", file, "--copy", newer, "--against", older) == 0
    assert "3 keys: every snapshot decodes" in capsys.readouterr().out
    assert command("state", "verify", file, "--copy", older, "--against", newer) == 4
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_an_exported_model_starts_new_keys_of_a_job(there, tmp_path, capsys):
    file, _, newer = there
    model = tmp_path / "p1.state"
    assert command("state", "export", file, "p1", "--copy", newer, "-o", model) == 0
    assert "start_from" in capsys.readouterr().out and snapshot.decode(model.read_bytes()).offsets == {}
    warm = job_of(job_file(tmp_path, JOB + f'[state]\nstart_from = "{model}"\n'))
    live = Live(warm, {}.get)
    states = live.states(live.slot(b"new"))
    assert states["books"].seen == 39 and states["books"].rows == 0
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("words", [("p1",), ("--all",)])
def test_an_export_is_on_the_disk_before_it_replaces_the_former_one(there, tmp_path, words, monkeypatch):
    file, _, newer = there
    output, order = tmp_path / "output", []
    output.write_bytes(b"of an earlier release")
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (order.append(("on disk", os.fstat(number).st_size)), fsync(number)))
    monkeypatch.setattr(os, "replace", lambda *paths: (order.append("replaced"), replace(*paths)))
    assert command("state", "export", file, *words, "--copy", newer, "-o", output) == 0
    assert order == [("on disk", output.stat().st_size), "replaced"]


@pytest.mark.parametrize("words", [("p1",), ("--all",)])
def test_only_this_user_can_read_an_export(there, tmp_path, words):
    file, _, newer = there
    output = tmp_path / "output"
    output.write_bytes(b"of an earlier release")
    for path in (output, tmp_path / "output.part"):
        path.touch(0o644)
    assert command("state", "export", file, *words, "--copy", newer, "-o", output) == 0
    assert stat.S_IMODE(output.stat().st_mode) == 0o600 and output.stat().st_size > 100


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show", "JOB", "p9", "--copy", "NEWER"], 2, "key 'p9': no state"),
        (["list", "JOB", "--copy", "absent"], 2, "cannot be read"),
        (["list", "JOB", "--copy", "JOB"], 1, "expected a file of 'state export --all'"),
        (["list", "OTHER", "--copy", "NEWER"], 1, "none of its 3 keys can be used"),
        (["show", "OTHER", "p1", "--copy", "NEWER"], 1, "key 'p1'"),
        (["export", "JOB", "-o", "x"], 2, "either KEY or --all"),
        (["reset", "JOB"], 2, "either KEY or --all"),
        (["import", "JOB", "NEWER"], 2, "either --key or --all"),
        (["import", "JOB", "NEWER", "--all", "--partition", "1"], 2, "--from and --partition belong to --key"),
        (["import", "JOB", "NEWER", "--key", "p1", "--partitioner", "crc32"], 2, "--partitioner belongs to --all"),
        (["import", "JOB", "JOB", "--all"], 1, "expected a file of 'state export --all'"),
        (["import", "JOB", "NEWER", "--all"], 3, "broker 127.0.0.1:9"),
        (["export", "JOB", "p1", "--copy", "NEWER", "-o", "no/such/folder"], 2, "cannot be written"),
        (["list", "JOB"], 3, "broker 127.0.0.1:9"),
        (["reset", "JOB", "p1"], 3, "broker 127.0.0.1:9"),
        (["verify", "JOB"], 3, "broker 127.0.0.1:9"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_exit_code(there, words, code, said, tmp_path, capsys, monkeypatch):
    for question in ("ADMIN", "LOOKUP"):
        monkeypatch.setattr(f"streamjobs.kafka.timeouts.{question}", 0.5)
    monkeypatch.setenv("STREAMJOBS_BROKER__URL", NOBODY)
    monkeypatch.chdir(tmp_path)
    names = {"JOB": there[0], "NEWER": there[2], "OTHER": job_file(tmp_path, JOB.replace("rank = 3", "rank = 2"))}
    assert command("state", *(names.get(word, word) for word in words)) == code
    err = capsys.readouterr().err.strip()
    assert said in err and len(err.splitlines()) == 1


def test_dead_letters_need_a_broker_and_a_selection(there, capsys, monkeypatch):
    monkeypatch.setattr("streamjobs.kafka.timeouts.LOOKUP", 0.5)
    monkeypatch.setenv("STREAMJOBS_BROKER__URL", NOBODY)
    assert command("dlq", "list", there[0]) == 3
    assert "broker 127.0.0.1:9" in capsys.readouterr().err
    assert command("dlq", "redrive", there[0]) == 2
    assert "one of --reason, --offset and --all" in capsys.readouterr().err
