"""`init` of recordings whose labels come later, in records of their own: it writes [labels], and tries the learners."""

import json
import random
from datetime import UTC, datetime

import pytest

from streamjobs.job_files import read_table
from streamjobs.recordings.guess import late_labels
from tests.commands.jobs import command, jsonl

START, PAUSE, LATE = 1_770_000_000, 300, 5_400  # seconds; the laboratory needs an hour and a half


def vats(rows: int = 260, keys: int = 3, label: str = "gravity") -> list[dict]:
    """Vats with a number that follows two others, measured LATE seconds after its sample."""
    rng, events = random.Random(41), list[tuple[int, int, dict]]()
    for key in range(keys):
        for row in range(rows):
            time = START + PAUSE * row + 11 * key
            warm, acid = round(18 + rng.gauss(0, 1), 3), round(4 + rng.gauss(0, 0.2), 3)
            of = {"vat": f"v{key}", "ts": time}
            value = round(1000 + 3 * warm - 20 * acid + rng.gauss(0, 0.3), 2)
            events.append((time, 0, of | {"warm": warm, "acid": acid}))
            events.append((time + LATE, 1, of | {label: value if label == "gravity" else value > 974}))
    return [event for *_, event in sorted(events, key=lambda one: one[:2])]


@pytest.mark.parametrize(("label", "task"), [("gravity", "regression"), ("foams", "classification")])
def test_labels_in_records_of_their_own_are_waited_for_and_the_learners_tried_with_them(
    tmp_path, printed, capsys, label, task
):
    sample = jsonl(tmp_path / "vats.jsonl", vats(label=label))
    found = printed(sample)
    table = read_table(found.file)
    assert table["source"]["label"] == label and table["labels"] == {"wait": "113m"}, "a quarter more than 90 minutes"
    assert table["source"]["fields"] == ["warm", "acid"] and "missing" not in table["source"]
    assert found.says(f"label {label} ({task}") and "labels came up to 90m later" in found.text
    assert "# rate = 0.0033" in found.text, "labels are no samples of a sensor"
    assert found.says("of labels as late as in the sample: ", "rls") and not found.says("were not tried", "learners")

    assert command("replay", found.file, "--input", sample, "--key", "vat", "--json") == 0
    done = json.loads(capsys.readouterr().out)
    assert done["labels"] == 3 * 260 and not done["dead_lettered"]
    assert done["controls"]["judged"] > 600, "the error has its control next to it"
    if task == "regression":
        assert done["measured"] == done["controls"]["judged"] and done["rmse"] > 0, "both are of the same labels"
    else:
        assert done["wrong"] < 0.5 * done["controls"]["wrong_last_label"] and done["unpredicted"] > 0


def test_in_a_table_a_label_without_numbers_is_a_late_label_too(tmp_path, printed, capsys):
    sample, names = tmp_path / "vats.csv", ("vat", "ts", "warm", "acid", "gravity")
    lines = [",".join(str(row.get(name, "")) for name in names) for row in vats()]
    sample.write_text("\n".join([",".join(names), *lines]) + "\n")
    found = printed(sample)
    assert read_table(found.file)["labels"] == {"wait": "113m"} and not found.says("were not tried", "learners")
    assert command("replay", found.file, "--input", sample, "--key", "vat", "--json") == 0
    done = json.loads(capsys.readouterr().out)
    assert done["labels"] == 3 * 260 and not done["dead_lettered"]


def test_a_second_sensor_with_records_of_its_own_is_no_label(tmp_path, printed):
    events = [event if "gravity" not in event else event | {"ts": event["ts"] + LATE} for event in vats()]
    found = printed(jsonl(tmp_path / "vats.jsonl", events))
    assert "label" not in found.source and "labels" not in read_table(found.file)


def found_late() -> list[dict]:
    """Labels with the time at which they were found, not their sample's."""
    return [event if "gravity" not in event else event | {"ts": event["ts"] + LATE + 7} for event in vats()]


@pytest.mark.parametrize("every", [1, 3])
def test_a_label_with_a_time_of_its_own_is_named_with_what_it_needs(tmp_path, printed, every):
    events = [event for number, event in enumerate(found_late()) if "warm" in event or number % every == 0]
    found = printed(jsonl(tmp_path / "vats.jsonl", events))
    assert found.says(
        "'gravity' comes in records of its own; if it is the label", "the 'ts' of its sample", "--label gravity"
    )
    assert "label" not in found.source


@pytest.mark.parametrize("iso", [False, True])
def test_a_column_with_the_times_of_the_samples_is_named(tmp_path, printed, iso):
    events = [event | ({} if "warm" in event else {"of": event["ts"] - LATE - 7}) for event in found_late()]
    if iso:
        utc = lambda time: datetime.fromtimestamp(time, UTC).isoformat()  # noqa: E731
        events = [event | {name: utc(event[name]) for name in ("ts", "of") if name in event} for event in events]
    sample = jsonl(tmp_path / "vats.jsonl", events)
    assert printed(sample).says("give each the 'ts' of its sample (as in 'of'), and --label gravity")


def test_two_sensors_with_records_of_their_own_are_no_labels(tmp_path, printed):
    rows = [
        {name: event[name] for name in ("vat", "ts", one)} for event in vats() if "warm" in event for one in ("warm", "acid")
    ]
    assert not printed(jsonl(tmp_path / "vats.jsonl", rows)).says("records of its own")
    one = [{name: event[name] for name in ("vat", "ts", "warm")} for event in vats() if "warm" in event]
    (tmp_path / "job.toml").unlink()
    assert not printed(jsonl(tmp_path / "one.jsonl", one)).says("records of its own")


def test_labels_that_match_no_sample_are_counted(tmp_path, printed):
    rows = [{"label" if name == "gravity" else name: value for name, value in event.items()} for event in found_late()]
    found = printed(jsonl(tmp_path / "vats.jsonl", rows))
    assert found.says("780 of 780 labels in records of their own have the time of no sample here", "if its 'ts' is not that")
    assert "labels came" not in found.text and 'wait = "' in found.text
    (tmp_path / "job.toml").unlink()
    right = printed(jsonl(tmp_path / "right.jsonl", vats()))
    assert right.source["label"] == "gravity" and not right.says("the time of no sample") and not right.says("of its own")


@pytest.mark.parametrize(("first", "wait"), [("labels", "1s"), ("samples", "27h")])
def test_where_no_label_comes_after_its_sample_wait_is_to_be_chosen(tmp_path, printed, first, wait):
    (tmp_path / "vats").mkdir()
    rows = vats(label="label")
    for name, late in (("labels", True), ("samples", False)):
        jsonl(tmp_path / "vats" / f"{name != first}-{name}.jsonl", [row for row in rows if ("label" in row) == late])
    found = printed(tmp_path / "vats")
    line = next(line for line in found.text.splitlines() if line.startswith(f'wait = "{wait}"'))
    assert ("# choose: no label" in line) == (first == "labels")
    for told in ("not guessed, choose: wait: no label of the sample comes after its sample", "[labels] still needs wait"):
        assert (told in found.out or found.says(told)) == (first == "labels"), told


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_samples_of_which_some_have_no_label_are_no_late_labels(tmp_path, printed, kind):
    rows = [row | {"label": "abc"[n % 3]} if n % 5 else row for n, row in enumerate(vats()) if "warm" in row]
    sample, names = tmp_path / f"vats.{kind}", ("vat", "ts", "warm", "acid", "label")
    lines = [",".join(names), *(",".join(str(row.get(name, "")) for name in names) for row in rows)]
    sample.write_text("\n".join(lines if kind == "csv" else map(json.dumps, rows)) + "\n")
    found = printed(sample)
    table = read_table(found.file)
    assert table["source"]["label"] == "label" and "labels" not in table
    assert found.says("guessed from 780 rows") and "no sample" not in found.file.read_text()


@pytest.mark.parametrize("label", ["mood", "activity"])
def test_labels_that_come_after_the_first_rows_are_found(tmp_path, printed, label):
    """More samples pass before the first label than init looks at to tell the columns; no label is learned in time."""
    samples = [(n, {"phone": "p1", "ts": START + n, "a": n % 7 / 7, "b": n % 5 / 5}) for n in range(2_600)]
    labels = [(n + 2_500, {"phone": "p1", "ts": START + n, label: "ab"[n % 2]}) for n in range(0, 1_500, 3)]
    found = printed(jsonl(tmp_path / "late.jsonl", [one for _, one in sorted(samples + labels, key=lambda one: one[0])]))
    table = read_table(found.file)
    assert table["source"]["label"] == label and table["source"]["fields"] == ["a", "b"]
    assert table["labels"]["wait"] == "53m"
    assert found.says("learners were not tried: no label of the sample is known before the last row that it could help")


def test_a_label_that_is_chosen_may_be_in_two_of_the_first_rows():
    """Such as what a technician finds."""
    rows = [event for event in vats(label="finding") if "warm" in event]
    rows[300:300] = [event for event in vats(label="finding") if "finding" in event][:2]
    found = late_labels(rows, None, "finding")
    assert found is not None and sum(found.alone) == 2
    assert late_labels(rows, None, None) is None


def test_samples_of_which_some_have_a_label_have_no_late_labels(tmp_path, printed):
    rows = [
        one | ({"activity": "up" if one["warm"] > 18 else "down"} if n % 3 else {}) | ({} if n % 19 else {"acid": None})
        for n, one in enumerate(event for event in vats() if "warm" in event)
    ]
    found = printed(jsonl(tmp_path / "some.jsonl", rows))
    assert found.source["label"] == "activity" and "labels" not in read_table(found.file)
    assert not found.says("records of their own") and not found.says("labels that come later")
