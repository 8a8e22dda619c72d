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


def made(folder, table, text, *options):
    folder.mkdir()
    file, job = jsonl(folder / "in.jsonl", table), job_file(folder, text)
    assert command("fit", job, "--input", file, "--shuffles", 1, *options) == 0
    return job, file


@pytest.mark.parametrize(("recording", "options"), [(True, ()), (False, ("--pause", "10s"))], ids=["column", "pauses"])
def test_the_same_population_and_report(tmp_path, capsys, recording, options):
    """To the bit, also if the people of --test have their labels apart."""
    forms, pages = apart(list(rows(people=4)), recording=recording), []
    others = apart(list({**row, "person": row["person"] + "b"} for row in rows(people=2, seed=5)), recording=recording)
    for number, (table, new) in enumerate(zip(forms, others, strict=True)):
        test = jsonl(tmp_path / f"new{number}.jsonl", new)
        made(tmp_path / str(number), table, FILTER + WAIT * number, "--test", test, *options)
        pages.append((tmp_path / str(number) / "population.state.html").read_text())
    assert (tmp_path / "0" / "population.state").read_bytes() == (tmp_path / "1" / "population.state").read_bytes()
    assert pages[0] == pages[1]
    printed = capsys.readouterr().out
    assert "unmatched_label" not in printed and " unlabelled" not in printed


def test_replay_scores_the_same(tmp_path, capsys):
    """As labels of the samples that are learned as much later."""
    forms, found = apart(list(rows(people=4))), []
    job, _ = made(tmp_path / "taught", forms[0], FILTER, "--no-report")
    for number, more in enumerate((f'[labels]\ndelay = "{DELAY:g}s"\n', WAIT)):
        table = [{**row, "person": row["person"] + "b"} for row in forms[number]]
        job.write_text(FILTER.replace("{file}", "population.state") + more)
        capsys.readouterr()
        assert (
            command("replay", job, "--input", jsonl(tmp_path / "new.jsonl", table), "--score", "--json", "--key", "person")
            == 0
        )
        found.append(json.loads(capsys.readouterr().out)["scored"])
    assert found[0] == found[1] and found[0]["protocol"]["late_windows"] == DELAY


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
    assert "belong in the file of their samples" in capsys.readouterr().err


def test_many_labels_too_late_are_named(tmp_path, capsys):
    table = apart(list(rows(people=4)), recording=False)[1]
    labels = [
        {**row, "ts": row["ts"] + (0.7 if row["person"] == "p8" else 0.0)} if "activity" in row else row for row in table
    ]
    made(tmp_path / "job", labels, JOB + WAIT + 'within = "100ms"\n', "--pause", "10s", "--no-report")
    assert "labels in records of their own met no waiting window" in capsys.readouterr().err
