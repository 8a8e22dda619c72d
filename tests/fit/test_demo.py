"""The demo's people are new to its population, and what it shows beside the worker is what the worker is bound to do."""

import json
import re
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from streamjobs.demo.board import Board, Control, Person, Score, controls, summary
from streamjobs.demo.job import demo_job
from streamjobs.demo.player import Player, key_of
from streamjobs.demo.recordings import EXERCISES, NEW, TEACHERS
from streamjobs.fit.recordings import arriving, arriving_at
from streamjobs.replay.engine import Replay

pytestmark = pytest.mark.slow  # what the worker sends for all of the demo's people


@pytest.fixture(scope="module")
def demo():
    """The job, its controls, and everything the worker would send."""
    job = demo_job({})
    records = sorted(Player("nowhere", "wrist", 20.0).records, key=lambda record: record.partition)
    said = []
    Replay(job).run(records, said.append, lambda tally: None)
    return job, controls(job, records), said


def test_nobody_who_is_played_taught_the_population(demo):
    job, beside, _ = demo
    assert set(TEACHERS).isdisjoint(NEW) and job.population.people == len(TEACHERS)
    assert sorted(beside) == [key_of(person) for person in NEW]
    assert job.population.names == sorted(EXERCISES)


def test_the_worker_says_of_every_window_what_the_protocol_says(demo):
    """The same frozen map, gated head and arrival of labels, by the code that reports and by the code that serves."""
    _, beside, said = demo
    predictions = [json.loads(output.value) for output in said if output.sink == "predictions"]
    assert not any(output.sink == "dlq" for output in said)
    found = {key: [one["predicted_class"] for one in predictions if one["key"] == key] for key in beside}
    assert found == {key: control.gated for key, control in beside.items()}
    assert all(one["labelled"] == [] for one in predictions if one["seq"] < 12)


def test_new_people_are_recognised_and_adapting_helps_them(demo):
    _, beside, said = demo
    board = Board(beside)
    for output in said:
        board.take(output.sink, json.loads(output.value) if output.sink == "predictions" else None, None)
    everything, half = board.total("all"), board.total("half")
    assert board.windows == board.expected == everything["windows"] > 1200
    assert everything["right"] > 0.88 * everything["windows"]
    assert everything["right"] > everything["frozen"] > everything["cold"] > everything["last"]
    assert half["right"] > half["frozen"] + 0.03 * half["windows"]
    assert everything["last"] < 0.12 * everything["windows"]  # a set is over before its first label comes


def test_drift_alarms_find_changes_of_exercise_without_labels(demo):
    _, beside, said = demo
    board = Board(beside)
    for output in said:
        board.take(output.sink, json.loads(output.value) if output.sink == "predictions" else None, None)
    found = [person.drift for person in board.people.values()]
    assert sum(drift.changes for drift in found) > 100
    noticed, false = sum(drift.noticed for drift in found), sum(drift.false for drift in found)
    assert noticed > 0.92 * sum(drift.changes for drift in found)
    assert false <= 10 * board.windows / 3600  # what the job states
    alarms = [json.loads(output.value) for output in said if output.sink == "alarms"]
    raised = [alarm for alarm in alarms if alarm["open"]]
    assert board.windows > 1000 and board.dead_letters == 0
    assert len(raised) >= noticed + false  # and those of a set like the one before
    assert all(alarm["false_alarms"] == "10/h" for alarm in raised)
    named = sum(bool(alarm["columns"]) for alarm in raised)
    assert named >= len(raised) - 2 * len(found), "a person's first two may come before deviations are known"


def test_labels_arrive_in_event_time_after_a_window_that_late_was_predicted():
    rows, label = arriving_at(np.array([0.0, 1.0, 2.0, 9.0, 10.0]), 2.0)
    assert list(zip(rows.tolist(), label.tolist(), strict=True)) == [
        (0, False),
        (1, False),
        (2, False),
        (0, True),
        (3, False),
        (1, True),
        (2, True),
        (4, False),
    ]
    for one, other in zip(arriving_at(1e9 + np.arange(50.0), 20.0), arriving(50, 20), strict=True):
        assert (one == other).all()


def test_the_table_has_five_columns_and_each_share_of_right_windows_is_explained_above_it():
    control = Control(["run"] * 2, ["run", "sit"], ["sit"] * 2, ["run", "sit"])
    board = Board({"ann": control}, {"ann": Person("ann", control)})
    board.people["ann"].all = Score(windows=4, right=4, frozen=3, cold=2, last=1)
    facts = {"seconds": 2.0, "speed": 10.0, "place": "here", "state": "34 KB", "shared": "39 KB", "job": "job.toml"}
    text = StringIO()
    Console(file=text, width=80).print(summary(board, facts))
    legend, _, table = text.getvalue().partition("Windows predicted right")
    heads, row = (re.split(r" {2,}", line.strip()) for line in table.splitlines()[1:3])
    assert heads == ["person", "windows", "right", "fixed", "last label"]
    assert row == ["ann", "4", "100 %", "75 %", "25 %"]
    assert all(f"\n{name}: " in legend for name in heads[2:])
