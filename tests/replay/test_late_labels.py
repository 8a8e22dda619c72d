"""Labels in records of their own are scored as the same labels that come with their samples and are learned later."""

import json

from streamjobs.core.job import Job
from streamjobs.job_files import job_of
from streamjobs.recordings.files import records_of
from streamjobs.replay.scoring import controls, errors_of, predicted
from tests.commands.jobs import command, job_file, jsonl
from tests.replay.streams import RINGS, rings

DELAY = 8  # seconds: four rows of a key


def later(recording, path):
    """The recording with each label DELAY seconds later in a record of its own; the last labels never come."""
    rows = [json.loads(line) for line in recording.read_text().splitlines()]
    samples = [(row["ts"], 0, {name: value for name, value in row.items() if name != "ring"}) for row in rows]
    labels = [(row["ts"] + DELAY, 1, {name: row[name] for name in ("who", "ts", "ring")}) for row in rows[:-DELAY]]
    return jsonl(path, [event for *_, event in sorted([*samples, *labels], key=lambda one: one[:2])])


def test_rows_errors_and_controls_are_those_of_the_same_delay(tmp_path):
    recording, found = rings(tmp_path), []
    for how, file in (("delay", recording), ("wait", later(recording, tmp_path / "later.jsonl"))):
        job: Job = job_of(job_file(tmp_path, RINGS + f'[labels]\n{how} = "{DELAY}s"\n'))
        rows = predicted(job, list(records_of(file, job.settings.source, "who")))[0]
        seconds = float(DELAY) if how == "delay" else 0.0
        without = {name: [one.said for one in said] for name, said in controls(job.task, rows, seconds).items()}
        first = rows[:-DELAY]  # have labels in both
        error = errors_of(job.task, first, 0.5, seconds)
        found.append(([(one.key, one.time, one.said) for one in rows], [one.label for one in first], without, error))
    assert found[0] == found[1]
    assert found[0][3].rest < 0.5 and None not in found[0][1]


def test_replay_compares_the_number_of_late_labels_with_the_last_label_that_was_known(tmp_path, capsys):
    text = RINGS.replace('task = "classification"\nloss = "hinge"', 'task = "regression"').replace('"ring"', '"far"')
    rows = [json.loads(line) for line in rings(tmp_path).read_text().splitlines()]
    samples = [(row["ts"], 0, {name: row[name] for name in ("who", "ts", "x", "y")}) for row in rows]
    labels = [(row["ts"] + DELAY, 1, {"who": row["who"], "ts": row["ts"], "far": 5.0 + row["x"]}) for row in rows]
    file = jsonl(tmp_path / "far.jsonl", [event for *_, event in sorted([*samples, *labels], key=lambda one: one[:2])])
    job = job_file(tmp_path, text + f'[labels]\nwait = "{DELAY}s"\n')
    assert command("replay", job, "--input", file, "--key", "who") == 0
    printed = capsys.readouterr().out
    assert "240 labels, each predicted before it was learned: root mean square error" in printed
    assert "after the first known label of a key (230 of them)" in printed and "without a model, on 230 of them" in printed


def test_a_late_label_that_no_row_may_have_is_a_dead_letter_and_not_scored(tmp_path):
    file = later(rings(tmp_path), tmp_path / "later.jsonl")
    job: Job = job_of(job_file(tmp_path, RINGS + f'[labels]\nwait = "{DELAY}s"\n'))
    rows = predicted(job, list(records_of(file, job.settings.source, "who")))[0]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    number = next(n for n, line in enumerate(lines) if "ring" in line)
    lines[number]["ring"] = "x" * 300
    wrong, _ = predicted(job, list(records_of(jsonl(file, lines), job.settings.source, "who")))
    assert sum(one.label is not None for one in wrong) == sum(one.label is not None for one in rows) - 1
