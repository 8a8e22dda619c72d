"""`streamjobs fit`: the file, the report, its page, and what is refused with one sentence."""

import errno
import json
import os
import shlex
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import pytest

from streamjobs.core.state.population_reader import decode
from streamjobs.errors import ConfigError
from streamjobs.fit import fitting
from streamjobs.job_files import job_of
from streamjobs.settings.types import readable
from tests.fit.people import ACTIVITIES, JOB, as_csv, command, job_file, jsonl, rows
from tests.sizes import first_fast

DEVICE = '<meta name="viewport" content="width=device-width">'


@pytest.fixture(scope="module")
def table():
    return list(rows())


@pytest.fixture(scope="module")
def fitted(tmp_path_factory, table):
    """One fit with everything: its folder, and the table it printed."""
    folder = tmp_path_factory.mktemp("fitted")
    with pytest.MonkeyPatch.context() as patch:
        said = []
        patch.setattr("streamjobs.commands.fit.show", said.append)
        assert command("fit", job_file(folder), "--input", as_csv(folder / "in.csv", table), "--json") == 0
    return folder, said[0]


def fit(folder, table, *words, text=JOB):
    return command("fit", job_file(folder, text), "--input", jsonl(folder / "in.jsonl", table), *words)


def test_the_file_holds_what_everybody_taught(fitted):
    folder, said = fitted
    data = (folder / "population.state").read_bytes()
    population = decode(data)
    assert population.names == sorted(ACTIVITIES) and population.people == 6
    assert population.head.state.seen == population.labels.sum() == said["windows"] == 6 * 6 * 39
    assert population.scaling.state.seen == population.map.state.seen == said["windows"]
    assert (said["bytes"], said["fingerprint"]) == (len(data), population.fingerprint.hex())


def test_the_report_has_every_control_beside_the_job_and_adds_up(fitted):
    report = fitted[1]["report"]
    assert list(report["ways"]) == [
        "majority so far",
        "last label seen",
        "bound of cold: class labelled before",
        "ald, gated: this job",
        "ald, frozen head",
        "linear, gated",
        "linear, frozen head",
        "linear, cold, population's scale",
    ]
    assert list(report["people"]) == [f"p{n}" for n in range(8, 14)]
    mine = [person["all"] for person in report["people"].values()]
    spread = report["ways"][report["job"]]["all"]
    assert spread["mean"] == pytest.approx(sum(mine) / 6) and spread["worst"] == min(mine)
    assert [sum(row) for row in report["confusion"]] == [6 * 2 * 39] * 3  # people, recordings, windows
    right = sum(report["confusion"][c][c] for c in range(3)) / (6 * 6 * 39)
    assert right == pytest.approx(spread["mean"])


def test_people_whom_others_resemble_are_recognised_and_copying_is_not_enough(fitted):
    ways = fitted[1]["report"]["ways"]
    assert ways["ald, gated: this job"]["all"]["mean"] > 0.9
    assert ways["ald, gated: this job"]["fresh"]["mean"] > 0.9
    assert ways["last label seen"]["fresh"]["mean"] < 0.3


def test_the_page_stands_alone_and_has_every_activity_way_and_control(fitted):
    page = (fitted[0] / "population.state.html").read_text()
    ElementTree.fromstring(page.replace("<!doctype html>", "").replace('<meta charset="utf-8">', "").replace(DEVICE, ""))
    for part in (*ACTIVITIES, *fitted[1]["report"]["ways"], *fitted[1]["report"]["people"], "Advice: "):
        assert escape(part) in page, part
    assert "<script" not in page and "http" not in page and "prefers-color-scheme:dark" in page
    sit = page[page.index("<th>sit</th>") :]
    assert f">{100 * fitted[1]['report']['confusion'][1][1] / (6 * 2 * 39):.0f}</td>" in sit[: sit.index("</tr>")]


def test_people_of_test_teach_nothing_and_are_distinguished(fitted, tmp_path, table, capsys):
    """The population is what it is without them; an activity that no one taught is never right."""
    new = [{**row, "person": f"new {row['person']}"} for row in rows(2, seed=9)]
    strange = [{**row, "activity": "fly", "recording": 99, "ts": row["ts"] + 3600} for row in new[:400]]
    with pytest.MonkeyPatch.context() as patch:
        said = []
        patch.setattr("streamjobs.commands.fit.show", said.append)
        assert fit(tmp_path, table, "--test", as_csv(tmp_path / "new.csv", new + strange), "--json") == 0
    assert (tmp_path / "population.state").read_bytes() == (fitted[0] / "population.state").read_bytes()
    test, before = said[0]["test"], said[0]["report"]
    assert before == fitted[1]["report"]
    assert list(test["people"]) == ["new p8", "new p9"] and test["activities"] == [*sorted(ACTIVITIES), "fly"]
    assert test["confusion"][3][3] == 0 and sum(test["confusion"][3]) == 39
    assert test["ways"]["ald, gated: this job"]["all"]["mean"] > 0.8
    assert test["ways"]["last label seen"]["all"]["mean"] < 0.6
    doubts = " ".join(capsys.readouterr().err.split())
    assert "no one teaches 'fly'" in doubts and "if [head] max_classes = 4; else they are dead letters" in doubts
    assert "estimated before" in (tmp_path / "population.state.html").read_text()


def test_a_recording_with_the_wrong_label_is_named_with_its_evidence(tmp_path, table, capsys):
    wrong = [{**row, "activity": "run"} if row["person"] == "p9" and row["recording"] == 3 else row for row in table]
    assert fit(tmp_path, wrong, "--json", "--shuffles", "1") == 0
    (one,) = json.loads(capsys.readouterr().out)["report"]["look_mislabelled"]
    assert (one["person"], one["recording"], one["label"], one["looks"]) == ("p9", "3", "run", "sit")
    assert one["windows"] == 39 and one["like"] >= 0.8 * 39 and one["usual"] < 0.1


def test_neither_the_kind_of_file_nor_the_order_of_people_changes_a_byte(fitted, tmp_path, table):
    by_person = {}
    for row in table:
        by_person.setdefault(row["person"], []).append(row)
    other = [row for rows_of_one in reversed(by_person.values()) for row in rows_of_one]
    assert fit(tmp_path, other, "--json") == 0
    for name in ("population.state", "population.state.html"):
        assert (tmp_path / name).read_bytes() == (fitted[0] / name).read_bytes()


@pytest.mark.slow
def test_files_of_single_people_are_one_input(fitted, tmp_path, table, capsys):
    words = []
    for person in dict.fromkeys(row["person"] for row in table):
        mine = [row for row in table if row["person"] == person]
        words += ["--input", jsonl(tmp_path / f"{person}.jsonl", mine)]
    assert command("fit", job_file(tmp_path), *words, "--no-report") == 0
    assert (tmp_path / "population.state").read_bytes() == (fitted[0] / "population.state").read_bytes()
    assert not (tmp_path / "population.state.html").exists()
    assert "A new person" not in capsys.readouterr().out


@pytest.mark.slow
def test_the_text_says_what_was_learned_and_what_it_is_worth(tmp_path, table, capsys):
    assert fit(tmp_path, table[: len(table) // 2], "--shuffles", 1, "--folds", 2) == 0
    said = capsys.readouterr()
    for part in (
        "people by column 'person', recordings by column 'recording'",
        "3 people in 18 recordings",
        "3 activities: run 234, sit 234, walk 234",
        "map: ald (above 0.1, budget 20",
        "last label seen",
        "frozen  last label",
        "A new person: ",
    ):
        assert part in said.out, part
    assert sum(line.startswith(("p8", "p9", "p10")) for line in said.out.splitlines()) == 2
    assert "note: only 3 people" in said.err


def test_a_folder_that_is_read_only_is_named_before_anything_is_read(tmp_path, table, capsys, monkeypatch):
    job = job_file(tmp_path)
    monkeypatch.setattr(fitting.os, "access", lambda path, mode: mode != os.W_OK)
    assert command("fit", job, "--input", tmp_path / "absent.csv", "--key", "person") == 2
    assert "population.state: cannot be written, because its folder is read-only" in capsys.readouterr().err

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(ConfigError, match=r"cannot be written \(Read-only file system\)"):
        fitting.write(tmp_path / "population.state", b"")


def test_people_whose_samples_fill_no_window_are_named(tmp_path, table, capsys):
    slow = [{**row, "person": "slow"} for row in table if row["person"] == "p8"][::3]
    recordings = as_csv(tmp_path / "people.csv", [*table, *slow])
    assert command("fit", job_file(tmp_path), "--input", recordings, "--no-report", "--key", "person") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "1 of 7 people gave no window with a label, and teach nothing: slow." in said


def test_of_many_people_some_are_left_out_unless_a_number_is_stated(tmp_path, table, capsys, monkeypatch):
    monkeypatch.setattr("streamjobs.fit.fitting.MOST_LEFT_OUT", 2)
    for words, title in (((), "2 of 6 people left out in turn"), (("--folds", 6), "each person left out in turn")):
        assert fit(tmp_path, table, "--shuffles", 1, "--force", *words) == 0
        assert title in capsys.readouterr().out


@pytest.mark.parametrize(("column", "words"), [("who is it", ("--key", "who is it")), ("person", ())])
def test_the_command_that_comes_next_works_as_it_is_printed(tmp_path, table, capsys, monkeypatch, column, words):
    """Also for a column with another name than usual. Its labels are as late as those of the report."""
    few = [{column: row["person"], **{name: row[name] for name in row if name != "person"}} for row in table[::3]]
    few = [row | {"ts": 1_700_000_000.0 + n / 10} for n, row in enumerate(few)]
    assert fit(tmp_path, few, "--no-report", *words) == 0
    said = capsys.readouterr().out
    assert f"A person's state has at most {readable(job_of(tmp_path / 'job.toml').state_bytes)}." in said
    (line,) = (line for line in said.splitlines() if line.startswith("Next, "))
    variable, _, *call = shlex.split(line.partition(": ")[2])
    monkeypatch.setenv(*variable.split("="))
    assert command(*(str(tmp_path / "in.jsonl") if word == "RECORDINGS" else word for word in call)) == 0
    said = capsys.readouterr().out
    assert "These people: " in said and "labels 20 windows late" in said


def test_records_without_times_are_scored_by_fit_because_no_label_can_be_late(tmp_path, table, capsys):
    timeless = [{name: row[name] for name in row if name != "ts"} for row in table]
    text = JOB.replace('time = "ts"\n', "").replace('[window]\nlength = "2s"\nhop = "1s"\nrate = 10.0\n', "")
    assert fit(tmp_path, timeless, "--no-report", text=text) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("Next, "))
    _, *call = shlex.split(line.partition(": ")[2])
    assert "--test" in call
    assert command(*(str(tmp_path / "in.jsonl") if word == "RECORDINGS" else word for word in call)) == 0
    assert (
        "people of --test, recordings in their own order: 6 people, 3 activities, 14400 windows, labels 20 windows late"
        in (capsys.readouterr().out)
    )


def test_a_job_of_init_without_a_label_is_asked_for_the_label_and_not_for_an_output(tmp_path, table, capsys):
    text = JOB.replace('[population]\nfile = "{file}"\n', "")
    without = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("label = "))
    assert without != text and fit(tmp_path, table, "--no-report", text=without) == 2
    assert "fit needs the field with the label; state it as label, or use init --label COLUMN." in capsys.readouterr().err


@pytest.mark.slow
def test_a_job_without_population_gets_the_lines_to_use_it(tmp_path, table, capsys):
    text = JOB.replace('[population]\nfile = "{file}"\n', "")
    assert fit(tmp_path, table, "--no-report", text=text) == 2
    assert "name the file with --output" in capsys.readouterr().err
    assert fit(tmp_path, table, "--no-report", "--output", tmp_path / "mine.state", text=text) == 0
    assert f'[population]\nfile = "{tmp_path / "mine.state"}"' in capsys.readouterr().out
    assert decode((tmp_path / "mine.state").read_bytes()).people == 6


def test_nothing_is_replaced_without_force(tmp_path, table, capsys):
    for taken in ("population.state", "population.state.html"):
        (tmp_path / taken).write_text("mine")
        assert fit(tmp_path, table) == 2
        assert f"{taken}: the file already exists; --force replaces it." in capsys.readouterr().err
        assert (tmp_path / taken).read_text() == "mine"
        (tmp_path / taken).unlink()
    (tmp_path / "population.state").write_text("mine")
    assert fit(tmp_path, table, "--no-report", "--force") == 0
    assert decode((tmp_path / "population.state").read_bytes()).people == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "job.toml", "population.state"]


def test_a_folder_is_not_a_file_to_write(tmp_path, table, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    for folder in ("out", ".", ".."):
        assert fit(tmp_path, table, "--output", folder) == 2
        assert f"{folder}: cannot be written there; name a file in a folder that exists." in capsys.readouterr().err


def without(table, *names):
    return [{name: value for name, value in row.items() if name not in names} for row in table]


REFUSED = {
    "one person": (lambda table: [row for row in table if row["person"] == "p8"], (), JOB, "are of one person ('p8')"),
    "one activity": (lambda table: [row for row in table if row["activity"] == "sit"], (), JOB, "the same label ('sit')"),
    "no labels": (lambda table: [{**row, "activity": None} for row in table], (), JOB, "none of 1,404 windows has a label"),
    "no label column": (
        lambda table: without(table, "activity"),
        (),
        JOB,
        "no column 'activity' for the label; the file has",
    ),
    "a field that is not there": (lambda table: without(table, "ay"), (), JOB, "no column 'ay' for [source] fields"),
    "no person": (
        lambda table: without(table, "person"),
        (),
        JOB,
        "expected the person's column as --key, got none; the file has 'recording'",
    ),
    "an unknown key": (lambda table: table, ("--key", "who"), JOB, "no column 'who' for --key"),
    "an unknown recording": (lambda table: table, ("--recording", "who"), JOB, "no column 'who' for --recording"),
    "recording and pause": (lambda table: table, ("--recording", "recording", "--pause", "5s"), JOB, "give one of them"),
    "no time": (lambda table: without(table, "ts"), (), JOB, "no column 'ts' for the time"),
    "times in another unit": (
        lambda table: [{**row, "ts": row["ts"] * 1000} for row in table],
        (),
        JOB,
        "gave no window of 2 s at 10 Hz",
    ),
    "a wrong duration": (lambda table: table, ("--label-delay", "late"), JOB, "--label-delay must be a duration"),
    "no row": (
        lambda table: [{**row, "ax": None} for row in table],
        (),
        JOB.replace('[window]\nlength = "2s"\nhop = "1s"\nrate = 10.0\n', ""),
        "gave no row (",
    ),
    "no label in the job": (
        lambda table: table,
        (),
        JOB.replace('label = "activity"\n', ""),
        "needs the field with the label",
    ),
    "no records": (lambda table: [], (), JOB, "expected recordings of two people or more; got no rows"),
    "a folder that is not there": (lambda table: table, ("--output", "/nowhere/a.state"), JOB, "a folder that exists"),
    "a topic and a file": (lambda table: table, ("--input", "topic"), JOB, "--input must be files or topics, not both"),
    "a number as label": (
        lambda table: [{**row, "activity": i} for i, row in enumerate(table)],
        (),
        JOB,
        "more than 64 different labels",
    ),
}


@pytest.mark.parametrize("what", first_fast(REFUSED, 5))
def test_what_cannot_work_is_one_sentence(tmp_path, table, capsys, what):
    change, words, text, sentence = REFUSED[what]
    assert fit(tmp_path, change(table), *words, text=text) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert sentence in said[-1] and "Traceback" not in "".join(said)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "job.toml"]


def test_json_alone_is_on_the_output(tmp_path, table, capsys):
    assert fit(tmp_path, table, "--json", "--no-report") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["report"] is None and found["recordings"] == 36


def test_a_job_with_a_population_is_compared_with_learners_that_know_no_one(fitted, capsys):
    folder, _ = fitted
    asked = "--input", folder / "in.csv", "--key", "person"
    assert command("compare", folder / "job.toml", *asked, "--learners", "job,rls", "--json") == 0
    said = capsys.readouterr()
    job, alone = json.loads(said.out)["learners"]
    assert (job["model"], alone["model"]) == ("ald+rls", "rls") and job["error"] < alone["error"] < 1
    assert "people who taught the population" in said.err
    assert command("compare", folder / "job.toml", *asked[:2], "--key-from", "column", "--learners", "job") == 2
    assert "'--key-from': 'column' is not one of 'file', 'folder'" in capsys.readouterr().err
