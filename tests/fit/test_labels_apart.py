"""Labels in records of their own: `fit` and `replay --score` give the figures of labels in the records of samples."""

import json

import pytest

from tests.fit.people import JOB, command, job_file, jsonl, rows

DELAY = 3.0  # seconds
WAIT = '[labels]\nwait = "4s"\n'
FILTER = JOB.replace("smooth = 0.3", 'filter = "hmm"')


def apart(table, *, recording=True):
    """The samples with labels, and without: a label for each window that had one is DELAY seconds later in a record.

    recording: whether the records of labels name it.
    """
    samples, later = [], []
    for which in dict.fromkeys((row["person"], row["recording"]) for row in table):
        own = [row for row in table if (row["person"], row["recording"]) == which]
        begin = own[0]["ts"]
        waiting = [begin + second for second in range(2, 37)]  # ends of windows; the label of the last has come in time
        for row in own:
            while waiting and waiting[0] + DELAY < row["ts"]:
                label = {"person": row["person"], "ts": waiting.pop(0), "activity": row["activity"]}
                later.append(label | ({"recording": row["recording"]} if recording else {}))
            bare = {name: value for name, value in row.items() if name != "activity"}
            later.append(bare)
            samples.append(row if row["ts"] < begin + 34.05 else bare)
        assert not waiting
    return samples, later


def files(folder, name, table, option="--input", *, two=False):
    """Options with the file, or with one of samples and one of labels."""
    parts = [("", [row for row in table if "ax" in row]), ("_labels", [row for row in table if "ax" not in row])]
    parts = parts if two else [("", table)]
    return [word for end, rows in parts for word in (option, jsonl(folder / f"{name}{end}.jsonl", rows))]


def made(folder, table, text, *options, two=False):
    folder.mkdir()
    job = job_file(folder, text)
    assert command("fit", job, *files(folder, "in", table, two=two), "--shuffles", 1, *options) == 0
    return job


@pytest.mark.parametrize(("recording", "options"), [(True, ()), (False, ("--pause", "10s"))], ids=["column", "pauses"])
def test_the_same_population_and_report(tmp_path, capsys, recording, options):
    """To the bit, also if those of --test have their labels apart, and in files of their own, which come DELAY later."""
    forms, pages = apart(list(rows(people=4)), recording=recording), []
    others = apart(list({**row, "person": row["person"] + "b"} for row in rows(people=2, seed=5)), recording=recording)
    for number in range(2 + recording):
        which, two, wait = min(number, 1), number == 2, WAIT * (number > 0)
        test = files(tmp_path, f"new{number}", others[which], "--test", two=two)
        made(tmp_path / str(number), forms[which], FILTER + wait.replace("4s", "6s"), *test, *options, two=two)
        pages.append((tmp_path / str(number) / "population.state.html").read_text())
    populations = [path.read_bytes() for path in tmp_path.glob("*/population.state")]
    assert len(pages) == len(populations) == 2 + recording and len({*populations}) == len({*pages}) == 1
    printed = capsys.readouterr().out
    assert "unmatched_label" not in printed and " unlabelled" not in printed


def test_replay_scores_the_same(tmp_path, capsys):
    """As labels of the samples that are learned as much later."""
    forms, found = apart(list(rows(people=4))), []
    job = made(tmp_path / "taught", forms[0], FILTER, "--no-report")
    waiting = WAIT.replace("4s", "6s")
    for number, more in enumerate((f'[labels]\ndelay = "{DELAY:g}s"\n', WAIT, waiting)):
        table = [{**row, "person": row["person"] + "b"} for row in forms[min(number, 1)]]
        job.write_text(FILTER.replace("{file}", "population.state") + more)
        capsys.readouterr()
        given = files(tmp_path, "new", table, two=number == 2)
        assert command("replay", job, *given, "--score", "--json", "--key", "person") == 0
        found.append(json.loads(capsys.readouterr().out)["scored"])
    assert found[0] == found[1] == found[2] and found[0]["protocol"]["late_windows"] == DELAY
    assert command("replay", job, *given[:2], *given[:2], "--key", "person") == 2
    assert "expected a file of labels alone" in capsys.readouterr().err


def test_labels_that_meet_no_window_are_named(tmp_path, capsys):
    later = apart(list(rows(people=4)), recording=False)[1]
    folder = tmp_path / "job"
    folder.mkdir()
    file, job = jsonl(folder / "in.jsonl", later), job_file(folder, JOB + WAIT)
    assert command("fit", job, "--input", file, "--no-report") == 2
    said = capsys.readouterr().err
    assert "needs its recording in column 'recording'; or ignore this column with --pause 10s" in said
    assert command("fit", job_file(folder, JOB), "--input", file, "--no-report", "--pause", "10s") == 2
    assert "set [labels] wait" in capsys.readouterr().err
    alone = jsonl(folder / "labels.jsonl", [row for row in later if "activity" in row])
    assert command("fit", job_file(folder, JOB + WAIT), "--input", alone, "--no-report") == 2
    assert "name the file of their samples too" in capsys.readouterr().err
    assert command("fit", job_file(folder, JOB), "--input", alone, "--no-report") == 2
    assert "set [labels] wait" in capsys.readouterr().err


def test_many_labels_too_late_are_named(tmp_path, capsys):
    table = apart(list(rows(people=4)), recording=False)[1]
    labels = [
        {**row, "ts": row["ts"] + (0.7 if row["person"] == "p8" else 0.0)} if "activity" in row else row for row in table
    ]
    made(tmp_path / "job", labels, JOB + WAIT + 'within = "100ms"\n', "--pause", "10s", "--no-report")
    assert "labels in records of their own met no waiting window" in capsys.readouterr().err


def test_labels_with_a_start_and_an_end_are_refused_with_advice(tmp_path, capsys):
    samples = jsonl(
        tmp_path / "samples.jsonl", [{k: v for k, v in row.items() if k != "activity"} for row in rows(people=2)]
    )
    labels = jsonl(tmp_path / "labels.jsonl", [{"person": "p8", "start": 1.0, "end": 2.0, "activity": "sit"}])
    for text, advice in ((JOB, "set [labels] wait and name both files"), (JOB + WAIT, "write each label into the samples")):
        job = job_file(tmp_path, text)
        assert command("fit", job, "--input", samples, "--input", labels) == 2
        assert advice in " ".join(capsys.readouterr().err.split())
