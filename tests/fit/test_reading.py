"""Reading recordings: the windows are a worker's, and recordings are told apart by a column, pauses or labels."""

import numpy as np
import pytest

from papers import recordings
from streamjobs.fit.inputs import Columns, inputs_of
from streamjobs.fit.reading import read
from streamjobs.fit.reports.report import described
from streamjobs.settings.load import settings_from
from tests.data import dataset
from tests.fit.people import jsonl, rows
from tests.reference.windows import windows

SETTINGS = {
    "source": {"topic": "imu", "fields": ["ax", "ay", "az"], "time": "ts", "label": "activity"},
    "window": {"length": "2s", "hop": "1s", "rate": 10.0},
    "learner": {"name": "rls", "task": "classification"},
}
WATCH = {
    "source": {"topic": "imu", "fields": ["ax", "ay", "az", "wx", "wy", "wz"], "time": "t", "label": "y"},
    "window": {
        "length": "2s",
        "hop": "1s",
        "rate": 50.0,
        "statistics": "rich",
        "mirror": {"field": "side", "when": 1, "columns": ["ax", "wy", "wz"]},
    },
    "learner": {"name": "rls", "task": "classification"},
}


def reading(path, table, settings=SETTINGS, pause=10.0, **columns):
    made = settings_from(settings)
    chosen = Columns(**{"key": None, "time": None, "recording": None, "by_pauses": False, **columns})
    inputs = inputs_of(made, [str(jsonl(path / "in.jsonl", table))], chosen)
    return read(made, inputs.sources, pause=pause, column=inputs.recording, lived=True)


def bouts(found):
    """The label of every recording of the first person, in order."""
    data = found.data
    mine = data.person == data.person.min()
    return [data.names[data.activity[mine & (data.recording == one)][0]] for one in np.unique(data.recording[mine])]


@pytest.fixture(scope="module")
def table():
    return list(rows(people=2))


def test_windows_are_those_of_the_definition(tmp_path, table):
    data = reading(tmp_path, table).data
    expected = []
    for key in dict.fromkeys((row["person"], row["recording"]) for row in table):
        mine = [row for row in table if (row["person"], row["recording"]) == key]
        X = np.array([[row[name] for name in ("ax", "ay", "az")] for row in mine])
        codes = np.array([[float(data.names.index(row["activity"]))] for row in mine])
        times = [row["ts"] for row in mine]
        made, _ = windows(times, X, codes, [3] * len(mine), length=2.0, hop=1.0, rate=10.0, gap=1.0)
        expected += [(features, int(label[0])) for _, features, label, _, _ in made]
    np.testing.assert_allclose(data.X, np.array([features for features, _ in expected]), rtol=1e-9, atol=1e-9)
    assert data.activity.tolist() == [label for _, label in expected]


def test_the_watch_read_by_the_command_is_the_watch_of_the_figures(tmp_path):
    watch, figures = dataset("seglearn_watch"), recordings.watch("rich", mirrored=True)
    people = np.unique(watch["key"])[:2]
    segments = np.concatenate([np.unique(watch["seg"][watch["key"] == one])[-4:] for one in people])
    first = np.isin(watch["seg"], segments)
    names = [str(name) for name in watch["columns"]]
    columns = {name: watch["X"][first, i].astype(float).tolist() for i, name in enumerate(names)}
    columns |= {name: watch[name][first].tolist() for name in ("key", "seg", "side", "t", "y")}
    found = reading(tmp_path, [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)], WATCH)
    mine = np.isin(figures.person, people) & np.isin(
        figures.recording % 1000, segments
    )  # segments have numbers of their own
    assert found.data.X.tobytes() == figures.X[mine].tobytes()
    assert [int(found.data.names[c]) for c in found.data.activity] == figures.activity[mine].tolist()
    assert found.data.person.tolist() == figures.person[mine].tolist()
    assert (np.diff(found.data.recording) != 0).tolist() == (np.diff(figures.recording[mine]) != 0).tolist()


def test_a_column_tells_recordings_apart_and_no_window_spans_two(tmp_path, table):
    found = reading(tmp_path, table)
    assert found.apart == "by column 'recording' and by changes of the label"
    assert bouts(found) == ["sit", "walk", "run"] * 2 and len(found.data.X) == 2 * 6 * 39


def test_a_recording_ends_where_the_label_changes(tmp_path, table):
    """As where the file is the person: else windows before the first label of an activity would be those of a day."""
    days = [{**row, "recording": "day"} for row in table]
    found = reading(tmp_path, days, recording="recording")
    assert bouts(found) == ["sit", "walk", "run"] * 2
    assert found.data.recordings[:7] == ["day", *(f"day/{n}" for n in range(2, 7)), "day"]


def test_new_people_have_windows_as_a_worker_cuts_them_where_recordings_follow_each_other(tmp_path, table):
    """Without a pause a window spans two recordings; recordings at the same times are served one by one."""
    close = [{**row, "ts": row["ts"] - 20.0 * row["recording"]} for row in table]
    found, worker = reading(tmp_path, close), reading(tmp_path, close, by_pauses=True).data
    assert found.lived is not None and worker.began is not None and len(found.lived.X) == len(found.data.X) + 2 * 5
    for name in ("X", "activity", "person", "recording", "began"):
        assert np.array_equal(getattr(found.lived, name), getattr(worker, name)), name
    assert (found.lived.names, found.lived.people) == (found.data.names, found.data.people)
    same = [{**row, "ts": row["ts"] - 60.0 * row["recording"]} for row in table]
    assert reading(tmp_path, same).lived is None and reading(tmp_path, close, by_pauses=True).lived is None
    assert np.array_equal(reading(tmp_path, same).data.X, found.data.X), "what teaches is the same"


@pytest.mark.slow
def test_without_a_column_pauses_and_labels_do(tmp_path, table):
    plain = [{name: value for name, value in row.items() if name != "recording"} for row in table]
    found = reading(tmp_path, plain)
    assert "pauses of more than 10 s" in found.apart and bouts(found) == ["sit", "walk", "run"] * 2
    still = [{**row, "activity": row["person"]} for row in plain]
    assert len(bouts(reading(tmp_path, still))) == 6
    assert len(bouts(reading(tmp_path, still, pause=30.0))) == 1
    joined = [{**row, "ts": 1_700_000_000.0 + i / 10} for i, row in enumerate(plain) if row["person"] == "p8"]
    assert bouts(reading(tmp_path, joined)) == ["sit", "walk", "run"] * 2
    assert bouts(reading(tmp_path, table, by_pauses=True)) == ["sit", "walk", "run"] * 2


def test_windows_without_a_label_are_counted_and_left_out(tmp_path, table):
    some = [{**row, "activity": None if row["recording"] == 2 else row["activity"]} for row in table]
    found = reading(tmp_path, some)
    assert found.unlabelled == 2 * 39 and len(found.data.X) == 2 * 5 * 39
    assert found.data.unlabelled is None  # no window of their recordings follows
    by_pauses = reading(tmp_path, some, by_pauses=True).data
    assert by_pauses.unlabelled is not None
    assert by_pauses.unlabelled.before.tolist() == [2 * 39] * 30 + [7 * 39] * 30  # the last ones of 39
    whole = reading(tmp_path, table).data
    assert np.array_equal(by_pauses.unlabelled.X[:30], whole.X[2 * 39 + 9 : 3 * 39])


def test_records_that_cannot_be_used_are_counted_and_the_first_is_reported(tmp_path, table):
    broken = [{**row, "ay": None} if i in (10, 20) else row for i, row in enumerate(table)]
    found = reading(tmp_path, broken)
    assert found.refused == {"missing_field": 2} and "offset 10" in found.refusal
    assert "left out: 2 records refused (missing_field)" in "\n".join(described(found, 24))
